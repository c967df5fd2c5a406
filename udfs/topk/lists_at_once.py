"""A list for each of many rows of counts, by the layers of err: see joint.md, "Many lists"."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.odds import Coins, Odds
from dp_sql.udfs.slices import in_rectangles
from dp_sql.udfs.topk.ranking import Ints

# These decide the speed, never the distribution.
_MOST_ITEMS = 1 << 12
_MOST_GAP = 1 << 9
_MOST_CELLS = 1 << 14
_ROWS, _CELLS = 1 << 14, 1 << 18  # so many are drawn from at once
_FACTOR_BITS = 62
_LEAST_RATE = Fraction(1, 1 << 40)  # so that numbers fit 64 bits


def draw_each(
    samples: tuple[Callable[..., list[int]], Callable[..., Ints]],
    n_cells: int,
    counts: Ints,
    *given: Any,
) -> Ints:
    """Draw from each row of counts, all independently, by one of two functions in `samples`.

    Both take counts, k, rate, cut and draws, and have the same distribution. The first draws from
    one row, the second from many with few layers; it makes `n_cells` numbers for each layer.
    """
    (n, d), (k, rate, cut, _) = counts.shape, given
    picks, spread = np.empty((n, k), np.int64), counts.max(axis=1) - counts.min(axis=1)
    cells = (np.minimum(spread, min(cut, _MOST_GAP)) + 1) * n_cells
    is_small = (spread < _MOST_GAP) & (cells <= _MOST_CELLS)
    is_small &= d <= _MOST_ITEMS and rate >= _LEAST_RATE
    for i in np.flatnonzero(~is_small).tolist():
        picks[i] = samples[0](counts[i], *given)
    small = np.flatnonzero(is_small)
    cells = np.maximum(cells, np.maximum(spread + 1, d))[small]
    for part in in_rectangles(cells, _ROWS, _CELLS):
        picks[small[part]] = samples[1](counts[small[part]], *given)
    return picks


def draw_lists(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> Ints:
    """Draw a list for each row of counts, shape (rows, items), with probability ~ q**min(err, cut).

    Returns the positions of k items in each row, best first, shape (rows, k).
    """
    n, (gaps, places, last) = len(counts), sort_rows(counts, cut)
    choices = n_choices(gaps, k, last)
    layers, missing = np.empty(n, np.int64), np.arange(n)
    while missing.size:
        drawn, fair = propose_layers(choices[missing], last[missing], rate, draws)
        layers[missing[fair]] = drawn[fair]
        missing = missing[~fair]
    spots = draws.places(choices[np.arange(n), layers].ravel()).reshape(n, k) + np.arange(k)
    return shuffled(places, spots)


def sort_rows(counts: Ints, cut: int) -> tuple[Ints, Ints, Ints]:
    """Sort each row: how far its items are behind the best, where they are, and its last layer."""
    d = counts.shape[1]
    keys = np.sort((counts.max(axis=1, keepdims=True) - counts) * d + np.arange(d), axis=1)
    gaps, places = np.divmod(keys, d)
    return gaps, places, np.minimum(gaps[:, -1], min(cut, _MOST_GAP))


def n_choices(gaps: Ints, k: int, last: Ints) -> Ints:
    """Count the items left for each rank at err <= layer, shape (rows, layers, k)."""
    (n, d), width = gaps.shape, int(gaps.max()) + 1
    rows = np.arange(n)[:, np.newaxis]
    per_gap = np.bincount((rows * width + gaps).ravel(), minlength=n * width)
    within = per_gap.reshape(n, width).cumsum(axis=1)
    layers = np.arange(int(last.max()) + 1)
    near = np.minimum(layers[:, np.newaxis] + gaps[:, np.newaxis, :k], width - 1)
    choices: Ints = within[rows[:, np.newaxis], near]
    choices[layers >= last[:, np.newaxis]] = d
    choices -= np.arange(k)
    return choices


def propose_layers(
    choices: Ints, last: Ints, rate: Fraction, draws: Draws
) -> tuple[Ints, NDArray[np.bool_]]:
    """Propose a layer for each row; the second array says which of them count.

    A layer before the last one weighs q**layer times its number of lists, which is the product of
    its choices; the last one weighs as much as all from there on, 1 / (1 - q) times that.
    """
    layers = np.arange(choices.shape[1])
    ends = layers == last[:, np.newaxis]
    times = np.where(layers < last[:, np.newaxis], 1, at_end(rate) * ends)
    drawn = draws.choose_powers(layers[np.newaxis], rate, times, *in_factors(choices))
    return drawn, are_kept(drawn == last, rate, draws)


def in_factors(numbers: Ints) -> list[Ints]:
    """Multiply neighbours on the last axis, so many that products fit 64 bits."""
    k = numbers.shape[-1]
    group = min(_FACTOR_BITS // int(numbers.max()).bit_length(), k)
    factors = np.multiply.reduceat(numbers, np.arange(0, k, group), axis=-1)
    return [factors[..., i] for i in range(factors.shape[-1])]


def at_end(rate: Fraction) -> int:
    """A whole number above 1 / (1 - q), as that is below 1 + 1/rate."""
    return 1 - (-rate.denominator // rate.numerator)


def are_kept(are_ends: NDArray[np.bool_], rate: Fraction, draws: Draws) -> NDArray[np.bool_]:
    """Keep ends with probability 1 / (1 - q) / at_end each, and all others for sure."""
    bound, kept = at_end(rate), ~are_ends
    coin = Coins([Odds((((bound - 1, 0), (-bound, 1)), ((1, 0),)), rate)])
    kept[are_ends] = draws.flip_each(coin, int(are_ends.sum()))[:, 0]
    return kept


def shuffled(places: Ints, spots: Ints) -> Ints:
    """Shuffle each row as `sequence` does: at position i, the entry at spots[i] >= i is taken."""
    rows, picks = np.arange(len(places)), np.empty_like(spots)
    for i in range(spots.shape[1]):
        picks[:, i] = places[rows, spots[:, i]]
        places[rows, spots[:, i]] = places[:, i]
    return picks

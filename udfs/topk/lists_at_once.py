"""A list for each of many rows of counts, by the layers of err: see joint.md, "Many lists"."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Coins, Draws, Odds
from dp_sql.udfs.topk.ranking import Ints

# These decide the speed, never the distribution.
_MOST_ITEMS = 1 << 12
_MOST_GAP = 1 << 10
_MOST_CHOICES = 1 << 13
_FACTOR_BITS = 62
_LEAST_RATE = Fraction(1, 1 << 40)  # so that numbers fit 64 bits


def n_layers(counts: Ints, k: int, rate: Fraction, cut: int) -> Ints:
    """Count the layers of each row, or 0 where it is to be drawn on its own."""
    spread = counts.max(axis=1) - counts.min(axis=1)
    layers = np.minimum(spread, min(cut, _MOST_GAP)) + 1
    is_small = (spread < _MOST_GAP) & (layers * k <= _MOST_CHOICES)
    is_small &= counts.shape[1] <= _MOST_ITEMS and rate >= _LEAST_RATE
    return np.where(is_small, layers, 0)


def draw_lists(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> Ints:
    """Draw a list for each row of counts, shape (rows, items), with probability ~ q**min(err, cut).

    Returns the positions of k items in each row, best first, shape (rows, k).
    """
    n, d = counts.shape
    keys = np.sort((counts.max(axis=1, keepdims=True) - counts) * d + np.arange(d), axis=1)
    gaps, places = np.divmod(keys, d)
    last = np.minimum(gaps[:, -1], min(cut, _MOST_GAP))  # the layer from which all have all lists
    choices = _choices(gaps, k, last)
    layers, missing = np.empty(n, np.int64), np.arange(n)
    while missing.size:
        drawn, fair = propose_layers(choices[missing], last[missing], rate, draws)
        layers[missing[fair]] = drawn[fair]
        missing = missing[~fair]
    spots = draws.places(choices[np.arange(n), layers].ravel()).reshape(n, k) + np.arange(k)
    return _shuffled(places, spots)


def _choices(gaps: Ints, k: int, last: Ints) -> Ints:
    """Count the items left for each rank at err <= layer, shape (rows, layers, k)."""
    (n, d), width = gaps.shape, int(gaps.max()) + 1
    rows = np.arange(n)[:, np.newaxis]
    within = np.bincount((rows * width + gaps).ravel(), minlength=n * width)
    within = within.reshape(n, width).cumsum(axis=1)
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
    _, n_all, k = choices.shape
    group = min(_FACTOR_BITS // int(choices.max()).bit_length(), k)  # factors in one number
    factors = np.multiply.reduceat(choices, np.arange(0, k, group), axis=2)
    bound = 1 - (-rate.denominator // rate.numerator)  # 1 + 1/rate > 1 / (1 - q)
    layers = np.arange(n_all)
    ends = layers == last[:, np.newaxis]
    times = np.where(layers < last[:, np.newaxis], 1, bound * ends)
    more = [factors[:, :, i] for i in range(factors.shape[2])]
    drawn = draws.choose_powers(layers[np.newaxis], rate, times, *more)
    fair = drawn < last
    at_end = np.flatnonzero(~fair)
    coin = Coins([Odds((((bound - 1, 0), (-bound, 1)), ((1, 0),)), rate)])
    fair[at_end] = draws.flip_each(coin, at_end.size)[:, 0]
    return drawn, fair


def _shuffled(places: Ints, spots: Ints) -> Ints:
    """Shuffle each row as `sequence` does: at position i, the entry at spots[i] >= i is taken."""
    rows, picks = np.arange(len(places)), np.empty_like(spots)
    for i in range(spots.shape[1]):
        picks[:, i] = places[rows, spots[:, i]]
        places[rows, spots[:, i]] = places[:, i]
    return picks

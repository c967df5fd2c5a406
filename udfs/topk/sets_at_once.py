"""A set for each of many rows of counts, by the layers of the gap: see subset.md, "Many sets"."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.topk.lists_at_once import (
    are_kept,
    at_end,
    in_factors,
    n_choices,
    shuffled,
    sort_rows,
)
from dp_sql.udfs.topk.ranking import Ints


def draw_sets(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> Ints:
    """Draw a set for each row of counts, shape (rows, items), with probability ~ q**min(gap, cut).

    Returns the positions of k items in each row, 1 < k < items, ascending, shape (rows, k).
    """
    gaps, places, last = sort_rows(counts, cut)
    free, lead = n_choices(gaps, k, last) - 1, gaps[:, k] - gaps[:, k - 1]
    ranks, missing = np.empty((len(counts), k), np.int64), np.arange(len(counts))
    while missing.size:
        of_rows = free[missing], last[missing], lead[missing]
        drawn, fair = propose_sets(counts.shape[1], *of_rows, rate, draws)
        ranks[missing[fair]] = drawn[fair]
        missing = missing[~fair]
    return np.sort(places[np.arange(len(counts))[:, np.newaxis], ranks], axis=1)


def propose_sets(
    d: int, free: Ints, last: Ints, lead: Ints, rate: Fraction, draws: Draws
) -> tuple[Ints, NDArray[np.bool_]]:
    """Propose a set of ranks for each row, ascending; the second array says which of them count.

    The outcomes are the families of each layer before the last one, all sets, and the k best.
    """
    (n, n_layers, k), bound = free.shape, at_end(rate)
    powers = np.repeat(np.arange(n_layers), k) + lead[:, np.newaxis]
    ends = np.stack([last + lead, np.zeros(n, np.int64)], axis=1)
    times = np.ones((n, powers.shape[1] + 2), np.int64)
    times[:, :-2] = np.repeat(np.arange(n_layers) < last[:, np.newaxis], k, axis=1)
    times[:, -2:] = bound
    numbers = in_factors(_n_sets(d, free))
    chosen = draws.choose_powers(np.hstack([powers, ends]), rate, times, *numbers)
    is_family, are_all = chosen < n_layers * k, chosen == n_layers * k
    layer, family = np.divmod(np.where(is_family, chosen, 0), k)
    out = np.where(is_family, family, d - 1)[:, np.newaxis]  # the best rank that is left out
    place, order = np.arange(k), np.arange(d)
    left = free[np.arange(n), layer, family][:, np.newaxis]
    choices = np.where(place < out, 1, left - (place - out))
    choices[are_all] = d - place
    order = order + (order >= out)  # without this rank
    order[:, -1] = out[:, 0]
    spots = draws.places(choices.ravel()).reshape(n, k) + place
    ranks = np.sort(shuffled(order, spots), axis=1)
    fair = are_kept(~is_family, rate, draws)
    return ranks, fair & ~(are_all & (ranks == place).all(axis=1))


def _n_sets(d: int, free: Ints) -> Ints:
    """Write k! times the number of sets of each outcome as k factors, shape (rows, outcomes, k)."""
    n, n_layers, k = free.shape
    place, family = np.arange(k), np.arange(k)[:, np.newaxis]
    own = np.maximum(free[..., np.newaxis] - place, 0)  # of the k - family ranks after it
    own = np.where(place < k - family, own, 2 * k - family - place)
    ends = np.broadcast_to(np.stack([d - place, k - place]), (n, 2, k))
    return np.concatenate([own.reshape(n, n_layers * k, k), ends], axis=1)

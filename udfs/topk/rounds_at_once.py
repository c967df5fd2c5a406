"""Rounds of the exponential mechanism for each of many rows of scores: see em_peel.md."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.slices import in_rectangles
from dp_sql.udfs.topk.ranking import Ints

# These decide the speed, never the distribution.
_MOST_SCORES = 1 << 9
_ROWS, _CELLS = 1 << 14, 1 << 18  # so many are drawn from at once


def rows_of(sizes: Ints) -> Iterator[tuple[Ints, bool]]:
    """Part rows into those of similar sizes, and say whether to draw from them at once.

    Rows without scores are left out.
    """
    many = np.flatnonzero(sizes > _MOST_SCORES)
    if many.size:
        yield many, False
    few = np.flatnonzero((sizes > 0) & (sizes <= _MOST_SCORES))
    for part in in_rectangles(sizes[few], _ROWS, _CELLS):
        yield few[part], True


def peel_each(scores: Ints, n_picks: Ints, rate: Fraction, cuts: Ints, draws: Draws) -> Ints:
    """Take outcomes from each row, one after the other, all rows independently.

    Each round takes one with probability ~ q**min(shortfall, cut) among those that are left.

    Args:
        scores: shape (rows, outcomes), below 2^63; below 0 where there is no outcome.
        n_picks: how many to take from each row, at most as many as it has outcomes.
        rate: q = exp(-rate).
        cuts: of each row, below 2^63.
        draws: where randomness comes from.

    Returns:
        The places of outcomes in the order in which they were taken, and -1 after them, shape
        (rows, largest of n_picks).
    """
    left, picks = scores.copy(), np.full((len(scores), int(n_picks.max())), -1)
    for i in range(picks.shape[1]):
        rows = np.flatnonzero(n_picks > i)
        own = left[rows]
        is_free = own >= 0
        gaps = np.where(is_free, own.max(axis=1, keepdims=True) - own, 0)
        gaps = np.minimum(gaps, cuts[rows, np.newaxis])
        picks[rows, i] = draws.choose_powers(gaps, rate, is_free.astype(np.int64))
        left[rows, picks[rows, i]] = -1
    return picks

"""One round of peeling: which free rank is next. The proofs are in em_peel.md and pnf_peel.md."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.permute_and_flip import Rejection, block_width, is_discarded, with_rejections
from dp_sql.udfs.topk.ranking import Ints


@dataclass(frozen=True)
class Round:
    """One round: the free ranks, in blocks of similar shortfall; the last block is the tail.

    gaps: largest count minus the item's count, nondecreasing; every rank before the tail.
    blocks: (start, low, high): ranks low, ..., high - 1, with shortfalls of at least `start`.
    """

    gaps: Ints
    first: int  # gap of the best free item
    cut: int
    taken: Sequence[int]  # ranks that are not free, ascending
    blocks: Sequence[tuple[int, int, int]]
    odds: Odds = field(repr=False)  # the blocks, each with weight (free ranks in it) * q**start

    def shortfall(self, rank: int) -> int:
        """Return min(shortfall, cut) of a free rank."""
        if rank >= len(self.gaps):
            return self.cut
        return min(int(self.gaps[rank]) - self.first, self.cut)

    def attempt(self, draws: Draws, rejections: Sequence[int] = ()) -> int | Rejection | None:
        """Propose a free rank, or a rejection, as `Proposals` says."""
        j = draws.choose(with_rejections(self.odds, rejections))
        if j >= len(self.blocks):
            return Rejection(j - len(self.blocks))
        start, low, high = self.blocks[j]
        rank = _nth_free(self.taken, low, draws.below(_n_free(self.taken, low, high)))
        return None if is_discarded(self.shortfall(rank) - start, self.odds, draws) else rank


def sort_ranks(gaps: Ints, d: int, taken: Sequence[int], rate: Fraction, cut: int) -> Round:
    """Sort the free ranks of 0, ..., d - 1 into blocks; from `cut` on all shortfalls are equal."""
    first = int(gaps[_nth_free(taken, 0, 0)])
    # Nothing sorted is further off than its last item, so the blocks may end there.
    furthest = min(cut, int(gaps[-1]) - first + 1)
    starts = [*range(0, furthest, block_width(rate))]
    marks = np.array([*starts, furthest], dtype=np.int64) + first
    ends: list[int] = gaps.searchsorted(marks, "left").tolist()
    blocks, weights = [], []
    for start, low, high in zip([*starts, cut], ends, [*ends[1:], d], strict=True):
        if size := _n_free(taken, low, high):
            blocks.append((start, low, high))
            weights.append(((size, start),))
    return Round(gaps, first, cut, taken, blocks, Odds(weights, rate))


def _n_free(taken: Sequence[int], low: int, high: int) -> int:
    """Count the ranks low, ..., high - 1 that are not taken."""
    return high - low - bisect_left(taken, high) + bisect_left(taken, low)


def _nth_free(taken: Sequence[int], low: int, n: int) -> int:
    """Find the n-th rank from `low` on, counted from 0, that is not taken."""
    start = bisect_left(taken, low)
    # The key is the number of free ranks from `low` to taken[i]; it never falls as i grows.
    after = range(start, len(taken))
    return low + n + bisect_right(after, n, key=lambda i: taken[i] - low - (i - start))

"""The k items as a set: the exponential mechanism over all sets, by the gap at their border.

A set weighs q**min(gap, cut), where gap is the largest count left out minus the smallest count
listed; it is negative where the set is right by a margin. The proof is in subset.md.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.geometric import geometric
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.topk import joint
from dp_sql.udfs.topk.lists import Staircase, fit_staircase, sequence
from dp_sql.udfs.topk.lists_at_once import draw_each
from dp_sql.udfs.topk.ranking import Ints, Ranking, rank
from dp_sql.udfs.topk.sets_at_once import draw_sets
from dp_sql.udfs.topk.template import public_domain

_LOG_BITS = 28
_LOG2_E = 94548  # 2**16 * log2(e), rounded down
_UNIT_BITS = 30
_CELLS = 1 << 18  # how many bounds are computed at a time; decides the speed only


@dataclass(frozen=True)
class Sets:
    """All sets of k items except the k best, by layers of the gap, as `Layers`.

    ranking: of k + 1 items, ties by position. Family i = 0, ..., k - 1 has the sets whose best item
    left out has rank i.
    """

    ranking: Ranking
    k: int

    @property
    def cut(self) -> int:
        """The layer from which all gaps count as equal."""
        return self.ranking.cut

    @property
    def lead(self) -> int:
        """How far the worst of the k best is above the best of the others."""
        return int(self.ranking.gaps[self.k] - self.ranking.gaps[self.k - 1])

    def n_free(self, layers: Sequence[int]) -> Ints:
        """Count the ranks after i that are near enough to be listed, shape (len(layers), k)."""
        return self.ranking.n_choices(layers)[:, : self.k] - 1

    def bounds(self, layers: Sequence[int]) -> tuple[Ints, list[int]]:
        """Bound each family at gap <= layer, comb(n_free, k - i) sets, by units * 2**shift.

        Shapes (len(layers), k) and (len(layers),).
        """
        free, picked = self.n_free(layers), np.arange(self.k, 0, -1)
        bits = min(_LOG_BITS, 57 - self.ranking.n_items.bit_length())
        logs = np.where(free < picked, -1, log_comb_above(np.maximum(free, picked), picked, bits))
        shifts = np.maximum((logs.max(axis=1) >> bits) - _UNIT_BITS, 0)
        # 2**x <= 1 + x for x in [0, 1]; without a shift, a whole number below the bound is enough.
        ones = (logs & (1 << bits) - 1 | 1 << bits) << _UNIT_BITS - bits
        right = np.minimum(_UNIT_BITS - (logs >> bits) + shifts[:, np.newaxis], 62)
        units = (ones >> right) + (shifts > 0)[:, np.newaxis]
        return np.where(logs < 0, 0, units), shifts.tolist()

    def n_lists(self, layers: Sequence[int]) -> list[int]:
        """Bound the number of sets with gap <= layer from above, for layers before the cut."""
        found, chunk = [], max(1, _CELLS // self.k)
        for start in range(0, len(layers), chunk):
            units, shifts = self.bounds(layers[start : start + chunk])
            totals = units.sum(axis=1).tolist()
            found += [total << shift for total, shift in zip(totals, shifts, strict=True)]
        return found

    def all_lists(self) -> int:
        """Count all sets of k items."""
        return math.comb(self.ranking.n_items, self.k)


@dataclass(frozen=True)
class SetProposals:
    """Proposals of sets, as sets of positions; `odds` are the k best, then the steps."""

    sets: Sets
    stairs: Staircase
    odds: Odds

    def attempt(self, draws: Draws) -> frozenset[int] | None:
        """Propose a set with weight q**min(gap, cut), or None when it must be repeated."""
        sets, stairs = self.sets, self.stairs
        step = draws.choose(self.odds)
        if not step:
            return self._items(range(sets.k))
        start = stairs.starts[step - 1]
        layer = start + geometric(draws, stairs.odds.rate, sets.cut - start)
        place = bisect_right(stairs.starts, layer)
        spot = draws.below(stairs.heights[place - 1])
        if layer == sets.cut:
            if spot >= sets.all_lists():
                return None
            d = sets.ranking.n_items
            picks = frozenset(sequence(range(d, d - sets.k, -1), draws))
            return None if picks == self._items(range(sets.k)) else picks
        last = stairs.starts[place] - 1 if place < len(stairs.starts) else sets.cut - 1
        (units,), (shift,) = sets.bounds([last])
        ends = units.cumsum()
        i = int(ends.searchsorted(min(spot >> shift, int(ends[-1])), "right"))
        if i == sets.k:
            return None
        free, picked = int(sets.n_free([layer])[0, i]), sets.k - i
        if spot - (int(ends[i] - units[i]) << shift) >= math.comb(free, picked):
            return None
        later = sequence(range(free, free - picked, -1), draws)
        return self._items([*range(i), *(i + 1 + j for j in later)])

    def _items(self, ranks: Sequence[int]) -> frozenset[int]:
        return frozenset(self.sets.ranking.places[list(ranks)].tolist())


def propose_sets(counts: Ints, k: int, rate: Fraction, cut: int) -> SetProposals:
    """Prepare the proposals, with q = exp(-rate), the cut given and k < d."""
    sets = Sets(rank(counts, k + 1, cut), k)
    stairs = fit_staircase(sets, rate)
    steps = [[(n, a + sets.lead) for n, a in weight] for weight in stairs.odds.weights]
    return SetProposals(sets, stairs, Odds([((1, 0),), *map(tuple, steps)], rate))


def log_comb_above(n: Ints, r: Ints, bits: int) -> Ints:
    """Round 2**bits * log2(comb(n, r)) up, for 1 <= r <= n; Robbins' bounds of factorials."""
    left = np.maximum(n - r, 1)
    twice = (2 * n + 1) * (log_below(n, bits) + 5)
    twice -= (2 * r + 1) * log_below(r, bits) + (2 * left + 1) * log_below(left, bits)
    twice -= (53 << bits) // 20  # log2(2 pi) = 2.651...
    bound: Ints = np.maximum((twice >> 1) + 1, 0)
    return bound


def log_below(n: Ints, bits: int) -> Ints:
    """Round 2**bits * log2(n) down, by less than 5, for 1 <= n < 2**32 and bits <= 28."""
    whole = np.searchsorted(1 << np.arange(32), n, "right") - 1
    x = n << 31 - whole
    high, low = x >> 16, x & 0xFFFF
    # log2(1 + z) >= log2(e) (z - z**2 / 2), here with z = low / 2**16 / high < 2**-15.
    part = _log_table()[high - (1 << 15)] + (low * _LOG2_E // high >> 32 - _LOG_BITS) - 1
    log: Ints = (whole << bits) + (part >> _LOG_BITS - bits)
    return log


@lru_cache(maxsize=1)
def _log_table() -> Ints:
    """Round 2**28 * log2(x / 2**15) down, by less than 2, for x = 2**15, ..., 2**16 - 1."""
    x = np.arange(1 << 15, 1 << 16, dtype=np.uint64) << np.uint64(16)
    log: Ints = np.zeros(len(x), dtype=np.int64)
    for _ in range(_LOG_BITS):  # the digits of a logarithm in [0, 1), by squaring
        x = x * x >> np.uint64(31)
        over = x >> np.uint64(32)
        x >>= over
        log = 2 * log + over.astype(np.int64)
    return log


def subset(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> list[int]:
    """Choose a set of k items with nearly the largest counts; their positions increase.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: Shekelyan and Loukides 2022, with gaps that are not cut off at 0; see subset.md.
    """
    if k == 1:
        return joint.joint(counts, k, rate, cut, draws)
    if k == len(counts):
        return list(range(k))
    proposals = propose_sets(counts, k, rate, cut)
    while (picks := proposals.attempt(draws)) is None:
        pass
    return sorted(picks)


def subset_each(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> Ints:
    """Draw `subset` for each row of counts, all independently; rows of similar counts at once."""
    if k == 1:
        return joint.joint_each(counts, k, rate, cut, draws)
    if k == counts.shape[1]:
        return np.tile(np.arange(k), (len(counts), 1))
    return draw_each((subset, draw_sets), k * k, counts, k, rate, cut, draws)


SUBSET = public_domain(
    "a set of k items, by the exponential mechanism over all sets", subset, joint.loss,
    joint.rate_of, math.comb, is_set=True, sample_each=subset_each,
)  # fmt: skip

"""The odds of one choice, as sums of powers of one number, and enclosures of them.

Draws nothing. The argument for every step is in exact_sampling.md.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.intervals import ONE, powers_of, times

Weight = tuple[tuple[int, int], ...]
"""The sum of N * q**a over its terms (N, a), with q = exp(-rate), N any integer, a >= 0. Terms may
be negative, their sum may not."""

WORD_BITS = 64
_GUARD_BITS = 32
_Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Odds:
    """What one choice is made from: outcome j has weight `weights[j]` at q = exp(-rate), rate > 0.

    Every weight is >= 0 as a whole, and at least one is > 0.
    """

    weights: Sequence[Weight]
    rate: Fraction
    _sums: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict, repr=False)

    def decide(self, prefix: int, width: int) -> int | None:
        """Find the outcome that all random tapes beginning with these bits have in common.

        `prefix` is the tape's first `width` bits; None while they still straddle a boundary.
        """
        sums = self._sums.get(width)
        if sums is None:
            sums = self._sums[width] = _cumulative_sums(self, width + _GUARD_BITS)
        lows, highs = sums
        # The tape times the total weight lies in [at_least, at_most].
        at_least = prefix * lows[-1] >> width
        at_most = ((prefix + 1) * highs[-1] >> width) + 1
        last = len(lows) - 1
        outcome = bisect_right(highs, at_least, 0, last)
        return outcome if outcome == last or at_most <= lows[outcome] else None

    @cached_property
    def edges(self) -> tuple[_Words, _Words]:
        """Part the first words of tapes, for each outcome but the last.

        Those below the first number lead to it or one before, those above the second beyond it.
        """
        powers = (a for weight in self.weights for _, a in weight)
        # Coins of one rate share the powers of few precisions.
        n_words = 2 + max(powers, default=0).bit_length() // WORD_BITS
        lows, highs = _cumulative_sums(self, WORD_BITS * n_words + _GUARD_BITS)
        starts = [(low << WORD_BITS) // highs[-1] for low in lows[:-1]]
        ends = [-((-high << WORD_BITS) // max(lows[-1], 1)) for high in highs[:-1]]
        last = (1 << WORD_BITS) - 1
        lasts = [min(max(end - 1, 0), last) for end in ends]
        return np.array([min(n, last) for n in starts], np.uint64), np.array(lasts, np.uint64)

    def distribution(self, bits: int) -> list[tuple[Fraction, Fraction]]:
        """Enclose the probability of every outcome: (at least, at most), to about `bits` bits."""
        lows, highs = _cumulative_sums(self, bits + _GUARD_BITS)
        before = zip([0, *lows[:-1]], [0, *highs[:-1]], strict=True)
        return [
            (
                Fraction(max(low - high_before, 0), highs[-1]),
                min(Fraction(high - low_before, lows[-1]), Fraction(1)),
            )
            for low, high, (low_before, high_before) in zip(lows, highs, before, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Coins:
    """Coins that are flipped often: of the two outcomes of each of these odds, 1 is heads."""

    odds: Sequence[Odds]

    @cached_property
    def edges(self) -> tuple[_Words, _Words]:
        """Part the first words of tapes: tails below the first number, heads above the second."""
        starts, lasts = zip(*(one.edges for one in self.odds), strict=True)
        return np.concatenate(starts), np.concatenate(lasts)


def _cumulative_sums(odds: Odds, bits: int) -> tuple[list[int], list[int]]:
    """Enclose the running sums of the weights, on one common binary scale."""
    powers, weights = powers_of(odds.rate, bits), odds.weights
    terms = sorted([(a, n, j) for j, weight in enumerate(weights) for n, a in weight if n])
    if not any(n > 0 for _, n, _ in terms):
        raise ValueError("a choice needs a positive weight")
    found = []
    at, power, gap, step = 0, ONE, 0, ONE
    for a, n, j in terms:
        if a != at:
            if a - at != gap:  # blocks have equal gaps
                gap, step = a - at, powers.of(a - at)
            power, at = times(power, step, bits), a
        low, high, e = power
        if n != 1:
            size, excess = abs(n), n.bit_length() - bits
            if excess > 0:
                low, high, e = low * (size >> excess), high * -(-size >> excess), e + excess
            else:
                low, high = low * size, high * size
            low, high = (low, high) if n > 0 else (-high, -low)
        found.append((low, high, e, j))
    scale = max([high.bit_length() + e for _, high, e, _ in found]) - bits
    lows, highs = [0] * len(weights), [0] * len(weights)
    for low, high, e, j in found:
        if e < scale:
            lows[j] += low >> scale - e
            highs[j] -= -high >> scale - e
        else:
            lows[j] += low << e - scale
            highs[j] += high << e - scale
    if min(highs) < 0:
        raise ValueError("a choice needs weights that are not negative")
    return [*accumulate([max(low, 0) for low in lows])], [*accumulate(highs)]

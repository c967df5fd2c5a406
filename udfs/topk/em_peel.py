"""Peeling exponential mechanism for the top k. Knows counts; never items, SQL or budgets.

Takes k items one after the other, each by the exponential mechanism at epsilon/k on the items
not yet taken: P(x) proportional to q**min(shortfall, cut), where the shortfall is against the
largest count not yet taken. The proofs of the law and of the privacy are in em_peel.md.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from udfs.exact import Draws, Odds, ln_enclosure, secret_draws
from udfs.flip import Clock
from udfs.spec import Loss, Udf, in_words
from udfs.topk.ranking import Ints, check_counts, check_public, rank

_TAIL_BITS = 40
_TAIL = Fraction(1, 1 << _TAIL_BITS)
_EVERYTHING = 1 << 62


def topk(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items
            that nobody has are in it, as zeros.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.

    Returns:
        Their positions: k different integers in 0, ..., d - 1.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: McSherry and Talwar 2007, composed k times; the score is monotone, see em_peel.md.
    """
    return peel(counts, k, epsilon, take, secret_draws())


def error_bound(d: int, k: int, epsilon: Fraction, beta: Fraction) -> int:
    """Bound every listed item's shortfall as em_peel.md proves it for every data set.

    Args:
        d: items in the public domain.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.
        beta: probability with which the bound may fail, in [2**-40, 1).
    """
    check_public(d, k, epsilon)
    return error_bound_at(d, k, _rate(k, epsilon), beta)


def error_bound_at(d: int, k: int, rate: Fraction, beta: Fraction) -> int:
    """Bound every listed item's shortfall when each round is drawn at this rate."""
    if not isinstance(beta, Fraction):
        raise TypeError("beta must be a Fraction")
    if not _TAIL <= beta < 1:
        raise ValueError("beta must lie between 2**-40 and 1")
    _, high = ln_enclosure(Fraction(d * k, beta), 64)
    return max(0, -(-high // rate) - 1)


def accuracy(d: int, k: int, epsilon: Fraction, beta: Fraction) -> str:
    """Say what a list is worth, from public numbers only.

    A beta below 2**-40 is read as 2**-40: items beyond the cut are all equally likely.
    """
    check_public(d, k, epsilon)
    return accuracy_at(d, k, _rate(k, epsilon), beta, f"epsilon = {in_words(epsilon)}")


def accuracy_at(d: int, k: int, rate: Fraction, beta: Fraction, price: str) -> str:
    """Say what a list is worth when each round is drawn at this rate."""
    beta = max(beta, _TAIL)
    return (
        f"with probability at least {in_words(1 - beta)} no item is listed whose count is more "
        f"than {error_bound_at(d, k, rate, beta)} below the count that belongs at its rank "
        f"(d = {d}, k = {k}, {price})"
    )


def loss(k: int, epsilon: Fraction) -> Loss:
    """Price one run: k exponential mechanisms of range epsilon/k, see em_peel.md."""
    bounded = epsilon * (2 - Fraction(1, k))
    return Loss(epsilon, rho=epsilon**2 * Fraction(1, 8 * k), bounded_range=bounded)


def _rate(k: int, epsilon: Fraction) -> Fraction:
    """Price one unit of shortfall: q = exp(-rate). One round gets epsilon/k; it is monotone."""
    return epsilon * Fraction(1, k)


def _cut(d: int, k: int, rate: Fraction) -> int:
    """Choose a public cut with q**cut * d * k <= 2**-40, by bit lengths (ln 2 < 7/10)."""
    return -(-7 * ((d * k).bit_length() + _TAIL_BITS) // (10 * rate))


def _width(rate: Fraction) -> int:
    """Choose how many shortfalls share a block. Decides the speed, never the law."""
    return max(1, rate.denominator // rate.numerator)


def peel(
    counts: Ints,
    k: int,
    epsilon: Fraction,
    take: "Callable[[Round, Draws], int]",
    draws: Draws,
) -> list[int]:
    """Check the arguments and take k items, each round by `take` at epsilon/k."""
    check_counts(counts)
    check_public(len(counts), k, epsilon)
    return peel_at(counts, k, _rate(k, epsilon), take, draws)


def peel_at(
    counts: Ints,
    k: int,
    rate: Fraction,
    take: "Callable[[Round, Draws], int]",
    draws: Draws,
) -> list[int]:
    """Take k items, each round by `take` at this rate; the arguments have been checked."""
    cut = _cut(len(counts), k, rate)
    counts = counts.astype(np.int64, copy=False)
    gaps = rank(counts, k, cut)
    ranks = _peel(gaps.gaps, len(counts), k, rate, cut, take, draws)
    ranking = gaps if max(ranks) < len(gaps.gaps) else rank(counts, k, _EVERYTHING)
    places: list[int] = ranking.places[ranks].tolist()
    return places


def _peel(
    gaps: Ints,
    d: int,
    k: int,
    rate: Fraction,
    cut: int,
    take: "Callable[[Round, Draws], int]",
    draws: Draws,
) -> list[int]:
    """Draw k ranks, of all d items sorted by count, from the gaps of those that matter."""
    ranks: list[int] = []
    taken: list[int] = []
    for _ in range(k):
        rank = take(_round(gaps, d, taken, rate, cut), draws)
        ranks.append(rank)
        insort(taken, rank)
    return ranks


@dataclass(frozen=True)
class Round:
    """One round: the free ranks, in blocks of similar shortfall; the last block is the tail.

    gaps: largest count minus the item's count, nondecreasing; every rank before the tail.
    first: gap of the best free item.
    taken: ranks that are not free, ascending.
    blocks: (start, low, high): ranks low, ..., high - 1, with shortfalls of at least `start`.
    odds: the blocks, each with weight (free ranks in it) * q**start.
    """

    gaps: Ints
    first: int
    cut: int
    taken: Sequence[int]
    blocks: Sequence[tuple[int, int, int]]
    odds: Odds = field(repr=False)

    def level(self, rank: int) -> int:
        """Return min(shortfall, cut) of a free rank."""
        if rank >= len(self.gaps):
            return self.cut
        return min(int(self.gaps[rank]) - self.first, self.cut)

    def attempt(self, draws: Draws, clocks: Sequence[int] = ()) -> int | Clock | None:
        """Let every free rank x, with weight q**level(x), race against clocks.

        Args:
            draws: where the randomness comes from.
            clocks: levels; a clock of level e has weight 1 - q**e.

        Returns:
            The rank or the clock that came first, or None when this attempt is rejected.
        """
        odds = self.odds
        if clocks:
            odds = Odds([*odds.weights, *(((1, 0), (-1, e)) for e in clocks)], odds.rate)
        j = draws.choose(odds)
        if j >= len(self.blocks):
            return Clock(j - len(self.blocks))
        start, low, high = self.blocks[j]
        rank = _nth_free(self.taken, low, draws.below(_n_free(self.taken, low, high)))
        excess = self.level(rank) - start
        if excess and draws.choose(Odds((((1, excess),), ((1, 0), (-1, excess))), odds.rate)):
            return None
        return rank


def take(this: Round, draws: Draws) -> int:
    """Draw a free rank with probability proportional to q**level."""
    while not isinstance(rank := this.attempt(draws), int):
        pass
    return rank


def _round(gaps: Ints, d: int, taken: Sequence[int], rate: Fraction, cut: int) -> Round:
    """Sort the free ranks into blocks."""
    taken = list(taken)
    first = int(gaps[_nth_free(taken, 0, 0)])
    # Nothing sorted is further off than its last item, so the blocks may end there.
    furthest = min(cut, int(gaps[-1]) - first + 1)
    starts = [*range(0, furthest, _width(rate))]
    marks = np.array([*starts, furthest], dtype=np.int64) + first
    ends: list[int] = gaps.searchsorted(marks, "left").tolist()
    blocks, weights = [], []
    for start, low, high in zip([*starts, cut], ends, [*ends[1:], d], strict=True):
        size = _n_free(taken, low, high)
        if size:
            blocks.append((start, low, high))
            weights.append(((size, start),))
    return Round(gaps, first, cut, taken, blocks, Odds(weights, rate))


def _n_free(taken: Sequence[int], low: int, high: int) -> int:
    """Count the ranks low, ..., high - 1 that are not taken."""
    return high - low - bisect_left(taken, high) + bisect_left(taken, low)


def _nth_free(taken: Sequence[int], low: int, n: int) -> int:
    """Find the n-th rank from `low` on, counted from 0, that is not taken."""
    rank = low + n
    for i in range(bisect_left(taken, low), len(taken)):
        if taken[i] > rank:
            break
        rank += 1
    return rank


UDF = Udf(
    name="em_peel",
    function="topk",
    samples="k items, one after the other, by the exponential mechanism",
    parameters=("k", "epsilon"),
    loss=loss,
    run=topk,
    accuracy=accuracy,
)

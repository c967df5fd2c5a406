"""Peeling mechanisms for the top k: k items, one after the other. Knows counts; never items.

Each round takes one of the items not yet taken, by its shortfall against the largest count that is
left, min(shortfall, cut) at a public cut and q = exp(-rate):

- em_peel: by the exponential mechanism, at the rate epsilon/k.
- pnf_peel: by permute-and-flip, at the same rate.
- cdp_peel: by the exponential mechanism, with a delta: k exponential mechanisms of range r are
  together (k r**2 / 8)-zCDP, so that for larger k each round may be drawn at a rate r well above
  epsilon/k.

The proofs are in em_peel.md, pnf_peel.md and cdp_peel.md.
"""

import math
from bisect import insort
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words
from dp_sql.udfs.permute_and_flip import by_flips, by_weight
from dp_sql.udfs.topk.ranking import Ints, check_counts, check_public, rank
from dp_sql.udfs.topk.rounds import Round, sort_ranks

Take = Callable[[Round, Draws], int]

_TAIL_BITS = 40
_TAIL = Fraction(1, 1 << _TAIL_BITS)
_EVERYTHING = 1 << 62
_BITS = 96
_RATE_BITS = 32
"""Rounding a rate down costs it a part of at most 2**-32; its integers stay small."""


def em_peel(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items
            without people are in it, as zeros.
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
    return _pure_peel(counts, k, epsilon, by_weight, secret_draws())


def pnf_peel(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first. Arguments as for em_peel.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: McKenna and Sheldon 2020, composed k times; the score is monotone, see pnf_peel.md.
    """
    return _pure_peel(counts, k, epsilon, by_flips, secret_draws())


def cdp_peel(counts: Ints, k: int, epsilon: Fraction, delta: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: as for em_peel.
        k: as for em_peel.
        epsilon: as for em_peel.
        delta: slack of the privacy loss, in (0, 1).

    Returns:
        As em_peel.

    Privacy: (epsilon, delta)-DP under adding or removing one person who adds at most 1 to each
        count, and rho-zCDP with the rho of `cdp_loss`.
    Source: Gillenwater et al. 2022, lemma 4.2, after Durfee and Rogers 2019; see cdp_peel.md.
    """
    return _cdp_peel(counts, k, epsilon, delta, by_weight, secret_draws())


def _pure_peel(counts: Ints, k: int, epsilon: Fraction, take: Take, draws: Draws) -> list[int]:
    """Check the arguments and take k items at epsilon/k each."""
    check_counts(counts)
    check_public(len(counts), k, epsilon)
    return _peel(counts, k, pure_rate(k, epsilon), take, draws)


def _cdp_peel(
    counts: Ints, k: int, epsilon: Fraction, delta: Fraction, take: Take, draws: Draws
) -> list[int]:
    """Check the arguments and take k items at the rate that delta allows."""
    check_counts(counts)
    _check_public(len(counts), k, epsilon, delta)
    return _peel(counts, k, cdp_rate(k, epsilon, delta), take, draws)


def _check_public(d: int, k: int, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse numbers of another type or out of their range."""
    check_public(d, k, epsilon)
    if not isinstance(delta, Fraction):
        raise TypeError("delta must be a Fraction")
    if not 0 < delta < 1:
        raise ValueError("delta must lie between 0 and 1")


def _peel(
    counts: Ints,
    k: int,
    rate: Fraction,
    take: Take,
    draws: Draws,
) -> list[int]:
    """Take k items, each round by `take` at this rate."""
    cut = _cut(len(counts), k, rate)
    counts = counts.astype(np.int64, copy=False)
    gaps = rank(counts, k, cut)
    ranks = _ranks(gaps.gaps, len(counts), k, rate, cut, take, draws)
    ranking = gaps if max(ranks) < len(gaps.gaps) else rank(counts, k, _EVERYTHING)
    places: list[int] = ranking.places[ranks].tolist()
    return places


def _ranks(
    gaps: Ints,
    d: int,
    k: int,
    rate: Fraction,
    cut: int,
    take: Take,
    draws: Draws,
) -> list[int]:
    """Draw k ranks, of all d items sorted by count, from the gaps of those that matter."""
    ranks: list[int] = []
    taken: list[int] = []
    for _ in range(k):
        rank = take(sort_ranks(gaps, d, taken, rate, cut), draws)
        ranks.append(rank)
        insort(taken, rank)
    return ranks


def pure_rate(k: int, epsilon: Fraction) -> Fraction:
    """Price one unit of shortfall: q = exp(-rate). One round gets epsilon/k; it is monotone."""
    return epsilon * Fraction(1, k)


def cdp_rate(k: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Price one unit of shortfall, q = exp(-rate), never above what cdp_peel.md allows."""
    return max(pure_rate(k, epsilon), _concentrated_rate(k, epsilon, delta))


def _concentrated_rate(k: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Round sqrt((8 ln(1/delta) + 8 epsilon) / k) - sqrt(8 ln(1/delta) / k) down.

    As a quotient, (8 epsilon / k) / (sum of the two roots), it falls when a root is rounded up.
    """
    _, log = ln_enclosure(Fraction(1, delta), _BITS)
    eighth = Fraction(8, k)
    roots = _root_up(eighth * (log + epsilon)) + _root_up(eighth * log)
    rate = eighth * epsilon * Fraction(1, roots)
    unit = _RATE_BITS + (rate.denominator // rate.numerator).bit_length()
    return Fraction((rate.numerator << unit) // rate.denominator, 1 << unit)


def _root_up(x: Fraction) -> Fraction:
    """Round the square root of x up, for x > 0."""
    whole = -(-(x.numerator << 2 * _BITS) // x.denominator)
    return Fraction(math.isqrt(whole - 1) + 1, 1 << _BITS)


def _cut(d: int, k: int, rate: Fraction) -> int:
    """Choose a public cut with q**cut * d * k <= 2**-40, by bit lengths (ln 2 < 7/10)."""
    return -(-7 * ((d * k).bit_length() + _TAIL_BITS) // (10 * rate))


def em_loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Price one run: k exponential mechanisms of range epsilon/k, see em_peel.md."""
    bounded = epsilon * (2 - Fraction(1, k))
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8 * k), bounded_range=bounded)


def pnf_loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Price one run: k rounds of epsilon/k, each pure, see pnf_peel.md."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 2 * k))


def cdp_loss(k: int, epsilon: Fraction, delta: Fraction) -> PrivacyLoss:
    """Price one run: k exponential mechanisms, each of range cdp_rate, see cdp_peel.md."""
    _check_public(k, k, epsilon, delta)
    return PrivacyLoss(epsilon, delta, rho=k * cdp_rate(k, epsilon, delta) ** 2 * Fraction(1, 8))


def error_bound(d: int, k: int, rate: Fraction, beta: Fraction) -> int:
    """Bound every listed item's shortfall as em_peel.md proves it for every data set.

    Args:
        d: items in the public domain.
        k: length of the list, 1 <= k <= d.
        rate: at which each round is drawn, positive.
        beta: probability with which the bound may fail, in [2**-40, 1).
    """
    if not isinstance(beta, Fraction):
        raise TypeError("beta must be a Fraction")
    if not _TAIL <= beta < 1:
        raise ValueError("beta must lie between 2**-40 and 1")
    _, high = ln_enclosure(Fraction(d * k, beta), 64)
    return max(0, -(-high // rate) - 1)


def pure_accuracy(d: int, k: int, epsilon: Fraction, beta: Fraction) -> str:
    """Bound a list of em_peel or pnf_peel in a sentence, from public numbers only.

    A beta below 2**-40 is read as 2**-40: items beyond the cut are all equally likely.
    """
    check_public(d, k, epsilon)
    return _accuracy(d, k, pure_rate(k, epsilon), beta, f"epsilon = {in_words(epsilon)}")


def cdp_accuracy(d: int, k: int, epsilon: Fraction, delta: Fraction, beta: Fraction) -> str:
    """Bound a list of cdp_peel in a sentence, as pure_accuracy does."""
    _check_public(d, k, epsilon, delta)
    price = f"epsilon = {in_words(epsilon)}, delta = {in_words(delta)}"
    return _accuracy(d, k, cdp_rate(k, epsilon, delta), beta, price)


def _accuracy(d: int, k: int, rate: Fraction, beta: Fraction, price: str) -> str:
    beta = max(beta, _TAIL)
    bound = error_bound(d, k, rate, beta)
    return (
        f"with probability at least {in_words(1 - beta)} no item is listed whose count is more "
        f"than {bound} below the count that belongs at its rank "
        f"(d = {d}, k = {k}, {price})"
    )


EM_PEEL = Mechanism(
    name="em_peel",
    function="topk",
    samples="k items, one after the other, by the exponential mechanism",
    parameters=("k", "epsilon"),
    loss=em_loss,
    run=em_peel,
    accuracy=pure_accuracy,
)
PNF_PEEL = Mechanism(
    name="pnf_peel",
    function="topk",
    samples="k items, one after the other, by permute-and-flip",
    parameters=("k", "epsilon"),
    loss=pnf_loss,
    run=pnf_peel,
    accuracy=pure_accuracy,
)
CDP_PEEL = Mechanism(
    name="cdp_peel",
    function="topk",
    samples="k items, one after the other, by the exponential mechanism",
    parameters=("k", "epsilon", "delta"),
    loss=cdp_loss,
    run=cdp_peel,
    accuracy=cdp_accuracy,
)

"""Peeling exponential mechanism for the top k, priced by concentrated privacy.

Takes k items one after the other, as em_peel.py does, but with a delta: k exponential mechanisms
of range r are together (k r**2 / 8)-zCDP, so that for larger k each round may be drawn at a rate r
well above epsilon/k. Knows counts; never items, SQL or budgets. The proofs are in cdp_peel.md.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from udfs.exact import Draws, ln_enclosure, secret_draws
from udfs.spec import Loss, Udf, in_words
from udfs.topk import em_peel
from udfs.topk.em_peel import Round, peel_at, take
from udfs.topk.ranking import Ints, check_counts, check_public

_BITS = 96
_RATE_BITS = 32
"""Rounding a rate down costs it a part of at most 2**-32; its integers stay small."""


def topk(counts: Ints, k: int, epsilon: Fraction, delta: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items
            that nobody has are in it, as zeros.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.
        delta: slack of the privacy loss, in (0, 1).

    Returns:
        Their positions: k different integers in 0, ..., d - 1.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: (epsilon, delta)-DP under adding or removing one person who adds at most 1 to each
        count, and rho-zCDP with the rho of `loss`.
    Source: Gillenwater et al. 2022, lemma 4.2, after Durfee and Rogers 2019; see cdp_peel.md.
    """
    return _topk(counts, k, epsilon, delta, take, secret_draws())


def accuracy(d: int, k: int, epsilon: Fraction, delta: Fraction, beta: Fraction) -> str:
    """Say what a list is worth, from public numbers only.

    A beta below 2**-40 is read as 2**-40: items beyond the cut are all equally likely.
    """
    _check_public(d, k, epsilon, delta)
    price = f"epsilon = {in_words(epsilon)}, delta = {in_words(delta)}"
    return em_peel.accuracy_at(d, k, _rate(k, epsilon, delta), beta, price)


def loss(k: int, epsilon: Fraction, delta: Fraction) -> Loss:
    """Price one run: k exponential mechanisms, each of range _rate, see cdp_peel.md."""
    _check_public(k, k, epsilon, delta)
    return Loss(epsilon, delta, rho=k * _rate(k, epsilon, delta) ** 2 * Fraction(1, 8))


def _topk(
    counts: Ints,
    k: int,
    epsilon: Fraction,
    delta: Fraction,
    take: Callable[[Round, Draws], int],
    draws: Draws,
) -> list[int]:
    """Check the arguments and take k items, each round by `take`."""
    check_counts(counts)
    _check_public(len(counts), k, epsilon, delta)
    return peel_at(counts, k, _rate(k, epsilon, delta), take, draws)


def _check_public(d: int, k: int, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse numbers of another type or out of their range."""
    check_public(d, k, epsilon)
    if not isinstance(delta, Fraction):
        raise TypeError("delta must be a Fraction")
    if not 0 < delta < 1:
        raise ValueError("delta must lie between 0 and 1")


def _rate(k: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Price one unit of shortfall, q = exp(-rate), never above what cdp_peel.md allows."""
    return max(epsilon * Fraction(1, k), _concentrated_rate(k, epsilon, delta))


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


UDF = Udf(
    name="cdp_peel",
    function="topk",
    samples="k items, one after the other, by the exponential mechanism",
    parameters=("k", "epsilon", "delta"),
    loss=loss,
    run=topk,
    accuracy=accuracy,
)

"""How many independent trials there were, from how many of them hit. The proofs are in binomial.md.

A trial hits with a public probability, the rate. Nothing here draws or sees data.
"""

import math
from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure

_STEP = 1 << 10  # quantiles are rounded up to multiples of 1 / _STEP
_DEPTH = 400  # of a continued fraction; even, so that it is cut off above the tail
_BITS = 64
_PI_DOWN = Fraction(103_993, 33_102)  # less than pi, by 6e-10


def least_trials(hits: int, rate: Fraction, beta: Fraction) -> int:
    """Return a number that exceeds the number of trials with probability at most beta.

    hits: how many trials hit, or any smaller number. rate: in (0, 1). beta: in (0, 1/2).
    Source: the bound on binomial tails of Zubkov and Serov 2013, see binomial.md.
    """
    if hits <= 1:
        return max(0, hits)
    enough = normal_quantile(beta) ** 2 * Fraction(1, 2)
    expected = (hits - 1) * rate.denominator // rate.numerator
    trials = range(expected + 1)  # with few of them so many hits are rare
    return bisect_left(trials, True, hits, key=lambda n: _divergence(hits - 1, n, rate) < enough)


def _divergence(hits: int, trials: int, rate: Fraction) -> Fraction:
    """Return at most `trials` times the divergence of the rate `hits / trials` from the true one.

    0 < hits <= trials, and hits is at least what the rate leads to expect.
    """
    bits, misses, whole = _BITS + trials.bit_length(), trials - hits, rate.denominator
    low, _ = ln_enclosure(Fraction(hits * whole, trials * rate.numerator), bits)
    found = hits * low
    if misses:
        ratio = Fraction(misses * whole, trials * (whole - rate.numerator))
        found += misses * ln_enclosure(ratio, bits)[0]
    return found


@lru_cache(maxsize=16)
def normal_quantile(beta: Fraction) -> Fraction:
    """Return a number that a standard normal variable exceeds with probability at most beta.

    Where beta is at most 1/4, it is larger than the least such number by less than 1/500.
    """
    if not 0 < 2 * beta < 1:
        raise ValueError("beta must lie between 0 and 1/2")
    high = _STEP
    while _tail(high) > beta:
        high *= 2
    return Fraction(bisect_left(range(high), True, 1, key=lambda at: _tail(at) <= beta), _STEP)


def _tail(at: int) -> Fraction:
    """Return at least the chance that a standard normal variable exceeds at / _STEP, at > 0."""
    # The density divided by z + 1/(z + 2/(z + 3/(z + ...))) at z.
    top, bottom = at, _STEP
    for i in range(_DEPTH, 0, -1):
        top, bottom = at * top + i * _STEP * bottom, _STEP * top
    _, bell = exp_enclosure(Fraction(at * at, 2 * _STEP * _STEP), _BITS)
    whole = (2 * _PI_DOWN.numerator << 2 * _BITS) // _PI_DOWN.denominator
    return bell * Fraction(bottom << _BITS, top * math.isqrt(whole))

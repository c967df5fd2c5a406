"""Noise for many counts of people at once. Knows a rate; never what the noise is added to.

A vector z of k integers has probability proportional to q**norm(z), q = exp(-rate), where
norm(z) = max(0, max z) - min(0, min z). Proofs are in range_norm.md.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.discrete_laplace import by_key
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.geometric import geometrics
from dp_sql.udfs.intervals import exp_enclosure, power, powers_of, times
from dp_sql.udfs.mixed import exact
from dp_sql.udfs.odds import Odds

# These decide the speed, never the distribution.
_STEPS = 8
_HAT_BITS = 64

_BITS = 128
_MAX_TERMS = 4000
_LEAST_BETA = Fraction(1, 1 << 40)


def range_norm_noise(k: int, rate: Fraction, draws: Draws) -> list[int]:
    """Draw the noise for k >= 0 counts, at a positive rate.

    Privacy: added to k integers of which one person moves any number, all in one direction and
        each by at most L, a draw at rate epsilon / L is epsilon-DP for all of them together.
    Source: the K-norm mechanism (Hardt and Talwar 2010) with the norm for counts of Joseph and Yu
        2024; over the integers and drawn as differences of uniform numbers, see range_norm.md.
    """
    return range_norm_noises([k], rate, draws)[0]


def range_norm_noises(sizes: Sequence[int], rate: Fraction, draws: Draws) -> list[list[int]]:
    """Draw the noise for several vectors of so many counts, all independently, at one rate."""
    widths = by_key(sizes, lambda k, n: _widths(k + 1, rate, n, draws) if k else [1] * n)
    each = np.repeat(exact("widths", widths), np.array(sizes, np.int64) + 1)
    drawn, found = draws.places(each).tolist(), list[list[int]]()
    starts = accumulate((k + 1 for k in sizes), initial=0)
    for k, start in zip(sizes, starts, strict=False):
        zero = drawn[start]
        found.append([x - zero for x in drawn[start + 1 : start + 1 + k]])
    return found


def _widths(n: int, rate: Fraction, how_many: int, draws: Draws) -> list[int]:
    """Draw numbers m >= 1 with probability proportional to m**n * q**m, for n >= 1."""
    found = list[int]()
    while len(found) < how_many:
        # Those that are accepted stay in their order: which one is first has no part in its value.
        found += filter(None, _attempts(n, rate, how_many - len(found), draws))
    return found


def _attempts(n: int, rate: Fraction, how_many: int, draws: Draws) -> list[int | None]:
    """Propose each m under one of the hats, and accept it in proportion to its weight."""
    hats, odds = _hats(n, rate)

    def under(hat: int, n_tries: int) -> list[int]:
        start, stop, _ = hats[hat]
        if stop is None:
            return [start + x for x in geometrics(draws, odds.rate, n_tries)]
        return [start + x for x in draws.places(exact("sizes", [stop - start] * n_tries)).tolist()]

    def accept(proposed: tuple[int, int], n_tries: int) -> list[int]:
        accepted: list[int] = draws.choose_each(_acceptance(n, rate, *proposed), n_tries).tolist()
        return accepted

    chosen = draws.choose_each(odds, how_many).tolist()
    widths = by_key(chosen, under)
    accepted = by_key([*zip(chosen, widths, strict=True)], accept)
    return [width if own else None for width, own in zip(widths, accepted, strict=True)]


@lru_cache(maxsize=1024)
def _acceptance(n: int, rate: Fraction, hat: int, width: int) -> Odds:
    """Return the odds of a width under a hat: 1 accepts it."""
    hats, odds = _hats(n, rate)
    _, stop, at = hats[hat]
    height, shift = _power_up(at, n)
    # Both weights are divided by a power of q, the smaller one.
    least = min(at, width)
    above = width - least if stop is None else 2 * (at - least)
    weight, below = width**n, 2 * (width - least)
    return Odds((((height << shift, above), (-weight, below)), ((weight, below),)), odds.rate)


_Hat = tuple[int, int | None, int]
"""(start, stop, at): m = start, ..., stop - 1 weigh at most at**n * q**at each, rounded up. Without
a stop, m >= start = at weighs at most at**n * q**at * q**((m - at) / 2), rounded up."""


@lru_cache(maxsize=64)
def _hats(n: int, rate: Fraction) -> tuple[tuple[_Hat, ...], Odds]:
    """Hats over m**n * q**m, m >= 1, and the odds of each at half the rate."""
    top, step = max(1, n // rate), max(1, math.isqrt(n) // rate)
    tail = max(top + 1, -(-2 * n // rate))
    marks = {top + 1 + step * i for i in range(-_STEPS, _STEPS + 1)}
    starts = sorted({1, top + 1, tail, *(mark for mark in marks if 1 < mark < tail)})
    hats: list[_Hat] = [
        (start, stop, start if start > top else stop - 1) for start, stop in pairwise(starts)
    ]
    hats.append((tail, None, tail))
    tops = [_power_up(at, n) for _, _, at in hats]
    least = min(shift for _, shift in tops)  # without this common part the numbers are short
    weights = []
    # In powers of the root of q: each hat's total times one minus this root.
    for (start, stop, at), (height, shift) in zip(hats, tops, strict=True):
        total = (1 if stop is None else stop - start) * (height << shift - least)
        weights.append(((total, 2 * at), (0 if stop is None else -total, 2 * at + 1)))
    return tuple(hats), Odds(weights, rate * Fraction(1, 2))


def _power_up(base: int, n: int) -> tuple[int, int]:
    """Round base**n up, at most in the last of _HAT_BITS bits or so: to high * 2**shift."""
    _, high, shift = power((base, base, 0), n, _HAT_BITS)
    return high, shift


@lru_cache(maxsize=256)
def range_norm_quantile(k: int, rate: Fraction, beta: Fraction) -> int:
    """Find the least t with P(max |z| > t) <= beta, for k >= 1 and beta from 2**-40 to 1.

    It is one too large at most, where the probability is within 2**-40 of beta. Where t is in the
    thousands, it is too large by up to 3 % at beta = 0.05, and by more at larger ones.
    """
    check_positive_int("k", k)
    check_epsilon(rate)
    check_probability("beta", beta)
    if beta < _LEAST_BETA:
        raise ValueError("beta must be at least 2**-40")
    n_terms = (18 * math.isqrt(k + 1) + 78) // rate
    cell = max(1, n_terms // _MAX_TERMS)
    slack, _ = exp_enclosure(2 * rate * (cell - 1), _BITS)
    return cell * _quantile(k, cell * rate, beta * slack) + cell - 1


def _quantile(k: int, rate: Fraction, beta: Fraction) -> int:
    """Find the least t with P(max |z| <= t) >= 1 - beta, from sums over m**k * q**m."""
    first = max(1, (k - 9 * math.isqrt(k) - 9) // rate)
    last = 1 - (-(k + 70 + 9 * math.isqrt(k + 1)) // rate)
    powers, q_low, q_high = powers_of(rate, _BITS), *exp_enclosure(rate, _BITS)
    decay, q = powers.of(first), powers.of(1)
    terms = []
    for m in range(first, last + 1):
        terms.append(times(power((m, m, 0), k, _BITS), decay, _BITS))
        decay = times(decay, q, _BITS)
    scale = max(e for _, _, e in terms) - _BITS
    lows = [low << e - scale if e >= scale else low >> scale - e for low, _, e in terms]
    highs = [(high << e - scale if e >= scale else high >> scale - e) + 1 for _, high, e in terms]
    # m times a term falls from the last on by a factor of exp(slope) or more at each step.
    slope = rate - Fraction(k + 1, last)
    left, right = (first - 1) ** 2 * highs[0], last * highs[-1] * Fraction(1, slope)
    whole = left + sum(m * high for m, high in enumerate(highs, first)) + right
    needed = (1 - beta) * whole * (1 - q_low) ** 2
    counts = [0, *accumulate(lows)]
    moments = [0, *accumulate(m * low for m, low in enumerate(lows, first))]

    def suffices(t: int) -> bool:
        i, j = (min(max(0, x - first + 1), len(lows)) for x in (t, 2 * t))
        n, moment = counts[j] - counts[i], moments[j] - moments[i]
        edge = lows[j] if j < len(lows) and first + j == 2 * t + 1 else 0
        inside = moments[i] + 2 * t * n - moment
        return (1 - q_high) ** 2 * inside + 2 * (1 - q_high) * n + edge >= needed

    return bisect_left(range(last), True, key=suffices)

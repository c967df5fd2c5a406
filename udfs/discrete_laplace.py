"""Discrete Laplace noise and its tail. Knows a rate; never what the noise is added to.

The noise X has P(X = x) proportional to q**|x|, q = exp(-rate), over all integers x; its scale
is 1/rate. Proofs are in exact_sampling.md.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.geometric import geometrics
from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from dp_sql.udfs.odds import Coins, Odds

_Key = TypeVar("_Key", bound=Hashable)
_Drawn = TypeVar("_Drawn")


def discrete_laplace(rate: Fraction, draws: Draws) -> int:
    """Draw the noise, at a positive rate.

    Privacy: added to an integer of sensitivity L, a draw at rate epsilon / L is epsilon-DP.
    Source: Ghosh, Roughgarden and Sundararajan 2012; without rejection, see exact_sampling.md.
    """
    return discrete_laplaces([rate], draws)[0]


def discrete_laplaces(rates: Sequence[Fraction], draws: Draws) -> list[int]:
    """Draw the noise at each of these rates, independently."""

    def at(rate: Fraction, n: int) -> list[int]:
        negative = draws.flip_each(_sign(rate), n)[:, 0].tolist()
        sizes = geometrics(draws, rate, n)
        return [-1 - x if below else x for below, x in zip(negative, sizes, strict=True)]

    return by_rate(rates, at)


def laplace_reaches(levels: NDArray[np.int64], rate: Fraction, draws: Draws) -> NDArray[np.bool_]:
    """Draw for each level, independently, whether noise at a positive rate is at least as large.

    Privacy: of numbers that move by at most L in all, comparing those with noise to a threshold
        costs L times the rate.
    Source: as discrete_laplace; the comparison is drawn, without the noise.
    """
    # P(X >= x) = q**x / (1 + q) for x >= 1, and P(X >= x) = 1 - P(X >= 1 - x).
    upper = np.where(levels > 0, levels, 1 - levels)
    is_upper = ~draws.flip_each(_sign(rate), levels.size)[:, 0]
    return (draws.flip_powers(upper, rate) & is_upper) ^ (levels <= 0)


def by_rate(
    rates: Sequence[Fraction], draw: Callable[[Fraction, int], Sequence[_Drawn]]
) -> list[_Drawn]:
    """Draw something at each of these rates; draw(rate, n) draws n at one rate."""
    ids = [*map(id, rates)]  # a Fraction is slow to hash
    same = dict(zip(ids, rates, strict=True))
    return by_key(ids, lambda own, n: draw(same[own], n))


def by_key(keys: Sequence[_Key], draw: Callable[[_Key, int], Sequence[_Drawn]]) -> list[_Drawn]:
    """Draw something for each of these keys; draw(key, n) draws n, independently, for one key."""
    counts = Counter(keys)
    if len(counts) == 1:
        return [*draw(keys[0], len(keys))]
    drawn = {key: iter(draw(key, n)) for key, n in counts.items()}
    return [next(drawn[key]) for key in keys]


@lru_cache(maxsize=64)
def _sign(rate: Fraction) -> Coins:
    return Coins([Odds((((1, 0),), ((1, 1),)), rate)])


def noise_rate(share: Fraction, at: int) -> Fraction:
    """Return the rate of noise that costs `share` on a number of sensitivity `at`."""
    return share * Fraction(1, at)


@lru_cache(maxsize=256)
def laplace_quantile(rate: Fraction, beta: Fraction) -> int:
    """Find the least integer x with P(X >= x) <= beta, for beta in (0, 1/2); nothing is rounded."""
    if rate <= 0:
        raise ValueError("rate must be positive")
    if not 0 < 2 * beta < 1:
        raise ValueError("beta must lie between 0 and 1/2")
    low, _ = ln_enclosure(Fraction(1, 2 * beta), 64)
    _, high = ln_enclosure(Fraction(1, beta), 64)
    first, last = int(low // rate) + 1, int(high // rate) + 1  # it is one of these
    while first < last:  # bisect takes no range of more than 2**63
        middle = (first + last) // 2
        if _tail_is_at_most(middle, rate, beta):
            last = middle
        else:
            first = middle + 1
    return first


def _tail_is_at_most(x: int, rate: Fraction, beta: Fraction) -> bool:
    """Decide whether P(X >= x) = q**x / (1 + q) <= beta, for x >= 0."""
    bits = 64
    while True:
        q_low, q_high = exp_enclosure(rate, bits)
        tail_low, tail_high = exp_enclosure(x * rate, bits)
        if tail_high <= beta * (1 + q_low):
            return True
        if tail_low > beta * (1 + q_high):
            return False
        bits *= 2

"""Noise for two integers at once, in the maximum norm. Proofs are in bounded_mean.md.

A pair z of integers has probability proportional to q**max(|z_1|, |z_2|), q = exp(-rate).
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial

from dp_sql.udfs.discrete_laplace import by_rate
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.geometric import geometrics
from dp_sql.udfs.intervals import exp_enclosure
from dp_sql.udfs.mixed import exact
from dp_sql.udfs.odds import Odds

_STEPS = 1024


def pair_noise(rates: Sequence[Fraction], draws: Draws) -> list[tuple[int, int]]:
    """Draw the noise at each of these positive rates, independently.

    Privacy: added to two integers each of which one person moves by at most L, in any direction,
        a draw at rate epsilon / L is epsilon-DP for both together.
    Source: Steinke and Ullman 2017, theorem 4.1, in the integers; see bounded_mean.md.
    """
    radii = by_rate(rates, partial(_radii, draws=draws))
    places = draws.places(exact("sizes", [2 * r + 1 for r in radii for _ in range(2)])).tolist()
    pairs = zip(radii, places[::2], places[1::2], strict=True)
    return [(x - r, y - r) for r, x, y in pairs]


def _radii(rate: Fraction, n: int, draws: Draws) -> list[int]:
    """Draw n numbers r >= 0 with probability proportional to (2 r + 1)**2 * q**r."""
    parts = [draws.choose_each(_shifts(rate), n).tolist()]
    parts += [geometrics(draws, rate, n) for _ in range(3)]
    return [*map(sum, zip(*parts, strict=True))]


@lru_cache(maxsize=64)
def _shifts(rate: Fraction) -> Odds:
    return Odds((((1, 0),), ((6, 1),), ((1, 2),)), rate)


def pair_reach(rate: Fraction, beta: Fraction) -> int:
    """Find r such that |z_1 - v z_2| > r (1 + |v|) has probability at most beta, for each v."""
    return -(-_scales(beta, Fraction(1, 2)) // rate) + 1


def scales_of(beta: Fraction, most: Fraction) -> Fraction:
    """Find how many 1/rate neither entry exceeds in size, with probability at least 1 - beta.

    most: the rate is at most this.
    """
    return _scales(beta, Fraction(1)) + most


@lru_cache(maxsize=64)
def _scales(beta: Fraction, part: Fraction) -> Fraction:
    """Find nearly the least y with (1 + part y) exp(-y) <= beta, for beta in (0, 1); rounded up."""
    low, high = 0, _STEPS
    while not _suffices(high, beta, part):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) >> 1
        low, high = (low, middle) if _suffices(middle, beta, part) else (middle, high)
    return Fraction(high, _STEPS)


def _suffices(steps: int, beta: Fraction, part: Fraction) -> bool:
    y = Fraction(steps, _STEPS)
    return (1 + part * y) * exp_enclosure(y, 96)[1] <= beta

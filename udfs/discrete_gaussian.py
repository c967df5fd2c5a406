"""Discrete Gaussian noise: its tails, and exact draws of whether it reaches a level.

The noise N has P(N = x) proportional to exp(-x**2 / (2 scale**2)), over all integers x. Proofs are
in exact_sampling.md.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from operator import neg

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Chances, Draws
from dp_sql.udfs.intervals import powers_of

_TABLE_BITS = 128
_GUARD_BITS = 16


def reaches(levels: NDArray[np.int64], scale: int, draws: Draws) -> NDArray[np.bool_]:
    """Draw for each level, independently, whether noise of this scale is at least as large.

    Privacy: adding the noise to integers that move by at most L in Euclidean norm is
        L**2 / (2 scale**2)-zCDP, and comparing the results with a number is post-processing.
    Source: Canonne, Kamath and Steinke 2020; the comparison is drawn, without the noise.
    """
    # P(N >= x) = 1 - P(N >= 1 - x), so that only the upper tail is needed.
    upper = np.where(levels > 0, levels, 1 - levels)
    return draws.hits(upper, _chances(scale)) ^ (levels <= 0)


def upper_quantile(scale: int, mass: Fraction) -> int:
    """Find an integer x >= 0 with P(N >= x) <= mass: the least one, up to 2**-128."""
    _, highs = tails(scale, _TABLE_BITS)
    most = (mass.numerator << _TABLE_BITS) // mass.denominator
    if highs[-1] > most:
        raise ValueError("a probability is too small for the noise's table")
    return bisect_left(highs, -most, key=neg)


@lru_cache(maxsize=4)
def _chances(scale: int) -> Chances:
    """One and the same object for a scale: `hits` remembers it."""
    return partial(tails, scale)


@lru_cache(maxsize=4)
def tails(scale: int, bits: int) -> tuple[list[int], list[int]]:
    """Enclose 2**bits * P(N >= x) for x = 0, 1, ...; the last pair holds for all later x, too."""
    if bits < _TABLE_BITS:
        lows, highs = tails(scale, _TABLE_BITS)
        less = _TABLE_BITS - bits
        return [low >> less for low in lows], [-(-high >> less) for high in highs]
    width = bits + _GUARD_BITS + 3 * scale.bit_length()
    lows, highs = _bell(scale, width)
    sums_low = [*accumulate(reversed(lows))][::-1]
    sums_high = [*accumulate(reversed(highs), initial=scale**3)][:0:-1]
    one = 1 << width
    all_low, all_high = 2 * sums_low[0] - one, 2 * sums_high[0] - one
    at_least = [(total << bits) // all_high for total in sums_low]
    at_most = [-(-(total << bits) // all_low) for total in sums_high]
    return [*at_least[:-1], 0], at_most


def _bell(scale: int, width: int) -> tuple[list[int], list[int]]:
    """Enclose 2**width * exp(-x**2 / (2 scale**2)) for x = 0, 1, ...; the last is at most scale."""
    low, high, e = powers_of(Fraction(1, 2 * scale**2), width + _GUARD_BITS).of(1)
    step_low, step_high = low >> -e - width, -(-high >> -e - width)  # of x to x + 1
    square_low, square_high = step_low**2 >> width, -(-(step_high**2) >> width)
    lows, highs = [1 << width], [1 << width]
    while highs[-1] > scale:
        lows.append(lows[-1] * step_low >> width)
        highs.append(-(-highs[-1] * step_high >> width))
        step_low = step_low * square_low >> width
        step_high = -(-step_high * square_high >> width)
    return lows, highs

"""Generalized exponential mechanism: a choice among scores that differ in sensitivity.

Knows utilities and sensitivities; never where they come from. Proofs are in gem.md.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from udfs.exact import Draws, Odds, ln_enclosure, secret_draws


def gem(
    utilities: Sequence[int | Fraction],
    sensitivities: Sequence[int | Fraction],
    epsilon: Fraction,
    beta: Fraction,
) -> int:
    """Choose a candidate whose utility is nearly the largest, for its sensitivity.

    Returns its index.

    Args:
        utilities: how good each candidate is on the data, exact numbers.
        sensitivities: public; the most that one person moves each utility, positive.
        epsilon: privacy loss, positive.
        beta: probability with which the accuracy in gem.md may fail, in (0, 1).

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP, whatever beta is, if one person moves utility i by at most
        sensitivity i.
    Source: Raskhodnikova and Smith 2015, as Algorithm 3 of Knop and Steinke 2023.
    """
    _check_candidates(utilities, sensitivities)
    for value in (epsilon, beta):
        if not isinstance(value, Fraction):
            raise TypeError("epsilon and beta must be Fractions")
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    if not 0 < beta < 1:
        raise ValueError("beta must lie between 0 and 1")
    return _gem(utilities, sensitivities, epsilon, beta, secret_draws())


def _gem(
    utilities: Sequence[int | Fraction],
    sensitivities: Sequence[int | Fraction],
    epsilon: Fraction,
    beta: Fraction,
    draws: Draws,
) -> int:
    """Choose with the draws given."""
    grid = grid_of(epsilon)
    _, log = ln_enclosure(Fraction(len(utilities), beta), 64)
    reach = round_up(log * Fraction(2, epsilon), grid)
    return _pick(_scores(utilities, sensitivities, reach, grid), epsilon, grid, draws)


def _pick(scores: Sequence[int], epsilon: Fraction, grid: int, draws: Draws) -> int:
    """Run the exponential mechanism on scores, small is good, of sensitivity grid."""
    least = min(scores)
    odds = Odds([((1, score - least),) for score in scores], epsilon * Fraction(1, 2 * grid))
    return draws.choose(odds)


def _scores(
    utilities: Sequence[int | Fraction],
    sensitivities: Sequence[int | Fraction],
    reach: Fraction,
    grid: int,
) -> list[int]:
    """Compute floor(grid * s) for the normalized scores s of gem.md.

    s[i] is the largest over j of (a[i] - a[j]) / (l[i] + l[j]), where l is the sensitivity
    and a[i] = l[i] * reach - utility i: how far candidate i is behind, in sensitivities.
    """
    behind = [
        size * reach - utility for utility, size in zip(utilities, sensitivities, strict=True)
    ]
    unit = math.lcm(*(Fraction(x).denominator for x in (*behind, *sensitivities)))
    a_whole = [int(x * unit) for x in behind]
    l_whole = [int(x * unit) for x in sensitivities]
    least = min(a_whole)
    a_whole = [x - least for x in a_whole]
    fits = max(grid * max(a_whole), 2 * max(l_whole)) < 1 << 62
    kind = np.dtype(np.int64 if fits else object)
    a, sizes = np.array(a_whole, dtype=kind), np.array(l_whole, dtype=kind)
    return [int(((a[i] - a) * grid // (sizes[i] + sizes)).max()) for i in range(len(a))]


def grid_of(epsilon: Fraction) -> int:
    """Choose a grid so fine that flooring a score to it changes no weight by 1/1000."""
    return 1024 << (epsilon.numerator // epsilon.denominator).bit_length()


def round_up(x: Fraction, grid: int) -> Fraction:
    """Round up to a multiple of 1/grid: small denominators keep the scores within int64."""
    return Fraction(-(-x * grid // 1), grid)


def _check_candidates(
    utilities: Sequence[int | Fraction], sensitivities: Sequence[int | Fraction]
) -> None:
    if not len(utilities) == len(sensitivities) > 0:
        raise ValueError("there must be one sensitivity for each of one or more utilities")
    for value in (*utilities, *sensitivities):
        if not isinstance(value, int | Fraction) or isinstance(value, bool):
            raise TypeError("utilities and sensitivities must be ints or Fractions")
    if min(sensitivities) <= 0:
        raise ValueError("sensitivities must be positive")

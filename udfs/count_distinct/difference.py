"""A contribution bound among 1, 2, 4, ..., chosen by differences of counts. See difference.md.

One person moves F(l) by at most l, and a difference F(l') - F(l), l < l', by at most
max(l, l' - l), where F is a maximum flow. So bounds far apart are compared at the price of their
distance, not of their sum.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.select.normalized import grid_of

Numbers = NDArray[Any]
Covers = Sequence[Sequence[int]] | NDArray[np.int64]

_FITS = 1 << 62  # all numbers are at most as large, or else objects
_COST = 3  # a unit of bound costs this many items, divided by epsilon: its noise, and caution
_COMMON = 7  # from this doubling on, 128 items per person, a bound is less likely in advance


def bounds_up_to(most: int) -> list[int]:
    """List the candidates: powers of 2 below `most`, and `most`.

    >>> bounds_up_to(1), bounds_up_to(4), bounds_up_to(100)
    ([1], [1, 2, 4], [1, 2, 4, 8, 16, 32, 64, 100])
    """
    return [*(1 << i for i in range((most - 1).bit_length())), most]


def choose_by_differences(
    covers: Covers, bounds: Sequence[int], epsilon: Fraction, draws: Draws
) -> list[int]:
    """Choose the place of a bound for each of several graphs, all independently.

    covers[g][i] is the maximum flow of graph g under bounds[i], which increase.

    Privacy: for each graph, epsilon-DP with losses in a range of epsilon, if its cover is a maximum
        flow.
    Source: the exponential mechanism on the normalized scores of Raskhodnikova and Smith 2015 with
        the sensitivity of each difference, and public prior weights.
    """
    scores, rate = _scores(covers, bounds, epsilon)
    priors = np.array([_priors(len(bounds))], object)
    if priors.max() <= _FITS:
        priors = priors.astype(np.int64)
    places: list[int] = draws.choose_powers(scores, rate, priors).tolist()
    return places


def odds_of_bounds(cover: Sequence[int], bounds: Sequence[int], epsilon: Fraction) -> Odds:
    """Weigh the bounds of one graph as they are chosen."""
    scores, rate = _scores([cover], bounds, epsilon)
    pairs = zip(_priors(len(bounds)), scores[0].tolist(), strict=True)
    return Odds([(pair,) for pair in pairs], rate)


def _scores(covers: Covers, bounds: Sequence[int], epsilon: Fraction) -> tuple[Numbers, Fraction]:
    """Score the bounds of each graph on a grid; the price of one step."""
    grid = grid_of(epsilon)
    scores = normalized_by_difference(covers, bounds, Fraction(_COST, epsilon), grid)
    return scores, _rate(epsilon, grid)


def normalized_by_difference(
    covers: Covers, bounds: Sequence[int], cost: Fraction, grid: int
) -> Numbers:
    """Compute floor(grid * s) for how far each bound is behind, >= 0; a person moves s by 1.

    Shape (graphs, bounds): 64-bit integers, or if these may not do, Python's as objects.
    """
    unit = cost.denominator
    most = max(bounds[-1], int(np.max(covers)))
    kind: type = object if 2 * grid * (cost.numerator + unit) * most > _FITS else np.int64
    costs: Numbers = np.array([grid * cost.numerator * at for at in bounds], kind)
    behind = costs - grid * unit * np.array(covers, kind)
    moves: Numbers = np.array(_sensitivities(tuple(bounds), unit), kind)
    scores: Numbers = np.zeros(behind.shape, kind)
    for j in range(len(bounds)):
        np.maximum(scores, (behind - behind[:, j, None]) // moves[:, j], out=scores)
    return scores


@lru_cache(maxsize=64)
def _sensitivities(bounds: tuple[int, ...], unit: int) -> list[list[int]]:
    """Bound how far one person moves the difference under each two bounds, times `unit`."""
    return [[unit * _sensitivity(at, its) for its in bounds] for at in bounds]


@lru_cache(maxsize=1024)
def _sensitivity(bound: int, other: int) -> int:
    """Bound how far one person moves the difference of the counts under two bounds."""
    return max(min(bound, other), abs(bound - other))


@lru_cache(maxsize=64)
def _priors(n: int) -> list[int]:
    """Weigh n bounds in advance."""
    return [_prior(i, n) for i in range(n)]


def _prior(i: int, n: int) -> int:
    """Weigh the i-th of n bounds in advance: a quarter for each doubling, an eighth after 128."""
    return 1 << sum(_halvings(j) for j in range(i, n - 1))


def _halvings(doubling: int) -> int:
    """Return by how many factors of 2 a doubling of the bound is less likely."""
    return 2 if doubling < _COMMON else 3


def _rate(epsilon: Fraction, grid: int) -> Fraction:
    """Return the rate of one step of the grid: scores move up and down, by `grid` steps each."""
    return epsilon * Fraction(1, 2 * grid)

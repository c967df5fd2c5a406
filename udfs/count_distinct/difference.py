"""A contribution bound among 1, 2, 4, ..., chosen by differences of counts. See difference.md.

One person moves F(l) by at most l, and a difference F(l') - F(l), l < l', by at most
max(l, l' - l), where F is a maximum flow. So bounds far apart are compared at the price of their
distance, not of their sum.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from operator import floordiv

from dp_sql.udfs.exact_sampling import Odds
from dp_sql.udfs.select.normalized import grid_of

_COST = 3  # a unit of bound costs this many items, divided by epsilon: its noise, and caution
_COMMON = 7  # from this doubling on, 128 items per person, a bound is less likely in advance


def bounds_up_to(most: int) -> list[int]:
    """List the candidates: powers of 2 below `most`, and `most`.

    >>> bounds_up_to(1), bounds_up_to(4), bounds_up_to(100)
    ([1], [1, 2, 4], [1, 2, 4, 8, 16, 32, 64, 100])
    """
    return [*(1 << i for i in range((most - 1).bit_length())), most]


def odds_of_bounds(cover: Sequence[int], bounds: Sequence[int], epsilon: Fraction) -> Odds:
    """Weigh each bound for an exponential mechanism of range epsilon.

    cover[i] is the maximum flow under bounds[i], which increase.

    Privacy: epsilon-DP with losses in a range of epsilon, if `cover` is a maximum flow.
    Source: the normalized scores of Raskhodnikova and Smith 2015 with the sensitivity of each
        difference, and public prior weights.
    """
    grid = grid_of(epsilon)
    weights = _priors(len(bounds))
    scores = normalized_by_difference(cover, bounds, Fraction(_COST, epsilon), grid)
    return Odds([((w, s),) for w, s in zip(weights, scores, strict=True)], _rate(epsilon, grid))


def normalized_by_difference(
    cover: Sequence[int], bounds: Sequence[int], cost: Fraction, grid: int
) -> list[int]:
    """Compute floor(grid * s) for how far each bound is behind, >= 0; a person moves s by 1."""
    unit = cost.denominator
    behind = [grid * (cost.numerator * at - unit * n) for at, n in zip(bounds, cover, strict=True)]
    moves = _sensitivities(tuple(bounds), unit)
    return [
        max(map(floordiv, map(a.__sub__, behind), each))
        for a, each in zip(behind, moves, strict=True)
    ]


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

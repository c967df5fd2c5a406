"""A contribution bound among 1, 2, 4, ..., chosen by how many people contribute more. See bound.md.

One person moves the number of people above any bound by at most 1, and all of these numbers in one
direction. The choice depends on them alone, so it is the same for rows, for sums in any unit, and
for a person's largest count among groups.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from operator import sub

import numpy as np

from dp_sql.udfs.contributions.histogram import Ints
from dp_sql.udfs.exact_sampling import Draws, Odds

# Privacy holds for any values of these.
_SUPPORT = Fraction(9, 2)  # a doubling of the bound needs so many people above it, by epsilon
_MOST_SUPPORT = 1 << 58  # people; shortfalls are 64-bit numbers
_DOUBLINGS = 10  # a larger jump between bounds needs no more people than this one


def choose_bounds(above: Ints, epsilon: Fraction, draws: Draws) -> list[int]:
    """Choose a place i in each row, for the bound 2**i; above[:, i] people contribute more.

    Privacy: of one row, epsilon-DP with losses in a range of epsilon, if a person who is added
        moves some of the row up by 1 and leaves the others as they are.
    Source: the exponential mechanism of McSherry and Talwar 2007, on a score of our own.
    """
    shortfalls, rate = shortfalls_of_bounds(above, support_of(epsilon)), _rate(epsilon)
    places: list[int] = draws.choose_powers(shortfalls, rate).tolist()
    return places


def choose_among(
    above: Sequence[int], weights: tuple[int, ...], support: int, epsilon: Fraction, draws: Draws
) -> int:
    """Choose one of several limits on people; above[i] people are beyond limit i.

    weights: of the noise that each takes, the least first. support: so many people more than a
        limit leaves out make it too small, for each doubling of the noise.

    Privacy: as choose_bounds.
    Source: as choose_bounds, for limits that need not lie within each other.
    """
    needed = _needed_between(weights, support)
    beyond = [*above[:-1], 0]  # no limit is larger than the last
    shortfalls = (max(0, n - support, *map(sub, needed[i], above)) for i, n in enumerate(beyond))
    return draws.choose(Odds([((1, s),) for s in shortfalls], _rate(epsilon)))


@lru_cache(maxsize=64)
def _needed_between(weights: tuple[int, ...], support: int) -> list[list[int]]:
    """How many people must be beyond a limit for a later one, by halves of a doubling."""
    halves = [
        [(w * w // (v * v)).bit_length() - 1 for v in weights[:i]] for i, w in enumerate(weights)
    ]
    return [[support * min(n, 2 * _DOUBLINGS) // 2 for n in row] for row in halves]


def people_needed(epsilon: Fraction) -> int:
    """So many people who contribute alike lead to a bound near to what they contribute."""
    return _needed(_DOUBLINGS, support_of(epsilon))


def shortfalls_of_bounds(above: Ints, support: int) -> Ints:
    """Compute how many people each bound is from being the right one; one person moves it by 1."""
    found = np.maximum(above - support, 0)
    found[:, -1] = 0  # no bound is larger
    # Bounds further below need no more people, and have no fewer above them.
    for n in range(1, min(_DOUBLINGS + 1, above.shape[1])):
        np.maximum(found[:, n:], _needed(n, support) - above[:, :-n], out=found[:, n:])
    return found


def support_of(epsilon: Fraction) -> int:
    """Return how many people more than a bound leave out make it too small."""
    return min(-(-_SUPPORT // epsilon), _MOST_SUPPORT)


def _needed(doublings: int, support: int) -> int:
    """Return how many people must be above a bound for one so many doublings larger."""
    return support * min(doublings, _DOUBLINGS)


def _rate(epsilon: Fraction) -> Fraction:
    """Return the rate of one person of shortfall: shortfalls move up and down, by 1 each."""
    return epsilon * Fraction(1, 2)

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

from dp_sql.udfs.contributions.histogram import Histograms, above_each
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mixed import Ints
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.slices import in_rectangles

# Privacy holds for any values of these.
_SUPPORT = Fraction(9, 2)  # a doubling of the bound needs so many people above it, by epsilon
_MOST_SUPPORT = 1 << 58  # people; shortfalls are 64-bit numbers
_DOUBLINGS = 10  # a larger jump between bounds needs no more people than this one

# These decide the speed, never the distribution.
_ROWS, _CELLS = 1 << 14, 1 << 18  # so many are chosen at once


def choose_bounds(these: Histograms, n: int, epsilon: Fraction, draws: Draws) -> Ints:
    """Choose a place below n for each data set, the place i for the bound 2**i.

    Privacy: of one data set, epsilon-DP with losses in a range of epsilon, if a person who is added
        contributes any number.
    Source: the exponential mechanism of McSherry and Talwar 2007, on a score of our own. Places
        that are _DOUBLINGS or more above all contributions have one score: see bound.md.
    """
    places, widths = np.empty(these.n, np.int64), np.minimum(these.tops() + _DOUBLINGS + 1, n)
    for part in in_rectangles(widths, _ROWS, _CELLS):
        width = int(widths[part].max())
        above = above_each(these.of(part), width)
        shortfalls = shortfalls_of_bounds(above, support_of(epsilon))
        chosen = draws.choose_powers(shortfalls, _rate(epsilon), _times(width, n))
        are_last = chosen == width - 1
        chosen[are_last] += draws.places(np.full(int(are_last.sum()), n - width + 1))
        places[part] = chosen
    return places


def _times(width: int, n: int) -> Ints:
    """Return how many places each of the first `width` stands for: the last also for the rest."""
    return np.append(np.ones(width - 1, np.int64), n - width + 1)[np.newaxis]


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

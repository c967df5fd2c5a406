"""The choice of a contribution bound: small data, all neighbours, mutants.

A data set lists each person's contribution: rows, or a net sum of either sign.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain

import numpy as np
import pytest

from dp_sql.udfs.contributions import bound, histogram
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import (
    Domain,
    Mutant,
    changed,
    check_distribution,
    times_two,
    within_range,
)
from tests.udfs.distributions import (
    check_neighbours,
    data_sets,
    distribution_of,
    normalized,
    one_more,
)

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
HALF = Fraction(1, 2)
ROWS = (1, 2, 3, 5, 9)
SUMS = (-3, -1, 0, 2, 9)


def entries(data):
    """What SQL hands over: (bucket, people, sum of sizes, negative), an entry a person."""
    return [[(abs(v) - 1).bit_length(), 1, abs(v), int(v < 0)] for v in data if v]


def columns(data, n=4):
    return [[entry[i] for entry in entries(data)] for i in range(n)]


def added(contributions, n_people, several=1):
    """Data sets of fewer people, each contribution `several` times, and each with one person more."""
    fewer = (several * data for data in data_sets(contributions, n_people - 1))
    return one_more(fewer, contributions)


# The choice of the bound: exp(-epsilon/4) is 1/2, which is one person of shortfall.


@cache
def chosen(data, support, doublings, n_bounds):
    """The distribution of the place of the bound; the choice has half of epsilon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "_SUPPORT", Fraction(support, 2))
        patch.setattr(bound, "_DOUBLINGS", doublings)
        these = histogram.read_histograms([columns(data, 3)])
        distribution, unfinished = distribution_of(
            lambda draws: int(bound.choose_bounds(these, n_bounds, EPSILON / 2, draws)[0]),
            PowersOf(HALF, EPSILON / 4),
        )
    assert unfinished == 0
    return distribution


def defined_choice(data, support, doublings, n_bounds):
    """The same, written down from bound.md."""
    above = [sum(abs(v) > 2**i for v in data) for i in range(n_bounds)]
    weights = {}
    for i in range(n_bounds):
        behind = [0, *(support * min(i - j, doublings) - above[j] for j in range(i))]
        if i < n_bounds - 1:
            behind.append(above[i] - support)
        weights[i] = HALF ** max(behind)
    return normalized(weights)


def choice(contributions, support, doublings, n_bounds=5, remember=True):
    def pairs():
        return [*added(contributions, 3), *added(contributions, 3, several=3)]

    def distribution(data):
        of = chosen if remember else chosen.__wrapped__
        return of(data, support, doublings, n_bounds)

    return Domain(
        distribution,
        pairs,
        within_range(HALF**-2),
        inputs=lambda: dict.fromkeys(chain.from_iterable(pairs())),
        defined=lambda data: defined_choice(data, support, doublings, n_bounds),
    )


AFRESH = choice(ROWS, 2, 16, remember=False)
AFRESH_ABOVE = choice(ROWS, 3, 1, 7, remember=False)
CHOICES = {
    f"a bound, {support} people a doubling, up to {doublings}": choice(ROWS, support, doublings)
    for support, doublings in ((1, 16), (2, 16), (3, 1))
} | {"a bound far above all contributions": choice(ROWS, 3, 1, 7)}


def summed_above(these, n):
    return histogram.above_each(replace(these, people=these.sums), n)


WRONG_CHOICES = {
    "a bound at twice its rate": Mutant(AFRESH, times_two(bound, "_rate")),
    "a bound by what is above instead of who": Mutant(
        AFRESH, changed(bound, "above_each", summed_above)
    ),
    "a bound for one person less": Mutant(
        AFRESH,
        changed(bound, "_needed", lambda doublings, support: support * doublings - 1),
        check=check_distribution,
    ),
    "places above all contributions as one": Mutant(
        AFRESH_ABOVE,
        changed(bound, "_times", lambda width, n: np.ones((1, width), np.int64)),
        check=check_distribution,
    ),
    "a place that is taken for one above all contributions": Mutant(
        AFRESH_ABOVE,
        changed(histogram.Histograms, "tops", lambda these: np.zeros(these.n, int)),
        check=check_distribution,
    ),
}


def check_tightly(distribution, pairs):
    check_neighbours(distribution, pairs, HALF**-2 * Fraction(99, 100))


TIGHT = {
    "a choice for less": Domain(
        lambda data: chosen(data, 12, 16, 3), lambda: [((3,) * 13, (3,) * 14)], check_tightly
    )
}
"""The bounds 1 and 2 lack a person each, and 4 has eleven too few above 1: a third person is for 4 alone."""

"""The choice of a bound by differences of maximum flows: small graphs, all neighbours, mutants."""

from fractions import Fraction
from functools import cache
from itertools import chain, combinations

import pytest

from dp_sql.udfs.count_distinct import bounded, difference
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import Domain, Mutant, changed, times_two, within_range
from tests.udfs.distributions import (
    NotPrivateError,
    data_sets,
    distribution_of,
    normalized,
    one_more,
)

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
HALF = Fraction(1, 2)
PAIRS = [
    frozenset("".join(chosen)) for n in range(4) for chosen in combinations(["ab", "cd", "ef"], n)
]
"""What a person may hold of six items, so that several people can have much in common."""
APART = [frozenset(own) for own in ("ab", "cd", "ghij", "klmno", "abcdefghijklmnopqrst")]
"""Items of one's own, and a hoarder."""
ALIKE = [frozenset("abcdefghijklmnopqrst")]
"""With four such people each counts all that they may, at any bound up to 5; with five, at 4."""
BOUNDS = difference.bounds_up_to(5)


def check_differences(distribution, pairs):
    """Raise unless one person more moves F(m) - F(l), l < m, by at least -l and at most m - l."""
    counts = cache(distribution)
    for smaller, data in dict.fromkeys(pairs):
        moves = [n - less for n, less in zip(counts(data), counts(smaller), strict=True)]
        for (low, one), (high, other) in combinations(enumerate(moves, start=1), 2):
            if not -low <= other - one <= high - low:
                raise NotPrivateError(f"{data} against {smaller}: {moves}")


def people_with(holdings, n_people):
    """Data sets of fewer people, and each with one person more."""
    return one_more(data_sets(holdings, n_people - 1), holdings)


@cache
def bound_distribution(cover, cost):
    """The distribution of the bound when a step of a grid of 1 is a factor 1/2.

    EPSILON is spent on the choice, and a unit of bound costs so many items.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "discrete_laplaces", lambda rates, draws: [0] * len(rates))
        patch.setattr(difference, "grid_of", lambda epsilon: 1)
        patch.setattr(difference, "_COST", cost)
        distribution, unfinished = distribution_of(
            lambda draws: bounded.release(cover, 2 * EPSILON, BETA, "difference", draws, BOUNDS),
            PowersOf(HALF, EPSILON / 2),
        )
    assert unfinished == 0
    return {release.contribution_bound: p for release, p in distribution.items()}


def defined_distribution(cover, cost):
    """The same, written down from difference.md."""
    weights = {}
    for i, (low, n) in enumerate(zip(BOUNDS, cover, strict=True)):
        scores = [
            (cost * (low - other) - (n - its)) / Fraction(max(min(low, other), abs(low - other)))
            for other, its in zip(BOUNDS, cover, strict=True)
        ]
        weights[low] = Fraction(1, 4) ** i * HALF ** (max(scores) // 1)
    return normalized(weights)


def table_of(sensitivity):
    return lambda bounds, unit: [[unit * sensitivity(at, its) for its in bounds] for at in bounds]


def cases(shipped_cover):
    """The domains and the mutants of the choice, on the covers that are shipped."""

    @cache
    def covers():
        """Neighbouring covers under BOUNDS: they decide all that is drawn."""
        found = chain(people_with(PAIRS, 3), people_with(APART, 4), people_with(ALIKE, 6))
        pairs = {tuple(shipped_cover(one, 5) for one in pair) for pair in found}
        return sorted({tuple(tuple(n[at - 1] for at in BOUNDS) for n in pair) for pair in pairs})

    def choice(cost, remember=True):
        def of(cover):
            return (bound_distribution if remember else bound_distribution.__wrapped__)(cover, cost)

        return Domain(
            of,
            covers,
            within_range(HALF**-2),
            inputs=lambda: {cover for pair in covers() for cover in pair},
            defined=lambda cover: defined_distribution(cover, cost),
        )

    domains = {
        "differences of counts": Domain(
            lambda data: shipped_cover(data, 6), lambda: people_with(PAIRS, 3), check_differences
        ),
        **{f"a bound by differences, {cost} items a unit": choice(cost) for cost in (0, 1, 3)},
    }
    afresh = choice(1, remember=False)
    mutants = {
        "differences that move by their distance": Mutant(
            afresh,
            changed(difference, "_sensitivities", table_of(lambda at, its: abs(at - its) or 1)),
        ),
        "differences that move by the smaller bound": Mutant(
            afresh, changed(difference, "_sensitivities", table_of(min))
        ),
        "a choice by differences at twice its rate": Mutant(afresh, times_two(difference, "_rate")),
    }
    return domains, mutants

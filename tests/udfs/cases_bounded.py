"""Distinct counts under contribution bounds: distributions, neighbours and mutants of three covers."""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import chain, combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import bounded, difference, greedy, matching
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.select import normalized
from tests.udfs import cases_difference
from tests.udfs.choices import exact_loops
from tests.udfs.conformance import Case, Domain, Mutant, changed, times_two, within
from tests.udfs.distributions import NotPrivateError, distribution_of, draws_fit, one_more

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
HALF = Fraction(1, 2)
SUBSETS = [frozenset(chosen) for n in range(4) for chosen in combinations("abc", n)]
"""All that a person may hold."""

GRAPH = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 1, 2, 2])
"""Four items; three people hold one or two each."""


def graph_of_runs(runs):
    people = np.array(list(chain.from_iterable(runs)), dtype=np.int64)
    return np.cumsum([0, *map(len, runs)]), people


class Recorder:
    """Draws that always give the first outcome and keep the rates that they were asked at."""

    def __init__(self):
        self.rates = []

    def choose(self, odds):
        self.rates.append(odds.rate)
        return 0

    def flip_each(self, coins, n):
        assert n == 0 or [*map(self.choose, coins.odds)]
        return np.zeros((n, len(coins.odds)), bool)


def runs_by_value(data):
    """What a caller makes of a data set: runs of people, codes ascending in value."""
    values = sorted(set(chain.from_iterable(data)))
    return [[person for person, held in enumerate(data) if v in held] for v in values]


def graph_of(data):
    return graph_of_runs(runs_by_value(data))


def data_sets(n_people):
    """All data sets of so many people over three items, as they count: unordered."""
    return combinations_with_replacement(SUBSETS, n_people)


def neighbours(n_people):
    """Data sets of fewer people, and each with one person more."""
    return one_more(chain.from_iterable(map(data_sets, range(n_people))), SUBSETS)


def without_one(data):
    return [data[:j] + data[j + 1 :] for j in range(len(data))]


@cache
def covered(people, bound):
    """F(bound) by trying everything: the most items covered by at most bound from each."""
    choices = [
        [chosen for n in range(bound + 1) for chosen in combinations(sorted(items), n)]
        for items in people
    ]
    return max(len(set(chain.from_iterable(chosen))) for chosen in product(*choices))


def check_moves(distribution, pairs):
    """Raise unless one person more moves the count under bound l by 0 to l."""
    counts = cache(distribution)
    for smaller, data in pairs:
        moves = [n - less for n, less in zip(counts(data), counts(smaller), strict=True)]
        if not all(0 <= move <= bound for bound, move in enumerate(moves, start=1)):
            raise NotPrivateError(f"{data} against {smaller}: {moves}")


def noise_fits(mechanism, tenths, _):
    """At the bound 2 every item of GRAPH is counted, and all that is drawn is noise."""
    q, epsilon = math.exp(-1 / 4), Fraction(tenths, 20)
    distribution = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)}
    run = partial(mechanism.run, *GRAPH, epsilon, BETA, 5, 2)
    return draws_fit(lambda: run().estimate - 4, 6_000, distribution)


def case_of_bounded(mechanism, domains, mutants):
    return Case(
        mechanism=mechanism,
        domains=domains,
        mutants=mutants,
        loss=PrivacyLoss(EPSILON, rho=Fraction(5, 32), bounded_range=Fraction(3, 2)),
        says="with probability 95 %, the estimate exceeds the true number of distinct "
        "items by at most 5 when the contribution bound is 1, rising to 461 when it is 100 "
        "(epsilon = 1)",
        fits=partial(noise_fits, mechanism),
    )


# Matching: a bound that is chosen by gem, with exp(-epsilon/4) = 1/2 and a grid of 1.

QUARTER = Fraction(1, 2)


def release_distribution(cover, selection="gem"):
    """The distribution of (estimate, bound); outcomes that need many draws are left out, in pairs."""
    q_of = {EPSILON / 4: QUARTER, EPSILON / 2: QUARTER**2, EPSILON: QUARTER**4}
    with exact_loops(q_of), pytest.MonkeyPatch.context() as patch:
        for module in (normalized, difference):
            patch.setattr(module, "grid_of", lambda epsilon: 1)
        distribution, unfinished = distribution_of(
            lambda draws: bounded.release(cover, EPSILON, BETA, selection, draws), q_of, limit=9
        )
    assert unfinished < Fraction(1, 8)
    return distribution


def complete(distribution, reach=6):
    """The part of a distribution with estimates of at most `reach`: all their paths are short."""
    return {release: p for release, p in distribution.items() if abs(release.estimate) <= reach}


def given_the_bound(distribution):
    """The distribution of the estimate for each bound, up to the paths that were left out."""
    size_of = Counter()
    for release, p in distribution.items():
        size_of[release.contribution_bound] += p
    return {release: p / size_of[release.contribution_bound] for release, p in distribution.items()}


def shipped_cover(data, n_bounds):
    return tuple(matching.cover_counts(*graph_of(data), range(1, n_bounds + 1)))


def matched(after, factor, selection="gem"):
    """The whole path: from data through the flow to the release under a bound that is chosen."""

    def pairs():
        return {
            (shipped_cover(data, 2), shipped_cover((*data, person), 2))
            for data in data_sets(2)
            for person in SUBSETS
        }

    def distribution(cover):
        return complete(after(release_distribution(cover, selection)))

    return Domain(distribution, pairs, within(factor))


ALL = matched(lambda distribution: distribution, QUARTER**-4)
DIFFERENCE = matched(lambda distribution: distribution, QUARTER**-4, "difference")
GIVEN = matched(given_the_bound, QUARTER**-2 * Fraction(11, 10))

CHOICES, WRONG_CHOICES = cases_difference.cases(shipped_cover)

MATCHING = case_of_bounded(
    matching.MATCHING,
    domains={
        "the most items that can be covered": Domain(
            lambda data: shipped_cover(data, 3),
            lambda: neighbours(3),
            check_moves,
            inputs=lambda: chain(data_sets(1), data_sets(2), data_sets(3)),
            defined=lambda data: tuple(covered(data, bound) for bound in (1, 2, 3)),
        ),
        "a release": ALL,
        "a release by differences": DIFFERENCE,
        "a release given its bound": GIVEN,
        **CHOICES,
    },
    mutants={
        **WRONG_CHOICES,
        "noise for the whole of epsilon": Mutant(GIVEN, times_two(bounded, "noise_rate")),
        "noise that forgets the bound": Mutant(
            GIVEN, changed(bounded, "noise_rate", lambda share, at: 2 * share)
        ),
    },
)


# Greedy: an order that others cannot move. exp(-epsilon / bound) is 1/2.

ROWS = [chosen for n in range(4) for chosen in permutations("abc", n)]
"""All that a person may hold, as rows in some order."""

WIDE = [chosen for n in range(5) for chosen in combinations("abcd", n)]


@cache
def given_distribution(counts, bound, reach=6):
    """The distribution of releases with small estimates under a given bound: all their paths are short."""
    distribution, unfinished = distribution_of(
        lambda draws: bounded.release(counts, EPSILON, BETA, bound, draws),
        {EPSILON / bound: HALF},
        limit=14,
    )
    assert unfinished < Fraction(1, 100)
    return {release: p for release, p in distribution.items() if abs(release.estimate) <= reach}


def in_turns(runs, max_bound=5):
    """The shipped counts, from the people of item 0, of item 1, ..."""
    return greedy.cover_counts(*graph_of_runs(runs), range(1, max_bound + 1))


def by_first_appearance(data):
    """Wrong: items are coded in the order in which the rows name them."""
    values = dict.fromkeys(chain.from_iterable(data))
    return [[person for person, held in enumerate(data) if v in held] for v in values]


def algorithm_2(data, max_bound=5):
    """The paper's rounds, read slowly, on values."""
    taken, counts = set(), []
    for _ in range(max_bound):
        for held in data:
            left = sorted(set(held) - taken)
            taken.update(left[:1])
        counts.append(len(taken))
    return counts


def held_by_three(holdings):
    for data in product(holdings, repeat=3):
        yield from ((smaller, data) for smaller in without_one(data))


def greedily(numbering, holdings):
    return Domain(
        lambda data: in_turns(numbering(data)),
        lambda: held_by_three(holdings),
        check_moves,
        inputs=lambda: product(holdings, repeat=3),
        defined=algorithm_2,
    )


def greedy_release(count, bound):
    return Domain(
        lambda data: given_distribution(tuple(count(data)), bound),
        lambda: held_by_three(ROWS),
        within(HALF**-bound),
    )


@cache
def given_in_turns(bound):
    return greedy_release(lambda data: in_turns(runs_by_value(data), bound), bound)


SETS, ORDERED = greedily(runs_by_value, WIDE), greedily(runs_by_value, ROWS)

GREEDY = case_of_bounded(
    greedy.GREEDY,
    domains={
        "the rounds of algorithm 2": SETS,
        "rows in any order": ORDERED,
        "a release under 1": given_in_turns(1),
        "a release under 2": given_in_turns(2),
    },
    mutants={
        "an order that others can move": Mutant(
            ORDERED, distribution=greedily(by_first_appearance, ROWS).distribution
        ),
        "a release in an order that others can move": Mutant(
            given_in_turns(1),
            distribution=greedy_release(
                lambda data: in_turns(by_first_appearance(data), 1), 1
            ).distribution,
        ),
        "a count under two with noise for one": Mutant(
            given_in_turns(1),
            distribution=greedy_release(
                lambda data: in_turns(runs_by_value(data), 2)[1:], 1
            ).distribution,
        ),
    },
)

CASES = [MATCHING, GREEDY]

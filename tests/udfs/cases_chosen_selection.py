"""Chosen selection: distributions, neighbours and mutants; data sets as in cases_weighted_gaussian.py.

The choice takes a quarter of epsilon and a vote is -1, 0 or 1, so that all rates are multiples of epsilon / 8, whose power is
a fraction of few digits.
"""

from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product
from math import comb, isqrt, lcm

import numpy as np
import pytest

from dp_sql.udfs.groups import chosen_selection
from dp_sql.udfs.intervals import exp_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs import cases_partition_selection as gaussian
from tests.udfs import cases_weighted_gaussian as weighted
from tests.udfs.cases_limited_domain import check
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    slow_if,
    within,
)
from tests.udfs.distributions import data_sets, distribution_of, draws_fit, one_more

EPSILON, DELTA, CHOICE = Fraction(1), gaussian.DELTA, Fraction(1, 4)


@cache
def powers(epsilon):
    """exp(-epsilon / 8) is rounded up: Laplace noise loses a little less than epsilon."""
    return PowersOf(exp_enclosure(epsilon / 8, 10)[1], epsilon / 8)


def quantile(epsilon, rate, mass):
    q, x = powers(epsilon)[rate], 1
    while q**x > mass * (1 + q):
        x += 1
    return x


def constants_of(epsilon, cap):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chosen_selection, "laplace_quantile", partial(quantile, epsilon))
        patch.setattr(chosen_selection, "_CHOICE", CHOICE)
        patch.setattr(chosen_selection, "_STEPS", 1)
        return chosen_selection.selection_constants.__wrapped__(epsilon, DELTA, cap)


def released(people, epsilon, cap):
    """The sets that the code finds, with the constants of the moment: mutants of them are seen."""
    constants = constants_of(epsilon, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chosen_selection, "selection_constants", lambda *given: constants)
        patch.setattr(chosen_selection, "_STEPS", 1)

        def run(path):
            patch.setattr(chosen_selection, "secret_draws", lambda: path)
            pairs = weighted.as_pairs(people)
            return tuple(chosen_selection.chosen_selection(*pairs, epsilon, DELTA, cap))

        distribution, unfinished = distribution_of(run, powers(epsilon))
    assert unfinished == 0
    return weighted.without_zeros(distribution)


def with_laplace_noise(people, epsilon, most, q):
    """Pseudocode of the note: all groups that people may keep, all sets that may be found."""
    unit = lcm(*range(1, most + 1))
    q_unit, distribution = q[epsilon / unit], Counter()

    def reaches(level):
        return q_unit**level / (1 + q_unit) if level > 0 else 1 - reaches(1 - level)

    threshold = 0
    for t in range(1, most + 1):
        x = 1
        while t * reaches(x) > DELTA:
            x += 1
        threshold = max(threshold, unit // t + x)
    share = Fraction(1)
    for own in people:
        share /= comb(len(own), min(len(own), most))
    for kept in product(*([*combinations(own, min(len(own), most))] for own in people)):
        sums = Counter()
        for own in kept:
            sums.update(dict.fromkeys(own, unit // len(own)))
        for which in product((True, False), repeat=len(sums)):
            p, found = share, []
            for (group, weight), hit in zip(sums.items(), which, strict=True):
                chance = reaches(threshold - weight)
                p *= chance if hit else 1 - chance
                found += [group] * hit
            distribution[tuple(sorted(found))] += p
    return distribution, Fraction(threshold, unit)


def defined(people, epsilon, cap):
    q = powers(epsilon)
    if cap < 3:
        found, _ = with_laplace_noise(people, epsilon, cap, q)
        return {groups: p for groups, p in found.items() if p}
    less = epsilon * (1 - CHOICE)
    found, high = with_laplace_noise(people, less, 3, q)
    other = gaussian.constants_of(less, cap)
    ratio = int(1024 * Fraction(other.threshold, other.weights[0]) / high)
    votes = 0
    for own in people:
        ahead = (ratio - isqrt(len(own) * 1024**2)) // max(1, ratio - 1024)
        votes += max(-1, min(ahead, 1))
    odds = q[epsilon * CHOICE] ** votes  # of Gaussian noise
    for groups, p in gaussian.defined(people, less, cap).items():
        found[groups] += odds * p
    return {groups: p / (1 + odds) for groups, p in found.items() if p}


def domain(epsilon, cap, sets):
    return Domain(
        partial(released, epsilon=epsilon, cap=cap),
        pairs=lambda: weighted.one_person_more(sets),
        check=partial(check, epsilon=epsilon, delta=DELTA),
        inputs=lambda: sets,
        defined=partial(defined, epsilon=epsilon, cap=cap),
    )


def chosen_alone(sizes):
    """Which noise is drawn, for people in so many groups each."""
    both = constants_of(EPSILON, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chosen_selection, "_STEPS", 1)
        total = chosen_selection.votes(np.array(sizes, np.int64), both.few, both.many)
    run = partial(chosen_selection._is_few, total, both.rate)
    return distribution_of(run, powers(EPSILON))[0]


ALONE = Domain(
    chosen_alone, lambda: one_more(data_sets(range(1, 5), 4), range(1, 9)),
    within(powers(EPSILON)[-EPSILON * CHOICE]),
)  # fmt: skip


def without_steps(patch):
    right = chosen_selection.votes
    patch.setattr(chosen_selection, "votes", lambda sizes, *of: 2 * right(sizes, *of))


def for_one_group(weights, rate, delta):
    return weights[0] + chosen_selection._quantile(rate, delta)


def for_most_groups(weights, rate, delta):
    return weights[-1] + chosen_selection._quantile(rate, delta / len(weights))


LOW, HIGH = weighted.LOW, weighted.HIGH


def fit(tenths, patch):
    people = ((0, 1),) * 5 + ((0,),) * 2 + ((2,),) * 3
    constants = chosen_selection.selection_constants(EPSILON * Fraction(tenths, 10), DELTA, 2)
    patch.setattr(chosen_selection, "selection_constants", lambda *given: constants)
    run = partial(chosen_selection.chosen_selection, *weighted.as_pairs(people), EPSILON, DELTA, 2)
    real = {rate: Fraction(exp_enclosure(rate, 60)[0]) for rate in (EPSILON, EPSILON / 2)}
    expected, _ = with_laplace_noise(people, EPSILON, 2, real)
    return draws_fit(lambda: tuple(run()), 5_000, expected)


CHOSEN_SELECTION = Case(
    mechanism=chosen_selection.CHOSEN_SELECTION,
    domains={
        slow_if(n > 1, f"epsilon {epsilon}, cap {cap}, up to {n + 1} people"): domain(
            epsilon, cap, [*data_sets(weighted.PEOPLE, n)]
        )
        for epsilon, cap, n in [
            (EPSILON, 1, 1), (EPSILON, 2, 1), (EPSILON, 3, 1), (LOW, 3, 1), (HIGH, 4, 1), (EPSILON, 1, 2), (EPSILON, 3, 2)
        ]
    } | {"the choice of noise": ALONE},
    mutants={
        "a threshold for one group": Mutant(
            domain(LOW, 2, [()]), changed(chosen_selection, "_threshold", for_one_group)
        ),
        "a threshold for the most groups": Mutant(
            domain(HIGH, 2, [()]), changed(chosen_selection, "_threshold", for_most_groups)
        ),
        "no cap": Mutant(domain(LOW, 1, [()]), weighted.without_cap),
        "groups that no one keeps": Mutant(domain(LOW, 1, [()]), weighted.kept_by_nobody),
        "votes of twice the size": Mutant(ALONE, without_steps),
        "all of epsilon for what is found, and a choice": Mutant(
            domain(EPSILON, 3, [((0,),)]),
            distribution=lambda people: released(people, EPSILON * 4 / 3, 3),
            check=check_distribution,
        ),
    },
    loss=PrivacyLoss(EPSILON, Fraction(1, 10**6)),
    says="with probability 95 %, a group is found if it has 37 people who are in no other, or 64 who are in up to "
    "3 groups each (epsilon = 1, delta = 0.000001)",
    fits=fit,
)  # fmt: skip

CASES = [CHOSEN_SELECTION]

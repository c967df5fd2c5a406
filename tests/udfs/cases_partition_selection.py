"""Partition selection: distributions, neighbours and mutants; data sets as in cases_weighted_gaussian.py."""

from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import comb

import pytest

from dp_sql.udfs.concentrated import largest_rho
from dp_sql.udfs.groups import partition_selection
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import weighted_gaussian
from tests.udfs import cases_weighted_gaussian as weighted
from tests.udfs.cases_limited_domain import check
from tests.udfs.conformance import Case, Domain, Mutant, changed
from tests.udfs.distributions import data_sets, distribution_of, draws_fit

EPSILON, DELTA = Fraction(1), Fraction(3, 20)


def constants_of(epsilon, cap):
    return weighted_gaussian._constants.__wrapped__(0, epsilon, DELTA, cap)


def released(people, epsilon, cap):
    """The sets that the code finds, with the constants of the moment: mutants of them are seen."""
    constants = constants_of(epsilon, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_selection, "finding_constants", lambda *given: constants)

        def run(path):
            patch.setattr(partition_selection, "secret_draws", lambda: path)
            pairs = weighted.as_pairs(people)
            return tuple(partition_selection.partition_selection(*pairs, epsilon, DELTA, cap))

        distribution, unfinished = distribution_of(run, {})
    assert unfinished == 0
    return weighted.without_zeros(distribution)


def defined(people, epsilon, cap):
    """Pseudocode of the note: all groups that people may keep, all sets that may be found."""
    constants, distribution = constants_of(epsilon, cap), Counter()
    cap, share = len(constants.weights), Fraction(1)
    for own in people:
        share /= comb(len(own), min(len(own), cap))
    for kept in product(*([*combinations(own, min(len(own), cap))] for own in people)):
        sums = Counter()
        for own in kept:
            for group in own:
                sums[group] += constants.weights[len(own) - 1]
        for which in product((True, False), repeat=len(sums)):
            p, found = share, []
            for (group, weight), hit in zip(sums.items(), which, strict=True):
                chance = weighted.reaches(constants.threshold - weight, constants.scale)
                p *= chance if hit else 1 - chance
                found += [group] * hit
            distribution[tuple(sorted(found))] += p
    return {found: p for found, p in distribution.items() if p}


def domain(epsilon, cap, sets, pairs=None):
    return Domain(
        partial(released, epsilon=epsilon, cap=cap),
        pairs=pairs or (lambda: weighted.one_person_more(sets)),
        check=partial(check, epsilon=epsilon, delta=DELTA),
        inputs=lambda: sets,
        defined=partial(defined, epsilon=epsilon, cap=cap),
    )


LOW, HIGH = weighted.LOW, weighted.HIGH


def fit(tenths, patch):
    people = ((0, 1),) * 5 + ((0,),) * 2 + ((2,),) * 3
    constants = constants_of(EPSILON * Fraction(tenths, 10), 2)
    patch.setattr(partition_selection, "finding_constants", lambda *given: constants)
    pairs = weighted.as_pairs(people)
    run = partial(partition_selection.partition_selection, *pairs, EPSILON, DELTA, 2)
    return draws_fit(lambda: tuple(run()), 5_000, defined(people, EPSILON, 2))


PARTITION_SELECTION = Case(
    mechanism=partition_selection.PARTITION_SELECTION,
    domains={
        f"epsilon {epsilon}, cap {cap}": domain(epsilon, cap, [*data_sets(weighted.PEOPLE, n)])
        for epsilon, cap, n in [(EPSILON, 1, 1), (EPSILON, 2, 1), (LOW, 3, 1), (HIGH, 2, 1)]
    },
    mutants={
        "a threshold for one group": Mutant(
            domain(LOW, 3, [()]), changed(weighted_gaussian, "_threshold", weighted.for_one_item)
        ),
        "a threshold for the most groups": Mutant(
            domain(HIGH, 3, [()]), changed(weighted_gaussian, "_threshold", weighted.for_most_items)
        ),
        "no cap": Mutant(domain(LOW, 1, [()]), weighted.without_cap),
        "groups that no one keeps": Mutant(domain(LOW, 1, [()]), weighted.kept_by_nobody),
        "every group is found": Mutant(
            domain(EPSILON, 1, [()]),
            distribution=lambda people: {
                tuple(sorted({group for own in people for group in own})): Fraction(1)
            },
        ),
    },
    loss=PrivacyLoss(
        EPSILON,
        Fraction(1, 10**6),
        approximate=(largest_rho(EPSILON, Fraction(1, 2 * 10**6)), Fraction(1, 2 * 10**6)),
    ),
    says="with probability 95 %, a group is found if it has 35 people who are in no other, or 346 who are in up to "
    "100 groups each (epsilon = 1, delta = 0.000001)",
    fits=fit,
)

CASES = [PARTITION_SELECTION]

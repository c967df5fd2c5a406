"""Counts of groups with one vector of noise: the exact distribution, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import chain, product

import pytest

from dp_sql.udfs.contributions import bound, histogram
from dp_sql.udfs.histogram import k_norm, k_norm_bound
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs.cases_bound import HALF, added, columns, defined_choice, summed_above
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    times_two,
    within,
)
from tests.udfs.distributions import distribution_of, draws_fit, normalized

EPSILON = Fraction(1)
Q = Fraction(1, 3)
"""Stands for exp(-EPSILON / 6): the odds of all rates here are whole powers of it."""


def norm(z):
    return max(0, *z) - min(0, *z)


def weight(noise, rate, power=norm):
    unit = rate * 6 / EPSILON
    assert unit.denominator == 1
    return Q ** (unit.numerator * power(noise))


def released(bound, counts):
    """The weight of each answer in a window, by the vectors and the rate that the code asks for."""
    asked = set()
    window = {}
    for noise in product(range(-6, 5), repeat=len(counts)):

        def drawn(k, rate, draws, noise=noise):
            asked.add((k, rate))
            return list(noise)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(k_norm, "range_norm_noise", drawn)
            answer = tuple(k_norm.K_NORM.run([*counts], EPSILON, bound))
        if all(-1 <= y <= 3 for y in answer):
            window[answer] = noise
    ((k, rate),) = asked
    assert k == len(counts)
    return {answer: weight(noise, rate) for answer, noise in sorted(window.items())}


def defined(bound, counts):
    every = product(range(-1, 4), repeat=len(counts))
    noise = ((y, tuple(a - b for a, b in zip(y, counts, strict=True))) for y in every)
    return {y: weight(z, EPSILON / bound) for y, z in noise}


def neighbours(k, bound):
    """A person adds 0, ..., bound to each count, to as many as there are."""
    for counts in product(range(2), repeat=k):
        for more in product(range(bound + 1), repeat=k):
            yield counts, tuple(map(sum, zip(counts, more, strict=True)))


def domain(k, bound, pairs=None):
    return Domain(
        partial(released, bound),
        pairs=lambda: pairs or neighbours(k, bound),
        check=within(Q**-6),
        inputs=lambda: product(range(3), repeat=k),
        defined=partial(defined, bound),
    )


def each_group_by_itself(counts):
    every = product(range(-1, 4), repeat=len(counts))
    apart = partial(weight, rate=EPSILON, power=lambda z: sum(map(abs, z)))
    return {y: apart([a - b for a, b in zip(y, counts, strict=True)]) for y in every}


right_rate = k_norm._rate


def fit(tenths, patch, run=lambda: k_norm.K_NORM.run([7, 5], EPSILON, 1)):
    patch.setattr(k_norm, "_rate", lambda *given: right_rate(*given) * Fraction(tenths, 10))
    near = {z: norm(z) for z in product(range(-40, 41), repeat=2)}
    expected: Counter = Counter()
    for size in near.values():
        expected[min(size, 12)] += Fraction(math.exp(-size))

    def draw():
        a, b = run()
        return min(norm((a - 7, b - 5)), 12)

    return draws_fit(draw, 6_000, normalized(expected))


K_NORM = Case(
    mechanism=k_norm.K_NORM,
    domains={f"{k} groups, bound {b}": domain(k, b) for k, b in [(1, 1), (2, 1), (3, 1), (2, 2), (2, 3)]},
    mutants={
        "noise of each group by itself": Mutant(domain(2, 1), distribution=each_group_by_itself),
        "the rate of a bound of one": Mutant(
            domain(2, 2), changed(k_norm, "_rate", lambda epsilon, bound: epsilon)
        ),
        "another rate that is private": Mutant(
            domain(2, 1), changed(k_norm, "_rate", lambda epsilon, bound: epsilon / 2),
            check=check_distribution,
        ),
        "a group without noise": Mutant(
            domain(2, 1), distribution=lambda counts: {
                y: p for y, p in defined(1, counts).items() if y[0] == counts[0]
            },
        ),
    },
    loss=PrivacyLoss(EPSILON),
    says="with probability 95 %, all 1000 counts are within ± 980 of those without noise (epsilon = 1)",
    fits=fit,
    tight={
        "a person who enters a group twice": domain(2, 1, [((0, 0), (2, 0))]),
        "a person who moves groups both ways": domain(2, 1, [((1, 0), (0, 1))]),
        "less than epsilon": Domain(
            partial(released, 1), pairs=lambda: neighbours(2, 1), check=within(Q**-5)
        ),
    },
)  # fmt: skip

# Rows of two groups under a bound of 1 or 2 that is chosen: exp(-EPSILON / 4) is 1/2.


PEOPLE = [person for person in product(range(3), repeat=2) if any(person)]
ANSWERS = [*product(range(-1, 4), repeat=2)]


def probability(q, z):
    """Of noise z for two groups: 6 r points have the norm r >= 1, and one has 0."""
    return q ** norm(z) / (1 + 6 * q / (1 - q) ** 2)


def largest(person):
    return [max(person)]


def chosen(data, counted=largest):
    """The distribution of (answers, bound); the noise is put on at the rate that the code asks for."""
    groups = [columns([person[g] for person in data], 3) for g in range(2)]
    most = columns([n for person in data for n in counted(person)], 3)
    rates = {}

    def no_noise(k, rate, draws):
        rates["last"] = rate
        return [0] * k

    def run(draws):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(k_norm_bound, "secret_draws", lambda: draws)
            counts, at = k_norm_bound.K_NORM_BOUND.run(groups, most, EPSILON, 2)
        return tuple(counts), at, rates["last"]

    q_of = PowersOf(HALF, EPSILON / 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "_SUPPORT", HALF)
        patch.setattr(k_norm, "range_norm_noise", no_noise)
        exact, unfinished = distribution_of(run, q_of)
    assert unfinished == 0
    return {
        (y, at): p * probability(q_of[rate], [a - b for a, b in zip(y, kept, strict=True)])
        for (kept, at, rate), p in exact.items()
        for y in ANSWERS
    }


def defined_choosing(data):
    """The same, written down from the proof notes."""
    distribution = {}
    for place, weight in defined_choice([max(person) for person in data], 1, 16, 2).items():
        at = 2**place
        kept = [sum(min(at, person[g]) for person in data) for g in range(2)]
        for y in ANSWERS:
            z = [a - b for a, b in zip(y, kept, strict=True)]
            distribution[y, at] = weight * probability(HALF ** (2 - place), z)
    return distribution


def choosing(factor=HALF**-3, distribution=chosen):
    """Of two bounds the weight of one moves at a time: the choice costs a quarter of EPSILON here."""
    return Domain(
        distribution,
        lambda: added(PEOPLE, 3),
        within(factor),
        inputs=lambda: chain.from_iterable(added(PEOPLE, 2)),
        defined=defined_choosing,
    )


def fit_chosen(tenths, patch):
    def run():
        table = [([0], [7], [7]), ([0], [5], [5])]
        return k_norm_bound.K_NORM_BOUND.run(table, ([0], [9], [9]), 2 * EPSILON, 1)[0]

    return fit(tenths, patch, run)


TWO_GROUPS = choosing()
AFRESH = choosing(distribution=partial(chosen))

K_NORM_BOUND = Case(
    mechanism=k_norm_bound.K_NORM_BOUND,
    domains={"rows of 2 groups, a bound of 1 or 2": TWO_GROUPS},
    mutants={
        "people counted in each of their groups": Mutant(
            TWO_GROUPS, distribution=partial(chosen, counted=list)
        ),
        "the rate of a bound of one": Mutant(
            AFRESH, changed(k_norm, "_rate", lambda epsilon, bound: epsilon)
        ),
        "a bound at twice its rate": Mutant(AFRESH, times_two(bound, "_rate")),
        "a bound by rows instead of people": Mutant(
            AFRESH, changed(histogram.Histogram, "above", summed_above)
        ),
        "rows beyond the bound": Mutant(
            AFRESH, changed(histogram.Histogram, "clipped", lambda these, i: these.total)
        ),
        "noise at another share": Mutant(
            AFRESH, changed(k_norm_bound, "noise_share", lambda epsilon, most: epsilon / 4),
            check=check_distribution,
        ),
    },
    loss=PrivacyLoss(EPSILON, rho=EPSILON**2 * Fraction(5, 32), bounded_range=EPSILON * 3 / 2),
    says="with probability 95 %, all 1000 counts are within ± 1960 of those without noise if the bound is 1, "
    "± 31619 if it is 16; it is chosen for all groups together, from 1, 2, 4, ... up to 64, and a person's rows "
    "beyond it in a group are not counted (epsilon = 1)",
    fits=fit_chosen,
    tight={"less than epsilon": choosing(HALF**-2)},
)  # fmt: skip

CASES = [K_NORM, K_NORM_BOUND]

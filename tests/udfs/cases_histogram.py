"""Counts of groups with one vector of noise: the exact distribution, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product

import pytest

from dp_sql.udfs.histogram import k_norm
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs.conformance import Case, Domain, Mutant, changed, check_distribution, within
from tests.udfs.distributions import draws_fit, normalized

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
        for added in product(range(bound + 1), repeat=k):
            yield counts, tuple(map(sum, zip(counts, added, strict=True)))


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


def fit(tenths, patch):
    patch.setattr(k_norm, "_rate", lambda *given: right_rate(*given) * Fraction(tenths, 10))
    near = {z: norm(z) for z in product(range(-40, 41), repeat=2)}
    expected: Counter = Counter()
    for size in near.values():
        expected[min(size, 12)] += Fraction(math.exp(-size))

    def draw():
        a, b = k_norm.K_NORM.run([7, 5], EPSILON, 1)
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

CASES = [K_NORM]

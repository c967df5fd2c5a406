"""The number of people with noise: its distribution, neighbours and a mutant."""

import math
from fractions import Fraction

import pytest

from dp_sql.udfs.contributions import laplace
from dp_sql.udfs.contributions.release import BoundedRelease
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs.conformance import Case, Domain, Mutant, changed, within
from tests.udfs.distributions import distribution_of, draws_fit

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
HALF = Fraction(1, 2)
REACH = range(-6, 7)


def shipped(rate):
    """What is released if the noise has this rate, and exp(-1) is a half."""

    def of(people):
        def run(draws):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(laplace, "secret_draws", lambda: draws)
                return laplace.run(people, EPSILON, BETA)

        found, unfinished = distribution_of(run, {rate: HALF**rate}, limit=14)
        assert unfinished < Fraction(1, 100)
        return {one: p for one, p in found.items() if one.estimate in REACH}

    return of


PEOPLE = Domain(
    shipped(1),
    lambda: ((n, n + 1) for n in range(4)),
    within(2),
    inputs=lambda: range(3),
    defined=lambda n: {
        BoundedRelease(x, x - 2, 3, 1): HALF ** abs(x - n) * Fraction(1, 3) for x in REACH
    },
)


def noise_fits(tenths, _):
    q, epsilon = math.exp(-1 / 4), Fraction(tenths, 40)
    distribution = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)}
    return draws_fit(lambda: laplace.run(7, epsilon, BETA).estimate - 7, 6_000, distribution)


right = laplace.discrete_laplaces


def at_twice_the_rates(rates, draws):
    return right([2 * rate for rate in rates], draws)


CASES = [
    Case(
        mechanism=laplace.LAPLACE,
        domains={"people": PEOPLE},
        mutants={
            "noise for twice epsilon": Mutant(
                PEOPLE,
                changed(laplace, "discrete_laplaces", at_twice_the_rates),
                distribution=shipped(2),
            ),
        },
        loss=PrivacyLoss(EPSILON),
        says="with probability 95 %, the estimate is within 3 of the number of people (epsilon = 1)",
        fits=noise_fits,
        tight={
            "all of epsilon is used": Domain(
                PEOPLE.distribution, PEOPLE.pairs, within(Fraction(19, 10))
            )
        },
    )
]

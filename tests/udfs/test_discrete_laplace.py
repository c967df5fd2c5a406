"""Discrete Laplace noise has its distribution exactly, and its quantile is the least integer."""

from collections import Counter
from fractions import Fraction
from math import prod

import numpy as np
import pytest

from dp_sql.udfs.discrete_laplace import (
    discrete_laplace,
    discrete_laplaces,
    laplace_quantile,
    laplace_reaches,
)
from dp_sql.udfs.exact_sampling import secret_draws
from tests.udfs.distributions import distribution_of, fits
from tests.udfs.test_exact_sampling import RATES, real_exp


@pytest.mark.one_in(5)
@pytest.mark.parametrize("rate", RATES)
def test_the_noise_distribution_is_exact(rate):
    q = Fraction(1, 2)
    distribution, unfinished = distribution_of(
        lambda draws: discrete_laplace(rate, draws), {rate: q}, limit=12
    )
    assert unfinished <= Fraction(1, 32)
    assert len(distribution) > 8
    for x, p in distribution.items():
        assert p == (1 - q) / (1 + q) * q ** abs(x)


def test_whether_noise_reaches_a_level_is_drawn_with_its_exact_probability():
    q, rate = Fraction(1, 3), Fraction(1)
    for level in range(-4, 5):
        levels = np.array([level, 2])
        exact, _ = distribution_of(
            lambda draws, levels=levels: tuple(laplace_reaches(levels, rate, draws).tolist()),
            {rate: q},
        )
        upper = q ** max(level, 1 - level) / (1 + q)
        p = upper if level > 0 else 1 - upper
        assert exact[True, True] == p * q**2 / (1 + q)
        assert exact[True, True] + exact[True, False] == p


def test_numbers_at_several_rates_are_independent():
    """Two at once have the product of their distributions, each at its own rate, in this order."""
    q_of = {Fraction(2): Fraction(1, 4), Fraction(3): Fraction(1, 8)}
    distribution, unfinished = distribution_of(
        lambda draws: tuple(discrete_laplaces([Fraction(3), Fraction(2), Fraction(3)], draws)),
        q_of,
        limit=9,
    )
    assert unfinished <= Fraction(1, 8)
    assert len(distribution) > 20
    for pair, p in distribution.items():
        each = [
            (1 - q) / (1 + q) * q ** abs(x)
            for q, x in zip((q_of[3], q_of[2], q_of[3]), pair, strict=True)
        ]
        assert p == prod(each)


@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(49, 100), Fraction(1, 10**12)])
@pytest.mark.parametrize("rate", [*RATES, Fraction(1, 10**6), Fraction(100)])
def test_the_quantile_is_the_least_integer_with_a_small_tail(rate, beta):
    x = laplace_quantile(rate, beta)
    allowed = beta * (1 + real_exp(rate))
    assert real_exp(x * rate) <= allowed < real_exp((x - 1) * rate)


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1, 2), Fraction(-1)])
def test_the_quantile_refuses_a_beta_out_of_range(beta):
    with pytest.raises(ValueError, match="beta"):
        laplace_quantile(Fraction(1), beta)


def test_the_quantile_refuses_a_rate_out_of_range():
    with pytest.raises(ValueError, match="rate"):
        laplace_quantile(Fraction(0), Fraction(1, 4))


def noise_distribution(rate: float) -> dict[int, float]:
    q = 2.718281828459045**-rate
    return {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("rate", "passes"),
    [(Fraction(7, 40), False), (Fraction(1, 4), True), (Fraction(13, 40), False)],
)
def test_only_noise_of_the_right_scale_fits(rate, passes):
    draws = secret_draws()
    observed = Counter(discrete_laplace(rate, draws) for _ in range(20_000))
    assert fits(observed, noise_distribution(0.25)) is passes


@pytest.mark.thorough
@pytest.mark.pure
def test_the_fit_rejects_a_planted_shift():
    draws = secret_draws()
    observed = Counter(discrete_laplace(Fraction(1, 4), draws) + 1 for _ in range(20_000))
    assert not fits(observed, noise_distribution(0.25))

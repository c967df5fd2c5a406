import math
from dataclasses import fields
from fractions import Fraction
from functools import partial

import pytest

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.select.normalized import grid_of, round_up
from tests.udfs.cases_bounded import BETA, EPSILON, Recorder
from tests.udfs.distributions import draws_fit
from tests.udfs.test_normalized import defined

pytestmark = pytest.mark.pure

COVER = [40, 60, 70, 74, 75, 75]


@pytest.fixture
def choose(monkeypatch):
    """Make the choice of the bound give one bound, and keep the rates that it was asked at."""

    def always(bound):
        rates = []

        def by_weight(blocks, draws):
            rates.append(blocks.odds.rate)
            return bound - 1

        monkeypatch.setattr(bounded, "by_weight", by_weight)
        return rates

    return always


# The whole path from flow values to the release, with exp(-epsilon/4) = 1/2 and a grid of 1.


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_half_of_epsilon_chooses_the_bound_and_half_is_noise(choose, bound):
    choices, draws = choose(bound), Recorder()
    release = bounded.release(COVER, EPSILON, BETA, "gem", draws)
    assert choices == [EPSILON / 2 / (2 * grid_of(EPSILON / 2))]
    assert set(draws.rates) == {EPSILON / 2 / bound}
    assert release.contribution_bound == bound
    assert release.estimate == COVER[bound - 1]


@pytest.mark.parametrize("noise", [-3, 0, 8])
def test_the_noise_is_added_to_the_flow_value(choose, monkeypatch, noise):
    choose(3)
    monkeypatch.setattr(bounded, "discrete_laplaces", lambda rates, draws: [noise])
    release = bounded.release(COVER, EPSILON, BETA, "gem", Recorder())
    assert release.estimate == COVER[2] + noise


@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(1, 3), Fraction(1, 10**6)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(20)])
def test_the_lower_bound_lies_the_stated_distance_below(epsilon, beta):
    draws = secret_draws()
    for _ in range(20):
        release = bounded.release(COVER, epsilon, beta, "gem", draws)
        distance = bounded.noise_bound(release.contribution_bound, epsilon, beta, "gem")
        assert release.estimate - release.lower_bound == distance >= 0


@pytest.mark.parametrize("bound", [1, 2, 30, 1000])
def test_the_noise_bound_is_the_least_one(bound):
    q = math.exp(-1 / (2 * bound))
    n = bounded.noise_bound(bound, EPSILON, BETA, "gem")
    assert q ** (n + 1) / (1 + q) <= BETA < q**n / (1 + q)


@pytest.mark.thorough
def test_the_lower_bound_fails_as_rarely_as_beta_says():
    draws = secret_draws()
    beta, n = Fraction(1, 4), 4000
    releases = [bounded.release([7], Fraction(1, 5), beta, "gem", draws) for _ in range(n)]
    failures = sum(release.lower_bound > 7 for release in releases)
    deviation = math.sqrt(n * 20 / 2)  # Hoeffding: either side fails with probability e**-20
    assert failures <= n * beta + deviation
    assert failures >= n * beta * 0.9 - deviation, "the bound is not needlessly low"


CHOSEN = (30, 52, 54)


def real_distribution(epsilon):
    """The distribution of the bound that is released, in floating point."""
    sizes = (1, 2, 3)
    cost = round_up(Fraction(2 * math.log(10)) / epsilon, 2048)
    shift = round_up(Fraction(4 * math.log(60)) / epsilon, 1024)
    utilities = [n - size * cost for n, size in zip(CHOSEN, sizes, strict=True)]
    scores = defined(utilities, sizes, shift, 1024)
    weights = [math.exp(-epsilon * score / 4096) for score in scores]
    return {size: weight / sum(weights) for size, weight in zip(sizes, weights, strict=True)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("tenths", "passes"), [(4, False), (10, True), (17, False)])
def test_only_bounds_chosen_with_the_right_epsilon_fit(tenths, passes):
    draws = secret_draws()
    distribution = real_distribution(Fraction(1))
    epsilon = Fraction(tenths, 10)
    chosen = partial(bounded.release, CHOSEN, epsilon, BETA, "gem", draws)
    found = draws_fit(lambda: chosen().contribution_bound, 6_000, distribution)
    assert found is passes


def test_a_release_has_three_fields():
    assert [field.name for field in fields(CountRelease)] == [
        "estimate",
        "lower_bound",
        "contribution_bound",
    ]

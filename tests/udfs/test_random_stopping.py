"""What is special to random stopping; the rest is test_conformance.py."""

import math
from fractions import Fraction

import pytest

from dp_sql.udfs.select import random_stopping
from tests.udfs.cases_random_stopping import (
    BINOMIAL,
    ETAS,
    GEOMETRIC,
    PAIRS,
    TRIES,
    best_values,
    geometric_range,
    of_candidates,
    on_grids,
    power_range,
)
from tests.udfs.distributions import distribution_of
from tests.udfs.test_rnm_laplace import small_blocks  # noqa: F401

pytestmark = pytest.mark.pure

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
ETA = Fraction(1, 2)
Q = Fraction(1, 2)

both = pytest.mark.parametrize("this", [GEOMETRIC, BINOMIAL], ids=["geometric", "binomial"])


@pytest.mark.parametrize("gamma", [Fraction(1, 10), Fraction(2, 3), Fraction(1)])
def test_the_number_of_tries_is_geometric(gamma):
    def run(draws):
        return random_stopping.number_of_tries(Fraction(1), gamma, draws)

    distribution, unfinished = distribution_of(run, {}, limit=4)
    assert unfinished == (1 - gamma) ** 4
    for k in range(1, 5):
        assert distribution.get(k, 0) == gamma * (1 - gamma) ** (k - 1)


def weight(k, eta, gamma):
    """Proportional to P(K = k): (1 - gamma)**k times (j + eta) / (j + 1) for 0 < j < k."""
    return (1 - gamma) ** k * math.prod((j + eta) / Fraction(j + 1) for j in range(1, k))


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 3)])
def test_an_attempt_ends_with_the_stated_number_of_tries(eta, gamma):
    distribution, unfinished = distribution_of(
        lambda draws: random_stopping._attempt(eta, gamma, draws), {}, limit=5
    )
    assert unfinished > 0
    for k in (1, 2, 3):
        assert distribution[k] * (1 - gamma) == gamma * weight(k, eta, gamma)


def test_attempts_are_made_until_one_is_not_given_up(monkeypatch):
    script = [None, None, 5, 3]
    monkeypatch.setattr(random_stopping, "_attempt", lambda *public: script.pop(0))
    assert random_stopping.number_of_tries(ETA, Fraction(1, 2), None) == 5
    assert random_stopping.number_of_tries(ETA, Fraction(1, 2), None) == 3


@pytest.mark.one_in(4)
@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(9, 10)])
def test_the_generating_function_is_that_of_the_number_of_tries(eta, x):
    gamma, y = Fraction(1, 3), x / 2
    weights = [weight(k, eta, gamma) for k in range(1, 120)]
    powers = sum(w * (x**k - y**k) for k, w in enumerate(weights, 1)) / sum(weights)
    low, high = power_range(eta, gamma, x, y)
    tail = (1 - gamma) ** 100
    assert low - tail <= powers <= high + tail


@pytest.mark.one_in(4)
@pytest.mark.parametrize("eta", ETAS)
def test_tries_are_no_more_than_geometric_on_average(eta):
    gamma = Fraction(1, 5)
    weights = [weight(k, eta, gamma) for k in range(1, 200)]
    assert sum(k * w for k, w in enumerate(weights, 1)) <= sum(weights) / gamma


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(9, 10)])
def test_a_geometric_number_has_both_generating_functions(x):
    gamma = Fraction(1, 7)
    assert geometric_range(gamma, x, x / 2) == power_range(Fraction(1), gamma, x, x / 2)


def fixed_range(n):
    return lambda x, y: (x**n - y**n, x**n - y**n)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("n", "scores"), [(1, (2, 0)), (2, (0, 1))])
@pytest.mark.parametrize("sizes", PAIRS)
@pytest.mark.parametrize("grid", [1, 2])
def test_the_best_of_n_tries_has_its_distribution(
    small_blocks,  # noqa: F811
    monkeypatch,
    grid,
    n,
    scores,
    sizes,
):
    monkeypatch.setattr(random_stopping, "grid_of", lambda share: grid)
    starts = on_grids(scores, sizes, grid)
    defined = of_candidates(best_values(starts, sizes, Q, fixed_range(n), 40), len(sizes))
    shipped, unfinished = distribution_of(
        lambda draws: random_stopping.best_of_tries(n, scores, sizes, EPSILON, draws),
        {EPSILON / grid: Q},
    )
    assert unfinished < Fraction(1, 50)
    for i, (low, high) in defined.items():
        assert low - unfinished <= shipped.get(i, 0) <= high


@both
def test_the_number_of_tries_is_drawn_from_the_number_of_candidates_alone(this, monkeypatch):
    seen = []
    monkeypatch.setattr(
        random_stopping, "number_of_tries", lambda *arguments: seen.append(arguments) or 7
    )
    monkeypatch.setattr(random_stopping, "best_of_tries", lambda *arguments: arguments)
    for scores in ([0, 0, 0], [1, 5, 10**9]):
        handed_on = this.choose(scores, [1, 2, 0], EPSILON, None)
        assert handed_on == (7, scores, [1, 2, 0], EPSILON / (2 + this.tries.eta), None)
    gamma = Fraction(1, 30) if this is GEOMETRIC else Fraction(1, 60)
    assert seen == [(this.tries.eta, gamma, None)] * 2


def test_the_distributions_of_one_try_are_as_far_apart_as_they_may_be():
    ratios = [TRIES[0][outcome] / TRIES[1][outcome] for outcome in TRIES[0]]
    assert all(Fraction(1, 4) <= ratio <= 4 for ratio in ratios)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_probability_of_missing_candidates_is_that_of_a_geometric_number(m):
    tries = random_stopping.GEOMETRIC
    for rank in range(1, m + 1):
        x = 1 - Fraction(rank, m)
        low, high = geometric_range(tries.gamma(m), x, Fraction(0))
        assert low == tries.missed(m, rank) == high


@pytest.mark.parametrize("m", [1, 2, 7, 1000])
def test_the_probability_of_missing_candidates_is_that_of_a_binomial_number(m):
    tries = random_stopping.NEGATIVE_BINOMIAL
    for rank in range(1, m + 1, max(1, m // 5)):
        x = 1 - Fraction(rank, m)
        low, high = power_range(ETA, tries.gamma(m), x, Fraction(0))
        assert low <= tries.missed(m, rank) <= high + Fraction(1, 10**15)


def check_accuracy(sizes, beta, shrink=1):
    """The bound against the distribution: the first ranks far ahead, the others just out of bounds."""
    rank, shortfall = random_stopping.error_bound(GEOMETRIC.tries, sizes, EPSILON, beta)
    ahead = math.floor(shortfall / shrink) + 1
    scores = [ahead] * rank + [0] * (len(sizes) - rank)
    starts, steps, rate = GEOMETRIC.one_try(scores, sizes, 1)
    q = Fraction(math.exp(-rate)).limit_denominator(1000)
    gamma = GEOMETRIC.tries.gamma(len(sizes))
    values = best_values(starts, steps, q, lambda x, y: geometric_range(gamma, x, y), 2 * ahead)
    chosen = of_candidates(values, len(sizes))
    return sum(chosen[i][1] for i in range(rank, len(sizes)))


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 5)])
def test_the_accuracy_bound_holds_and_a_quarter_of_it_would_not(monkeypatch, beta):
    monkeypatch.setattr(random_stopping, "grid_of", lambda share: 1)
    sizes = (1, 1, 1)
    assert check_accuracy(sizes, beta) <= beta
    assert check_accuracy(sizes, beta, 4) > beta


def test_the_accuracy_bound_is_that_of_its_tries():
    rank, shortfall = random_stopping.error_bound(BINOMIAL.tries, [1, 3] * 50, EPSILON, BETA)
    missed = [BINOMIAL.tries.missed(100, r) <= BETA / 3 for r in (rank - 1, rank)]
    assert missed == [False, True]
    noise = math.log(3 * 2000 / BETA / 2) + math.log(3 / BETA / 2)
    assert abs(shortfall / (3 * BINOMIAL.price * noise) - 1) < 0.01


@both
def test_the_distance_of_the_accuracy_bound_is_in_whole_steps_of_the_grid(this):
    share, sizes = EPSILON / this.price, [1, 3, 0]
    q, gamma = math.exp(-share / 1024), this.tries.gamma(3)

    def reached(p):
        return next(x for x in range(1, 10**6) if q**x / (1 + q) <= p)

    steps = reached(BETA / 3 * gamma) + reached(BETA / 3) - 1
    assert random_stopping.error_bound(this.tries, sizes, EPSILON, BETA)[1] == Fraction(
        3 * steps, 1024
    )

import math
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs import test_random_stopping as stopping
from tests.udfs.choices import neighbours
from tests.udfs.laws import NotPrivateError, fits, law_of
from tests.udfs.test_random_stopping import grid  # noqa: F401
from udfs.exact import ln_enclosure
from udfs.select import random_stopping, random_stopping_tnb
from udfs.spec import Loss

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
ETA = Fraction(1, 2)
PRICE = 2 + ETA
ETAS = [Fraction(-1, 2), Fraction(0), ETA, Fraction(1)]

# The number of tries, by its definition.


def weight(k, eta, gamma):
    """Proportional to P(K = k): (1 - gamma)**k times (j + eta) / (j + 1) for 0 < j < k."""
    return (1 - gamma) ** k * math.prod((j + eta) / Fraction(j + 1) for j in range(1, k))


def root(x):
    """Enclose the square root."""
    scaled = math.isqrt((x.numerator << 300) // x.denominator)
    return Fraction(scaled, 1 << 150), Fraction(scaled + 1, 1 << 150)


def less_one(u, eta):
    """Enclose u**-eta - 1; for eta = 0, its limit after a division by eta: ln(1/u)."""
    if u == 1:
        return Fraction(0), Fraction(0)
    if eta == 0:
        return ln_enclosure(1 / u, 150)
    low, high = {1: (1 / u, 1 / u), ETA: root(1 / u), -ETA: root(u)}[eta]
    return low - 1, high - 1


def power_range(eta, gamma, x, y):
    """Enclose E[x**K - y**K] by the generating function, see random_stopping_tnb.md."""
    (a, b), (c, d), (e, f) = (
        sorted(abs(part) for part in less_one(1 - (1 - gamma) * z, eta)) for z in (x, y, 1)
    )
    return max(Fraction(0), (a - d) / f), (b - c) / e


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 3)])
def test_an_attempt_ends_with_the_stated_number_of_tries(eta, gamma):
    law, unfinished = law_of(
        lambda draws: random_stopping_tnb._attempt(eta, gamma, draws), {}, limit=5
    )
    assert unfinished > 0
    for k in (1, 2, 3):
        assert law[k] * (1 - gamma) == gamma * weight(k, eta, gamma)


def test_attempts_are_made_until_one_is_not_given_up(monkeypatch):
    script = [None, None, 5, 3]
    monkeypatch.setattr(random_stopping_tnb, "_attempt", lambda *public: script.pop(0))
    assert random_stopping_tnb.number_of_tries(ETA, Fraction(1, 2), None) == 5
    assert random_stopping_tnb.number_of_tries(ETA, Fraction(1, 2), None) == 3


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(9, 10)])
def test_the_generating_function_is_that_of_the_number_of_tries(eta, x):
    gamma, y = Fraction(1, 3), x / 2
    weights = [weight(k, eta, gamma) for k in range(1, 120)]
    powers = sum(w * (x**k - y**k) for k, w in enumerate(weights, 1)) / sum(weights)
    low, high = power_range(eta, gamma, x, y)
    tail = (1 - gamma) ** 100
    assert low - tail <= powers <= high + tail


@pytest.mark.parametrize("eta", ETAS)
def test_tries_are_no_more_than_geometric_on_average(eta):
    gamma = Fraction(1, 5)
    weights = [weight(k, eta, gamma) for k in range(1, 200)]
    assert sum(k * w for k, w in enumerate(weights, 1)) <= sum(weights) / gamma


# The choice.

R = Fraction(2, 3)
"""exp(-rate / 2) of one try in exact laws, where the rate is as it should be."""


def law_of_values(scores, sizes, grid, gamma, eta=ETA, reach=8):  # noqa: F811
    starts, steps, rate = stopping.one_try(random_stopping_tnb._select, scores, sizes)
    halves = 2 * rate / (EPSILON / (PRICE * grid))
    assert halves.denominator == 1
    return stopping.best_values(
        starts, steps, R**halves.numerator, lambda x, y: power_range(eta, gamma, x, y), reach
    )


def law_of_choice(scores, sizes, grid, gamma, eta=ETA):  # noqa: F811
    values = law_of_values(scores, sizes, grid, gamma, eta, reach=40)
    return stopping.of_candidates(values, len(sizes))


@pytest.mark.parametrize("sizes", stopping.SIZES)
def test_what_is_compared_is_the_score_on_its_own_grid(grid, sizes):  # noqa: F811
    for scores in product((0, Fraction(5, 7), -3), repeat=2):
        starts, steps, rate = stopping.one_try(random_stopping_tnb._select, scores, sizes)
        assert (starts, steps) == (stopping.on_grids(scores, sizes, grid), list(sizes))
        assert rate == EPSILON / (PRICE * grid)


@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 50)])
@pytest.mark.parametrize("sizes", stopping.SIZES)
def test_no_neighbours_can_be_told_apart_by_candidate_and_noisy_score(grid, sizes, gamma):  # noqa: F811
    stopping.check_enclosed(
        lambda scores: law_of_values(scores, sizes, grid, gamma),
        neighbours(product(range(2), repeat=2), sizes),
        R ** (-5 * grid),
    )


RARELY = Fraction(1, 10**8)


def check_crowd(grid, gamma):  # noqa: F811
    sizes = (1,) * 9
    stopping.check_enclosed(
        lambda scores: law_of_choice(scores, sizes, grid, gamma),
        [stopping.CROWD],
        R ** (-5 * grid),
    )


@pytest.mark.parametrize("gamma", [Fraction(1, 180), RARELY])
def test_a_crowd_that_falls_cannot_be_told_apart(grid, gamma):  # noqa: F811
    check_crowd(grid, gamma)


def test_all_of_epsilon_in_each_try_is_not_private(monkeypatch, grid):  # noqa: F811
    monkeypatch.setattr(random_stopping_tnb, "_share", lambda epsilon: epsilon)
    with pytest.raises(NotPrivateError):
        check_crowd(grid, RARELY)


def test_noise_for_the_least_sensitivity_is_not_private(monkeypatch, grid):  # noqa: F811
    right = random_stopping.in_units

    def in_units(scores, sizes):
        whole, sizes = right(scores, sizes)
        return whole, [min(sizes)] * len(sizes)

    monkeypatch.setattr(random_stopping, "in_units", in_units)
    with pytest.raises(NotPrivateError):
        stopping.check_enclosed(
            lambda scores: law_of_choice(scores, (*[1] * 8, 8), grid, stopping.RARELY / 10),
            [((0,) * 9, (*[0] * 8, 8))],
            R ** (-5 * grid),
        )


TRIES = (
    stopping.three_outcomes(Fraction(4, 10**7), Fraction(1, 10**5)),
    stopping.three_outcomes(Fraction(1, 10**7), Fraction(4, 10**5)),
)
"""Laws of one try that costs ln 4, so that the best of K costs ln 4**(2 + eta), a rational."""


def check_three_outcomes(eta, factor):
    def law(i):
        gamma = Fraction(1, 10**10)
        return stopping.best_law(TRIES[i], lambda x, y: power_range(eta, gamma, x, y))

    stopping.check_enclosed(law, [(0, 1)], factor)


def test_the_laws_of_one_try_are_as_far_apart_as_they_may_be():
    ratios = [TRIES[0][outcome] / TRIES[1][outcome] for outcome in TRIES[0]]
    assert all(Fraction(1, 4) <= ratio <= 4 for ratio in ratios)


@pytest.mark.parametrize("eta", ETAS)
def test_the_price_of_two_and_eta_tries_is_right_and_nothing_much_below_it(eta):
    factor = Fraction(2 ** (2 * (2 + eta)).numerator)
    check_three_outcomes(eta, factor)
    with pytest.raises(NotPrivateError):
        check_three_outcomes(eta, factor * Fraction(9, 10))


def test_a_geometric_number_of_tries_at_this_price_is_not_private():
    with pytest.raises(NotPrivateError):
        check_three_outcomes(Fraction(1), Fraction(2**5))


def test_the_number_of_tries_is_drawn_from_the_number_of_candidates_alone(monkeypatch):
    seen = []
    monkeypatch.setattr(
        random_stopping_tnb, "number_of_tries", lambda *arguments: seen.append(arguments) or 7
    )
    monkeypatch.setattr(random_stopping_tnb, "best_of_tries", lambda *arguments: arguments)
    for scores in ([0, 0, 0], [1, 5, 10**9]):
        handed_on = random_stopping_tnb._select(scores, [1, 2, 0], EPSILON, None)
        assert handed_on == (7, scores, [1, 2, 0], EPSILON * Fraction(2, 5), None)
    assert seen == [(ETA, Fraction(1, 60), None)] * 2


@pytest.mark.parametrize("m", [1, 2, 7, 1000])
def test_the_probability_of_missing_candidates_is_that_of_the_number_of_tries(m):
    for rank in range(1, m + 1, max(1, m // 5)):
        x = 1 - Fraction(rank, m)
        low, high = power_range(ETA, random_stopping_tnb._gamma(m), x, Fraction(0))
        assert low <= random_stopping_tnb._missed(m, rank) <= high + Fraction(1, 10**15)


def test_the_accuracy_bound_is_that_of_its_tries():
    rank, shortfall = random_stopping_tnb.error_bound([1, 3] * 50, EPSILON, BETA)
    missed = [random_stopping_tnb._missed(100, r) <= BETA / 3 for r in (rank - 1, rank)]
    assert missed == [False, True]
    noise = math.log(3 * 2000 / BETA / 2) + math.log(3 / BETA / 2)
    assert abs(shortfall / (3 * PRICE * noise) - 1) < 0.01


def test_the_accuracy_sentence_names_public_numbers_only():
    assert random_stopping_tnb.accuracy([1, 3, 2] * 10, Fraction(1, 2), BETA) == (
        "with probability at least 0.95 the score of the chosen candidate is at most 198 below "
        "the score of rank 16 (30 candidates, epsilon = 0.5)"
    )


def test_the_loss_is_pure():
    assert random_stopping_tnb.loss(EPSILON) == Loss(EPSILON)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize("sizes", [[1] * 50, [0, 3] * 25, [Fraction(1, 7), 10**30] * 25, [0] * 50])
def test_any_scores_give_a_position(sizes, epsilon):
    for scores in ([0] * 50, list(range(50)), [Fraction(-(10**20), 3), 10**25] * 25):
        assert random_stopping_tnb.select(scores, sizes, epsilon) in range(50)


def test_a_thousand_candidates_are_quick():
    start = time.perf_counter()
    for _ in range(5):
        random_stopping_tnb.select([x % 97 for x in range(1000)], [1, 2] * 500, EPSILON)
    assert (time.perf_counter() - start) / 5 < 1, "ten times the goal, for slow machines"


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    monkeypatch.setattr(random_stopping, "grid_of", lambda share: 1)
    monkeypatch.setattr(random_stopping_tnb, "_gamma", lambda m: Fraction(1, 50))
    right = random_stopping_tnb._share
    monkeypatch.setattr(
        random_stopping_tnb, "_share", lambda epsilon: right(epsilon) * Fraction(tenths, 10)
    )
    scores, sizes, epsilon = (5, 0, 0, 0), (0, 1, 1, 1), Fraction(5, 4)
    observed = Counter(random_stopping_tnb.select(scores, sizes, epsilon) for _ in range(3_000))
    values = stopping.best_values(
        scores,
        sizes,
        Fraction(math.exp(-1 / 2)).limit_denominator(1000),
        lambda x, y: power_range(ETA, Fraction(1, 50), x, y),
        40,
    )
    law = {i: float(high) for i, (_, high) in stopping.of_candidates(values, 4).items()}
    assert fits(observed, law) is passes


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_numbers_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="scores"):
        random_stopping_tnb.select([1, bad], [1, 1], EPSILON)


def test_a_negative_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivities"):
        random_stopping_tnb.select([1, 1], [1, -1], EPSILON)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        random_stopping_tnb.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        random_stopping_tnb.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        random_stopping_tnb.accuracy([1], EPSILON, bad)

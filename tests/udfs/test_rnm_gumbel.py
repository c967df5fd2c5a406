import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs.choices import PowersOf, law_of_choice, neighbours
from tests.udfs.laws import NotPrivateError, check_neighbours, fits, normalized
from udfs.select import exponential, rnm_gumbel

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
Q = Fraction(2, 3)
"""exp(-epsilon / (2 * largest sensitivity)) in exact laws; scores are integers."""

SIZES = [(3, 3), (3, 9), (0, 6), (6, 3, 0)]
"""Multiples of three, so that scores stay integers when they move by a third."""


def shipped_law(scores, sizes):
    return law_of_choice(
        lambda draws: rnm_gumbel._select(scores, sizes, EPSILON, draws),
        PowersOf(Q, EPSILON / (2 * max(sizes))),
    )


def softmax(scores):
    return normalized({i: Q**-score for i, score in enumerate(scores)})


@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_softmax_for_every_small_table(sizes):
    for scores in product(range(5), repeat=len(sizes)):
        assert shipped_law(scores, sizes) == softmax(scores)


def cdf(x, scale):
    return math.exp(-math.exp(-x / scale))


def integrated(scores, scale):
    """P(i has the largest score plus Gumbel noise), by a sum over narrow cells."""
    low, high, n = min(scores) - 8 * scale, max(scores) + 25 * scale, 20_000
    width = (high - low) / n
    law = []
    for i, score in enumerate(scores):
        others = [s for j, s in enumerate(scores) if j != i]
        total, before = 0.0, 0.0
        for cell in range(n):
            end = low + (cell + 1) * width
            here = cdf(end - score, scale)
            total += (here - before) * math.prod(
                cdf(end - width / 2 - other, scale) for other in others
            )
            before = here
        law.append(total)
    return law


@pytest.mark.parametrize("scores", [(0, 0), (0, 1, 5), (3, 0, -2)])
def test_gumbel_noise_has_the_law_that_is_drawn(scores):
    scale = 2 * 3 / 0.5
    weights = [math.exp(score / scale) for score in scores]
    for p, weight in zip(integrated(scores, scale), weights, strict=True):
        assert p == pytest.approx(weight / sum(weights), abs=1e-5)


def check(sizes, pairs):
    check_neighbours(lambda scores: shipped_law(scores, sizes), pairs, Q ** (-2 * max(sizes)))


@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(sizes):
    check(sizes, neighbours(product(range(0, 9, 4), repeat=len(sizes)), sizes))


CROWD = ((0, *[6] * 30), (3, *[3] * 30))


def test_neighbours_that_need_nearly_all_of_epsilon_have_it():
    check((3,) * 31, [CROWD])


def test_a_lost_factor_two_is_not_private(monkeypatch):
    monkeypatch.setattr(exponential, "_rate", lambda epsilon, size: epsilon / size)
    with pytest.raises(NotPrivateError):
        check((3,) * 31, [CROWD])


def test_noise_for_the_least_sensitivity_is_not_private(monkeypatch):
    monkeypatch.setattr(exponential, "_size", min)
    with pytest.raises(NotPrivateError):
        check((1, 6), [((0, 0), (0, 6))])


def test_the_loss_and_the_accuracy_are_those_of_the_law():
    assert rnm_gumbel.loss(EPSILON) == exponential.loss(EPSILON)
    sentence = exponential.accuracy([1, 3], EPSILON, BETA)
    assert rnm_gumbel.accuracy([1, 3], EPSILON, BETA) == sentence


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes):
    epsilon = EPSILON * Fraction(tenths, 10)
    observed = Counter(rnm_gumbel.select([0, 3, 4], [1, 1, 1], epsilon) for _ in range(10_000))
    weights = [math.exp(s / 2) for s in (0, 3, 4)]
    assert fits(observed, {i: w / sum(weights) for i, w in enumerate(weights)}) is passes


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
def test_any_scores_give_a_position(epsilon):
    for sizes in ([1] * 50, [0] * 50, [0, Fraction(10**30, 7)] * 25):
        for scores in ([0] * 50, [Fraction(-(10**20), 3), 10**25] * 25):
            assert rnm_gumbel.select(scores, sizes, epsilon) in range(50)


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_numbers_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="scores"):
        rnm_gumbel.select([1, bad], [1, 1], EPSILON)


def test_a_negative_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivities"):
        rnm_gumbel.select([1, 1], [1, -1], EPSILON)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        rnm_gumbel.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        rnm_gumbel.select([1], [1], bad)

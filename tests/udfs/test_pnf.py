import math
import time
from collections import Counter
from fractions import Fraction

import pytest

from tests.udfs import test_exponential as weighing
from tests.udfs.choices import BETA, EPSILON, law_of_choice, without_impossible
from tests.udfs.laws import NotPrivateError, fits
from tests.udfs.test_exponential import SIZES, check_privacy, tables, weights
from tests.udfs.test_flip import permute_and_flip
from udfs.exact import secret_draws
from udfs.select import exponential, pnf
from udfs.spec import Loss


def shipped_law(scores, sizes, epsilon=EPSILON):
    return law_of_choice(lambda draws: pnf._select(scores, sizes, epsilon, draws), weighing.Q_OF)


def defined_law(scores, sizes):
    return without_impossible(permute_and_flip(weights(scores, sizes)))


@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_the_definition_for_every_small_table(sizes):
    for scores in tables(len(sizes)):
        assert shipped_law(scores, sizes) == defined_law(scores, sizes)


@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(sizes):
    check_privacy(shipped_law, sizes)


def test_a_lost_factor_two_is_not_private(monkeypatch):
    right = exponential._rate
    monkeypatch.setattr(exponential, "_rate", lambda epsilon, size: 2 * right(epsilon, size))
    with pytest.raises(NotPrivateError):
        check_privacy(shipped_law, (1, 1))


@pytest.mark.parametrize("wrong", [min, lambda sizes: sum(sizes) // len(sizes), lambda sizes: 1])
def test_less_than_the_largest_sensitivity_is_not_private(monkeypatch, wrong):
    monkeypatch.setattr(exponential, "_size", wrong)
    with pytest.raises(NotPrivateError):
        check_privacy(shipped_law, (1, 3, 3))


def test_the_exponential_mechanism_is_another_law():
    assert weighing.shipped_law((0, 2), (2, 2)) != defined_law((0, 2), (2, 2))


def test_the_range_of_losses_is_wider_than_epsilon():
    """So that the rho of the exponential mechanism would be a wrong price."""
    assert pnf.loss(EPSILON) == Loss(EPSILON)
    with pytest.raises(NotPrivateError):
        weighing.check_range(shipped_law, (1, 1))


def test_only_the_best_are_left_where_nobody_matters():
    half = Fraction(1, 2)
    assert shipped_law((3, 7, 7, -1), (0, 0, 0, 0)) == {1: half, 2: half}


def test_it_is_never_worse_than_the_exponential_mechanism():
    for scores in tables(3):
        flips, weighed = shipped_law(scores, (2, 2, 2)), weighing.shipped_law(scores, (2, 2, 2))
        for limit in set(scores):
            worse = [i for i in range(3) if scores[i] <= limit < max(scores)]
            assert sum(flips.get(i, 0) for i in worse) <= sum(weighed[i] for i in worse)


def test_the_accuracy_sentence_is_that_of_the_exponential_mechanism():
    public = ([1, 2, Fraction(1, 2)], EPSILON, BETA)
    assert pnf.accuracy(*public) == exponential.accuracy(*public)


CROWDS = {
    "spread": lambda i: 7919 * i % 10**6,
    "equal": lambda i: 5,
    "one leader": lambda i: 40 * (i == 77),
    "near": lambda i: i % 3,
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_hundred_thousand_candidates_are_quick(crowd):
    scores = [CROWDS[crowd](i) for i in range(10**5)]
    start = time.perf_counter()
    assert pnf.select(scores, [1] * len(scores), EPSILON) in range(10**5)
    assert time.perf_counter() - start < 2, "twenty times what it takes, for slow machines"


REAL = (3, 6, 9, 2), (1, 2, 0, 1)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes):
    draws, epsilon = secret_draws(), Fraction(tenths, 10)
    observed = Counter(pnf._select(*REAL, epsilon, draws) for _ in range(8000))
    law = permute_and_flip({i: math.exp((score - 9) / 4) for i, score in enumerate(REAL[0])})
    assert fits(observed, law) is passes

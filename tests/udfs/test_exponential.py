import math
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs.choices import BETA, EPSILON, PowersOf, law_of_choice, neighbours
from tests.udfs.laws import NotPrivateError, check_neighbours, fits, normalized
from udfs.exact import secret_draws
from udfs.select import exponential

SIZES = [(0, 0), (0, 1), (1, 1), (2, 1), (Fraction(1, 2), 0), (0, 3, 1), (1, 1, 1)]
STEPS = 36
"""How many steps of q = 1/2 make up half of epsilon; all sensitivities in use divide it."""

HALF = Fraction(1, 2)
LOSS = HALF ** (-2 * STEPS)
Q_OF = PowersOf(HALF, EPSILON / 2 / STEPS)


def tables(n):
    return product((0, 2, 9) if n < 3 else (0, 9), repeat=n)


def shipped_law(scores, sizes, epsilon=EPSILON):
    return law_of_choice(lambda draws: exponential._select(scores, sizes, epsilon, draws), Q_OF)


def weights(scores, sizes):
    """The weights of the definition, the best one being 1."""
    behind = [max(scores) - score for score in scores]
    if not max(sizes):
        return {i: Fraction(b == 0) for i, b in enumerate(behind)}
    steps = [Fraction(STEPS * b) / max(sizes) for b in behind]
    assert all(n.denominator == 1 for n in steps)
    return {i: HALF ** int(n) for i, n in enumerate(steps)}


def defined_law(scores, sizes):
    return {i: p for i, p in normalized(weights(scores, sizes)).items() if p}


@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_the_definition_for_every_small_table(sizes):
    for scores, moved in neighbours(tables(len(sizes)), sizes):
        for table in (scores, moved):
            assert shipped_law(table, sizes) == defined_law(table, sizes)


def check_privacy(law, sizes):
    pairs = neighbours(tables(len(sizes)), sizes)
    check_neighbours(lambda scores: law(scores, sizes), pairs, LOSS)


@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(sizes):
    check_privacy(shipped_law, sizes)


def check_range(law, sizes):
    """Raise unless, over all outcomes, the losses of each pair lie within epsilon."""
    for scores, moved in neighbours(tables(len(sizes)), sizes):
        p, p_moved = law(scores, sizes), law(moved, sizes)
        ratios = [p[i] / p_moved[i] for i in p]
        if max(ratios) > LOSS * min(ratios):
            raise NotPrivateError(f"{scores} and {moved}")


@pytest.mark.parametrize("sizes", SIZES)
def test_the_losses_lie_within_a_range_of_epsilon(sizes):
    check_range(shipped_law, sizes)


def test_rho_is_that_of_a_range_of_epsilon():
    assert exponential.loss(Fraction(1, 3)).rho == Fraction(1, 3) ** 2 / 8


def test_a_lost_factor_two_is_not_private(monkeypatch):
    right = exponential._rate
    monkeypatch.setattr(exponential, "_rate", lambda epsilon, size: 2 * right(epsilon, size))
    for check in (check_privacy, check_range):
        with pytest.raises(NotPrivateError):
            check(shipped_law, (1, 1))


@pytest.mark.parametrize("wrong", [min, lambda sizes: sum(sizes) // len(sizes), lambda sizes: 1])
def test_less_than_the_largest_sensitivity_is_not_private(monkeypatch, wrong):
    monkeypatch.setattr(exponential, "_size", wrong)
    with pytest.raises(NotPrivateError):
        check_privacy(shipped_law, (1, 3, 3))


def test_only_the_best_are_left_where_nobody_matters():
    assert shipped_law((3, 7, 7, -1), (0, 0, 0, 0)) == {1: HALF, 2: HALF}


@pytest.mark.parametrize("scale", [6, Fraction(1, 30)])
def test_the_unit_does_not_matter(scale):
    scores, sizes = (3, 5, 1), (2, 0, 1)
    scaled = [[x * scale for x in row] for row in (scores, sizes)]
    draws = PowersOf(HALF, EPSILON / 8640)
    law = law_of_choice(lambda path: exponential._select(*scaled, EPSILON, path), draws)
    assert law == law_of_choice(
        lambda path: exponential._select(scores, sizes, EPSILON, path), draws
    )


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("size", [1, Fraction(5, 3)])
def test_the_accuracy_sentence_holds(size, beta):
    """The worst table: all but one candidate just beyond what the sentence allows."""
    n, epsilon = 20, Fraction(1, 2)
    says = exponential.accuracy([size] * n, epsilon, beta)
    allowed = Fraction(says.split("at most ")[1].split(" below")[0])
    beyond = math.exp(-float(epsilon * allowed / (2 * size)))
    assert (n - 1) * beyond / (1 + (n - 1) * beyond) <= beta
    assert (n - 1) * beyond > beta * 0.9, "the sentence is not needlessly weak"


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert exponential.accuracy([1, 2, Fraction(1, 2)], EPSILON, BETA) == (
        "with probability at least 0.95 the chosen score is at most 16.38 below the largest "
        "(3 candidates, epsilon = 1)"
    )


@pytest.mark.parametrize("size", [1, 10**-3, 10**4])
def test_a_hundred_thousand_candidates_are_quick(size):
    size = Fraction(size).limit_denominator(1000)
    scores = [Fraction(7919 * i % 10**6, 1000) for i in range(10**5)]
    start = time.perf_counter()
    assert exponential.select(scores, [size] * len(scores), EPSILON) in range(10**5)
    assert time.perf_counter() - start < 2, "twenty times what it takes, for slow machines"


REAL = (3, 6, 9, 2), (1, 2, 0, 1)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes):
    draws, epsilon = secret_draws(), Fraction(tenths, 10)
    observed = Counter(exponential._select(*REAL, epsilon, draws) for _ in range(8000))
    law = normalized({i: math.exp((score - 9) / 4) for i, score in enumerate(REAL[0])})
    assert fits(observed, law) is passes

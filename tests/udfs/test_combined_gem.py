import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product

import pytest

from tests.udfs import test_gem
from tests.udfs.choices import BETA, EPSILON, PowersOf, law_of_choice, law_on_grid, neighbours
from tests.udfs.laws import NotPrivateError, check_neighbours, fits
from udfs.exact import secret_draws
from udfs.select import combined_gem, gem, mgem, normalized
from udfs.spec import Loss

HALF = Fraction(1, 2)
LOSS = HALF**-4
"""exp(epsilon) on a grid of 1, so that one step of the choice at epsilon/2 is q = 1/2."""

Q_OF = PowersOf(HALF, EPSILON / 4)
SIZES = [(1, 1), (1, 3), (0, 1), (0, 0), (0, 2, 3), (Fraction(1, 2), 2, 1)]
BETAS = [Fraction(1, 20), Fraction(99, 100)]


def shipped_law(scores, sizes, beta):
    return law_on_grid(
        lambda draws: combined_gem._select(scores, sizes, EPSILON, beta, draws), 1, HALF
    )


def one_side(module, scores, sizes, beta):
    return law_on_grid(
        lambda draws: module._select(scores, sizes, EPSILON / 2, beta, draws), 1, HALF
    )


def is_positive(scores, sizes):
    """Spearman's correlation by its definition: the covariance of mean ranks."""

    def ranks(values):
        return [
            Fraction(sum(v < u for v in values) + sum(v <= u for v in values), 2) for u in values
        ]

    x, y = ranks(scores), ranks(sizes)
    n = len(x)
    return sum(a * b for a, b in zip(x, y, strict=True)) > sum(x) * sum(y) / n


def defined_law(scores, sizes, beta):
    positive = is_positive(scores, sizes)
    q = Q_OF[EPSILON / 2]
    law = Counter()
    for says, module in ((True, mgem), (False, gem)):
        here = (1 if says == positive else q) / (1 + q)
        for i, p in one_side(module, scores, sizes, beta).items():
            law[i] += here * p
    return law


def tables(n):
    return product((0, 1, 3, 8) if n < 3 else (0, 2, 7), repeat=n)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_the_definition_for_every_small_table(sizes, beta):
    for scores in tables(len(sizes)):
        assert shipped_law(scores, sizes, beta) == defined_law(scores, sizes, beta)


def check_privacy(sizes, beta):
    moves = (-1, Fraction(-1, 3), 0, 1) if len(sizes) < 3 else (-1, Fraction(1, 3), 1)
    pairs = neighbours(tables(len(sizes)), sizes, moves)
    check_neighbours(lambda table: shipped_law(table, sizes, beta), pairs, LOSS)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(sizes, beta):
    check_privacy(sizes, beta)


CLOSE_SIZES, CLOSE_BETA = (1, 0, 4, 2), BETAS[1]
CLOSE_TABLES = ((16, 28, 28, 26), (15, 28, 24, 26))
"""Neighbours that use three quarters of epsilon: both steps tell them apart."""


def check_the_close_pair():
    law = partial(shipped_law, sizes=CLOSE_SIZES, beta=CLOSE_BETA)
    check_neighbours(law, [CLOSE_TABLES], LOSS)


def test_neighbours_that_need_much_of_epsilon_have_it():
    check_the_close_pair()


def break_the_response(patch):
    right = combined_gem._respond
    patch.setattr(
        combined_gem, "_respond", lambda truth, epsilon, draws: right(truth, 2 * epsilon, draws)
    )


def skip_the_response(patch):
    patch.setattr(combined_gem, "_respond", lambda truth, epsilon, draws: truth)


def give_the_choice_all(patch):
    for module in (gem, mgem):
        right = module.levels_of

        def wrong(scores, sizes, epsilon, beta, right=right):
            return right(scores, sizes, EPSILON, beta)

        patch.setattr(module, "levels_of", wrong)


@pytest.mark.parametrize("wrong", [break_the_response, skip_the_response, give_the_choice_all])
def test_more_than_the_share_of_either_step_is_not_private(wrong, monkeypatch):
    wrong(monkeypatch)
    with pytest.raises(NotPrivateError):
        check_the_close_pair()


@pytest.mark.parametrize("truth", [False, True])
def test_the_response_is_true_with_odds_of_its_share(truth):
    law = law_of_choice(lambda path: combined_gem._respond(truth, EPSILON / 2, path), Q_OF)
    assert law == {truth: Fraction(4, 5), not truth: Fraction(1, 5)}


def test_the_steps_share_epsilon():
    share = combined_gem.sign_share(EPSILON)
    assert 0 < share < EPSILON
    assert combined_gem.loss(EPSILON, BETA) == Loss(share) + Loss(EPSILON - share)


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert combined_gem.accuracy([1, 2, Fraction(1, 2)], EPSILON, BETA) == (
        "with probability at least 0.95 no other score exceeds the chosen one by more than 32.76 "
        "times the larger of the two candidates' sensitivities (3 candidates, epsilon = 1)"
    )


SCORES, LEVELS = (10, 30, 7, 40), (1, 2, 3, 4)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    right, epsilon = normalized._rate, Fraction(1)
    monkeypatch.setattr(
        normalized, "_rate", lambda epsilon, grid: right(epsilon, grid) * Fraction(tenths, 10)
    )
    right_response = combined_gem._respond
    monkeypatch.setattr(
        combined_gem,
        "_respond",
        lambda truth, epsilon, draws: right_response(truth, epsilon * Fraction(tenths, 10), draws),
    )
    draws = secret_draws()
    observed = Counter(
        combined_gem._select(SCORES, LEVELS, epsilon, BETA, draws) for _ in range(8_000)
    )
    at = test_gem.reach(4, BETA, 1024, HALF)
    q = math.exp(-0.5)
    law = Counter()
    for here, sign in ((1, -1), (q, 1)):
        for i, p in test_gem.real_law(SCORES, LEVELS, sign * at, HALF).items():
            law[i] += here / (1 + q) * p
    assert fits(observed, law) is passes

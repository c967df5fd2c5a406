import math
from collections import Counter
from fractions import Fraction

import pytest

from tests.udfs import test_gem
from tests.udfs.choices import BETA, EPSILON
from tests.udfs.laws import NotPrivateError, fits
from tests.udfs.test_gem import (
    BETAS,
    SIZES,
    check_privacy,
    check_the_close_pair,
    defined_law,
    each_grid,
    lose_the_factor_two,
    reach,
    real_law,
    tables,
)
from tests.udfs.test_normalized import defined
from udfs.exact import secret_draws
from udfs.select import mgem, normalized
from udfs.spec import Loss


def shipped_law(scores, sizes, beta, grid):
    return test_gem.shipped_law(scores, sizes, beta, grid, mgem)


@each_grid
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_the_definition_for_every_small_table(sizes, beta, grid):
    for scores in tables(len(sizes)):
        expected = defined_law(scores, sizes, -reach(len(sizes), beta, grid), grid)
        assert shipped_law(scores, sizes, beta, grid) == expected


@each_grid
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(sizes, beta, grid):
    check_privacy(lambda table: shipped_law(table, sizes, beta, grid), sizes, grid)


@each_grid
@pytest.mark.parametrize("sizes", [(1, 9), (2, 1, 8), (0, 1)])
def test_ignored_sensitivities_are_not_private(sizes, grid):
    few = (Fraction(1, 5),) * len(sizes)
    with pytest.raises(NotPrivateError):
        check_privacy(lambda table: shipped_law(table, few, BETAS[1], grid), sizes, grid)


def test_neighbours_that_need_nearly_all_of_epsilon_have_it():
    check_the_close_pair(mgem, -1)


def test_a_lost_factor_two_is_not_private(monkeypatch):
    lose_the_factor_two(monkeypatch)
    with pytest.raises(NotPrivateError):
        check_the_close_pair(mgem, -1)


@each_grid
def test_it_favours_high_sensitivity(grid):
    law = shipped_law((5, 5), (1, 4), BETA, grid)
    assert law[1] > law[0]


def test_the_public_call_uses_the_public_constants():
    scores, sizes = [5, 40, 41], [1, 2, 3]
    found = mgem.levels_of(scores, sizes, EPSILON, BETA)
    fine = normalized.grid_of(EPSILON)
    assert found.odds.rate == EPSILON / (2 * fine)
    behind = defined(scores, sizes, -reach(3, BETA, fine), fine)
    assert found.levels == [b - min(behind) for b in behind]


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(8)])
def test_the_accuracy_sentence_holds(epsilon, beta):
    """A candidate is chosen only if it is accepted, so it is enough to add the chances of that."""
    sizes = range(30)
    says = mgem.accuracy(sizes, epsilon, beta)
    times = Fraction(says.split("more than ")[1].split(" times")[0])
    for steep in (-60, -9, 2, 60):
        scores = [2000 * size // (size + 4) - steep * size for size in sizes]
        found = mgem.levels_of(scores, sizes, epsilon, beta)
        pairs = enumerate(zip(scores, sizes, strict=True))
        failing = [i for i, (score, size) in pairs if max(scores) - score > times * size]
        assert sum(math.exp(-found.odds.rate * found.of(i)) for i in failing) <= beta


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert mgem.accuracy([1, 2, Fraction(1, 2)], EPSILON, BETA) == (
        "with probability at least 0.95 no other score exceeds the chosen one by more than 16.38 "
        "times the chosen candidate's sensitivity (3 candidates, epsilon = 1)"
    )


def test_it_is_priced_as_a_pure_mechanism():
    assert mgem.loss(EPSILON, BETA) == Loss(EPSILON)


SCORES, LEVELS = (24, 22, 7), (1, 2, 4)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    epsilon, right = Fraction(1, 2), normalized._rate
    monkeypatch.setattr(
        normalized, "_rate", lambda epsilon, grid: right(epsilon, grid) * Fraction(tenths, 10)
    )
    draws = secret_draws()
    observed = Counter(mgem._select(SCORES, LEVELS, epsilon, BETA, draws) for _ in range(8_000))
    law = real_law(SCORES, LEVELS, -reach(3, BETA, 1024, epsilon), epsilon)
    assert fits(observed, law) is passes

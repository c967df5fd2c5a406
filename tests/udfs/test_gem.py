import math
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs.choices import (
    BETA,
    EPSILON,
    law_on_grid,
    neighbours,
    without_impossible,
)
from tests.udfs.laws import NotPrivateError, check_neighbours, fits
from tests.udfs.test_flip import permute_and_flip
from tests.udfs.test_normalized import defined
from udfs.exact import secret_draws
from udfs.select import gem, normalized
from udfs.spec import Loss

HALF = Fraction(1, 2)
SIZES = [(1, 1), (1, 3), (0, 1), (0, 0), (0, 2, 3), (Fraction(1, 2), 2, Fraction(7, 3))]
BETAS = [Fraction(1, 20), Fraction(99, 100)]
"""A large reach and a small one."""


GRIDS = [1, 3]
"""Coarse grids, so that exp(epsilon) = 2**(2 * grid) is a small number."""

each_grid = pytest.mark.parametrize("grid", GRIDS)


def shipped_law(scores, sizes, beta, grid, module=gem):
    return law_on_grid(lambda draws: module._select(scores, sizes, EPSILON, beta, draws), grid)


def reach(n, beta, grid, epsilon=EPSILON):
    return Fraction(math.ceil(grid * 2 / epsilon * math.log(n / beta)), grid)


def weights(scores, sizes, at, grid, q=HALF):
    """The weights of the definition, the best one being 1."""
    behind = defined(scores, sizes, at, grid)
    least = min(b for b in behind if b is not None)
    return {i: q ** (b - least) for i, b in enumerate(behind) if b is not None}


def defined_law(scores, sizes, at, grid):
    return without_impossible(permute_and_flip(weights(scores, sizes, at, grid)))


def tables(n):
    return product((0, 1, 3, 8) if n < 3 else (0, 2, 7), repeat=n)


@each_grid
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_the_definition_for_every_small_table(sizes, beta, grid):
    for scores in tables(len(sizes)):
        expected = defined_law(scores, sizes, reach(len(sizes), beta, grid), grid)
        assert shipped_law(scores, sizes, beta, grid) == expected


def check_privacy(law, sizes, grid):
    moves = (-1, Fraction(-1, 3), 0, 1) if len(sizes) < 3 else (-1, Fraction(1, 3), 1)
    check_neighbours(law, neighbours(tables(len(sizes)), sizes, moves), HALF ** (-2 * grid))


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


CLOSE_SIZES = (1, 4, 1, 4, 4, 4, 4)
CLOSE_TABLES = ((14, 31, -5, 23, 23, 23, 23), (15, 27, -6, 27, 27, 27, 27))
"""Neighbours that use six sevenths of epsilon: two leaders, and a crowd near one of them."""


def check_the_close_pair(module, per_size):
    """Check it with scores that make up for what the reach does to them."""
    shift = per_size * reach(len(CLOSE_SIZES), BETA, 1)
    tables = [
        tuple(score + shift * size for score, size in zip(table, CLOSE_SIZES, strict=True))
        for table in CLOSE_TABLES
    ]
    check_neighbours(
        lambda table: shipped_law(table, CLOSE_SIZES, BETA, 1, module), [tables], HALF**-2
    )


def lose_the_factor_two(patch):
    right = normalized._rate
    patch.setattr(normalized, "_rate", lambda epsilon, grid: 2 * right(epsilon, grid))


def test_neighbours_that_need_nearly_all_of_epsilon_have_it():
    check_the_close_pair(gem, 1)


def test_a_lost_factor_two_is_not_private(monkeypatch):
    lose_the_factor_two(monkeypatch)
    with pytest.raises(NotPrivateError):
        check_the_close_pair(gem, 1)


def test_scores_of_each_candidate_alone_are_not_private():
    """A candidate judged by its shortfall, in sensitivities, without the others."""

    def law(table):
        behind = [2 * (max(table) - u) // size for u, size in zip(table, (1, 3), strict=True)]
        return permute_and_flip({i: HALF ** int(b) for i, b in enumerate(behind)})

    with pytest.raises(NotPrivateError):
        check_privacy(law, (1, 3), 2)


@each_grid
def test_a_public_candidate_behind_another_public_one_is_never_chosen(grid):
    law = shipped_law((1, 2, 2, 0), (0, 0, 0, 5), BETA, grid)
    assert 0 not in law
    assert law[1] == law[2] > 0


@each_grid
def test_it_favours_low_sensitivity(grid):
    law = shipped_law((5, 5), (1, 4), BETA, grid)
    assert law[0] > law[1]


def test_the_public_call_uses_the_public_constants():
    scores, sizes = [5, 40, 41], [1, 2, 3]
    found = gem.levels_of(scores, sizes, EPSILON, BETA)
    grid = normalized.grid_of(EPSILON)
    assert found.odds.rate == EPSILON / (2 * grid)
    behind = defined(scores, sizes, reach(3, BETA, grid), grid)
    assert found.levels == [b - min(behind) for b in behind]


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(8)])
def test_the_accuracy_sentence_holds(epsilon, beta):
    """A candidate is chosen only if it is accepted, so it is enough to add the chances of that."""
    sizes = range(30)
    says = gem.accuracy(sizes, epsilon, beta)
    times = Fraction(says.split("more than ")[1].split(" times")[0])
    for steep in (2, 9, 60):
        scores = [2000 * size // (size + 4) - steep * size for size in sizes]
        found = gem.levels_of(scores, sizes, epsilon, beta)
        needed = max(score - times * size for score, size in zip(scores, sizes, strict=True))
        failing = [i for i, score in enumerate(scores) if score < needed]
        assert sum(math.exp(-found.odds.rate * found.of(i)) for i in failing) <= beta


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert gem.accuracy([1, 2, Fraction(1, 2)], EPSILON, BETA) == (
        "with probability at least 0.95 no other score exceeds the chosen one by more than 16.38 "
        "times that other candidate's sensitivity (3 candidates, epsilon = 1)"
    )


def test_it_is_priced_as_a_pure_mechanism():
    assert gem.loss(EPSILON, BETA) == Loss(EPSILON)


@pytest.mark.parametrize("kind", ["ints", "decimals", "floats"])
def test_thousands_of_candidates_are_quick(kind):
    divisor = {"ints": 1, "decimals": 1000, "floats": 2**50 + 1}[kind]
    n = 20_000
    scores = [Fraction(10**7 - 10**10 // (size + 5), divisor) for size in range(n)]
    start = time.perf_counter()
    assert gem.select(scores, range(n), EPSILON, BETA) in range(n)
    assert time.perf_counter() - start < 2, "twenty times what it takes, for slow machines"


SCORES, LEVELS = (4, 6, 7), (1, 2, 4)


def real_law(scores, sizes, at, epsilon):
    q = math.exp(-float(epsilon) / 2048)
    return permute_and_flip(weights(scores, sizes, at, 1024, q))


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    epsilon, right = HALF, normalized._rate
    monkeypatch.setattr(
        normalized, "_rate", lambda epsilon, grid: right(epsilon, grid) * Fraction(tenths, 10)
    )
    draws = secret_draws()
    observed = Counter(gem._select(SCORES, LEVELS, epsilon, BETA, draws) for _ in range(8_000))
    law = real_law(SCORES, LEVELS, reach(3, BETA, 1024, epsilon), epsilon)
    assert fits(observed, law) is passes

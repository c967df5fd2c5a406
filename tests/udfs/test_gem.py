import math
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs.laws import NotPrivateError, check_neighbours, fits, law_of, normalized
from udfs import gem

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
GRIDS = [1, 2, 3]
"""Coarse grids, so that exp(epsilon) = q**(-2 * grid) stays a small number in exact laws."""

Q = Fraction(1, 2)
SIZES = [(1, 1), (1, 3), (2, 1, 4), (Fraction(1, 2), 2, Fraction(7, 3))]


def shipped_law(utilities, sizes, reach, grid, epsilon=EPSILON):
    scores = gem._scores(utilities, sizes, reach, grid)
    law, unfinished = law_of(
        lambda draws: gem._pick(scores, epsilon, grid, draws),
        {EPSILON * i * Fraction(1, 2 * grid): Q**i for i in (1, 2)},
    )
    assert unfinished == 0
    return law


def score(utilities, sizes, reach, i):
    """The definition, in Fractions."""
    worth = [u - size * reach for u, size in zip(utilities, sizes, strict=True)]
    return max(Fraction(worth[j] - worth[i]) / (sizes[i] + sizes[j]) for j in range(len(sizes)))


def defined_law(utilities, sizes, reach, grid):
    return normalized(
        {i: Q ** math.floor(grid * score(utilities, sizes, reach, i)) for i in range(len(sizes))}
    )


def utility_tables(n):
    return product(range(4), repeat=n)


def moved_tables(sizes):
    """Each table with each one where every utility has moved by at most its sensitivity."""
    for utilities in utility_tables(len(sizes)):
        for signs in product((-1, Fraction(-1, 3), 0, 1), repeat=len(sizes)):
            moves = zip(utilities, signs, sizes, strict=True)
            yield utilities, tuple(u + sign * size for u, sign, size in moves)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_law_is_the_definition_for_every_small_table(sizes, grid):
    for utilities in utility_tables(len(sizes)):
        for reach in (Fraction(0), Fraction(5, 3), Fraction(4)):
            expected = defined_law(utilities, sizes, reach, grid)
            assert shipped_law(utilities, sizes, reach, grid) == expected


def check_privacy(law, sizes, grid):
    check_neighbours(law, moved_tables(sizes), Q ** (-2 * grid))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(sizes, grid):
    check_privacy(lambda table: shipped_law(table, sizes, Fraction(5, 3), grid), sizes, grid)


@pytest.mark.parametrize("sizes", [(1, 9), (2, 1, 8)])
def test_ignored_sensitivities_are_not_private(sizes):
    ones = (1,) * len(sizes)
    with pytest.raises(NotPrivateError):
        check_privacy(lambda table: shipped_law(table, ones, Fraction(5, 3), 2), sizes, 2)


CLOSE_SIZES = (1, 4, 1, 4, 4, 4, 4)
CLOSE_TABLES = ((14, 31, -5, 23, 23, 23, 23), (15, 27, -6, 27, 27, 27, 27))
"""Neighbours that use seven eighths of epsilon: two leaders, and a crowd near one of them."""


def check_the_close_pair(epsilon):
    check_neighbours(
        lambda table: shipped_law(table, CLOSE_SIZES, Fraction(0), 1, epsilon),
        [CLOSE_TABLES],
        Q**-2,
    )


def test_neighbours_that_need_nearly_all_of_epsilon_have_it():
    check_the_close_pair(EPSILON)


def test_a_lost_factor_two_is_not_private():
    with pytest.raises(NotPrivateError):
        check_the_close_pair(2 * EPSILON)


def test_scores_of_each_candidate_alone_are_not_private():
    """A candidate judged by its utility, in sensitivities, without the others."""

    def law(table):
        return normalized({i: Q ** (-2 * math.floor(2 * u)) for i, u in enumerate(table)})

    with pytest.raises(NotPrivateError):
        check_privacy(law, (1, 3), 2)


def test_small_and_large_numbers_take_the_same_path_to_the_same_scores():
    utilities, sizes = [3, 10**6, 12345, 0], [1, 5, 2, 7]
    reach = Fraction(37, 1024)
    plain = gem._scores(utilities, sizes, reach, 1024)
    scale = 10**25 + 1
    scaled = gem._scores(
        [u * scale for u in utilities], [size * scale for size in sizes], reach, 1024
    )
    assert scaled == plain
    assert plain == [
        math.floor(1024 * score(utilities, sizes, reach, i)) for i in range(len(sizes))
    ]


def test_the_public_call_uses_the_public_constants():
    seen = []

    class Recorder:
        def choose(self, odds):
            seen.append(odds)
            return 1

    utilities, sizes = [5, 40, 41], [1, 2, 3]
    assert gem._gem(utilities, sizes, EPSILON, BETA, Recorder()) == 1
    (odds,) = seen
    grid = gem.grid_of(EPSILON)
    assert odds.rate == EPSILON / (2 * grid)
    reach = gem.round_up(Fraction(2 * math.log(3 * 20)), grid)
    scores = [math.floor(grid * score(utilities, sizes, reach, i)) for i in range(3)]
    assert list(odds.weights) == [((1, s - min(scores)),) for s in scores]


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(8)])
def test_the_accuracy_of_gem_md_holds(epsilon, beta):
    sizes = range(1, 30)
    grid = gem.grid_of(epsilon)
    reach = gem.round_up(Fraction(math.log(len(sizes) / beta)) * 2 / epsilon, grid)
    for steep in (2, 9, 60):
        utilities = [2000 * size // (size + 4) - steep * size for size in sizes]
        scores = gem._scores(utilities, sizes, reach, grid)
        weights = [math.exp(-epsilon * score / (2 * grid)) for score in scores]
        needed = max(u - 2 * reach * size for u, size in zip(utilities, sizes, strict=True))
        failing = sum(w for w, u in zip(weights, utilities, strict=True) if u < needed)
        assert failing <= beta * sum(weights)


def test_a_thousand_candidates_are_quick():
    utilities = [10**7 - 10**10 // (size + 5) for size in range(1, 1001)]
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        gem.gem(utilities, range(1, 1001), EPSILON, BETA)
        best = min(best, time.perf_counter() - start)
    assert best < 0.5, "ten times the goal, for slow machines"


UTILITIES, LEVELS = (4, 6, 7), (1, 2, 4)


def real_law(epsilon):
    reach = gem.round_up(Fraction(2 * math.log(3 * 20)) / epsilon, 1024)
    weights = [math.exp(-float(epsilon * score(UTILITIES, LEVELS, reach, i)) / 2) for i in range(3)]
    return {i: weight / sum(weights) for i, weight in enumerate(weights)}


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    epsilon = Fraction(1, 2)
    right = gem._pick
    monkeypatch.setattr(gem, "_pick", lambda s, e, g, d: right(s, e * Fraction(tenths, 10), g, d))
    observed = Counter(gem.gem(UTILITIES, LEVELS, epsilon, BETA) for _ in range(10_000))
    assert fits(observed, real_law(epsilon)) is passes


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_utilities_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="utilities"):
        gem.gem([1, bad], [1, 1], EPSILON, BETA)


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_sensitivities_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="sensitivities"):
        gem.gem([1, 1], [1, bad], EPSILON, BETA)


@pytest.mark.parametrize("bad", [0, -1, Fraction(-1, 2)])
def test_sensitivities_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="sensitivities"):
        gem.gem([1, 1], [1, bad], EPSILON, BETA)


@pytest.mark.parametrize(("utilities", "sizes"), [([], []), ([1], []), ([1], [1, 2])])
def test_lists_that_do_not_match_are_refused(utilities, sizes):
    with pytest.raises(ValueError, match="one sensitivity"):
        gem.gem(utilities, sizes, EPSILON, BETA)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        gem.gem([1], [1], bad, BETA)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        gem.gem([1], [1], bad, BETA)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        gem.gem([1], [1], EPSILON, bad)

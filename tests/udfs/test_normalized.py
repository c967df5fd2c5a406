import math
import random
from fractions import Fraction
from itertools import product

import pytest

from dp_sql.udfs.select import normalized
from dp_sql.udfs.select.normalized import grid_of, normalized_scores, shift_on_grid
from tests.udfs.choices import neighbours

pytestmark = pytest.mark.pure

SIZES = [(1, 1), (1, 3), (0, 1), (0, 0, 2), (2, 1, 4), (Fraction(1, 2), 0, Fraction(7, 3))]
SHIFTS = [Fraction(0), Fraction(5, 3), Fraction(-4)]


def quotient(ahead, sizes):
    if sizes:
        return Fraction(ahead) / sizes
    return math.inf if ahead > 0 else 0 if ahead == 0 else -math.inf


def defined(scores, sizes, shift, grid):
    """The definition, over all pairs, in Fractions."""
    a = [size * shift - score for score, size in zip(scores, sizes, strict=True)]
    pairs = list(zip(a, sizes, strict=True))
    found = [max(quotient(x - y, size + other) for y, other in pairs) for x, size in pairs]
    return [None if s == math.inf else math.floor(grid * s) for s in found]


def tables(n):
    return product((0, 1, 2, 7), repeat=n)


@pytest.mark.parametrize("grid", [1, 3, 1024])
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_scores_are_the_definition_for_every_small_table(sizes, shift, grid):
    for scores in tables(len(sizes)):
        assert normalized_scores(scores, sizes, shift, grid) == defined(scores, sizes, shift, grid)


def random_tables():
    draw = random.Random()
    for n in (2, 5, 30):
        for spread in (3, 40, 10**6, 10**30):
            sizes = [draw.choice((0, draw.randrange(spread), Fraction(1, 7))) for _ in range(n)]
            shapes = (
                [draw.randrange(spread) for _ in range(n)],
                [Fraction(draw.randrange(spread), draw.choice((1, 6, 2**50))) for _ in range(n)],
                [math.isqrt(int(spread * size)) for size in sizes],
                [-size * size for size in sizes],
            )
            yield from ((scores, sizes) for scores in shapes)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shift", [*SHIFTS, Fraction(37, 1024)])
def test_the_scores_are_the_definition_for_large_tables(shift):
    for scores, sizes in random_tables():
        assert normalized_scores(scores, sizes, shift, 7) == defined(scores, sizes, shift, 7)


def moves_too_far(compute, sizes, grid):
    """Whether any neighbour's score is more than `grid` away, or infinite on one side only."""
    for table, moved in neighbours(tables(len(sizes)), sizes):
        for s, other in zip(compute(table), compute(moved), strict=True):
            if (s is None) != (other is None):
                return True
            if s is not None and abs(s - other) > grid:
                return True
    return False


@pytest.mark.one_in(4)
@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("sizes", SIZES[:5])
def test_one_person_moves_a_score_by_at_most_the_grid(sizes, shift, grid):
    assert not moves_too_far(lambda t: normalized_scores(t, sizes, shift, grid), sizes, grid)


@pytest.mark.parametrize("sizes", [(1, 3), (2, 9)])
def test_shortfalls_in_sensitivities_of_the_candidate_alone_move_further(sizes):
    def compute(scores):
        return [
            (max(scores) - score) // size if size else None
            for score, size in zip(scores, sizes, strict=True)
        ]

    assert moves_too_far(compute, sizes, 1)


def test_scores_that_forget_the_sensitivity_move_further():
    assert moves_too_far(lambda t: normalized_scores(t, (1, 1), Fraction(0), 1), (1, 3), 1)


@pytest.mark.parametrize("scale", [7, 10**25 + 1, Fraction(1, 10**9)])
def test_the_unit_does_not_matter(scale):
    scores, sizes = [3, 10**6, 12345, 0], [1, 5, 2, 0]
    plain = normalized_scores(scores, sizes, Fraction(37, 1024), 1024)
    scaled = [[x * scale for x in row] for row in (scores, sizes)]
    assert normalized_scores(*scaled, Fraction(37, 1024), 1024) == plain


def test_a_public_candidate_behind_another_public_one_is_never_chosen():
    assert normalized_scores([1, 2, 2, 0], [0, 0, 0, 1], Fraction(0), 1) == [None, 0, 0, 2]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(300)])
def test_the_grid_changes_no_weight_by_a_thousandth(epsilon):
    assert math.exp(epsilon / (2 * grid_of(epsilon))) < 1.001


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(300)])
def test_the_shift_is_rounded_up_to_the_grid(epsilon):
    shift, grid = shift_on_grid(30, epsilon, Fraction(1, 20)), grid_of(epsilon)
    assert (shift * grid).denominator == 1
    assert 0 <= shift - Fraction(2 * math.log(600)) / epsilon < Fraction(1, grid)


def test_lines_that_are_lowest_nowhere_are_left_out():
    lines = [(0, 9), (1, 8), (2, 3), (2, 4), (5, 3), (6, 2), (9, 0), (10, 0)]
    assert normalized._envelope(lines) == [(0, 9), (2, 3), (9, 0)]

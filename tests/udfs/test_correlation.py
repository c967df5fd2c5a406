import math
import random
from fractions import Fraction
from itertools import product

import pytest

from dp_sql.udfs.select.gem import sign_of_spearman

pytestmark = pytest.mark.pure


def small_tables():
    for n in (1, 2, 3):
        yield from product(product((0, 1, Fraction(5, 2)), repeat=n), repeat=2)
    yield from product(product((0, 1, 3), repeat=4), [(0, 1, 2, 3), (1, 1, 2, 0), (5, 5, 5, 1)])


def random_tables():
    draw = random.Random()
    for n in (5, 40, 300):
        for spread in (3, 1000, 10**12):
            yield [[Fraction(draw.randrange(spread), 7) for _ in range(n)] for _ in range(2)]


def mean_ranks(values):
    return [Fraction(sum(v < u for v in values) + sum(v <= u for v in values), 2) for u in values]


def covariance_of_ranks(scores, sizes):
    """By its definition: about the means of the ranks."""
    x, y = mean_ranks(scores), mean_ranks(sizes)
    n = len(x)
    return sum((a - sum(x) / n) * (b - sum(y) / n) for a, b in zip(x, y, strict=True))


@pytest.mark.thorough
def test_the_sign_is_exact():
    for scores, sizes in [*small_tables(), *random_tables()]:
        joint = covariance_of_ranks(scores, sizes)
        assert sign_of_spearman(scores, sizes) == (joint > 0) - (joint < 0)


@pytest.mark.thorough
def test_the_sign_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    for scores, sizes in random_tables():
        expected = stats.spearmanr([float(s) for s in scores], [float(s) for s in sizes]).statistic
        if abs(expected) > 1e-9:
            assert sign_of_spearman(scores, sizes) == math.copysign(1, expected)


def test_perfect_order_is_one():
    rising = list(range(1, 30))
    assert sign_of_spearman(rising, rising) == 1
    assert sign_of_spearman(rising, rising[::-1]) == -1


def test_a_constant_column_has_no_correlation():
    for scores, sizes in (
        ([1, 2, 3], [4, 4, 4]),
        ([1, 1, 1], [1, 2, 3]),
        ([1, 2], [0, 0]),
        ([1], [1]),
    ):
        assert sign_of_spearman(scores, sizes) == 0


@pytest.mark.parametrize("scale", [3, Fraction(1, 7), 10**20])
def test_units_do_not_matter(scale):
    scores, sizes = [4, 1, 9, Fraction(7, 2)], [1, 3, 0, 2]
    scaled = [score * scale + 5 for score in scores], [size * scale for size in sizes]
    assert sign_of_spearman(*scaled) == sign_of_spearman(scores, sizes)

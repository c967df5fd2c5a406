import math
import random
from fractions import Fraction
from itertools import product

import pytest
from scipy import stats

from dp_sql.udfs.select import correlation as module
from dp_sql.udfs.select.correlation import KINDS, correlation, sign_of_spearman

MILLIONTH = Fraction(1, 10**6)


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


def weights_by_the_definition(scores, sizes):
    """Ten buckets, half open but the last, each candidate against the largest of its own."""
    low, high = min(scores), max(scores)
    buckets = []
    for score in scores:
        inside = [
            b
            for b in range(10)
            if low + Fraction(b * (high - low), 10)
            <= score
            < low + Fraction((b + 1) * (high - low), 10)
        ]
        buckets.append(inside[0] if inside else 9)
    largest = [
        max(s for s, other in zip(sizes, buckets, strict=True) if other == b) for b in buckets
    ]
    return [Fraction(s, m) if m else Fraction(1) for s, m in zip(sizes, largest, strict=True)]


def moments(x, y, w):
    """Weighted covariance and variances about the weighted means."""
    x_mean, y_mean = (sum(a * b for a, b in zip(w, u, strict=True)) / sum(w) for u in (x, y))
    dx, dy = [a - x_mean for a in x], [b - y_mean for b in y]

    def joint(u, v):
        return sum(a * b * c for a, b, c in zip(w, u, v, strict=True)) / sum(w)

    return joint(dx, dy), joint(dx, dx), joint(dy, dy)


def defined(scores, sizes, kind):
    if kind == "spearman":
        return moments(mean_ranks(scores), mean_ranks(sizes), [Fraction(1)] * len(scores))
    return moments(scores, sizes, weights_by_the_definition(scores, sizes))


def is_nearest(r, joint, x_spread, y_spread):
    """Whether |r - joint/sqrt(x_spread y_spread)| <= 1/2 millionth, compared as squares."""
    low, high = abs(r) - MILLIONTH / 2, abs(r) + MILLIONTH / 2
    square = Fraction(joint**2) / (x_spread * y_spread)
    return max(low, 0) ** 2 <= square <= high**2


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_the_definition_to_the_nearest_millionth(kind):
    for scores, sizes in [*small_tables(), *random_tables()]:
        r = correlation(scores, sizes, kind)
        joint, x_spread, y_spread = defined(scores, sizes, kind)
        if joint == 0:
            assert r == 0
        else:
            assert is_nearest(r, joint, x_spread, y_spread)
            assert (r > 0) == (joint > 0)


def test_spearman_agrees_with_scipy():
    for scores, sizes in random_tables():
        expected = stats.spearmanr([float(s) for s in scores], [float(s) for s in sizes]).statistic
        assert math.isclose(correlation(scores, sizes, "spearman"), expected, abs_tol=2e-6)


def test_the_sign_is_exact():
    for scores, sizes in [*small_tables(), *random_tables()]:
        joint, _, _ = defined(scores, sizes, "spearman")
        assert sign_of_spearman(scores, sizes) == (joint > 0) - (joint < 0)


def test_a_tiny_correlation_keeps_its_sign():
    assert module._quotient(1, 10**9, 10**9) == MILLIONTH
    assert module._quotient(-1, 10**9, 10**9) == -MILLIONTH


@pytest.mark.parametrize("kind", KINDS)
def test_perfect_order_is_one(kind):
    rising = list(range(1, 30))
    assert correlation(rising, rising, kind) == 1
    assert correlation(rising, rising[::-1], kind) == -1


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_column_has_no_correlation(kind):
    for scores, sizes in (
        ([1, 2, 3], [4, 4, 4]),
        ([1, 1, 1], [1, 2, 3]),
        ([1, 2], [0, 0]),
        ([1], [1]),
    ):
        assert correlation(scores, sizes, kind) == 0


def test_the_weights_make_a_difference():
    scores, sizes = [1, 2, 3, 100, 101], [9, 1, 1, 10, 2]
    assert correlation(scores, sizes, "weighted") != correlation(scores, sizes, "spearman")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [3, Fraction(1, 7), 10**20])
def test_units_do_not_matter(kind, scale):
    scores, sizes = [4, 1, 9, Fraction(7, 2)], [1, 3, 0, 2]
    scaled = [score * scale + 5 for score in scores], [size * scale for size in sizes]
    assert correlation(*scaled, kind) == correlation(scores, sizes, kind)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="spearman, weighted"):
        correlation([1], [1], "pearson")


@pytest.mark.parametrize("bad", [None, 1, True])
def test_a_kind_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="kind"):
        correlation([1], [1], bad)


def test_floats_are_refused():
    with pytest.raises(TypeError, match="scores"):
        correlation([1.5], [1], "spearman")


def test_a_negative_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivities"):
        correlation([1], [-1], "spearman")

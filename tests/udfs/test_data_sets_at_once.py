"""Counts, sums and means of many data sets at once: each is drawn as if it were alone."""

import random
import tracemalloc
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from dp_sql.udfs.contributions import (
    bound,
    bounded_count,
    bounded_mean,
    bounded_sum,
    histogram,
    pair_noise,
    release,
)
from dp_sql.udfs.discrete_laplace import laplace_quantile
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.histogram import chosen_norm
from dp_sql.udfs.mixed import Mixed, mixed
from tests.udfs.cases_bound import BETA, EPSILON, HALF, columns, defined_choice
from tests.udfs.cases_bounded_mean import tables
from tests.udfs.choices import PowersOf
from tests.udfs.distributions import distribution_of

DATA = [(1,), (), (5, 1), (2, 2, 9)]
RIGHT = bound.in_rectangles
BY_FOUR = ("buckets", "people", "sums", "negative")


def bounds_are_independent(n_bounds=6):
    """Whether the bounds of several data sets have the product of their laws, in this order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "_SUPPORT", Fraction(3, 2))
        patch.setattr(bound, "_DOUBLINGS", 1)
        these = histogram.read_histograms([columns(data, 3) for data in DATA])
        drawn, unfinished = distribution_of(
            lambda draws: tuple(bound.choose_bounds(these, n_bounds, EPSILON / 2, draws).tolist()),
            PowersOf(HALF, EPSILON / 4),
        )
    assert unfinished == 0
    each = [defined_choice(data, 3, 1, n_bounds) for data in DATA]
    wanted = {
        places: prod(one[i] for one, i in zip(each, places, strict=True))
        for places in product(*each)
    }
    return drawn == {places: p for places, p in wanted.items() if p}


@pytest.mark.parametrize(("rows", "cells"), [(1, 1), (2, 9), (1 << 14, 1 << 18)])
def test_bounds_of_several_data_sets_are_independent(rows, cells, monkeypatch):
    monkeypatch.setattr(bound, "_ROWS", rows)
    monkeypatch.setattr(bound, "_CELLS", cells)
    assert bounds_are_independent()


@pytest.mark.pure
def test_bounds_that_are_given_to_other_data_sets_would_be_noticed(monkeypatch):
    def in_another_order(widths, *most):
        return [np.sort(part)[::-1] for part in RIGHT(widths, *most)]

    def next_data_sets(these, some, right=histogram.Histograms.of):
        return right(these, (some + 1) % these.n)

    monkeypatch.setattr(bound, "in_rectangles", in_another_order)
    assert bounds_are_independent()
    monkeypatch.setattr(histogram.Histograms, "of", next_data_sets)
    assert not bounds_are_independent()


ALIKE = 12
"""So many people contribute alike: then the bound is the least that leaves no one above."""


def people(seed, n, most):
    """Data sets of a few people: the net sum of each."""
    draws = random.Random(seed)
    return [
        ALIKE
        * [draws.choice((-1, 1)) * draws.randrange(1, most) for _ in range(draws.randrange(5))]
        for _ in range(n)
    ]


def in_columns(data, *names):
    """The same data sets as one."""
    of = mixed(data, *names)
    return Mixed(of.n, of.owners, tuple(np.array(column) for column in of.columns))


def runs(mechanism, data, monkeypatch, *given):
    """Every release, from one tape."""
    draws = Draws(random.Random(7).getrandbits)
    for module in (release, bounded_mean):
        monkeypatch.setattr(module, "secret_draws", lambda: draws)
    return [*mechanism.run_each(data, *given)]


@pytest.mark.parametrize("most", [10, 2**60, 2**100])
@pytest.mark.parametrize("at", [None, 2**101])
def test_each_sum_is_near_its_own(most, at, monkeypatch):
    nets = people(1, 200, most)
    given = Fraction(10**12 * 2**101), BETA, 1 << 126, at, False
    found = runs(bounded_sum, [columns(data) for data in nets], monkeypatch, *given)
    assert [one.estimate for one in found] == [sum(data) for data in nets]


@pytest.mark.parametrize("size", [2**61, 2**62, 2**62 + 1, 2**63 - 1, 2**63, -(2**63)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_sums_at_the_end_of_64_bits_are_exact(n, size, monkeypatch):
    given = Fraction(10**12 * 2**101), BETA, 1 << 126, 2**64, False
    (found,) = runs(bounded_sum, [columns(n * [size])], monkeypatch, *given)
    assert found.estimate == n * size


@pytest.mark.parametrize("most", [10, 2**90])
def test_numbers_of_any_size_are_computed_as_small_ones(most, monkeypatch):
    data, given = [columns(one) for one in people(2, 60, most)], (EPSILON, BETA, 1 << 126, None)
    small = runs(bounded_sum, data, monkeypatch, *given, False)
    monkeypatch.setattr(histogram, "_MOST_SHIFTED", -1)
    assert runs(bounded_sum, data, monkeypatch, *given, False) == small


def test_data_sets_in_common_columns_are_the_same_ones(monkeypatch):
    nets = people(3, 50, 100)
    data = [columns(one) for one in nets]
    whole = in_columns(data, *BY_FOUR)
    assert [[column.tolist() for column in one] for one in whole] == data
    assert [len(whole[20:30]), len(whole[50:]), [*whole[3:3]]] == [10, 0, []]
    parts = [one for start in range(0, 50, 7) for one in whole[start : start + 7]]
    assert [[column.tolist() for column in one] for one in parts] == data
    given = EPSILON, BETA, 1 << 126, None, False
    alone = runs(bounded_sum, data, monkeypatch, *given)
    assert runs(bounded_sum, whole, monkeypatch, *given) == alone
    assert runs(bounded_sum, whole[50:], monkeypatch, *given) == []


@pytest.mark.parametrize("ends", [None, (-9, 9)])
def test_each_mean_is_near_its_own(ends, monkeypatch):
    draws = random.Random(4)
    data = [
        ALIKE * [[draws.randrange(-9, 10) for _ in range(draws.choice((1, 2)))] for _ in range(3)]
        for _ in range(40)
    ]
    factor = 1 if ends is None else 2
    unit = factor << bounded_mean.FRACTION_BITS
    given = [tables(one, 2, unit) for one in data], Fraction(10**12), BETA, 2, None, 1, ends
    draws = Draws(random.Random(7).getrandbits)
    monkeypatch.setattr(bounded_mean, "secret_draws", lambda: draws)
    found = bounded_mean.run_each(*given)
    for one, estimate, persons in zip(found, found.estimates(), data, strict=True):
        rows = [x for person in persons for x in person]
        assert one.estimate == Fraction(*estimate)
        assert abs(one.estimate - Fraction(sum(rows), len(rows))) < Fraction(1, 10**3)


def test_each_data_set_has_noise_of_its_own_at_its_own_rate(monkeypatch):
    asked = []

    def numbered(rates, draws, noise=lambda i: 1024 * i):
        asked[:] = rates
        return [*map(noise, range(len(rates)))]

    monkeypatch.setattr(release, "discrete_laplaces", numbered)
    monkeypatch.setattr(chosen_norm, "discrete_laplaces", numbered)
    sizes, epsilon = (1, 8, 1, 128), Fraction(10**12)
    data = [columns(ALIKE * [size]) for size in sizes]
    found = runs(bounded_sum, data, monkeypatch, epsilon, BETA, 1 << 126, None, False)
    estimates = [ALIKE * size + 1024 * i for i, size in enumerate(sizes)]
    assert [(one.estimate, one.contribution_bound) for one in found] == [
        *zip(estimates, sizes, strict=True)
    ]
    assert asked == [epsilon / 2 / size for size in sizes]

    counts = chosen_norm._laplace(
        histogram.read_histograms([one[:3] for one in data]), 7, epsilon, None
    )
    assert [*counts] == [ALIKE * size + i for i, size in enumerate(sizes)]

    def pairs(rates, draws):
        return numbered(rates, draws, lambda i: (7 * i, 3 * i))

    monkeypatch.setattr(bounded_mean, "pair_noise", pairs)
    unit = 1 << bounded_mean.FRACTION_BITS
    data = [tables(ALIKE * [[size]], 1, unit) for size in sizes]
    drawn = bounded_mean.run_each(data, epsilon, BETA, 1, None, 1, None).drawn
    limits = [size * unit for size in sizes]
    assert drawn == [
        (ALIKE * limit + 7 * i, ALIKE * limit + 3 * i, drawn[i][2], 1, limit)
        for i, limit in enumerate(limits)
    ]
    assert asked == [epsilon * Fraction(13, 20) / limit for limit in limits]


def test_both_numbers_of_pairs_and_several_pairs_are_independent(monkeypatch):
    monkeypatch.setattr(pair_noise, "_radii", lambda rate, n, draws: n * [int(rate)])
    radii = 1, 2, 1
    rates = [Fraction(radius) for radius in radii]
    drawn, _ = distribution_of(lambda draws: tuple(pair_noise.pair_noise(rates, draws)), {})
    squares = [product(range(-radius, radius + 1), repeat=2) for radius in radii]
    assert drawn == dict.fromkeys(product(*squares), Fraction(1, 9 * 25 * 9))


def test_means_are_those_of_their_releases_down_to_one_row():
    found = bounded_mean.MeanReleases([(7, 5 + more, 1, 1, 5) for more in (-1, 0, 1)], (1, None))
    estimates = [one if one is None else Fraction(*one) for one in found.estimates()]
    assert estimates == [one.estimate for one in found]
    assert [one is None for one in estimates] == [True, False, False]


def test_the_largest_bounds_of_means_are_those_of_their_types(monkeypatch):
    def largest(these, n, share, draws):
        return np.full(these.n, n - 1)

    monkeypatch.setattr(bounded_mean, "choose_bounds", largest)
    found = bounded_mean.run_each([([], [], [], [])], EPSILON, BETA, 100, None, 1, None)
    assert [one[3:] for one in found.drawn] == [(64, 2**126)]


def test_lower_bounds_and_noise_are_those_of_each_bound(monkeypatch):
    data = [[[at], [99], [99 << at]] for at in (0, 3)]
    for one in runs(bounded_count, data, monkeypatch, Fraction(1, 9), BETA, 100, None):
        rate = Fraction(1, 18) / one.contribution_bound
        below, noise = (laplace_quantile(rate, beta) - 1 for beta in (BETA, BETA / 2))
        assert (one.estimate - one.lower_bound, one.noise) == (below, noise)


def test_rows_in_parts_are_exact_at_any_size(monkeypatch):
    monkeypatch.setattr(chosen_norm, "discrete_laplaces", lambda rates, draws: [0] * len(rates))
    for n in (2**50, 2**53 - 1, 2**53, 2**60):
        rows = histogram.read_histograms([[[1], [n], [2 * n]]])
        assert [*chosen_norm._laplace(rows, 1, EPSILON, None)] == [2 * n]


def test_one_wide_data_set_does_not_make_all_wide():
    n = 30_000
    owners = np.append(np.arange(n), 0)
    ones = np.ones(n + 1, np.int64)
    sums = np.append(np.ones(n, np.int64).astype(object), 2**126)
    wide = Mixed(n, np.sort(owners), (np.where(sums == 1, 0, 126)[np.argsort(owners)], ones,
                                     sums[np.argsort(owners)], 0 * ones))  # fmt: skip
    few = Mixed(
        n, np.arange(n), tuple(np.array(one)[1:] for one in (0 * ones, ones, ones, 0 * ones))
    )
    peaks = []
    for data in (few, wide):
        tracemalloc.start()
        bounded_sum.run_each(data, EPSILON, BETA, 1 << 126, None, False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 100 * 2**20  # a table of all bounds would take 30 MB for each of its copies


def test_counts_under_a_given_bound_are_within_it():
    wrong = [[[0], [1], [1]], [[2], [1], [3]]]
    with pytest.raises(ValueError, match="given bound"):
        bounded_count.run_each(wrong, EPSILON, BETA, 100, 2)
    assert len(bounded_count.run_each(wrong, EPSILON, BETA, 100, 3)) == 2


def test_sums_below_0_and_rows_in_part_are_refused_where_there_are_none():
    with pytest.raises(ValueError, match="one-sided"):
        bounded_sum.run(*columns([1, -3]), EPSILON, BETA, 100, None, True)
    part, whole = ([2], [1], [2]), ([2], [1], [3])
    public = EPSILON, 4, 0, Fraction(1, 4)
    with pytest.raises(ValueError, match="fit"):
        chosen_norm.chosen_norm([part], whole, [part], whole, *public, False)
    assert len(chosen_norm.chosen_norm([whole], whole, [part], whole, *public, False).counts) == 1


def test_rows_beyond_a_stated_bound_are_refused():
    rows = [2], [2], [7]
    tables = [rows], rows, [rows], rows
    with pytest.raises(ValueError, match="within a stated bound"):
        chosen_norm.chosen_norm(*tables, EPSILON, 3, 0, Fraction(1, 4), True)
    assert len(chosen_norm.chosen_norm(*tables, EPSILON, 4, 0, Fraction(1, 4), True).counts) == 1


def test_more_people_than_fit_64_bits_at_their_bound_are_counted():
    rows = [0], [10**10], [10**10]
    tables = [rows], rows, [rows], rows
    assert (
        len(chosen_norm.chosen_norm(*tables, EPSILON, 10**9, 0, Fraction(1, 4), True).counts) == 1
    )

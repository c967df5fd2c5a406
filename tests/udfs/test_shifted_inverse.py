import math
from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import shifted_inverse
from tests.udfs.cases_bounded import covered
from tests.udfs.cases_from_below import (
    AIMS,
    BETA,
    INVERSE_EPSILON,
    INVERSE_Q,
    RATE,
    SCALE,
    concave_covers,
    gone_until_below,
    inverse_definition,
    left,
)
from tests.udfs.distributions import distribution_of


def test_a_release_draws_from_this_distribution(monkeypatch):
    monkeypatch.setattr(shifted_inverse, "_scale", lambda: np.array(SCALE))
    monkeypatch.setattr(shifted_inverse, "people_left_out", lambda epsilon, beta: (2, 3))
    cut = 3 + math.ceil(28 / RATE)
    for cover in concave_covers():
        distribution, unfinished = distribution_of(
            lambda draws, cover=cover: shifted_inverse.release_each(
                [cover], INVERSE_EPSILON, BETA, len(cover), draws
            )[0],
            {RATE: INVERSE_Q},
        )
        assert unfinished == 0
        assert {release.estimate: p for release, p in distribution.items()} == inverse_definition(
            cover, 2, cut
        )
        assert all(release.lower_bound == release.estimate for release in distribution)
        assert all(release.contribution_bound is None for release in distribution)


# The numbers of people.


def random_covers(n):
    rng = np.random.default_rng(n)
    for _ in range(n):
        yield np.cumsum(np.sort(rng.integers(0, 50, rng.integers(1, 12)))[::-1])


def test_removals_are_the_definition():
    values = np.array([*range(60), 64, 80, 96, 128, 10**6])
    for cover in random_covers(60):
        got = shifted_inverse._removals(cover, values).tolist()
        assert got[1:] == [gone_until_below(cover.tolist(), value) for value in values[1:]]


def test_some_value_costs_nothing_however_fast_the_count_falls():
    for cover in [*concave_covers(), (0,), (12,), (0, 0)]:
        removals = shifted_inverse._removals(np.array(cover), np.array(SCALE))
        for wanted, cut in AIMS:
            assert 0 in shifted_inverse._costs(removals, wanted, cut)


def bipartite(rng):
    """Who has what: at most six people, at most nine items, all held by somebody."""
    people = [
        frozenset(rng.choice(9, rng.integers(1, 6), replace=False).tolist()) for _ in range(6)
    ]
    return people[: rng.integers(1, 7)]


def removed_in_part(people, gone):
    """The linear program: the most items that go with so many people, in part."""
    items = sorted(set(chain.from_iterable(people)))
    pairs = [(i, u) for i, item in enumerate(items) for u, has in enumerate(people) if item in has]
    rows = np.zeros((len(pairs) + 1, len(items) + len(people)))
    for row, (i, u) in enumerate(pairs):
        rows[row, i], rows[row, len(items) + u] = 1, -1
    rows[-1, len(items) :] = 1
    worth = [-1] * len(items) + [0] * len(people)
    optimize = pytest.importorskip("scipy.optimize")
    return -optimize.linprog(worth, rows, [0] * len(pairs) + [gone], bounds=(0, 1)).fun


def test_the_number_left_is_just_below_that_of_the_linear_program():
    rng = np.random.default_rng(5)
    for _ in range(15):
        people = bipartite(rng)
        n = len(set(chain.from_iterable(people)))
        cover = [covered(tuple(people), bound) for bound in range(1, max(map(len, people)) + 1)]
        for gone in range(1, len(people) + 1):
            in_part = n - removed_in_part(people, gone)
            assert left(cover, gone) <= in_part + 1e-6
            assert in_part - 1e-6 < left(cover, gone) + gone
            stay = len(people) - gone
            whole = min(len(set(chain.from_iterable(c))) for c in combinations(people, stay))
            assert in_part <= whole + 1e-6


# The scale and the public numbers.


def test_the_scale_has_all_integers_of_twelve_digits():
    scale = shifted_inverse._scale().tolist()
    assert scale == sorted(set(scale))
    assert (scale[0], scale[-1], len(scale) - 1) == (0, 2**31, 43_008)
    digits = [f"{value:b}".rstrip("0") for value in scale]
    assert max(map(len, digits)) == 12
    short = {v for v in range(2**15) if len(f"{v:b}".rstrip("0")) <= 12}
    assert {value for value in scale if value < 2**15} == short


def test_prior_weights_are_whole_and_in_inverse_proportion_to_the_gaps():
    scale = shifted_inverse._scale()
    prior = shifted_inverse._prior(scale)
    assert np.all(prior * np.diff(scale) == 2**19)
    assert (prior.min(), prior[:4096].min()) == (1, 2**19)


def test_no_value_has_many_more_prior_weight_above_it_than_its_own():
    prior = shifted_inverse._prior(shifted_inverse._scale()).tolist()
    above, most = 0, 0
    for n in reversed(prior):
        most = max(most, Fraction(above, n))
        above += n
    assert 6142 < most < Fraction(above, prior[0]) < 6144


@pytest.mark.parametrize("beta", [Fraction(2, 5), BETA, Fraction(1, 10**30)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(100)])
def test_no_more_people_are_left_out_than_needed(epsilon, beta):
    wanted, out_of_reach = shifted_inverse.people_left_out(epsilon, beta)
    parts = ((wanted, 3 * epsilon / 4, 6144), (out_of_reach - wanted, epsilon / 4, 6144 * 2**19))
    for people, rate, prior in parts:
        log = math.log(prior / beta)
        assert people * rate >= log - 1e-6
        assert (people - 1) * rate < log


def real_distribution(cover, epsilon, beta):
    """The distribution of the values that can be released, in floating point."""
    scale = shifted_inverse._scale()
    wanted, out_of_reach = shifted_inverse.people_left_out(epsilon, beta)
    removals = shifted_inverse._removals(np.array(cover), scale)
    costs = shifted_inverse._costs(removals, wanted, out_of_reach + math.ceil(112 / epsilon))
    weights = shifted_inverse._prior(scale) * np.exp(-float(epsilon) / 4 * costs.astype(float))
    return scale[:-1], weights / weights.sum(), out_of_reach


COVERS = [[0], [1], [5000], [10**6] * 3, list(range(900, 90_900, 900)), [368, 643, 855, 1014, 1117]]


@pytest.mark.parametrize("beta", [Fraction(2, 5), BETA])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("cover", COVERS, ids=str)
def test_the_estimate_is_too_high_or_too_low_as_rarely_as_beta_says(cover, epsilon, beta):
    values, distribution, out_of_reach = real_distribution(cover, epsilon, beta)
    assert distribution[values > cover[-1]].sum() <= beta
    least = max(n - (out_of_reach - 1) * bound for bound, n in enumerate(cover, 1))
    assert distribution[values < (1 - 2**-11) * least].sum() <= beta


def test_the_bound_is_not_needlessly_low():
    values, distribution, _ = real_distribution([0], Fraction(1, 100), BETA)
    assert distribution[values > 0].sum() >= BETA * Fraction(9, 10)


def test_an_estimate_that_is_too_high_is_seldom_much_too_high():
    values, distribution, _ = real_distribution([98_733], Fraction(1), BETA)
    too_high = distribution[values > 98_733].sum()
    for doublings in range(1, 10):
        assert distribution[values > 98_733 << doublings].sum() <= too_high / 2 ** (doublings - 1)


# With the flow.


def test_a_very_large_epsilon_leaves_out_one_person():
    own = np.arange(501), np.repeat(np.arange(50), 10)
    for _ in range(5):
        release = shifted_inverse.SHIFTED_INVERSE.run(*own, Fraction(10**4), BETA, 20)
        assert 490 <= release.estimate <= 500
        assert (release.lower_bound, release.contribution_bound) == (release.estimate, None)

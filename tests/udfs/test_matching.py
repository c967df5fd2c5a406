import math
from collections import Counter
from dataclasses import fields
from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np
import pytest

from tests.udfs.choices import exact_loops
from tests.udfs.laws import NotPrivateError, check_neighbours, fits, law_of
from tests.udfs.test_normalized import defined
from udfs.count_distinct import bounded, matching
from udfs.count_distinct.bounded import CountRelease
from udfs.exact import secret_draws
from udfs.select import normalized
from udfs.select.normalized import grid_of, round_up

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
COVER = [40, 60, 70, 74, 75, 75]


class Recorder:
    """Draws that always give the first outcome and keep the rates they were asked at."""

    def __init__(self):
        self.rates = []

    def choose(self, odds):
        self.rates.append(odds.rate)
        return 0


@pytest.fixture
def choose(monkeypatch):
    """Make the choice of the bound give one bound, and keep the rates that it was asked at."""

    def always(bound):
        rates = []

        def by_weight(levels, draws):
            rates.append(levels.odds.rate)
            return bound - 1

        monkeypatch.setattr(bounded, "by_weight", by_weight)
        return rates

    return always


def covered(people, bound):
    """F(bound) by trying everything: the most items covered by at most bound from each."""
    choices = [
        [chosen for n in range(bound + 1) for chosen in combinations(sorted(items), n)]
        for items in people
    ]
    return max(len(set(chain.from_iterable(chosen))) for chosen in product(*choices))


def small_data_sets():
    """All data sets of two people over three items, as they count: unordered."""
    items = [frozenset(c) for n in range(4) for c in combinations("abc", n)]
    return [(a, b) for a, b in product(items, repeat=2) if sorted(a) <= sorted(b)], items


def test_the_flow_values_move_by_at_most_the_bound():
    data_sets, people = small_data_sets()
    for data, person, bound in product(data_sets, people, (1, 2, 3)):
        change = covered((*data, person), bound) - covered(data, bound)
        assert 0 <= change <= bound


# The whole path from flow values to the release, with exp(-epsilon/4) = 1/2 and a grid of 1.

QUARTER = Fraction(1, 2)
LOSS = QUARTER**-4
BOUNDS = (1, 2)


def release_law(cover):
    """The law of (estimate, bound); outcomes that need many draws are left out, in pairs."""
    q_of = {EPSILON / 4: QUARTER, EPSILON / 2: QUARTER**2, EPSILON: QUARTER**4}
    with exact_loops(q_of):
        law, unfinished = law_of(
            lambda draws: bounded.release(cover, EPSILON, BETA, "gem", draws), q_of, limit=9
        )
    assert unfinished < Fraction(1, 8)
    return law


def complete(law, reach=6):
    """The part of a law with estimates of at most `reach`: all their paths are short."""
    return {release: p for release, p in law.items() if abs(release.estimate) <= reach}


def given_the_bound(law):
    """The law of the estimate for each bound, up to the paths that were left out."""
    size_of = Counter()
    for release, p in law.items():
        size_of[release.contribution_bound] += p
    return {release: p / size_of[release.contribution_bound] for release, p in law.items()}


def check_release():
    data_sets, people = small_data_sets()
    cover = {data: tuple(covered(data, bound) for bound in BOUNDS) for data in data_sets}
    pairs = {
        (cover[data], tuple(covered((*data, person), bound) for bound in BOUNDS))
        for data in data_sets
        for person in people
    }
    check_neighbours(lambda values: complete(release_law(values)), pairs, LOSS)
    half, slack = QUARTER**-2, Fraction(11, 10)
    check_neighbours(
        lambda values: complete(given_the_bound(release_law(values))), pairs, half * slack
    )


@pytest.fixture
def coarse_grid(monkeypatch):
    monkeypatch.setattr(normalized, "grid_of", lambda epsilon: 1)


def test_no_neighbours_can_be_told_apart(coarse_grid):
    check_release()


def test_noise_for_the_whole_of_epsilon_is_not_private(coarse_grid, monkeypatch):
    right = bounded._noise_rate
    monkeypatch.setattr(bounded, "_noise_rate", lambda share, at: 2 * right(share, at))
    with pytest.raises(NotPrivateError):
        check_release()


def test_noise_that_forgets_the_bound_is_not_private(coarse_grid, monkeypatch):
    monkeypatch.setattr(bounded, "_noise_rate", lambda share, at: 2 * share)
    with pytest.raises(NotPrivateError):
        check_release()


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_half_of_epsilon_chooses_the_bound_and_half_is_noise(choose, bound):
    choices, draws = choose(bound), Recorder()
    release = bounded.release(COVER, EPSILON, BETA, "gem", draws)
    assert choices == [EPSILON / 2 / (2 * grid_of(EPSILON / 2))]
    assert set(draws.rates) == {EPSILON / 2 / bound}
    assert release.contribution_bound == bound
    assert release.estimate == COVER[bound - 1]


@pytest.mark.parametrize("noise", [-3, 0, 8])
def test_the_noise_is_added_to_the_flow_value(choose, monkeypatch, noise):
    choose(3)
    monkeypatch.setattr(bounded, "discrete_laplace", lambda rate, draws: noise)
    release = bounded.release(COVER, EPSILON, BETA, "gem", Recorder())
    assert release.estimate == COVER[2] + noise


@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(1, 3), Fraction(1, 10**6)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(20)])
def test_the_lower_bound_lies_the_stated_distance_below(epsilon, beta):
    draws = secret_draws()
    for _ in range(20):
        release = bounded.release(COVER, epsilon, beta, "gem", draws)
        distance = bounded.noise_bound(release.contribution_bound, epsilon, beta, "gem")
        assert release.estimate - release.lower_bound == distance >= 0


@pytest.mark.parametrize("bound", [1, 2, 30, 1000])
def test_the_noise_bound_is_the_least_one(bound):
    q = math.exp(-1 / (2 * bound))
    n = bounded.noise_bound(bound, EPSILON, BETA, "gem")
    assert q ** (n + 1) / (1 + q) <= BETA < q**n / (1 + q)


def test_the_lower_bound_fails_as_rarely_as_beta_says():
    draws = secret_draws()
    beta, n = Fraction(1, 4), 4000
    releases = [bounded.release([7], Fraction(1, 5), beta, "gem", draws) for _ in range(n)]
    failures = sum(release.lower_bound > 7 for release in releases)
    deviation = math.sqrt(n * 20 / 2)  # Hoeffding: either side fails with probability e**-20
    assert failures <= n * beta + deviation
    assert failures >= n * beta * 0.9 - deviation, "the bound is not needlessly low"


CHOSEN = (30, 52, 54)


def real_law(epsilon):
    """The law of the bound that is released, in floating point."""
    sizes = (1, 2, 3)
    cost = round_up(Fraction(2 * math.log(10)) / epsilon, 2048)
    reach = round_up(Fraction(4 * math.log(60)) / epsilon, 1024)
    utilities = [n - size * cost for n, size in zip(CHOSEN, sizes, strict=True)]
    scores = defined(utilities, sizes, reach, 1024)
    weights = [math.exp(-epsilon * score / 4096) for score in scores]
    return {size: weight / sum(weights) for size, weight in zip(sizes, weights, strict=True)}


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_bounds_chosen_with_the_right_epsilon_fit(tenths, passes):
    draws = secret_draws()
    law = real_law(Fraction(1))
    epsilon = Fraction(tenths, 10)
    chosen = (bounded.release(CHOSEN, epsilon, BETA, "gem", draws) for _ in range(6000))
    assert fits(Counter(release.contribution_bound for release in chosen), law) is passes


def test_a_release_has_three_fields():
    assert [field.name for field in fields(CountRelease)] == [
        "estimate",
        "lower_bound",
        "contribution_bound",
    ]


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert bounded.accuracy(Fraction(1), Fraction(1, 20), 100, "gem") == (
        "with probability at least 0.95 the estimate exceeds the true number of distinct items by "
        "at most 5 when the contribution bound is 1, rising to 461 when it is 100 (epsilon = 1)"
    )


# With the flow.

GRAPH = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 1, 2, 2])


def test_a_very_large_epsilon_gives_the_true_count():
    release = matching.count_distinct(*GRAPH, Fraction(10**4), BETA, 5, "gem")
    assert (release.estimate, release.lower_bound) == (4, 4)
    assert 2 <= release.contribution_bound <= 5, "one item each covers three of four"


def test_nobody_at_all_is_counted_as_nobody():
    offsets, people = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    release = matching.count_distinct(offsets, people, Fraction(10**4), BETA, 3, "gem")
    assert (release.estimate, release.lower_bound) == (0, 0)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        matching.count_distinct(*GRAPH, bad, BETA, 5, "gem")


@pytest.mark.parametrize("bad", [0.05, 1, True, "1", None])
def test_a_beta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="beta"):
        matching.count_distinct(*GRAPH, EPSILON, bad, 5, "gem")


@pytest.mark.parametrize("bad", [5.0, True, "5", None, Fraction(5)])
def test_a_largest_bound_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="max_contributions"):
        matching.count_distinct(*GRAPH, EPSILON, BETA, bad, "gem")


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        matching.count_distinct(*GRAPH, bad, BETA, 5, "gem")


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1, 2), Fraction(-1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        matching.count_distinct(*GRAPH, EPSILON, bad, 5, "gem")


@pytest.mark.parametrize("bad", [0, -1])
def test_a_largest_bound_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="max_contributions"):
        matching.count_distinct(*GRAPH, EPSILON, BETA, bad, "gem")

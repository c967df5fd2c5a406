import math
import time
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache, partial
from itertools import chain, combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.udfs.laws import NotPrivateError, check_neighbours, fits, law_of, normalized
from udfs.count_distinct import shifted_inverse
from udfs.exact import secret_draws

EPSILON = Fraction(4)
RATE = EPSILON / 4
Q = Fraction(1, 2)
"""Stands for exp(-RATE) in exact laws."""
LOSS = Q**-4
BETA = Fraction(1, 20)

SCALE = (0, 1, 2, 3, 4, 6, 8, 12, 16)
TICKETS = (4, 4, 4, 4, 2, 2, 1, 1)
"""Few values, the limit, and what they weigh before any data, so that exact laws are small."""
AIMS = [(1, 9), (2, 9), (2, 3), (3, 4)]
"""People wanted out, and the cut."""

ITEMS = [frozenset(c) for n in range(4) for c in combinations("abc", n)]
DATA_SETS = [(a, b) for a, b in product(ITEMS, repeat=2) if sorted(a) <= sorted(b)]


def covered(people, bound):
    """F(bound) by trying everything: the most items covered by at most bound from each."""
    choices = [
        [chosen for n in range(bound + 1) for chosen in combinations(sorted(items), n)]
        for items in people
    ]
    return max(len(set(chain.from_iterable(chosen))) for chosen in product(*choices))


@cache
def cover_of(people):
    return tuple(covered(people, bound) for bound in (1, 2, 3))


def concave_covers():
    """Everything that F(1), F(2), F(3) can be while F(1) <= 4."""
    for gains in product(range(5), repeat=3):
        if list(gains) == sorted(gains, reverse=True):
            yield tuple(int(n) for n in np.cumsum(gains))


def neighbours():
    """Two and three people over three items; and all that the properties of F allow for."""
    yield from {(cover_of(data), cover_of((*data, one))) for data in DATA_SETS for one in ITEMS}
    for one, other in product(concave_covers(), repeat=2):
        if all(0 <= b - a <= bound for a, b, bound in zip(one, other, (1, 2, 3), strict=True)):
            yield one, other


def left(cover, gone):
    """The least number of items that may be left when so many people go."""
    return max(0, *(n - gone * bound for bound, n in enumerate(cover, 1)))


def gone_until_below(cover, value):
    return next(j for j in range(10**6) if left(cover, j) < value) if value else math.inf


def defined_costs(cover, wanted, cut):
    until = [gone_until_below(cover, value) for value in SCALE]
    return [
        max(0, min(until[r + 1], cut) - wanted) + 3 * max(0, wanted - until[r])
        for r in range(len(SCALE) - 1)
    ]


def defined_law(cover, wanted, cut):
    costs = defined_costs(cover, wanted, cut)
    weights = (n * Q**cost for n, cost in zip(TICKETS, costs, strict=True))
    return normalized(dict(zip(SCALE[:-1], weights, strict=True)))


def shipped_law(cover, wanted, cut, scale=SCALE):
    values = np.array(scale)
    removals = shifted_inverse._removals(np.array(cover), values)
    costs = shifted_inverse._costs(removals, wanted, cut)
    tickets, rate = shifted_inverse._tickets(values), shifted_inverse._rate(EPSILON)
    law, unfinished = law_of(
        lambda draws: int(values[shifted_inverse._pick(costs, tickets, rate, draws)]),
        {RATE * i: Q**i for i in (1, 2, 4)},
    )
    assert unfinished == 0
    return law


@pytest.mark.parametrize(("wanted", "cut"), AIMS)
def test_the_law_is_the_definition_for_every_small_cover(wanted, cut):
    for cover in concave_covers():
        assert shipped_law(cover, wanted, cut) == defined_law(cover, wanted, cut)


def test_a_release_draws_from_this_law(monkeypatch):
    monkeypatch.setattr(shifted_inverse, "_scale", lambda: np.array(SCALE))
    monkeypatch.setattr(shifted_inverse, "people_left_out", lambda epsilon, beta: (2, 3))
    cut = 3 + math.ceil(28 / RATE)
    for cover in concave_covers():
        law, unfinished = law_of(
            lambda draws, cover=cover: shifted_inverse._release(
                np.array(cover), EPSILON, BETA, draws
            ),
            {RATE: Q},
        )
        assert unfinished == 0
        assert {release.estimate: p for release, p in law.items()} == defined_law(cover, 2, cut)
        assert all(release.lower_bound == release.estimate for release in law)
        assert all(release.contribution_bound is None for release in law)


def check_privacy(law=shipped_law, factor=LOSS):
    for wanted, cut in AIMS:
        check_neighbours(partial(law, wanted=wanted, cut=cut), neighbours(), factor)


def test_no_neighbours_can_be_told_apart():
    check_privacy()


def test_neighbours_that_use_most_of_epsilon_are_among_them():
    with pytest.raises(NotPrivateError):
        check_privacy(factor=Q**-3)


@pytest.mark.parametrize("times", [2, 4])
def test_weights_that_forget_that_the_sum_moves_too_are_not_private(monkeypatch, times):
    right = shifted_inverse._rate
    monkeypatch.setattr(shifted_inverse, "_rate", lambda epsilon: times * right(epsilon))
    with pytest.raises(NotPrivateError):
        check_privacy()


def test_removals_that_forget_the_bound_are_not_private(monkeypatch):
    def one_item_each(cover, values):
        return np.maximum(cover[-1] - values + 1, 0)

    monkeypatch.setattr(shifted_inverse, "_removals", one_item_each)
    with pytest.raises(NotPrivateError):
        check_privacy()


def test_removals_at_half_the_bound_are_not_private(monkeypatch):
    right = shifted_inverse._removals

    def twice_as_many(cover, values):
        return 2 * right(cover, values)

    monkeypatch.setattr(shifted_inverse, "_removals", twice_as_many)
    with pytest.raises(NotPrivateError):
        check_privacy()


def test_a_scale_that_ends_at_the_count_is_not_private():
    def law(cover, wanted, cut):
        return shipped_law(cover, wanted, cut, (*range(cover[-1] + 1), 16))

    with pytest.raises(NotPrivateError):
        check_privacy(law)


def test_people_wanted_out_in_proportion_to_data_are_not_private():
    with pytest.raises(NotPrivateError):
        check_privacy(lambda cover, wanted, cut: shipped_law(cover, cover[-1], cut))


def test_a_steeper_side_that_is_not_paid_for_is_not_private(monkeypatch):
    monkeypatch.setattr(shifted_inverse, "_ABOVE", 7)
    monkeypatch.setattr(shifted_inverse, "_rate", lambda epsilon: RATE)
    with pytest.raises(NotPrivateError):
        check_privacy()


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
    return -linprog(worth, rows, [0] * len(pairs) + [gone], bounds=(0, 1)).fun


def test_the_number_left_is_just_below_that_of_the_linear_program():
    rng = np.random.default_rng(5)
    for _ in range(15):
        people = bipartite(rng)
        n = len(set(chain.from_iterable(people)))
        cover = [covered(people, bound) for bound in range(1, max(map(len, people)) + 1)]
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


def test_tickets_are_whole_and_in_inverse_proportion_to_the_gaps():
    scale = shifted_inverse._scale()
    tickets = shifted_inverse._tickets(scale)
    assert np.all(tickets * np.diff(scale) == 2**19)
    assert (tickets.min(), tickets[:4096].min()) == (1, 2**19)


def test_no_value_has_many_more_tickets_above_it_than_its_own():
    tickets = shifted_inverse._tickets(shifted_inverse._scale()).tolist()
    above, most = 0, 0
    for n in reversed(tickets):
        most = max(most, Fraction(above, n))
        above += n
    assert 6142 < most < Fraction(above, tickets[0]) < 6144


@pytest.mark.parametrize("beta", [Fraction(2, 5), BETA, Fraction(1, 10**30)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(100)])
def test_no_more_people_are_left_out_than_needed(epsilon, beta):
    wanted, reach = shifted_inverse.people_left_out(epsilon, beta)
    parts = ((wanted, 3 * epsilon / 4, 6144), (reach - wanted, epsilon / 4, 6144 * 2**19))
    for people, rate, tickets in parts:
        log = math.log(tickets / beta)
        assert people * rate >= log - 1e-6
        assert (people - 1) * rate < log


def real_law(cover, epsilon, beta):
    """The law of the values that can be released, in floating point."""
    scale = shifted_inverse._scale()
    wanted, reach = shifted_inverse.people_left_out(epsilon, beta)
    removals = shifted_inverse._removals(np.array(cover), scale)
    costs = shifted_inverse._costs(removals, wanted, reach + math.ceil(112 / epsilon))
    weights = shifted_inverse._tickets(scale) * np.exp(-float(epsilon) / 4 * costs.astype(float))
    return scale[:-1], weights / weights.sum(), reach


COVERS = [[0], [1], [5000], [10**6] * 3, list(range(900, 90_900, 900)), [368, 643, 855, 1014, 1117]]


@pytest.mark.parametrize("beta", [Fraction(2, 5), BETA])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("cover", COVERS, ids=str)
def test_the_estimate_is_too_high_or_too_low_as_rarely_as_beta_says(cover, epsilon, beta):
    values, law, reach = real_law(cover, epsilon, beta)
    assert law[values > cover[-1]].sum() <= beta
    least = max(n - (reach - 1) * bound for bound, n in enumerate(cover, 1))
    assert law[values < (1 - 2**-11) * least].sum() <= beta


def test_the_bound_is_not_needlessly_low():
    values, law, _ = real_law([0], Fraction(1, 100), BETA)
    assert law[values > 0].sum() >= BETA * Fraction(9, 10)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_draws_at_the_right_rate_fit(tenths, passes):
    values = np.array([*range(1000), *range(1000, 1100, 2)])
    removals = shifted_inverse._removals(np.array([368, 643, 855, 1014]), values)
    costs, tickets = shifted_inverse._costs(removals, 19, 90), shifted_inverse._tickets(values)
    law = defaultdict(float)
    for cost, n in zip(costs.tolist(), tickets.tolist(), strict=True):
        law[cost] += n * math.exp(-cost / 4)
    total, draws = sum(law.values()), secret_draws()
    rate = shifted_inverse._rate(Fraction(tenths, 10))
    places = (shifted_inverse._pick(costs, tickets, rate, draws) for _ in range(5000))
    drawn = Counter(int(costs[place]) for place in places)
    assert fits(drawn, {cost: weight / total for cost, weight in law.items()}) is passes


def test_an_estimate_that_is_too_high_is_seldom_much_too_high():
    values, law, _ = real_law([98_733], Fraction(1), BETA)
    too_high = law[values > 98_733].sum()
    for doublings in range(1, 10):
        assert law[values > 98_733 << doublings].sum() <= too_high / 2 ** (doublings - 1)


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert shifted_inverse.accuracy(Fraction(1), BETA, 100) == (
        "with probability at least 0.95 the estimate is at most the true number of distinct items; "
        "with at least the same probability it is at most 115 times l below it, and one part in "
        "2048, if nobody has more than l items, for each l up to 100 (epsilon = 1)"
    )


def test_the_loss_is_that_of_one_exponential_mechanism():
    loss = shifted_inverse.loss(Fraction(1, 3), BETA, 100)
    assert (loss.epsilon, loss.delta, loss.rho) == (Fraction(1, 3), 0, Fraction(1, 72))


# With the flow.

GRAPH = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 1, 2, 2])


def test_a_very_large_epsilon_leaves_out_one_person():
    own = np.arange(501), np.repeat(np.arange(50), 10)
    for _ in range(5):
        release = shifted_inverse.count_distinct(*own, Fraction(10**4), BETA, 20)
        assert 490 <= release.estimate <= 500
        assert (release.lower_bound, release.contribution_bound) == (release.estimate, None)


def test_nobody_at_all_is_counted_as_nobody():
    offsets, people = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    release = shifted_inverse.count_distinct(offsets, people, Fraction(10**4), BETA, 3)
    assert (release.estimate, release.lower_bound) == (0, 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1, 100), Fraction(10**9)])
def test_large_inputs_are_quick(epsilon):
    rng = np.random.default_rng(0)
    items = np.sort(rng.zipf(1.3, 10**6) % 50_000)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=50_000))])
    people = rng.integers(0, 20_000, 10**6)
    shifted_inverse.count_distinct(*GRAPH, Fraction(1), BETA, 3)  # compile
    start = time.perf_counter()
    release = shifted_inverse.count_distinct(offsets, people, epsilon, Fraction(1, 10**9), 1000)
    assert time.perf_counter() - start < 2
    assert 0 <= release.estimate == release.lower_bound < 2**31
    assert type(release.estimate) is int


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        shifted_inverse.count_distinct(*GRAPH, bad, BETA, 5)


@pytest.mark.parametrize("bad", [0.05, 1, True, "1", None])
def test_a_beta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="beta"):
        shifted_inverse.count_distinct(*GRAPH, EPSILON, bad, 5)


@pytest.mark.parametrize("bad", [5.0, True, "5", None, Fraction(5)])
def test_a_largest_bound_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="max_contributions"):
        shifted_inverse.count_distinct(*GRAPH, EPSILON, BETA, bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        shifted_inverse.count_distinct(*GRAPH, bad, BETA, 5)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1, 2), Fraction(-1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        shifted_inverse.count_distinct(*GRAPH, EPSILON, bad, 5)


@pytest.mark.parametrize("bad", [0, -1])
def test_a_largest_bound_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="max_contributions"):
        shifted_inverse.count_distinct(*GRAPH, EPSILON, BETA, bad)

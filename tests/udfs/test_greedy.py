"""The greedy cover: every F(l) moves by at most l, in an order that nobody else can move."""

import time
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.udfs.laws import NotPrivateError, check_neighbours, law_of
from udfs.count_distinct import bounded, flow, greedy

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
BOUNDS = 5


def covered(runs, max_bound=BOUNDS):
    """The shipped counts, from the people of item 0, of item 1, ..."""
    offsets = np.cumsum([0, *map(len, runs)])
    people = np.array(list(chain.from_iterable(runs)), dtype=np.int64)
    return greedy.cover_counts(offsets, people, max_bound)


def by_value(data):
    """What a caller makes of a data set: codes ascending in value, of what is there."""
    values = sorted(set(chain.from_iterable(data)))
    return [[person for person, held in enumerate(data) if v in held] for v in values]


def by_first_appearance(data):
    """Wrong: items are coded in the order in which the rows name them."""
    values = dict.fromkeys(chain.from_iterable(data))
    return [[person for person, held in enumerate(data) if v in held] for v in values]


def by_rarity(data):
    """Wrong: rare items first, which covers more."""
    return sorted(by_value(data), key=len)


def algorithm_2(data, max_bound=BOUNDS):
    """The paper's rounds, read slowly, on values."""
    taken, counts = set(), []
    for _ in range(max_bound):
        for held in data:
            left = sorted(set(held) - taken)
            taken.update(left[:1])
        counts.append(len(taken))
    return counts


SUBSETS = [chosen for n in range(5) for chosen in combinations("abcd", n)]
ROWS = [chosen for n in range(4) for chosen in permutations("abc", n)]
"""All that a person may hold: as sets, and as rows in some order."""


def without_one(data):
    return [data[:j] + data[j + 1 :] for j in range(len(data))]


class TooFarError(AssertionError):
    """One person has moved a count by more than its bound."""


def check_sensitivity(numbering, holdings, n_people=3):
    counts = cache(lambda data: covered(numbering(data)))
    for data in product(holdings, repeat=n_people):
        for smaller in without_one(data):
            moves = [n - less for n, less in zip(counts(data), counts(smaller), strict=True)]
            if not all(0 <= move <= bound for bound, move in enumerate(moves, start=1)):
                raise TooFarError(f"{data} against {smaller}: {moves}")


def test_the_counts_are_those_of_algorithm_2_on_all_small_data_sets():
    for data in product(SUBSETS, repeat=3):
        assert covered(by_value(data)) == algorithm_2(data)


def test_one_person_moves_no_count_by_more_than_its_bound():
    check_sensitivity(by_value, SUBSETS)


def test_the_order_of_a_persons_rows_does_not_matter():
    check_sensitivity(by_value, ROWS)


def test_an_order_that_others_can_move_breaks_the_bound():
    with pytest.raises(TooFarError):
        check_sensitivity(by_first_appearance, ROWS)


@pytest.mark.parametrize(
    ("wrong", "data", "leaver"),
    [(by_first_appearance, ("ab", "cb", "c"), 0), (by_rarity, ("ab", "a", "ac", "bd"), 2)],
)
def test_the_examples_of_the_note_move_the_first_count_by_two(wrong, data, leaver):
    smaller = data[:leaver] + data[leaver + 1 :]
    assert covered(wrong(data))[0] - covered(wrong(smaller))[0] == 2
    assert covered(by_value(data))[0] - covered(by_value(smaller))[0] == 1


def test_one_person_may_move_every_count_by_its_whole_bound():
    assert np.subtract(covered([[0]] * 4, 4), covered([], 4)).tolist() == [1, 2, 3, 4]


# Larger data, as runs of people per item; the codes have gaps once a person has left.

runs = st.lists(st.lists(st.sampled_from((*range(9), 14, 30)), max_size=6), max_size=25)


def holdings_of(people_of_items):
    held = {}
    for item, people in enumerate(people_of_items):
        for person in people:
            held.setdefault(person, []).append(item)
    return [held[person] for person in sorted(held)]


@given(runs=runs)
@settings(max_examples=200, deadline=None)
def test_larger_counts_are_those_of_algorithm_2(runs):
    assert covered(runs, 12) == algorithm_2(holdings_of(runs), 12)


@given(runs=runs, leaver=st.sampled_from((*range(9), 14, 30)))
@settings(max_examples=200, deadline=None)
def test_whoever_leaves_moves_larger_counts_by_at_most_the_bound(runs, leaver):
    rest = [[person for person in run if person != leaver] for run in runs]
    moves = np.subtract(covered(runs, 12), covered(rest, 12)).tolist()
    assert all(0 <= move <= bound for bound, move in enumerate(moves, start=1))


@given(runs=runs)
@settings(max_examples=200, deadline=None)
def test_the_cover_is_at_least_half_the_largest_and_never_falls(runs):
    counts = covered(runs, 12)
    offsets = np.cumsum([0, *map(len, runs)])
    graph = flow.build_graph(offsets, np.array([p for run in runs for p in run], dtype=np.int32))
    largest = flow.max_cover_counts(graph, 12).tolist()
    assert all(n <= most <= 2 * n for n, most in zip(counts, largest, strict=True))
    assert counts == sorted(counts)


@given(runs=runs)
@settings(max_examples=100, deadline=None)
def test_bounds_large_enough_cover_everything_that_somebody_holds(runs):
    assert covered(runs, 25)[-1] == sum(1 for run in runs if run)


@given(runs=runs, data=st.data())
@settings(max_examples=100, deadline=None)
def test_only_the_order_of_codes_matters(runs, data):
    codes = sorted(data.draw(st.lists(st.integers(0, 500), min_size=31, max_size=31, unique=True)))
    spread = [[codes[person] for person in run] for run in runs]
    at = data.draw(st.lists(st.integers(0, len(runs)), max_size=4))
    for place in sorted(at, reverse=True):
        spread.insert(place, [])
    assert covered(spread, 8) == covered(runs, 8)


@given(runs=runs, data=st.data())
@settings(max_examples=100, deadline=None)
def test_neither_repetitions_nor_the_order_inside_a_run_matter(runs, data):
    shuffled = [data.draw(st.permutations([*run, *run])) for run in runs]
    assert covered(shuffled, 8) == covered(runs, 8)


def test_the_codes_of_people_decide_who_is_first():
    assert covered([[0, 1], [0]], 1) == [1], "0 takes the item that 1 has as well"
    assert covered([[1, 0], [1]], 1) == [2]


def test_half_a_million_edges_are_quick():
    rng = np.random.default_rng()
    sizes = rng.multinomial(500_000, np.full(10_000, 1e-4))
    offsets, people = np.cumsum([0, *sizes]), rng.integers(0, 5_000, 500_000)
    greedy.cover_counts(offsets[:2], people[: sizes[0]], 1)  # compiles
    start = time.perf_counter()
    counts = greedy.cover_counts(offsets, people, 100)
    assert time.perf_counter() - start < 0.5, "a hundred times what it takes, for slow machines"
    assert counts[0] <= 5_000
    assert counts[-1] == np.count_nonzero(sizes)


# The release under a given bound, where exp(-epsilon / bound) is 1/2. What a chosen bound needs
# beyond that is check_sensitivity: bounds of all counts at once.

HALF = Fraction(1, 2)


def release_law(cover, bound, reach=6):
    """The law of releases with small estimates: all their paths are short."""
    law, unfinished = law_of(
        lambda draws: bounded.release(cover, EPSILON, BETA, bound, draws),
        {EPSILON / bound: HALF},
        limit=14,
    )
    assert unfinished < Fraction(1, 100)
    return {release: p for release, p in law.items() if abs(release.estimate) <= reach}


def check_release(count, bound):
    counts = cache(lambda data: tuple(count(data)))
    pairs = {
        (counts(data), counts(smaller))
        for data in product(ROWS, repeat=3)
        for smaller in without_one(data)
    }
    check_neighbours(lambda cover: release_law(cover, bound), pairs, HALF**-bound)


@pytest.mark.parametrize("bound", [1, 2])
def test_no_neighbours_can_be_told_apart(bound):
    check_release(lambda data: covered(by_value(data), bound), bound)


def test_an_order_that_others_can_move_is_not_private():
    with pytest.raises(NotPrivateError):
        check_release(lambda data: covered(by_first_appearance(data), 1), 1)


def test_a_count_under_two_with_noise_for_one_is_not_private():
    with pytest.raises(NotPrivateError):
        check_release(lambda data: covered(by_value(data), 2)[1:], 1)


class Recorder:
    """Draws that always give the first outcome that adds nothing, and keep the rates."""

    def __init__(self):
        self.rates = []

    def choose(self, odds):
        self.rates.append(odds.rate)
        return 0


GRAPH = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 1, 2, 2])


@pytest.mark.parametrize(("bound", "n_bounds"), [("gem", 7), (3, 3), (9, 9)])
def test_the_release_is_made_of_the_cover_and_the_public_numbers(monkeypatch, bound, n_bounds):
    seen = []
    monkeypatch.setattr(bounded, "release", lambda *given: seen.append(given) or "released")
    assert greedy.count_distinct(*GRAPH, EPSILON, BETA, 7, bound) == "released"
    ((cover, *public, draws),) = seen
    assert cover == greedy.cover_counts(*GRAPH, n_bounds)
    assert len(cover) == n_bounds
    assert all(type(n) is int for n in cover)
    assert public == [EPSILON, BETA, bound]
    assert callable(draws.choose)


def test_the_noise_is_that_of_the_given_bound(monkeypatch):
    draws = Recorder()
    monkeypatch.setattr(greedy, "secret_draws", lambda: draws)
    release = greedy.count_distinct(*GRAPH, EPSILON, BETA, 7, 2)
    assert set(draws.rates) == {EPSILON / 2}
    assert release.estimate == greedy.cover_counts(*GRAPH, 2)[1]


def test_a_very_large_epsilon_gives_the_true_count():
    release = greedy.count_distinct(*GRAPH, Fraction(10**4), BETA, 5, "gem")
    assert (release.estimate, release.lower_bound) == (4, 4)


def test_nobody_at_all_is_counted_as_nobody():
    offsets, people = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    release = greedy.count_distinct(offsets, people, Fraction(10**4), BETA, 3, "gem")
    assert (release.estimate, release.lower_bound) == (0, 0)


def test_different_calls_draw_different_noise():
    released = (greedy.count_distinct(*GRAPH, Fraction(1, 10), BETA, 5, 1) for _ in range(40))
    assert len(Counter(release.estimate for release in released)) > 2


def test_the_udf_asks_for_an_order():
    assert greedy.UDF.ordered
    assert greedy.UDF.name == "greedy"
    assert greedy.UDF.loss is bounded.loss
    assert greedy.UDF.accuracy is bounded.accuracy


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        greedy.count_distinct(*GRAPH, bad, BETA, 5, "gem")


@pytest.mark.parametrize("bad", [0.05, 1, True, "1", None])
def test_a_beta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="beta"):
        greedy.count_distinct(*GRAPH, EPSILON, bad, 5, "gem")


@pytest.mark.parametrize("bad", [5.0, True, "5", None, Fraction(5)])
def test_a_largest_bound_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="max_contributions"):
        greedy.count_distinct(*GRAPH, EPSILON, BETA, bad, "gem")


@pytest.mark.parametrize("bad", [0, -3, "most"])
def test_a_bound_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="bound"):
        greedy.count_distinct(*GRAPH, EPSILON, BETA, 5, bad)


@pytest.mark.parametrize(
    ("offsets", "people", "words"),
    [([0, 1], [-1], "at least 0"), ([0, 2], [1], "end at the number"), ([0, 1], [0.0], "integers")],
)
def test_input_that_is_no_graph_is_refused(offsets, people, words):
    with pytest.raises(ValueError, match=words):
        greedy.count_distinct(np.array(offsets), np.array(people), EPSILON, BETA, 5, "gem")

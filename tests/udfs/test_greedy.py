"""The greedy cover: every F(l) moves by at most l, in an order that nobody else can move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.udfs.count_distinct import bounded, flow, greedy, template
from dp_sql.udfs.count_distinct.graph import build_graph
from tests.udfs.cases_bounded import (
    BETA,
    EPSILON,
    GRAPH,
    Recorder,
    algorithm_2,
    by_first_appearance,
    in_turns,
    runs_by_value,
)


def by_rarity(data):
    """Wrong: rare items first, which covers more."""
    return sorted(runs_by_value(data), key=len)


@pytest.mark.parametrize(
    ("wrong", "data", "leaver"),
    [(by_first_appearance, ("ab", "cb", "c"), 0), (by_rarity, ("ab", "a", "ac", "bd"), 2)],
)
def test_the_examples_of_the_note_move_the_first_count_by_two(wrong, data, leaver):
    smaller = data[:leaver] + data[leaver + 1 :]
    assert in_turns(wrong(data))[0] - in_turns(wrong(smaller))[0] == 2
    assert in_turns(runs_by_value(data))[0] - in_turns(runs_by_value(smaller))[0] == 1


def test_one_person_may_move_every_count_by_its_whole_bound():
    assert np.subtract(in_turns([[0]] * 4, 4), in_turns([], 4)).tolist() == [1, 2, 3, 4]


# Larger data, as runs of people per item; the codes have gaps once a person has left.

runs = st.lists(st.lists(st.sampled_from((*range(9), 14, 30)), max_size=6), max_size=25)


def holdings_of(people_of_items):
    held = {}
    for item, people in enumerate(people_of_items):
        for person in people:
            held.setdefault(person, []).append(item)
    return [held[person] for person in sorted(held)]


@given(runs=runs)
def test_larger_counts_are_those_of_algorithm_2(runs):
    assert in_turns(runs, 12) == algorithm_2(holdings_of(runs), 12)


@given(runs=runs, leaver=st.sampled_from((*range(9), 14, 30)))
def test_a_person_who_leaves_moves_larger_counts_by_at_most_the_bound(runs, leaver):
    rest = [[person for person in run if person != leaver] for run in runs]
    moves = np.subtract(in_turns(runs, 12), in_turns(rest, 12)).tolist()
    assert all(0 <= move <= bound for bound, move in enumerate(moves, start=1))


@given(runs=runs)
def test_the_cover_is_at_least_half_the_largest_and_never_falls(runs):
    counts = in_turns(runs, 12)
    offsets = np.cumsum([0, *map(len, runs)])
    graph = build_graph(offsets, np.array([p for run in runs for p in run], dtype=np.int32))
    largest = flow.max_cover_counts(graph, range(1, 13)).tolist()
    assert all(n <= most <= 2 * n for n, most in zip(counts, largest, strict=True))
    assert counts == sorted(counts)


@given(runs=runs)
def test_bounds_large_enough_cover_everything_that_somebody_holds(runs):
    assert in_turns(runs, 25)[-1] == sum(1 for run in runs if run)


@given(runs=runs, data=st.data())
def test_only_the_order_of_codes_matters(runs, data):
    codes = sorted(data.draw(st.lists(st.integers(0, 500), min_size=31, max_size=31, unique=True)))
    spread = [[codes[person] for person in run] for run in runs]
    at = data.draw(st.lists(st.integers(0, len(runs)), max_size=4))
    for place in sorted(at, reverse=True):
        spread.insert(place, [])
    assert in_turns(spread, 8) == in_turns(runs, 8)


@given(runs=runs, data=st.data())
def test_neither_repetitions_nor_the_order_inside_a_run_matter(runs, data):
    shuffled = [data.draw(st.permutations([*run, *run])) for run in runs]
    assert in_turns(shuffled, 8) == in_turns(runs, 8)


def test_the_codes_of_people_decide_who_is_first():
    assert in_turns([[0, 1], [0]], 1) == [1], "0 takes the item that 1 has as well"
    assert in_turns([[1, 0], [1]], 1) == [2]


# The release under a given bound, where exp(-epsilon / bound) is 1/2. What a chosen bound needs
# beyond that is check_sensitivity: bounds of all counts at once.


@pytest.mark.parametrize(("bound", "tried"), [("gem", range(1, 8)), (3, [3])])
def test_the_release_is_made_of_the_cover_and_the_public_numbers(monkeypatch, bound, tried):
    seen = []
    monkeypatch.setattr(bounded, "release_each", lambda *given: seen.append(given) or ["released"])
    assert greedy.GREEDY.run(*GRAPH, EPSILON, BETA, 7, bound) == "released"
    (((cover,), *public, draws, bounds),) = seen
    assert cover == greedy.cover_counts(*GRAPH, tried)
    assert bounds == tried
    assert all(type(n) is int for n in cover)
    assert public == [EPSILON, BETA, bound]
    assert callable(draws.choose)


def test_the_noise_is_that_of_the_given_bound(monkeypatch):
    draws = Recorder()
    monkeypatch.setattr(template, "secret_draws", lambda: draws)
    release = greedy.GREEDY.run(*GRAPH, EPSILON, BETA, 7, 2)
    assert set(draws.rates) == {EPSILON / 2}
    assert release.estimate == greedy.cover_counts(*GRAPH, [2])[0]

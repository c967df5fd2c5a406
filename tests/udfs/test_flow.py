"""The most items that people can cover, l each: every answer comes with a proof of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.udfs.count_distinct import flow
from tests.udfs.covers import (
    Runs,
    by_greed,
    by_scipy,
    by_trying_everything,
    check_certificate,
    check_every_bound,
    counts_of,
    graph_of,
    graphs,
    read_budgets,
    reading,
    small,
    tiny,
)


@pytest.mark.parametrize("examples", [80, pytest.param(500, marks=pytest.mark.slow)])
def test_every_bound_comes_with_a_cover_and_a_cut_of_the_same_size(examples: int) -> None:
    @given(runs=graphs, times=read_budgets)
    @settings(max_examples=examples, deadline=None)
    def check(runs: Runs, times: int) -> None:
        with reading(times):
            check_every_bound(runs, 12)

    check()


@given(runs=graphs, times=read_budgets)
def test_the_counts_are_the_sizes_of_the_covers(runs: Runs, times: int) -> None:
    with reading(times):
        sizes = [count for _, count, _ in flow.covers(graph_of(runs), range(1, 13))]
        assert counts_of(runs, 12) == sizes


@given(runs=graphs, times=read_budgets, bounds=st.sets(st.integers(1, 14), min_size=1))
def test_a_bound_has_the_same_count_whatever_others_are_asked(
    runs: Runs, times: int, bounds: set[int]
) -> None:
    every = counts_of(runs, 14)
    with reading(times):
        for bound, count, cover in flow.covers(graph_of(runs), sorted(bounds)):
            check_certificate(runs, bound, count, cover.tolist())
            assert count == every[bound - 1]


@given(runs=tiny, times=read_budgets)
def test_trying_everything_finds_no_other_count(runs: Runs, times: int) -> None:
    with reading(times):
        assert counts_of(runs, 4) == [by_trying_everything(runs, bound) for bound in range(1, 5)]


@given(runs=graphs, times=read_budgets)
def test_scipy_finds_no_other_count(runs: Runs, times: int) -> None:
    with reading(times):
        assert counts_of(runs, 5) == [by_scipy(runs, bound) for bound in range(1, 6)]


@given(runs=graphs, data=st.data())
def test_one_person_moves_the_count_by_at_most_the_bound(runs: Runs, data: st.DataObject) -> None:
    leaver = data.draw(st.sampled_from([*range(7), 9, 10, 14]))
    without = [[person for person in run if person != leaver] for run in runs]
    moves = np.subtract(counts_of(runs, 12), counts_of(without, 12))
    assert all(0 <= move <= bound for bound, move in enumerate(moves.tolist(), start=1))


@given(runs=graphs)
def test_the_count_never_falls_and_its_steps_never_grow(runs: Runs) -> None:
    steps = np.diff([0, *counts_of(runs, 12)])
    assert np.all(steps >= 0)
    assert np.all(np.diff(steps) <= 0)


@given(runs=graphs)
def test_with_bounds_large_enough_everything_that_has_people_is_covered(runs: Runs) -> None:
    assert counts_of(runs, 60)[-1] == sum(1 for run in runs if run)


@given(runs=graphs, data=st.data())
def test_the_order_of_items_does_not_matter(runs: Runs, data: st.DataObject) -> None:
    assert counts_of(data.draw(st.permutations(runs)), 8) == counts_of(runs, 8)


@given(runs=graphs, data=st.data())
def test_the_order_inside_a_run_does_not_matter(runs: Runs, data: st.DataObject) -> None:
    shuffled = [data.draw(st.permutations(run)) for run in runs]
    assert counts_of(shuffled, 8) == counts_of(runs, 8)


@given(runs=graphs, codes=st.permutations(range(20)))
def test_the_codes_of_people_do_not_matter(runs: Runs, codes: list[int]) -> None:
    assert counts_of([[codes[p] for p in run] for run in runs], 8) == counts_of(runs, 8)


@given(runs=graphs, times=read_budgets)
def test_repetitions_inside_a_run_do_not_matter(runs: Runs, times: int) -> None:
    with reading(times):
        once = [list(dict.fromkeys(run)) for run in runs]
        assert counts_of([[*run, *run] for run in runs], 8) == counts_of(once, 8)


# The checker itself: what it must turn down.

THREE_ITEMS: Runs = [[0], [0, 1], [0, 1]]  # at bound 1 two can be covered


def test_the_checker_accepts_a_largest_cover() -> None:
    check_certificate(THREE_ITEMS, 1, 2, [0, 1, -1])


@pytest.mark.pure
@pytest.mark.parametrize(
    ("count", "cover", "words"),
    [
        (2, [1, 0, -1], "what they do not have"),
        (3, [0, 1, 1], "too much"),
        (3, [0, 1, -1], "not the size"),
        (1, [0, -1, -1], "may cover more"),
        (1, [-1, 0, -1], "may cover more"),
        (0, [-1, -1, -1], "may cover more"),
    ],
)
def test_the_checker_rejects_wrong_covers(count: int, cover: list[int], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_certificate(THREE_ITEMS, 1, count, cover)


@pytest.mark.pure
def test_the_checker_rejects_a_cover_that_only_a_longer_path_improves() -> None:
    runs = [[0, 1], [0, 2], [0]]
    assert by_greed(runs, 1) == [0, 2, -1]
    with pytest.raises(AssertionError, match="may cover more"):
        check_certificate(runs, 1, 2, by_greed(runs, 1))


@pytest.mark.pure
@given(runs=small, data=st.data())
def test_the_checker_rejects_a_flow_that_is_one_short(runs: Runs, data: st.DataObject) -> None:
    *_, (bound, count, cover) = flow.covers(graph_of(runs), range(1, data.draw(st.integers(2, 5))))
    covered = np.flatnonzero(cover >= 0)
    if covered.size > 0:
        short = cover.copy()
        short[data.draw(st.sampled_from(covered.tolist()))] = -1
        with pytest.raises(AssertionError, match="may cover more"):
            check_certificate(runs, bound, count - 1, short.tolist())

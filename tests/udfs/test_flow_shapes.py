"""Covers of graphs with a shape, and the ends of the input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.udfs.count_distinct import flow
from dp_sql.udfs.count_distinct.graph import build_graph
from tests.udfs.covers import (
    READS,
    Runs,
    by_scipy,
    check_certificate,
    check_every_bound,
    counts_of,
    graph_of,
    reading,
)


def chain(length: int) -> Runs:
    """Person k has the items k and k + 1; one wrong choice at one end shows at the other."""
    return [[0], *([k, k - 1] for k in range(1, length)), [length - 1]]


def comb(teeth: int, people: int) -> Runs:
    """Items with two people each, joined in rings of different lengths, and one spare item each."""
    runs: list[list[int]] = []
    first = 0
    for k in range(teeth):
        size = 2 + k % people
        runs += [[first + j, first + (j + 1) % size] for j in range(size)]
        runs.append([first])
        first += size
    return runs


def pairs(people: int, most: int, rng: np.random.Generator) -> Runs:
    """People with 1..most items each, every item shared by two: a hard core at every bound."""
    person = np.repeat(np.arange(people), rng.integers(1, most + 1, people))
    return grouped(rng.permutation(person.size) // 2, person)


def power_law(edges: int, items: int, people: int, rng: np.random.Generator) -> Runs:
    item = np.minimum(rng.zipf(1.4, edges) - 1, items - 1)
    person = np.minimum(rng.zipf(1.3, edges) - 1, people - 1)
    return grouped(item, person)


def uniform(edges: int, items: int, people: int, rng: np.random.Generator) -> Runs:
    return grouped(rng.integers(0, items, edges), rng.integers(0, people, edges))


def grouped(item: np.ndarray[Any, Any], person: np.ndarray[Any, Any]) -> Runs:
    runs: list[list[int]] = [[] for _ in range(int(item.max()) + 1)]
    for i, p in zip(item.tolist(), person.tolist(), strict=True):
        runs[i].append(p)
    return runs


SHAPES: dict[str, Callable[[], Runs]] = {
    "power law": lambda: power_law(10_000, 5_000, 2_000, np.random.default_rng(1)),
    "few people": lambda: uniform(10_000, 4_000, 150, np.random.default_rng(2)),
    "as many people as items": lambda: uniform(10_000, 3_000, 3_000, np.random.default_rng(3)),
    "sparse": lambda: uniform(10_000, 5_000, 2_500, np.random.default_rng(4)),
    "pairs": lambda: pairs(800, 25, np.random.default_rng(5)),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("times", [-2, -1, 2, 10**6])
@pytest.mark.parametrize("shape", SHAPES)
def test_large_graphs_have_certificates_at_every_bound(shape: str, times: int) -> None:
    with reading(times):
        check_every_bound(SHAPES[shape](), 25)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES)
def test_scipy_agrees_on_large_graphs(shape: str) -> None:
    runs = SHAPES[shape]()
    counts = counts_of(runs, 30)
    assert [counts[bound - 1] for bound in (1, 2, 30)] == [by_scipy(runs, b) for b in (1, 2, 30)]


@given(
    seed=st.integers(0, 2**32), people=st.integers(1, 300), most=st.integers(1, 30),
    times=st.integers(0, 40),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_both_searches_agree_wherever_one_takes_over(
    seed: int, people: int, most: int, times: int
) -> None:
    runs = pairs(people, most, np.random.default_rng(seed))
    with reading(10**6):
        from_items = counts_of(runs, 32)
    with reading(-1):
        assert counts_of(runs, 32) == from_items
    with reading(times):
        assert counts_of(runs, 32) == from_items


def test_a_path_from_an_item_may_pass_through_everybody() -> None:
    # Longer runs are served later: item k goes to person k, and the last item finds 0 taken.
    runs = [[k] * (k + 1) + [k + 1] for k in range(100)] + [[0] * 102]
    with reading(10**6):
        assert check_every_bound(runs, 1) == [101]


def test_a_path_from_a_person_may_pass_through_everybody() -> None:
    # Items with longer runs are taken later: person k takes item k, and the last finds 0 taken.
    holders = [[0, 100], [0, 1, 100], *([k - 1, k] for k in range(2, 100)), [99, 99]]
    runs = [run * (k + 1) for k, run in enumerate(holders)]
    with reading(-1):
        assert check_every_bound(runs, 1) == [101]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("times", READS)
def test_a_long_chain_is_covered_except_for_one_item(times: int) -> None:
    with reading(times):
        assert check_every_bound(chain(20_000), 2) == [20_000, 20_001]


@pytest.mark.parametrize("times", READS)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_whose_runs_name_the_wrong_person_first_is_covered(
    times: int, backwards: bool
) -> None:
    runs = [[k, k + 1] for k in range(3_000)]
    runs.append([0])
    if backwards:
        runs = [[3_000 - person for person in run] for run in reversed(runs)]
    with reading(times):
        assert check_every_bound(runs, 1) == [3_001]


@pytest.mark.parametrize("times", READS)
def test_rings_with_a_spare_item_leave_it_over_at_bound_one(times: int) -> None:
    runs = comb(teeth=60, people=30)
    with reading(times):
        assert check_every_bound(runs, 2) == [len(runs) - 60, len(runs)]


@pytest.mark.parametrize("times", READS)
def test_one_person_covers_as_many_items_as_the_bound_allows(times: int) -> None:
    with reading(times):
        assert counts_of([[0]] * 7, 10) == [1, 2, 3, 4, 5, 6, 7, 7, 7, 7]


@pytest.mark.parametrize("times", READS)
def test_one_item_is_covered_once_however_many_people_have_it(times: int) -> None:
    with reading(times):
        assert counts_of([list(range(500))], 3) == [1, 1, 1]


@pytest.mark.parametrize("times", READS)
def test_where_everybody_has_everything_each_covers_as_much_as_the_bound(times: int) -> None:
    with reading(times):
        assert check_every_bound([list(range(30))] * 100, 5) == [30, 60, 90, 100, 100]


@pytest.mark.parametrize("times", READS)
def test_items_that_no_one_shares_are_covered_up_to_the_bound(times: int) -> None:
    runs = [[person] for person in range(40) for _ in range(person)]
    with reading(times):
        counts = check_every_bound(runs, 45)
    assert counts == [sum(min(person, bound) for person in range(40)) for bound in range(1, 46)]


# The ends of the input.


@pytest.mark.parametrize("runs", [[], [[]], [[], [], []]])
def test_without_people_nothing_is_covered(runs: Runs) -> None:
    assert check_every_bound(runs, 3) == [0, 0, 0]


def test_without_items_nothing_is_covered() -> None:
    nobody: Any = np.array([])
    graph = build_graph(np.zeros(1, dtype=np.int64), nobody)
    assert (graph.n_items, graph.n_people) == (0, 0)
    assert flow.max_cover_counts(graph, [1]).tolist() == [0]


def test_the_largest_bound_may_be_one() -> None:
    counts = flow.max_cover_counts(graph_of([[0, 1], [1]]), [1])
    assert counts.dtype == np.int64
    assert counts.tolist() == [2]


def test_codes_with_large_gaps_are_people_like_others() -> None:
    assert counts_of([[3], [100_000], [3, 100_000], [100_000]], 3) == [2, 4, 4]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_of_any_width_are_taken(dtype: type[np.generic]) -> None:
    offsets, people = np.array([0, 2, 3, 3], dtype=dtype), np.array([0, 1, 1], dtype=dtype)
    assert flow.max_cover_counts(build_graph(offsets, people), [1, 2]).tolist() == [2, 2]


def test_arrays_with_strides_are_taken() -> None:
    offsets, people = np.array([0, 9, 2, 9, 3])[::2], np.array([1, 7, 0, 7, 0])[::-2]
    assert flow.max_cover_counts(build_graph(offsets, people), [1, 2]).tolist() == [2, 2]


def test_int32_input_is_neither_copied_nor_changed() -> None:
    offsets, people = np.array([0, 2, 3], dtype=np.int32), np.array([0, 1, 1], dtype=np.int32)
    graph = build_graph(offsets, people)
    flow.max_cover_counts(graph, [1, 2, 3])
    assert np.shares_memory(graph.people, people)
    assert np.shares_memory(graph.offsets, offsets)
    assert (offsets.tolist(), people.tolist()) == ([0, 2, 3], [0, 1, 1])


def test_input_that_cannot_be_written_is_taken() -> None:
    offsets, people = np.array([0, 2, 3], dtype=np.int32), np.array([0, 1, 1], dtype=np.int32)
    offsets.flags.writeable = people.flags.writeable = False
    assert flow.max_cover_counts(build_graph(offsets, people), [1]).tolist() == [2]


def test_a_graph_can_be_asked_again() -> None:
    graph = graph_of([[0, 1], [0], [0]])
    assert (
        flow.max_cover_counts(graph, [1, 2]).tolist()
        == flow.max_cover_counts(graph, [1, 2]).tolist()
    )


def test_two_covers_of_one_graph_can_be_read_side_by_side() -> None:
    runs = [[0, 1], [0], [0], [1, 2]]
    graph = graph_of(runs)
    for left, right in zip(
        flow.covers(graph, [1, 2, 3]), flow.covers(graph, [1, 2, 3]), strict=True
    ):
        check_certificate(runs, left[0], left[1], left[2].tolist())
        assert left[2].tolist() == right[2].tolist()


def test_the_cover_cannot_be_written() -> None:
    _, _, cover = next(flow.covers(graph_of([[0]]), [1]))
    with pytest.raises(ValueError, match="read-only"):
        cover[0] = 5


@pytest.mark.parametrize(
    ("offsets", "people", "words"),
    [
        ([0, 1], [-1], "at least 0"),
        ([0, 1], [2**31 - 1], "below 2\\^31"),
        ([0, 1], [2**40], "below 2\\^31"),
        ([], [], "start at 0"),
        ([1, 2], [0, 0], "start at 0"),
        ([0, 1], [0, 0], "end at the number"),
        ([0, 3], [0, 0], "end at the number"),
        ([0, 2, 1, 3], [0, 0, 0], "never fall"),
        ([[0, 1]], [0], "offsets must be a one-dimensional"),
        ([0, 1], [[0]], "people must be a one-dimensional"),
        ([0, 1], [0.0], "people must be a one-dimensional array of integers"),
        ([0.0, 1.0], [0], "offsets must be a one-dimensional array of integers"),
    ],
)
def test_input_that_is_no_graph_is_refused(offsets: Any, people: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build_graph(np.array(offsets), np.array(people))


def test_as_many_edges_or_items_as_int32_cannot_count_are_refused() -> None:
    many = np.broadcast_to(np.int32(0), 2**31 - 1)
    for name, *graph in (("people", np.array([0, many.size]), many), ("offsets", many, many[:0])):
        with pytest.raises(ValueError, match=f"{name} must have fewer than"):
            build_graph(*graph)


@pytest.mark.parametrize("bounds", [[0], [-1], [2**31 - 1], [1, 1], [2, 1], [1, 0, 2]])
@pytest.mark.parametrize("ask", [flow.max_cover_counts, flow.covers])
def test_bounds_out_of_range_are_refused_at_once(
    ask: Callable[..., Any], bounds: list[int]
) -> None:
    with pytest.raises(ValueError, match="bounds must increase"):
        ask(graph_of([[0]]), bounds)

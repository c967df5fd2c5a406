"""The most items that people can cover, l each: every answer comes with a proof of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from udfs.count_distinct import flow

Runs = Sequence[Sequence[int]]  # the people of item 0, of item 1, ...

# What the search from items may read before the other takes over: nothing, little, what it is, all.
READS = (-1, 0, 1, 2, flow._READS_PER_EDGE, 10**6)


def graph_of(runs: Runs) -> flow.Graph:
    offsets = np.cumsum([0, *map(len, runs)])
    return flow.build_graph(offsets, np.array([p for run in runs for p in run], dtype=np.int32))


def counts_of(runs: Runs, max_bound: int) -> list[int]:
    return [int(n) for n in flow.max_cover_counts(graph_of(runs), max_bound)]


@contextmanager
def reading(times: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "_READS_PER_EDGE", times)
        yield


# Certificates: a cover that is feasible, and a cut that nothing can pass.


def check_cover(runs: Runs, bound: int, count: int, cover: Sequence[int]) -> None:
    """The cover is a flow of this value."""
    assert len(cover) == len(runs)
    holders = [person for person in cover if person != -1]
    assert len(holders) == count, "the count is not the size of the cover"
    for item, person in enumerate(cover):
        assert person == -1 or person in runs[item], "somebody covers what they do not have"
    assert max(Counter(holders).values(), default=0) <= bound, "somebody covers too much"


def cut_beside(runs: Runs, bound: int, cover: Sequence[int]) -> int:
    """The size of the cut around all that the source still reaches beside the cover.

    Any set of people gives a cut: pay `bound` for those outside, 1 for each item of those inside.
    So no flow is larger than what this returns, wherever `cover` came from.
    """
    items_of: dict[int, set[int]] = {}
    for item, run in enumerate(runs):
        for person in run:
            items_of.setdefault(person, set()).add(item)
    load = Counter(cover)
    inside = {person for person in items_of if load[person] < bound}
    waiting = list(inside)
    while waiting:
        for item in items_of[waiting.pop()]:
            holder = cover[item]
            if holder != -1 and holder not in inside:
                inside.add(holder)
                waiting.append(holder)
    near = {item for person in inside for item in items_of[person]}
    return bound * (len(items_of) - len(inside)) + len(near)


def check_certificate(runs: Runs, bound: int, count: int, cover: Sequence[int]) -> None:
    check_cover(runs, bound, count, cover)
    assert cut_beside(runs, bound, cover) == count, "the cut is larger: somebody may cover more"


def check_every_bound(runs: Runs, max_bound: int) -> list[int]:
    counts = []
    for bound, count, cover in flow.covers(graph_of(runs), max_bound):
        check_certificate(runs, bound, count, cover.tolist())
        counts.append(count)
        assert bound == len(counts)
    assert len(counts) == max_bound
    return counts


# Other ways to the same numbers.


def by_scipy(runs: Runs, bound: int) -> int:
    distinct = [sorted(set(run)) for run in runs]
    people = sorted({person for run in distinct for person in run})
    if not people:
        return 0
    place = {person: 2 + k for k, person in enumerate(people)}
    first_item = 2 + len(people)
    edges = [(0, place[person], bound) for person in people]
    edges += [(place[p], first_item + i, 1) for i, run in enumerate(distinct) for p in run]
    edges += [(first_item + i, 1, 1) for i in range(len(runs))]
    tail, head, capacity = np.array(edges, dtype=np.int32).T
    size = first_item + len(runs)
    network = csr_matrix((capacity, (tail, head)), shape=(size, size), dtype=np.int32)
    return int(maximum_flow(network, 0, 1).flow_value)


def by_trying_everything(runs: Runs, bound: int) -> int:
    @cache
    def best(item: int, holders: tuple[int, ...]) -> int:
        if item == len(runs):
            return 0
        most = best(item + 1, holders)
        for person in set(runs[item]):
            if holders.count(person) < bound:
                taken = tuple(sorted((*holders, person)))
                most = max(most, 1 + best(item + 1, taken))
        return most

    return best(0, ())


def by_greed(runs: Runs, bound: int) -> list[int]:
    """A cover that is feasible and often too small."""
    load: Counter[int] = Counter()
    cover = []
    for run in runs:
        person = next((p for p in run if load[p] < bound), -1)
        load[person] += 1
        cover.append(person)
    return cover


def runs_of(max_items: int, people: Iterable[int], max_run: int) -> st.SearchStrategy[Runs]:
    run = st.lists(st.sampled_from(list(people)), max_size=max_run)
    return st.lists(run, max_size=max_items)


tiny = runs_of(6, (0, 1, 2, 5), 5)
small = runs_of(25, (*range(7), 9, 10, 14), 6)
rarely_shared = runs_of(60, range(12), 2)
graphs = small | rarely_shared
read_budgets = st.sampled_from(READS)


@pytest.mark.parametrize("examples", [80, pytest.param(500, marks=pytest.mark.slow)])
def test_every_bound_comes_with_a_cover_and_a_cut_of_the_same_size(examples: int) -> None:
    @given(runs=graphs, times=read_budgets)
    @settings(max_examples=examples, deadline=None)
    def check(runs: Runs, times: int) -> None:
        with reading(times):
            check_every_bound(runs, 12)

    check()


@given(runs=graphs, times=read_budgets)
@settings(max_examples=100, deadline=None)
def test_the_counts_are_the_sizes_of_the_covers(runs: Runs, times: int) -> None:
    with reading(times):
        sizes = [count for _, count, _ in flow.covers(graph_of(runs), 12)]
        assert counts_of(runs, 12) == sizes


@given(runs=tiny, times=read_budgets)
@settings(max_examples=200, deadline=None)
def test_trying_everything_finds_no_other_count(runs: Runs, times: int) -> None:
    with reading(times):
        assert counts_of(runs, 4) == [by_trying_everything(runs, bound) for bound in range(1, 5)]


@given(runs=graphs, times=read_budgets)
@settings(max_examples=60, deadline=None)
def test_scipy_finds_no_other_count(runs: Runs, times: int) -> None:
    with reading(times):
        assert counts_of(runs, 5) == [by_scipy(runs, bound) for bound in range(1, 6)]


@given(runs=graphs, data=st.data())
@settings(max_examples=100, deadline=None)
def test_one_person_moves_the_count_by_at_most_the_bound(runs: Runs, data: st.DataObject) -> None:
    leaver = data.draw(st.sampled_from([*range(7), 9, 10, 14]))
    without = [[person for person in run if person != leaver] for run in runs]
    moves = np.subtract(counts_of(runs, 12), counts_of(without, 12))
    assert all(0 <= move <= bound for bound, move in enumerate(moves.tolist(), start=1))


@given(runs=graphs)
@settings(max_examples=100, deadline=None)
def test_the_count_never_falls_and_its_steps_never_grow(runs: Runs) -> None:
    steps = np.diff([0, *counts_of(runs, 12)])
    assert np.all(steps >= 0)
    assert np.all(np.diff(steps) <= 0)


@given(runs=graphs)
@settings(max_examples=60, deadline=None)
def test_with_bounds_large_enough_everything_that_has_people_is_covered(runs: Runs) -> None:
    assert counts_of(runs, 60)[-1] == sum(1 for run in runs if run)


@given(runs=graphs, data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_order_of_items_does_not_matter(runs: Runs, data: st.DataObject) -> None:
    assert counts_of(data.draw(st.permutations(runs)), 8) == counts_of(runs, 8)


@given(runs=graphs, data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_order_inside_a_run_does_not_matter(runs: Runs, data: st.DataObject) -> None:
    shuffled = [data.draw(st.permutations(run)) for run in runs]
    assert counts_of(shuffled, 8) == counts_of(runs, 8)


@given(runs=graphs, codes=st.permutations(range(20)))
@settings(max_examples=100, deadline=None)
def test_the_codes_of_people_do_not_matter(runs: Runs, codes: list[int]) -> None:
    assert counts_of([[codes[p] for p in run] for run in runs], 8) == counts_of(runs, 8)


@given(runs=graphs, times=read_budgets)
@settings(max_examples=100, deadline=None)
def test_repetitions_inside_a_run_do_not_matter(runs: Runs, times: int) -> None:
    with reading(times):
        once = [list(dict.fromkeys(run)) for run in runs]
        assert counts_of([[*run, *run] for run in runs], 8) == counts_of(once, 8)


# The checker itself: what it must turn down.

THREE_ITEMS: Runs = [[0], [0, 1], [0, 1]]  # at bound 1 two can be covered


def test_the_checker_accepts_a_largest_cover() -> None:
    check_certificate(THREE_ITEMS, 1, 2, [0, 1, -1])


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


def test_the_checker_rejects_a_cover_that_only_a_longer_path_improves() -> None:
    runs = [[0, 1], [0, 2], [0]]
    assert by_greed(runs, 1) == [0, 2, -1]
    with pytest.raises(AssertionError, match="may cover more"):
        check_certificate(runs, 1, 2, by_greed(runs, 1))


@given(runs=small, data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_checker_rejects_a_flow_that_is_one_short(runs: Runs, data: st.DataObject) -> None:
    *_, (bound, count, cover) = flow.covers(graph_of(runs), data.draw(st.integers(1, 4)))
    covered = np.flatnonzero(cover >= 0)
    if covered.size > 0:
        short = cover.copy()
        short[data.draw(st.sampled_from(covered.tolist()))] = -1
        with pytest.raises(AssertionError, match="may cover more"):
            check_certificate(runs, bound, count - 1, short.tolist())


# Graphs with a shape.


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


@pytest.mark.parametrize("times", [-1, flow._READS_PER_EDGE, 10**6])
@pytest.mark.parametrize("shape", SHAPES)
def test_large_graphs_have_certificates_at_every_bound(shape: str, times: int) -> None:
    with reading(times):
        check_every_bound(SHAPES[shape](), 25)


@pytest.mark.parametrize("shape", SHAPES)
def test_scipy_agrees_on_large_graphs(shape: str) -> None:
    runs = SHAPES[shape]()
    counts = counts_of(runs, 30)
    assert [counts[bound - 1] for bound in (1, 2, 30)] == [by_scipy(runs, b) for b in (1, 2, 30)]


@given(
    seed=st.integers(0, 2**32), people=st.integers(1, 300), most=st.integers(1, 30),
    times=st.integers(0, 40),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
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


@pytest.mark.parametrize("times", READS)
def test_a_long_chain_is_covered_but_for_one_item(times: int) -> None:
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
def test_items_that_nobody_shares_are_covered_up_to_the_bound(times: int) -> None:
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
    graph = flow.build_graph(np.zeros(1, dtype=np.int64), nobody)
    assert (graph.n_items, graph.n_people) == (0, 0)
    assert flow.max_cover_counts(graph, 1).tolist() == [0]


def test_the_largest_bound_may_be_one() -> None:
    counts = flow.max_cover_counts(graph_of([[0, 1], [1]]), 1)
    assert counts.dtype == np.int64
    assert counts.tolist() == [2]


def test_codes_with_large_gaps_are_people_like_others() -> None:
    assert counts_of([[3], [100_000], [3, 100_000], [100_000]], 3) == [2, 4, 4]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_of_any_width_are_taken(dtype: type[np.generic]) -> None:
    offsets, people = np.array([0, 2, 3, 3], dtype=dtype), np.array([0, 1, 1], dtype=dtype)
    assert flow.max_cover_counts(flow.build_graph(offsets, people), 2).tolist() == [2, 2]


def test_arrays_with_strides_are_taken() -> None:
    offsets, people = np.array([0, 9, 2, 9, 3])[::2], np.array([1, 7, 0, 7, 0])[::-2]
    assert flow.max_cover_counts(flow.build_graph(offsets, people), 2).tolist() == [2, 2]


def test_int32_input_is_neither_copied_nor_changed() -> None:
    offsets, people = np.array([0, 2, 3], dtype=np.int32), np.array([0, 1, 1], dtype=np.int32)
    graph = flow.build_graph(offsets, people)
    flow.max_cover_counts(graph, 3)
    assert np.shares_memory(graph.people, people)
    assert np.shares_memory(graph.offsets, offsets)
    assert (offsets.tolist(), people.tolist()) == ([0, 2, 3], [0, 1, 1])


def test_input_that_cannot_be_written_is_taken() -> None:
    offsets, people = np.array([0, 2, 3], dtype=np.int32), np.array([0, 1, 1], dtype=np.int32)
    offsets.flags.writeable = people.flags.writeable = False
    assert flow.max_cover_counts(flow.build_graph(offsets, people), 1).tolist() == [2]


def test_a_graph_can_be_asked_again() -> None:
    graph = graph_of([[0, 1], [0], [0]])
    assert flow.max_cover_counts(graph, 2).tolist() == flow.max_cover_counts(graph, 2).tolist()


def test_two_covers_of_one_graph_can_be_read_side_by_side() -> None:
    runs = [[0, 1], [0], [0], [1, 2]]
    graph = graph_of(runs)
    for left, right in zip(flow.covers(graph, 3), flow.covers(graph, 3), strict=True):
        check_certificate(runs, left[0], left[1], left[2].tolist())
        assert left[2].tolist() == right[2].tolist()


def test_the_cover_cannot_be_written() -> None:
    _, _, cover = next(flow.covers(graph_of([[0]]), 1))
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
        flow.build_graph(np.array(offsets), np.array(people))


@pytest.mark.parametrize("max_bound", [0, -1, 2**31 - 1])
@pytest.mark.parametrize("ask", [flow.max_cover_counts, flow.covers])
def test_bounds_out_of_range_are_refused_at_once(ask: Callable[..., Any], max_bound: int) -> None:
    with pytest.raises(ValueError, match="max_bound"):
        ask(graph_of([[0]]), max_bound)


def test_kernels_compile_where_the_result_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(**options: bool) -> Callable[[Any], Any]:
        if "cache" in options:
            raise RuntimeError("no place")
        return lambda function: function

    monkeypatch.setattr(flow, "njit", njit)
    assert flow._compiled(len) is len

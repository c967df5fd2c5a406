"""The counts from part of the edges are those of all edges, whichever part comes first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import flow, partial
from dp_sql.udfs.count_distinct.graph import Graph
from dp_sql.udfs.count_distinct.partial import Groups, PartialCounts, partial_cover_counts
from tests.udfs.compiling import changed_kernels
from tests.udfs.covers import Runs, by_trying_everything, check_certificate, graph_of
from tests.udfs.test_flow_shapes import chain, comb, pairs, power_law, uniform

BOUNDS = (1, 2, 3, 5, 16)
Keep = Callable[[Runs, np.random.Generator], Runs]


@dataclass
class Answer:
    items: Any
    people: Any
    complete: Any


class Source:
    """Holds all edges; gives as many people of each item at first as `keep` says."""

    def __init__(self, runs: Runs, thin: Runs, rng: np.random.Generator, pieces: int = 1) -> None:
        self.rng, self.pieces = rng, pieces
        self.item = codes(len(runs), rng)
        self.person = codes(1 + max((p for run in runs for p in run), default=0), rng)
        self.edges = {(i, p) for i, run in enumerate(runs) for p in run}
        self.first = {(i, p) for i, run in enumerate(thin) for p in run}
        self.come: set[tuple[int, int]] = set()
        self.n_people = len({p for _, p in self.edges})

    def answer(self, edges: Iterable[tuple[int, int]]) -> Iterator[Answer]:
        found = sorted(edges)
        self.rng.shuffle(found)
        for k in range(self.pieces):
            self.come |= {*found[k :: self.pieces]}
            waiting = {i for i, _ in self.edges - self.come}
            items, people = np.array(found[k :: self.pieces], np.int64).reshape(-1, 2).T
            whole = sorted({i for i, _ in self.come} - waiting)
            yield Answer(self.item[items], self.person[people], self.item[whole])

    def thin(self, people_per_item: int) -> Iterable[Answer]:
        return self.answer(self.first)

    def complete(self, items: Any, people: Any) -> Iterable[Answer]:
        assert items.size + people.size > 0, "nothing was asked for"
        return self.answer(
            (i, p) for i, p in self.edges if self.item[i] in items or self.person[p] in people
        )


def codes(n: int, rng: np.random.Generator) -> Any:
    return rng.choice(np.array([-(2**63), 2**63 - 1, *range(-2, 3 * n)]), n, replace=False)


def found_from(
    runs: Runs, thin: Runs, sides: str, rng: np.random.Generator, bounds: Sequence[int] = BOUNDS
) -> PartialCounts:
    source = Source(runs, thin, rng, int(rng.integers(1, 4)))
    n_people = None if sides == "items" else source.n_people
    return partial_cover_counts(source.thin, source.complete, bounds, n_people)


# Parts that come first: one person of each item, and perhaps one item of each person, chosen badly.


def first_person(runs: Runs, rng: np.random.Generator) -> Runs:
    return [run[:1] for run in runs]


def last_person(runs: Runs, rng: np.random.Generator) -> Runs:
    return [run[-1:] for run in runs]


def any_person(runs: Runs, rng: np.random.Generator) -> Runs:
    return [[run[rng.integers(len(run))]] if run else [] for run in runs]


def busiest_person(runs: Runs, rng: np.random.Generator) -> Runs:
    degree = np.bincount([0, *(person for run in runs for person in {*run})])
    return [sorted(run, key=lambda person: degree[person])[-1:] for run in runs]


def and_everyone(keep: Keep) -> Keep:
    def kept(runs: Runs, rng: np.random.Generator) -> Runs:
        thin, left = [[*run] for run in keep(runs, rng)], {p for run in runs for p in run}
        for i in rng.permutation(len(runs)).tolist():
            thin[i] += left & {*runs[i]}
            left -= {*runs[i]}
        return thin

    kept.__name__ = f"{keep.__name__}_and_everyone"
    return kept


ONE_EACH: tuple[Keep, ...] = (first_person, last_person, any_person, busiest_person)
KEEPS: tuple[Keep, ...] = (*ONE_EACH, *map(and_everyone, ONE_EACH))


def random_graphs(rng: np.random.Generator) -> Iterator[Runs]:
    for _ in range(25):
        n_items, n_people = rng.integers(1, 25, 2).tolist()
        yield uniform(int(rng.integers(1, 80)), n_items, n_people, rng)
        yield power_law(int(rng.integers(1, 80)), n_items, n_people, rng)
        yield pairs(n_people, 5, rng)


# How a round begins, and whether people are asked for.
SETTINGS = ((flow._GOING_ON, partial._FEW), (0, 1), (10**6, 1))


def check_random_graphs() -> None:
    rng, settings = np.random.default_rng(1), cycle(SETTINGS)
    for runs in random_graphs(rng):
        counts = flow.max_cover_counts(graph_of(runs), BOUNDS).tolist()
        for keep in KEEPS:
            for sides in ("items", "both"):
                with pytest.MonkeyPatch.context() as patch:
                    reads, few = next(settings)
                    patch.setattr(flow, "_GOING_ON", reads)
                    patch.setattr(partial, "_FEW", few)
                    found = found_from(runs, keep(runs, rng), sides, rng)
                assert found.counts.tolist() == counts


@pytest.mark.thorough
def test_the_counts_of_random_graphs_are_those_of_all_edges() -> None:
    check_random_graphs()


@pytest.mark.thorough
@pytest.mark.parametrize("sides", ["items", "both"])
def test_the_counts_of_all_small_graphs_are_those_of_all_edges_from_each_part(sides: str) -> None:
    rng, expected = np.random.default_rng(2), dict[Any, list[int]]()
    some = [{*c} for n in (1, 2, 3) for c in combinations(range(3), n)]
    parts = [(run, kept) for run in some for kept in some if kept <= run]
    for chosen in combinations_with_replacement(parts, 3):
        runs = tuple(tuple(sorted(run)) for run, _ in chosen)
        if runs not in expected:
            expected[runs] = [by_trying_everything(runs, bound) for bound in (1, 2)]
        found = found_from(runs, [[*kept] for _, kept in chosen], sides, rng, (1, 2))
        assert found.counts.tolist() == expected[runs]


SHAPES = {
    "star": [[0]] * 9 + [list(range(1, 30))],
    "hub": [[0, person] for person in range(1, 30)],
    "chain": chain(60),
    "rings": comb(8, 5),
    "everybody has everything": [list(range(20))] * 30,
    "two hubs": [[0, 1, 2 + k % 7] for k in range(40)],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keep", KEEPS, ids=lambda keep: keep.__name__)
@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_with_a_shape_are_counted_whichever_edges_come_first(shape: str, keep: Keep) -> None:
    rng, runs = np.random.default_rng(3), SHAPES[shape]
    counts = flow.max_cover_counts(graph_of(runs), BOUNDS).tolist()
    for sides in ("items", "both"):
        assert found_from(runs, keep(runs, rng), sides, rng).counts.tolist() == counts


def test_many_bounds_are_proved_though_few_are_tried() -> None:
    rng = np.random.default_rng(4)
    runs = [[p] for p in range(8) for _ in range(10 * p)] + pairs(40, 90, rng)
    expected = flow.max_cover_counts(graph_of(runs), range(1, 120)).tolist()
    for keep in KEEPS:
        found = found_from(runs, keep(runs, rng), "both", rng, range(1, 120))
        assert found.counts.tolist() == expected


def test_where_everyone_is_at_the_bound_no_one_is_asked_for() -> None:
    runs = [list(range(50)) for _ in range(200)]
    source = Source(runs, [[k % 50] for k in range(200)], np.random.default_rng(5))
    found = partial_cover_counts(source.thin, source.complete, [1], source.n_people)
    assert (found.counts.tolist(), found.n_rounds, found.n_edges) == ([50], 1, 200)


def test_one_answer_is_enough_where_it_has_all_edges() -> None:
    runs = SHAPES["rings"]
    found = found_from(runs, runs, "items", np.random.default_rng(6))
    assert (found.n_rounds, found.n_edges) == (1, sum(map(len, runs)))


def test_groups_are_counted_side_by_side() -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        graphs = [uniform(int(rng.integers(1, 40)), 12, 9, rng) for _ in range(3)]
        runs = [[1000 * g + p for p in run] for g, graph in enumerate(graphs) for run in graph]
        group = np.array([g for g, graph in enumerate(graphs) for _ in graph], np.int64)
        source = Source(runs, any_person(runs, rng), rng, 2)
        group_of = dict(zip(source.item.tolist(), group.tolist(), strict=True))
        groups = Groups(4, lambda items, of=group_of: np.array([of[i] for i in items.tolist()]))  # type: ignore[misc]
        found = partial_cover_counts(source.thin, source.complete, BOUNDS, None, 1, groups)
        expected = [flow.max_cover_counts(graph_of(g), BOUNDS).tolist() for g in [*graphs, []]]
        assert found.counts.tolist() == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize("reads", [0, 1, 10**6])
def test_a_cover_of_fewer_edges_becomes_a_largest_one(
    reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "_GOING_ON", reads)
    rng, right, n_begun, n_asked = np.random.default_rng(12), flow._empty_flow, 0, 0

    def counted(graph: Graph) -> Any:
        nonlocal n_begun
        n_begun += 1
        return right(graph)

    for runs in [*random_graphs(rng), *SHAPES.values()]:
        graph, fewer = graph_of(runs), graph_of(any_person(runs, rng))
        for place, (_, _, known) in enumerate(flow.covers(fewer, BOUNDS)):
            with monkeypatch.context() as during:
                during.setattr(flow, "_empty_flow", counted)
                for bound, count, cover in flow.covers(graph, BOUNDS[place:], known):
                    check_certificate(runs, bound, count, cover.tolist())
            n_asked += 1
    assert (n_begun == n_asked) == (reads == 10**6)


# Answers that break their promise, and arguments that are none.


def test_an_item_that_stays_incomplete_is_an_error() -> None:
    runs = SHAPES["hub"]
    source = Source(runs, first_person(runs, np.random.default_rng(8)), np.random.default_rng(8))
    with pytest.raises(RuntimeError, match="have not all come"):
        partial_cover_counts(source.thin, lambda items, people: source.thin(1), BOUNDS)


def test_more_people_than_there_are_is_an_error() -> None:
    source = Source(SHAPES["hub"], SHAPES["hub"], np.random.default_rng(9))
    with pytest.raises(RuntimeError, match="more people"):
        partial_cover_counts(source.thin, source.complete, BOUNDS, source.n_people - 1)


@pytest.mark.parametrize(
    ("items", "people", "words"),
    [([1, 2], [1], "as many"), ([[1]], [1], "one-dimensional"), ([0.5], [1], "integers")],
)
def test_answers_that_are_no_pairs_are_refused(items: Any, people: Any, words: str) -> None:
    answer = Answer(np.array(items), np.array(people), np.array([], np.int64))
    with pytest.raises(ValueError, match=words):
        partial_cover_counts(lambda n: [answer], lambda items, people: [], BOUNDS)


def test_as_many_pairs_as_offsets_cannot_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "LIMIT", 3)
    with pytest.raises(ValueError, match="fewer than"):
        partial_cover_counts(lambda n: [pairs_of(3)], lambda items, people: [], [1])


def test_a_cover_that_is_not_the_largest_proves_nothing() -> None:
    known = partial._Known(1, None)
    known.add([pairs_of(1)])
    search, nothing = partial._Search(known, known.take_graph()), np.array([-1], np.int32)
    for missing in (search.missing_items, search.missing_people):
        with pytest.raises(RuntimeError, match="not the largest"):
            missing(nothing, 1)


def pairs_of(n: int) -> Answer:
    return Answer(np.arange(n), np.zeros(n, np.int64), np.arange(0))


def test_bounds_that_do_not_increase_are_refused() -> None:
    source = Source([[0]], [[0]], np.random.default_rng(10))
    with pytest.raises(ValueError, match="must increase"):
        partial_cover_counts(source.thin, source.complete, [2, 1])


def test_nothing_at_all_is_counted_as_nothing() -> None:
    nothing = Answer(np.array([]), np.array([]), np.array([]))
    for answer in ([], [nothing]):
        found = partial_cover_counts(lambda n, a=answer: a, lambda items, people: [], [1, 2], 0)  # type: ignore[misc]
        assert found.counts.tolist() == [0, 0]


# Mutants: proofs that take something for granted.


def only_uncovered(search: Any, cover: Any, bound: int) -> Any:
    known = search._known.complete_items
    return np.flatnonzero((cover < 0) & ~known).astype(np.int32)


def only_with_room(search: Any, cover: Any, bound: int) -> Any:
    load = np.bincount(cover[cover >= 0], minlength=search.graph.n_people)
    return np.flatnonzero((load < bound) & ~search._known.complete_people).astype(np.int32)


def forgets_a_bound(run: Any) -> Any:
    def forgetful(*given: Any) -> Any:
        still, missing = run(*given)
        return still[1:], missing[1:]

    return forgetful


def takes_all_people_for_known(search: Any, cover: Any, bound: int) -> Any:
    right, search._known.n_people = search._known.n_people, search.graph.n_people
    missing = MISSING_PEOPLE(search, cover, bound)
    search._known.n_people = right
    return missing


MISSING_PEOPLE = partial._Search.missing_people
MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "only uncovered items": lambda p: p.setattr(partial._Search, "missing_items", only_uncovered),
    "only people with room": lambda p: p.setattr(partial._Search, "missing_people", only_with_room),
    "a bound is forgotten": lambda p: p.setattr(partial, "_run", forgets_a_bound(partial._run)),
    "people who have not come": lambda p: p.setattr(
        partial._Search, "missing_people", takes_all_people_for_known
    ),
}


@pytest.mark.pure
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_proof_that_takes_something_for_granted_is_rejected(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[mutant](monkeypatch)
    with pytest.raises(AssertionError):
        check_random_graphs()


def test_completing_only_people_with_room_is_wrong_in_the_example_of_the_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, thin = [[0, 1], [1, 2], [2, 3], [2, 3]], [[0, 1], [1, 2], [3], [3]]
    rng = np.random.default_rng(11)  # in what order pairs come, hence who has room

    def counts() -> set[int]:
        return {int(found_from(runs, thin, "both", rng, [1]).counts[0]) for _ in range(30)}

    assert counts() == {4}
    monkeypatch.setattr(partial._Search, "missing_people", only_with_room)
    assert counts() == {3, 4}


KERNEL_MUTANTS = {
    "a person's items are not reached": ("reached[n_reached++] = held;", "n_reached += 0;"),
    "the holder of an item is not reached": ("reached[n_reached++] = holder;", ""),
    "a run is not read to its end": ("edge < offsets[item + 1]; edge++", "edge < offsets[item + 1] - 1; edge++"),
    "a list is not read to its end": ("edge < stop[reached[head]]; edge++", "edge < stop[reached[head]] - 1; edge++"),
    "a pair has the person of another": ("places[items[k]]] = people[k];", "places[items[k]]] = people[0];"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("mutant", KERNEL_MUTANTS)
def test_mutants_of_the_kernels_are_rejected(mutant: str, tmp_path: Path) -> None:
    wrong = changed_kernels(tmp_path, *KERNEL_MUTANTS[mutant], "partial.c")
    with wrong, pytest.raises((AssertionError, RuntimeError)):
        check_random_graphs()

"""Covers and their certificates, and other ways to the same numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

from dp_sql.udfs.count_distinct import flow
from dp_sql.udfs.count_distinct.graph import Graph, build_graph

Runs = Sequence[Sequence[int]]  # the people of item 0, of item 1, ...

# What the search from items may read before the other takes over, times the input: nothing, little,
# what it is, all. Where it is odd, some phases after it may be free.
READS = (-2, -1, 0, 1, 2, 3, 10**6)


def graph_of(runs: Runs) -> Graph:
    offsets = np.cumsum([0, *map(len, runs)])
    return build_graph(offsets, np.array([p for run in runs for p in run], dtype=np.int32))


def counts_of(runs: Runs, max_bound: int) -> list[int]:
    return [int(n) for n in flow.max_cover_counts(graph_of(runs), range(1, max_bound + 1))]


@contextmanager
def reading(times: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        limits = (times, times + 2 * (times >= 0), 3 * (times % 2))
        patch.setattr(
            flow, "_limits", lambda graph: (*(n * graph.people.size for n in limits[:2]), limits[2])
        )
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


def check_every_bound(runs: Runs, max_bound: int, step: int = 1) -> list[int]:
    bounds = range(1, max_bound + 1, step)
    found = []
    for bound, count, cover in flow.covers(graph_of(runs), bounds):
        check_certificate(runs, bound, count, cover.tolist())
        found.append((bound, count))
    assert [bound for bound, _ in found] == list(bounds)
    return [count for _, count in found]


# Other ways to the same numbers.


def by_scipy(runs: Runs, bound: int) -> int:
    sparse = pytest.importorskip("scipy.sparse")
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
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
    network = sparse.csr_matrix((capacity, (tail, head)), shape=(size, size), dtype=np.int32)
    return int(csgraph.maximum_flow(network, 0, 1).flow_value)


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

"""How many items can be covered when each person covers at most l of them? F(l), for increasing l.

F(l) is the largest flow source -l-> people -1-> items -1-> sink. The flow is kept from bound to
bound. The search from the uncovered items runs first; ordinary data ends there. Where it would read
too much, people with room take over for the bound, by breadth-first forests and by levels:
O(sqrt(items)) passes over the input, whatever the data. The argument for each step is in flow.md.
"""

import math
from collections.abc import Iterator, Sequence
from ctypes import byref
from itertools import count

import numpy as np

from dp_sql.udfs.count_distinct.graph import LIMIT, Graph, Int32s, Int64s, read_only, zeros
from dp_sql.udfs.count_distinct.kernels import Flow, by_size, library, lists_by_person

_FROM_ITEMS = (
    "order", "asked", "full", "slot_item", "next_slot", "first_slot", "mark", "log",
    "path_item", "path_slot", "path_edge",
)  # fmt: skip
_GOING_ON = 2  # how often a search that goes on from a cover may read the graph
_FORESTS = 16  # how many phases of a bound are forests, at most


def max_cover_counts(graph: Graph, bounds: Sequence[int]) -> Int64s:
    """Count the items that can be covered, for each bound on the items per person.

    Args:
        graph: who has which item.
        bounds: increasing, at least 1 and below 2^31 - 1; range(1, n + 1) for all up to n.

    Returns F(l) for each bound l, shape (len(bounds),). F never falls, and its steps never grow.
    Raises ValueError for other bounds.

    Privacy: none here. F(l) moves by at most l when all edges of one person come or go.
    """
    found = covers(graph, bounds)
    return np.fromiter((n_covered for _, n_covered, _ in found), np.int64, len(bounds))


def max_cover_counts_each(graph: Graph, ends: Int64s, bounds: Sequence[int]) -> Int64s:
    """Count the same for each of the graphs that this one is made of, shape (graphs, bounds).

    ends: of their items, which are in order, one graph after the other; none shares a person.
    """
    of_items = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    counts, before = np.zeros((ends.size, len(bounds)), np.int64), 0
    for i, (_, n_covered, cover) in enumerate(covers(graph, bounds)):
        if n_covered == before:
            counts[:, i] = counts[:, i - 1]
        else:
            counts[:, i] = np.bincount(of_items[cover >= 0], minlength=ends.size)
        before = n_covered
    return counts


def covers(
    graph: Graph, bounds: Sequence[int], known: Int32s | None = None
) -> Iterator[tuple[int, int, Int32s]]:
    """Yield (bound, F(bound), cover) for each bound.

    cover[i] is the person who covers item i, or -1; no one covers more than `bound` items. It is a
    read-only view of the flow at work: copy what you keep. known: such a cover at the first bound,
    not a largest one, to begin with. Raises ValueError as above.
    """
    if not all(low < high for low, high in zip((0, *bounds), (*bounds, LIMIT), strict=True)):
        raise ValueError("bounds must increase, from at least 1 to below 2^31 - 1")
    return _covers(graph, bounds, known)


def _covers(
    graph: Graph, bounds: Sequence[int], known: Int32s | None
) -> Iterator[tuple[int, int, Int32s]]:
    kernels = library()
    flow = _empty_flow(graph) if known is None else _flow_from(graph, bounds[0], known)
    cover = read_only(flow.arrays["cover"])
    sure, most, n_forests = _limits(graph)
    from_people, went_back, before = False, False, flow.bound
    for bound in bounds:
        step, flow.bound, flow.room = bound - before, bound, flow.n_alive * (bound - before)
        if flow.room > 0 and flow.n_covered < flow.coverable:
            if from_people and not went_back and not kernels.little_room(byref(flow)):
                _begin_from_items(graph, flow, cover)
                from_people, went_back = False, True
            if not from_people and (
                flow.n_reads > most or not kernels.raise_from_items(byref(flow), step, sure, most)
            ):
                _begin_from_people(graph, flow, before)
                from_people = True
        phases = count()
        while from_people and flow.n_covered < flow.coverable:
            if not kernels.phase_from_people(byref(flow), next(phases) < n_forests):
                break
        yield bound, flow.n_covered, cover
        before = bound


def _flow_from(graph: Graph, bound: int, cover: Int32s) -> Flow:
    """Begin with this cover, enlarged by the search from items until it is a largest one.

    If that would read the graph more than a few times, begin with the empty flow.
    """
    flow = _empty_flow(graph)
    flow.bound = bound
    _begin_from_items(graph, flow, cover)
    flow.n_alive = bound * graph.n_people - flow.n_covered  # the most that can still be covered
    budget = _GOING_ON * (graph.people.size + graph.n_items + graph.n_people)
    if not library().raise_from_items(byref(flow), 1, budget, budget):
        del flow
        return _empty_flow(graph)
    if flow.room == 0:
        flow.n_alive = graph.n_people
    flow.n_reads = 0
    return flow


def _limits(graph: Graph) -> tuple[int, int, int]:
    """What is read before the worst case is bounded: by the search from items, and by phases.

    The first two are edges: none where lists are short and up to two reads each where they are
    long; and up to sixteen where a first phase does well. The third: phases that are forests.
    """
    n_edges = graph.people.size
    sure = 2 * n_edges - 4 * (graph.n_items + graph.n_people)
    return sure, 16 * n_edges, min(math.isqrt(graph.n_items), _FORESTS)


def _empty_flow(graph: Graph) -> Flow:
    """Begin with the empty flow, ready for the search from items."""
    flow = Flow(n_edges=graph.people.size, n_items=graph.n_items, n_alive=graph.n_people)
    flow.point(offsets=graph.offsets, people=graph.people, load=zeros(graph.n_people))
    flow.point(cover=np.full(graph.n_items, -1, np.int32))
    _begin_from_items(graph, flow)
    return flow


def _begin_from_items(graph: Graph, flow: Flow, cover: Int32s | None = None) -> None:
    """Prepare the search from items, with nothing covered or with the given cover."""
    n_items, n_people = graph.n_items, graph.n_people
    order = by_size(graph.offsets)
    flow.coverable, flow.n_covered = order.size, 0
    flow.point(asked=zeros(n_items), full=zeros(n_items))
    flow.point(slot_item=zeros(n_items + 1), next_slot=zeros(n_items + 1))
    flow.point(first_slot=zeros(n_people), mark=zeros(n_people), log=zeros(n_people))
    depth = min(n_items, n_people) + 1
    flow.point(path_item=zeros(depth), path_slot=zeros(depth), path_edge=zeros(depth))
    if cover is not None:
        held = cover[order] >= 0
        order = np.concatenate([order[held], order[~held]])
        flow.arrays["load"].fill(0)
        library().hold_cover(byref(flow), cover, n_items)
    flow.point(order=order)


def _begin_from_people(graph: Graph, flow: Flow, before: int) -> None:
    """Prepare the search from people; all bounds up to `before` are done."""
    n_people = graph.n_people
    flow.forget(*_FROM_ITEMS)
    load = flow.arrays["load"]
    if "items" not in flow.arrays:
        order = by_size(graph.offsets)
        start, stop, items = lists_by_person(graph.offsets, graph.people, order, n_people)
        flow.point(start=start, stop=stop, items=items, fresh=start.copy(), next=zeros(n_people))
        flow.point(queue=zeros(n_people), path=zeros(n_people), level=zeros(n_people))
    level = flow.arrays["level"]
    level[load < before] = -1
    alive = np.flatnonzero(level == 0).astype(np.int32)
    exposed = load[alive] < flow.bound
    flow.point(alive=np.concatenate([alive[exposed], alive[~exposed]]))
    flow.n_alive, flow.n_exposed = alive.size, np.count_nonzero(exposed)

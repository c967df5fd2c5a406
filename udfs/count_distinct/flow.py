"""How many items can be covered when each person covers at most l of them? F(l), for every l.

Owns the graph kernels: whole numbers in, whole numbers out, the same answer every time. Must never
draw randomness, use floats, or know SQL. The argument for each step is in flow.md.

F(l) is the largest flow source -l-> people -1-> items -1-> sink. The bounds are visited upwards and
the flow is kept, so each bound only asks who can use one more item per person. Two searches share
the work:

- from the uncovered items, on the input as it came. Ordinary data ends here, often before every
  edge has been read once;
- from the people with room, on lists turned round to run by person. It takes over when the first
  has read as much as three times the input. Whom it fails to serve is never met again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

_LIMIT = 2**31 - 1  # sizes, codes and bounds stay below it, so that all arrays are int32
_DEAD = _LIMIT  # mark of a person through whom no search can succeed
_READS_PER_EDGE = 3  # what the search from items may read


@dataclass(frozen=True, eq=False)
class Graph:
    """Who has which item: one run of person codes per item. Made by build_graph alone.

    Attributes:
        offsets: where each item's run starts, then where the last one ends, shape (n_items + 1,).
        people: the runs, one after the other. A person may stand in one run more than once.
        n_items: number of runs, empty ones included.
        n_people: the largest person code plus one.
    """

    offsets: Int32s
    people: Int32s
    n_items: int
    n_people: int


class _FromItems(NamedTuple):
    """The flow as the search from items keeps it.

    A slot is one unit of a person's bound, in use. Slots are numbered from 1, and 0 ends a list.
    """

    order: Int32s  # items that have people: first those covered, then the others, rarest first
    cover: Int32s  # per item: who covers it, or -1
    asked: Int32s  # per item: the last bound that asked its people for room; -bound if dead
    full: Int32s  # per item: at that bound, so many at the start of its run have no room
    slot_item: Int32s  # per slot: the item held
    next_slot: Int32s  # per slot: the same person's next one
    first_slot: Int32s  # per person
    load: Int32s  # per person: items covered
    mark: Int32s  # per person: the last phase that met them, or _DEAD
    log: Int32s  # the people marked _DEAD at this bound
    path_item: Int32s  # the path being searched: its items,
    path_slot: Int32s  # the slots that hold them,
    path_edge: Int32s  # how much of each item's run has been followed


class _FromPeople(NamedTuple):
    """The flow as the search from people keeps it."""

    start: Int32s  # per person: where the list of items starts; no repetitions, rarest first
    stop: Int32s  # per person: where it ends
    items: Int32s
    cover: Int32s  # per item: who covers it, or -1
    full: Int32s  # per person: so many at the start of the list are covered, by whomever
    mark: Int32s  # per person: the last phase that met them, or _DEAD
    alive: Int32s  # people who may still gain, those with room first
    log: Int32s  # the people marked _DEAD by the running search
    path_person: Int32s  # the path being searched: its people,
    path_item: Int32s  # the items through which they were reached,
    path_edge: Int32s  # how much of each person's list has been followed


def build_graph(offsets: Integers, people: Integers) -> Graph:
    """Check the input and take it over, without a copy if it is int32 already.

    Args:
        offsets: integers, shape (n_items + 1,), from 0 up to len(people), never falling.
        people: person codes, integers >= 0 below 2^31 - 1, dense or nearly so: a code that nobody
            has costs some bytes and a little time. Order is free. A person who stands in one run
            more than once counts once.

    Raises:
        ValueError: if the input is anything else, or has 2^31 - 1 edges or more.
    """
    offsets, people = np.asarray(offsets), np.asarray(people)
    for name, values in (("offsets", offsets), ("people", people)):
        if values.ndim != 1 or (values.size > 0 and values.dtype.kind not in "iu"):
            raise ValueError(f"{name} must be a one-dimensional array of integers")
        if values.size >= _LIMIT:
            raise ValueError(f"{name} must have fewer than 2^31 - 1 entries")
    if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != people.size:
        raise ValueError("offsets must start at 0 and end at the number of people entries")
    if np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("offsets must never fall")
    n_people = 0
    if people.size > 0:
        n_people = int(people.max()) + 1
        if people.min() < 0 or n_people > _LIMIT:
            raise ValueError("person codes must be at least 0 and below 2^31 - 1")
    return Graph(
        offsets=_read_only(np.ascontiguousarray(offsets, dtype=np.int32)),
        people=_read_only(np.ascontiguousarray(people, dtype=np.int32)),
        n_items=offsets.size - 1,
        n_people=n_people,
    )


def max_cover_counts(graph: Graph, max_bound: int) -> Int64s:
    """Count the items that can be covered, for each bound on the items per person.

    Returns:
        F(1), ..., F(max_bound), shape (max_bound,). It never falls, and its steps never grow.

    Raises:
        ValueError: if max_bound is below 1, or 2^31 - 1 or more.

    Privacy: none here. F(l) moves by at most l when all edges of one person come or go.
    """
    counts = np.zeros(_checked(max_bound), dtype=np.int64)
    for bound, count, _ in covers(graph, max_bound):
        counts[bound - 1] = count
    return counts


def covers(graph: Graph, max_bound: int) -> Iterator[tuple[int, int, Int32s]]:
    """Say for each bound how many items can be covered, and by whom.

    Yields:
        (bound, F(bound), cover) for bound = 1..max_bound: cover[i] is the person who covers item i,
        or -1, and nobody covers more than `bound` items. `cover` is a read-only view of the flow at
        work: the next step changes it, so copy what you keep.

    Raises:
        ValueError: if max_bound is below 1, or 2^31 - 1 or more.
    """
    return _covers(graph, _checked(max_bound))


def _covers(graph: Graph, max_bound: int) -> Iterator[tuple[int, int, Int32s]]:
    flow = _start_from_items(graph)
    turned: _FromPeople | None = None
    cover = _read_only(flow.cover)
    coverable = flow.order.size
    budget = _READS_PER_EDGE * graph.people.size
    n_covered, n_alive, phase, n_reads = 0, graph.n_people, 0, 0
    for bound in range(1, max_bound + 1):
        if n_covered < coverable and turned is None:
            n_covered, n_alive, phase, n_reads = _raise_from_items(
                bound, n_covered, n_alive, phase, n_reads, budget, graph.offsets, graph.people, flow
            )
            if n_covered < coverable and n_reads > budget:
                turned, n_exposed, n_alive = _turn_round(graph, flow, bound)
                n_covered, n_alive, phase = _raise_from_people(
                    coverable, n_covered, n_exposed, n_alive, 0, turned
                )
        elif n_covered < coverable and turned is not None:
            n_covered, n_alive, phase = _raise_from_people(
                coverable, n_covered, n_alive, n_alive, phase, turned
            )
        yield bound, n_covered, cover


def _checked(max_bound: int) -> int:
    if not 1 <= max_bound < _LIMIT:
        raise ValueError("max_bound must be at least 1 and below 2^31 - 1")
    return max_bound


def _read_only(values: Int32s) -> Int32s:
    """View that cannot be written through. The kernels are compiled for such input alone."""
    view = values.view()
    view.flags.writeable = False
    return view


def _by_size(sizes: Int32s) -> Int32s:
    """Positions of the positive sizes, small ones first. All above 2^16 - 1 count as equal."""
    order = np.argsort(np.minimum(sizes, 2**16 - 1).astype(np.uint16), kind="stable")
    return order[np.count_nonzero(sizes == 0) :].astype(np.int32)


def _zeros(size: int) -> Int32s:
    return np.zeros(size, dtype=np.int32)


def _start_from_items(graph: Graph) -> _FromItems:
    n_items, n_people = graph.n_items, graph.n_people
    depth = min(n_items, n_people) + 1
    return _FromItems(
        order=_by_size(np.diff(graph.offsets)),
        cover=np.full(n_items, -1, dtype=np.int32),
        asked=_zeros(n_items),
        full=_zeros(n_items),
        slot_item=_zeros(n_items + 1),
        next_slot=_zeros(n_items + 1),
        first_slot=_zeros(n_people),
        load=_zeros(n_people),
        mark=_zeros(n_people),
        log=_zeros(n_people),
        path_item=_zeros(depth),
        path_slot=_zeros(depth),
        path_edge=_zeros(depth),
    )


def _turn_round(graph: Graph, flow: _FromItems, bound: int) -> tuple[_FromPeople, int, int]:
    """Hand the flow over to the search from people, at whatever point of `bound` it is.

    Returns:
        the flow, the number of people with room, the number of people alive.
    """
    n_people = graph.n_people
    start, stop, items = _lists_by_person(
        graph.offsets, graph.people, _by_size(np.diff(graph.offsets)), n_people
    )
    by_size = _by_size(stop - start)
    load = flow.load[by_size]
    exposed, saturated = by_size[load == bound - 1], by_size[load == bound]
    turned = _FromPeople(
        start=start,
        stop=stop,
        items=items,
        cover=flow.cover,
        full=_zeros(n_people),
        mark=np.where(flow.load < bound - 1, np.int32(_DEAD), np.int32(0)),
        alive=np.concatenate((exposed, saturated)),
        log=_zeros(n_people),
        path_person=_zeros(n_people),
        path_item=_zeros(n_people),
        path_edge=_zeros(n_people),
    )
    return turned, exposed.size, turned.alive.size


def _compiled(function: Function) -> Function:
    """Compile at the first call, and keep the result on disk if there is a place for it."""
    try:
        return cast(Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory that it may write
        return cast(Function, njit(nogil=True)(function))


def _inlined(function: Function) -> Function:
    """Make a part of the kernels that call it. A call would count references to every array."""
    return cast(Function, njit(inline="always")(function))


@_compiled
def _raise_from_items(
    bound: int,
    n_covered: int,
    n_alive: int,
    phase: int,
    n_reads: int,
    budget: int,
    offsets: Int32s,
    people: Int32s,
    flow: _FromItems,
) -> tuple[int, int, int, int]:
    """Let everybody alive cover one item more if it helps.

    Returns:
        n_covered, n_alive, phase and n_reads as they are now. If n_reads is above the budget, the
        bound may be unfinished, and of the flow only cover and load may be used.
    """
    n_covered, room, reads = _greedy_from_items(bound, n_covered, n_alive, offsets, people, flow)
    n_reads += reads
    n_dead = 0
    undecided = flow.order.size - n_covered
    while undecided > 0 and room > 0 and n_reads <= budget:
        phase += 1
        n_covered, room, undecided, n_dead, reads = _phase_from_items(
            bound, n_covered, room, n_dead, phase, offsets, people, flow
        )
        n_reads += reads
    for k in range(n_dead):
        flow.mark[flow.log[k]] = 0
    if room > 0:
        n_alive = n_dead
    return n_covered, n_alive, phase, n_reads


@_inlined
def _greedy_from_items(
    bound: int, n_covered: int, room: int, offsets: Int32s, people: Int32s, flow: _FromItems
) -> tuple[int, int, int]:
    """Give each uncovered item to the first of its people who has room.

    Returns:
        n_covered; how many of the people alive still have room; edges read.
    """
    order = flow.order
    first = here = kept = n_covered
    n_reads = 0
    while here < order.size and room > 0:
        item = order[here]
        here += 1
        begin, end = offsets[item], offsets[item + 1]
        edge = _first_with_room(begin, end, bound, people, flow)
        n_reads += edge - begin + 1
        flow.asked[item] = bound
        flow.full[item] = edge - begin
        if edge < end:
            n_covered += 1
            room -= 1
            _hold(item, people[edge], n_covered, flow)
        else:
            order[kept] = item
            kept += 1
    _close_gap(first, kept, here, flow)
    return n_covered, room, n_reads


@_inlined
def _phase_from_items(  # noqa: PLR0912, PLR0915 - a call per search costs more than the search
    bound: int,
    n_covered: int,
    room: int,
    n_dead: int,
    phase: int,
    offsets: Int32s,
    people: Int32s,
    flow: _FromItems,
) -> tuple[int, int, int, int, int]:
    """Search once from each uncovered item, meeting nobody twice.

    A path runs: uncovered item, person, item held, person, item held, ..., person with room. Once
    found, it shifts: each person on it takes the item before and lets go of the item after.

    Returns:
        n_covered and room as they are now; how many items failed that may succeed in the next
        phase; n_dead; edges read.
    """
    order, asked, full, mark, log = flow.order, flow.asked, flow.full, flow.mark, flow.log
    path_item, path_slot, path_edge = flow.path_item, flow.path_slot, flow.path_edge
    slot_item, next_slot, first_slot = flow.slot_item, flow.next_slot, flow.first_slot
    first = here = kept = n_covered
    n_met = n_dead
    n_reads = undecided = 0
    while here < order.size and room > 0:
        root = order[here]
        here += 1
        n_reads += 1
        depth = -1 if asked[root] == -bound else 0
        path_item[0] = root
        found = False
        clean = entering = True
        while depth >= 0:
            item = path_item[depth]
            begin, end = offsets[item], offsets[item + 1]
            if entering:
                passed = full[item] if asked[item] == bound else 0
                edge = _first_with_room(begin + passed, end, bound, people, flow)
                n_reads += edge - begin - passed + 1
                asked[item] = bound
                full[item] = edge - begin
                found = edge < end
                if found:
                    break
                path_edge[depth] = 0
            edge = begin + path_edge[depth]
            n_reads -= edge
            while edge < end:
                met = mark[people[edge]]
                if met < phase:
                    break
                if met == phase:
                    clean = False
                edge += 1
            n_reads += edge + 1
            entering = edge < end
            if entering:
                person = people[edge]
                mark[person] = _DEAD
                log[n_met] = person
                n_met += 1
                path_edge[depth] = edge - begin + 1
                depth += 1
                path_slot[depth] = first_slot[person]
            elif depth > 0 and next_slot[path_slot[depth]] > 0:
                path_slot[depth] = next_slot[path_slot[depth]]
                entering = True
            else:
                depth -= 1
            if entering:
                path_item[depth] = slot_item[path_slot[depth]]
        if found:
            n_covered += 1
            room -= 1
            _shift_items(depth, people[edge], n_covered, offsets, people, flow)
        else:
            order[kept] = root
            kept += 1
        if clean and not found:
            asked[root] = -bound
            n_dead = n_met
        elif not found:
            undecided += 1
        while n_met > n_dead:
            n_met -= 1
            mark[log[n_met]] = phase
    _close_gap(first, kept, here, flow)
    return n_covered, room, undecided, n_dead, n_reads


@_inlined
def _first_with_room(edge: int, end: int, bound: int, people: Int32s, flow: _FromItems) -> int:
    while edge < end and flow.load[people[edge]] >= bound:
        edge += 1
    return edge


@_inlined
def _hold(item: int, person: int, slot: int, flow: _FromItems) -> None:
    """Put `item` into a new slot of `person`."""
    flow.slot_item[slot] = item
    flow.next_slot[slot] = flow.first_slot[person]
    flow.first_slot[person] = slot
    flow.load[person] += 1
    flow.cover[item] = person


@_inlined
def _shift_items(
    depth: int, person: int, slot: int, offsets: Int32s, people: Int32s, flow: _FromItems
) -> None:
    """Give the path's last item to `person`, and to each slot on the path the item before it."""
    _hold(flow.path_item[depth], person, slot, flow)
    for d in range(depth, 0, -1):
        item = flow.path_item[d - 1]
        flow.slot_item[flow.path_slot[d]] = item
        flow.cover[item] = people[offsets[item] + flow.path_edge[d - 1] - 1]


@_inlined
def _close_gap(first: int, kept: int, here: int, flow: _FromItems) -> None:
    """Move what a pass has kept, order[first:kept], up to where it stopped, order[..:here]."""
    for k in range(1, kept - first + 1):
        flow.order[here - k] = flow.order[kept - k]


@_compiled
def _lists_by_person(
    offsets: Int32s, people: Int32s, order: Int32s, n_people: int
) -> tuple[Int32s, Int32s, Int32s]:
    """Turn the runs of people into lists of items, each in the given order of items.

    Returns:
        start and stop of each list, shape (n_people,), and the lists.
    """
    start = np.zeros(n_people, dtype=np.int32)
    for edge in range(people.size):
        start[people[edge]] += 1
    total = 0
    for person in range(n_people):
        size = start[person]
        start[person] = total
        total += size
    stop = start.copy()
    items = np.empty(people.size, dtype=np.int32)
    for item in order:
        for edge in range(offsets[item], offsets[item + 1]):
            person = people[edge]
            end = stop[person]
            if end == start[person] or items[end - 1] != item:
                items[end] = item
                stop[person] = end + 1
    return start, stop, items


@_compiled
def _raise_from_people(
    coverable: int, n_covered: int, n_exposed: int, n_alive: int, phase: int, flow: _FromPeople
) -> tuple[int, int, int]:
    """Let each exposed person cover one item more if it helps.

    Returns:
        n_covered, n_alive and phase as they are now. Once all is covered, the rest has no meaning.
    """
    n_covered, undecided = _greedy_from_people(coverable, n_covered, n_exposed, flow)
    while undecided > 0 and n_covered < coverable:
        phase += 1
        n_covered, undecided = _phase_from_people(coverable, n_covered, undecided, phase, flow)
    kept = 0
    for k in range(n_alive):
        person = flow.alive[k]
        if flow.mark[person] != _DEAD:
            flow.alive[kept] = person
            kept += 1
    return n_covered, kept, phase


@_inlined
def _greedy_from_people(
    coverable: int, n_covered: int, n_exposed: int, flow: _FromPeople
) -> tuple[int, int]:
    """Give each exposed person the first uncovered item of the list.

    Returns:
        n_covered; how many people, now the first in `alive`, found none.
    """
    here = kept = 0
    while here < n_exposed and n_covered < coverable:
        person = flow.alive[here]
        edge = _first_uncovered(person, flow)
        if edge < flow.stop[person]:
            flow.cover[flow.items[edge]] = person
            n_covered += 1
        else:
            flow.alive[here] = flow.alive[kept]
            flow.alive[kept] = person
            kept += 1
        here += 1
    return n_covered, kept


@_inlined
def _phase_from_people(  # noqa: PLR0912, PLR0915 - as above
    coverable: int, n_covered: int, n_exposed: int, phase: int, flow: _FromPeople
) -> tuple[int, int]:
    """Search once from each exposed person, meeting nobody twice.

    A path runs: person with room, item, its holder, item, its holder, ..., uncovered item. Once
    found, it shifts: each person on it takes the item after and lets go of the item before.

    Returns:
        n_covered; how many people, now the first in `alive`, failed but may succeed in the next
        phase.
    """
    alive, cover, items, mark, log = flow.alive, flow.cover, flow.items, flow.mark, flow.log
    path_person, path_item, path_edge = flow.path_person, flow.path_item, flow.path_edge
    undecided = here = 0
    while here < n_exposed and n_covered < coverable:
        root = alive[here]
        depth = 0 if mark[root] < phase else -1
        clean = mark[root] != phase
        found = False
        entering = True
        n_met = 0
        if depth == 0:
            path_person[0] = log[0] = root
            mark[root] = _DEAD
            n_met = 1
        while depth >= 0:
            person = path_person[depth]
            begin, end = flow.start[person], flow.stop[person]
            if entering:
                edge = _first_uncovered(person, flow)
                found = edge < end
                if found:
                    break
                path_edge[depth] = 0
            edge = begin + path_edge[depth]
            while edge < end:
                met = mark[cover[items[edge]]]
                if met < phase:
                    break
                if met == phase:
                    clean = False
                edge += 1
            entering = edge < end
            if entering:
                path_edge[depth] = edge - begin + 1
                depth += 1
                person = cover[items[edge]]
                path_person[depth] = log[n_met] = person
                path_item[depth] = items[edge]
                mark[person] = _DEAD
                n_met += 1
            else:
                depth -= 1
        if found:
            n_covered += 1
            cover[items[edge]] = path_person[depth]
            for d in range(depth, 0, -1):
                cover[path_item[d]] = path_person[d - 1]
        elif not clean:
            alive[here] = alive[undecided]
            alive[undecided] = root
            undecided += 1
        if found or not clean:
            for k in range(n_met):
                mark[log[k]] = phase
        here += 1
    return n_covered, undecided


@_inlined
def _first_uncovered(person: int, flow: _FromPeople) -> int:
    """Find where the list has its first uncovered item. Covered items stay so: never look back."""
    edge: int = flow.start[person] + flow.full[person]
    while edge < flow.stop[person] and flow.cover[flow.items[edge]] >= 0:
        edge += 1
    flow.full[person] = edge - flow.start[person]
    return edge

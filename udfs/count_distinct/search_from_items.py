"""The search from uncovered items, on the input as it came: a graph kernel, see flow.md."""

from typing import NamedTuple

import numpy as np

from dp_sql.udfs.count_distinct.compiled import compiled, inlined
from dp_sql.udfs.count_distinct.graph import LIMIT, Graph, Int32s, by_size, zeros

DEAD = LIMIT  # mark of a person through whom no search can succeed


class FromItems(NamedTuple):
    """The flow as the search from items keeps it. Slots, from 1 on, are units of a bound in use."""

    order: Int32s  # items that have people: first those covered, then the others, rarest first
    cover: Int32s  # per item: who covers it, or -1
    asked: Int32s  # per item: the last bound that asked its people for room; -bound if dead
    full: Int32s  # per item: at that bound, so many at the start of its run have no room
    slot_item: Int32s  # per slot: the item held
    next_slot: Int32s  # per slot: the same person's next one, or 0
    first_slot: Int32s  # per person
    load: Int32s  # per person: items covered
    mark: Int32s  # per person: the last phase that met them, or DEAD
    log: Int32s  # the people marked DEAD at this bound
    path_item: Int32s  # the path being searched: its items,
    path_slot: Int32s  # the slots that hold them,
    path_edge: Int32s  # how much of each item's run has been followed


def start_from_items(graph: Graph) -> FromItems:
    """Begin with the empty flow."""
    n_items, n_people = graph.n_items, graph.n_people
    depth = min(n_items, n_people) + 1
    return FromItems(
        order=by_size(np.diff(graph.offsets)),
        cover=np.full(n_items, -1, dtype=np.int32),
        asked=zeros(n_items),
        full=zeros(n_items),
        slot_item=zeros(n_items + 1),
        next_slot=zeros(n_items + 1),
        first_slot=zeros(n_people),
        load=zeros(n_people),
        mark=zeros(n_people),
        log=zeros(n_people),
        path_item=zeros(depth),
        path_slot=zeros(depth),
        path_edge=zeros(depth),
    )


@compiled
def raise_from_items(
    bound: int,
    n_covered: int,
    n_alive: int,
    phase: int,
    n_reads: int,
    budget: int,
    offsets: Int32s,
    people: Int32s,
    flow: FromItems,
) -> tuple[int, int, int, int]:
    """Let every person alive cover one item more if it helps.

    Returns n_covered, n_alive, phase and n_reads as they are now. If n_reads is above the budget,
    the bound may be unfinished, and of the flow only cover and load may be used.
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


@inlined
def _greedy_from_items(
    bound: int, n_covered: int, room: int, offsets: Int32s, people: Int32s, flow: FromItems
) -> tuple[int, int, int]:
    """Give each uncovered item to its first person with room; return n_covered, room, reads."""
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


@inlined
def _phase_from_items(  # noqa: PLR0912, PLR0915 - a call per search costs more than the search
    bound: int,
    n_covered: int,
    room: int,
    n_dead: int,
    phase: int,
    offsets: Int32s,
    people: Int32s,
    flow: FromItems,
) -> tuple[int, int, int, int, int]:
    """Search once from each uncovered item, meeting no one twice.

    A path runs: uncovered item, person, item held, person, item held, ..., person with room. Once
    found, it shifts: each person on it takes the item before and lets go of the item after.
    Returns n_covered, room, how many items may succeed in the next phase, n_dead, edges read.
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
                mark[person] = DEAD
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


@inlined
def _first_with_room(edge: int, end: int, bound: int, people: Int32s, flow: FromItems) -> int:
    while edge < end and flow.load[people[edge]] >= bound:
        edge += 1
    return edge


@inlined
def _hold(item: int, person: int, slot: int, flow: FromItems) -> None:
    """Put `item` into a new slot of `person`."""
    flow.slot_item[slot] = item
    flow.next_slot[slot] = flow.first_slot[person]
    flow.first_slot[person] = slot
    flow.load[person] += 1
    flow.cover[item] = person


@inlined
def _shift_items(
    depth: int, person: int, slot: int, offsets: Int32s, people: Int32s, flow: FromItems
) -> None:
    """Give the path's last item to `person`, and to each slot on the path the item before it."""
    _hold(flow.path_item[depth], person, slot, flow)
    for d in range(depth, 0, -1):
        item = flow.path_item[d - 1]
        flow.slot_item[flow.path_slot[d]] = item
        flow.cover[item] = people[offsets[item] + flow.path_edge[d - 1] - 1]


@inlined
def _close_gap(first: int, kept: int, here: int, flow: FromItems) -> None:
    """Move what a pass has kept, order[first:kept], up to where it stopped, order[..:here]."""
    for k in range(1, kept - first + 1):
        flow.order[here - k] = flow.order[kept - k]

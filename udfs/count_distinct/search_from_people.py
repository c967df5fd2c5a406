"""The search from people with room, on a list of items each: a graph kernel, see flow.md."""

from typing import NamedTuple

import numpy as np

from dp_sql.udfs.count_distinct.compiled import compiled, inlined
from dp_sql.udfs.count_distinct.graph import Graph, Int32s, by_size, lists_by_person, zeros
from dp_sql.udfs.count_distinct.search_from_items import DEAD, FromItems


class FromPeople(NamedTuple):
    """The flow as the search from people keeps it."""

    start: Int32s  # per person: where the list of items starts; no repetitions, rarest first
    stop: Int32s  # per person: where it ends
    items: Int32s
    cover: Int32s  # per item: who covers it, or -1
    full: Int32s  # per person: so many at the start of the list are covered, no matter by whom
    mark: Int32s  # per person: the last phase that met them, or DEAD
    alive: Int32s  # people who may still gain, those with room first
    log: Int32s  # the people marked DEAD by the running search
    path_person: Int32s  # the path being searched: its people,
    path_item: Int32s  # the items through which they were reached,
    path_edge: Int32s  # how much of each person's list has been followed


def turn_round(graph: Graph, flow: FromItems, bound: int) -> tuple[FromPeople, int, int]:
    """Hand over the flow, at any point of `bound`; return it, n_exposed, n_alive."""
    n_people = graph.n_people
    start, stop, items = lists_by_person(
        graph.offsets, graph.people, by_size(np.diff(graph.offsets)), n_people
    )
    people = by_size(stop - start)
    load = flow.load[people]
    exposed, saturated = people[load == bound - 1], people[load == bound]
    turned = FromPeople(
        start=start,
        stop=stop,
        items=items,
        cover=flow.cover,
        full=zeros(n_people),
        mark=np.where(flow.load < bound - 1, np.int32(DEAD), np.int32(0)),
        alive=np.concatenate((exposed, saturated)),
        log=zeros(n_people),
        path_person=zeros(n_people),
        path_item=zeros(n_people),
        path_edge=zeros(n_people),
    )
    return turned, exposed.size, turned.alive.size


@compiled
def raise_from_people(
    coverable: int, n_covered: int, n_exposed: int, n_alive: int, phase: int, flow: FromPeople
) -> tuple[int, int, int]:
    """Let each exposed person cover one item more if it helps; return n_covered, n_alive, phase."""
    n_covered, undecided = _greedy_from_people(coverable, n_covered, n_exposed, flow)
    while undecided > 0 and n_covered < coverable:
        phase += 1
        n_covered, undecided = _phase_from_people(coverable, n_covered, undecided, phase, flow)
    kept = 0
    for k in range(n_alive):
        person = flow.alive[k]
        if flow.mark[person] != DEAD:
            flow.alive[kept] = person
            kept += 1
    return n_covered, kept, phase


@inlined
def _greedy_from_people(
    coverable: int, n_covered: int, n_exposed: int, flow: FromPeople
) -> tuple[int, int]:
    """Give each exposed person the first uncovered item; put first in `alive` who found none."""
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


@inlined
def _phase_from_people(  # noqa: PLR0912, PLR0915 - as above
    coverable: int, n_covered: int, n_exposed: int, phase: int, flow: FromPeople
) -> tuple[int, int]:
    """Search once from each exposed person, meeting no one twice.

    A path runs: person with room, item, its holder, item, its holder, ..., uncovered item. Once
    found, it shifts: each person on it takes the item after and lets go of the item before.
    Returns n_covered; how many, now the first in `alive`, may succeed in the next phase.
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
            mark[root] = DEAD
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
                mark[person] = DEAD
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


@inlined
def _first_uncovered(person: int, flow: FromPeople) -> int:
    """Find where the list has its first uncovered item. Covered items stay so: never look back."""
    edge: int = flow.start[person] + flow.full[person]
    while edge < flow.stop[person] and flow.cover[flow.items[edge]] >= 0:
        edge += 1
    flow.full[person] = edge - flow.start[person]
    return edge

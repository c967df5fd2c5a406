"""F(l) for all bounds, exactly, from part of the edges. The proof is in partial.md.

A few people of each item are asked for first. A largest cover of these edges is a largest cover of
the whole graph if one of two things holds: all people are known of each item that alternating paths
from uncovered items reach, or all items are known of each person whom alternating paths from people
with room reach. What is missing is asked for, and the flow runs again. So which edges come first
changes the time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.count_distinct.dense_numbers import Numbered, Numbers
from dp_sql.udfs.count_distinct.flow import covers
from dp_sql.udfs.count_distinct.graph import (
    LIMIT,
    Graph,
    Int32s,
    Int64s,
    Integers,
    build_graph,
    zeros,
)
from dp_sql.udfs.count_distinct.kernels import library, lists_by_person

Bools = NDArray[np.bool_]

PEOPLE_PER_ITEM = 8
_FEW = 1 << 10  # where less than this part of the items is missing, no people are asked for
_PIECE = 1 << 23  # pairs; arrays of this size go back to the system when they are dropped
_NO_COVER = (0, zeros(0))
_TRIED = 16  # bounds that are tried first; then those at the places 32, 64, …


class Edges(Protocol):
    """Pairs of an item and a person who has it, as codes: any int64, the same in all answers."""

    @property
    def items(self) -> Any:
        """Codes of items, shape (edges,)."""

    @property
    def people(self) -> Any:
        """Codes of people, shape (edges,)."""

    @property
    def complete(self) -> Any:
        """Codes of items whose people have all come by now."""


Thin = Callable[[int], Iterable[Edges]]
"""thin(people_per_item): about so many people of each item and at least one, in pieces."""

Complete = Callable[[Int64s, Int64s], Iterable[Edges]]
"""complete(items, people): all pairs of these items and all pairs of these people, in pieces."""

Ending = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Groups:
    """Several graphs at once, which share no code of an item and none of a person."""

    n_groups: int
    of_items: Callable[[Int64s], Integers]  # the group of each of these items, from 0


@dataclass(frozen=True)
class PartialCounts:
    """F(l) for each bound, and what it took."""

    counts: Int64s  # shape (bounds,), or (groups, bounds)
    n_rounds: int  # calls of thin and complete
    n_edges: int  # pairs that came


def partial_cover_counts(
    thin: Thin,
    complete: Complete,
    bounds: Sequence[int],
    n_people: int | None = None,
    people_per_item: int = PEOPLE_PER_ITEM,
    groups: Groups | None = None,
    numbered: tuple[int, int] | None = None,
    ending: Ending = iter,
) -> PartialCounts:
    """Count the items that can be covered, as flow.max_cover_counts does of the whole graph.

    Args:
        thin: gives at least one pair of every item, and of every person if n_people is given.
        complete: gives all pairs of the items and of the people that it is asked for.
        bounds: increasing, at least 1 and below 2^31 - 1.
        n_people: how many people have an item, of all groups together; None: not known, and no
            people are asked for. Then nearly all pairs come where nearly everyone can cover as many
            items as a bound allows.
        people_per_item: what thin is asked for.
        groups: None if all is one graph.
        numbered: how many items and people there are, if their codes are 0, 1, 2, … already.
        ending: passes on what the flow yields for each bound; it may raise to end the flow early.

    Raises ValueError for other bounds or answers that are no pairs, and RuntimeError if the people
    of an item that was asked for have not all come, or more people came than there are.

    Privacy: none here. The counts are those of the whole graph, whatever the callables choose.
    """
    known = _Known(n_people, numbered)
    known.add(thin(people_per_item))
    counts, still, n_rounds = dict[int, Any](), tuple(bounds), 1
    while still:
        still, missing = _run(known, still, counts, groups, ending)
        if missing:
            items, people = _wanted(missing, known)
            known.add(complete(known.items.codes[items], known.people.codes[people]))
            known.came(items, people)
            n_rounds += 1
    found = np.array([counts[bound] for bound in bounds], np.int64)
    return PartialCounts(np.ascontiguousarray(found.T), n_rounds, known.n_edges)


@dataclass(frozen=True)
class _Missing:
    """What the proof of one count lacks: either is enough."""

    items: Int32s  # all that a higher bound lacks is among them
    people: Int32s | None  # all that a lower bound lacks is among them; None: they prove nothing


def _run(
    known: _Known, bounds: Sequence[int], counts: dict[int, Any], groups: Groups | None,
    ending: Ending,
) -> tuple[tuple[int, ...], list[_Missing]]:  # fmt: skip
    """Run the flow and write down the counts.

    Returns the bounds whose counts are not proved yet, and what they lack, for some of them.
    """
    search = _Search(known, known.take_graph())
    group_of = groups.of_items(known.items.codes) if groups else None
    above, below, missing = 0, LIMIT, list[_Missing]()
    (of, kept), known.cover = known.cover, _NO_COVER
    start = np.append(kept, np.full(known.items.size - kept.size, -1, np.int32))
    found = covers(search.graph, bounds, start if of == bounds[0] else None)
    for place, (bound, count, cover) in enumerate(ending(found)):
        counts[bound] = count
        if groups and group_of is not None:
            counts[bound] = np.bincount(group_of[cover >= 0], minlength=groups.n_groups)
        if bound > below or (place > _TRIED and place & (place - 1)):
            continue
        items = search.missing_items(cover, bound)
        people = search.missing_people(cover, bound) if _FEW * items.size > cover.size else None
        if items.size == 0:
            below = bound
        elif people is not None and people.size == 0:
            above, missing = bound, []
        else:
            if not missing:
                known.cover = bound, cover.copy()
            missing.append(_Missing(items, people))
    return tuple(bound for bound in bounds if above < bound < below), missing


def _wanted(missing: Sequence[_Missing], known: _Known) -> tuple[Int32s, Int32s]:
    """Choose what to ask for: people up to some bound and items from the next one on.

    How many pairs they have is not known here, so each counts by its share of all.
    """
    n_items, n_people = known.items.size, known.people.size
    found, least = (missing[0].items, zeros(0)), missing[0].items.size * n_people
    for one, following in zip(missing, (*missing[1:], None), strict=True):
        if one.people is None:
            break
        items = zeros(0) if following is None else following.items
        price = one.people.size * n_items + items.size * n_people
        if price < least:
            found, least = (items, one.people), price
    return found


class _Search:
    """Looks for what a cover of the known edges lacks to be one of all edges."""

    def __init__(self, known: _Known, graph: Graph) -> None:
        self.graph = graph
        self._known = known
        self._lists: tuple[Int32s, Int32s, Int32s] | None = None

    def missing_items(self, cover: Int32s, bound: int) -> Int32s:
        """Return the items that are reached from uncovered ones and are not complete."""
        graph = self.graph
        first, following = np.full(graph.n_people, -1, np.int32), zeros(graph.n_items)
        reached = zeros(graph.n_items)
        n_reached = library().reach_from_uncovered(
            graph.offsets, graph.people, graph.n_items, cover, bound, first, following, reached
        )
        return self._incomplete(reached, n_reached, self._known.complete_items)

    def missing_people(self, cover: Int32s, bound: int) -> Int32s | None:
        """Return the people who are reached from those with room and are not complete.

        None: not all people are known, so anyone else may have room.
        """
        graph = self.graph
        if self._known.n_people != graph.n_people:
            return None
        if self._lists is None:
            order = np.arange(graph.n_items, dtype=np.int32)
            self._lists = lists_by_person(graph.offsets, graph.people, order, graph.n_people)
        load, reached = zeros(graph.n_people), zeros(graph.n_people)
        n_reached = library().reach_from_room(
            *self._lists, graph.n_people, cover, graph.n_items, bound, load, reached
        )
        return self._incomplete(reached, n_reached, self._known.complete_people)

    def _incomplete(self, reached: Int32s, n_reached: int, complete: Bools) -> Int32s:
        if n_reached < 0:
            raise RuntimeError("the cover is not the largest of the known edges")
        reached = reached[:n_reached]
        return reached[~complete[reached]]


class _Known:
    """All pairs that have come; a pair may come more than once. Items and people have numbers."""

    def __init__(self, n_people: int | None, numbered: tuple[int, int] | None) -> None:
        self.n_people, self.n_edges = n_people, 0
        self.items: Numbers | Numbered = Numbered(numbered[0]) if numbered else Numbers()
        self.people: Numbers | Numbered = Numbered(numbered[1]) if numbered else Numbers()
        self.complete_items, self.complete_people = np.zeros((2, 0), np.bool_)
        self._pieces: list[tuple[Int32s, Int32s]] = []
        self._graph = build_graph(zeros(1), zeros(0))
        self.cover = _NO_COVER  # a bound, and a largest cover of the graph

    def add(self, answer: Iterable[Edges]) -> None:
        """Take an answer over, piece by piece."""
        loose = list[tuple[Int32s, Int32s]]()
        for piece in answer:
            items, people = self.items.of(piece.items), self.people.of(piece.people)
            if items.size != people.size:
                raise ValueError("an answer must have as many items as people")
            complete = self.items.of(piece.complete)
            self.complete_items = _grown(self.complete_items, self.items.size)
            self.complete_items[complete] = True
            self.n_edges += items.size
            loose.append((items, people))
            if sum(items.size for items, _ in loose) >= _PIECE:
                some, theirs = zip(*loose, strict=True)
                self._pieces.append((np.concatenate(some), np.concatenate(theirs)))
                loose.clear()
        self._pieces += loose
        self.complete_people = _grown(self.complete_people, self.people.size)
        if self.n_people is not None and self.people.size > self.n_people:
            raise RuntimeError("more people came than there are")
        if self.n_edges >= LIMIT:
            raise ValueError("there must be fewer than 2^31 - 1 pairs")

    def came(self, items: Int32s, people: Int32s) -> None:
        """Note that what was asked for has come."""
        if not self.complete_items[items].all():
            raise RuntimeError("the people of an item were asked for and have not all come")
        self.complete_people[people] = True

    def take_graph(self) -> Graph:
        """Make a graph of all pairs; the pieces that have come since the last one are dropped."""
        n_items, old = self.items.size, self._graph
        offsets = zeros(n_items + 1)
        sizes = offsets[1:]
        sizes[: old.n_items] = np.diff(old.offsets)
        for items, _ in self._pieces:
            library().count_pairs(items, items.size, sizes)
        np.cumsum(sizes, out=sizes)
        places, runs = sizes.copy(), np.empty(offsets[-1], np.int32)
        library().move_runs(old.offsets, old.people, old.n_items, places, runs)
        while self._pieces:
            items, people = self._pieces.pop()
            library().fill_runs(items, people, items.size, places, runs)
        self._graph = build_graph(offsets, runs)
        return self._graph


def _grown(flags: Bools, size: int) -> Bools:
    """Add flags that are not set."""
    return flags if size == flags.size else np.append(flags, np.zeros(size - flags.size, np.bool_))

"""F(l) for all bounds, exactly, from part of the edges. The proof is in partial.md.

A few people of each item are asked for first. After the flow, all people of each item must be
known that an alternating path from an uncovered item comes to; where they are not, they are asked
for, and the flow runs again. Which people come first changes the time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dp_sql.udfs.count_distinct.flow import covers
from dp_sql.udfs.count_distinct.graph import LIMIT, Graph, Int32s, Int64s, build_graph, zeros
from dp_sql.udfs.count_distinct.kernels import library

PEOPLE_PER_ITEM = 8
_SLICE = 1 << 20  # so many pairs are numbered at a time


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
        """Codes of items all of whose people are known now."""


Thin = Callable[[int], Iterable[Edges]]
"""thin(people_per_item): about so many people of each item and at least one, in pieces."""

Complete = Callable[[Int64s], Iterable[Edges]]
"""complete(items): all people of these items, in pieces."""


@dataclass(frozen=True)
class PartialCounts:
    """F(l) for each bound, and what it took."""

    counts: list[int]
    n_rounds: int  # calls of thin and complete
    n_edges: int  # pairs that came


def partial_cover_counts(
    thin: Thin,
    complete: Complete,
    bounds: Sequence[int],
    n_people: int | None = None,
    people_per_item: int = PEOPLE_PER_ITEM,
) -> PartialCounts:
    """Count the items that can be covered, as flow.max_cover_counts does of the whole graph.

    Args:
        thin: gives at least one pair of every item.
        complete: gives all pairs of the items that it is asked for.
        bounds: increasing, at least 1 and below 2^31 - 1.
        n_people: how many people have an item, or more; None: unknown. It saves a lot where all can
            cover as many items as the bound allows: then no item's people need be known.
        people_per_item: what thin is asked for first.

    Raises ValueError for other bounds or answers that are no pairs, and RuntimeError if the people
    of an item do not come, or more people come than there are.

    Privacy: none here. The counts are those of the whole graph, whatever the callables choose.
    """
    known, counts, still = _Known(), dict.fromkeys(bounds, 0), tuple(bounds)
    known.add(thin(people_per_item))
    n_rounds = 1
    while True:
        still, missing = _run(known, still, n_people, counts)
        if not still:
            return PartialCounts(list(counts.values()), n_rounds, known.n_edges)
        known.add(complete(known.items.codes(missing)))
        if not known.complete[missing].all():
            raise RuntimeError("all people of an item were asked for and did not come")
        n_rounds += 1


def _run(
    known: _Known, bounds: Sequence[int], n_people: int | None, counts: dict[int, int]
) -> tuple[tuple[int, ...], Int32s]:
    """Run the flow and write down the counts.

    Returns the bounds whose counts are not proved yet, and the items whose people must be known for
    the first of them, which include those of the others.
    """
    graph = known.graph()
    still: list[int] = []
    missing, proved = zeros(0), False
    for bound, count, cover in covers(graph, bounds):
        counts[bound] = count
        if n_people is not None and count > bound * n_people:
            raise RuntimeError("more people came than there are")
        if proved or count == bound * (n_people or 0):
            continue
        reached = _reached(graph, cover)
        lacking = reached[~known.complete[reached]]
        proved = lacking.size == 0
        if not proved:
            missing = missing if still else lacking
            still.append(bound)
    return tuple(still), missing


def _reached(graph: Graph, cover: Int32s) -> Int32s:
    """Find the items that an alternating path from an uncovered item comes to."""
    first = np.full(graph.n_people, -1, np.int32)
    following, reached = zeros(graph.n_items), zeros(graph.n_items)
    n_reached = library().reach_from_uncovered(
        graph.offsets, graph.people, graph.n_items, cover, first, following, reached
    )
    return reached[:n_reached]


class _Known:
    """All pairs that have come, and which items are complete. A pair may come more than once."""

    def __init__(self) -> None:
        self.items, self._people = _Numbers(), _Numbers()
        self.complete = np.zeros(0, np.bool_)
        self.n_edges = 0
        self._pieces: list[tuple[Int32s, Int32s]] = []

    def add(self, answer: Iterable[Edges]) -> None:
        """Take an answer over, piece by piece."""
        for piece in answer:
            items, people = self.items.of(piece.items), self._people.of(piece.people)
            if items.size != people.size:
                raise ValueError("items and people of an answer must be as many")
            complete = self.items.of(piece.complete)
            self.complete = np.append(
                self.complete, np.zeros(self.items.size - self.complete.size, np.bool_)
            )
            self.complete[complete] = True
            self._pieces.append((items, people))
            self.n_edges += items.size

    def graph(self) -> Graph:
        """Make a graph of all pairs."""
        if self.n_edges >= LIMIT:
            raise ValueError("there must be fewer than 2^31 - 1 pairs")
        ends = np.zeros(self.items.size + 1, np.int32)
        for items, _ in self._pieces:
            ends[1:] += np.bincount(items, minlength=self.items.size).astype(np.int32)
        offsets = np.cumsum(ends, dtype=np.int32)
        places, runs = offsets[1:].copy(), np.empty(self.n_edges, np.int32)
        for items, people in self._pieces:
            library().fill_runs(items, people, items.size, places, runs)
        return build_graph(offsets, runs)


class _Numbers:
    """Numbers for codes: 0, 1, 2, … in the order in which they are met."""

    def __init__(self) -> None:
        self._codes = np.zeros(0, np.int64)  # sorted
        self._numbers = zeros(0)  # of each of them

    @property
    def size(self) -> int:
        """How many there are."""
        return self._codes.size

    def of(self, codes: Any) -> Int32s:
        """Number these codes, those that are new too."""
        codes = np.asarray(codes)
        if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
            raise ValueError("codes must be a one-dimensional array of integers")
        numbers = np.empty(codes.size, np.int32)
        for start in range(0, codes.size, _SLICE):
            numbers[start : start + _SLICE] = self._of_slice(codes[start : start + _SLICE])
        return numbers

    def _of_slice(self, codes: Any) -> Int32s:
        values, inverse = np.unique(codes.astype(np.int64, copy=False), return_inverse=True)
        places = np.searchsorted(self._codes, values)
        numbers = np.append(self._numbers, np.int32(-1))[places]
        known = np.append(self._codes, 0)[places] == values
        known &= places < self.size
        new = ~known
        numbers[new] = np.arange(self.size, self.size + np.count_nonzero(new), dtype=np.int32)
        self._numbers = np.insert(self._numbers, places[new], numbers[new])
        self._codes = np.insert(self._codes, places[new], values[new])
        return numbers[inverse]

    def codes(self, numbers: Int32s) -> Int64s:
        """Return the codes of these numbers, sorted."""
        wanted = np.zeros(self.size, np.bool_)
        wanted[numbers] = True
        found: Int64s = self._codes[wanted[self._numbers]]
        return found

"""Who has which item, as codes: checked once, then read by every count. Whole numbers only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_ENDS = "offsets must start at 0 and end at the number of people entries"
LIMIT = 2**31 - 1  # sizes, codes and bounds stay below it, so that all arrays are int32


@dataclass(frozen=True, eq=False)
class Graph:
    """Who has which item: one run of person codes per item. Made by build_graph alone."""

    offsets: Int32s  # where each item's run starts, then where the last ends, shape (n_items + 1,)
    people: Int32s  # the runs, in a row; a person may appear in one run more than once
    n_items: int  # number of runs, empty ones included
    n_people: int  # the largest person code plus one


@dataclass(frozen=True, eq=False)
class Graphs(Sequence[tuple[Int32s, Int32s]]):
    """Graphs that share no item and no person, in one; as a sequence, offsets and people of each.

    The codes of each graph's people follow those of the one before. Made by pairs.py alone.
    """

    offsets: Int32s
    people: Int32s
    item_ends: Int64s  # 0, and where each graph's items end
    person_ends: Int64s  # 0, and where the codes of its people end

    def __len__(self) -> int:
        return self.item_ends.size - 1

    def __getitem__(self, which: Any) -> Any:
        own = range(len(self))[which]
        if isinstance(own, int):
            part = self._part(own, own + 1)
            return part.offsets, part.people
        return self._part(own.start, max(own.start, own.stop))

    @property
    def sizes(self) -> list[int]:
        """How long the arrays of each are together."""
        ends: Int64s = self.offsets[self.item_ends] + self.item_ends
        return [*map(int, np.diff(ends) + 1)]

    def whole(self) -> Graph:
        """All of them as one graph."""
        runs = [read_only(values) for values in (self.offsets, self.people)]
        return Graph(runs[0], runs[1], self.offsets.size - 1, int(self.person_ends[-1]))

    def _part(self, start: int, stop: int) -> "Graphs":
        items, people = self.item_ends[start : stop + 1], self.person_ends[start : stop + 1]
        offsets = self.offsets[items[0] : items[-1] + 1]
        runs = self.people[offsets[0] : offsets[-1]] - np.int32(people[0])
        return Graphs(offsets - offsets[0], runs, items - items[0], people - people[0])


def build_graph(offsets: Integers, people: Integers) -> Graph:
    """Check the input and take it over, without a copy if it is int32 already.

    Args:
        offsets: integers, shape (n_items + 1,), from 0 up to len(people), never falling.
        people: person codes in any order, integers >= 0 below 2^31 - 1, dense or nearly so: an
            unused code costs some bytes and a little time. A person counts once in each run.

    Raises ValueError if the input is anything else, or has 2^31 - 1 edges or more.
    """
    offsets, people = _checked(offsets, people)
    if offsets[0] != 0 or offsets[-1] != people.size:
        raise ValueError(_ENDS)
    if np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("offsets must never fall")
    n_people = int(people.max()) + 1 if people.size else 0
    if people.size and (people.min() < 0 or n_people > LIMIT):
        raise ValueError("person codes must be at least 0 and below 2^31 - 1")
    runs = [read_only(np.ascontiguousarray(values, np.int32)) for values in (offsets, people)]
    return Graph(runs[0], runs[1], offsets.size - 1, n_people)


def build_graphs(parts: Sequence[tuple[Integers, Integers]]) -> tuple[Graph, Int64s]:
    """Build one graph of several that share no item and no person, and where each one's items end.

    Raises ValueError as build_graph does, and if they have too many codes of people together.
    """
    if isinstance(parts, Graphs):
        return parts.whole(), parts.item_ends[1:]
    if len(parts) == 1:
        graph = build_graph(*parts[0])
        return graph, np.array([graph.n_items])
    checked = [_checked(*one) for one in parts]
    offsets, people = (join(values) for values in zip(*checked, strict=True))
    n_offsets, n_edges = (np.array([own.size for own in x]) for x in zip(*checked, strict=True))
    ends = np.cumsum(n_offsets)
    firsts, edges = ends - n_offsets, np.cumsum(n_edges)
    if offsets[firsts].any() or np.any(offsets[ends - 1] != n_edges):
        raise ValueError(_ENDS)
    n_people, some = np.zeros(len(parts), np.int64), n_edges > 0
    n_people[some] = np.maximum.reduceat(people, (edges - n_edges)[some]) + 1 if some.any() else 0
    if people.min(initial=0) < 0 or n_people.max() > LIMIT or n_people.sum() > LIMIT:
        raise ValueError("person codes must be at least 0 and below 2^31 - 1, of all together")
    offsets += np.repeat(edges - n_edges, n_offsets)
    people += np.repeat(np.cumsum(n_people) - n_people, n_edges)
    return build_graph(np.append(0, np.delete(offsets, firsts)), people), np.cumsum(n_offsets - 1)


def join(arrays: Iterable[Integers]) -> Int64s:
    """Write arrays of integers in one row."""
    return np.concatenate([*arrays], dtype=np.int64, casting="unsafe")


def _checked(offsets: Integers, people: Integers) -> tuple[Integers, Integers]:
    """Refuse what are not two vectors of integers, the first with an entry."""
    offsets, people = np.asarray(offsets), np.asarray(people)
    for name, values in (("offsets", offsets), ("people", people)):
        if values.ndim != 1 or (values.size > 0 and values.dtype.kind not in "iu"):
            raise ValueError(f"{name} must be a one-dimensional array of integers")
        if values.size >= LIMIT:
            raise ValueError(f"{name} must have fewer than 2^31 - 1 entries")
    if offsets.size == 0:
        raise ValueError(_ENDS)
    return offsets, people


def read_only(values: Int32s) -> Int32s:
    """View that cannot be written through."""
    view = values.view()
    view.flags.writeable = False
    return view


def zeros(size: int) -> Int32s:
    """Return so many zeros."""
    return np.zeros(size, dtype=np.int32)

"""Person-level distinct count by a greedy cover. The proofs are in greedy.md.

In each round every person in turn covers the first of their own items that is not yet covered. The
codes have to follow an order of values: with any other codes one person may move the count under
bound l by more than l, and the release would not be private.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.count_distinct.template import Ints, under_a_bound

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def cover_counts(offsets: Ints, people: Ints, bounds: Sequence[int]) -> list[int]:
    """Count the items covered after so many rounds. Not private without noise.

    Items are numbered in a fixed order of their values, such as that of their bytes, and people in
    a fixed order of theirs. Neither order may depend on anyone's rows.
    """
    from dp_sql.udfs.count_distinct.graph import build_graph, lists_by_person

    graph = build_graph(offsets, people)
    in_order = np.arange(graph.n_items, dtype=np.int32)
    start, stop, items = lists_by_person(graph.offsets, graph.people, in_order, graph.n_people)
    waiting = np.flatnonzero(start < stop).astype(np.int32)
    covered = np.zeros(graph.n_items, dtype=np.bool_)
    counts = np.zeros(max(bounds), dtype=np.int64)
    _compiled_rounds()(start, stop, items, waiting, covered, counts)
    return [int(counts[bound - 1]) for bound in bounds]


def _rounds(
    start: Int32s, stop: Int32s, items: Int32s, waiting: Int32s, covered: Bools, counts: Int64s
) -> None:
    """Run all rounds; counts[l - 1] becomes the number of items covered after round l.

    Each person's list of items, items[start:stop], is ascending without repetitions; start moves
    past covered items. `waiting` are the people with a list, ascending. At first none is covered.
    """
    n_covered, n_waiting = 0, waiting.size
    for done in range(counts.size):
        kept = 0
        for k in range(n_waiting):
            person = waiting[k]
            edge = start[person]
            while edge < stop[person] and covered[items[edge]]:
                edge += 1
            if edge < stop[person]:
                covered[items[edge]] = True
                n_covered += 1
                edge += 1
            if edge < stop[person]:
                waiting[kept] = person
                kept += 1
            start[person] = edge
        n_waiting = kept
        counts[done] = n_covered


@cache
def _compiled_rounds() -> Callable[..., Any]:
    """Compile the rounds, not before they are needed."""
    from dp_sql.udfs.count_distinct.compiled import compiled

    return compiled(_rounds)


GREEDY = under_a_bound(
    "greedy",
    "a contribution bound, then integer noise on the items covered greedily under it",
    cover_counts,
    "Knop and Steinke 2023, Algorithm 2; integer noise, see greedy.md.",
    ordered=True,
)

"""Distinct count by a greedy cover. The proofs are in greedy.md.

In each round every person in turn covers the first of their own items that is not yet covered. The
codes have to follow an order of values: with any other codes one person may move the count under
bound l by more than l, and the release would not be private.
"""

from collections.abc import Sequence
from ctypes import byref, c_int64

import numpy as np

from dp_sql.udfs.count_distinct.template import Ints, under_a_bound


def cover_counts(offsets: Ints, people: Ints, bounds: Sequence[int]) -> list[int]:
    """Count the items covered after so many rounds. Not private without noise.

    Items are numbered in a fixed order of their values, such as that of their bytes, and people in
    a fixed order of theirs. Neither order may depend on anyone's rows.
    """
    from dp_sql.udfs.count_distinct.graph import build_graph
    from dp_sql.udfs.count_distinct.kernels import library, lists_by_person

    graph = build_graph(offsets, people)
    in_order = np.arange(graph.n_items, dtype=np.int32)
    start, stop, items = lists_by_person(graph.offsets, graph.people, in_order, graph.n_people)
    waiting = np.flatnonzero(start < stop).astype(np.int32)
    covered = np.zeros(graph.n_items, dtype=np.bool_)
    n_waiting, n_covered, done, counts = waiting.size, c_int64(0), 0, []
    for bound in bounds:
        while done < bound and n_waiting > 0:
            n_waiting = library().greedy_round(
                start, stop, items, waiting, n_waiting, covered, byref(n_covered)
            )
            done += 1
        counts.append(n_covered.value)
    return counts


GREEDY = under_a_bound(
    "greedy",
    "a contribution bound, then integer noise on the items covered greedily under it",
    cover_counts,
    "Knop and Steinke 2023, Algorithm 2; integer noise, see greedy.md.",
    ordered=True,
)

"""How many items can be covered when each person covers at most l of them? F(l), for every l.

F(l) is the largest flow source -l-> people -1-> items -1-> sink. The bounds are visited upwards and
the flow is kept, so each bound only asks who can use one more item per person. The search from the
uncovered items runs first; ordinary data ends there. When it has read three times the input, the
search from the people with room takes over. The argument for each step is in flow.md.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dp_sql.udfs.count_distinct.graph import LIMIT, Graph, Int32s, Int64s, read_only
from dp_sql.udfs.count_distinct.search_from_items import raise_from_items, start_from_items
from dp_sql.udfs.count_distinct.search_from_people import FromPeople, raise_from_people, turn_round

_READS_PER_EDGE = 3  # what the search from items may read


def max_cover_counts(graph: Graph, bounds: Sequence[int]) -> Int64s:
    """Count the items that can be covered, for each of these bounds on the items per person.

    The bounds increase. Returns F(bounds[0]), F(bounds[1]), ..., shape (len(bounds),).
    Raises ValueError if a bound is below 1, or 2^31 - 1 or more.

    Privacy: none here. F(l) moves by at most l when all edges of one person come or go.
    """
    coverable = np.count_nonzero(np.diff(graph.offsets))
    asked = np.array(bounds)
    counts = np.full(asked.size, coverable, dtype=np.int64)
    for at, n_covered, _ in covers(graph, int(asked.max())):
        counts[np.searchsorted(asked, at) :] = n_covered
        if n_covered == coverable:
            break
    return counts


def covers(graph: Graph, max_bound: int) -> Iterator[tuple[int, int, Int32s]]:
    """Yield (bound, F(bound), cover) for each bound from 1 to max_bound.

    cover[i] is the person who covers item i, or -1; no one covers more than `bound` items. It is a
    read-only view of the flow at work: copy what you keep. Raises ValueError as above.
    """
    if not 1 <= max_bound < LIMIT:
        raise ValueError("max_bound must be at least 1 and below 2^31 - 1")
    return _covers(graph, max_bound)


def _covers(graph: Graph, max_bound: int) -> Iterator[tuple[int, int, Int32s]]:
    flow = start_from_items(graph)
    turned: FromPeople | None = None
    cover = read_only(flow.cover)
    coverable = flow.order.size
    budget = _READS_PER_EDGE * graph.people.size
    n_covered, n_alive, phase, n_reads = 0, graph.n_people, 0, 0
    for bound in range(1, max_bound + 1):
        if n_covered < coverable and turned is None:
            n_covered, n_alive, phase, n_reads = raise_from_items(
                bound, n_covered, n_alive, phase, n_reads, budget, graph.offsets, graph.people, flow
            )
            if n_covered < coverable and n_reads > budget:
                turned, n_exposed, n_alive = turn_round(graph, flow, bound)
                n_covered, n_alive, phase = raise_from_people(
                    coverable, n_covered, n_exposed, n_alive, 0, turned
                )
        elif n_covered < coverable and turned is not None:
            n_covered, n_alive, phase = raise_from_people(
                coverable, n_covered, n_alive, n_alive, phase, turned
            )
        yield bound, n_covered, cover

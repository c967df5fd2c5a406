"""Person-level distinct count by a greedy cover. Knows who holds which item, as codes in order.

Round after round, everybody in turn covers the first of their own items that nobody covers yet.
After l rounds nobody covers more than l, and the cover is at least half as large as the largest.
Proofs are in greedy.md, also of why the codes have to follow an order of values: with any other
codes one person may move the count by more than l, and the release would not be private.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def count_distinct(
    offsets: npt.NDArray[np.integer],
    people: npt.NDArray[np.integer],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: str | int,
) -> CountRelease:
    """Count, nearly, the items that at least one person holds.

    Args:
        offsets: item i is held by people[offsets[i]:offsets[i + 1]], shape (items + 1,). Items are
            numbered in a fixed order of their values, such as that of their bytes.
        people: codes of people, integers >= 0, shape (edges,), ascending in a fixed order of the
            values that they stand for. Neither order may depend on anybody's rows.
        epsilon: privacy loss, positive.
        beta: probability with which the lower bound may fail, in (0, 1/2).
        max_contributions: largest bound on items per person that is tried, >= 1, public.
        bound: how the bound is chosen, one of bounded.BOUND_SELECTIONS, or the bound itself, a
            public integer >= 1.

    Returns:
        The noisy count, its lower bound, and the bound that was used.

    Raises:
        TypeError: a public number of another type, floats among them.
        ValueError: an argument out of its range, or arrays that are no graph.

    Privacy: epsilon-DP under adding or removing one person with all items that the person
        holds, if the codes are in order as stated: epsilon/2 for the bound and epsilon/2 for the
        noise, or all for the noise where the bound is given.
    Source: Knop and Steinke 2023, Algorithm 2; integer noise, see greedy.md.
    """
    bounded.check_public(epsilon, beta, max_contributions, bound)
    cover = cover_counts(offsets, people, bounded.n_bounds(max_contributions, bound))
    return bounded.release(cover, epsilon, beta, bound, secret_draws())


def cover_counts(
    offsets: npt.NDArray[np.integer], people: npt.NDArray[np.integer], max_bound: int
) -> list[int]:
    """Count the items in the greedy cover after 1, ..., max_bound rounds.

    Privacy: none; these are what a release adds noise to.
    """
    from dp_sql.udfs.count_distinct.graph import build_graph, lists_by_person

    graph = build_graph(offsets, people)
    in_order = np.arange(graph.n_items, dtype=np.int32)
    start, stop, items = lists_by_person(graph.offsets, graph.people, in_order, graph.n_people)
    waiting = np.flatnonzero(start < stop).astype(np.int32)
    covered = np.zeros(graph.n_items, dtype=np.bool_)
    counts = np.zeros(max_bound, dtype=np.int64)
    _compiled_rounds()(start, stop, items, waiting, covered, counts)
    return [int(n) for n in counts]


def _rounds(
    start: Int32s,
    stop: Int32s,
    items: Int32s,
    waiting: Int32s,
    covered: npt.NDArray[np.bool_],
    counts: Int64s,
) -> None:
    """Play all rounds; counts[l - 1] becomes the number of items covered after round l.

    Args:
        start: where each person's list of items starts; moved on over what is covered.
        stop: where it ends.
        items: the lists, each ascending and without repetitions.
        waiting: the people with a list, ascending; whose list is used up is struck off.
        covered: which items are covered, none at first.
        counts: filled in.
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


GREEDY = Mechanism(
    name="greedy",
    function="count_distinct",
    samples="a contribution bound, then integer noise on the items covered greedily under it",
    parameters=("epsilon", "beta", "max_contributions", "bound"),
    loss=bounded.loss,
    run=count_distinct,
    accuracy=bounded.accuracy,
    ordered=True,
)

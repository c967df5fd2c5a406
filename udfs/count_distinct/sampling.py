"""Distinct count by sampling each person's items. The proofs are in sampling.md.

Each person keeps l of their items, chosen uniformly without replacement and without regard to
anyone else. One random order of each person's items serves all l.
"""

from collections.abc import Sequence

import numpy as np

from dp_sql.udfs.count_distinct.template import Ints, under_a_bound
from dp_sql.udfs.exact_sampling import Draws, secret_draws


def cover_counts(offsets: Ints, people: Ints, bounds: Sequence[int]) -> list[int]:
    """Count the items in samples of so many items each. Not private without noise."""
    counts = sampled_counts(offsets, people, max(bounds), secret_draws())
    return [counts[bound - 1] for bound in bounds]


def sampled_counts(offsets: Ints, people: Ints, max_bound: int, draws: Draws) -> list[int]:
    """Count items in the samples, each from the first bound on under which a person samples it."""
    from dp_sql.udfs.count_distinct.graph import build_graph
    from dp_sql.udfs.count_distinct.kernels import lists_by_person

    graph = build_graph(offsets, people)
    in_order = np.arange(graph.n_items, dtype=np.int32)
    start, stop, items = lists_by_person(graph.offsets, graph.people, in_order, graph.n_people)
    sizes = (stop - start).astype(np.int64)
    first = np.full(graph.n_items, max_bound, dtype=np.int64)
    n = int(sizes.sum())
    if n < items.size:  # close the gaps that repetitions have left between the lists
        items = items[np.arange(n) + np.repeat(start - (np.cumsum(sizes) - sizes), sizes)]
    np.minimum.at(first, items, draws.orders(sizes))
    counts: list[int] = np.cumsum(np.bincount(first, minlength=max_bound)[:max_bound]).tolist()
    return counts


SAMPLING = under_a_bound(
    "sampling",
    "items of each person, a contribution bound, then integer noise on the items sampled",
    cover_counts,
    "the baseline of Knop and Steinke 2023, section 4.2; the bound chosen as in their Algorithm 1, "
    "see sampling.md.",
)

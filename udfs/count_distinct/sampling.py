"""Person-level distinct count by sampling. Knows who holds which item, as codes; never the items.

Each person keeps l of their items, chosen uniformly without replacement and without regard to
anybody else: the common practice that the covers of matching and greedy are compared with. One
random order of each person's items serves all l. Proofs are in sampling.md.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import Mechanism


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
        offsets: item i is held by people[offsets[i]:offsets[i + 1]], shape (items + 1,).
        people: codes of people, integers >= 0, shape (edges,).
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
        holds: epsilon/2 for the bound and epsilon/2 for the noise, or all for the noise where
        the bound is given.
    Source: the baseline of Knop and Steinke 2023, section 4.2; the bound chosen as in their
        Algorithm 1, see sampling.md.
    """
    return _count_distinct(offsets, people, epsilon, beta, max_contributions, bound, secret_draws())


def _count_distinct(
    offsets: npt.NDArray[np.integer],
    people: npt.NDArray[np.integer],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: str | int,
    draws: Draws,
) -> CountRelease:
    bounded.check_public(epsilon, beta, max_contributions, bound)
    n_bounds = bounded.n_bounds(max_contributions, bound)
    counts = _sampled_counts(offsets, people, n_bounds, draws)
    return bounded.release(counts, epsilon, beta, bound, draws)


def cover_counts(
    offsets: npt.NDArray[np.integer], people: npt.NDArray[np.integer], max_bound: int
) -> list[int]:
    """Count the items in one sample each of 1, ..., max_bound items per person.

    Privacy: none; these are what a release adds noise to.
    """
    return _sampled_counts(offsets, people, max_bound, secret_draws())


def _sampled_counts(
    offsets: npt.NDArray[np.integer],
    people: npt.NDArray[np.integer],
    max_bound: int,
    draws: Draws,
) -> list[int]:
    """Count the items in the samples of 1, ..., max_bound items per person.

    An item is in them from the bound on at which the first of its people comes to it.
    """
    from dp_sql.udfs.count_distinct.graph import build_graph, lists_by_person

    graph = build_graph(offsets, people)
    in_order = np.arange(graph.n_items, dtype=np.int32)
    start, stop, items = lists_by_person(graph.offsets, graph.people, in_order, graph.n_people)
    sizes = (stop - start).astype(np.int64)
    first = np.full(graph.n_items, max_bound, dtype=np.int64)
    np.minimum.at(first, _in_a_row(items, start, sizes), draws.orders(sizes))
    found = np.bincount(first, minlength=max_bound)[:max_bound]
    return [int(n) for n in np.cumsum(found)]


def _in_a_row(
    items: npt.NDArray[np.int32], start: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Close the gaps that repetitions have left between the lists of items."""
    n = int(sizes.sum())
    if n == items.size:
        return items
    moved = start - (np.cumsum(sizes) - sizes)
    closed: npt.NDArray[np.int32] = items[np.arange(n) + np.repeat(moved, sizes)]
    return closed


SAMPLING = Mechanism(
    name="sampling",
    function="count_distinct",
    samples="items of each person, a contribution bound, then integer noise on the items sampled",
    parameters=("epsilon", "beta", "max_contributions", "bound"),
    loss=bounded.loss,
    run=count_distinct,
    accuracy=bounded.accuracy,
)

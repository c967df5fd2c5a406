"""Person-level distinct count. Knows who holds which item, as codes; never the items.

Bounds what each person may contribute, counts the most items that can be covered under that
bound (a maximum flow), and releases the count under one bound with noise. Proofs are in
matching.md.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import secret_draws
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

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person with all items that the person
        holds: epsilon/2 for the bound and epsilon/2 for the noise, or all for the noise where
        the bound is given.
    Source: Knop and Steinke 2023, Algorithm 1; integer noise, see matching.md.
    """
    bounded.check_public(epsilon, beta, max_contributions, bound)
    cover = cover_counts(offsets, people, bounded.n_bounds(max_contributions, bound))
    return bounded.release(cover, epsilon, beta, bound, secret_draws())


def cover_counts(
    offsets: npt.NDArray[np.integer], people: npt.NDArray[np.integer], max_bound: int
) -> list[int]:
    """Count the items that can be covered, for each bound 1, ..., max_bound on items per person.

    Privacy: none; these are what a release adds noise to.
    """
    from dp_sql.udfs.count_distinct.flow import max_cover_counts
    from dp_sql.udfs.count_distinct.graph import build_graph

    graph = build_graph(offsets, people)
    return [int(n) for n in max_cover_counts(graph, max_bound)]


MATCHING = Mechanism(
    name="matching",
    function="count_distinct",
    samples="a contribution bound, then integer noise on the most items covered under it",
    parameters=("epsilon", "beta", "max_contributions", "bound"),
    loss=bounded.loss,
    run=count_distinct,
    accuracy=bounded.accuracy,
)

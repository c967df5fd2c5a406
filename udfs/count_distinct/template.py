"""One template for every distinct count: checks, fresh randomness, one signature.

A count brings a function that counts items under each contribution bound. Every registered `run`
takes:

    offsets: item i is held by people[offsets[i]:offsets[i + 1]], shape (items + 1,).
    people: codes of people, integers >= 0, shape (edges,).
    epsilon: privacy loss, positive.
    beta: in (0, 1/2): probability with which the lower bound may fail; for a count from below,
        with which the estimate may exceed the true number.
    max_contributions: largest bound on items per person that is tried, >= 1, public.
    bound: where the mechanism has it: how the bound is chosen, one of its bound_selections, or the
        bound itself, a public integer >= 1.

It returns a CountRelease. It raises TypeError for a public number of another type, floats among
them, and ValueError for an argument out of its range or arrays that are not a graph.

Where the counts are the largest flows, `run_on_counts` takes these instead of the graph:

    counts: F(l) for each of `bounds`, shape (bounds,), wherever they were computed (partial.py).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from inspect import getdoc
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import BOUND_SELECTIONS, Mechanism, PrivacyLoss

Ints = NDArray[np.integer[Any]]

CoverCounts = Callable[[Ints, Ints, Sequence[int]], list[int]]
"""cover_counts(offsets, people, bounds): the items counted under each of these bounds on items per
person, which increase. One person moves the count under bound l by at most l."""

Release = Callable[[list[int], Fraction, Fraction, Draws], CountRelease]
"""release(cover, epsilon, beta, draws), where cover[l - 1] is the count under bound l."""


def under_a_bound(
    name: str,
    samples: str,
    cover_counts: CoverCounts,
    source: str,
    ordered: bool = False,
    selections: tuple[str, ...] = BOUND_SELECTIONS,
    by_flow: bool = False,
) -> Mechanism:
    """Register a count that chooses one contribution bound and adds noise in proportion to it.

    `selections` are the ways to choose that are private for its counts, the default first;
    `by_flow` says that the counts are the largest flows.
    """

    def bounds(
        epsilon: Fraction, beta: Fraction, max_contributions: int, bound: str | int
    ) -> Sequence[int]:
        bounded.check_public(epsilon, beta, max_contributions, bound, selections)
        return bounded.candidates(max_contributions, bound)

    def run_on_counts(
        counts: Sequence[int],
        epsilon: Fraction,
        beta: Fraction,
        max_contributions: int,
        bound: str | int,
    ) -> CountRelease:
        tried = bounds(epsilon, beta, max_contributions, bound)
        cover = _under_each(tried, counts)
        return bounded.release(cover, epsilon, beta, bound, secret_draws(), tried)

    def run(
        offsets: Ints,
        people: Ints,
        epsilon: Fraction,
        beta: Fraction,
        max_contributions: int,
        bound: str | int,
    ) -> CountRelease:
        public = (epsilon, beta, max_contributions, bound)
        return run_on_counts(cover_counts(offsets, people, bounds(*public)), *public)

    run.__doc__ = (
        run_on_counts.__doc__
    ) = f"""Count, nearly, the items that at least one person holds.

    Privacy: epsilon-DP under adding or removing one person with all items that the person holds
        {"(if the codes are in order, see greedy.md)" if ordered else ""}: epsilon/2 for the bound
        and epsilon/2 for the noise, or all for the noise where the bound is given.
    Source: {source}
    """
    given = ("epsilon", "beta", "max_contributions", "bound")
    loss, accuracy = bounded.loss, bounded.accuracy
    return Mechanism(
        name, "count_distinct", samples, given, loss, run, accuracy,
        ordered=ordered, bound_selections=selections, bounds=bounds if by_flow else None,
        run_on_counts=run_on_counts if by_flow else None,
    )  # fmt: skip


def from_below(
    name: str,
    samples: str,
    cover_counts: CoverCounts,
    release: Release,
    loss: Callable[[Fraction, Fraction, int], PrivacyLoss],
    accuracy: Callable[[Fraction, Fraction, int], str],
    bounds_up_to: Callable[[int], Sequence[int]] = lambda most: range(1, most + 1),
) -> Mechanism:
    """Register a count by the largest flows under several bounds.

    Its estimate is its lower bound, too. `bounds_up_to` lists the bounds that `release` looks at.
    """

    def bounds(epsilon: Fraction, beta: Fraction, max_contributions: int) -> Sequence[int]:
        bounded.check_public(epsilon, beta, max_contributions)
        return bounds_up_to(max_contributions)

    def run_on_counts(
        counts: Sequence[int], epsilon: Fraction, beta: Fraction, max_contributions: int
    ) -> CountRelease:
        tried = bounds(epsilon, beta, max_contributions)
        found = dict(zip(tried, _under_each(tried, counts), strict=True))
        cover = [found.get(bound, 0) for bound in range(1, max_contributions + 1)]
        return release(cover, epsilon, beta, secret_draws())

    def run(
        offsets: Ints, people: Ints, epsilon: Fraction, beta: Fraction, max_contributions: int
    ) -> CountRelease:
        public = (epsilon, beta, max_contributions)
        return run_on_counts(cover_counts(offsets, people, bounds(*public)), *public)

    run.__doc__ = run_on_counts.__doc__ = getdoc(release)
    given = ("epsilon", "beta", "max_contributions")
    return Mechanism(
        name, "count_distinct", samples, given, loss, run, accuracy,
        bounds=bounds, run_on_counts=run_on_counts,
    )  # fmt: skip


def _under_each(bounds: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Check that each bound has its count."""
    cover = [index(count) for count in counts]
    if len(cover) != len(bounds):
        raise ValueError("there must be one count for each of the bounds")
    return cover

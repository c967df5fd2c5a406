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

`run_each` runs on each of several graphs. Where the counts are the largest flows, `run_on_counts`
takes these instead:

    counts: F(l) of each graph for each of `bounds`, shape (graphs, bounds), wherever they were
        computed (partial.py).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, wraps
from inspect import getdoc
from itertools import chain
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.count_distinct.graph import Graphs
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import BOUND_SELECTIONS, Mechanism, PrivacyLoss, on_one
from dp_sql.udfs.slices import slices

Ints = NDArray[np.integer[Any]]

Counts = NDArray[np.int64]
Runs = tuple[Ints, Ints]
"""offsets and people of one graph."""

CoverCounts = Callable[[Ints, Ints, Sequence[int]], list[int]]
"""cover_counts(offsets, people, bounds): the items counted under each of these bounds on items per
person, which increase. One person moves the count under bound l by at most l."""

CoverCountsEach = Callable[[Sequence[Runs], Sequence[int]], Sequence[Sequence[int]] | Counts]
"""cover_counts_each(graphs, bounds): the same for each of several graphs, by largest flows, shape
(graphs, bounds)."""

ReleaseEach = Callable[
    [Sequence[Sequence[int]], Fraction, Fraction, int, Draws], list[CountRelease]
]
"""release_each(counts, epsilon, beta, max_contributions, draws), a list for each graph."""

_COUNTS, _EDGES = 1 << 20, 1 << 18  # of graphs that are taken at once


def under_a_bound(
    name: str,
    samples: str,
    cover_counts: CoverCounts,
    source: str,
    ordered: bool = False,
    selections: tuple[str, ...] = BOUND_SELECTIONS,
    cover_counts_each: CoverCountsEach | None = None,
) -> Mechanism:
    """Register a count that chooses one contribution bound and adds noise in proportion to it.

    `selections` are the ways to choose that are private for its counts, the default first;
    `cover_counts_each` is there if the counts are the largest flows.
    """
    by_flow = cover_counts_each is not None
    counts_each = cover_counts_each or partial(_one_by_one, cover_counts)

    def bounds(
        epsilon: Fraction, beta: Fraction, max_contributions: int, bound: str | int
    ) -> Sequence[int]:
        bounded.check_public(epsilon, beta, max_contributions, bound, selections)
        return bounded.candidates(max_contributions, bound)

    def run_on_counts(
        counts: Sequence[Sequence[int]], epsilon: Fraction, beta: Fraction, max_contributions: int,
        bound: str | int,
    ) -> Sequence[CountRelease]:  # fmt: skip
        tried = bounds(epsilon, beta, max_contributions, bound)
        covers = counts
        if not isinstance(counts, np.ndarray) or counts.shape[1:] != (len(tried),):
            covers = [_under_each(tried, one) for one in counts]
        if len(covers) == 0:
            return []
        return bounded.release_each(covers, epsilon, beta, bound, secret_draws(), tried)

    run_on_counts.__doc__ = _stated(source, ordered)
    run_each = _on_graphs(counts_each, bounds, run_on_counts)
    run = on_one(run_each, "offsets", "people")
    return Mechanism(
        name, "count_distinct", samples, bounded.loss, run, bounded.accuracy, ordered=ordered,
        bound_selections=selections, bounds=bounds if by_flow else None,
        run_on_counts=run_on_counts if by_flow else None, run_each=run_each,
    )  # fmt: skip


def _stated(source: str, ordered: bool) -> str:
    """Write what a release under a bound is, what it costs and where it comes from."""
    order = " (if the codes are in order, see greedy.md)" if ordered else ""
    return f"""Count, nearly, the items that at least one person holds.

    Privacy: epsilon-DP under adding or removing one person with all items that the person
        holds{order}: epsilon/2 for the bound and epsilon/2 for the noise, or all for the noise
        where the bound is given.
    Source: {source}
    """


def from_below(
    name: str,
    samples: str,
    cover_counts_each: CoverCountsEach,
    release_each: ReleaseEach,
    loss: Callable[[Fraction, Fraction, int], PrivacyLoss],
    accuracy: Callable[[Fraction, Fraction, int], str],
    bounds_up_to: Callable[[int], Sequence[int]] = lambda most: range(1, most + 1),
) -> Mechanism:
    """Register a count by the largest flows under several bounds, which `bounds_up_to` lists.

    Its estimate is its lower bound, too.
    """

    def bounds(epsilon: Fraction, beta: Fraction, max_contributions: int) -> Sequence[int]:
        bounded.check_public(epsilon, beta, max_contributions)
        return bounds_up_to(max_contributions)

    def run_on_counts(
        counts: Sequence[Sequence[int]], epsilon: Fraction, beta: Fraction, max_contributions: int
    ) -> list[CountRelease]:
        tried = bounds(epsilon, beta, max_contributions)
        each = [_under_each(tried, one) for one in counts]
        return release_each(each, epsilon, beta, max_contributions, secret_draws())

    run_on_counts.__doc__ = getdoc(release_each)
    run_each = _on_graphs(cover_counts_each, bounds, run_on_counts)
    run = on_one(run_each, "offsets", "people")
    return Mechanism(
        name, "count_distinct", samples, loss, run, accuracy,
        bounds=bounds, run_on_counts=run_on_counts, run_each=run_each,
    )  # fmt: skip


def _one_by_one(
    cover_counts: CoverCounts, graphs: Sequence[Runs], bounds: Sequence[int]
) -> list[list[int]]:
    return [cover_counts(*one, bounds) for one in graphs]


def _on_graphs(
    counts_each: CoverCountsEach,
    bounds: Callable[..., Sequence[int]],
    run_on_counts: Callable[..., Sequence[CountRelease]],
) -> Callable[..., Sequence[CountRelease]]:
    """Return `run_each`, which takes the same public numbers: small graphs are counted together."""

    @wraps(run_on_counts)
    def run_each(data: Sequence[Runs], *public: Any, **named: Any) -> Sequence[CountRelease]:
        tried, found = bounds(*public, **named), list[Sequence[CountRelease]]()
        sizes = data.sizes if isinstance(data, Graphs) else [len(a) + len(b) for a, b in data]
        n = max(1, _COUNTS // len(tried))
        for start in range(0, len(sizes), n):
            some, parts = data[start : start + n], slices(sizes[start : start + n], n, _EDGES)
            counts = [counts_each(some[part], tried) for part in parts]
            is_array = isinstance(counts[0], np.ndarray)
            whole = np.concatenate(counts) if is_array else [*chain.from_iterable(counts)]
            found.append(run_on_counts(whole, *public, **named))
        return found[0] if len(found) == 1 else [*chain.from_iterable(found)]

    return run_each


def _under_each(bounds: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Check that each bound has its count."""
    cover = [index(count) for count in counts]
    if len(cover) != len(bounds):
        raise ValueError("there must be one count for each of the bounds")
    return cover

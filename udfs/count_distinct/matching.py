"""Distinct count by a maximum flow. The proofs are in matching.md."""

from collections.abc import Sequence

from dp_sql.udfs.count_distinct.template import Ints, under_a_bound
from dp_sql.udfs.mechanism import BOUND_SELECTIONS, DIFFERENCE


def cover_counts(offsets: Ints, people: Ints, bounds: Sequence[int]) -> list[int]:
    """Count the items that can be covered under each bound. Not private without noise."""
    from dp_sql.udfs.count_distinct.flow import max_cover_counts
    from dp_sql.udfs.count_distinct.graph import build_graph

    counts: list[int] = max_cover_counts(build_graph(offsets, people), bounds).tolist()
    return counts


MATCHING = under_a_bound(
    "matching",
    "a contribution bound, then integer noise on the most items covered under it",
    cover_counts,
    "Knop and Steinke 2023, Algorithm 1; integer noise, see matching.md; the choice of the bound, "
    "see difference.md.",
    selections=(DIFFERENCE, *BOUND_SELECTIONS),
    by_flow=True,
)

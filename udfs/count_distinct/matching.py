"""Distinct count by a maximum flow. The proofs are in matching.md."""

from collections.abc import Sequence

from dp_sql.udfs.count_distinct.template import Counts, Ints, Runs, under_a_bound
from dp_sql.udfs.mechanism import BOUND_SELECTIONS, DIFFERENCE


def cover_counts(offsets: Ints, people: Ints, bounds: Sequence[int]) -> list[int]:
    """Count the items that can be covered under each bound. Not private without noise."""
    counts: list[int] = cover_counts_each([(offsets, people)], bounds)[0].tolist()
    return counts


def cover_counts_each(graphs: Sequence[Runs], bounds: Sequence[int]) -> Counts:
    """Count them in each of several graphs at once."""
    from dp_sql.udfs.count_distinct.flow import max_cover_counts_each
    from dp_sql.udfs.count_distinct.graph import build_graphs

    return max_cover_counts_each(*build_graphs(graphs), bounds)


MATCHING = under_a_bound(
    "matching",
    "a contribution bound, then integer noise on the most items covered under it",
    cover_counts,
    "Knop and Steinke 2023, Algorithm 1; integer noise, see matching.md; the choice of the bound, "
    "see difference.md.",
    selections=(DIFFERENCE, *BOUND_SELECTIONS),
    cover_counts_each=cover_counts_each,
)

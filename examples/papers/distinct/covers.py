"""How many items are covered when each person may cover so many? By each way of counting.

A cover is a list of counts, in step with Study.bounds. Three ways are the package's; the fourth is
the greedy way that the paper's tables agree with, which is not its Algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_sql.udfs.count_distinct import greedy, matching, sampling
from examples.papers.distinct.printed import GREEDY, MATCHING, MAX, PERCENTILE, SAMPLING, Table
from examples.papers.frame.sources import Graph, Source

ONE_PASS = "Greedy, one pass"
CURVE = 99
"""The figure of covers goes up to this bound."""
_WAYS = {MATCHING: matching, GREEDY: greedy, SAMPLING: sampling}


@dataclass(frozen=True)
class Study:
    """One data set of the paper, and the bounds under which it is counted."""

    source: Source
    table: Table

    @property
    def title(self) -> str:
        """What the paper calls the set, nearly."""
        return {"amazon_fashion_words": "Amazon Fashion", "imdb_words": "IMDb"}[self.source.name]

    @property
    def n_items(self) -> int:
        """The true number of distinct items."""
        return len(self.source.graph[0]) - 1

    @cached_property
    def fixed(self) -> dict[str, int]:
        """The bounds that are read off the data without privacy, by selection."""
        n_held = np.bincount(self.source.graph[1])
        return {MAX: int(n_held.max()), PERCENTILE: int(np.quantile(n_held, 0.9))}

    @cached_property
    def bounds(self) -> list[int]:
        """All bounds of the tables and the figure."""
        tabled = {self.fixed[row.selection] for row in self.table.rows if row.selection in _FIXED}
        return sorted(tabled.union(range(1, CURVE + 1)))

    @cached_property
    def covers(self) -> dict[str, list[int]]:
        """The covers that are always the same, by the way of counting."""
        return {way: self.cover(way) for way in (MATCHING, GREEDY)}

    def cover(self, way: str) -> list[int]:
        """Count by one of the package's three ways; by sampling, a new sample at each call."""
        counts: list[int] = _WAYS[way].cover_counts(*self.source.graph, self.bounds)
        return counts

    def one_pass(self) -> list[int]:
        """Count in one pass, with people in the file's order if it is the paper's, else in any."""
        offsets, people = self.source.graph
        if not self.table.same_order:
            people = np.random.default_rng().permutation(people.max() + 1)[people]
        return one_pass((offsets, people), self.bounds)


_FIXED = (MAX, PERCENTILE)


def one_pass(graph: Graph, bounds: Sequence[int]) -> list[int]:
    """Count greedily in one pass: people in turn cover all they may of what is still uncovered.

    Algorithm 2 of the paper goes round instead, and each person covers one item a round.

    Args:
        graph: (offsets, people), both in a fixed order.
        bounds: on items per person.

    Returns:
        The number of items covered under each bound.
    """
    offsets, people = graph
    held_by = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[
        np.argsort(people, kind="stable")
    ]
    ends = np.cumsum(np.bincount(people))
    covered = np.zeros((len(offsets) - 1, len(bounds)), dtype=bool)
    for items in np.split(held_by, ends[:-1]):
        taken = ~covered[items]
        taken &= np.cumsum(taken, axis=0, dtype=np.int32) <= bounds
        covered[items] |= taken
    return [int(n) for n in covered.sum(axis=0)]

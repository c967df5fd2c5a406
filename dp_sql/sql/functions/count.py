"""DP_COUNT: how many rows there are."""

from typing import Any, ClassVar

from dp_sql.sql import readers
from dp_sql.sql.functions.amount_sql import by_bucket
from dp_sql.sql.functions.bounded import WITH_NOISE, Bounded, integers
from dp_sql.sql.functions.chosen_limit import (
    MANY_GROUPS,
    RowsUnderChosenLimit,
    choice_for,
    if_stated,
)
from dp_sql.sql.functions.vectors import RowsOfGroups
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.ranges import MAX_ROWS_CONTRIBUTED
from dp_sql.sql.shape import Function, Summed
from dp_sql.udfs.mechanism import Mechanism


class Count(Bounded):
    """Takes a histogram of rows per person; returns one number."""

    registry = "count"
    columns: ClassVar = {**Bounded.columns, "item": readers.read_item_or_star}
    item_types = None
    counts_rows = takes_star = mixes_groups = True
    takes: ClassVar = {"__dp_buckets": "BIGINT[]", "__dp_numbers": "BIGINT[]",
                       "__dp_sums": "VARCHAR[]"}  # fmt: skip
    udfs: ClassVar = {"__dp_sql_count": "BIGINT", "__dp_sql_count_report": WITH_NOISE}
    keys = ("bucket",)
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    largest = open = MAX_ROWS_CONTRIBUTED
    in_memory = "values"

    def person_values(self) -> dict[str, str]:
        return {"__dp_contribution": "system.main.count(__dp_item)"}

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        return True

    def vector(self, n_groups: int | None = 0, drops_cap: bool = False) -> RowsOfGroups:
        if self.fixed_bound and (n_groups or 0) >= MANY_GROUPS:
            return RowsUnderChosenLimit(**vars(self) | if_stated(n_groups or 0, self.fixed_bound))
        if self.fixed_bound:
            return RowsOfGroups(**vars(self))
        return RowsUnderChosenLimit(**vars(self), choice=choice_for(n_groups))

    def summary(self, rows: MechanismRows) -> str:
        """A row for each bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n = "__dp_contribution"
        if self.bound is not None:
            n = f"system.main.least({n}, {self.bound})"
        return by_bucket(rows.group, rows.relation, n, n)

    def summed(self) -> Summed:
        return Summed("rows_by_size", (self.fixed_bound,))

    def data(self, mechanism: Mechanism, *lists: Any) -> tuple[Any, ...]:
        buckets, people, sums = lists
        return buckets, people, integers(sums)


DP_COUNT = Function(
    name="DP_COUNT", shape=Count, default_mechanism="bounded_count", purpose="the number of rows",
    positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "max_contributions", "mechanism",
           "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_COUNT(*, epsilon := 1.0, privacy_unit := user_id)", table="ratings",
    vectors=(RowsOfGroups, RowsUnderChosenLimit), distinct="DP_COUNT_DISTINCT",
    aggregates=("COUNT", "COUNT_STAR", "COUNT_IF", "COUNTIF", "COUNT_BIG", "ANON_COUNT"),
)  # fmt: skip

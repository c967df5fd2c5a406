"""DP_COUNT: how many rows there are."""

from __future__ import annotations

from typing import Any, ClassVar

from dp_sql.sql import literals
from dp_sql.sql.functions.bounded import WITH_NOISE, Bounded, RowsOfGroups, bucket
from dp_sql.sql.given import Given
from dp_sql.sql.ranges import MAX_ROWS_CONTRIBUTED
from dp_sql.sql.shape import Function, Rows
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss


class Count(Bounded):
    """Takes a histogram of rows per person; returns one number."""

    registry = "count"
    columns: ClassVar = {
        "item": literals.read_item_or_star,
        "privacy_unit": literals.read_reference,
    }
    item_types = None
    counts_rows = takes_star = True
    takes: ClassVar = {"__dp_buckets": "BIGINT[]", "__dp_numbers": "BIGINT[]",
                       "__dp_sums": "VARCHAR[]"}  # fmt: skip
    udfs: ClassVar = {"__dp_sql_count": "BIGINT", "__dp_sql_count_report": WITH_NOISE}
    written: ClassVar = ("BIGINT", WITH_NOISE)
    typed: ClassVar = ("NULL::BIGINT", f"NULL::{WITH_NOISE}")
    keys = ("bucket",)
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    largest = open = MAX_ROWS_CONTRIBUTED

    def of_person(self) -> dict[str, str]:
        return {"__dp_contribution": "system.main.count(__dp_item)"}

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        """Whether all groups have one bound that the call names."""
        return "contribution_bound" in given.arguments

    def vector(self) -> RowsOfGroups | None:
        return RowsOfGroups(**vars(self)) if isinstance(self.bound, int) else None

    def summary(self, rows: Rows) -> str:
        """A row for each bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n = "__dp_contribution"
        if self.bound is not None:
            n = f"system.main.least({n}, {self.bound})"
        sizes = (
            f"SELECT {rows.group}{n} AS n, system.main.count(*) AS people FROM {rows.relation} "
            f"GROUP BY {rows.group}n"
        )
        total = "system.main.sum(CAST(n AS HUGEINT) * people) AS total"
        return (
            f"SELECT {rows.group}{bucket('n')} AS bucket, "
            f"CAST(system.main.sum(people) AS BIGINT) AS people, {total} "
            f"FROM ({sizes}) AS sizes GROUP BY {rows.group}bucket"
        )

    def lists(self, rows: Rows) -> list[str]:
        return self.histogram(rows)

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        buckets, people, sums = lists
        listed = buckets.tolist(), people.tolist(), [*map(int, sums)]
        found = mechanism.run(*listed, **self.given_to(mechanism))
        return self.answer(found, loss), mechanism.accuracy(**self.given_to(mechanism))


DP_COUNT = Function(
    name="DP_COUNT", shape=Count, default_mechanism="bounded_count", purpose="how many rows",
    positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "max_contributions", "mechanism",
           "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_COUNT(*, epsilon := 1.0, privacy_unit := user_id)", table="ratings",
    vector=RowsOfGroups, distinct="DP_COUNT_DISTINCT",
)  # fmt: skip

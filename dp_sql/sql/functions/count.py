"""DP_COUNT: how many rows there are."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dp_sql.sql import readers
from dp_sql.sql.functions.amount_sql import bucket
from dp_sql.sql.functions.bounded import WITH_NOISE, Bounded, integers
from dp_sql.sql.functions.vectors import PeopleOfGroups, RowsOfGroups
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.ranges import MAX_ROWS_CONTRIBUTED
from dp_sql.sql.shape import EachGroup, Function, Summed
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism
from dp_sql.udfs.mixed import Mixed, mixed


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

    def vector(self) -> RowsOfGroups:
        shape = RowsOfGroups if isinstance(self.bound, int) else RowsUnderChosenLimit
        return shape(**vars(self))

    def summary(self, rows: MechanismRows) -> str:
        """A row for each bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n = "__dp_contribution"
        if self.bound is not None:
            n = f"system.main.least({n}, {self.bound})"
        return _by_bucket(rows.group, rows.relation, n, n)

    def summed(self) -> Summed:
        return Summed("rows_by_size", (self.fixed_bound,))

    def data(self, mechanism: Mechanism, *lists: Any) -> tuple[Any, ...]:
        buckets, people, sums = lists
        return buckets, people, integers(sums)


class RowsUnderChosenLimit(RowsOfGroups):
    """Takes people by their rows in each group and by their rows in all groups; chooses a limit.

    `side` says by what a row's bucket is: 0, the rows of people in the group; 1, their largest
    number of rows in a group; 2 and 3, their rows in all groups. Of 0 and 2 each person is in each
    of their groups, of 1 and 3 in one of them.
    """

    keys = ("side", "bucket")
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    takes: ClassVar = {"__dp_sides": "BIGINT[]", "__dp_buckets": "BIGINT[]",
                       "__dp_numbers": "BIGINT[]", "__dp_sums": "VARCHAR[]"}  # fmt: skip
    mixes_groups = True
    udfs: ClassVar = {"__dp_sql_rows_limit": "BIGINT", "__dp_sql_rows_limit_report": WITH_NOISE}

    @property
    def mechanism(self) -> Mechanism:
        return REGISTRY["group_rows"]["chosen_norm"]

    def summary(self, rows: MechanismRows) -> str:
        """A row for each side and bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n, person = "__dp_contribution", "__dp_privacy_unit"
        people = (
            f"SELECT {person}, system.main.arg_max(__dp_group, {n}) AS __dp_group, "
            f"system.main.max({n}) AS most, CAST(system.main.sum({n}) AS BIGINT) AS whole "
            f"FROM {rows.relation} GROUP BY {person}"
        )
        each = (
            f"SELECT __dp_rows.__dp_group, {n}, whole FROM {rows.relation} AS __dp_rows "
            f"JOIN __dp_whole USING ({person})"
        )
        sides = " UNION ALL ".join(
            f"SELECT __dp_group, {side} AS side, {by} AS own, {rows_of} AS n FROM {relation}"
            for side, (by, rows_of, relation) in enumerate(
                [(n, n, "__dp_each"), ("most", "most", "__dp_whole"), ("whole", n, "__dp_each"),
                 ("whole", "whole", "__dp_whole")]
            )
        )  # fmt: skip
        return (
            f"WITH __dp_whole AS MATERIALIZED ({people}), __dp_each AS MATERIALIZED ({each}) "
            + _by_bucket("__dp_group, side, ", f"({sides}) AS sides", "own", "n")
        )

    lists = Bounded.lists

    def summed(self) -> Summed:
        return Summed("rows_under_limit", pays=True)

    def noisy(self, mechanism: Mechanism, groups: EachGroup) -> tuple[Sequence[int], int, int, str]:
        from dp_sql.udfs.histogram.chosen_norm import accuracy_of

        of = mixed(groups, *self.takes)
        sides, buckets, people, totals = of.columns
        rows = Mixed(of.n, of.owners, (buckets, people, integers(totals)))
        each, most, each_by_total, whole = (rows.where(sides == side) for side in range(4))
        found = mechanism.run(
            each, most.columns, each_by_total, whole.columns, **self.mechanism_arguments(mechanism)
        )
        asked = of.n, self.epsilon, self.beta
        within, says = found.limit.within(*asked), accuracy_of(found.limit, *asked)
        return found.counts, found.limit.bound, within, says

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        return PeopleOfGroups.public_accuracy(self, mechanism, n_items)

    def error_bound(self, n_groups: int) -> None:
        return None

    def capped_error_bound(self, n_groups: int, cap: int) -> None:
        return None


def _by_bucket(keys: str, relation: str, own: str, n: str) -> str:
    """The people in each bucket of their `own` number, by keys, and the total of their `n`.

    People with equal numbers are counted first, because a bucket is slow to compute.
    """
    sizes = (
        f"SELECT {keys}{own} AS own, system.main.count(*) AS people, system.main.sum({n}) AS total "
        f"FROM {relation} GROUP BY {keys}{own}"
    )
    return (
        f"SELECT {keys}{bucket('own')} AS bucket, "
        "CAST(system.main.sum(people) AS BIGINT) AS people, "
        f"CAST(system.main.sum(total) AS HUGEINT) AS total FROM ({sizes}) AS sizes "
        f"GROUP BY {keys}bucket"
    )


DP_COUNT = Function(
    name="DP_COUNT", shape=Count, default_mechanism="bounded_count", purpose="the number of rows",
    positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "max_contributions", "mechanism",
           "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_COUNT(*, epsilon := 1.0, privacy_unit := user_id)", table="ratings",
    vector=RowsOfGroups, distinct="DP_COUNT_DISTINCT",
    aggregates=("COUNT", "COUNT_STAR", "COUNT_IF", "COUNTIF"),
)  # fmt: skip

"""DP_COUNT: how many rows there are."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

from dp_sql.sql import literals
from dp_sql.sql.functions.amount_sql import bucket
from dp_sql.sql.functions.bounded import WITH_NOISE, Bounded
from dp_sql.sql.functions.vectors import PeopleOfGroups, RowsOfGroups
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.ranges import MAX_ROWS_CONTRIBUTED
from dp_sql.sql.shape import Function
from dp_sql.udfs import REGISTRY
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
    macro_types: ClassVar = ("BIGINT", WITH_NOISE)
    macro_samples: ClassVar = ("NULL::BIGINT", f"NULL::{WITH_NOISE}")
    keys = ("bucket",)
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    largest = open = MAX_ROWS_CONTRIBUTED

    def person_values(self) -> dict[str, str]:
        return {"__dp_contribution": "system.main.count(__dp_item)"}

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        return True

    def vector(self) -> RowsOfGroups:
        shape = RowsOfGroups if isinstance(self.bound, int) else RowsUnderChosenBound
        return shape(**vars(self))

    def summary(self, rows: MechanismRows) -> str:
        """A row for each bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n = "__dp_contribution"
        if self.bound is not None:
            n = f"system.main.least({n}, {self.bound})"
        return _by_bucket(rows.group, n, rows.relation)

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        buckets, people, sums = lists
        listed = buckets.tolist(), people.tolist(), [*map(int, sums)]
        found = mechanism.run(*listed, **self.mechanism_arguments(mechanism))
        return self.answer(found, loss), mechanism.accuracy(**self.mechanism_arguments(mechanism))


class RowsUnderChosenBound(RowsOfGroups):
    """Takes people by their rows in each group, and by their largest number; chooses one bound.

    Of `side` 1 are people by that number, each in one of the groups where they have it.
    """

    keys = ("side", "bucket")
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    takes: ClassVar = {"__dp_sides": "BIGINT[]", "__dp_buckets": "BIGINT[]",
                       "__dp_numbers": "BIGINT[]", "__dp_sums": "VARCHAR[]"}  # fmt: skip
    udfs: ClassVar = {"__dp_sql_rows_bound": "BIGINT", "__dp_sql_rows_bound_report": WITH_NOISE}

    @property
    def mechanism(self) -> Mechanism:
        return REGISTRY["group_rows"]["k_norm_bound"]

    def summary(self, rows: MechanismRows) -> str:
        """A row for each side and bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n, relation = "__dp_contribution", rows.relation
        both = (
            f"SELECT __dp_group, 0 AS side, {n} FROM {relation} UNION ALL "
            f"SELECT system.main.arg_max(__dp_group, {n}) AS __dp_group, 1 AS side, "
            f"system.main.max({n}) AS {n} FROM {relation} GROUP BY __dp_privacy_unit"
        )
        return _by_bucket("__dp_group, side, ", n, f"({both}) AS both_sides")

    lists = Bounded.lists

    def noisy(self, mechanism: Mechanism, *lists: Sequence[Any]) -> tuple[Sequence[int], int, int]:
        from dp_sql.udfs.histogram.k_norm_bound import noise_share

        tables = [
            [*zip(*(one.tolist() for one in group[:3]), map(int, group[3]), strict=True)]
            for group in zip(*lists, strict=True)
        ]

        def of_side(side: int, rows: Sequence[tuple[int, ...]]) -> list[list[int]]:
            return [[row[i] for row in rows if row[0] == side] for i in (1, 2, 3)]

        groups, most = [of_side(0, rows) for rows in tables], of_side(1, [*chain(*tables)])
        numbers = self.mechanism_arguments(mechanism)
        noisy, bound = mechanism.run(groups, most, **numbers)
        return noisy, bound, self._within(len(groups), noise_share(**numbers), bound)

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        return PeopleOfGroups.public_accuracy(self, mechanism, n_items)

    def error_bound(self, n_groups: int) -> None:
        return None

    def capped_error_bound(self, n_groups: int, cap: int) -> None:
        return None


def _by_bucket(keys: str, n: str, relation: str) -> str:
    """The people and their total in each bucket of contributions `n`, by keys.

    People with equal contributions are counted first, because a bucket is slow to compute.
    """
    sizes = (
        f"SELECT {keys}{n} AS n, system.main.count(*) AS people FROM {relation} GROUP BY {keys}n"
    )
    return (
        f"SELECT {keys}{bucket('n')} AS bucket, CAST(system.main.sum(people) AS BIGINT) AS people, "
        f"system.main.sum(CAST(n AS HUGEINT) * people) AS total FROM ({sizes}) AS sizes "
        f"GROUP BY {keys}bucket"
    )


DP_COUNT = Function(
    name="DP_COUNT", shape=Count, default_mechanism="bounded_count", purpose="the number of rows",
    positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "max_contributions", "mechanism",
           "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_COUNT(*, epsilon := 1.0, privacy_unit := user_id)", table="ratings",
    vector=RowsOfGroups, distinct="DP_COUNT_DISTINCT",
)  # fmt: skip

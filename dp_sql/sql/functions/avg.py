"""DP_AVG: the mean of rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from dp_sql.sql.functions.amount_sql import (
    AMOUNT_TYPES,
    LARGEST_SUM,
    bucket,
    clamped,
    net_sum,
    scale_of,
)
from dp_sql.sql.functions.bounded import Bounded, integers
from dp_sql.sql.given import Argument, Given
from dp_sql.sql.grid import Grid
from dp_sql.sql.grid_arguments import check_written, grid_of
from dp_sql.sql.mechanism_rows import EMPTY_LIST, MechanismRows
from dp_sql.sql.ranges import MAX_ROWS_CONTRIBUTED
from dp_sql.sql.shape import EachGroup, Function, Summed
from dp_sql.udfs.mechanism import FRACTION_BITS, Mechanism, PrivacyLoss
from dp_sql.udfs.mixed import Mixed, mixed

REPORT_TYPE = """STRUCT(estimate DOUBLE, lower_bound DOUBLE, confidence DOUBLE, \
contribution_bound INTEGER, epsilon DOUBLE, noise DOUBLE)"""
_FEW = 1 << 31  # rows of one person; with more, a part of a unit is lost where products overflow
MEANS_UDF = "__dp_sql_means"
MEANS_TYPE = "STRUCT(code BIGINT, bucket BIGINT, people BIGINT, total VARCHAR)[]"
LAST = MAX_ROWS_CONTRIBUTED.bit_length() - 1  # the place of the largest bound on rows


@dataclass(frozen=True, kw_only=True)
class Avg(Bounded):
    """Takes histograms of rows per person, and of sums for each bound on them; returns a mean."""

    registry = "avg"
    item_types = AMOUNT_TYPES
    counts_rows = mixes_groups = True
    offer = "add report := true to get the noise with the answer"
    takes: ClassVar = {"__dp_codes": "BIGINT[]", "__dp_buckets": "BIGINT[]",
                       "__dp_numbers": "BIGINT[]", "__dp_sums": "VARCHAR[]"}  # fmt: skip
    udfs: ClassVar = {"__dp_sql_avg": "DOUBLE", "__dp_sql_avg_report": REPORT_TYPE}
    in_memory = "values"
    keys = ("code", "bucket")
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    largest = open = MAX_ROWS_CONTRIBUTED

    kind: str = "BIGINT"  # the item's type
    grid: Grid | None = None  # the public range of values, if one is stated, in units

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """Check that both ends are given, or none; they are read when the item's type is known."""
        if written := _written(given.arguments):
            check_written(written)
        for end in _ENDS - written.keys() if written else ():
            (other,) = written
            hint = "They are public: choose them without looking at the data."
            instead = [given.with_another(f"{end} := {_ENDS[end]}"), written[other].omitted()]
            message = f"DP_AVG takes lower and upper together: {end} is missing."
            raise written[other].refuse(message, hint, instead)
        return super().read(given, mechanism)

    @property
    def unit(self) -> int:
        """How many units make 1."""
        return int(10 ** scale_of(self.kind))

    def for_item(self, given: Mapping[str, Argument], item: str, kind: str) -> Self:
        written = _written(given)
        grid = grid_of("DP_AVG", given["item"], kind, written) if written else None
        return replace(self, kind=kind, grid=grid)

    @property
    def ends(self) -> tuple[int, int] | None:
        """The range in units."""
        return None if self.grid is None else (self.grid.lower, self.grid.upper)

    def column(self, name: str, sql: str, kind: str) -> str:
        """Within a range, an item is how many units it lies above the lower end."""
        if name != "item" or self.grid is None:
            return super().column(name, sql, kind)
        return self.grid.position(sql)

    def item_type(self, kind: str) -> str:
        return kind if self.grid is None else "BIGINT"

    def person_values(self) -> dict[str, str]:
        """How many rows a person has, and their net sum; of a range, in halves from its middle."""
        n, net = "system.main.count(__dp_item)", net_sum(self.item_type(self.kind))
        if self.grid is not None:
            total = "2 * CAST(system.main.sum(__dp_item) AS HUGEINT)"
            net = clamped(f"{total} - CAST({self.grid.n_steps} AS HUGEINT) * {n}", LARGEST_SUM)
        return {"__dp_n": n, "__dp_net": net}

    def summary(self, rows: MechanismRows) -> str:
        """A row for each bucket of rows (code -1), and of sums at each place (other codes).

        A code is 4 times the place, plus 2 where no one has more rows, plus 1 for sums below 0.
        """
        if not rows.in_parts:
            return self._in_memory(rows)
        own, most, kept = bucket("__dp_n"), "(CAST(1 AS BIGINT) << place)", "n"
        all_of_them = " WHEN place = own THEN whole"  # as ELSE; products of HUGEINTs are slow
        if self.bound is not None:
            own, most, all_of_them = "0", f"system.main.least(n, {self.bound})", ""
            kept = most
        people = (
            f"SELECT {rows.group}__dp_n AS n, {own} AS own, __dp_net < 0 AS negative, "
            f"system.main.abs(__dp_net) * {1 << FRACTION_BITS} AS whole FROM {rows.relation}"
        )
        # Of `whole` * most // n the large part is a product: DuckDB divides HUGEINT slowly.
        parts = f"SELECT *, whole // n AS part FROM ({people}) AS people"
        places = (
            f"SELECT {rows.group}n, own, negative, whole, part, CAST(CASE WHEN n < {_FEW} THEN "
            "whole - part * n ELSE 0 END AS BIGINT) AS rest, unnest(system.main.range(-1, "
            f"system.main.least(own, {LAST}) + 1)) AS place FROM ({parts}) AS parts"
        )
        sizes = (
            f"SELECT {rows.group}CASE WHEN place = -1 THEN -1 ELSE 4 * place + 2 * CAST(place = "
            "own AS BIGINT) + CAST(negative AS BIGINT) END AS code, CASE WHEN place = -1 THEN "
            f"CAST({kept} AS HUGEINT){all_of_them} ELSE part * {most} + rest * {most} // n END "
            f"AS size FROM ({places}) AS places"
        )
        return (
            f"SELECT {rows.group}code, {bucket('size')} AS bucket, system.main.count(*) AS people, "
            f"system.main.sum(size) AS total FROM ({sizes}) AS sizes "
            f"GROUP BY {rows.group}code, bucket HAVING total > 0"
        )

    def _in_memory(self, rows: MechanismRows) -> str:
        """The summary by a UDF, in a fraction of the time."""
        lists = ", ".join(
            f"coalesce(system.main.list({name}), {EMPTY_LIST})" for name in ("__dp_n", "__dp_net")
        )
        by = " GROUP BY __dp_group" if rows.grouped else ""
        summed = f"{MEANS_UDF}({lists}, {self.fixed_bound})"
        made = f"SELECT {rows.group}{summed} AS made FROM {rows.relation}{by}"
        entries = f"SELECT {rows.group}unnest(made) AS entry FROM ({made}) AS made"
        listed = ", ".join(
            f"system.main.struct_extract(entry, '{name}') AS {name}"
            for name in (*self.keys, *self.sums)
        )
        return f"SELECT {rows.group}{listed} FROM ({entries}) AS entries"

    def summed(self) -> Summed:
        steps = 0 if self.grid is None else self.grid.n_steps
        return Summed("means_by_size", (self.fixed_bound, LAST, steps), takes_sums=True)

    def shown(self, answer: Any, items: Sequence[Any], mechanism: Mechanism) -> Any:
        if self.detailed:
            return answer
        return None if math.isnan(answer) else repr(answer)

    def value(self, answer: str, rows: MechanismRows) -> str:
        """NULL in the place of NaN: a UDF returns no NULL."""
        return answer if self.detailed else f"system.main.nullif({answer}, CAST('nan' AS DOUBLE))"

    def data_of(self, mechanism: Mechanism, groups: EachGroup) -> EachGroup:
        from dp_sql.udfs.contributions.bounded_mean import Tables

        of = mixed(groups, *self.takes)
        codes, buckets, people, totals = of.columns
        columns = (codes >> 2, codes >> 1 & 1, buckets, people, integers(totals), codes & 1)
        both = Mixed(of.n, of.owners, columns)
        rows, entries = both.where(codes < 0), both.where(codes >= 0)
        return Tables(Mixed(of.n, rows.owners, rows.columns[2:5]), entries)

    def answers(self, found: Any, loss: PrivacyLoss) -> list[Any]:
        if self.detailed:
            return super().answers(found, loss)
        return [float("nan") if one is None else one[0] / one[1] for one in found.estimates()]

    def answer(self, found: Any, loss: PrivacyLoss) -> Any:
        return {
            "estimate": None if found.estimate is None else float(found.estimate),
            "lower_bound": None,
            "confidence": float(1 - self.beta),
            "contribution_bound": found.contribution_bound,
            "epsilon": float(loss.epsilon),
            "noise": None if found.noise is None else float(found.noise),
        }


_ENDS = {"lower": "0", "upper": "100"}
"""The ends of a range, and values to try."""


def _written(given: Mapping[str, Argument]) -> dict[str, Argument]:
    """The ends of a range as far as they are written."""
    return {end: given[end] for end in _ENDS if end in given}


DP_AVG = Function(
    name="DP_AVG", shape=Avg, default_mechanism="bounded_mean", purpose="the mean of a column",
    positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "lower", "upper", "max_contributions",
           "mechanism", "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_AVG(stars, epsilon := 1.0, privacy_unit := user_id)", table="ratings",
    aggregates=("AVG", "MEAN", "ANON_AVG"),
)  # fmt: skip

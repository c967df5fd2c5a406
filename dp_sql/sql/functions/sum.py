"""DP_SUM: what a column of integers or decimals adds up to.

A person's value is the net sum of their rows, in units of the last decimal place of the type.
Nothing overflows, whatever one person's rows hold: types of up to 64 bits add up within HUGEINT;
of wider ones, what is beyond 10^18 units is added up in halves of 64 bits, and a net sum beyond
2^126 units counts as 2^126.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from dp_sql.sql import readers
from dp_sql.sql.functions.amount_sql import AMOUNT_TYPES, bucket, clamped, constant, scale_of, units
from dp_sql.sql.functions.bounded import Bounded, integers
from dp_sql.sql.given import Argument, Given
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.ranges import DEFAULT_BETA
from dp_sql.sql.shape import Function, Summed
from dp_sql.sql.types import family, is_wide_decimal
from dp_sql.udfs.mechanism import Mechanism, in_words

_MOST = 1 << 126  # of one person, in units
_NEAR = 10**18  # units: so many times 10^19 rows fit a DECIMAL of 38 digits
_HALF = f"CAST('{1 << 64}' AS HUGEINT)"
_TEXTS = "estimate VARCHAR, lower_bound VARCHAR, confidence DOUBLE, contribution_bound VARCHAR"
_REPORT = f"STRUCT({_TEXTS}, epsilon DOUBLE, noise VARCHAR)"
# Has the type of an answer, for an item: DuckDB's sum of UHUGEINT alone would be a DOUBLE.
_NUMBER = "system.main.list_sum([CASE WHEN false THEN {0} END, 0::BIGINT])"


@dataclass(frozen=True, kw_only=True)
class Sum(Bounded):
    """Takes a histogram of the sizes of net sums; returns one number, as a string."""

    registry = "sum"
    item_types = AMOUNT_TYPES | {"UHUGEINT"}
    counts_rows = mixes_groups = grows_with_people = True
    offer = "add report := true to get its noise with the answer"
    takes: ClassVar = {"__dp_buckets": "BIGINT[]", "__dp_numbers": "BIGINT[]",
                       "__dp_sides": "BIGINT[]", "__dp_sums": "VARCHAR[]"}  # fmt: skip
    in_memory = "values"
    keys = ("side", "bucket")
    sums: ClassVar = {"people": "BIGINT", "high": "HUGEINT", "low": "HUGEINT"}
    udfs: ClassVar = {"__dp_sql_sum": "VARCHAR", "__dp_sql_sum_report": _REPORT}
    with_items: ClassVar = {
        "VARCHAR": _NUMBER,
        _REPORT: f"system.main.struct_pack(estimate := {_NUMBER}, lower_bound := {_NUMBER}, "
        f"confidence := 0::DOUBLE, contribution_bound := {_NUMBER}, epsilon := 0::DOUBLE, "
        f"noise := {_NUMBER})",
    }

    one_sided: bool  # whether it is public that no net sum is below 0
    fixed: Fraction | None  # the contribution bound, in the item's own unit
    kind: str = "BIGINT"  # of the item

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """Check the numbers, except what depends on the type of the item."""
        lower = given.optional("lower", readers.read_zero, None)
        return cls(
            epsilon=given.read("epsilon", readers.read_epsilon),
            beta=given.optional("beta", readers.read_beta, DEFAULT_BETA),
            detailed=given.optional("report", readers.read_boolean, False),
            fixed=given.optional("contribution_bound", readers.read_positive, None),
            max_contributions=_MOST, bound=None, one_sided=lower is not None,
        )  # fmt: skip

    def for_item(self, given: Mapping[str, Argument], item: str, kind: str) -> Self:
        bound, unit = None, Fraction(1, 10 ** scale_of(kind))
        if self.fixed is not None:
            argument, n_units = given["contribution_bound"], self.fixed / unit
            if n_units.denominator != 1:
                why = f"must be a multiple of {in_words(unit)}, as {item} is {kind}."
                instead = [argument.put(in_words(math.ceil(n_units) * unit))]
                raise argument.refuse(f"contribution_bound {why}", instead=instead)
            bound = int(n_units)
            if bound > _MOST:
                why = "must be at most 2^126 units of the last decimal place."
                raise argument.refuse(f"contribution_bound {why}")
        one_sided = self.one_sided or family(kind).startswith("U")
        return replace(self, bound=bound, one_sided=one_sided, kind=kind)

    @property
    def limited_by_policy(self) -> Mapping[str, Fraction | int | None]:
        """Policies limit contributions in rows and items, not in the units of a column."""
        return {**super().limited_by_policy, "max_contributions": None}

    @property
    def _is_wide(self) -> bool:
        return is_wide_decimal(self.kind) or family(self.kind) in {"HUGEINT", "UHUGEINT"}

    @property
    def total(self) -> str:
        high, low = (f"CAST({name} AS VARCHAR)" for name in ("high", "low"))
        return f"system.main.concat_ws(' ', {high}, {low})" if self._is_wide else low

    def value_type(self, types: Mapping[str, str]) -> str:
        number = f"DECIMAL(38,{scale_of(self.kind)})" if "DECIMAL" in self.kind else "HUGEINT"
        return self.udfs[self.udf].replace("VARCHAR", number)

    def person_values(self) -> Mapping[str, str]:
        if not self._is_wide:
            return {"__dp_net": "system.main.sum(__dp_item)"}
        kind, most, half = self.kind, constant(_NEAR, self.kind), 1 << 64
        low = "0" if family(kind) == "UHUGEINT" else f"-{most}"
        near = f"__dp_item BETWEEN CAST('{low}' AS {kind}) AND CAST('{most}' AS {kind})"
        sums = {"near": ("", "__dp_item", kind if "DECIMAL" in kind else "BIGINT")}
        integer = "UHUGEINT" if family(kind) == "UHUGEINT" else "HUGEINT"
        for name, sign in (("high", "//"), ("low", "%")):
            part = f"{units('__dp_item', kind)} {sign} CAST('{half}' AS {integer})"
            sums[name] = ("NOT ", part, "HUGEINT")
        return {
            f"__dp_{name}": f"system.main.sum(CASE WHEN {negated}({near}) "
            f"THEN CAST({value} AS {type_}) ELSE CAST(0 AS {type_}) END)"
            for name, (negated, value, type_) in sums.items()
        }

    def summary(self, rows: MechanismRows) -> str:
        """A row for each sign and bucket of sizes: 1, 2, 3 and 4, 5 to 8, …."""
        net = units("__dp_net", self.kind) if not self._is_wide else _wide(self.kind)
        size = "system.main.abs(net)"
        if self.bound is not None:
            size = f"system.main.least({size}, CAST('{self.bound}' AS HUGEINT))"
        nets = f"SELECT {rows.group}{net} AS net FROM {rows.relation}"
        sizes = (
            f"SELECT {rows.group}{size} AS n, CAST(net < 0 AS INTEGER) AS side "
            f"FROM ({nets}) AS nets WHERE net {'>' if self.one_sided else '<>'} 0"
        )
        high, low = "CAST(0 AS HUGEINT)", "n"
        if self._is_wide:
            high, low = (f"n {sign} {_HALF}" for sign in ("//", "%"))
        return (
            f"SELECT {rows.group}side, {bucket('n')} AS bucket, system.main.count(*) AS people, "
            f"system.main.sum({high}) AS high, system.main.sum({low}) AS low "
            f"FROM ({sizes}) AS sizes GROUP BY {rows.group}side, bucket"
        )

    def summed(self) -> Summed | None:
        made = Summed("sums_by_size", (self.fixed_bound, int(self.one_sided)), takes_sums=True)
        return None if self._is_wide else made

    def lists_of(self, summary: Mapping[str, Any]) -> list[Sequence[Any]]:
        return super().lists_of({**summary, "total": summary["low"]})

    def value(self, answer: str, rows: MechanismRows) -> str:
        return f"CAST({answer} AS {self.value_type(rows.types)})"

    def data(self, mechanism: Mechanism, *lists: Any) -> tuple[Any, ...]:
        buckets, people, sides, sums = lists
        if not self._is_wide:
            return buckets, people, integers(sums), sides
        halves = (map(int, text.split(" ")) for text in sums)
        return buckets, people, [(high << 64) + low for high, low in halves], sides

    def number(self, x: int) -> str:
        """Units of the last decimal place as a decimal that the type of the answer holds."""
        most = 10**38 - 1 if "DECIMAL" in self.kind else (1 << 127) - 1
        return constant(max(-most, min(x, most)), self.kind)


def _wide(kind: str) -> str:
    """Write a net sum from its parts: they fit HUGEINT whatever the rows are, and so does this."""
    near = units("__dp_near", kind)
    low = f"({near} + __dp_low)"
    high = clamped(f"__dp_high + {low} // {_HALF}", str(1 << 62))
    far = clamped(f"{high} * {_HALF} + {low} % {_HALF}", str(_MOST))
    return f"(CASE WHEN __dp_high = 0 AND __dp_low = 0 THEN {near} ELSE {far} END)"


DP_SUM = Function(
    name="DP_SUM", shape=Sum, default_mechanism="bounded_sum", positional=("item",),
    purpose="the sum of a column",
    named=("epsilon", "delta", "privacy_unit", "beta", "lower", "mechanism",
           "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_SUM(minutes, epsilon := 1.0, privacy_unit := user_id)", table="ratings",
    aggregates=("SUM", "ANON_SUM"),
)  # fmt: skip

"""DP_QUANTILE and DP_MEDIAN: the values below which given parts of all people's votes lie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from dp_sql.errors import InternalError
from dp_sql.sql import readers
from dp_sql.sql.given import Argument, Given
from dp_sql.sql.grid import Grid
from dp_sql.sql.grid_arguments import check_written, grid_of
from dp_sql.sql.mechanism_rows import GROUP_OF_EACH, MechanismRows
from dp_sql.sql.ranges import DEFAULT_BETA, MAX_QUANTILES
from dp_sql.sql.shape import EachGroup, Function, Shape, Summed
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words

WORD_UDF = "__dp_sql_word"
_ONE, _SEVERAL = "BIGINT", "BIGINT[]"
_BOUNDS = ("lower", "upper", "step")


@dataclass(frozen=True, kw_only=True)
class _Quantiles(Shape):
    """Takes the grid position of each person's vote; returns those of the quantiles.

    The vote is one of the person's rows: the one for which the smallest of as many random words
    was drawn. DuckDB calls the UDF of the words for each row, and keeps one row per person.
    """

    registry = "quantile"
    counts_rows = mixes_groups = True
    item_types = None  # checked with the bounds
    takes: ClassVar = {"__dp_votes": "BIGINT[]"}
    keys = ("__dp_vote",)
    needs: ClassVar = {
        "lower": (
            "lower := <value> (the smallest answer, a public number or date)",
            ("0", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00'"),
        ),
        "upper": (
            "upper := <value> (the largest answer)",
            ("100", "DATE '2026-12-31'", "TIMESTAMP '2026-12-31 23:59:59'"),
        ),
    }

    name: str
    quantiles: tuple[Fraction, ...]
    grid: Grid | None = None

    @classmethod
    def asked(cls, given: Given) -> tuple[tuple[Fraction, ...], bool]:
        """The quantiles of a call, and whether they are a list."""
        return (Fraction(1, 2),), False

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """The bounds are read when the column's type is known."""
        check_written({name: given.arguments[name] for name in _BOUNDS if name in given.arguments})
        quantiles, is_list = cls.asked(given)
        return cls(
            epsilon=given.read("epsilon", readers.read_epsilon),
            beta=given.optional("beta", readers.read_beta, DEFAULT_BETA),
            name=given.name, quantiles=quantiles, detailed=is_list,
        )  # fmt: skip

    def for_item(self, given: Mapping[str, Argument], item: str, kind: str) -> Self:
        """With the grid of the bounds in the item's type."""
        written = {name: given[name] for name in _BOUNDS if name in given}
        return replace(self, grid=grid_of(self.name, given["item"], kind, written))

    @property
    def n_steps(self) -> int:
        """How many steps the grid has."""
        return self._grid.n_steps

    @property
    def _grid(self) -> Grid:
        if self.grid is None:
            raise InternalError("The type of the item is not known yet.")
        return self.grid

    def release_key(self, mechanism: Mechanism) -> dict[str, Any]:
        return {**self.mechanism_arguments(mechanism), "grid": self._grid}

    def loss(self, mechanism: Mechanism) -> PrivacyLoss:
        """The loss of one run, which does not depend on the grid."""
        return mechanism.loss(self.quantiles, 0, self.epsilon)

    def value_type(self, types: Mapping[str, str]) -> str:
        return f"{types['item']}[]" if self.detailed else types["item"]

    def column(self, name: str, sql: str, kind: str) -> str:
        return self._grid.position(sql) if name == "item" else super().column(name, sql, kind)

    def item_type(self, kind: str) -> str:
        return "BIGINT"

    def person_values(self) -> Mapping[str, str]:
        return {"__dp_vote": f"system.main.arg_min(__dp_item, {WORD_UDF}(__dp_item))"}

    def summary(self, rows: MechanismRows) -> str:
        return f"SELECT {rows.group}__dp_vote FROM {rows.relation} WHERE __dp_vote IS NOT NULL"

    def lists(self, rows: MechanismRows) -> list[str]:
        votes = f"SELECT {rows.group}__dp_vote FROM {self.summary_in(rows)}"
        columns = {"__dp_votes": "__dp_vote"}
        columns |= {GROUP_OF_EACH: "__dp_group"} if rows.grouped else {}
        return [rows._replace(grouped=False).lists(votes, columns, "")]

    def summed(self) -> Summed:
        return Summed("votes_by_group", takes_votes=True)

    def lists_of(self, summary: Mapping[str, Any]) -> list[Sequence[Any]]:
        return [summary["votes"]]

    def value(self, answer: str, rows: MechanismRows) -> str:
        if not self.detailed:
            return self._grid.value(answer)
        return f"system.main.list_transform({answer}, lambda i: {self._grid.value('i')})"

    def draw_each(
        self, mechanism: Mechanism, loss: PrivacyLoss, groups: EachGroup
    ) -> tuple[list[Any], str]:
        answers = [*self.runs(mechanism, groups)]
        values = answers if self.detailed else [one for (one,) in answers]
        return values, self.public_accuracy(mechanism, None)

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str:
        return mechanism.accuracy(**self.mechanism_arguments(mechanism), beta=self.beta)


class Quantile(_Quantiles):
    """One quantile, or a list of them."""

    udfs: ClassVar = {"__dp_sql_quantile": _ONE, "__dp_sql_quantiles": _SEVERAL}
    detailed_by = "system.main.ends_with(system.main.typeof(q), ']')"
    with_items: ClassVar = {"VARCHAR": "{}", "VARCHAR[]": "[{}]"}

    @classmethod
    def asked(cls, given: Given) -> tuple[tuple[Fraction, ...], bool]:
        return given.read("q", _read_quantiles)

    @property
    def told_apart_by(self) -> tuple[Fraction, ...]:
        return self.quantiles


class Median(_Quantiles):
    """The quantile at 1/2."""

    udfs: ClassVar = {"__dp_sql_median": _ONE}
    with_items: ClassVar = {"VARCHAR": "{}"}


def _read_quantiles(argument: Argument, what: str) -> tuple[tuple[Fraction, ...], bool]:
    """A number between 0 and 1, or a list of up to MAX_QUANTILES of them."""
    parts = readers.elements(argument)
    if parts is None:
        return (_read_quantile(argument, what),), False
    if not 1 <= len(parts) <= MAX_QUANTILES:
        message = f"{what} takes a list of 1 to {MAX_QUANTILES} numbers."
        raise argument.refuse(message, "For example: [0.25, 0.5, 0.75]")
    return tuple(_read_quantile(part, what) for part in parts), True


def _read_quantile(argument: Argument, what: str) -> Fraction:
    value = readers.read_number(argument, what)
    if not 0 < value < 1:
        message = (
            f"{what} must lie between 0 and 1; at 0.9, 90 % of the votes lie below the answer."
        )
        hint = "The minimum and the maximum each belong to one person, so they are not released."
        nearest = Fraction(1 if value <= 0 else 99, 100)
        if 2 <= value < 100:
            nearest, hint = value / 100, ""
        raise argument.refuse(message, hint, [argument.put(in_words(nearest))])
    if value.denominator > 10**9:
        raise argument.refuse(f"{what} must have at most nine decimals.")
    return value


_NAMED = ("epsilon", "delta", "privacy_unit", "lower", "upper", "step", "mechanism", "beta",
          "groups", "max_groups_contributed")  # fmt: skip

DP_QUANTILE = Function(
    name="DP_QUANTILE", shape=Quantile, default_mechanism="recursive",
    purpose="quantiles of a column", positional=("item", "q"),
    named=_NAMED, table="sessions",
    example="DP_QUANTILE(minutes, [0.25, 0.5, 0.75], epsilon := 1.0, privacy_unit := user_id, "
            "lower := 0, upper := 600)",
    aggregates=("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "APPROX_QUANTILE", "PERCENTILE_CONT",
                "PERCENTILE_DISC", "PERCENTILE", "APPROX_PERCENTILE", "PERCENTILE_APPROX",
                "ANON_PERCENTILE_CONT"),
)  # fmt: skip

DP_MEDIAN = Function(
    name="DP_MEDIAN", shape=Median, default_mechanism="recursive", purpose="the median of a column",
    positional=("item",), named=_NAMED, table="sessions",
    example="DP_MEDIAN(minutes, epsilon := 1.0, privacy_unit := user_id, lower := 0, upper := 600)",
    aggregates=("MEDIAN",),
)  # fmt: skip

"""DP_SELECT: the best candidate of a table of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from dp_sql.errors import ArgumentError
from dp_sql.sql import readers
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import EMPTY_LIST, MechanismRows
from dp_sql.sql.ranges import DEFAULT_BETA
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.types import family
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss

_DOUBLE = "DOUBLE "


class Select(Shape):
    """Takes scores and sensitivities, as exact decimals; returns the place of a candidate, from 1.

    Candidates are in the order of their values, so that no place comes from the data.
    """

    registry = "select"
    columns: ClassVar = {
        "candidate": readers.read_reference,
        "score": readers.read_reference,
        "sensitivity": readers.read_column_or_number,
    }
    reads_people = False
    takes: ClassVar = {"__dp_scores": "VARCHAR[]", "__dp_sensitivities": "VARCHAR[]",
                       "__dp_different": "BIGINT"}  # fmt: skip
    udfs: ClassVar = {"__dp_sql_select": "BIGINT"}
    with_items: ClassVar = {"VARCHAR": "{}"}

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Select:
        beta = given.optional("beta", readers.read_beta, DEFAULT_BETA)
        return cls(epsilon=given.read("epsilon", readers.read_epsilon), beta=beta)

    def value_type(self, types: Mapping[str, str]) -> str:
        return types["candidate"]

    def column(self, name: str, sql: str, kind: str) -> str:
        """A number as a string, which is exact; the digits of a DOUBLE only say which it is."""
        if name == "candidate":
            return super().column(name, sql, kind)
        if family(kind) in {"FLOAT", "DOUBLE"}:
            return f"'{_DOUBLE}' || CAST(CAST({sql} AS DOUBLE) AS VARCHAR)"
        return f"CAST({sql} AS VARCHAR)"

    def lists(self, rows: MechanismRows) -> list[str]:
        lists = {"candidate": "candidates", "score": "scores", "sensitivity": "sensitivities"}
        listed = ", ".join(
            f"coalesce(system.main.list(__dp_{one} ORDER BY {rows.by('candidate')}), {EMPTY_LIST}) "
            f"AS __dp_{many}"
            for one, many in lists.items()
        )
        different = "system.main.count(DISTINCT __dp_candidate) AS __dp_different"
        grouped = " GROUP BY __dp_group" if rows.grouped else ""
        return [
            f"__dp_lists AS MATERIALIZED (SELECT {rows.group}{listed}, {different} "
            f"FROM {rows.relation}{grouped})"
        ]

    def value(self, answer: str, rows: MechanismRows) -> str:
        return f"system.main.list_extract(__dp_candidates, {answer})"

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[int, str]:
        scores, sensitivities = _fractions("score", lists[0]), _fractions("sensitivity", lists[1])
        if not sensitivities:
            raise ArgumentError("There is no candidate to choose.")
        if lists[2] != len(sensitivities):
            raise ArgumentError(
                "A candidate is NULL or occurs more than once; each has one score.",
                hint="SELECT candidate FROM … GROUP BY candidate HAVING count(*) > 1 finds it.",
            )
        if min(sensitivities) < 0:
            message = "A sensitivity is negative; it says how far one person moves a score."
            raise ArgumentError(message)
        place = mechanism.run(scores, sensitivities, **self.mechanism_arguments(mechanism)) + 1
        public = {**self.mechanism_arguments(mechanism), "beta": self.beta}
        return place, mechanism.accuracy(sensitivities, **public)


def _fractions(name: str, texts: Sequence[str]) -> list[Fraction]:
    """Exact numbers from strings as `Select.column` writes them."""
    try:
        return [
            Fraction(float(t.removeprefix(_DOUBLE)) if t.startswith(_DOUBLE) else t) for t in texts
        ]
    except (AttributeError, ValueError, OverflowError):
        raise ArgumentError(
            f"A {name} is NULL, infinite or NaN; nothing was released.",
            hint="Give such a candidate a public number in its place, in a subquery.",
        ) from None


DP_SELECT = Function(
    name="DP_SELECT", shape=Select, default_mechanism="pnf",
    purpose="the best candidate of a table of scores", table="scores",
    positional=("candidate", "score", "sensitivity"), named=("epsilon", "mechanism", "beta"),
    example="DP_SELECT(model, accuracy, sensitivity, epsilon := 1.0)",
)  # fmt: skip

"""DP_COUNT_DISTINCT: how many different items there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dp_sql.errors import InternalError
from dp_sql.sql import literals
from dp_sql.sql.functions.vectors import REPORT_TYPE, People
from dp_sql.sql.literals import Given
from dp_sql.sql.ranges import (
    DEFAULT_BETA,
    DEFAULT_MAX_CONTRIBUTIONS,
    MAX_CONTRIBUTIONS,
    OPEN_CONTRIBUTIONS,
)
from dp_sql.sql.shape import Function, Rows, Shape
from dp_sql.sql.tokens import folded
from dp_sql.udfs.count_distinct.bounded import BOUND_SELECTIONS, DIFFERENCE
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss

_COUNT, _REPORT = "__dp_sql_count_distinct", "__dp_sql_count_distinct_report"


@dataclass(frozen=True, kw_only=True)
class CountDistinct(Shape):
    """Takes the people of each item; returns one number."""

    registry = "count_distinct"
    columns: ClassVar = {"item": literals.read_expression, "privacy_unit": literals.read_reference}
    offer = "add report := true to get a lower bound with the answer"
    takes: ClassVar = {"__dp_pairs": "INTEGER[][]"}
    udfs: ClassVar = {_COUNT: "BIGINT", _REPORT: REPORT_TYPE}
    detail = "report"
    written: ClassVar = ("BIGINT", REPORT_TYPE)
    typed: ClassVar = ("NULL::BIGINT", f"NULL::{REPORT_TYPE}")

    bound: int | str  # the contribution bound, or how it is selected

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> CountDistinct:
        """Check that a fixed bound is not searched for as well, and that there are kernels."""
        from dp_sql.udfs.count_distinct.kernels import library

        try:
            library()
        except (ImportError, OSError) as error:  # said before anything is spent
            raise InternalError(f"Distinct items cannot be counted: {error}") from None
        taken = {"bound_selection": "bound", "contribution_bound": "bound"}
        given.check_taken(mechanism, {"max_contributions": "max_contributions", **taken})
        epsilon = given.read("epsilon", literals.read_epsilon)
        beta = given.optional("beta", literals.read_beta, DEFAULT_BETA)
        selections = mechanism.bound_selections or BOUND_SELECTIONS
        selection = literals.choice(selections, selections[0])
        bound: int | str = given.optional("bound_selection", selection, selections[0])
        contributions = literals.whole(MAX_CONTRIBUTIONS)
        default = OPEN_CONTRIBUTIONS if bound == DIFFERENCE else DEFAULT_MAX_CONTRIBUTIONS
        most = given.optional("max_contributions", contributions, default)
        bound = given.optional("contribution_bound", contributions, bound)
        report = given.optional("report", literals.read_boolean, False)
        for other in ("bound_selection", "max_contributions"):
            if "contribution_bound" in given.arguments and other in given.arguments:
                raise given.arguments["contribution_bound"].refuse(
                    "With a fixed contribution_bound nothing is searched, so "
                    f"{other} has no effect.",
                    f"Leave out one of contribution_bound and {other}.",
                )
        return cls(
            epsilon=epsilon, beta=beta, bound=bound, max_contributions=most, detailed=report,
            contributions_open="max_contributions" not in given.arguments,
        )  # fmt: skip

    @property
    def limited(self) -> Mapping[str, Fraction | int | None]:
        """Policies limit a fixed bound, or else the largest that the call names."""
        fixed = {"max_contributions": self.bound} if isinstance(self.bound, int) else {}
        return {**super().limited, **fixed}

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        """Whether the item looks like the privacy unit."""
        unit = given.arguments.get("privacy_unit")
        names = [one.tokens[-1].name for one in (given.arguments["item"], unit) if one] + [
            "user_id"
        ]
        return folded(names[0] or "") == folded(names[1] or "")

    def vector(self, mechanism: Mechanism, counts_people: bool) -> People | None:
        chosen = mechanism is not DP_COUNT_DISTINCT.mechanisms[DP_COUNT_DISTINCT.default_mechanism]
        if not counts_people or chosen or self.bound not in {1, DIFFERENCE}:
            return None
        return People(epsilon=self.epsilon, beta=self.beta, detailed=self.detailed)

    def value_type(self, types: Mapping[str, str]) -> str:
        return self.udfs[self.udf]

    def lists(self, rows: Rows) -> list[str]:
        ordered = rows.mechanism.ordered
        by_person = f"ORDER BY {rows.by('privacy_unit')}" if ordered else ""
        by_item = f" ORDER BY {rows.by('item')}" if ordered else ""
        return rows.pairs({"__dp_pairs": "people"}, by_item, by_person)

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        ((offsets, people),) = lists
        found = mechanism.run(offsets, people, **self.given_to(mechanism))
        accuracy = mechanism.accuracy(**self.given_to(mechanism))
        if not self.detailed:
            return found.estimate, accuracy
        return {
            "estimate": found.estimate,
            "lower_bound": found.lower_bound,
            "confidence": float(1 - self.beta),
            "contribution_bound": found.contribution_bound,
            "epsilon": float(loss.epsilon),
        }, accuracy

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str:
        return mechanism.accuracy(**self.given_to(mechanism))


DP_COUNT_DISTINCT = Function(
    name="DP_COUNT_DISTINCT", shape=CountDistinct, default_mechanism="matching",
    positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "max_contributions", "mechanism",
           "bound_selection", "contribution_bound", "report", "groups", "max_groups_contributed"),
    example="DP_COUNT_DISTINCT(word, epsilon := 1.0, privacy_unit := user_id)", table="reviews",
    vector=People,
)  # fmt: skip

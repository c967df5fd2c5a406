"""Counts of all groups by one draw: what functions become where people need no cap on groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dp_sql.sql.shape import Rows, Vector
from dp_sql.udfs.histogram import k_norm
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss

REPORT_TYPE = """STRUCT(estimate BIGINT, lower_bound BIGINT, confidence DOUBLE, \
contribution_bound INTEGER, epsilon DOUBLE)"""


@dataclass(frozen=True, kw_only=True)
class People(Vector):
    """Takes the number of people of each group; returns all of them with one vector of noise."""

    registry = "histogram"
    mechanism = k_norm.K_NORM
    columns: ClassVar = {}
    takes: ClassVar = {"__dp_n": "BIGINT"}
    udfs: ClassVar = {
        "__dp_sql_people_vector": "BIGINT",
        "__dp_sql_people_vector_report": REPORT_TYPE,
    }

    contribution_bound: int = 1

    def value_type(self, types: Mapping[str, str]) -> str:
        return self.udfs[self.udf]

    def lists(self, rows: Rows) -> list[str]:
        people = (
            f"SELECT {rows.group}system.main.count(DISTINCT __dp_privacy_unit) AS n "
            f"FROM {rows.relation} GROUP BY __dp_group"
        )
        return [
            "__dp_lists AS MATERIALIZED (SELECT __dp_group, coalesce(n, 0) AS __dp_n FROM "
            f"__dp_groups LEFT JOIN ({people}) AS counted USING (__dp_group))"
        ]

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        values, accuracy, _ = self.draw_groups(mechanism, loss, None, lists)
        return values[0], accuracy

    def draw_groups(
        self, mechanism: Mechanism, loss: PrivacyLoss, cap: int | None, *lists: Sequence[Any]
    ) -> tuple[list[Any], str, int]:
        (counts,) = lists
        noisy = mechanism.run(np.array(counts, np.int64), **self.given_to(mechanism))
        accuracy = str(self.public_accuracy(mechanism, len(counts)))
        if not self.detailed:
            return noisy, accuracy, 1
        within = self.error_bound(len(counts))
        report = {
            "confidence": float(1 - self.beta),
            "contribution_bound": self.contribution_bound,
            "epsilon": float(loss.epsilon),
        }
        answers = [{"estimate": x, "lower_bound": x - within, **report} for x in noisy]
        return answers, accuracy, 1

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        if n_items is None:
            return None
        return str(mechanism.accuracy(n_items, **self.given_to(mechanism), beta=self.beta))

    def all_within(self, mechanism: Mechanism, n_items: int | None) -> int | None:
        return None if n_items is None else self.error_bound(n_items)

    def error_bound(self, n_groups: int) -> int:
        return k_norm.within(n_groups, **self.given_to(self.mechanism), beta=self.beta)

    def capped_error_bound(self, n_groups: int, cap: int) -> int:
        each = self.given_to(self.mechanism) | {"epsilon": self.epsilon / cap}
        return k_norm.within(1, **each, beta=self.beta * Fraction(1, max(1, n_groups)))

"""Counts of all groups with one vector of noise: no person needs a cap on groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dp_sql.sql.functions.bounded import REPORT_TYPE, WITH_NOISE, People
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.shape import EachGroup, Summed, Vector
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss


@dataclass(frozen=True, kw_only=True)
class PeopleOfGroups(Vector, People):
    """Takes the number of people of each group; returns all of them with one vector of noise."""

    registry = "histogram"
    udfs: ClassVar = {"__dp_sql_people_vector": "BIGINT",
                      "__dp_sql_people_vector_report": REPORT_TYPE}  # fmt: skip

    bound: int

    @property
    def mechanism(self) -> Mechanism:
        return REGISTRY["histogram"]["k_norm"]

    def draw_groups(
        self, mechanism: Mechanism, loss: PrivacyLoss, cap: int | None, groups: EachGroup
    ) -> tuple[list[Any], str, int]:
        from dp_sql.udfs.contributions.release import Releases

        noisy, bound, within, says = self.noisy(mechanism, groups)
        releases = Releases([*noisy], [bound] * len(noisy), {bound: (within, within)})
        return self.answers(releases, loss), says, 1

    def noisy(self, mechanism: Mechanism, groups: EachGroup) -> tuple[Sequence[int], int, int, str]:
        """The answers, a person's bound, how far all are from what they count, and a sentence."""
        counts = [int(count) for (count,) in groups]
        noisy = mechanism.run(counts, **self.mechanism_arguments(mechanism))
        says = str(self.public_accuracy(mechanism, len(counts)))
        return noisy, self.bound, self._within(len(counts), self.epsilon, self.bound), says

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        if n_items is None:
            return None
        return str(
            mechanism.accuracy(n_items, **self.mechanism_arguments(mechanism), beta=self.beta)
        )

    def all_within(self, mechanism: Mechanism, n_items: int | None) -> int | None:
        return None if n_items is None else self.error_bound(n_items)

    def error_bound(self, n_groups: int) -> int | None:
        return self._within(n_groups, self.epsilon, self.bound)

    def capped_error_bound(self, n_groups: int, cap: int) -> int | None:
        each = self.beta * Fraction(1, max(1, n_groups))
        return self._within(1, self.epsilon / cap, self.bound, each)

    def _within(
        self, n_groups: int, epsilon: Fraction, bound: int, beta: Fraction | None = None
    ) -> int:
        from dp_sql.udfs.histogram import k_norm

        return k_norm.within(n_groups, epsilon, bound, beta or self.beta)


class RowsOfGroups(PeopleOfGroups):
    """Takes the rows of each group, of which each person adds at most `bound` to each."""

    counts_rows, counts_people = True, False
    udfs: ClassVar = {"__dp_sql_rows_vector": "BIGINT",
                      "__dp_sql_rows_vector_report": WITH_NOISE}  # fmt: skip

    def summary(self, rows: MechanismRows) -> str:
        return rows.total(f"system.main.sum(system.main.least(__dp_contribution, {self.bound}))")

    def summed(self) -> Summed:
        return Summed("rows_in_all", (self.bound,))

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        says = super().public_accuracy(mechanism, n_items)
        return says and self.with_bound(says)

    def with_bound(self, says: str) -> str:
        """A sentence on accuracy, with what a bound that the call fixes leaves out."""
        if not (self.counts_rows and self.fixed_bound):
            return says
        return f"{says}; a person's rows beyond {self.bound} in a group are not counted"

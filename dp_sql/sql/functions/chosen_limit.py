"""Counts of rows, or of people in many groups, under a limit that is chosen first."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dp_sql.sql.functions.amount_sql import by_bucket
from dp_sql.sql.functions.bounded import REPORT_TYPE, WITH_NOISE, Bounded, integers
from dp_sql.sql.functions.vectors import PeopleOfGroups, RowsOfGroups
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.shape import EachGroup, Summed
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism
from dp_sql.udfs.mixed import Mixed, mixed

# See udfs/histogram/chosen_norm.md, "Few groups" and "Constants".
FEW_GROUPS = 32
_MOST = Fraction(3, 8)  # of epsilon, for the choice
_IF_UNKNOWN = Fraction(1, 4)  # the same, where the groups are not known
_EXPONENT = 12  # twice that of exp(-6), the odds of a limit with twice the noise that is needed
_IF_STATED = 25  # the same, where the bound in each group is stated
MANY_GROUPS = 350  # in which a limit is chosen though this bound is stated


def choice_for(n_groups: int | None, exponent: int = _EXPONENT) -> Fraction:
    """The part of epsilon that goes to the choice of a limit; None: the groups are not known."""
    if n_groups is None:
        return _IF_UNKNOWN
    return min(_MOST, Fraction(exponent, n_groups + exponent))


def if_stated(n_groups: int, bound: int) -> dict[str, Any]:
    """The numbers of a limit that is chosen where a bound in each of many groups is stated."""
    choice = choice_for(n_groups, _IF_STATED)
    return {"max_contributions": bound, "choice": choice, "by_error": True}


@dataclass(frozen=True, kw_only=True)
class RowsUnderChosenLimit(RowsOfGroups):
    """Takes people by their rows in each group and by their rows in all groups; chooses a limit.

    `side` says by what a row's bucket is: 0, the rows of people in the group; 1, their largest
    number of rows in a group; 2 and 3, their rows in all groups. Of 0 and 2 each person is in each
    of their groups, of 1 and 3 in one of them. Of a person's rows in a group `fixed_bound` count,
    if there is one.
    """

    keys = ("side", "bucket")
    sums: ClassVar = {"people": "BIGINT", "total": "HUGEINT"}
    takes: ClassVar = {"__dp_sides": "BIGINT[]", "__dp_buckets": "BIGINT[]",
                       "__dp_numbers": "BIGINT[]", "__dp_sums": "VARCHAR[]"}  # fmt: skip
    mixes_groups = True
    udfs: ClassVar = {"__dp_sql_rows_limit": "BIGINT", "__dp_sql_rows_limit_report": WITH_NOISE}

    choice: Fraction  # the part of epsilon that goes to the choice
    few_groups: int = 0  # for which no limit is chosen
    by_error: bool = False  # whether a limit is chosen by its error; see chosen_norm

    @property
    def mechanism(self) -> Mechanism:
        return REGISTRY["group_rows"]["chosen_norm"]

    def summary(self, rows: MechanismRows) -> str:
        """A row for each side and bucket of contributions: 1, 2, 3 and 4, 5 to 8, …."""
        n, person, relation = "__dp_contribution", "__dp_privacy_unit", rows.relation
        if self.fixed_bound:
            least = f"system.main.least({n}, {self.fixed_bound})"
            relation = f"(SELECT __dp_group, {person}, {least} AS {n} FROM {relation})"
        people = (
            f"SELECT {person}, system.main.arg_max(__dp_group, {n}) AS __dp_group, "
            f"system.main.max({n}) AS most, CAST(system.main.sum({n}) AS BIGINT) AS whole "
            f"FROM {relation} AS __dp_rows GROUP BY {person}"
        )
        each = (
            f"SELECT __dp_rows.__dp_group, {n}, whole FROM {relation} AS __dp_rows "
            f"JOIN __dp_whole USING ({person})"
        )
        sides = " UNION ALL ".join(
            f"SELECT __dp_group, {side} AS side, {by} AS own, {rows_of} AS n FROM {table}"
            for side, (by, rows_of, table) in enumerate(
                [(n, n, "__dp_each"), ("most", "most", "__dp_whole"), ("whole", n, "__dp_each"),
                 ("whole", "whole", "__dp_whole")]
            )
        )  # fmt: skip
        return (
            f"WITH __dp_whole AS MATERIALIZED ({people}), __dp_each AS MATERIALIZED ({each}) "
            + by_bucket("__dp_group, side, ", f"({sides}) AS sides", "own", "n")
        )

    lists = Bounded.lists

    def summed(self) -> Summed:
        return Summed("rows_under_limit", (self.fixed_bound,), pays=True)

    def release_key(self, mechanism: Mechanism) -> dict[str, Any]:
        # Without what was always so when answers that are stored were drawn.
        before = {"few_groups": 0, "choice": Fraction(3, 8), "by_error": False}.items()
        numbers = self.mechanism_arguments(mechanism)
        return {name: x for name, x in numbers.items() if (name, x) not in before}

    def noisy(self, mechanism: Mechanism, groups: EachGroup) -> tuple[Sequence[int], int, int, str]:
        from dp_sql.udfs.histogram.chosen_norm import accuracy_of

        of = mixed(groups, *self.takes)
        sides, buckets, people, totals = of.columns
        rows = Mixed(of.n, of.owners, (buckets, people, integers(totals)))
        each, most, each_by_total, whole = (rows.where(sides == side) for side in range(4))
        found = mechanism.run(
            each, most.columns, each_by_total, whole.columns, **self.mechanism_arguments(mechanism)
        )
        says = self.with_bound(accuracy_of(found, self.epsilon, self.beta))
        return found.counts, found.limit.bound, found.within(self.beta), says

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        says = PeopleOfGroups.public_accuracy(self, mechanism, n_items)
        return says and self.with_bound(says)

    def error_bound(self, n_groups: int) -> None:
        return None

    def capped_error_bound(self, n_groups: int, cap: int) -> None:
        return None


class PeopleUnderChosenLimit(RowsUnderChosenLimit):
    """The same of people, each of whom has one row in each of their groups: `bound` is 1."""

    counts_rows, counts_people = False, True
    udfs: ClassVar = {"__dp_sql_people_limit": "BIGINT",
                      "__dp_sql_people_limit_report": REPORT_TYPE}  # fmt: skip

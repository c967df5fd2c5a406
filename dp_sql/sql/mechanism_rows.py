"""The rows of a call as SQL: the lists, totals and pairs that a mechanism takes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dp_sql.sql.types import FIT_BIGINT, by_value, family
from dp_sql.udfs.mechanism import Mechanism


class MechanismRows(NamedTuple):
    """The relation from which a shape makes the lists that a mechanism takes.

    It has a column `__dp_<name>` for each column of the call, and `__dp_group` if it is grouped;
    then `__dp_groups` has all groups, and there is a list per group.
    """

    relation: str
    types: Mapping[str, str]  # of each column of the call, by its name
    mechanism: Mechanism
    domain: str | None  # SQL that lists the public items once, as `item`; None: those in the rows
    grouped: bool
    # Whether one execution may make the lists more than once; then their order must not depend on
    # the order in which DuckDB reads rows.
    again: bool
    # The relation that holds the summary of all rows, merged; None: it is computed from `relation`.
    merged: str | None = None
    in_parts: bool = False  # whether `relation` is a part of the rows, where there are no UDFs

    def by(self, name: str) -> str:
        """The order of a column's values, which no row moves."""
        return by_value(f"__dp_{name}", self.types[name])

    @property
    def group(self) -> str:
        """`__dp_group` in front of other columns, where there are groups."""
        return "__dp_group, " if self.grouped else ""

    def lists(self, source: str, columns: Mapping[str, str], order: str) -> str:
        """The CTE `__dp_lists`: columns of the SELECT `source`, in one row or one row per group.

        `columns` names each list and the column in it; the last one is never NULL.
        """
        present = f" FILTER (WHERE {[*columns.values()][-1]} IS NOT NULL)" if self.grouped else ""
        listed = ", ".join(
            f"coalesce(system.main.list({column}{order}){present}, {EMPTY_LIST}) AS {name}"
            for name, column in columns.items()
        )
        if not self.grouped:
            return f"__dp_lists AS (SELECT {listed} FROM ({source}) AS listed)"
        return (
            f"__dp_lists AS MATERIALIZED (SELECT __dp_group, {listed} FROM __dp_groups "
            f"LEFT JOIN ({source}) AS listed USING (__dp_group) GROUP BY __dp_group)"
        )

    def total(self, number: str) -> str:
        """A summary that is one number: an aggregate over the rows, as `__dp_number`."""
        by = " GROUP BY __dp_group" if self.grouped else ""
        return f"SELECT {self.group}{number} AS __dp_number FROM {self.relation}{by}"

    def totals(self, summary: str) -> str:
        """The CTE `__dp_lists` of such a summary; what a BIGINT cannot hold is its largest."""
        number = f"system.main.least(coalesce(__dp_number, 0), {(1 << 63) - 1})"
        number = f"CAST({number} AS BIGINT) AS __dp_number"
        if not self.grouped:
            return f"__dp_lists AS (SELECT {number} FROM {summary})"
        return (
            f"__dp_lists AS MATERIALIZED (SELECT __dp_group, {number} FROM __dp_groups "
            f"LEFT JOIN {summary} USING (__dp_group))"
        )

    def pairs(self, *, listed: bool = False, ordered: bool = False) -> list[str]:
        """The CTEs up to `__dp_lists`, which has `__dp_pairs`: codes of an item and of a person.

        The codes of the items are 0, 1, 2, … in each group. `listed`: `__dp_items` has the items in
        the order of their codes. `ordered`: codes follow the order of the values.
        """
        keys, of_each = f"{self.group}__dp_item", " GROUP BY __dp_group" if self.grouped else ""
        apart = "PARTITION BY __dp_group " if self.grouped else ""
        sorted_items = ordered or self.again or self.grouped
        by_item = f"ORDER BY {self.by('item')}" if sorted_items else ""
        by_person = f"ORDER BY {self.by('privacy_unit')}" if ordered else ""
        kind = self.types["privacy_unit"]
        ctes, person, joined = people_codes(self.relation, kind, by_person)
        lists = {
            "__dp_pairs": f"SELECT {self.group}system.main.list({pair('code', person)}) AS "
            f"__dp_pairs FROM {self.relation} JOIN __dp_codes USING ({keys}){joined}{of_each}"
        }
        if listed:
            own = f"SELECT {self.group}system.main.list(__dp_item ORDER BY code ASC) AS __dp_items"
            lists["__dp_items"] = f"{own} FROM __dp_codes{of_each}"
        columns = ", ".join(f"coalesce({name}, {EMPTY_LIST}) AS {name}" for name in lists)
        relations = [f"({select}) AS of_{name}" for name, select in lists.items()]
        made = f"SELECT {self.group}{columns} FROM "
        if self.grouped:
            joins = [f" LEFT JOIN {one} USING (__dp_group)" for one in relations]
            made = f"MATERIALIZED ({made}__dp_groups{''.join(joins)})"
        else:
            made = f"({made}{', '.join(relations)})"
        return [
            f"__dp_codes AS MATERIALIZED (SELECT {keys}, CAST({from_zero(apart + by_item)} AS "
            f"INTEGER) AS code FROM (SELECT DISTINCT {keys} FROM {self.relation}) AS items)",
            *ctes,
            f"__dp_lists AS {made}",
        ]


EMPTY_LIST = "system.main.list_value()"
GROUP_OF_EACH = "__dp_group_of_each"  # in mixed lists, the number of the group of each entry
PAIRS = "STRUCT(item INTEGER, person BIGINT)[]"


def from_zero(order: str) -> str:
    """SQL for the numbers 0, 1, 2, … of rows in an order."""
    return f'system.main."-"(system.main.row_number() OVER ({order}), 1)'


def pair(item: str, person: str) -> str:
    """SQL for one element of PAIRS: codes of an item and of a person who has it."""
    return f"system.main.struct_pack(item := {item}, person := {person})"


def people_codes(
    relation: str, kind: str, order: str = "", name: str = "__dp_people"
) -> tuple[list[str], str, str]:
    """SQL for a code of each person in a relation: CTEs, the code as a BIGINT, and a join.

    `name`: of the CTE that numbers them.

    With an order, or if the privacy unit is not an integer, the codes are 0, 1, 2, …; else they are
    the privacy units themselves.
    """
    if family(kind) in FIT_BIGINT and not order:
        return [], "CAST(__dp_privacy_unit AS BIGINT)", ""
    numbered = f"SELECT __dp_privacy_unit, {from_zero(order)} AS person"
    people = f"{numbered} FROM (SELECT DISTINCT __dp_privacy_unit FROM {relation}) AS p"
    cte = f"{name} AS MATERIALIZED ({people})"
    return [cte], "person", f" JOIN {name} USING (__dp_privacy_unit)"


def coded(values: str, kind: str) -> str:
    """The SELECT of values that lists each `item` once, and their codes in order, as `code`."""
    number = from_zero(f"ORDER BY {by_value('item', kind)}")
    return f"SELECT *, CAST({number} AS INTEGER) AS code FROM ({values}) AS listed"

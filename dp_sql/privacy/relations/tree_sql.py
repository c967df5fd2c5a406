"""A person-level source as SQL, and how many rows one person can make it produce.

Writing a source out decides how much work one row can cause:

- A relation is written with the columns that are still needed, and no others.
- A release counts distinct people per item, so how often a row occurs does not matter. Where a join
  multiplies rows, both sides and the result are reduced to distinct rows. Two things are never
  reduced: rows below count(*), count(x) and sum over one person's rows, which use how often a row
  occurs; and values that may differ although they are equal, as [0.0] and [-0.0] do, since
  DISTINCT keeps the one that it reads first.
- How far a join with a public table multiplies rows is read from the public table, before anything
  is spent. Public relations that take work are computed then, too.
- Where a join multiplies rows, each side keeps a limited number of rows of each person, chosen by
  their values alone, and a source whose joins could make too many rows of these is refused.

Writes SQL and asks about public rows. It must never ask about a private row.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import Parts, Schema
from dp_sql.privacy.relations.from_sql import FromWriter, RelationSql, SourceWriter
from dp_sql.privacy.relations.join_sql import (
    PATTERN,
    can_be_reduced,
    is_found,
    listed_sql,
    refuse_costly,
    value_order,
    where_sql,
    windows_sql,
)
from dp_sql.privacy.relations.tree import (
    LinkedTable,
    Relation,
    Select,
    Table,
    UnionAll,
    Unnest,
    Windows,
    columns_in,
)
from dp_sql.sql.types import as_key, same_bits, wider

if TYPE_CHECKING:
    from dp_sql.policy.limits import WorkLimits

MAX_LENGTH = 300_000  # of the SQL that is written for a source; the longest series fits
MAX_ELEMENTS = 1_000  # of a list that is unnested: the first ones
MAX_PATTERNS = 5  # that are regular expressions: one row is matched with each


class Work(NamedTuple):
    """How much work one person's rows can cause, from public numbers alone.

    rows_per_person: how many rows of each person a join that multiplies rows keeps; None: all.
    joined_rows_per_person: how many rows the joins make of them at most; None: none multiplies.
    """

    rows_per_person: int | None = None
    joined_rows_per_person: int | None = None


class Written(NamedTuple):
    """A relation as a SELECT of c0, c1, … and, where it is private, `__dp_person`."""

    sql: str
    tables: frozenset[Parts]
    work: Work


def written(
    relation: Relation, facts: Schema, limits: WorkLimits | None, *, every_row: bool = False
) -> Written:
    """Write a relation out, or raise NotSupported: it could cause more work than the limits allow.

    facts: answers questions about public tables.
    limits: None: no row is capped, and nothing is refused for the work that it causes.
    every_row: keep how often each row occurs.
    """
    writer = Writer(facts, limits)
    try:
        sql = writer.relation(relation, range(len(relation.types)), every_row).sql
    except RecursionError:
        raise NotSupported("This source is nested too deeply.") from None
    if limits is not None and sql.count(PATTERN) > MAX_PATTERNS:
        why = (
            f"This source matches more than {MAX_PATTERNS} patterns that are regular expressions, "
            "or have _ or an inner %."
        )
        raise NotSupported(why, hint="Patterns such as 'a%', '%a' and '%a%' are not limited.")
    cap = limits.rows_per_person if limits is not None and writer.made is not None else None
    return Written(sql, writer.tables(sql), Work(cap, writer.made))


class Writer(SourceWriter):
    """Writes one source."""

    def relation(self, relation: Relation, need: Collection[int], every_row: bool) -> RelationSql:
        """A SELECT of the needed columns."""
        match relation:
            case Table():
                found = self.table(relation, need)
            case LinkedTable():
                found = self._linked(relation, need)
            case Unnest():
                found = self._unnest(relation, need, every_row)
            case Windows():
                found = self._windows(relation, need)
            case UnionAll():
                found = self._union(relation, need, every_row)
            case Select():
                found = self._select(relation, need, every_row)
        if len(found.sql) > MAX_LENGTH:
            raise NotSupported("This source is too long when its CTEs are written out.")
        return found

    def _linked(self, linked: LinkedTable, need: Collection[int]) -> RelationSql:
        kinds = linked.table.types[linked.column], linked.owner.types[linked.key]
        here, _ = as_key(f"w.c{linked.column}", kinds[0])
        there, _ = as_key(f"c{linked.key}", kinds[1])
        if kinds[0] != kinds[1] and (wide := wider(*kinds)) == wider(*kinds[::-1]):
            here, there = (f"CAST({key} AS {wide})" for key in (here, there))
        rows = self.table(linked.table, {*need, linked.column}).sql
        owners = self.relation(linked.owner, {linked.key}, every_row=False).sql
        listed = "".join(f", w.c{i} AS c{i}" for i in sorted(need))
        return RelationSql(
            f"SELECT o.__dp_person AS __dp_person{listed} FROM ({rows}) AS w LEFT JOIN "
            f"(SELECT DISTINCT __dp_person, {there} AS k, 1 AS __dp_found "
            f"FROM ({owners}) AS p) AS o ON {here} = o.k "
            f"WHERE {is_found('o.__dp_found', f'w.c{linked.column}')}"
        )

    def _unnest(self, unnest: Unnest, need: Collection[int], every_row: bool) -> RelationSql:
        before, column = self.multiplied, unnest.column
        need = sorted({*need, column})
        inner = self.relation(unnest.relation, need, every_row)
        if self.limits is not None and self.multiplied != before:
            why = "A list is unnested here after another one, or after a join that multiplies rows."
            hint = "Unnest one list, and before the join: FROM (SELECT …, unnest(…) …) JOIN …"
            raise NotSupported(why, hint=hint)
        self.n_lists += 1
        is_capped = unnest.is_private and self.limits is not None
        cut = f"system.main.list_slice(c{column}, 1, {MAX_ELEMENTS})" if is_capped else f"c{column}"
        listed = ["__dp_person"] if unnest.is_private else []
        listed += [f"c{i}" for i in need if i != column]
        rows = f"SELECT {listed_sql([*listed, f'unnest({cut}) AS c{column}'])} FROM ({inner.sql})"
        # A list that was made of a column with a collation has it, and no one can see it.
        listed.append(f"{same_bits(f'c{column}', unnest.types[column])} AS c{column}")
        return RelationSql(f"SELECT {listed_sql(listed)} FROM ({rows} AS t) AS t")

    def _windows(self, windows: Windows, need: Collection[int]) -> RelationSql:
        n_own = len(windows.relation.types)
        used = [windows.functions[i - n_own] for i in need if i >= n_own]
        read = {i for i in need if i < n_own}.union(*(one.reads for one in used))
        kinds = (windows.relation.types[i] for i in read)
        if odd := [kind for kind in kinds if value_order("", kind) is None]:
            why = f"Window functions are not supported beside columns of type {odd[0]}."
            raise NotSupported(why, hint="Compute them in a subquery without such columns.")
        inner = self.relation(windows.relation, sorted(read), every_row=True)  # each one counts
        return RelationSql(windows_sql(windows, inner.sql, need, sorted(read)), inner.most)

    def _union(self, union: UnionAll, need: Collection[int], every_row: bool) -> RelationSql:
        if every_row and _is_distinct(union):
            need = range(len(union.types))  # which distinct rows have, as _select says
        left = self.relation(union.left, need, every_row)
        if union.right is union.left and not every_row:  # the same rows once more
            return left
        right = self.relation(union.right, need, every_row)
        if right.sql == left.sql and not every_row:
            return left
        both = None if left.most is None or right.most is None else left.most + right.most
        return RelationSql(f"{left.sql} UNION ALL {right.sql}", both)

    def _select(self, select: Select, need: Collection[int], every_row: bool) -> RelationSql:
        self.read += [(sql, tables) for sql, tables, _ in select.looked_in]
        if select.distinct and every_row:  # how many distinct rows there are takes all columns
            need = range(len(select.types))
        every_row = every_row and not select.distinct
        group, values = select.group, {i: select.values[i] for i in sorted(need)}
        keys = () if group is None else group.keys
        used = columns_in([*values.values(), *keys])
        counts_rows = every_row if group is None else group.counts_rows
        before = self.multiplied
        source = FromWriter(self, select, used, counts_rows).written()
        person = [f"r{select.first_private}p"] if select.is_private else []
        most, tail = source.most, where_sql(source.conditions)
        if group is not None:
            tail += f" GROUP BY {', '.join([*person, *keys])}"
            most = 1 if group.is_whole else most
        if self.multiplied != before and self.limits is not None:
            refuse_costly([*values.values(), *keys])
        reduced = source.multiplies and group is None and not every_row
        reduced &= not select.is_private or can_be_reduced(select.types[i] for i in values)
        if reduced:
            values = {i: same_bits(sql, select.types[i]) for i, sql in values.items()}
        listed = [f"{p} AS __dp_person" for p in person]
        listed += [f"{sql} AS c{i}" for i, sql in values.items()]
        word = "DISTINCT " if select.distinct or reduced else ""
        return RelationSql(f"SELECT {word}{listed_sql(listed)} FROM {source.sql}{tail}", most)


def _is_distinct(relation: Relation) -> bool:
    """Whether a relation, or a side of its UNION ALL, is a SELECT DISTINCT."""
    todo, seen = [relation], dict[int, Relation]()  # a CTE may be many of its sides
    while todo:
        one = todo.pop()
        if isinstance(one, Select) and one.distinct:
            return True
        if isinstance(one, UnionAll) and id(one) not in seen:
            seen[id(one)] = one
            todo += [one.left, one.right]
    return False

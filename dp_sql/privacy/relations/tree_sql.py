"""A person-level source as SQL, and how many rows one person can make it produce.

Writing a source out decides how much work one row can cause:

- A relation is written with the columns that are still needed, and no others.
- A release counts distinct people per item, so how often a row occurs does not matter. Where a join
  multiplies rows, both sides and the result are reduced to distinct rows. Only count(*), count(x)
  and sum over one person's rows use how often a row occurs; below them nothing is reduced, nor
  where equal values may differ ([0.0], [-0.0]): DISTINCT keeps the one that it reads first.
- How far a join with a public table multiplies rows is read from the public table, before anything
  is spent. Public relations that take work are computed then, too.
- Where a join multiplies rows, each side keeps a limited number of rows of each person, chosen by
  their values alone, and a source whose joins could make too many rows of these is refused.

Writes SQL and asks about public rows. It must never ask about a private row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.relations.join_bounds import (
    JoinBound,
    compared_columns,
    join_bounds,
    key_columns,
)
from dp_sql.privacy.relations.join_sql import (
    PATTERN,
    FromPartSql,
    FromSql,
    can_be_reduced,
    capped_sql,
    count_sql,
    distinct_sql,
    is_found,
    joined_sql,
    largest_group_sql,
    listed_sql,
    matched_sql,
    reduced_sql,
    refuse_costly,
    refuse_irreducible,
    too_much,
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
    is_plain,
    relations_in,
)
from dp_sql.sql.types import as_key, in_type, same_bits, wider

if TYPE_CHECKING:
    from dp_sql.policy.limits import WorkLimits
    from dp_sql.privacy.catalog import Schema

MAX_SCANS = 64  # tables that one source may read; a CTE counts each time it is read
MAX_PUBLIC_JOIN_ROWS = 10_000_000  # of a join of public tables
MAX_LENGTH = 200_000  # of the SQL that is written for a source
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
    writer = _Writer(facts, limits)
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


class _Sql(NamedTuple):
    """A SELECT, and the most rows that one person has in it; None: not known."""

    sql: str
    most: int | None = None


@dataclass
class _Writer:
    """Writes one source.

    read: what was read so far, as SQL and as tables.
    made: the most rows that joins make of one person's rows, all together; None: none multiplies.
    """

    facts: Schema
    limits: WorkLimits | None
    read: list[tuple[str, frozenset[Parts]]] = field(default_factory=list)
    n_scans: int = 0
    n_lists: int = 0
    made: int | None = None

    def relation(self, relation: Relation, need: Collection[int], every_row: bool) -> _Sql:
        """A SELECT of the needed columns."""
        match relation:
            case Table():
                found = self._table(relation, need)
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

    def _table(self, table: Table, need: Collection[int], names: str = "") -> _Sql:
        """The needed columns of a table; in a FROM clause they are named by its place, `names`."""
        self.n_scans += 1
        if self.n_scans > MAX_SCANS:
            why = f"This source reads more than {MAX_SCANS} tables."
            raise NotSupported(f"{why} A CTE counts each time it is read.")
        if table.person is None and not (table.is_stored or table.is_written):
            why = "Without the privacy unit as a column, a file or a dataframe cannot be read here."
            hint = "Make it a table (CREATE TABLE … AS …) and name that table."
            raise NotSupported(f"There is no table {table.name[-1]}. {why}", hint=hint)
        self.read.append((table.source, frozenset(() if table.function else (table.name,))))
        sql = [in_type(*column) for column in zip(table.columns, table.types, strict=True)]
        listed = [f"{sql[i]} AS {names}c{i}" for i in sorted(need)]
        if table.person is not None:
            person, _ = as_key(sql[table.person], table.types[table.person])
            listed.insert(0, f"{person} AS {f'{names}p' if names else '__dp_person'}")
        return _Sql(f"SELECT {listed_sql(listed)} FROM {table.source}")

    def _linked(self, linked: LinkedTable, need: Collection[int]) -> _Sql:
        kinds = linked.table.types[linked.column], linked.owner.types[linked.key]
        here, _ = as_key(f"w.c{linked.column}", kinds[0])
        there, _ = as_key(f"c{linked.key}", kinds[1])
        if kinds[0] != kinds[1] and (wide := wider(*kinds)) == wider(*kinds[::-1]):
            here, there = (f"CAST({key} AS {wide})" for key in (here, there))
        rows = self._table(linked.table, {*need, linked.column}).sql
        owners = self.relation(linked.owner, {linked.key}, False).sql
        listed = "".join(f", w.c{i} AS c{i}" for i in sorted(need))
        return _Sql(
            f"SELECT o.__dp_person AS __dp_person{listed} FROM ({rows}) AS w LEFT JOIN "
            f"(SELECT DISTINCT __dp_person, {there} AS k, 1 AS __dp_found "
            f"FROM ({owners}) AS p) AS o ON {here} = o.k "
            f"WHERE {is_found('o.__dp_found', f'w.c{linked.column}')}"
        )

    @property
    def _multiplied(self) -> tuple[object, ...]:
        """What changes when lists, or joins that multiply rows, are written."""
        return self.n_lists, self.made

    def _unnest(self, unnest: Unnest, need: Collection[int], every_row: bool) -> _Sql:
        before, column = self._multiplied, unnest.column
        need = sorted({*need, column})
        inner = self.relation(unnest.relation, need, every_row)
        if self.limits is not None and self._multiplied != before:
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
        return _Sql(f"SELECT {listed_sql(listed)} FROM ({rows} AS t) AS t")

    def _windows(self, windows: Windows, need: Collection[int]) -> _Sql:
        n_own = len(windows.relation.types)
        used = [windows.functions[i - n_own] for i in need if i >= n_own]
        read = {i for i in need if i < n_own}.union(*(one.reads for one in used))
        kinds = (windows.relation.types[i] for i in read)
        if odd := [kind for kind in kinds if value_order("", kind) is None]:
            why = f"Window functions are not supported beside columns of type {odd[0]}."
            raise NotSupported(why, hint="Compute them in a subquery without such columns.")
        inner = self.relation(windows.relation, sorted(read), True)  # a function counts each row
        return _Sql(windows_sql(windows, inner.sql, need, sorted(read)), inner.most)

    def _union(self, union: UnionAll, need: Collection[int], every_row: bool) -> _Sql:
        left = self.relation(union.left, need, every_row)
        if union.right is union.left and not every_row:  # the same rows once more
            return left
        right = self.relation(union.right, need, every_row)
        if right.sql == left.sql and not every_row:
            return left
        both = None if left.most is None or right.most is None else left.most + right.most
        return _Sql(f"{left.sql} UNION ALL {right.sql}", both)

    def _select(self, select: Select, need: Collection[int], every_row: bool) -> _Sql:
        self.read += select.looked_in
        if select.distinct and every_row:  # how many distinct rows there are takes all columns
            need = range(len(select.types))
        every_row = every_row and not select.distinct
        group, values = select.group, {i: select.values[i] for i in sorted(need)}
        keys = () if group is None else group.keys
        used = columns_in([*values.values(), *keys])
        before = self._multiplied
        source = self._from(select, used, every_row if group is None else group.counts_rows)
        person = [f"r{select.owner}p"] if select.is_private else []
        most, tail = source.most, where_sql(source.conditions)
        if group is not None:
            tail += f" GROUP BY {', '.join([*person, *keys])}"
            most = 1 if group.is_whole else most
        if self._multiplied != before and self.limits is not None:
            refuse_costly([*values.values(), *keys])
        reduced = source.multiplies and group is None and not every_row
        reduced &= not select.is_private or can_be_reduced(select.types[i] for i in values)
        if reduced:
            values = {i: same_bits(sql, select.types[i]) for i, sql in values.items()}
        listed = [f"{p} AS __dp_person" for p in person]
        listed += [f"{sql} AS c{i}" for i, sql in values.items()]
        word = "DISTINCT " if select.distinct or reduced else ""
        return _Sql(f"SELECT {word}{listed_sql(listed)} FROM {source.sql}{tail}", most)

    def _from(self, select: Select, used: Collection[str], every_row: bool) -> FromSql:
        """FROM and WHERE of a SELECT; `used` are the columns that its other clauses name."""
        own, rest = select.split_conditions()
        before = self._multiplied
        order = select.join_order()
        on = {n: select.on_terms(n, order[:place]) for place, n in enumerate(order)}
        later = {*used, *columns_in(rest)}.union(*map(columns_in, on.values()))
        parts = [self._part(select, n, own.get(n, []), later, every_row) for n in order]
        if self._multiplied != before and self.limits is not None:
            refuse_costly([*rest, *(term for terms in own.values() for term in terms)])
        if len(parts) == 1:
            return FromSql(f"({parts[0].sql}) AS r{order[0]}", parts[0].most, False, rest)
        for place, part in enumerate(parts):
            parts[place] = self._with_fan(select, part, order[:place], every_row)
        bounds = join_bounds(select, parts)
        multiplies = any(bound.multiplies for bound in bounds)
        many = {n for bound in bounds if bound.multiplies for n in bound.apart}
        parts = [self._kept(select, p, every_row) if p.number in many else p for p in parts]
        most = {part.number: part.most for part in parts}
        source = FromSql(f"({parts[0].sql}) AS r{order[0]}", parts[0].most, multiplies)
        # One row alone is limited, too, also of a person who is known to have few rows.
        least = 1 if self.limits is None else self.limits.rows_per_person
        if not select.is_private:
            least = self.facts.public_number(count_sql(parts[0].sql))
        elif multiplies and self.limits is not None:
            refuse_costly([*rest, *(term for n in order for term in select.on_beside(n))])
        for place, part in enumerate(parts[1:], 1):
            behind = [term for n in order[place + 1 :] for term in on[n]]
            if select.on_beside(part.number):
                still = columns_in([*used, *rest, *behind, *on[part.number]])
                source = matched_sql(select, source, part, still, order[:place])
            else:
                source = joined_sql(select, source, part, on[part.number])
            bound = bounds[place]
            source.most = bound.rows(most, least)
            self._check(select, source, bound, parts[1 : place + 1])
            ready = [c for c in rest if relations_in(c) <= set(order[: place + 1])]
            source.conditions += ready
            rest = [c for c in rest if c not in ready]
            if behind and bound != bounds[place - 1] and bound.multiplies and not every_row:
                still = columns_in([*used, *rest, *behind])
                if not select.is_private or can_be_reduced(map(select.type_of, still)):
                    source = reduced_sql(select, source, still, order[: place + 1])
        source.conditions += rest
        if multiplies and select.is_private and source.most is not None:
            self.made = (self.made or 0) + source.most
        source.most = bounds[-1].rows(most) if select.is_private else source.most
        return source

    def _part(
        self, select: Select, number: int, own: list[str], later: Collection[str], every_row: bool
    ) -> FromPartSql:
        """One relation of FROM: its columns that are named outside, and its own conditions."""
        relation = select.relations[number]
        kept = select.columns_of(number, later)
        need = sorted({*kept, *select.columns_of(number, columns_in(own))})
        person = [f"r{number}p"] if relation.is_private else []
        columns = tuple(f"r{number}c{i}" for i in kept)
        if isinstance(relation, Table):
            inner = self._table(relation, need, f"r{number}")
            sql = inner.sql
        else:
            inner = self.relation(relation, need, every_row and not select.is_match(number))
            renamed = [f"__dp_person AS {p}" for p in person]
            renamed += [f"c{i} AS r{number}c{i}" for i in need]
            sql = f"SELECT {listed_sql(renamed)} FROM ({inner.sql}) AS t"
        if own:
            sql = f"SELECT {listed_sql([*person, *columns])} FROM ({sql}) AS t{where_sql(own)}"
        return FromPartSql(number, sql, columns, inner.most, is_plain(relation) and not own)

    def _with_fan(
        self, select: Select, part: FromPartSql, before: Collection[int], every_row: bool
    ) -> FromPartSql:
        """A relation to be joined, with how many of its rows one row before it matches."""
        keys = [own for _, own in select.equal_pairs(part.number, before)]
        every_row = every_row and not select.is_match(part.number)
        is_keyed = not every_row and set(part.columns) <= set(keys)
        is_keyed |= select.is_match(part.number) and not select.is_compared(part.number)
        if select.relations[part.number].is_private:
            key = key_columns(select.relations[part.number])
            columns = None if key is None else {f"r{part.number}c{i}" for i in key}
            if part.most == 1:
                columns = set()
            elif is_keyed and before:
                compared = compared_columns(select, part.number, before)
                is_told_apart = columns is not None and columns <= compared
                if not is_told_apart and can_be_reduced(map(select.type_of, part.columns)):
                    # With the person, its columns tell its distinct rows apart.
                    part, columns = part._replace(sql=distinct_sql(select, part)), {*keys}
            return part._replace(key=None if columns is None else frozenset(columns))
        if not before:
            return part
        if part.is_table:  # a public table is read as it is; anything else is computed now
            fan = self._largest(part.sql, select, keys)
            if fan == 1 or every_row:
                return part._replace(fan=fan)
        sql = part.sql if every_row else distinct_sql(select, part)
        rows, tables = self.facts.public_rows(sql, self.tables(sql))
        self.read.append((rows, tables))
        sql = f"SELECT {listed_sql(part.columns)} FROM {rows}"
        return part._replace(sql=sql, fan=1 if is_keyed else self._largest(sql, select, keys))

    def _largest(self, sql: str, select: Select, keys: Sequence[str]) -> int:
        """The most rows with the same keys; at least 1."""
        return self.facts.public_number(largest_group_sql(select, sql, keys))

    def _kept(self, select: Select, part: FromPartSql, every_row: bool) -> FromPartSql:
        """A private relation in a join that multiplies rows: capped, and reduced first."""
        cap = None if self.limits is None else self.limits.rows_per_person
        if cap is not None and part.most is not None and part.most <= cap:
            return part
        kinds = [select.type_of(column) for column in part.columns]
        if cap is None and not can_be_reduced(kinds):
            return part
        refuse_irreducible(kinds)
        sql = part.sql if every_row else distinct_sql(select, part)
        capped = sql if cap is None else capped_sql(select, part, sql, cap)
        return part._replace(sql=capped, most=part.most if cap is None else cap)

    def _check(
        self, select: Select, source: FromSql, bound: JoinBound, joined: Sequence[FromPartSql]
    ) -> None:
        """Refuse a join that could make more rows of one person than the limits allow."""
        if not bound.multiplies or source.most is None or self.limits is None:
            return
        joined = [part for part in joined if part.number in bound.apart or (part.fan or 1) > 1]
        rows, most = source.most, MAX_PUBLIC_JOIN_ROWS
        if select.is_private:
            rows, most = rows + (self.made or 0), self.limits.joined_rows_per_person
        if rows > most:
            raise too_much(select, rows, most, joined)

    def tables(self, sql: str) -> frozenset[Parts]:
        """What was read for a part of the SQL."""
        return frozenset().union(*(tables for read, tables in self.read if read in sql))

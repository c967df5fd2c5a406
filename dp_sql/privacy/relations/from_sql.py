"""FROM and WHERE of a SELECT as SQL: its relations joined, and how many rows that makes at most.

Relations whose rows a join multiplies are reduced and capped before it; tree_sql.py says why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import Parts, Schema, size_sql
from dp_sql.privacy.relations.join_bounds import (
    JoinBound,
    compared_columns,
    join_bounds,
    key_columns,
)
from dp_sql.privacy.relations.join_sql import (
    FromPartSql,
    FromSql,
    can_be_reduced,
    capped_sql,
    distinct_sql,
    joined_sql,
    largest_group_sql,
    listed_sql,
    matched_sql,
    reduced_sql,
    refuse_costly,
    refuse_irreducible,
    too_much,
    where_sql,
)
from dp_sql.privacy.relations.tree import (
    Relation,
    Select,
    Table,
    columns_in,
    is_plain,
    relations_in,
)
from dp_sql.sql.types import as_key, in_type

if TYPE_CHECKING:
    from dp_sql.policy.limits import WorkLimits

MAX_SCANS = 64  # tables that one source may read; a CTE counts each time it is read
MAX_PUBLIC_JOIN_ROWS = 10_000_000  # of a join of public tables


class RelationSql(NamedTuple):
    """A SELECT, and the most rows that one person has in it; None: not known."""

    sql: str
    most: int | None = None


@dataclass
class SourceWriter(ABC):
    """What is known while one source is written, and how its tables are read.

    read: what was read so far, as SQL and as tables.
    made: the most rows that joins make of one person's rows, all together; None: none multiplies.
    """

    facts: Schema
    limits: WorkLimits | None
    read: list[tuple[str, frozenset[Parts]]] = field(default_factory=list)
    n_scans: int = 0
    n_lists: int = 0
    made: int | None = None

    @abstractmethod
    def relation(self, relation: Relation, need: Collection[int], every_row: bool) -> RelationSql:
        """A SELECT of the needed columns."""

    def table(self, table: Table, need: Collection[int], names: str = "") -> RelationSql:
        """The needed columns of a table; in a FROM clause they are named by its place, `names`."""
        self.n_scans += 1
        if self.n_scans > MAX_SCANS:
            why = f"This source reads more than {MAX_SCANS} tables."
            raise NotSupported(f"{why} A CTE counts each time it is read.")
        self.read.append((table.source, frozenset(() if table.function else (table.name,))))
        sql = [in_type(*column) for column in zip(table.columns, table.types, strict=True)]
        listed = [f"{sql[i]} AS {names}c{i}" for i in sorted(need)]
        if table.person is None and not (table.is_stored or table.is_written):
            self._check_readable(table, [sql[i] for i in sorted(need)])
        if table.person is not None:
            person, _ = as_key(sql[table.person], table.types[table.person])
            listed.insert(0, f"{person} AS {f'{names}p' if names else '__dp_person'}")
        return RelationSql(f"SELECT {listed_sql(listed)} FROM {table.source}")

    def _check_readable(self, table: Table, columns: Sequence[str]) -> None:
        """Read a public file or dataframe to its end, so that errors in it cost nothing.

        How much of it a release reads may depend on the private rows that it is joined to.
        """
        hashed = f"system.main.hash({', '.join(columns or '1')})"
        largest = f"SELECT coalesce(system.main.max({hashed}), 0) FROM {table.source}"
        found = self.facts.public_number(largest)
        again = size_sql(f"SELECT 1 FROM {table.source} LIMIT 1")
        if found and not table.function and self.facts.public_number(again) == 0:
            why = f"{table.name[-1]} can be read only once."
            hint = "Make it a table (CREATE TABLE … AS …) and name that table."
            raise NotSupported(why, hint=hint)

    @property
    def multiplied(self) -> tuple[object, ...]:
        """What changes when lists, or joins that multiply rows, are written."""
        return self.n_lists, self.made

    def tables(self, sql: str) -> frozenset[Parts]:
        """What was read for a part of the SQL."""
        return frozenset().union(*(tables for read, tables in self.read if read in sql))


@dataclass(frozen=True)
class FromWriter:
    """Writes FROM and WHERE of one SELECT.

    used: the columns that its other clauses name. every_row: keep how often each row occurs.
    """

    writer: SourceWriter
    select: Select
    used: Collection[str]
    every_row: bool

    def written(self) -> FromSql:
        """All relations, joined."""
        select, before = self.select, self.writer.multiplied
        own, rest = select.split_conditions()
        order = select.join_order()
        on = {n: select.on_terms(n, order[:place]) for place, n in enumerate(order)}
        later = {*self.used, *columns_in(rest)}.union(*map(columns_in, on.values()))
        if len(order) == 1:  # one SELECT less, which DuckDB would parse and bind each time
            rest, own = [*own.get(order[0], []), *rest], {}
            later |= columns_in(rest)
        parts = [self._part(n, own.get(n, []), later) for n in order]
        if self.writer.limits is not None and self.writer.multiplied != before:
            refuse_costly([*rest, *chain.from_iterable(own.values())])
        if len(parts) == 1:
            sql = f"({parts[0].sql}) AS r{order[0]}"
            return FromSql(sql, parts[0].most, multiplies=False, conditions=rest)
        parts = [self._with_fan(part, order[:place]) for place, part in enumerate(parts)]
        bounds = join_bounds(select, parts)
        multiplied = {n for bound in bounds if bound.multiplies for n in bound.apart}
        parts = [self._kept(part) if part.number in multiplied else part for part in parts]
        return self._joined(parts, bounds, on, rest)

    def _part(self, number: int, own: Sequence[str], later: Collection[str]) -> FromPartSql:
        """One relation of FROM: its columns that are named outside, and its own conditions."""
        relation = self.select.relations[number]
        kept = self.select.columns_of(number, later)
        need = sorted({*kept, *self.select.columns_of(number, columns_in(own))})
        person = [f"r{number}p"] if relation.is_private else []
        columns = tuple(f"r{number}c{i}" for i in kept)
        if isinstance(relation, Table):
            inner = self.writer.table(relation, need, f"r{number}")
            sql = inner.sql
        else:
            inner = self.writer.relation(relation, need, self._counts_rows(number))
            renamed = [f"__dp_person AS {p}" for p in person]
            renamed += [f"c{i} AS r{number}c{i}" for i in need]
            sql = f"SELECT {listed_sql(renamed)} FROM ({inner.sql}) AS t"
        if own:
            sql = f"SELECT {listed_sql([*person, *columns])} FROM ({sql}) AS t{where_sql(own)}"
        return FromPartSql(number, sql, columns, inner.most, is_plain(relation) and not own)

    def _counts_rows(self, number: int) -> bool:
        """Whether it matters how often a row of a relation occurs."""
        return self.every_row and not self.select.is_semi(number)

    def _with_fan(self, part: FromPartSql, before: Collection[int]) -> FromPartSql:
        """A relation to be joined, with how many of its rows one row before it matches."""
        select, every_row = self.select, self._counts_rows(part.number)
        keys = [own for _, own in select.equal_pairs(part.number, before)]
        is_keyed = not every_row and set(part.columns) <= set(keys)
        is_keyed |= select.is_semi(part.number) and not select.is_compared(part.number)
        if select.relations[part.number].is_private:
            return self._with_key(part, before, keys if is_keyed and before else None)
        if not before:
            return part
        if part.is_table:  # a public table is read as it is; anything else is computed now
            fan = self._largest(part.sql, keys)
            if fan == 1 or every_row:
                return part._replace(fan=fan)
        sql = part.sql if every_row else distinct_sql(select, part)
        rows, tables = self.writer.facts.public_rows(sql, self.writer.tables(sql))
        self.writer.read.append((rows, tables))
        sql = f"SELECT {listed_sql(part.columns)} FROM {rows}"
        return part._replace(sql=sql, fan=1 if is_keyed else self._largest(sql, keys))

    def _with_key(
        self, part: FromPartSql, before: Collection[int], keys: Sequence[str] | None
    ) -> FromPartSql:
        """A private relation with the columns that tell apart the rows of one person.

        keys: the columns that join it to relations before it, if nothing else of it is needed.
        """
        select = self.select
        known = key_columns(select.relations[part.number])
        columns = None if known is None else {f"r{part.number}c{i}" for i in known}
        if part.most == 1:
            columns = set()
        elif keys is not None:
            compared = compared_columns(select, part.number, before)
            is_told_apart = columns is not None and columns <= compared
            if not is_told_apart and can_be_reduced(map(select.type_of, part.columns)):
                # With the person, its columns tell its distinct rows apart.
                part, columns = part._replace(sql=distinct_sql(select, part)), {*keys}
        return part._replace(key=None if columns is None else frozenset(columns))

    def _largest(self, sql: str, keys: Sequence[str]) -> int:
        """The most rows with the same keys; at least 1."""
        return self.writer.facts.public_number(largest_group_sql(self.select, sql, keys))

    def _kept(self, part: FromPartSql) -> FromPartSql:
        """A private relation in a join that multiplies rows: capped, and reduced first."""
        select, limits = self.select, self.writer.limits
        cap = None if limits is None else limits.rows_per_person
        if cap is not None and part.most is not None and part.most <= cap:
            return part
        kinds = [select.type_of(column) for column in part.columns]
        if cap is None and not can_be_reduced(kinds):
            return part
        refuse_irreducible(kinds)
        sql = part.sql if self.every_row else distinct_sql(select, part)
        capped = sql if cap is None else capped_sql(select, part, sql, cap)
        return part._replace(sql=capped, most=part.most if cap is None else cap)

    def _joined(
        self,
        parts: Sequence[FromPartSql],
        bounds: Sequence[JoinBound],
        on: Mapping[int, Sequence[str]],
        rest: list[str],
    ) -> FromSql:
        """The relations joined, one after the other; a condition follows what it names."""
        select, writer, order = self.select, self.writer, [part.number for part in parts]
        most = {part.number: part.most for part in parts}
        multiplies = any(bound.multiplies for bound in bounds)
        if multiplies and select.is_private and writer.limits is not None:
            refuse_costly([*rest, *(term for n in order for term in select.on_beside(n))])
        # One row alone is limited, too, also of a person who is known to have few rows.
        least = 1 if writer.limits is None else writer.limits.rows_per_person
        if not select.is_private:
            least = writer.facts.public_number(size_sql(parts[0].sql))
        source = FromSql(f"({parts[0].sql}) AS r{order[0]}", parts[0].most, multiplies)
        for place, part in enumerate(parts[1:], 1):
            bound, so_far = bounds[place], order[: place + 1]
            behind = [term for n in order[place + 1 :] for term in on[n]]
            if select.on_beside(part.number):
                still = columns_in([*self.used, *rest, *behind, *on[part.number]])
                source = matched_sql(select, source, part, still, order[:place])
            else:
                source = joined_sql(select, source, part, on[part.number])
            source.most = bound.rows(most, least)
            self._check(source, bound, parts[1 : place + 1])
            ready = [term for term in rest if relations_in(term) <= {*so_far}]
            source.conditions += ready
            rest = [term for term in rest if term not in ready]
            multiplied_here = bound.multiplies and bound != bounds[place - 1]
            if behind and multiplied_here and not self.every_row:
                still = columns_in([*self.used, *rest, *behind])
                if not select.is_private or can_be_reduced(map(select.type_of, still)):
                    source = reduced_sql(select, source, still, so_far)
        source.conditions += rest
        if select.is_private:
            if multiplies and source.most is not None:
                writer.made = (writer.made or 0) + source.most
            source.most = bounds[-1].rows(most)
        return source

    def _check(self, source: FromSql, bound: JoinBound, joined: Sequence[FromPartSql]) -> None:
        """Refuse a join that could make more rows of one person than the limits allow."""
        limits = self.writer.limits
        if not bound.multiplies or source.most is None or limits is None:
            return
        joined = [part for part in joined if part.number in bound.apart or (part.fan or 1) > 1]
        rows, most = source.most, MAX_PUBLIC_JOIN_ROWS
        if self.select.is_private:
            rows, most = rows + (self.writer.made or 0), limits.joined_rows_per_person
        if rows > most:
            raise too_much(self.select, rows, most, joined)

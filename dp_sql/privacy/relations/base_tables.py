"""A base table as a relation: its columns and collations, and whose rows it holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, TypeVar

from dp_sql.errors import NotPrivate, guessed
from dp_sql.privacy.catalog import Parts, Schema
from dp_sql.privacy.expressions.collations import collations
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.privacy.relations.from_clause import From
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.tree import Table
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded, name_parts
from dp_sql.sql.types import FIT_HUGEINT, as_key, family

_T = TypeVar("_T")
_FILE = re.compile(r"([^/\\]+)\.(?:parquet|csv|json)$")  # as it may be called as a table


def no_table(node: Node, parts: Sequence[str], names: Collection[str] = ()) -> Exception:
    """The refusal of a name that means nothing; `names` are those that are known, as SQL."""
    name = folded(parts[-1])
    if (file := _FILE.search(name)) is not None:
        name = file[1]
    near = guessed(name, names)
    message = f"There is no table {'.'.join(parts)}"
    hint = f"Did you mean {near}? " * bool(near) + "SHOW TABLES lists the tables."
    refusal = refuse(node, message, hint)
    is_bare = len(name_parts(near) or ()) == 1  # else others are called so
    refusal.names = [near] if is_bare else []
    return refusal


def public_rows(
    schema: Schema, full: Parts, columns: Sequence[tuple[str, str]], function: str = ""
) -> Rows:
    """A public relation (or the call of a table function), its columns read as these types."""
    source = function or full_name(full)
    listed = schema.columns(f"SELECT * FROM {source}")
    strings = [name for name, kind in listed if family(kind) == "VARCHAR"]
    compared = collations(schema.compares, source, strings)
    names, types = tuple(folded(name) for name, _ in listed), tuple(kind for _, kind in columns)
    values, sql = [], []
    for i, ((name, own), kind) in enumerate(zip(listed, types, strict=True)):
        values.append(Value(f"c{i}", kind, (full, names[i]), collation=compared.get(name, "")))
        sql.append(quote(name) if kind == own else f"CAST({quote(name)} AS {kind})")
    return Rows(Table(full, tuple(sql), types, function=function), names, tuple(values), None)


def read_as(rows: Rows, index: int, kind: str) -> Rows:
    """A table with one of its columns read as another type."""
    table, value = rows.relation, rows.values[index]
    assert isinstance(table, Table)
    if value.type == kind:
        return rows
    columns, types = list(table.columns), list(table.types)
    columns[index], types[index] = f"CAST({columns[index]} AS {kind})", kind
    table = table._replace(columns=tuple(columns), types=tuple(types))
    return rows.with_value(index, value._replace(type=kind))._replace(relation=table)


def persons_rows(rows: Rows, index: int) -> Rows:
    """A table with the privacy unit in one of its columns."""
    table, value = rows.relation, rows.values[index]
    assert isinstance(table, Table)
    rows = rows.with_value(index, value._replace(is_person=True))
    person_type = as_key("", value.type)[1]
    return rows._replace(relation=table._replace(person=index), person_type=person_type)


@dataclass(frozen=True)
class Tables:
    """What names mean, and whose rows tables hold: how far the person who asks is trusted.

    trusted: whether the owner asks, whose expressions of one row may be taken as written.
    kinds: if tables that are read together have the person as integers of different types, these
        types: all are then read as one. The first table is read before this is known, so it is
        noted here while a source is compiled, and `as_noted` compiles the source again.
    now: the time of the statement; None: the engine's own is used.
    """

    schema: Schema
    kinds: set[str] = field(default_factory=set, kw_only=True)
    now: Callable[[], datetime] | None = field(default=None, kw_only=True)
    trusted: ClassVar[bool] = False

    def rows(self, node: Node, parts: Sequence[str]) -> Rows | None:
        """The rows of a table; None where the name means no table that may be read."""
        raise NotImplementedError

    def declared(self, rows: Rows) -> Rows:
        """Rows that the statement writes out, and whose they are: by default public."""
        return rows

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view; None where the name means no view that may be read."""
        raise NotImplementedError

    def unknown(self, node: Node, parts: Sequence[str]) -> Exception:
        """The refusal of a name that is no table here."""
        return no_table(node, parts)

    def inside(self, view: Sequence[str]) -> Tables:
        """These tables as the query of a view reads names."""
        return replace(self, schema=self.schema.inside(view))

    def is_link(self, a: Value, b: Value) -> bool:
        """Whether two equal columns are one person's, because of a declared link."""
        return False

    def is_of_one_person(self, value: Value) -> bool:
        """Whether the rows of a table with one value in this column are one person's."""
        return value.is_person

    def check(self, sql: str) -> None:
        """Refuse the SQL of a view that sqlglot and the engine may read differently."""

    def note_view(self, parts: Sequence[str], rows: Rows) -> None:
        """Take note of a view that was read."""

    def note_union(self, left: Rows, right: Rows) -> None:
        """Take note of a UNION ALL whose sides have the person in two types, or only one has it."""
        self.note_people(left.person_type, right.person_type)

    def note_people(self, left: str | None, right: str | None) -> None:
        """Take note of two types in which private tables that are read together have the person."""
        if left and right and {left, right} <= FIT_HUGEINT:
            self.kinds.update((left, right))

    def n_noted(self) -> int:
        """How much has been noted; tables that were read before lack what was noted since."""
        return len(self.kinds)

    def persons(self, rows: Rows, index: int) -> Rows:
        """A table with the privacy unit in one of its columns, in the type that all have it in."""
        if rows.values[index].type in self.kinds:
            wide = "HUGEINT" if self.kinds & {"HUGEINT", "UBIGINT"} else "BIGINT"
            rows = read_as(rows, index, wide)
        return persons_rows(rows, index)

    def as_written(self, source: From, node: Node) -> Value:
        """An expression of one row, as the owner wrote it."""
        raise refuse(node, "Only an owner's expressions are taken as written")


def as_noted(compiled: Callable[[], _T], tables: Tables) -> _T:
    """Compile over tables, and once more for as long as this notes what tables lacked."""
    while True:
        n_known = tables.n_noted()
        try:
            found = compiled()
        except NotPrivate:
            if tables.n_noted() == n_known:
                raise
        else:
            if tables.n_noted() == n_known:
                return found

"""What may be asked of an engine: what names mean, types, and values of public data.

`Schema` is what the compiler, the domains and the plans ask; no method reads a private row.
`OwnersEngine` is an owner's connection; relations/declared_tables.py makes a `Schema` of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from dp_sql.errors import SourceError
from dp_sql.sql.formatting import literal
from dp_sql.sql.select_list import Functions
from dp_sql.sql.tokens import tokenize

Parts = tuple[str, ...]  # a relation's full name as DuckDB spells it: database, schema, name
Columns = Sequence[tuple[str, str]]  # names and DuckDB types
SchemaName = tuple[str, str]  # a database and a schema of it
VARIABLE = "__duckdb_source_"  # how names begin that 2.0's con.sql gives to Python variables


class PublicData(Protocol):
    """Types of columns, and values of public data."""

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, without running it."""

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""

    def public_size(self, items: str, kind: str, most: int | None = None) -> int:
        """How many items of a type a SELECT lists, or any number above `most` if there are more.

        The SELECT lists each item once, and LIMIT may follow it.
        """

    def keep_list(self, items: str, kind: str, values: Sequence[str | int]) -> None:
        """Remember the values of a type that a SELECT lists, which the statement writes out."""

    def compares(self, relation: str, condition: str) -> bool:
        """Whether the engine can bind a condition over the columns of a relation; it is not run."""
        with suppress(SourceError):
            return bool(self.columns(f"SELECT {condition} FROM {relation}"))
        return False


class Schema(PublicData, Protocol):
    """A database as the compiler sees it."""

    def table(self, parts: Sequence[str]) -> Parts | None:
        """The full name of the base table that a name means; None where there is none."""

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view; None where there is no such view."""

    def inside(self, view: Sequence[str]) -> Schema:
        """The schema as the query of a view reads names."""

    def primary_key(self, parts: Parts) -> Sequence[str]:
        """The columns of a base table's primary key; empty where it has none."""
        return ()

    def public_number(self, select: str) -> int:
        """The number that a SELECT over public tables answers."""

    def public_size(self, items: str, kind: str, most: int | None = None) -> int:
        """How many there are, counted by the engine."""
        return self.public_number(size_sql(items, most))

    def public_rows(self, select: str, tables: frozenset[Parts]) -> tuple[str, frozenset[Parts]]:
        """A relation with the rows of a SELECT over these public tables, and what it reads."""

    def agrees(self, source: str, tables: frozenset[Parts]) -> bool:
        """Whether the engine, too, finds exactly these base tables in a source."""

    def type_of(self, sql: str) -> str:
        """The type of an expression without columns."""
        return self.columns(f"SELECT {sql} AS c0")[0][1]

    def runs(self, sql: str) -> bool:
        """Whether an expression without columns can be computed."""
        with suppress(SourceError):
            return bool(self.public_values(f"SELECT {sql}"))
        return False

    def readable(self, text: str, type_name: str) -> bool:
        """Whether a string can be cast to a type."""
        # Python is not given the value: for a TIMESTAMPTZ it would need the package pytz.
        return self.runs(f"CAST({literal(text)} AS {type_name}) IS NULL")


class NamedRelation(NamedTuple):
    """What an owner's connection says of a name.

    parts: its full name (database, schema, name); empty where it has none.
    view_sql: the SQL that created a view, "" where that is not known; None for everything else.
    is_table: whether it is a base table of the database.
    """

    parts: Parts
    view_sql: str | None
    is_table: bool = False


class OwnersEngine(PublicData, Functions, Protocol):
    """An owner's connection."""

    def relation(self, parts: Parts, within: SchemaName | None = None) -> NamedRelation | None:
        """The relation that a name means, here or in a view of the schema `within`.

        None where it is not a table or view (a file, a dataframe, or nothing). Raises NotPrivate
        where it could mean more than one.
        """

    def are_own_scalars(self, names: frozenset[str]) -> bool:
        """Whether each name means a pure function of the engine's own, which no user's replaces."""

    def functions_in(self, query: str) -> frozenset[str] | None:
        """The functions that the engine looks up for a SELECT; None where that is not known."""

    def are_no_macros(self, names: frozenset[str], within: SchemaName | None = None) -> bool:
        """Whether each name is a scalar function or an aggregate, also in views of `within`."""

    def agrees(
        self, source: str, tables: Collection[Parts], functions: Collection[str] = ()
    ) -> bool:
        """The same as `Schema.agrees`; `functions` are calls in it that read files."""


def size_sql(select: str, most: int | None = None) -> str:
    """A SELECT of how many rows another one has, or of `most` if there are more."""
    some = "" if most is None else f" LIMIT {most}"
    return f"SELECT system.main.count(*) FROM ({select}{some}) AS t"


def view_body(sql: str) -> str | None:
    """The query of CREATE VIEW name [(columns)] AS query, with these columns.

    >>> view_body("CREATE VIEW v (a, b) AS SELECT 1, 2;")
    'SELECT * FROM (SELECT 1, 2) AS renamed (a, b)'
    """
    tokens, columns = tokenize(sql), ""
    for index, token in enumerate(tokens):
        if token.is_symbol("(") and index:
            columns = sql[token.start : tokens[tokens.matching(index)].end]
        elif token.upper == "AS":
            body = sql[token.end :].strip().rstrip(";")
            return f"SELECT * FROM ({body}) AS renamed {columns}" if columns else body
    return None

"""Tables of an in-memory connection, under the names that they have elsewhere."""

from collections.abc import Sequence
from typing import Any

import duckdb

from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import SourceError
from dp_sql.privacy.catalog import Columns, SchemaName
from dp_sql.sql.formatting import full_name, quote


def use_schema(connection: Connection, here: SchemaName) -> None:
    """Let bare names mean tables of this database and schema, which are made where they lack."""
    attach(connection, here)
    connection.execute(f"USE {full_name(here)}")


def attach(connection: Connection, scope: Sequence[str]) -> None:
    """Make a database and a schema of it, unless they are there."""
    database, schema = scope
    if database == "temp":
        return
    try:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(database)}")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {full_name(scope)}")
    except duckdb.Error as error:
        why = f"DuckDB cannot have a schema {schema} in a database {database}"
        raise SourceError(f"{why} ({type(error).__name__}).") from None


def make_table(connection: Connection, parts: Sequence[str], columns: Columns) -> None:
    """Make an empty table, unless one with these columns is there."""
    attach(connection, parts[:2])
    typed = ", ".join(f"{quote(name)} {kind}" for name, kind in columns)
    kind, name = "TEMP TABLE" if parts[0] == "temp" else "TABLE", full_name(parts)
    try:
        select = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
        wanted = connection.sql(f"SELECT {select}")
        there = connection.sql(f"SELECT * FROM {name}")
        if (there.columns, there.types) == (wanted.columns, wanted.types):
            return
    except duckdb.Error:  # it is not there, or cannot be
        pass
    try:
        connection.execute(f"CREATE OR REPLACE {kind} {name} ({typed})")
    except duckdb.Error as error:
        why = f"DuckDB cannot have a table with the columns of {parts[-1]}"
        hint = "Case does not matter in the names of columns and fields."
        raise SourceError(f"{why} ({type(error).__name__}).", hint=hint) from None


def fill(connection: Connection, parts: Sequence[str], columns: Columns, rows: Any) -> None:
    """Put rows into a table, in place of those that are there."""
    cast = ", ".join(f"CAST({quote(column)} AS {kind})" for column, kind in columns)
    connection.execute(f"DELETE FROM {full_name(parts)}")
    connection.register("__dp_rows", rows)
    try:
        connection.execute(f"INSERT INTO {full_name(parts)} SELECT {cast} FROM __dp_rows")
    finally:
        connection.unregister("__dp_rows")

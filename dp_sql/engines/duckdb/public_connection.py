"""The public side of a session under a policy: its own DuckDB, with releases and public tables.

The analyst's query runs here, where no private row is. The instance is in memory and locked.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import Engine, Rows, freeze, restrict
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import NotSupported
from dp_sql.sql.formatting import quote


class PublicConnection(Engine):
    """Holds what analysts may see. A query beyond its memory ends with DuckDB's error."""

    def __init__(self, memory_limit: str | None = None, threads: int | None = None) -> None:
        config: dict[str, Any] = {"enable_external_access": "false"}
        config |= {"temp_directory": "", "memory_limit": memory_limit or "1GB"}  # it spills nothing
        if threads is not None:
            config["threads"] = threads
        super().__init__(duckdb.connect(":memory:", config=config), Tickets())
        restrict(self.connection, "SET lock_configuration = true")
        self.loaded: set[tuple[str, ...]] = set()  # public tables, by their full names
        self._frozen: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def interrupt(self) -> None:
        """Stop what is running."""
        self.connection.interrupt()

    def close(self) -> None:
        """Close the connection; relations of this session end with it."""
        self.connection.close()

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function; no one can create functions here."""
        return self.builtin_kinds(names)

    def load(self, parts: Sequence[str], columns: Sequence[tuple[str, str]], rows: Any) -> None:
        """Copy a public table under its own schema and name."""
        schema, name = map(quote, parts[1:])
        typed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
        cast = ", ".join(f"CAST({quote(column)} AS {kind})" for column, kind in columns)
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self.connection.execute(f"CREATE TABLE {schema}.{name} ({typed})")
        self.connection.register("__dp_rows", rows)
        try:
            self.connection.execute(f"INSERT INTO {schema}.{name} SELECT {cast} FROM __dp_rows")
        finally:
            self.connection.unregister("__dp_rows")
        self.loaded.add(tuple(parts))

    def freeze(self, columns: Sequence[tuple[str, str]], rows: Rows) -> str:
        """Write a release into a table of its own; returns a relation with its columns, as SQL."""
        table = f"temp.main.__dp_release_{next(self._numbers)}"
        return freeze(self.connection, table, columns, rows)

    def freeze_once(self, what: str, columns: Sequence[tuple[str, str]], rows: Rows) -> str:
        """Write a system table or stored release; the same one again is the same table.

        `what` is its name or id: thus the number of tables, which analysts can see, does not depend
        on whether two releases are equal.
        """
        content = repr((what, list(columns), list(rows))).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._frozen:
            self._frozen[digest] = self.freeze(columns, rows)
        return self._frozen[digest]

    def check_idle(self) -> None:
        """Refuse to begin while an answer is being read in pieces: nothing can be written then."""
        try:
            self.connection.execute("SELECT 1").fetchall()
        except duckdb.Error:
            raise NotSupported(
                "An earlier answer is still being read in pieces.",
                hint="Read it to its end first, or take it whole, with .to_arrow_table().",
            ) from None

    def only_select(self, sql: str) -> None:
        """Refuse all but one SELECT, as DuckDB itself parses it."""
        found = self.connection.extract_statements(sql)
        if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
            raise NotSupported("Under a policy you can run one SELECT at a time.")

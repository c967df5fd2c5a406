"""The public side under a policy: a DuckDB instance of its own, with releases and public tables.

The analyst's query runs here, where no private row is. The instance is in memory and locked: no
files, no network, no extensions, no Python variables, no other settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import Connection, Engine, freeze, hide_progress
from dp_sql.engines.duckdb.tickets import Desk
from dp_sql.errors import NotSupported
from dp_sql.sql.formatting import quote

_LOCK = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET TimeZone = 'UTC'",
    "SET lock_configuration = true",
)


DEFAULT_MEMORY = "1GB"
"""Memory of the public side where the policy does not say."""


class PublicSide:
    """Holds what analysts may see.

    It writes nothing to disk: by default DuckDB would spill into the working folder, up to 90 % of
    that disk. A query beyond its memory ends with DuckDB's error.

    Args:
        memory_limit: a size as DuckDB writes it.
        threads: how many DuckDB may use; its default where left out.
    """

    def __init__(self, memory_limit: str | None = None, threads: int | None = None) -> None:
        config: dict[str, Any] = {
            "enable_external_access": "false",
            "temp_directory": "",
            "memory_limit": memory_limit or DEFAULT_MEMORY,
        }
        if threads is not None:
            config["threads"] = threads
        self._connection: Connection = duckdb.connect(":memory:", config=config)
        hide_progress(self._connection)
        for setting in _LOCK:
            self._connection.execute(setting)
        self._engine = Engine(self._connection, Desk())
        self._loaded: set[tuple[str, ...]] = set()
        self._frozen: dict[str, str] = {}
        self._n_tables = 0

    def interrupt(self) -> None:
        """Stop what is running."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection; relations of this session end with it."""
        self._connection.close()

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function: here there are none but DuckDB's own."""
        return self._engine.builtin_kinds(names)

    def builtin_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """The same: nobody can make a function here."""
        return self._engine.builtin_kinds(names)

    def has(self, parts: Sequence[str]) -> bool:
        """Whether a public table is here already."""
        return tuple(parts) in self._loaded

    def load(self, parts: Sequence[str], columns: Sequence[tuple[str, str]], rows: Any) -> None:
        """Copy a public table under its own schema and name."""
        _, schema, name = parts
        table = f"{quote(schema)}.{quote(name)}"
        typed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
        self._connection.execute(f"CREATE TABLE {table} ({typed})")
        self._connection.register("__dp_rows", rows)
        try:
            cast = ", ".join(f"CAST({quote(column)} AS {kind})" for column, kind in columns)
            self._connection.execute(f"INSERT INTO {table} SELECT {cast} FROM __dp_rows")
        finally:
            self._connection.unregister("__dp_rows")
        self._loaded.add(tuple(parts))

    def freeze(self, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[object, ...]]) -> str:
        """Keep a release; returns a relation with its columns, as SQL."""
        self._n_tables += 1
        table = f"temp.main.__dp_release_{self._n_tables}"
        return freeze(self._connection, table, columns, rows)

    def freeze_once(
        self,
        what: str,
        columns: Sequence[tuple[str, str]],
        rows: Sequence[tuple[object, ...]],
    ) -> str:
        """Keep a book, or a release that was kept before; the same one stays one table.

        Args:
            what: the book's name or the release's id. How many tables there are, which analysts
                can see, does so not hang on whether two releases happen to be equal.
            columns: as for `freeze`.
            rows: as for `freeze`.
        """
        content = repr((what, list(columns), list(rows))).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._frozen:
            self._frozen[digest] = self.freeze(columns, rows)
        return self._frozen[digest]

    def check_idle(self) -> None:
        """Refuse to begin while an answer is being read in pieces: nothing can be kept then.

        Raises:
            NotSupported: a reader of an answer is open.
        """
        try:
            self._connection.execute("SELECT 1").fetchall()
        except duckdb.Error:
            raise NotSupported(
                "An earlier answer is still being read in pieces.",
                hint="Read it to its end first, or take it whole, with .to_arrow_table().",
            ) from None

    def only_select(self, text: str) -> None:
        """Refuse all but one SELECT, as DuckDB itself reads the text.

        Raises:
            NotSupported: several statements, or one of another kind.
            duckdb.Error: DuckDB cannot read it.
        """
        found = self._connection.extract_statements(text)
        if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
            raise NotSupported("Under a policy one SELECT is answered, and nothing else.")

    def bind(self, text: str, parameters: object = None) -> None:
        """Let DuckDB bind a query and not run it: a relation runs when it is read."""
        self._connection.sql(text, params=parameters)

    def relate(self, text: str, parameters: object = None) -> duckdb.DuckDBPyRelation | None:
        """The relation of a query."""
        return self._connection.sql(text, params=parameters)

    def run(self, text: str, parameters: object = None) -> Connection:
        """Execute a query; returns the connection to fetch from."""
        return self._connection.execute(text, parameters)

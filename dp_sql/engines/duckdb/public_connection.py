"""The public side of a session under a policy: its own DuckDB, with releases and public tables.

The analyst's query runs here, where no private row is. The instance is in memory and locked.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.frozen import FrozenAnswers, Records
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK
from dp_sql.engines.duckdb.opening import restrict
from dp_sql.engines.duckdb.sql_runner import error_of, parsed_once
from dp_sql.engines.duckdb.tables import fill, make_table, use_schema
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import SchemaName
from dp_sql.privacy.refusals import OF_PIVOT
from dp_sql.sql.formatting import quote
from dp_sql.sql.only_reads import Read
from dp_sql.sql.tokens import folded

# DuckDB is asked what such SQL reads: words that begin the name of a view of the catalog or another
# statement, characters with which other tokens may begin or end, and strings that may go on in the
# next line, perhaps behind a comment. ORDER BY x DESC is not such. No part looks
# further than a run of blanks.
_MAY_READ_MORE = re.compile(
    r"(?:duckdb|pg|pragma|sqlite)_|\b(?:show|describe|summarize|insert|update|delete|merge|copy)\b"
    r"|(?:[(/\r\n]|\b(?:all|distinct|except|intersect|name|union))[^\S\r\n]*desc\b"
    r"|[^\t\n\r -#%-\[\]-~]|'[^\S\r\n]*(?:--|[\r\n])",
    re.IGNORECASE,
)
# In a query that DuckDB has written as JSON.
_RELATION = re.compile(r'"table_name":"(\w+)"')
_FUNCTION = re.compile(r'"function_name":"(\w+)"')
_OTHER = re.compile(r'"type":"([A-Z]+)(?:_INTO)?_QUERY_NODE"|"show_type":"(SHOW)\w*"')
_VIEWS = """SELECT view_name FROM system.main.duckdb_views()
    WHERE internal AND schema_name <> 'information_schema'"""


class PublicConnection(Engine):
    """Holds what analysts may see. A query beyond its memory ends with DuckDB's error."""

    attempts_here = True

    def __init__(
        self,
        memory_limit: str | None = None,
        threads: int | None = None,
        here: SchemaName | None = None,
    ) -> None:
        config: dict[str, Any] = {"enable_external_access": "false"}
        config["temp_directory"] = ""  # it spills nothing
        limits = {"memory_limit": memory_limit, "threads": threads}
        config |= {name: limit for name, limit in limits.items() if limit is not None}
        super().__init__(duckdb.connect(":memory:", config=config), Tickets())
        restrict(self.connection, "SET lock_configuration = true")
        self.here = here or ("memory", "main")
        if here is not None:  # where bare names are looked for, as in the database itself
            use_schema(self.connection, here)
            if folded(here[0]) != "memory":  # a schema may be called so
                self.connection.execute("DETACH memory")
        self.loaded: set[tuple[str, ...]] = set()  # public tables, by their full names
        self.frozen = FrozenAnswers(self.connection.execute)
        self._stored: dict[str, str] = {}
        self._views: set[str] = set()  # of DuckDB's own catalog

    def interrupt(self) -> None:
        """Stop what is running."""
        self.connection.interrupt()

    def close(self) -> None:
        """Close the connection; relations of this session end with it."""
        with CATALOG_LOCK:
            self.connection.close()

    def bind(self, sql: str, parameters: object = None, keyword: str = "SELECT") -> None:
        """Let DuckDB bind a SELECT; what it can bind once, it can bind later."""
        super().bind(sql, parameters, keyword)
        if parameters is None:
            self.state.bindable[sql] = None

    def attempt(self, sql: str) -> duckdb.Error | None:
        """What DuckDB says of SQL; no analyst has a transaction here."""
        return error_of(self, sql)

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function; no one can create functions here."""
        return self.builtin_kinds(names)

    def read_by(self, select: str) -> Read:
        """What DuckDB itself finds in a SELECT that may read more than it seems to."""
        if not _MAY_READ_MORE.search(select):
            return Read()
        ((tree,),) = self._fetch("SELECT system.main.json_serialize_sql($1)", [select])
        if '"error":true' in tree[:20]:
            raise NotSupported("Under a policy you can run one SELECT at a time.")
        if not self._views:
            self._views.update(name for (name,) in self._fetch(_VIEWS))
        return Read(
            self._views & {*map(folded, _RELATION.findall(tree))},
            {*map(folded, _FUNCTION.findall(tree))},
            {query or show for query, show in _OTHER.findall(tree)},
        )

    def load(
        self,
        parts: Sequence[str],
        columns: Sequence[tuple[str, str]],
        rows: Any,
        *,
        is_bare: bool = False,
    ) -> None:
        """Copy a public table under its own name, in place of an earlier copy.

        is_bare: whether its last part alone means it, and no temporary table that is there.
        """
        if is_bare and parts[0] != "temp":
            self.connection.execute(f"DROP TABLE IF EXISTS temp.main.{quote(parts[-1])}")
        make_table(self.connection, parts, columns)
        fill(self.connection, parts, columns, rows)
        self.loaded.add(tuple(parts))

    def freeze_once(self, what: str, columns: Sequence[tuple[str, str]], rows: Records) -> str:
        """Freeze what never changes; the same one again is the same relation, as SQL."""
        if what not in self._stored:
            self._stored[what] = self.frozen.add(columns, rows)
        return self._stored[what]

    def check_idle(self) -> None:
        """Refuse to begin while an answer is being read in pieces: nothing can be written then."""
        try:
            self.connection.execute(parsed_once("SELECT 1", self.connection, self.state)).fetchall()
        except duckdb.Error:
            raise NotSupported(
                "An earlier answer is still being read in pieces.",
                hint="Read it to its end first, or take it whole, with .to_arrow_table().",
            ) from None

    def only_select(self, sql: str) -> None:
        """Refuse all but one SELECT, as DuckDB itself parses it."""
        found = self.connection.extract_statements(sql)
        if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
            # PIVOT without IN is several statements: the first reads the values.
            hint = OF_PIVOT if "PIVOT" in sql.upper() else None
            raise NotSupported("Under a policy you can run one SELECT at a time.", hint=hint)

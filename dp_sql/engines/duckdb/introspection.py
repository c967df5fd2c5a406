"""A DuckDB database as the owner's tools see it (policy/owners_catalog.py). It is only read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby

import duckdb

from dp_sql.engines.duckdb.opening import open_database
from dp_sql.engines.duckdb.parquet_files import PinnedFiles, files_of
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import SourceError
from dp_sql.policy.owners_catalog import CatalogEntry, ForeignKey
from dp_sql.privacy.catalog import size_sql
from dp_sql.sql.tokens import folded

# DuckDB 1.5.3 has crashed while one thread read a catalog and others opened sessions. So sessions
# open and close their connections, and read the catalog, one at a time.
CATALOG_LOCK = threading.RLock()
_COLUMNS = """
    SELECT database_name, schema_name, table_name, column_name, data_type
    FROM system.main.duckdb_columns()
    WHERE NOT internal AND database_name NOT IN ('system', 'temp')
    ORDER BY database_name, schema_name, table_name, column_index
"""
_VIEWS = """SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views()
    WHERE NOT internal"""
TableNames = Iterable[Sequence[str]]  # of tables
_KEYS = """
    SELECT database_name, schema_name, table_name, constraint_type, constraint_column_names,
        referenced_table, referenced_column_names
    FROM system.main.duckdb_constraints()
    WHERE constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
    ORDER BY ALL
"""


@contextmanager
def opened(database: str) -> Iterator[DatabaseCatalog]:
    """The catalog of an existing database file."""
    with open_database(database, read_only=True) as connection:
        yield DatabaseCatalog(connection)


class DatabaseCatalog:
    """What is in the databases of a connection when it is first asked, except temporary tables."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def listed(self) -> Sequence[CatalogEntry]:
        """The tables and views, in the order of their names."""
        return self._listed

    @cached_property
    def _listed(self) -> Sequence[CatalogEntry]:
        found = self._connection.execute(_VIEWS).fetchall()
        views = {tuple(parts): sql or "" for *parts, sql in found}
        files = {parts: files_of(sql) for parts, sql in views.items()}
        rows = self._connection.execute(_COLUMNS).fetchall()
        primary: dict[tuple[str, ...], tuple[str, ...]] = {}
        foreign: dict[tuple[str, ...], tuple[ForeignKey, ...]] = {}
        for *table, kind, columns, other, keys in self._connection.execute(_KEYS).fetchall():
            parts = tuple(table)
            if kind == "PRIMARY KEY":
                primary[parts] = tuple(columns)
            else:  # DuckDB has none across schemas
                key = ForeignKey(tuple(columns), (table[0], table[1], other), tuple(keys))
                foreign[parts] = (*foreign.get(parts, ()), key)
        return [
            CatalogEntry(
                parts,
                is_view=parts in views and not files[parts],
                columns=tuple((column, kind) for *_, column, kind in columns),
                primary_key=primary.get(parts, ()),
                references=foreign.get(parts, ()),
                files=files.get(parts, ()),
                definition=views.get(parts, ""),
            )
            for parts, columns in groupby(rows, key=lambda row: (row[0], row[1], row[2]))
        ]

    def pinned(self, private: TableNames = (), public: TableNames = ()) -> PinnedFiles:
        """The files of these tables as they are now; PolicyError as for PinnedFiles."""
        files = [one for one in self._listed if one.files]
        tables = [
            [(".".join(n), one.sql, one.files) for n in names for one in files if one.is_called(n)]
            for names in (private, public)
        ]
        return PinnedFiles(self._connection, *tables)

    def replaced_functions(self) -> Sequence[str]:
        """Names of users' macros and functions that replace DuckDB's own."""
        sql = "SELECT DISTINCT function_name, internal FROM system.main.duckdb_functions()"
        rows = self._connection.execute(sql).fetchall()
        own = {folded(name) for name, internal in rows if internal}
        return sorted(name for name, internal in rows if not internal and folded(name) in own)

    def finds(self, select: str) -> bool:
        """Whether a SELECT returns a row; raises SourceError as `public_number` does."""
        return bool(self.public_number(size_sql(select, 1)))

    def public_number(self, select: str) -> int:
        """The number that a SELECT returns, or a SourceError.

        DuckDB's own message may hold values, and is left out.
        """
        try:
            ((number,),) = self._connection.execute(select).fetchall()
        except duckdb.Error as error:
            raise SourceError(f"DuckDB raised {type(error).__name__}.") from None
        return int(number)

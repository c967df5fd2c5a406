"""SQLAlchemy's dialect `dpsql`: a session for whatever speaks SQLAlchemy 1.4 or 2.

    create_engine("dpsql:///shop.duckdb?policy=policy.toml&analyst=reporting")

duckdb-engine writes DuckDB's SQL; `dp_sql.integrations.dbapi` makes the connections; what
tables there are it asks the session (SHOW TABLES, DESCRIBE), so that under a policy a client sees
names and types and no size. Knows nothing below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from sqlalchemy import pool
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGExecutionContext
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchTableError
from sqlalchemy.sql.compiler import DDLCompiler

from dp_sql.integrations import dbapi
from dp_sql.integrations.sqlalchemy.types import sqlalchemy_type

try:
    import duckdb_engine
except ImportError as error:
    raise ImportError(
        "The SQLAlchemy dialect dpsql is built on duckdb-engine: pip install 'dp-sql[sqlalchemy]'"
    ) from error

_SCHEMA = "main"
_KEYS = ("policy", "analyst", "owner", "ledger", "read_only")
_SWITCH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_OWNERS_TABLES = """
SELECT schema_name, table_name, 'table' AS kind FROM duckdb_tables()
WHERE database_name = current_database() AND NOT internal
UNION ALL SELECT schema_name, view_name, 'view' FROM duckdb_views()
WHERE database_name = current_database() AND NOT internal ORDER BY ALL
"""

Listed = dict[tuple[str, str], tuple[str, list[str]]]


class _Tables(PGDDLCompiler):  # type: ignore[misc]
    """CREATE TABLE without PostgreSQL's SERIAL, which DuckDB does not know."""

    get_column_specification = DDLCompiler.get_column_specification


class Dialect(duckdb_engine.Dialect):  # type: ignore[misc]
    """DuckDB's SQL over a session, with what the session shows of the tables."""

    name = "dpsql"
    driver = "dp_sql"
    supports_statement_cache = True
    execution_ctx_cls = PGExecutionContext
    ddl_compiler = _Tables
    inspector = Inspector

    # --- connections ---

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The module underneath."""
        return dbapi

    dbapi = import_dbapi  # SQLAlchemy 1.4 asks by this name

    @classmethod
    def get_pool_class(cls, url: Any) -> Any:
        """Sessions are pooled; one in memory stays with its thread."""
        if url.database in {None, "", ":memory:"}:
            return pool.SingletonThreadPool
        return pool.QueuePool

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        """What `dp_sql.integrations.dbapi.connect` takes, from a URL."""
        said = _said(url)
        # SQLAlchemy drops a key without a value: a blank policy must not make its reader the owner.
        is_owner = said.pop("owner", False)
        if is_owner == ("policy" in said):
            raise ArgumentError(
                "A dpsql URL names a policy and an analyst (?policy=policy.toml&analyst=reporting) "
                "or says ?owner=true, which opens the database without a policy; one of the two."
            )
        if ("policy" in said) != ("analyst" in said):
            raise ArgumentError(
                "Under a policy a dpsql URL says who asks, and only there: &analyst=reporting."
            )
        return [url.database or ":memory:"], said

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        """A connection whose transactions end with commit or rollback, as SQLAlchemy expects."""
        return dbapi.connect(*args, **{"autocommit": False, **kwargs})

    def do_begin(self, dbapi_connection: Any) -> None:
        """Nothing: the first statement begins a transaction."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Undo what was changed; what was spent stays spent."""
        dbapi_connection.rollback()

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether a session answers."""
        dbapi_connection.execute("SELECT 1").close()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Never: there is no server that could go away."""
        return False

    def get_default_isolation_level(self, dbapi_conn: Any) -> str:
        """DuckDB knows one level."""
        return "SNAPSHOT"

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[str]:
        """DuckDB's one level, or each statement by itself."""
        return ("AUTOCOMMIT", "SNAPSHOT")

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        """Which of the two holds."""
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SNAPSHOT"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Choose one of the two."""
        if level not in self.get_isolation_level_values(dbapi_connection):
            raise ArgumentError("DuckDB's isolation levels are AUTOCOMMIT and SNAPSHOT.")
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Whether each statement commits by itself."""
        return bool(dbapi_conn.autocommit)

    def _get_default_schema_name(self, connection: Any) -> str:
        return _SCHEMA

    # --- what there is ---

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """The schemas of the tables that there are."""
        return sorted({_SCHEMA, *(schema for schema, _ in self._listed(connection))})

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The tables of a schema."""
        return self._names(connection, schema, view=False)

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The views of a schema."""
        return self._names(connection, schema, view=True)

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Whether there is such a table or view."""
        return (schema or _SCHEMA, table_name) in self._listed(connection)

    def has_schema(self, connection: Any, schema_name: str, **_: Any) -> bool:
        """Whether there is such a schema."""
        return schema_name in self.get_schema_names(connection)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """Names and types of a table's columns; none of a view that analysts cannot read."""
        found = self._listed(connection).get((schema or _SCHEMA, table_name))
        if found is None:
            raise NoSuchTableError(table_name)
        kind, parts = found
        name = ".".join(self.identifier_preparer.quote_identifier(part) for part in parts)
        try:
            rows = connection.exec_driver_sql(f"DESCRIBE {name}").fetchall()
        except DBAPIError:
            if kind == "private view":
                return []
            raise
        return [
            {
                "name": row[0],
                "type": sqlalchemy_type(row[1]),
                "nullable": len(row) < 3 or row[2] == "YES",
                "default": None,
                "autoincrement": False,
                "comment": None,
            }
            for row in rows
        ]

    def _names(self, connection: Any, schema: str | None, *, view: bool) -> list[str]:
        return [
            table
            for (of, table), (kind, _) in self._listed(connection).items()
            if of == (schema or _SCHEMA) and kind.endswith("view") == view
        ]

    def _listed(self, connection: Any) -> Listed:
        """By schema and name: what kind of table it is, and the parts of its name."""
        if not _has_policy(connection):
            rows = connection.exec_driver_sql(_OWNERS_TABLES).fetchall()
            return {(schema, name): (kind, [schema, name]) for schema, name, kind in rows}
        listed: Listed = {}
        for name, kind in connection.exec_driver_sql("SHOW TABLES").fetchall():
            parts = name.split(".")
            schema = parts[-2] if len(parts) > 1 else _SCHEMA
            listed[schema, parts[-1]] = (kind, parts)
        return listed

    # --- what is not told, or is not there ---

    def get_pk_constraint(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Not told."""
        return {"constrained_columns": [], "name": None}

    def get_table_comment(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Not told."""
        return {"text": None}

    def get_table_options(self, *_: Any, **__: Any) -> dict[str, Any]:
        """There are none."""
        return {}

    def get_view_definition(self, *_: Any, **__: Any) -> None:
        """Not told."""

    def _none(self, *_: Any, **__: Any) -> list[Any]:
        """Not told, or not there."""
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _none
    get_temp_table_names = get_temp_view_names = get_materialized_view_names = _none
    get_sequence_names = _none


# duckdb-engine and PostgreSQL's dialect, on which it is built, ask catalogues; SQLAlchemy's own
# asks the functions above, one table after the other.
for _name in (name for name in dir(DefaultDialect) if name.startswith("get_multi_")):
    setattr(Dialect, _name, getattr(DefaultDialect, _name))


def _said(url: Any) -> dict[str, Any]:
    """What a URL says, key by key; what is unknown, blank or said twice is refused."""
    unknown = sorted(set(url.query) - set(_KEYS))
    if unknown or url.host or url.username:
        what = unknown[0] if unknown else "host or user"
        raise ArgumentError(
            f"A dpsql URL takes no {what}. Write dpsql:///shop.duckdb?policy=policy.toml"
            f"&analyst=reporting; known here: {', '.join(_KEYS)}."
        )
    said: dict[str, Any] = dict(url.query)
    for key, value in said.items():
        if not isinstance(value, str) or not value.strip():
            raise ArgumentError(f"A dpsql URL says {key} once, with a value: {key}=….")
        if key in {"owner", "read_only"}:
            if value.lower() not in _SWITCH:
                raise ArgumentError(f"In a dpsql URL {key} is true or false.")
            said[key] = _SWITCH[value.lower()]
    return said


def _has_policy(connection: Any) -> bool:
    pooled = connection.connection
    return bool(getattr(pooled, "dbapi_connection", pooled).has_policy)

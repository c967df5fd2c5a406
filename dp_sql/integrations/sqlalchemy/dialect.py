"""SQLAlchemy's dialect `dpsql`: a session for programs that use SQLAlchemy 1.4 or 2.

    create_engine("dpsql:///shop.duckdb?policy=policy.toml&analyst=reporting")

duckdb-engine writes DuckDB's SQL, and `dp_sql.integrations.dbapi` makes the connections. Tables
are listed through the session (SHOW TABLES, DESCRIBE): an analyst sees names and types.
"""
# ruff: noqa: D102  (SQLAlchemy documents the methods that it calls)

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from sqlalchemy import pool, types
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGExecutionContext
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchTableError
from sqlalchemy.sql.compiler import DDLCompiler

from dp_sql.installation import install_command
from dp_sql.integrations import dbapi

try:
    import duckdb_engine
except ImportError as error:
    raise ImportError(
        f"The SQLAlchemy dialect dpsql is built on duckdb-engine: {install_command('sqlalchemy')}"
    ) from error

_SCHEMA = "main"
_LEVELS = ("AUTOCOMMIT", "SNAPSHOT")
_KEYS = ("policy", "analyst", "owner", "ledger", "read_only")
_SWITCH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_OWNER_TABLES = """
SELECT schema_name, table_name, 'table' AS kind FROM duckdb_tables()
WHERE database_name = current_database() AND NOT internal
UNION ALL SELECT schema_name, view_name, 'view' FROM duckdb_views()
WHERE database_name = current_database() AND NOT internal ORDER BY ALL
"""

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST = re.compile(r"(.+)\[\d*\]", re.DOTALL)
_NAMES: dict[Any, str] = {
    types.BOOLEAN: "BOOLEAN",
    types.SMALLINT: "TINYINT SMALLINT UTINYINT",
    types.INTEGER: "INTEGER USMALLINT",
    types.BIGINT: "BIGINT UINTEGER",
    types.FLOAT: "FLOAT DOUBLE",
    types.VARCHAR: "VARCHAR ENUM",
    types.LargeBinary: "BLOB",
    types.DATE: "DATE",
    types.TIME: "TIME",
    types.TIMESTAMP: "TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS",
}
_BY_NAME = {name: found for found, names in _NAMES.items() for name in names.split()}
# By schema and name: the kind of a table, and the parts of its full name.
Tables = dict[tuple[str, str], tuple[str, list[str]]]


def _always(answer: Any) -> Callable[..., Any]:
    """A method with this answer; each call gets a copy of its own."""
    return lambda *_, **__: copy.copy(answer)


class _CreateTable(PGDDLCompiler):  # type: ignore[misc]
    """CREATE TABLE without PostgreSQL's SERIAL, which DuckDB does not have."""

    get_column_specification = DDLCompiler.get_column_specification


class Dialect(duckdb_engine.Dialect):  # type: ignore[misc]
    """DuckDB's SQL over a session."""

    name = "dpsql"
    driver = "dp_sql"
    supports_statement_cache = True
    execution_ctx_cls = PGExecutionContext
    ddl_compiler = _CreateTable
    inspector = Inspector

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    dbapi = import_dbapi  # SQLAlchemy 1.4 calls it by this name

    @classmethod
    def get_pool_class(cls, url: Any) -> Any:
        in_memory = url.database in {None, "", ":memory:"}  # it stays with its thread
        return pool.SingletonThreadPool if in_memory else pool.QueuePool

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        options = _url_options(url)
        # SQLAlchemy drops a key without a value: a blank policy must not open it as the owner.
        is_owner = options.pop("owner", False)
        if is_owner == ("policy" in options):
            raise ArgumentError(
                "A dpsql URL names a policy and an analyst (?policy=policy.toml&analyst=reporting) "
                "or says ?owner=true, which opens the database without a policy; one of the two."
            )
        if ("policy" in options) != ("analyst" in options):
            raise ArgumentError(
                "A dpsql URL with a policy, and no other, names the analyst: &analyst=reporting."
            )
        return [url.database or ":memory:"], options

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        return dbapi.connect(*args, **{"autocommit": False, **kwargs})

    def do_rollback(self, dbapi_connection: Any) -> None:
        dbapi_connection.rollback()

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.execute("SELECT 1").close()
        return True

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SNAPSHOT"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        if level not in _LEVELS:
            raise ArgumentError("DuckDB's isolation levels are AUTOCOMMIT and SNAPSHOT.")
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        return sorted({_SCHEMA, *(schema for schema, _ in _tables(connection))})

    def get_table_names(self, connection: Any, schema: Any = None, **_: Any) -> list[str]:
        return _names(connection, schema, view=False)

    def get_view_names(self, connection: Any, schema: Any = None, **_: Any) -> list[str]:
        return _names(connection, schema, view=True)

    def has_table(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> bool:
        return (schema or _SCHEMA, table_name) in _tables(connection)

    def has_schema(self, connection: Any, schema_name: str, **_: Any) -> bool:
        return schema_name in self.get_schema_names(connection)

    def get_columns(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> list[dict[str, Any]]:
        found = _tables(connection).get((schema or _SCHEMA, table_name))
        if found is None:
            raise NoSuchTableError(table_name)
        kind, parts = found
        name = ".".join(self.identifier_preparer.quote_identifier(part) for part in parts)
        try:
            rows = connection.exec_driver_sql(f"DESCRIBE {name}").fetchall()
        except DBAPIError:
            if kind == "private view":  # one that analysts cannot read
                return []
            raise
        return [
            {
                "name": row[0], "type": sqlalchemy_type(row[1]), "default": None, "comment": None,
                "nullable": len(row) < 3 or row[2] == "YES", "autoincrement": False,
            }
            for row in rows
        ]  # fmt: skip

    # What is the same everywhere, a session does not show, or DuckDB does not have.
    do_begin = _always(None)  # the first statement begins a transaction
    is_disconnect = _always(False)  # there is no server
    get_default_isolation_level = _always("SNAPSHOT")
    get_isolation_level_values = _always(_LEVELS)
    _get_default_schema_name = _always(_SCHEMA)
    get_pk_constraint = _always({"constrained_columns": [], "name": None})
    get_table_comment = _always({"text": None})
    get_table_options = _always({})
    get_view_definition = _always(None)
    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _always([])
    get_temp_table_names = get_temp_view_names = get_materialized_view_names = _always([])
    get_sequence_names = _always([])


# duckdb-engine and PostgreSQL's dialect, on which it is built, query catalogs; SQLAlchemy's own
# functions call those above, one table after the other.
for _name in (name for name in dir(DefaultDialect) if name.startswith("get_multi_")):
    setattr(Dialect, _name, getattr(DefaultDialect, _name))


def _names(connection: Any, schema: str | None, *, view: bool) -> list[str]:
    return [
        table
        for (in_schema, table), (kind, _) in _tables(connection).items()
        if in_schema == (schema or _SCHEMA) and kind.endswith("view") == view
    ]


def _tables(connection: Any) -> Tables:
    pooled = connection.connection
    if getattr(pooled, "dbapi_connection", pooled).session.analyst is None:
        rows = connection.exec_driver_sql(_OWNER_TABLES).fetchall()
        return {(schema, name): (kind, [schema, name]) for schema, name, kind in rows}
    found: Tables = {}
    for name, kind in connection.exec_driver_sql("SHOW TABLES").fetchall():
        parts = name.split(".")
        found[parts[-2] if len(parts) > 1 else _SCHEMA, parts[-1]] = (kind, parts)
    return found


def _url_options(url: Any) -> dict[str, Any]:
    """The options of a URL; an option that is unknown, blank or given twice is refused."""
    unknown = sorted(set(url.query) - set(_KEYS))
    if unknown or url.host or url.username:
        what = unknown[0] if unknown else "host or user"
        raise ArgumentError(
            f"A dpsql URL takes no {what}. Write dpsql:///shop.duckdb?policy=policy.toml"
            f"&analyst=reporting; known here: {', '.join(_KEYS)}."
        )
    options: dict[str, Any] = dict(url.query)
    for key, value in options.items():
        if not isinstance(value, str) or not value.strip():
            raise ArgumentError(f"A dpsql URL gives {key} once, with a value: {key}=….")
        if key in {"owner", "read_only"}:
            if value.lower() not in _SWITCH:
                raise ArgumentError(f"In a dpsql URL {key} is true or false.")
            options[key] = _SWITCH[value.lower()]
    return options


class DuckDBType(types.UserDefinedType):  # type: ignore[misc]  # Any, as SQLAlchemy is skipped
    """A type that only DuckDB has; its values are those of DuckDB's Python module."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        """DuckDB's name of the type."""
        return self.name


def sqlalchemy_type(name: str) -> Any:
    """The SQLAlchemy type of a type as DuckDB writes it.

    >>> sqlalchemy_type("BIGINT"), sqlalchemy_type("DECIMAL(9,2)"), sqlalchemy_type("VARCHAR[]")
    (BIGINT(), NUMERIC(precision=9, scale=2), ARRAY(VARCHAR()))
    """
    if is_list := _LIST.fullmatch(name):
        item = sqlalchemy_type(is_list[1])
        return DuckDBType(name) if isinstance(item, types.ARRAY) else types.ARRAY(item)
    if is_decimal := _DECIMAL.fullmatch(name):
        return types.NUMERIC(int(is_decimal[1]), int(is_decimal[2]))
    if name.endswith(" WITH TIME ZONE"):
        of_day = types.TIME if name.startswith("TIME ") else types.TIMESTAMP
        return of_day(timezone=True)
    if name in {"UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"}:  # too wide for SQLAlchemy's integers
        return types.NUMERIC(40, 0)
    found = _BY_NAME.get(name.split("(")[0])
    return DuckDBType(name) if found is None else found()

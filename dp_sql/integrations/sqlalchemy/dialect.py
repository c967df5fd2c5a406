"""SQLAlchemy's dialect `dpsql`: a session for programs that use SQLAlchemy 1.4 or 2.

    create_engine("dpsql:///shop.duckdb?policy=policy.toml&analyst=reporting")

duckdb-engine writes DuckDB's SQL, `dp_sql.integrations.dbapi` makes the connections, and
reflection.py lists tables.
"""
# ruff: noqa: D102  (SQLAlchemy documents the methods that it calls)

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

from sqlalchemy import pool, types, util
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGExecutionContext
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql.compiler import DDLCompiler

from dp_sql.installation import install_command
from dp_sql.integrations import dbapi
from dp_sql.integrations.sqlalchemy.column_types import Numeric
from dp_sql.integrations.sqlalchemy.reflection import SCHEMA, Reflection

try:
    import duckdb_engine
except ImportError as error:
    raise ImportError(
        f"The SQLAlchemy dialect dpsql is built on duckdb-engine: {install_command('sqlalchemy')}"
    ) from error

_LEVELS = ("AUTOCOMMIT", "SNAPSHOT")
_KEYS = ("policy", "analyst", "owner", "ledger", "read_only")
_SWITCH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _always(answer: Any) -> Callable[..., Any]:
    """A method with this answer; each call gets a copy of its own."""
    return lambda *_, **__: copy.copy(answer)


class _CreateTable(PGDDLCompiler):  # type: ignore[misc]
    """CREATE TABLE without PostgreSQL's SERIAL, which DuckDB does not have."""

    get_column_specification = DDLCompiler.get_column_specification


class _Context(PGExecutionContext):  # type: ignore[misc]
    """Defaults without the sequences that SERIAL would have made."""

    get_insert_default = DefaultExecutionContext.get_insert_default


class Dialect(Reflection, duckdb_engine.Dialect):  # type: ignore[misc]
    """DuckDB's SQL over a session."""

    name = "dpsql"
    driver = "dp_sql"
    supports_statement_cache = True
    execution_ctx_cls = _Context
    ddl_compiler = _CreateTable
    supports_native_decimal = True
    colspecs = util.update_copy(duckdb_engine.Dialect.colspecs, {types.Numeric: Numeric})
    # What PostgreSQL has and DuckDB does not.
    supports_constraint_comments = supports_identity_columns = sequences_optional = False

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

    # What is the same everywhere, a session does not show, or DuckDB does not have.
    do_begin = _always(None)  # the first statement begins a transaction
    is_disconnect = _always(False)  # there is no server
    get_default_isolation_level = _always("SNAPSHOT")
    get_isolation_level_values = _always(_LEVELS)
    _get_default_schema_name = _always(SCHEMA)
    get_materialized_view_names = _always([])


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

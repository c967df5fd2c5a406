"""What dp_sql leaves in a database instance: registered functions, and the macros that call them.

DuckDB drops a registered Python function with the cursor that registered it unless somebody holds
the callable, and then calls what stands in its place: `_INSTALLED` holds them for the life of the
process. It holds connections weakly, so that a forgotten one closes as it would without us.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import Connection, Engine
from dp_sql.engines.duckdb.functions import keep_udf, mechanism_udfs
from dp_sql.engines.duckdb.tickets import Desk
from dp_sql.errors import DpSqlError
from dp_sql.privacy.private_sql import KEEP_UDF
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions import FUNCTIONS

_DESK_UDF = "__dp_sql_desk"
_REWRITE_UDF = "__dp_sql_rewrite"

Rewriter = Callable[[str, Engine], str]


@dataclass(frozen=True)
class _Installed:
    """What one database instance holds: its desk, the callables, and who can make cursors."""

    desk: Desk
    held: tuple[object, ...]
    connections: list[weakref.ref[Connection]]


_INSTALLED: dict[str, _Installed] = {}
_REGISTERING = threading.Lock()


def desk_of(connection: Connection) -> Desk | None:
    """The desk of the connection's database instance, if dp_sql is registered there."""
    key = _key_of(connection)
    return None if key is None else _INSTALLED[key].desk


def _key_of(connection: Connection) -> str | None:
    cursor = connection.cursor()
    try:
        key: str = cursor.execute(f"SELECT {_DESK_UDF}()").fetchall()[0][0]
        return key
    except duckdb.CatalogException:
        return None
    finally:
        cursor.close()


def number_of(connection: Connection) -> int:
    """The number of a connection in its database instance."""
    sql = "SELECT system.main.current_connection_id()"
    return int(connection.execute(sql).fetchall()[0][0])


def register(connection: Connection, rewriter: Rewriter) -> Desk:
    """Register our functions in a database instance, once; returns its desk.

    The functions live in memory, for all cursors of the instance; nothing is written to a file.
    Only weak references to connections are kept: a forgotten one closes as it would without us.
    """
    with _REGISTERING:
        return _registered(connection, rewriter)


def _registered(connection: Connection, rewriter: Rewriter) -> Desk:
    known = _key_of(connection)
    if known is not None:
        _INSTALLED[known].connections.append(weakref.ref(connection))
        return _INSTALLED[known].desk
    desk, key = Desk(), uuid.uuid4().hex

    def desk_key() -> str:
        return key

    udfs = mechanism_udfs(desk)
    udfs.append((KEEP_UDF, keep_udf(desk), ["BIGINT[]", "BIGINT"], "BIGINT[][]"))
    connections = [weakref.ref(connection)]
    rewrite = _rewrite_udf(connections, desk, rewriter)
    numbers = ["VARCHAR", "UBIGINT", "UBIGINT"]
    arrow: dict[str, Any] = {"type": "arrow", "null_handling": "special", "side_effects": True}
    # Through a cursor: registration belongs to a transaction, and this one is nobody else's.
    cursor = connection.cursor()
    try:
        cursor.create_function(_DESK_UDF, desk_key, [], "VARCHAR")
        for name, function, takes, answer in udfs:
            cursor.create_function(name, function, [*numbers, *takes], answer, **arrow)
        # Constant arguments are to be folded: DuckDB's query() needs the text when it binds.
        cursor.create_function(_REWRITE_UDF, rewrite, ["VARCHAR"] * 3, "VARCHAR")
    finally:
        cursor.close()
    _INSTALLED[key] = _Installed(
        desk, (desk_key, *(function for _, function, _, _ in udfs), rewrite), connections
    )
    return desk


def _open_cursor(connections: list[weakref.ref[Connection]]) -> Connection:
    """A cursor of the first connection that is still open; closed ones are forgotten."""
    for reference in list(connections):
        connection = reference()
        try:
            if connection is not None:
                return connection.cursor()
        except duckdb.ConnectionException:
            pass
        connections.remove(reference)
    raise DpSqlError(
        "The connection that installed dp_sql is closed. Call dp_sql.install on this one."
    )


def create_macros(connection: Connection, *, everywhere: bool) -> None:
    """Create the table macro `dp`, and, for plain connections, a guard for each SQL function.

    Args:
        connection: its own macros are temporary.
        everywhere: also in the database itself, so that every cursor and view finds them; a
            database that cannot be written to is left as it is.
    """
    dp = (
        f"dp(query) AS TABLE FROM query({_REWRITE_UDF}"
        "(query, system.main.current_schema(), system.main.current_database()))"
    )
    guards = [_guard(name) for name in FUNCTIONS] if everywhere else []
    if everywhere:
        _refuse_foreign_macro(connection)
    for macro in [dp, *guards]:
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
    if everywhere:
        cursor = connection.cursor()
        try:
            for macro in [dp, *guards]:
                with contextlib.suppress(duckdb.InvalidInputException):  # opened read-only
                    cursor.execute(f"CREATE OR REPLACE MACRO {macro}")
        finally:
            cursor.close()


def _refuse_foreign_macro(connection: Connection) -> None:
    sql = (
        "SELECT system.main.count(*) FROM system.main.duckdb_functions() "
        "WHERE function_name = 'dp' AND NOT internal "
        f"AND NOT system.main.contains(macro_definition, '{_REWRITE_UDF}')"
    )
    if connection.execute(sql).fetchall()[0][0]:
        raise DpSqlError(
            "This database has a macro dp of its own, which installing dp_sql would replace. "
            "Rename or drop it first: DROP MACRO TABLE dp (or DROP MACRO dp)."
        )


def _guard(name: str) -> str:
    function = FUNCTIONS[name]
    parameters = [*function.positional, *(f"{a} := NULL" for a in function.named)]
    sentence = (
        f"{name} must be read by dp_sql before DuckDB runs it. Write the whole SELECT into dp: "
        f"FROM dp($$ SELECT {function.example} FROM {function.table} $$)"
    )
    return f"{name}({', '.join(parameters)}) AS system.main.error({literal(sentence)})"


def _rewrite_udf(
    connections: list[weakref.ref[Connection]], desk: Desk, rewriter: Rewriter
) -> Callable[[str, str, str], str]:
    def rewrite(text: str, schema: str, database: str) -> str:
        try:
            cursor = _open_cursor(connections)
            try:
                cursor.execute(f"USE {quote(database)}.{quote(schema)}")
                return rewriter(text, Engine(cursor, desk, _caller()))
            finally:
                cursor.close()
        except DpSqlError as error:
            # query(error('…')) makes DuckDB itself raise the sentence while it binds, plainly.
            return f"FROM query(error({literal(f'{type(error).__name__}: {error}')}))"

    return rewrite


def _caller() -> FrameType | None:
    """The innermost Python frame that is neither ours nor DuckDB's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".", 1)[0] not in {"dp_sql", "duckdb", "_duckdb"}:
            return frame
        frame = frame.f_back
    return None

"""What dp_sql adds to a database instance: registered functions, and the macros that call them."""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import Connection, Engine
from dp_sql.engines.duckdb.functions import keep_udf, mechanism_udfs
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import DpSqlError, InternalError, with_type
from dp_sql.privacy.private_sql import KEEP_UDF
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions import FUNCTIONS

_INSTANCE_UDF = "__dp_sql_instance"
_REWRITE_UDF = "__dp_sql_rewrite"

Rewriter = Callable[[str, Engine], str]  # (text, engine): the query that `dp(text)` means


@dataclass
class Instance:
    """A database instance: its tickets, the connections that make cursors, and what `dp` does."""

    tickets: Tickets
    connections: list[weakref.ref[Connection]]  # weakly, so that a forgotten one is closed
    rewriter: Rewriter | None
    callables: list[object] = field(default_factory=list)


# DuckDB drops a registered function with the cursor that registered it unless the callable is
# referenced, and then calls whatever is in its place.
_INSTANCES: dict[str, Instance] = {}
_REGISTERING = threading.Lock()


def instance_of(connection: Connection) -> Instance | None:
    """The database instance of a connection, if dp_sql is registered there."""
    with contextlib.closing(connection.cursor()) as cursor:
        try:
            ((key,),) = cursor.execute(f"SELECT {_INSTANCE_UDF}()").fetchall()
        except duckdb.CatalogException:
            return None
    return _INSTANCES[key]


def number_of(connection: Connection) -> int:
    """The number of a connection in its database instance."""
    return int(connection.execute("SELECT system.main.current_connection_id()").fetchall()[0][0])


def register(connection: Connection, rewriter: Rewriter | None = None) -> Tickets:
    """Register the functions in a database instance, once and in memory; returns its tickets.

    The rewriter is what `dp` does; None if there is no `dp`.
    """
    with _REGISTERING:
        known = instance_of(connection)
        if known is not None:
            known.connections.append(weakref.ref(connection))
            known.rewriter = known.rewriter or rewriter
            return known.tickets
        instance = Instance(Tickets(), [weakref.ref(connection)], rewriter)
        key = uuid.uuid4().hex
        # Through a cursor: registration belongs to a transaction, which is the cursor's own.
        with contextlib.closing(connection.cursor()) as cursor:
            for name, function, parameters, answer, options in _functions(key, instance):
                cursor.create_function(name, function, parameters, answer, **options)
                instance.callables.append(function)
        _INSTANCES[key] = instance
        return instance.tickets


def _functions(key: str, instance: Instance) -> list[tuple[Any, ...]]:
    """Each function: name, callable, types of its parameters and answer, and options."""
    issued = instance.tickets
    arrow: dict[str, Any] = {"type": "arrow", "null_handling": "special", "side_effects": True}
    keep = (KEEP_UDF, keep_udf(issued), ["BIGINT[]", "BIGINT"], "BIGINT[][]")
    return [
        *(
            (name, function, ["VARCHAR", "UBIGINT", "UBIGINT", *takes], answer, arrow)
            for name, function, takes, answer in [*mechanism_udfs(issued), keep]
        ),
        (_INSTANCE_UDF, lambda: key, [], "VARCHAR", {}),
        # DuckDB folds constant arguments: query() needs the text when it binds.
        (_REWRITE_UDF, _rewrite_udf(instance), ["VARCHAR"] * 3, "VARCHAR", {}),
    ]


def _rewrite_udf(instance: Instance) -> Callable[[str, str, str], str]:
    def rewrite(text: str, schema: str, database: str) -> str:
        try:
            if instance.rewriter is None:
                raise InternalError("dp is not available on this connection.")
            with contextlib.closing(_open_cursor(instance.connections)) as cursor:
                cursor.execute(f"USE {quote(database)}.{quote(schema)}")
                return instance.rewriter(text, Engine(cursor, instance.tickets, _caller()))
        except DpSqlError as error:
            # query(error('…')) makes DuckDB raise the sentence while it binds, as it is.
            return f"FROM query(error({literal(with_type(error))}))"

    return rewrite


def _open_cursor(connections: list[weakref.ref[Connection]]) -> Connection:
    """A cursor of the first connection that is still open; closed ones are forgotten."""
    for reference in list(connections):
        connection = reference()
        with contextlib.suppress(duckdb.ConnectionException):
            if connection is not None:
                return connection.cursor()
        connections.remove(reference)
    raise DpSqlError(
        "The connection that installed dp_sql is closed. Call dp_sql.install on this one."
    )


def _caller() -> FrameType | None:
    """The innermost Python frame that belongs neither to dp_sql nor to DuckDB."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".", 1)[0] not in {"dp_sql", "duckdb", "_duckdb"}:
            return frame
        frame = frame.f_back
    return None


def create_macros(connection: Connection, *, everywhere: bool) -> None:
    """Create the table macro `dp`, temporarily; `everywhere`, in the database as well.

    There every cursor and view finds it, and a guard for each SQL function. A database that cannot
    be written to is left as it is; DpSqlError if it has another macro `dp`.
    """
    macros = [
        f"dp(query) AS TABLE FROM query({_REWRITE_UDF}"
        "(query, system.main.current_schema(), system.main.current_database()))"
    ]
    if everywhere:
        macros += map(_guard, FUNCTIONS)
        _refuse_foreign_macro(connection)
    for macro in macros:
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
    if everywhere:
        with contextlib.closing(connection.cursor()) as cursor:
            for macro in macros:
                with contextlib.suppress(duckdb.InvalidInputException):  # opened read-only
                    cursor.execute(f"CREATE OR REPLACE MACRO {macro}")


def _refuse_foreign_macro(connection: Connection) -> None:
    sql = f"""SELECT system.main.count(*) FROM system.main.duckdb_functions()
        WHERE function_name = 'dp' AND NOT internal
        AND NOT system.main.contains(macro_definition, '{_REWRITE_UDF}')"""
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

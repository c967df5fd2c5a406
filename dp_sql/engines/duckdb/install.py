"""What dp_sql registers in a database instance: the functions that its SQL and its macros call."""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import duckdb

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.macros import (
    ANSWER_TYPES,
    ANSWER_UDF,
    REWRITE_TYPES,
    REWRITE_UDF,
    SETTINGS,
    SETTINGS_SQL,
    MacroCall,
)
from dp_sql.engines.duckdb.mechanism_udfs import (
    Udf,
    dense,
    find_udf,
    in_arrow_memory,
    keep_bits,
    keep_bytes,
    keep_udf,
    key_udf,
    means,
    mechanism_udfs,
    with_parameters,
    words_of_rows,
)
from dp_sql.engines.duckdb.opening import close
from dp_sql.engines.duckdb.rows_in_lists import udfs_of_lists
from dp_sql.engines.duckdb.session_state import SessionState
from dp_sql.engines.duckdb.sql_runner import Connection, parsed_once
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import DpSqlError, InternalError, NotSupported, with_type
from dp_sql.privacy.private_sql.group_bits import KEEP_BITS_UDF, KEEP_BYTES_UDF
from dp_sql.privacy.private_sql.group_ctes import FIND_UDF
from dp_sql.privacy.private_sql.people_rows import KEEP_UDF, KEY_UDF
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions.avg import MEANS_TYPE, MEANS_UDF
from dp_sql.sql.functions.quantile import WORD_UDF
from dp_sql.sql.functions.topk import DENSE_UDF
from dp_sql.sql.mechanism_rows import PAIRS

_INSTANCE_UDF = "__dp_sql_instance"
_HERE = f"""SELECT system.main.current_setting('search_path'), system.main.current_schema(),
    system.main.current_database(), {SETTINGS_SQL}"""
_IN_SESSION = "Ask with dp_sql.connect(…)."
Here = tuple[str, str, str]  # a connection's search path, schema and database


class Owner(NamedTuple):
    """What the macros do on an owner's connection.

    rewrite: (text, parameters as JSON, engine) to the query that `dp(text, params)` means.
    answer_call: (call, engine) to the value of one DP call as JSON.
    """

    rewrite: Callable[[str, str, Engine], str]
    answer_call: Callable[[MacroCall, Engine], str]


@dataclass
class Instance:
    """A database instance: its tickets, the connections that make cursors, and what macros do."""

    tickets: Tickets
    connections: list[weakref.ref[Connection]]  # weakly, so that a forgotten one is closed
    owner: Owner | None
    state: SessionState = field(default_factory=SessionState)  # of its macros
    callables: list[object] = field(default_factory=list)


# DuckDB drops a registered function with the cursor that registered it unless the callable is
# referenced, and then calls whatever is in its place.
_INSTANCES: dict[str, Instance] = {}
_REGISTERING = threading.Lock()
_TYPES: dict[str, Any] = {}


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


def register(
    connection: Connection, owner: Owner | None = None, *, is_new: bool = False
) -> Tickets:
    """Register the functions in a database instance, once and in memory; returns its tickets.

    owner: what the macros do; None if there are none.
    is_new: no one else can have opened this instance; asking DuckDB takes milliseconds.
    """
    with _REGISTERING:
        known = None if is_new or not _INSTANCES else instance_of(connection)
        if known is not None:
            known.connections.append(weakref.ref(connection))
            known.owner = known.owner or owner
            return known.tickets
        instance = Instance(Tickets(), [weakref.ref(connection)], owner)
        key = uuid.uuid4().hex
        # Through a cursor: registration belongs to a transaction, which is the cursor's own. One
        # transaction for all, and types that are parsed once, make it four times as cheap.
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("BEGIN")
            for name, function, parameters, answer, options in _functions(key, instance):
                types = None if parameters is None else [_type(one, cursor) for one in parameters]
                udf = in_arrow_memory(function) if "type" in options else function
                cursor.create_function(name, udf, types, _type(answer, cursor), **options)
                instance.callables.append(udf)
            cursor.execute("COMMIT")
        _INSTANCES[key] = instance
        return instance.tickets


def _type(name: str, connection: Connection) -> Any:
    """An SQL type, as all connections take it."""
    if name not in _TYPES:
        _TYPES[name] = connection.type(name)
    return _TYPES[name]


def _functions(key: str, instance: Instance) -> list[tuple[Any, ...]]:
    """Each function: name, callable, types of its parameters and answer, and options."""
    tickets = instance.tickets
    arrow: dict[str, Any] = {"type": "arrow", "null_handling": "special", "side_effects": True}
    keep = (KEEP_UDF, keep_udf(tickets), ["BIGINT[]", "BIGINT"], "BIGINT[][]")
    find = (FIND_UDF, find_udf(tickets), [PAIRS], "BIGINT[]")
    sampled: Udf = (KEY_UDF, key_udf(tickets), [], "VARCHAR")
    return [
        *(
            (name, function, ["VARCHAR", "UBIGINT", "UBIGINT", *takes], answer, arrow)
            for name, function, takes, answer in [*mechanism_udfs(tickets), keep, find, sampled]
        ),
        # Rows may have any type, so no parameter has one.
        *((name, udf, None, answer, arrow) for name, udf, answer in udfs_of_lists(tickets)),
        (KEEP_BITS_UDF, keep_bits, ["BIGINT", "BIGINT"], "BIGINT", arrow),
        (KEEP_BYTES_UDF, keep_bytes, ["BLOB", "BIGINT"], "BLOB", arrow),
        (DENSE_UDF, dense, [PAIRS, "BIGINT"], "BIGINT[]", {"type": "arrow"}),
        (MEANS_UDF, means, ["BIGINT[]", "HUGEINT[]", "BIGINT"], MEANS_TYPE, {"type": "arrow"}),
        (WORD_UDF, words_of_rows, ["BIGINT"], "BIGINT", arrow),
        (_INSTANCE_UDF, lambda: key, [], "VARCHAR", {}),
        # DuckDB folds constant arguments: query() needs the text when it binds.
        (REWRITE_UDF, _rewrite_udf(instance), REWRITE_TYPES, "VARCHAR", {}),
        (
            ANSWER_UDF,
            with_parameters(
                lambda *given: _reply_to_macro(instance, MacroCall(*given[:-1])), ANSWER_TYPES
            ),
            ANSWER_TYPES,
            "VARCHAR",
            {"null_handling": "special", "side_effects": True},
        ),
    ]


def _rewrite_udf(instance: Instance) -> Callable[[str, str, str, str, str, str], str]:
    def rewrite(
        text: str, path: str, schema: str, database: str, settings: str, params: str
    ) -> str:
        try:
            with _open_cursor(instance.connections) as cursor:
                _follow(cursor, (path, schema, database), settings, instance.state)
                engine = Engine(cursor, instance.tickets, _caller(), instance.state)
                return _owner(instance).rewrite(text, params, engine)
        except DpSqlError as error:
            # query(error('…')) makes DuckDB raise the sentence while it binds, as it is.
            return f"FROM query(error({literal(with_type(error))}))"

    return rewrite


def _reply_to_macro(instance: Instance, asked: MacroCall) -> str:
    """The answer to one DP call of a statement that DuckDB is running, or an error's sentence."""

    def make() -> str:
        try:
            with _open_cursor(instance.connections) as cursor:
                here = asked.search_path, asked.schema, asked.database
                _follow(cursor, here, asked.settings, instance.state)
                engine = Engine(cursor, instance.tickets, state=instance.state)
                return _owner(instance).answer_call(asked, engine)
        except DpSqlError as error:
            return with_type(error)
        except Exception:
            return with_type(InternalError("A DP call failed; nothing was released."))

    name = repr((asked.function, asked.item, asked.number, asked.epsilon))
    return instance.tickets.once(name, asked.execution, make)


def _owner(instance: Instance) -> Owner:
    if instance.owner is None:
        raise InternalError("The DP macros are not available on this connection.")
    return instance.owner


def _follow(cursor: Connection, here: Here, settings: str, state: SessionState) -> None:
    """Let names and expressions mean on a cursor what they mean where the statement runs."""
    path, schema, database = here
    wanted: str | None = path
    if path:
        try:
            cursor.execute(f"SET search_path = {literal(path)}")
        except duckdb.InvalidInputException:  # it is locked, and USE is not
            cursor.execute(f"USE {quote(database)}.{quote(schema)}")
            wanted = path if "," in path else None  # USE writes it otherwise
    ((now_path, *there, now),) = cursor.execute(parsed_once(_HERE, cursor, state)).fetchall()
    values, before = settings.split(","), now.split(",")
    is_read = len(values) == len(before) == len(SETTINGS)
    if there != [schema, database] or wanted not in {None, now_path} or not is_read:
        raise NotSupported("This connection's search path cannot be followed.", hint=_IN_SESSION)
    for name, value, old in zip(SETTINGS, values, before, strict=True):
        if value != old:
            try:
                cursor.execute(f"SET SESSION {name} = {literal(value)}")
            except duckdb.InvalidInputException:
                message = f"The setting {name} of this connection is locked for others."
                raise NotSupported(message, hint=_IN_SESSION) from None


@contextlib.contextmanager
def _open_cursor(connections: list[weakref.ref[Connection]]) -> Iterator[Connection]:
    """A cursor of the first connection that is still open; closed ones are forgotten."""
    cursor = None
    for reference in list(connections):
        connection = reference()
        with contextlib.suppress(duckdb.ConnectionException):
            if connection is not None:  # closing it closes its cursors, though not theirs
                cursor = connection.cursor().cursor()
                break
        connections.remove(reference)
    if cursor is None:
        raise DpSqlError(
            "The connection that installed dp_sql is closed. Call dp_sql.install on this one."
        )
    try:
        yield cursor
    finally:
        close(cursor)


def _caller() -> FrameType | None:
    """The innermost Python frame that belongs neither to dp_sql nor to DuckDB."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".", 1)[0] not in {"dp_sql", "duckdb", "_duckdb"}:
            return frame
        frame = frame.f_back
    return None

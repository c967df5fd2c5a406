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
from typing import Any, NamedTuple

import duckdb

from dp_sql.engines.duckdb.connection import Connection, Engine
from dp_sql.engines.duckdb.functions import (
    Udf,
    dense,
    find_udf,
    keep_bits,
    keep_udf,
    key_udf,
    means,
    mechanism_udfs,
    with_parameters,
    words_of_rows,
)
from dp_sql.engines.duckdb.in_pieces import Interrupts
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import DpSqlError, InternalError, NotSupported, with_type
from dp_sql.privacy.around import IN_DP
from dp_sql.privacy.private_sql.groups import FIND_UDF
from dp_sql.privacy.private_sql.people_rows import KEEP_BITS_UDF, KEEP_UDF, KEY_UDF
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.functions.avg import MEANS_TYPE, MEANS_UDF
from dp_sql.sql.functions.quantile import WORD_UDF
from dp_sql.sql.functions.topk import DENSE_UDF
from dp_sql.sql.mechanism_rows import PAIRS
from dp_sql.sql.shape import Function

_INSTANCE_UDF = "__dp_sql_instance"
_FOREIGN = """SELECT system.main.lower(function_name) FROM system.main.duckdb_functions()
    WHERE system.main.lower(function_name) IN ({}) AND NOT internal AND database_name <> 'temp'
    AND NOT system.main.contains(macro_definition, 'dp_sql') ORDER BY 1"""


class Owner(NamedTuple):
    """What the macros do on an owner's connection.

    rewrite: (text, parameters as JSON, engine) to the query that `dp(text, params)` means.
    answer: (asked, engine) to the value of one DP call as JSON.
    """

    rewrite: Callable[[str, str, Engine], str]
    answer: Callable[[Asked, Engine], str]


@dataclass
class Instance:
    """A database instance: its tickets, the connections that make cursors, and what macros do."""

    tickets: Tickets
    connections: list[weakref.ref[Connection]]  # weakly, so that a forgotten one is closed
    owner: Owner | None
    interrupts: Interrupts = field(default_factory=Interrupts)  # of its plain calls
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
                types = [_type(kind, cursor) for kind in parameters]
                cursor.create_function(name, function, types, _type(answer, cursor), **options)
                instance.callables.append(function)
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
    issued = instance.tickets
    arrow: dict[str, Any] = {"type": "arrow", "null_handling": "special", "side_effects": True}
    keep = (KEEP_UDF, keep_udf(issued), ["BIGINT[]", "BIGINT"], "BIGINT[][]")
    find = (FIND_UDF, find_udf(issued), [PAIRS], "BIGINT[]")
    sampled: Udf = (KEY_UDF, key_udf(issued), [], "VARCHAR")
    return [
        *(
            (name, function, ["VARCHAR", "UBIGINT", "UBIGINT", *takes], answer, arrow)
            for name, function, takes, answer in [*mechanism_udfs(issued), keep, find, sampled]
        ),
        (KEEP_BITS_UDF, keep_bits, ["BIGINT", "BIGINT"], "BIGINT", arrow),
        (DENSE_UDF, dense, [PAIRS, "BIGINT"], "BIGINT[]", {"type": "arrow"}),
        (MEANS_UDF, means, ["BIGINT[]", "HUGEINT[]", "BIGINT"], MEANS_TYPE, {"type": "arrow"}),
        (WORD_UDF, words_of_rows, ["BIGINT"], "BIGINT", arrow),
        (_INSTANCE_UDF, lambda: key, [], "VARCHAR", {}),
        # DuckDB folds constant arguments: query() needs the text when it binds.
        (REWRITE_UDF, _rewrite_udf(instance), ["VARCHAR"] * 4, "VARCHAR", {}),
        (
            ANSWER_UDF,
            with_parameters(lambda *given: _answer(instance, Asked(*given[:-1])), ANSWER_TYPES),
            ANSWER_TYPES,
            "VARCHAR",
            {"null_handling": "special", "side_effects": True},
        ),
    ]


def _rewrite_udf(instance: Instance) -> Callable[[str, str, str, str], str]:
    def rewrite(text: str, schema: str, database: str, params: str) -> str:
        try:
            with contextlib.closing(_open_cursor(instance.connections)) as cursor:
                cursor.execute(f"USE {quote(database)}.{quote(schema)}")
                engine = Engine(cursor, instance.tickets, _caller())
                return _owner(instance).rewrite(text, params, engine)
        except DpSqlError as error:
            # query(error('…')) makes DuckDB raise the sentence while it binds, as it is.
            return f"FROM query(error({literal(with_type(error))}))"

    return rewrite


def _answer(instance: Instance, asked: Asked) -> str:
    """The answer to one DP call of a statement that DuckDB is running, or an error's sentence."""

    def make() -> str:
        try:
            with contextlib.closing(_open_cursor(instance.connections)) as cursor:
                _follow(cursor, asked)
                engine = Engine(cursor, instance.tickets, interrupts=instance.interrupts)
                return _owner(instance).answer(asked, engine)
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


def _follow(cursor: Connection, asked: Asked) -> None:
    """Let names mean on a cursor what they mean where the statement runs."""
    here = (asked.search_path, asked.schema, asked.database)
    if asked.search_path:
        cursor.execute(f"SET search_path = {literal(asked.search_path)}")
    sql = """SELECT system.main.current_setting('search_path'), system.main.current_schema(),
        system.main.current_database()"""
    if cursor.execute(sql).fetchall() != [here]:
        raise NotSupported("This connection's search path cannot be followed.", hint=IN_DP)


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
    """Create the table macro `dp`, temporarily; `everywhere`, all macros and in the database, too.

    There every cursor and view finds them. A database that cannot be written to is left as it is;
    DpSqlError if it has another macro of one of these names.
    """
    created = [DP, *macros()] if everywhere else [DP]
    if everywhere:
        with contextlib.closing(connection.cursor()) as cursor:
            try:  # the usual case, in which no macro has such a name, needs no search for one
                cursor.execute(
                    "; ".join(["BEGIN", *(f"CREATE MACRO {m}" for m in created), "COMMIT"])
                )
            except duckdb.Error:
                cursor.execute("ROLLBACK")
                _refuse_foreign_macros(connection)
                for macro in created:
                    with contextlib.suppress(duckdb.InvalidInputException):  # opened read-only
                        cursor.execute(f"CREATE OR REPLACE MACRO {macro}")
    for macro in created:  # a temporary one that is there is ours, or the user's own
        connection.execute(f"CREATE TEMP MACRO IF NOT EXISTS {macro}")


def _refuse_foreign_macros(connection: Connection) -> None:
    """Refuse a database that has other macros of our names; listing all functions takes 20 ms."""
    names = {"dp": "FROM dp()"} | {n.lower(): f"SELECT {n.lower()}()" for n in FUNCTIONS}
    known = []
    with contextlib.closing(connection.cursor()) as cursor:
        for name, call in names.items():
            try:
                cursor.execute(f"EXPLAIN {call}")  # our own need arguments, so this would fail
            except duckdb.CatalogException:  # there is none
                continue
            except duckdb.Error:
                pass
            known.append(name)
        listed = _FOREIGN.format(", ".join(map(literal, known)))
        foreign = cursor.execute(listed).fetchall() if known else []
    if foreign:
        name = foreign[0][0]
        kind = "MACRO TABLE dp (or DROP MACRO dp)" if name == "dp" else f"MACRO {name}"
        raise DpSqlError(
            f"This database has a macro {name} of its own, which installing dp_sql would replace. "
            f"Rename or drop it first: DROP {kind}."
        )


# Their names are what DuckDB says in a process without dp_sql: "Scalar Function with name …".
_NOT_LOADED = (
    "dp_sql (not loaded in this process; in python, call dp_sql.install(con) first), so the"
)
ANSWER_UDF = f"{_NOT_LOADED} function"
REWRITE_UDF = f"{_NOT_LOADED} macro dp"
# The fields of Asked, and the number of rows, which only orders a call behind the aggregate.
ANSWER_TYPES = [*["VARCHAR"] * 5, "UBIGINT", "UBIGINT", *["VARCHAR"] * 3, "VARCHAR[]", "BIGINT"]

# The names of temporary tables and views, which a cursor does not see.
TEMPORARY = """(SELECT table_name AS name FROM system.main.duckdb_tables()
    WHERE database_name = 'temp' UNION ALL SELECT view_name FROM system.main.duckdb_views()
    WHERE database_name = 'temp' AND NOT internal) AS named"""
_TEMPORARY = f"(SELECT system.main.list(name) FROM {TEMPORARY})"


class Asked(NamedTuple):
    """What a macro passes on: a statement that DuckDB is running, and which call of it asks."""

    text: str
    function: str
    item: str  # the first argument as DuckDB prints it, in any_value(…)
    number: str | None  # k, or the quantiles
    epsilon: str | None
    connection: int
    query: int
    schema: str
    database: str
    search_path: str
    temporary: list[str] | None  # names of temporary tables and views

    @property
    def execution(self) -> tuple[int, int]:
        """DuckDB's numbers of the connection and of its query."""
        return self.connection, self.query


# What follows CREATE MACRO for `dp`.
DP = (
    f"dp(query, params := NULL) AS TABLE FROM query({quote(REWRITE_UDF)}"
    "(query, system.main.current_schema(), system.main.current_database(), "
    "coalesce(CAST(system.main.to_json(params) AS VARCHAR), 'null')))"
)


def macros() -> list[str]:
    """The same for each of the SQL functions."""
    return [*map(_macro, FUNCTIONS.values())]


def _macro(function: Function) -> str:
    shape, item = function.shape, function.positional[0]
    default = {"counts": "false", "report": "false"}
    parameters = [
        *function.positional,
        *(f"{a} := {default.get(a, 'NULL')}" for a in function.named),
    ]
    number = next((name for name in ("k", "q") if name in function.positional), None)
    numbers = f"CAST({number} AS VARCHAR)" if number else "NULL"
    asked = (
        "system.main.current_query()", literal(function.name),
        f"system.main.alias(system.main.any_value({item}))", numbers, "CAST(epsilon AS VARCHAR)",
        "system.main.current_connection_id()", "system.main.current_query_id()",
        "system.main.current_schema()", "system.main.current_database()",
        "system.main.current_setting('search_path')", _TEMPORARY, "system.main.count(*)",
    )  # fmt: skip
    answer = f"{quote(ANSWER_UDF)}({', '.join(asked)})"
    checked = (
        f"system.main.list_transform([{answer}], lambda __dp_a: CASE WHEN "
        "system.main.starts_with(__dp_a, '[') THEN __dp_a ELSE system.main.error(__dp_a) END)"
    )
    values = [f"TRY_CAST(CAST(__dp_a AS JSON) AS {kind}[])" for kind in shape.written]
    typed = [f"[{one.format(f'system.main.any_value({item})')}]" for one in shape.typed]
    value = (
        f"system.main.list_extract(system.main.list_transform({checked}, lambda __dp_a: {{}}), 1)"
    )
    cast = f"system.main.cast_to_type({value.format(_either(shape.detail, values))}, "
    return (
        f"{function.name}({', '.join(parameters)}) AS "
        f"system.main.list_extract({cast}{_either(shape.detail, typed)}), 1)"
    )


def _either(argument: str, expressions: list[str]) -> str:
    """The second of two expressions where a boolean argument is true; there may be only one."""
    if not argument:
        return expressions[0]
    plain, detailed = expressions
    both = f'system.main.struct_pack("false" := {plain}, "true" := {detailed})'
    return f"system.main.struct_extract({both}, CAST(CAST({argument} AS BOOLEAN) AS VARCHAR))"

"""The macros of dp_sql: `dp(…)`, and one for each SQL function. They call registered functions."""

import contextlib
from typing import NamedTuple

import duckdb

from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import DpSqlError
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.shape import Function

_FOREIGN = """SELECT system.main.lower(function_name) FROM system.main.duckdb_functions()
    WHERE system.main.lower(function_name) IN ({}) AND NOT internal AND database_name <> 'temp'
    AND NOT system.main.contains(macro_definition, 'dp_sql') ORDER BY 1"""

# The functions that macros call. A process without dp_sql says: "Scalar Function with name …".
_NOT_LOADED = (
    "dp_sql (not loaded in this process; in python, call dp_sql.install(con) first), so the"
)
ANSWER_UDF = f"{_NOT_LOADED} function"
REWRITE_UDF = f"{_NOT_LOADED} macro dp"
# The fields of MacroCall, and the number of rows, which only orders a call behind the aggregate.
ANSWER_TYPES = [
    *["VARCHAR"] * 5, "UBIGINT", "UBIGINT", *["VARCHAR"] * 4, "VARCHAR[]", "BIGINT",
]  # fmt: skip
REWRITE_TYPES = ["VARCHAR"] * 6

# What a connection may set for itself, and an expression may mean something else by.
SETTINGS = (
    "TimeZone", "Calendar", "default_collation", "default_null_order", "default_order",
    "integer_division", "ieee_floating_point_ops",
    *(["old_implicit_casting"] if duckdb.__version__.startswith("1.") else []),
)  # fmt: skip
# Their values with commas between them, of which none has one; DuckDB binds a list more slowly.
_VALUES = (f"system.main.current_setting('{name}')" for name in SETTINGS)
SETTINGS_SQL = f"system.main.concat_ws(',', {', '.join(_VALUES)})"

# The names of temporary tables and views, which a cursor does not see.
TEMPORARY = """(SELECT table_name AS name FROM system.main.duckdb_tables()
    WHERE database_name = 'temp' UNION ALL SELECT view_name FROM system.main.duckdb_views()
    WHERE database_name = 'temp' AND NOT internal) AS named"""
_TEMPORARY = f"(SELECT system.main.list(name) FROM {TEMPORARY})"


# The aggregate that shows its argument. Counting reads no values; but 1.5 binds what it can of a
# macro that is made, and any_value of an argument is what stops it.
_SHOWS = "system.main.any_value" if duckdb.__version__.startswith("1.") else "system.main.count"


class MacroCall(NamedTuple):
    """What a macro passes on: a statement that DuckDB is running, and which call of it asks."""

    text: str
    function: str
    item: str  # the first argument as DuckDB prints it, in an aggregate
    number: str | None  # k, or the quantiles
    epsilon: str | None
    connection: int
    query: int
    schema: str
    database: str
    search_path: str
    settings: str  # SETTINGS_SQL
    temporary: list[str] | None  # names of temporary tables and views

    @property
    def execution(self) -> tuple[int, int]:
        """DuckDB's numbers of the connection and of its query."""
        return self.connection, self.query


# What follows CREATE MACRO for `dp`.
DP = (
    f"dp(query, params := NULL) AS TABLE FROM query({quote(REWRITE_UDF)}"
    "(query, system.main.current_setting('search_path'), system.main.current_schema(), "
    f"system.main.current_database(), {SETTINGS_SQL}, "
    "coalesce(CAST(system.main.to_json(params) AS VARCHAR), 'null')))"
)


def macros() -> list[str]:
    """What follows CREATE MACRO for each of the SQL functions."""
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
        f"system.main.alias({_SHOWS}({item}))", numbers, "CAST(epsilon AS VARCHAR)",
        "system.main.current_connection_id()", "system.main.current_query_id()",
        "system.main.current_schema()", "system.main.current_database()",
        "system.main.current_setting('search_path')", SETTINGS_SQL, _TEMPORARY,
        "system.main.count(*)",
    )  # fmt: skip
    answer = f"{quote(ANSWER_UDF)}({', '.join(asked)})"
    checked = (
        "CASE WHEN system.main.starts_with(__dp_a, '[') THEN __dp_a "
        "ELSE system.main.error(__dp_a) END"
    )
    example = _either(shape.detailed_by, [f"NULL::{kind}" for kind in shape.in_macro()])
    value = (
        f"system.main.list_transform([{answer}], lambda __dp_a: "
        f"system.main.cast_to_type(CAST({checked} AS JSON), [{example}]))"
    )
    if shape.with_items:  # which are strings so far
        typed = [one.format(f"system.main.any_value({item})") for one in shape.with_items.values()]
        example = _either(shape.detailed_by, typed)
        value = f"system.main.cast_to_type({value}, [[{example}]])"
    answers = f"system.main.list_extract({value}, 1)"
    return f"{function.name}({', '.join(parameters)}) AS system.main.list_extract({answers}, 1)"


def _either(argument: str, expressions: list[str]) -> str:
    """The second of two expressions where a boolean argument is true; there may be only one."""
    if not argument:
        return expressions[0]
    plain, detailed = expressions
    both = f'system.main.struct_pack("false" := {plain}, "true" := {detailed})'
    return f"system.main.struct_extract({both}, CAST(CAST({argument} AS BOOLEAN) AS VARCHAR))"


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

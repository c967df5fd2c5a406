"""The SQL functions as DuckDB macros: `SELECT DP_TOPK(…) FROM ratings` on a plain connection.

A macro calls one UDF with what DuckDB knows while it runs the statement: its text, which call this
is, the search path and the temporary tables. The UDF's answer is a JSON list of one value, in which
strings stand for items, or else a sentence that is raised. `count(*)` makes the SELECT an aggregate
of one row. Arguments that no expression of the macro uses, such as `domain`, are never bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.shape import Function

# Their names are what DuckDB says in a process without dp_sql: "Scalar Function with name …".
_NOT_LOADED = (
    "dp_sql (not loaded in this process; in python, call dp_sql.install(con) first), so the"
)
ANSWER_UDF = f"{_NOT_LOADED} function"
REWRITE_UDF = f"{_NOT_LOADED} macro dp"
ANSWER_TYPES = [*["VARCHAR"] * 5, "UBIGINT", "UBIGINT", *["VARCHAR"] * 3, "VARCHAR[]", "BIGINT"]

_TEMPORARY = """(SELECT system.main.list(name) FROM (
    SELECT table_name AS name FROM system.main.duckdb_tables() WHERE database_name = 'temp'
    UNION ALL SELECT view_name FROM system.main.duckdb_views()
    WHERE database_name = 'temp' AND NOT internal) AS named)"""


@dataclass(frozen=True)
class Asked:
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


def answer_udf(answer: Callable[[Asked], str]) -> Callable[..., str]:
    """The UDF of all macros; the count of rows only orders it behind the aggregate."""

    def udf(
        text: str, function: str, item: str, number: str | None, epsilon: str | None,
        connection: int, query: int, schema: str, database: str, search_path: str,
        temporary: list[str] | None, n_rows: int,
    ) -> str:  # fmt: skip
        return answer(Asked(text, function, item, number, epsilon, connection, query, schema,
                            database, search_path, temporary))  # fmt: skip

    return udf


# What follows CREATE MACRO for `dp`.
DP = (
    f"dp(query) AS TABLE FROM query({quote(REWRITE_UDF)}"
    "(query, system.main.current_schema(), system.main.current_database()))"
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

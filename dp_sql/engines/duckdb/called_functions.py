"""The names of the functions that DuckDB looks up for some SQL, also for operators and words."""

import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import duckdb

# What is certainly no call in SQL of dp_sql, and all that may be one.
_NO_CALLS = re.compile(
    r"""'-?\d+'|\(\*\)|SELECT \*|\bIN(?= ?\()|\b(?:FROM|JOIN) (?:"[^"]*"\.)+"""
    r"""|\b(?:system\.main|__dp_\w+|domain|counted)\.(?:\*|"[^"]*"(?=\())?"""
)
# A number as dp_sql writes it. No string: it could name a file or, in an argument, a table.
_NUMBER = re.compile(r"CAST\('-?\d+(?:\.\d+)?' AS (?!VARCHAR)")
_CALLS = re.compile(r"<<|>>|//|\|\||[-+*/%&|[.]|\bIN\b", re.IGNORECASE)
_CALLED = {"[": ["list_value", "contains"], "IN": ["contains"], ".": ["struct_extract"],
           "/": ["/", "//"]}  # fmt: skip  # SET integer_division makes / mean //
_SERIALIZED = """SELECT system.main.json_serialize_sql($1, skip_null := true, skip_empty := true,
    skip_default := true)"""
# The functions that DuckDB looks up for operators, and for words that are no columns.
_OF_OPERATORS = {
    "COMPARE_IN": (), "COMPARE_NOT_IN": (), "OPERATOR_COALESCE": (), "OPERATOR_IS_NULL": (),
    "OPERATOR_IS_NOT_NULL": (), "OPERATOR_NOT": (), "OPERATOR_TRY": (),
    "ARRAY_EXTRACT": ("array_extract", "map_extract_value", "json_extract"),
    "ARRAY_SLICE": ("array_slice",), "ARRAY_CONSTRUCTOR": ("list_value",),
    "STRUCT_EXTRACT": ("struct_extract", "union_extract", "map_extract", "json_extract"),
}  # fmt: skip
_OF_WORDS = {
    **{word: word for word in ("current_catalog", "current_date", "current_role", "current_schema",
                               "current_user", "session_user", "user")},
    "current_time": "get_current_time", "current_timestamp": "get_current_timestamp",
    "localtime": "current_localtime", "localtimestamp": "current_localtimestamp",
}  # fmt: skip
_NO_CALL = {  # other expressions, relations and clauses, for which it looks up none
    "BETWEEN", "CASE", "CAST", "COMPARISON", "CONJUNCTION", "CONSTANT", "LAMBDA", "LAMBDA_REF",
    "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE",
    "BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN",
    "CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE",
    "DISTINCT_MODIFIER", "LIMIT_MODIFIER", "ORDER_MODIFIER",
    "ORDER_ASCENDING", "ORDER_DEFAULT", "ORDER_DESCENDING",
}  # fmt: skip


def without_numbers(sql: str) -> str:
    """SQL of dp_sql's own with zero for each number; what it reads and its types are the same."""
    return _NUMBER.sub("CAST('0' AS ", sql)


def operators_in(sql: str) -> tuple[str, ...]:
    """The operators in SQL that dp_sql has written, which DuckDB looks up as functions."""
    return _operators_in(without_numbers(sql))


@lru_cache(maxsize=64)
def _operators_in(sql: str) -> tuple[str, ...]:
    symbols = {found.upper() for found in _CALLS.findall(_NO_CALLS.sub(" ", sql))}
    return tuple(sorted({name for one in symbols for name in _CALLED.get(one, [one])}))


def functions_in(query: str, connection: duckdb.DuckDBPyConnection) -> frozenset[str] | None:
    """The functions that DuckDB looks up for a SELECT; None where that is not known.

    It looks them up also for operators, and for words such as LIKE, EXTRACT and current_date.
    """
    found: set[str] = set()
    try:
        ((serialized,),) = connection.execute(_SERIALIZED, [query]).fetchall()
        waiting: list[Any] = [json.loads(serialized)]
    except (duckdb.Error, RecursionError):
        return None
    if waiting[0]["error"]:  # it is no SELECT
        return None
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            names = _looked_up(node)
            if names is None:
                return None
            found.update(names)
    return frozenset(found)


def _looked_up(node: Mapping[str, Any]) -> Collection[str] | None:
    """The functions that DuckDB looks up for a node of a serialized query, without its children."""
    kind = node.get("class") or node.get("type")
    match kind:
        case "FUNCTION" | "WINDOW":
            # DuckDB 1.5 writes main for some words; for a bare name it looks there, too.
            is_bare = node.get("schema", "main") == "main" and not node.get("catalog")
            return [node["function_name"]] if is_bare else None
        case "COLUMN_REF":
            name = node["column_names"][-1].lower()
            return [_OF_WORDS[name]] if name in _OF_WORDS else []
        case "OPERATOR":
            return _OF_OPERATORS.get(node["type"])
    return [] if not isinstance(kind, str) or kind in _NO_CALL else None

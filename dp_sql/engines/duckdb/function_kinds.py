"""What DuckDB's catalog says of a function's name: scalar, aggregate, macro, …, or volatile."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb

from dp_sql.errors import NotPrivate
from dp_sql.sql.formatting import literal, quote

Fetch = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""The rows of some SQL with parameters."""

# Functions that read the state of the session are volatile, unless all they read is the time, or
# the time zone, of the statement; and the macros named here read their arguments only.
_KINDS = """
    SELECT system.main.lower(function_name), system.main.list(DISTINCT CASE
        WHEN stability = 'VOLATILE' THEN 'volatile'
        WHEN function_name IN ('getvariable', 'current_setting', 'txid_current') THEN 'volatile'
        WHEN stability = 'CONSISTENT_WITHIN_QUERY' AND function_name NOT IN (
            'today', 'current_date', 'get_current_time', 'current_localtime',
            'current_localtimestamp') AND NOT system.main.regexp_matches(
            system.main.concat(CAST(parameter_types AS VARCHAR), return_type),
            'TIME ZONE|TIMESTAMPTZ')
            THEN 'volatile'
        WHEN function_type = 'macro' AND internal AND (function_name IN (
            'ago', 'date_add', 'days_in_month', 'fdiv', 'fmod', 'if', 'nullif', 'split_part',
            'md5_number_lower', 'md5_number_upper', 'map_contains_entry', 'map_contains_value',
            'round_even', 'roundbankers')
            OR system.main.starts_with(function_name, 'list_')
            OR system.main.starts_with(function_name, 'array_')) THEN 'scalar'
        ELSE function_type END), system.main.bool_or(NOT internal)
    FROM system.main.duckdb_functions()
"""
_REFUSED = "Binder Error: No function matches the given name and argument types '"
_WORD = re.compile(r"\w+")
_BUILTIN: dict[str, frozenset[str]] = {}

_ROW = "system.main.struct_pack(a := a)"
# All operators and functions that SQL of dp_sql may use without a schema; below, with it.
CALLED_BARE = {"-": "a - b", "+": "a + b", "*": "a * b", "//": "a // b", "/": "a / b", "%": "a % b",
         "<<": "a << b", ">>": "a >> b", "&": "a & b", "|": "a | b", "||": "s || t",
         "list_value": "[a, b]", "contains": "b IN [a, b]",
         "struct_extract": f"({_ROW}).a"}  # fmt: skip
_LIST = 'system.main."list_value"(a, b)'
_FULL = {
    **{name: f'system.main."{name}"({sql[0]}, {sql[-1]})' for name, sql in CALLED_BARE.items()},
    "list_value": _LIST, "contains": f'system.main."contains"({_LIST}, b)',
    "struct_extract": f"system.main.struct_extract({_ROW}, 'a')",
}  # fmt: skip
_BOUND = """SELECT system.main.json_serialize_plan({}, optimize := false)"""
_COLUMNS = """FROM (SELECT CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS VARCHAR),
    CAST(NULL AS VARCHAR)) AS c(a, b, s, t)"""
_SPELLING = re.compile(
    r'"(alias|query_location|query_location_length|is_operator)":("[^"]*"|\w+),?'
)
# What is certainly no call in SQL of dp_sql, and all that may be one.
_NO_CALLS = re.compile(
    r"""'-?\d+'|\(\*\)|SELECT \*|\bIN(?= ?\()|\b(?:FROM|JOIN) (?:"[^"]*"\.)+"""
    r"""|\b(?:system\.main|__dp_\w+|domain|counted)\.(?:\*|"[^"]*"(?=\())?"""
)
_NUMBER = re.compile(r"'-?\d+'")
_CALLS = re.compile(r"<<|>>|//|\|\||[-+*/%&|[.]|\bIN\b", re.IGNORECASE)
_CALLED = {"[": ["list_value", "contains"], "IN": ["contains"], ".": ["struct_extract"]}
_PLANS: dict[tuple[str, ...], set[str]] = {}


def operators_in(sql: str) -> tuple[str, ...]:
    """The functions that SQL which dp_sql has written may call without a schema, as operators."""
    return _operators_in(_NUMBER.sub("'0'", sql))  # the same for all numbers


@lru_cache(maxsize=64)
def _operators_in(sql: str) -> tuple[str, ...]:
    symbols = {found.upper() for found in _CALLS.findall(_NO_CALLS.sub(" ", sql))}
    return tuple(sorted({name for one in symbols for name in _CALLED.get(one, [one])}))


def check_operators(names: tuple[str, ...], fetch: Fetch) -> None:
    """Raise NotPrivate if one of these operators, of `operators_in`, is a macro of the database.

    DuckDB looks up operators as functions, so a macro may be named "-". What it binds for them is
    compared with what it binds for its own functions, which takes up to 1 ms.
    """
    if not names:
        return

    def bound(calls: Mapping[str, str]) -> str:
        select = f"SELECT {', '.join(calls[name] for name in names)} {_COLUMNS}"
        return _SPELLING.sub("", fetch(_BOUND.format(literal(select)), ())[0][0])

    if names not in _PLANS:  # SET integer_division makes / mean //
        _PLANS[names] = {bound(_FULL), bound({**_FULL, "/": _FULL["//"]})}
    if bound(CALLED_BARE) in _PLANS[names]:
        return
    replaced = sorted(function_kinds(frozenset(names), fetch)[1] & {*names})
    name = quote(replaced[0] if replaced else "-")
    raise NotPrivate(
        f"This database has a macro {name}, which dp_sql's own SQL would call.",
        hint=f"Rename or drop it: DROP MACRO {name}.",
    )


def function_kinds(
    names: frozenset[str], fetch: Fetch
) -> tuple[Mapping[str, frozenset[str]], frozenset[str]]:
    """What each name, or user's function, may be; and users' functions that replace DuckDB's.

    DuckDB takes about 10 ms for it, however many names there are.
    """
    wanted = "(system.main.lower(function_name) IN (SELECT unnest($1)))"
    found = fetch(f"{_KINDS} WHERE {wanted} OR NOT internal GROUP BY 1", [sorted(names)])
    users = frozenset(name for name, _, is_users in found if is_users)
    replaced = {*builtin_kinds(users, fetch), *(n for n in users if not _WORD.fullmatch(n))}
    return {name: frozenset(kinds) for name, kinds, _ in found}, frozenset(replaced)


def calls_own(name: str, connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the name of one of DuckDB's scalar functions means this function, and no macro.

    DuckDB says of a call with an unknown parameter which of the two refuses it.
    """
    try:
        connection.sql(f"SELECT {quote(name)}(__dp_unknown := 1)")
    except duckdb.BinderException as error:
        return bool(re.match(rf'{_REFUSED}"?{re.escape(name)}"?\(', str(error)))
    return False


def builtin_kinds(names: frozenset[str], fetch: Fetch) -> Mapping[str, frozenset[str]]:
    """What each name is among DuckDB's own functions; read once per process."""
    if names and not _BUILTIN:
        found = fetch(f"{_KINDS} WHERE internal GROUP BY 1", ())
        _BUILTIN.update((name, frozenset(kinds)) for name, kinds, _ in found)
    return {name: _BUILTIN[name] for name in names if name in _BUILTIN}

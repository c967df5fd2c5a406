"""What DuckDB says of a function's name: scalar, aggregate, macro, …, or volatile."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import duckdb

from dp_sql.privacy.catalog import Parts
from dp_sql.sql.formatting import full_name, literal, quote

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
_IS_A = re.compile(r'"Function \\".+\\" is an? (\w+) Function\. ')
_WORD = re.compile(r"\w+")
_BUILTIN: dict[str, frozenset[str]] = {}

# Common macros that are DuckDB's own; they call no function.
_OWN_MACROS = {
    "nullif": "SELECT {}(a, b) AS v FROM (SELECT 1, 2) AS c(a, b)",
    "if": "SELECT {}(a = b, a, b) AS v FROM (SELECT 1, 2) AS c(a, b)",
}
_IS_ERROR = '"error":true'
_PLACE = re.compile(r'"query_location(_length)?":\d+')


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


def called_kinds(
    functions: Sequence[Parts], connection: duckdb.DuckDBPyConnection
) -> dict[Parts, str]:
    """What names mean as functions: "scalar", "aggregate" or "macro"; "" if that is not known.

    functions: each a bare name, or one after its database and schema.
    DuckDB refuses DISTINCT in a call of anything but an aggregate, and says what it is. To ask so
    takes 0.1 ms; to list all functions takes 10 ms.
    """
    answers = _planned([f"SELECT {full_name(one)}(DISTINCT 1)" for one in functions], connection)
    kinds = {}
    for parts, answer in zip(functions, answers, strict=True):
        found = _IS_A.search(answer)
        kinds[parts] = found[1].lower() if found else "" if _IS_ERROR in answer else "aggregate"
        if parts[-1] in _OWN_MACROS and kinds[parts] == "macro":
            bound, own = _planned(_bound_and_own(parts[-1], full_name(parts)), connection)
            if bound == own:
                kinds[parts] = "scalar"
    return kinds


def temporary_macro_sql(scalars: Collection[str], others: Collection[str]) -> str:
    """SQL of one of these functions that a temporary macro replaces, or of NULL.

    scalars: those that `called_kinds` calls so, which takes 0.1 ms for each; any others take 10 ms
    together. A connection runs this for its own temporary macros, which no other one sees.
    """
    cases = []
    for name in sorted(scalars):
        plan = _plan(f"SELECT {quote(name)}(DISTINCT 1)")
        condition = f"system.main.contains({plan}, ' is a Macro Function.')"
        if name in _OWN_MACROS:
            bound, own = (
                f"system.main.regexp_replace({_plan(one)}, {literal(_PLACE.pattern)}, '', 'g')"
                for one in _bound_and_own(name, quote(name))
            )
            condition = f"{bound} <> {own}"
        cases.append(f"WHEN {condition} THEN {literal(name)} ")
    found = ["NULL", *([f"CASE {''.join(cases)}END"] if cases else [])]
    if others:
        found.append(
            f"""(SELECT system.main.min(function_name) FROM system.main.duckdb_functions()
            WHERE database_name = 'temp' AND NOT internal
            AND system.main.lower(function_name) IN ({", ".join(map(literal, sorted(others)))}))"""
        )
    return f"coalesce({', '.join(found)})"


def _bound_and_own(name: str, full: str) -> tuple[str, str]:
    """Queries with the same plan if a name means DuckDB's own macro."""
    query = _OWN_MACROS[name]
    return query.format(full), query.format(full_name(("system", "main", name)))


def _plan(query: str) -> str:
    """SQL of the plan of a query as JSON, or of DuckDB's error.

    An error that is raised would end the caller's transaction.
    """
    return f"system.main.json_serialize_plan({literal(query)}, optimize := false)"


def _planned(queries: Sequence[str], connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The plan of each query as JSON, without places in its text, or DuckDB's error as JSON."""
    if not queries:
        return []
    plans = ", ".join(map(_plan, queries))
    (found,) = connection.execute(f"SELECT {plans}").fetchall()
    return [_PLACE.sub("", one) for one in found]


def builtin_kinds(names: frozenset[str], fetch: Fetch) -> Mapping[str, frozenset[str]]:
    """What each name is among DuckDB's own functions; read once per process."""
    if names and not _BUILTIN:
        found = fetch(f"{_KINDS} WHERE internal GROUP BY 1", ())
        _BUILTIN.update((name, frozenset(kinds)) for name, kinds, _ in found)
    return {name: _BUILTIN[name] for name in names if name in _BUILTIN}

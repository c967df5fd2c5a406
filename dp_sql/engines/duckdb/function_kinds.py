"""What DuckDB's catalog says of a function's name: scalar, aggregate, macro, …, or volatile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Fetch = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""The rows of some SQL with parameters."""

# Functions that read the state of the session are volatile; a time that is the same for the whole
# statement is harmless; and the macros named here read their arguments only.
_KINDS = """
    SELECT system.main.lower(function_name), system.main.list(DISTINCT CASE
        WHEN stability = 'VOLATILE' THEN 'volatile'
        WHEN function_name IN ('getvariable', 'current_setting', 'txid_current') THEN 'volatile'
        WHEN stability = 'CONSISTENT_WITHIN_QUERY' AND function_name NOT IN (
            'now', 'today', 'current_date', 'transaction_timestamp', 'get_current_time',
            'get_current_timestamp', 'current_localtime', 'current_localtimestamp')
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
_WORD = re.compile(r"\w+")
_BUILTIN: dict[str, frozenset[str]] = {}


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


def builtin_kinds(names: frozenset[str], fetch: Fetch) -> Mapping[str, frozenset[str]]:
    """What each name is among DuckDB's own functions; read once per process."""
    if not _BUILTIN:
        found = fetch(f"{_KINDS} WHERE internal GROUP BY 1", ())
        _BUILTIN.update((name, frozenset(kinds)) for name, kinds, _ in found)
    return {name: _BUILTIN[name] for name in names if name in _BUILTIN}

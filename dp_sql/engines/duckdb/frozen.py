"""Answers that can be read again: constants, or rows in temporary tables of one connection.

A short answer is written into the SQL that reads it, which takes DuckDB half of the time. A
relation is run when it is read, so others stay as long as the connection. Those of one type share a
table: a long session has as many tables as types. A system table costs nothing to read again, and
only the newest copies stay.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, count
from typing import Any

from dp_sql.privacy.catalog import Columns
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.functions.topk import COUNTED
from dp_sql.sql.types import ZONED

Records = Sequence[tuple[object, ...]]
Run = Callable[..., Any]  # (SQL, parameters) to what has the rows

MAX_SYSTEM_TABLES = 16
_PLAIN = (str, int, type(None))  # not what is nested
_ROWS_PER_INSERT = 200
_SHORT = 2000  # characters of SQL
# A moment as text: DuckDB 1.5 rounds those in far years. Infinite ones have no number.
_UTC = "CAST(system.main.make_timestamp(system.main.epoch_us({0})) AS VARCHAR)"
_MOMENT = f"""coalesce(system.main."||"({_UTC}, '+00'), CAST({{0}} AS VARCHAR))"""
_INEXACT = re.compile(r"HUGEINT|DECIMAL\(\d+,\d+\)")


class FrozenAnswers:
    """The frozen answers of a connection, which `run` executes SQL on."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._numbers = count(1)
        self._copies: deque[str] = deque()

    def insert(
        self,
        columns: Columns,
        select: str,
        run: Run,
        n_rows: int | None = None,
        parameters: Sequence[object] = (),
    ) -> str:
        """Freeze the rows of a SELECT, which is run once; returns a relation, as SQL.

        `n_rows`: how many there are, if this is known. `parameters`: of the SELECT.
        """
        is_exact = not any("TIME ZONE" in kind for _, kind in columns)  # strings, read back
        if n_rows is not None and n_rows <= _ROWS_PER_INSERT and is_exact:
            return self.add(columns, run(exactly(columns, select), parameters).fetchall())
        number, table, names = next(self._numbers), _shared(columns), _names(columns)
        _create(run, table, [("__dp_number", "BIGINT"), *columns])  # a ROLLBACK may have removed it
        place = f"CAST(${len(parameters) + 1} AS BIGINT)"
        run(f"INSERT INTO {table} SELECT {place}, {names} FROM ({select})", [*parameters, number])
        return f"(SELECT {names} FROM {table} WHERE __dp_number = {number})"

    def add(self, columns: Columns, rows: Records) -> str:
        """Freeze rows, with values as of `exactly`; returns a relation, as SQL."""
        number, table, names = next(self._numbers), _shared(columns), _names(columns)
        is_plain = all(isinstance(value, _PLAIN) for row in rows[:_SHORT] for value in row)
        values = ""
        for row in rows:
            own = map(_constant, row) if is_plain else _constants(columns, row)
            values += f"{', ' * bool(values)}({', '.join(own)})"
            if len(values) >= _SHORT:
                break
        if rows and len(values) < _SHORT and "\0" not in values:
            # DuckDB plans one cast of a column faster than one of each value, and a row faster yet.
            read = [
                (f"CAST({name} AS {kind})" if is_plain else name, name) for name, kind in columns
            ]
            source = f" FROM (VALUES {values}) AS __dp_rows({names})"
            if len(rows) == 1:
                one = zip(_constants(columns, rows[0]), columns, strict=True)
                read, source = [(value, name) for value, (name, _) in one], ""
            return f"(SELECT {', '.join(f'{value} AS {name}' for value, name in read)}{source})"
        numbered = [("__dp_number", "BIGINT"), *columns]
        _create(self._run, table, numbered)
        _fill(self._run, table, numbered, [(number, *row) for row in rows])
        return f"(SELECT {names} FROM {table} WHERE __dp_number = {number})"

    def copy(self, columns: Columns, rows: Records) -> str:
        """Copy a system table, and drop the oldest copy; returns a relation, as SQL."""
        table = f"temp.main.__dp_table_{next(self._numbers)}"
        _create(self._run, table, columns)
        _fill(self._run, table, columns, rows)
        self._copies.append(table)
        if len(self._copies) > MAX_SYSTEM_TABLES:  # gone already if its transaction was rolled back
            self._run(f"DROP TABLE IF EXISTS {self._copies.popleft()}")
        return f"(SELECT {_names(columns)} FROM {table})"


def exactly(columns: Columns, select: str) -> str:
    """A SELECT of these columns; values without an exact equivalent in Python are strings."""
    return f"SELECT {', '.join(exact_value(*column) for column in columns)} FROM ({select})"


def exact_value(name: str, kind: str) -> str:
    """A column of a type as Python has it exactly: of another type, a string."""
    if kind == ZONED:
        return _MOMENT.format(name)
    if kind == f"{ZONED}[]":
        return f"system.main.list_transform({name}, lambda x: {_MOMENT.format('x')})"
    if kind == f"{COUNTED.format(ZONED)}[]":
        item = _MOMENT.format("system.main.struct_extract(x, 'item')")
        pair = f"item := {item}, count := system.main.struct_extract(x, 'count')"
        return f"system.main.list_transform({name}, lambda x: system.main.struct_pack({pair}))"
    return name if _exact(kind) == kind else f"CAST({name} AS {_exact(kind)})"


def _exact(kind: str) -> str:
    """The type, or one with strings, whose values Python has exactly."""
    if kind.startswith("BIGINT"):
        return kind
    if kind.startswith(COUNTED.partition("{")[0]):
        return f"{COUNTED.format('VARCHAR')}[]"
    if kind.startswith("STRUCT("):
        return _INEXACT.sub("VARCHAR", kind)
    return "VARCHAR[]" if kind.endswith("[]") else "VARCHAR"


def _shared(columns: Columns) -> str:
    """The table of all answers with these columns."""
    digest = hashlib.blake2b(repr(columns).encode(), digest_size=8).hexdigest()
    return f"temp.main.__dp_releases_{digest}"


def _constants(columns: Columns, row: Sequence[object]) -> list[str]:
    typed = zip(row, columns, strict=True)
    return [f"CAST({_constant(value)} AS {kind})" for value, (_, kind) in typed]


def _constant(value: object) -> str:
    """A value as SQL; numbers as strings, which are cast exactly."""
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        fields = (f"{quote(name)} := {_constant(field)}" for name, field in value.items())
        return f"system.main.struct_pack({', '.join(fields)})"  # {…} would call a macro
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, int) for one in value):
            return f"'{[*value]}'"  # a string is read faster
        return f"system.main.list_value({', '.join(map(_constant, value))})"
    return literal(str(value))


def _is_plain(value: object) -> bool:
    """Whether a value is plain, or a list of what is."""
    of = value if isinstance(value, list) else [value]
    return all(isinstance(one, _PLAIN) for one in of)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_text, value)]
    return None if value is None else str(value)


def _names(columns: Columns) -> str:
    return ", ".join(name for name, _ in columns)


def _create(run: Run, table: str, columns: Columns) -> None:
    typed = ", ".join(f"{name} {kind}" for name, kind in columns)
    run(f"CREATE TEMP TABLE IF NOT EXISTS {table} ({typed})")


def _fill(run: Run, table: str, columns: Columns, rows: Records) -> None:
    if all(map(_is_plain, chain.from_iterable(rows))):
        lists = [[_text(row[i]) for row in rows] for i in range(len(columns))]
        unnested = ", ".join(
            f"CAST(unnest(CAST(? AS VARCHAR[]{'[]' * kind.endswith('[]')})) AS {kind})"
            for _, kind in columns
        )
        run(f"INSERT INTO {table} SELECT {unnested}", lists)  # a tenth of the time
        return
    values = f"({', '.join(f'CAST(? AS {kind})' for _, kind in columns)})"
    for first in range(0, len(rows), _ROWS_PER_INSERT):
        some = rows[first : first + _ROWS_PER_INSERT]
        given = list(chain.from_iterable(some))
        run(f"INSERT INTO {table} VALUES {', '.join([values] * len(some))}", given)

"""Answers that can be read again: rows in temporary tables of one connection.

A relation is run when it is read, so an answer stays as long as the connection. Answers of one type
share a table: a long session has as many tables as types. A system table costs nothing to read
again, and only the newest copies stay.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, count

from dp_sql.privacy.catalog import Columns
from dp_sql.sql.functions.topk import COUNTED

Records = Sequence[tuple[object, ...]]
Run = Callable[..., object]  # (SQL, parameters)

MAX_SYSTEM_TABLES = 16
_ROWS_PER_INSERT = 200
_INEXACT = re.compile(r"HUGEINT|DECIMAL\(\d+,\d+\)")


class FrozenAnswers:
    """The frozen answers of a connection, which `run` executes SQL on."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._numbers = count(1)
        self._tables: set[str] = set()  # that `add` has made
        self._copies: deque[str] = deque()

    def insert(self, columns: Columns, select: str, run: Run) -> str:
        """Freeze the rows of a SELECT, which is run once; returns a relation, as SQL."""
        number, table, names = next(self._numbers), _shared(columns), _names(columns)
        _create(run, table, [("__dp_number", "BIGINT"), *columns])  # a ROLLBACK may have removed it
        run(f"INSERT INTO {table} SELECT {number}, {names} FROM ({select})")
        return f"(SELECT {names} FROM {table} WHERE __dp_number = {number})"

    def add(self, columns: Columns, rows: Records) -> str:
        """Freeze rows; returns a relation, as SQL."""
        number, table, names = next(self._numbers), _shared(columns), _names(columns)
        numbered = [("__dp_number", "BIGINT"), *columns]
        if table not in self._tables:
            _create(self._run, table, numbered)
            self._tables.add(table)
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
    listed = []
    for name, kind in columns:
        string = "VARCHAR[]" if kind.endswith("[]") else "VARCHAR"
        if kind.startswith(COUNTED.partition("{")[0]):
            string = f"{COUNTED.format('VARCHAR')}[]"
        elif kind.startswith("STRUCT("):
            string = _INEXACT.sub("VARCHAR", kind)
        is_exact = kind.startswith("BIGINT") or kind == string
        listed.append(name if is_exact else f"CAST({name} AS {string})")
    return f"SELECT {', '.join(listed)} FROM ({select})"


def _shared(columns: Columns) -> str:
    """The table of all answers with these columns."""
    digest = hashlib.blake2b(repr(columns).encode(), digest_size=8).hexdigest()
    return f"temp.main.__dp_releases_{digest}"


def _names(columns: Columns) -> str:
    return ", ".join(name for name, _ in columns)


def _create(run: Run, table: str, columns: Columns) -> None:
    typed = ", ".join(f"{name} {kind}" for name, kind in columns)
    run(f"CREATE TEMP TABLE IF NOT EXISTS {table} ({typed})")


def _fill(run: Run, table: str, columns: Columns, rows: Records) -> None:
    values = f"({', '.join(f'CAST(? AS {kind})' for _, kind in columns)})"
    for first in range(0, len(rows), _ROWS_PER_INSERT):
        some = rows[first : first + _ROWS_PER_INSERT]
        given = list(chain.from_iterable(some))
        run(f"INSERT INTO {table} VALUES {', '.join([values] * len(some))}", given)

"""PEP 249: sessions for programs that use Python's DB-API.

    from dp_sql.integrations import dbapi
    con = dbapi.connect("shop.duckdb", policy="policy.toml", analyst="reporting")

A statement runs when it is executed, and its rows are read then: fetching them, in parts or
twice, is never a second release. Threads may share this module but not a connection
(`threadsafety` is 1). Parameters are `?` or `$1`, with a sequence, or `$name`, with a dictionary.

The exceptions are DuckDB's own of these names. An error of dp_sql becomes the one that `_CLASSES`
says; it is the cause (`__cause__`).
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from os import PathLike
from time import localtime
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from duckdb import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)

import dp_sql
from dp_sql import errors
from dp_sql.sql.tokens import tokenize

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor",
    "DataError", "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError",
    "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError",
    "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning", "apilevel", "connect",
    "paramstyle", "threadsafety",
]  # fmt: skip

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"
Date, Time, Timestamp, Binary = datetime.date, datetime.time, datetime.datetime, bytes

Parameters = Sequence[object] | Mapping[str, object]
Row = tuple[Any, ...]
# Name and type code; DuckDB leaves the five other fields of PEP 249 empty.
ColumnDescription = tuple[str, Any, None, None, None, None, None]
# Types whose codes are names. Others are DuckDB's own types, which equal their names: programs such
# as polars take the name STRUCT(…) for a string, and DECIMAL(…)[] for a number.
_NAMED = re.compile(r"[A-Z_ ]+(\(\d+,\d+\)|\[\])?")
# What DuckDB returns for a statement without rows: the number of changed rows, or nothing.
_STATUS = ([("Count", "BIGINT")], [("Success", "BOOLEAN")])
_P = ParamSpec("_P")
_T = TypeVar("_T")
_C = TypeVar("_C", bound="Connection | Cursor")


class InterfaceError(Error):
    """A cursor or connection is closed, or has no rows to fetch."""


class _Types:
    """Equal to each type code of its kind."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return self is other or str(other).split("(")[0] in self._names

    __hash__ = object.__hash__


STRING = _Types("VARCHAR", "ENUM", "UUID", "JSON", "BIT")
BINARY = _Types("BLOB")
NUMBER = _Types(
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "BIGNUM", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN",
)  # fmt: skip
DATETIME = _Types(
    "DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL",
)  # fmt: skip
ROWID = _Types()


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of a time in seconds since the epoch."""
    return Date(*localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of a time in seconds since the epoch."""
    return Time(*localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time of a time in seconds since the epoch."""
    return Timestamp(*localtime(ticks)[:6])


_CLASSES: dict[type[Exception], Any] = {  # the first that fits counts
    errors.NotSupported: NotSupportedError,
    errors.BudgetExceeded: OperationalError,
    errors.QueryError: ProgrammingError,
    errors.PolicyError: OperationalError,
    errors.LedgerError: OperationalError,
    errors.InternalError: InternalError,
    errors.DpSqlError: DatabaseError,
    Error: Error,
}


def _mapped(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function with its errors as PEP 249's."""

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            kind = next((k for known, k in _CLASSES.items() if isinstance(error, known)), None)
            if kind is Error:  # DuckDB's exceptions derive from PEP 249's
                kind = next(base for base in type(error).__mro__ if base.__name__ in __all__)
            if kind is None or kind is type(error):
                raise
            raise kind(str(error)) from error

    return wrapper


@_mapped
def connect(
    database: str = ":memory:",
    *,
    policy: str | PathLike[str] | None = None,
    analyst: str | None = None,
    ledger: str | PathLike[str] | None = None,
    read_only: bool = False,
    autocommit: bool = True,
) -> Connection:
    """Open a database as its owner or, with a policy, as an analyst.

    Args are those of `dp_sql.connect`, each one path or name, and
        autocommit: whether each statement commits by itself, as in DuckDB's own module. If not,
            the first statement begins a transaction, which ends with commit or rollback.
    """
    for name, path in (("database", database), ("policy", policy), ("ledger", ledger)):
        if not isinstance(path, str | PathLike) and (path is not None or name == "database"):
            raise ProgrammingError(f"{name} is one path: {name}='…'.")
    if any("\0" in str(value) for value in (database, policy, ledger, analyst)):
        raise ProgrammingError("A path or name contains a NUL byte.")
    opened: Callable[..., dp_sql.Session] = dp_sql.connect  # it checks which of these go together
    session = opened(database, policy=policy, analyst=analyst, ledger=ledger, read_only=read_only)
    return Connection(session, autocommit=autocommit)


def _open(method: Callable[Concatenate[_C, _P], _T]) -> Callable[Concatenate[_C, _P], _T]:
    """A method that needs an open cursor or connection, with its errors as PEP 249's."""
    checked = _mapped(method)

    @wraps(method)
    def wrapper(self: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self.closed:
            raise InterfaceError(f"This {type(self).__name__.lower()} is closed; open another one.")
        return checked(self, *args, **kwargs)

    return wrapper


class Connection:
    """A session (`dp_sql.connect`). Its cost is in `session.budget()` and `session.receipts`."""

    def __init__(self, session: dp_sql.Session, *, autocommit: bool = True) -> None:
        self.session = session
        self.autocommit = autocommit
        self.closed = False
        self._in_transaction = False

    @_open
    def cursor(self) -> Cursor:
        """A cursor; it holds its own rows, whatever other cursors do."""
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """A new cursor with the result of a statement."""
        return self.cursor().execute(operation, parameters)

    @_open
    def commit(self) -> None:
        """Commit the transaction, if there is one."""
        self._in_transaction = False
        if self.session.connection is not None:
            self.session.connection.commit()

    @_open
    def rollback(self) -> None:
        """Roll the transaction back, if there is one. What it spent stays spent."""
        self._in_transaction = False
        if self.session.connection is not None:
            try:
                self.session.connection.rollback()
            except OperationalError as error:
                if "no transaction is active" not in str(error):
                    raise

    def interrupt(self) -> None:
        """Stop the running statement, from another thread; what it cost stays spent."""
        self.session.interrupt()

    def close(self) -> None:
        """Close the session; an open transaction is rolled back."""
        if not self.closed:
            self.closed = True
            self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, operation: object, parameters: object) -> Any:
        """A DuckDB connection to fetch from; None for an empty statement."""
        if not isinstance(operation, str):
            raise ProgrammingError("A statement is a string: execute('SELECT …').")
        if "\0" in operation:
            raise ProgrammingError("A statement contains a NUL byte; pass it as a parameter.")
        if not isinstance(parameters, Iterable | None):
            raise ProgrammingError("Parameters are a sequence, or a dictionary for $name.")
        connection = self.session.connection
        if connection is not None and not (self.autocommit or self._in_transaction):
            connection.begin()
            self._in_transaction = True
        if parameters is not None and not isinstance(parameters, Mapping):
            parameters = list(parameters)
        return self.session.execute(operation, parameters or None)

    def _has_no_rows(self, operation: str, columns: list[tuple[str, Any]]) -> bool:
        """Whether DuckDB's result only says that the last statement ran."""
        if columns not in _STATUS or self.session.connection is None:
            return False
        with contextlib.suppress(Exception):  # it ran: what cannot be parsed again returns rows
            *_, last = self.session.connection.extract_statements(operation)
            returning = any(token.upper == "RETURNING" for token in tokenize(last.query))
            return last.type.name not in {"SELECT", "EXECUTE"} and not returning
        return False


for _name in __all__:  # PEP 249: the exceptions are attributes of a connection, too
    if _name.endswith("Error") or _name == "Warning":
        setattr(Connection, _name, globals()[_name])


class Cursor:
    """One statement at a time, and its rows, which are read when it is executed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[ColumnDescription] | None = None
        self.rowcount = -1
        self._is_closed = False
        self._rows: deque[Row] = deque()

    @property
    def closed(self) -> bool:
        """Whether this cursor or its connection is closed."""
        return self._is_closed or self.connection.closed

    @_open
    def execute(self, operation: str, parameters: Parameters | None = None) -> Self:
        """Run a statement; each DP call in it is one release and costs the epsilon written in it.

        If the statement returns no rows, `description` is None, and `rowcount` is the number of
        changed rows, or -1 if unknown.
        """
        self.description, self.rowcount, self._rows = None, -1, deque()
        result = self.connection._run(operation, parameters)
        if result is None or result.description is None:
            return self
        rows = result.fetchall()
        columns = [
            (str(name), str(code) if _NAMED.fullmatch(str(code)) else code)
            for name, code, *_ in result.description
        ]
        if self.connection._has_no_rows(operation, columns):
            self.rowcount = int(rows[0][0]) if rows else -1
        else:
            self.description = [(*column, None, None, None, None, None) for column in columns]
            self.rowcount, self._rows = len(rows), deque(rows)
        return self

    @_open
    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Run a statement once for each set of parameters; each DP call is a release each time.

        `rowcount` is the number of rows that all of them changed; rows are those of the last one.
        """
        counts = [self.execute(operation, parameters).rowcount for parameters in seq_of_parameters]
        if self.description is None and counts:
            self.rowcount = -1 if -1 in counts else sum(counts)
        return self

    def fetchone(self) -> Row | None:
        """The next row, or None."""
        return next(iter(self.fetchmany(1)), None)

    @_open
    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows: `size` of them, or `arraysize`."""
        if self.description is None:
            raise InterfaceError("There are no rows to fetch; execute a query first.")
        wanted = self.arraysize if size is None else size
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    def fetchall(self) -> list[Row]:
        """The remaining rows."""
        return self.fetchmany(len(self._rows))

    def setinputsizes(self, *_: object) -> None:
        """Do nothing; PEP 249 requires the name."""

    setoutputsize = setinputsizes

    def close(self) -> None:
        """Discard the rows."""
        self._is_closed = True
        self._rows.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

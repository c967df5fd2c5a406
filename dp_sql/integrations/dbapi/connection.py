"""The session as a PEP 249 module: for programs that know Python's DB-API and nothing of us.

    from dp_sql.integrations import dbapi
    con = dbapi.connect("shop.duckdb", policy="policy.toml", analyst="reporting")

Knows `dp_sql.connect` and nothing below it. A statement is answered when it is executed, and its
rows are read then: fetching them, in pieces or twice, is never a second release.

Threads may share this module and not a connection (`threadsafety` is 1). Parameters are `?` or
`$1`, with a sequence, or `$name`, with a dictionary; DP calls and their sources cannot use them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import dp_sql
from dp_sql.integrations.dbapi.answers import check_statement, n_changed, writes_only
from dp_sql.integrations.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    mapped,
)

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Parameters = Sequence[object] | Mapping[str, object]
# Name, type code, then five places that PEP 249 leaves to the database, and DuckDB leaves empty.
Column = tuple[str, str, None, None, None, None, None]
_P = ParamSpec("_P")
_T = TypeVar("_T")


@mapped
def connect(
    database: str = ":memory:",
    *,
    policy: str | PathLike[str] | None = None,
    analyst: str | None = None,
    ledger: str | PathLike[str] | None = None,
    read_only: bool = False,
    autocommit: bool = True,
) -> Connection:
    """Open a database as its owner or, with a policy, as an analyst; see `dp_sql.connect`.

    Args:
        database: path of a DuckDB file, or ":memory:".
        policy: path of the owner's policy.
        analyst: who asks, under a policy.
        ledger: without a policy: path of a book of all releases.
        read_only: open the file without the right to change it; under a policy always.
        autocommit: True, as in DuckDB's own module: each statement commits by itself. With False
            the first statement begins a transaction, which ends with commit or rollback.
            Under a policy nothing can be changed, and it makes no difference.
    """
    for name, said in (("database", database), ("policy", policy), ("ledger", ledger)):
        if not isinstance(said, str | PathLike) and (said is not None or name == "database"):
            raise ProgrammingError(f"{name} is one path: {name}='…'.")
    if any("\0" in str(said) for said in (database, policy, ledger, analyst)):
        raise ProgrammingError("No path and no name has a NUL byte in it.")
    # Which of them go together, `dp_sql.connect` says.
    opened: Callable[..., dp_sql.Session] = dp_sql.connect
    session = opened(database, policy=policy, analyst=analyst, ledger=ledger, read_only=read_only)
    return Connection(session, autocommit=autocommit)


_C = TypeVar("_C", bound="Connection | Cursor")


def _open(act: Callable[Concatenate[_C, _P], _T]) -> Callable[Concatenate[_C, _P], _T]:
    """The same act, which needs an open cursor or connection."""

    def checked(self: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self.closed:
            raise InterfaceError(f"This {type(self).__name__.lower()} is closed; open another one.")
        return act(self, *args, **kwargs)

    return wraps(act)(checked)


class Connection:
    """A session. What it costs is in `session.budget()` and `session.receipts`."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError = InternalError, ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, session: dp_sql.Session, *, autocommit: bool = True) -> None:
        self.session = session
        self.autocommit = autocommit
        self.closed = False
        self._is_begun = False

    @property
    def has_policy(self) -> bool:
        """Whether this is an analyst's session, from which nothing can be changed."""
        return self.session.analyst is not None

    @_open
    def cursor(self) -> Cursor:
        """A cursor; it holds its own answer, whatever other cursors do."""
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """A new cursor with the answer of a statement."""
        return self.cursor().execute(operation, parameters)

    @_open
    @mapped
    def commit(self) -> None:
        """Keep what the open transaction has changed; without one, and for an analyst, nothing."""
        self._is_begun = False
        if self.session.connection is not None:
            self.session.connection.commit()

    @_open
    def rollback(self) -> None:
        """Undo what the open transaction has changed. What was spent in it stays spent.

        Without an open transaction, and for an analyst, there is nothing to undo.
        """
        self._is_begun = False
        if self.session.connection is not None:
            try:
                mapped(self.session.connection.rollback)()
            except OperationalError as error:
                if "no transaction is active" not in str(error):
                    raise

    def interrupt(self) -> None:
        """Stop what is running, from another thread; what it cost is spent."""
        self.session.interrupt()

    def close(self) -> None:
        """Close the session; an open transaction is undone."""
        if not self.closed:
            self.closed = True
            self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, text: str, parameters: Parameters | None) -> Any:
        """A connection of DuckDB's to fetch from; None where the text holds no statement."""
        check_statement(text, parameters)
        connection = self.session.connection
        if connection is not None and not (self.autocommit or self._is_begun):
            connection.begin()
            self._is_begun = True
        if parameters is not None and not isinstance(parameters, Mapping):
            parameters = list(parameters)
        return self.session.execute(text, parameters or None)


class Cursor:
    """One statement at a time, and its rows, which are read when the statement is executed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Column] | None = None
        self.rowcount = -1
        self._is_closed = False
        self._rows: deque[tuple[Any, ...]] = deque()

    @property
    def closed(self) -> bool:
        """Whether this cursor or its connection has been closed."""
        return self._is_closed or self.connection.closed

    @_open
    @mapped
    def execute(self, operation: str, parameters: Parameters | None = None) -> Self:
        """Answer a statement; each DP call in it is one release, and costs what is written in it.

        Without rows `description` is None, and `rowcount` what was changed, or -1 if not known.

        Args:
            operation: what `session.sql` takes.
            parameters: values for `?`, or by name; not within DP calls and their sources.
        """
        self.description, self.rowcount, self._rows = None, -1, deque()
        answer = self.connection._answer(operation, parameters)
        if answer is None or answer.description is None:
            return self
        rows = answer.fetchall()
        columns = [(str(name), str(code)) for name, code, *_ in answer.description]
        if writes_only(self.connection.session, operation, columns):
            self.rowcount = n_changed(rows)
        else:
            self.description = [(*column, None, None, None, None, None) for column in columns]
            self.rowcount = len(rows)
            self._rows = deque(rows)
        return self

    @_open
    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Answer a statement for each set of parameters; a DP call is a release each time.

        `rowcount` is what all of them changed together; rows that come back are the last one's.
        """
        counts = [self.execute(operation, parameters).rowcount for parameters in seq_of_parameters]
        if self.description is None and counts:
            self.rowcount = -1 if -1 in counts else sum(counts)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        return next(iter(self.fetchmany(1)), None)

    @_open
    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows; `arraysize` many where no size is given."""
        if self.description is None:
            raise InterfaceError("There are no rows to fetch; execute a query first.")
        wanted = self.arraysize if size is None else size
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left."""
        return self.fetchmany(len(self._rows))

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Nothing; PEP 249 wants the name."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing; PEP 249 wants the name."""

    def close(self) -> None:
        """Forget the rows."""
        self._is_closed = True
        self._rows.clear()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

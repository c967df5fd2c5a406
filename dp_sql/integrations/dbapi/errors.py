"""PEP 249's errors, and which of them dp_sql's and DuckDB's errors become.

    dbapi.Error
    ├── InterfaceError
    └── DatabaseError
        ├── ProgrammingError     ParseError, ArgumentError, NotPrivate, SourceError
        ├── NotSupportedError    NotSupported
        ├── OperationalError     BudgetExceeded, PolicyError, LedgerError
        ├── InternalError        InternalError
        └── DataError, IntegrityError

The original error is the cause (`__cause__`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dp_sql import errors

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Warning(Exception):
    """Never raised; PEP 249 requires the name."""


class Error(Exception):
    """The root of the errors of this module."""


class InterfaceError(Error):
    """A cursor or connection is closed, or has no rows to fetch."""


class DatabaseError(Error):
    """An error of DuckDB or dp_sql."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The budget is spent, or the policy, the ledger or the database cannot be used."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """A bug in dp_sql or DuckDB."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters are wrong."""


class NotSupportedError(DatabaseError):
    """The statement is not supported."""


# The first that fits counts.
_OF_DP_SQL: tuple[tuple[type[errors.DpSqlError], type[Error]], ...] = (
    (errors.NotSupported, NotSupportedError),
    (errors.BudgetExceeded, OperationalError),
    (errors.QueryError, ProgrammingError),
    (errors.PolicyError, OperationalError),
    (errors.LedgerError, OperationalError),
    (errors.InternalError, InternalError),
    (errors.DpSqlError, DatabaseError),
)


def pep_249(error: Exception) -> type[Error] | None:
    """The PEP 249 class of an error; DuckDB's classes have the same names."""
    for kind, found in _OF_DP_SQL:
        if isinstance(error, kind):
            return found
    if type(error).__module__.split(".")[0] in {"duckdb", "_duckdb"}:
        for base in type(error).__mro__:
            same_name = globals().get(base.__name__)
            if isinstance(same_name, type) and issubclass(same_name, Error):
                return same_name
    return None


def mapped(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same function, with its errors as PEP 249's."""

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            kind = pep_249(error)
            if kind is None:
                raise
            raise kind(str(error)) from error

    return wrapper

"""PEP 249's tree of errors, and where in it the errors of dp_sql and of DuckDB belong.

The tree::

    dbapi.Error
    ├── InterfaceError
    └── DatabaseError
        ├── ProgrammingError     ParseError, ArgumentError, NotPrivate, SourceError
        ├── NotSupportedError    NotSupported
        ├── OperationalError     BudgetExceeded, PolicyError, LedgerError
        ├── InternalError        InternalError
        └── DataError, IntegrityError

Our own error, or DuckDB's, is the cause (`__cause__`) of the one that is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dp_sql import errors

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Warning(Exception):
    """Never raised; PEP 249 wants the name."""


class Error(Exception):
    """The root of what this module raises."""


class InterfaceError(Error):
    """A closed cursor or connection is used, or rows are fetched where there are none."""


class DatabaseError(Error):
    """What DuckDB or dp_sql say of a statement."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The budget is spent, or the policy, the ledger or the file is not right."""


class IntegrityError(DatabaseError):
    """A constraint of the database does not hold."""


class InternalError(DatabaseError):
    """A bug of ours or of DuckDB's."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters are wrong."""


class NotSupportedError(DatabaseError):
    """The statement asks for something that has no meaning here."""


_TREE = {
    kind.__name__: kind
    for kind in (
        DataError, OperationalError, IntegrityError, InternalError, ProgrammingError,
        NotSupportedError, DatabaseError, Error,
    )
}  # fmt: skip
# In the order in which they are tried.
_OURS: tuple[tuple[type[errors.DpSqlError], type[Error]], ...] = (
    (errors.NotSupported, NotSupportedError),
    (errors.BudgetExceeded, OperationalError),
    (errors.QueryError, ProgrammingError),
    (errors.PolicyError, OperationalError),
    (errors.LedgerError, OperationalError),
    (errors.InternalError, InternalError),
    (errors.DpSqlError, DatabaseError),
)


def pep_249(error: Exception) -> type[Error] | None:
    """The class of PEP 249's tree that an error is of; DuckDB's own classes have its names."""
    for ours, kind in _OURS:
        if isinstance(error, ours):
            return kind
    if type(error).__module__.split(".")[0] not in {"duckdb", "_duckdb"}:
        return None
    return next((_TREE[k.__name__] for k in type(error).__mro__ if k.__name__ in _TREE), None)


def mapped(act: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same act, with its errors in PEP 249's tree."""

    @wraps(act)
    def acting(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return act(*args, **kwargs)
        except Exception as error:
            kind = pep_249(error)
            if kind is None:
                raise
            raise kind(str(error)) from error

    return acting

"""What PEP 249 wants of a statement: what may be executed, and whether what came is an answer.

DuckDB returns a row `Count` of what a statement changed, or `Success` and no row, where PEP 249
wants no description. Knows statements and their columns, and runs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import dp_sql
from dp_sql.integrations.dbapi.errors import ProgrammingError
from dp_sql.sql.tokens import tokenize

_NOTES = ([("Count", "BIGINT")], [("Success", "BOOLEAN")])
# Their columns are what somebody asked for, whatever they are called.
_ASK = {"SELECT", "EXECUTE"}


def check_statement(text: object, parameters: object) -> None:
    """Refuse what is no statement, or no parameters.

    Raises:
        ProgrammingError: one sentence that says what would work.
    """
    if not isinstance(text, str):
        raise ProgrammingError("A statement is a text: execute('SELECT …').")
    if "\0" in text:
        raise ProgrammingError("A statement has no NUL byte in it; pass one as a parameter.")
    if not isinstance(parameters, Iterable | None):
        raise ProgrammingError("Parameters are a sequence, or a dictionary for $name.")


def writes_only(session: dp_sql.Session, text: str, columns: Sequence[tuple[str, str]]) -> bool:
    """Whether a statement that was run returns no rows of its own.

    Args:
        session: where it was run; under a policy all statements return rows.
        text: the statement; of several, the last one counts.
        columns: names and types of what DuckDB returned.
    """
    if list(columns) not in _NOTES or session.connection is None:
        return False
    with contextlib.suppress(Exception):  # it has been run: what cannot be read is an answer
        *_, last = session.connection.extract_statements(text)
        returning = any(token.upper == "RETURNING" for token in tokenize(last.query))
        return last.type.name not in _ASK and not returning
    return False


def n_changed(rows: Sequence[tuple[Any, ...]]) -> int:
    """How many rows a statement changed, from DuckDB's note; -1 where it does not say."""
    return int(rows[0][0]) if rows else -1

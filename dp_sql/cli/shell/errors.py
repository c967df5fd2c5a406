"""What is said when something fails: our sentence, or DuckDB's with its caret; prints nothing."""

from __future__ import annotations

import re

from dp_sql.errors import DpSqlError
from dp_sql.session.base import Session


def in_full(error: BaseException, session: Session | None = None, statement: str = "") -> str:
    """An error as a person reads it; `statement` is what the session was asked."""
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted."
    if isinstance(error, DpSqlError):
        return f"{type(error).__name__}: {error}"
    located = None if session is None else _located(error, session, statement)
    return located or str(error) or type(error).__name__


def _located(error: BaseException, session: Session, statement: str) -> str | None:
    """DuckDB's message with its caret, where a relation's error came without one.

    DuckDB 2.0 leaves it out there; EXPLAIN, which only binds, says it, one line further down.
    """
    if "^" in str(error) or session.connection is None:
        return None
    try:
        session.connection.execute(f"EXPLAIN\n{statement}")
    except Exception as again:
        text = str(again)
        if "^" not in text or text.split("\n", 1)[0] != str(error).split("\n", 1)[0]:
            return None
        return re.sub(
            r"LINE (\d+):", lambda m: f"LINE {int(m[1]) - 1}:".ljust(len(m[0])), text, count=1
        )
    return None

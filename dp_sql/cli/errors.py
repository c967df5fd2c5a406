"""Errors as a person at a terminal reads them."""

import re
from typing import Any

from dp_sql.errors import DpSqlError, with_type

_OF_LOCKS = "\ndocs/locks.md says who can have a file open together."


class CommandError(Exception):
    """A command that cannot run. The message says what works."""


def error_text(error: BaseException, connection: Any = None, statement: str = "") -> str:
    """The text of an error; the owner's DuckDB connection is used to locate one of DuckDB's."""
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted."
    if isinstance(error, DpSqlError):
        return with_type(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    located = None if connection is None else _located(error, connection, statement)
    text = located or str(error) or type(error).__name__
    if "Could not set lock on file" not in text:
        return text
    # DuckDB names its own option if the file can be read meanwhile.
    return text + "\nWith dp-sql the option is --read-only." * ("-readonly" in text) + _OF_LOCKS


def _located(error: BaseException, connection: Any, statement: str) -> str | None:
    """DuckDB's message with its caret, where a relation's error came without one.

    DuckDB 2.0 omits the caret there. EXPLAIN only binds, and draws it one line further down.
    """
    if "^" in str(error):
        return None
    try:
        connection.execute(f"EXPLAIN\n{statement}")
    except Exception as again:
        text = str(again)
        if "^" in text and text.split("\n", 1)[0] == str(error).split("\n", 1)[0]:
            place = re.compile(r"LINE (\d+):")
            return place.sub(lambda m: f"LINE {int(m[1]) - 1}:".ljust(len(m[0])), text, count=1)
    return None

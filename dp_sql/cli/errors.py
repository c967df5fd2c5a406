"""Errors as a person at a terminal reads them."""

import re
import shutil
import sys
import textwrap
from typing import Any

from dp_sql.errors import OTHER_QUESTION, WRITE_INSTEAD, DpSqlError, with_type

_OF_LOCKS = "\nOne process can write to a DuckDB file, or several can read it (docs/locks.md)."


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


def wrapped(text: str) -> str:
    """Wrap the sentences of an error to the terminal; SQL in it stays as it is."""
    paragraphs = text.split("\n\n") if sys.stderr.isatty() else []
    for n, paragraph in enumerate(paragraphs):
        if paragraph.startswith((WRITE_INSTEAD, OTHER_QUESTION)):
            break  # a statement, to be copied
        if "\n" not in paragraph:
            paragraphs[n] = fill(paragraph)
    return "\n\n".join(paragraphs) or text


def fill(text: str) -> str:
    """Wrap text to the width of the terminal, without breaking words."""
    return textwrap.fill(
        text, shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
    )


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

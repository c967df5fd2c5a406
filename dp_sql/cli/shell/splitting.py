"""Splits typed input into statements and dot commands, and decides whether it is complete."""

import io
import re
from itertools import pairwise

from dp_sql.errors import ParseError
from dp_sql.sql.tokens import statements, tokenize

# Words that run without a dot, and are not SQL.
EXIT = re.compile(r"\s*(?:exit|quit)\s*;?\s*", re.IGNORECASE)
HELP = re.compile(r"\s*help\s*;?\s*", re.IGNORECASE)
_DOT_COMMAND = re.compile(r"[ \t]*\.[A-Za-z]")


def is_complete(text: str) -> bool:
    """Whether Enter runs this input: a dot command, exit, nothing, or SQL up to a semicolon.

    >>> is_complete("SELECT 1"), is_complete("SELECT 1;"), is_complete("SELECT ';")
    (False, True, False)
    >>> is_complete(".tables"), is_complete("-- a comment"), is_complete("/* an open one")
    (True, True, False)
    """
    if _DOT_COMMAND.match(text) or EXIT.fullmatch(text) or HELP.fullmatch(text):
        return True
    try:
        tokens = tokenize(text)
    except ParseError as error:
        return "never closed" not in error.message
    # An E'… that is never closed is read as E and a string.
    is_open = any(
        a.upper == "E" and b.kind == "string" and a.end == b.start for a, b in pairwise(tokens)
    )
    return not tokens or (tokens[-1].is_symbol(";") and not is_open)


def split_input(text: str) -> list[str]:
    r"""The statements and dot commands of an input, in order.

    A dot command is a line that begins with a dot while no statement is open. Input that cannot
    be split (a quote that is never closed) stays in one piece; running it shows the error.

    >>> split_input(".mode csv\nSELECT 1; SELECT\n.5;")
    ['.mode csv', 'SELECT 1', 'SELECT\n.5']
    """
    found: list[str] = []
    sql = ""
    for line in io.StringIO(text):
        if _DOT_COMMAND.match(line) and is_complete(sql):
            found += [*split_statements(sql), line.strip()]
            sql = ""
        else:
            sql += line
    return found + split_statements(sql)


def split_statements(text: str) -> list[str]:
    """The statements of a string; one that cannot be split is left whole."""
    try:
        return [text[part[0].start : part[-1].end] for part in statements(text)]
    except ParseError:
        return [text]

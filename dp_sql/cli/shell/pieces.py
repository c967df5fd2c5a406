"""Where a typed text ends: whether a question is complete, and the pieces of a text with several.

A piece is one statement or one dot command. Knows tokens; never runs or changes a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_sql.errors import ParseError
from dp_sql.sql.tokens import Token, statements, tokenize

_LEAVING = re.compile(r"\s*(?:exit|quit)\s*;?\s*", re.IGNORECASE)
_DOT = re.compile(r"[ \t]*\.[A-Za-z]")
_DOT_LINE = re.compile(r"^[ \t]*\.[A-Za-z]", re.MULTILINE)


def is_complete(text: str) -> bool:
    """Whether Enter asks this text: a dot command, exit, nothing, or SQL up to a semicolon.

    >>> is_complete("SELECT 1"), is_complete("SELECT 1;"), is_complete("SELECT ';")
    (False, True, False)
    >>> is_complete(".tables"), is_complete("-- a thought"), is_complete("/* a long one")
    (True, True, False)
    """
    if _DOT.match(text) or is_leaving(text):
        return True
    try:
        tokens = tokenize(text)
    except ParseError as error:
        return "never closed" not in error.message
    return not tokens or (tokens[-1].is_symbol(";") and not any(map(_is_open, tokens, tokens[1:])))


def is_leaving(text: str) -> bool:
    """Whether somebody means to leave: exit or quit, which are no SQL."""
    return _LEAVING.fullmatch(text) is not None


def _is_open(before: Token, after: Token) -> bool:
    """Whether two tokens are the beginning of a text that is not closed: $$, $tag$ or E'…'.

    The lexer, which finds no end of it, reads its first signs one by one.
    """
    if before.end != after.start:
        return False
    if before.is_symbol("$"):
        return after.is_symbol("$") or (after.kind == "word" and after.text.endswith("$"))
    return before.upper == "E" and after.kind == "string"


def pieces(text: str) -> list[str]:
    r"""The statements and dot commands of a text, in its order.

    A dot command is a line that begins with a dot where no statement is open. What cannot be cut
    (a quote that is never closed) stays one piece: who runs it will say what is wrong with it.

    >>> pieces(".mode csv\nSELECT 1; SELECT\n.5;")
    ['.mode csv', 'SELECT 1', 'SELECT\n.5']
    """
    if not _DOT_LINE.search(text):
        return statement_texts(text)
    found: list[str] = []
    start = 0
    for begin, end in _dot_lines(text):
        found += [*statement_texts(text[start:begin]), text[begin:end].strip()]
        start = end
    return found + statement_texts(text[start:])


def _dot_lines(text: str) -> Iterator[tuple[int, int]]:
    """Where each dot command of a text begins and ends.

    The text is read once, and anew only behind a command that is no SQL (as `.read it's.sql`).
    """
    lines = {line.end(): line.start() for line in _DOT_LINE.finditer(text)}
    start: int | None = 0
    while start is not None:
        before: Token | None = None
        is_open = False
        offset, is_read_again, behind = start, False, start
        for token in _readable(text[offset:]):
            if offset + token.start < behind:  # a word of the last command
                continue
            begin = lines.get(offset + token.start + 2)
            waits = before is None or before.is_symbol(";")
            if begin is not None and waits and not is_open:
                behind, before = text.find("\n", begin) + 1 or len(text), None
                yield begin, behind
                is_read_again = not _is_closed(text[begin:behind])
                if is_read_again:
                    break
                continue
            is_open = is_open or (before is not None and _is_open(before, token))
            before = token
        start = behind if is_read_again else None


def _readable(text: str) -> list[Token]:
    """The tokens of a text, up to the first sign that cannot be read."""
    while True:
        try:
            return tokenize(text)
        except ParseError as error:
            text = text[: error.position]


def _is_closed(line: str) -> bool:
    """Whether a line leaves no quote and no comment open behind it."""
    try:
        tokens = tokenize(line)
    except ParseError:
        return False
    return not any(map(_is_open, tokens, tokens[1:]))


def statement_texts(text: str) -> list[str]:
    """The statements of a text; one that cannot be cut is left whole."""
    try:
        return [text[part[0].start : part[-1].end] for part in statements(text)]
    except ParseError:
        return [text]

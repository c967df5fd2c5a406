r"""LIKE and ILIKE as functions whose time is linear in the length of the string.

DuckDB's own LIKE backtracks: on DuckDB 1.5 a pattern such as '%a_%a_%a_%b' runs for minutes on a
string of 110 letters, and cannot be interrupted. A pattern without _ that has % only at its ends is
a comparison, starts_with, ends_with or contains. Every other pattern becomes a regular expression,
which RE2 matches in linear time: % is .* and _ is one code point, as in DuckDB.

DuckDB defines s ILIKE p as lower(s) LIKE lower(p), code point by code point, and this module writes
exactly that. (Its own ILIKE skips lower(p) where statistics say that the whole column is ASCII: the
answer for one row then depends on other rows.) Under COLLATE NOCASE, LIKE is ILIKE.
"""

from __future__ import annotations

from dp_sql.privacy.collations import BINARY, NOCASE, PLAIN, unknown
from dp_sql.privacy.comparisons import (
    MAX_BYTES,
    MAX_TEXT_BYTES,
    Value,
    bounded,
    refuse,
)
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node

LONGEST_PATTERN = 1000
LONGEST_EXPRESSION = 100  # of a regular expression's pattern: RE2's time grows with both lengths


def like(node: Node, value: Value, pattern: str, fold: bool) -> str:
    """The condition that a string matches a pattern of LIKE, in which no character escapes % and _.

    fold: whether case is ignored, as in ILIKE.

    Raises Refused where the pattern is too long, or the string has another collation.
    """
    if value.collation not in {PLAIN, BINARY, *NOCASE}:
        raise unknown(node)
    word, written = _function(pattern)
    longest = LONGEST_EXPRESSION if word == "regexp_full_match" else LONGEST_PATTERN
    if len(pattern) > longest:
        why = f"This pattern has over {longest} characters"
        raise refuse(node, why, f"Shorten it to {longest}.")
    most = MAX_TEXT_BYTES if word == "regexp_full_match" else MAX_BYTES
    string, wanted = value.sql if word == "=" else bounded(value, most).sql, literal(written)
    if fold or value.collation in NOCASE:
        string, wanted = f"system.main.lower({string})", f"system.main.lower({wanted})"
    if word == "=":
        return f"{string} = {wanted}"
    options = ", 's'" if word == "regexp_full_match" else ""
    return f"system.main.{word}({string}, {wanted}{options})"


def _function(pattern: str) -> tuple[str, str]:
    r"""The function that matches a pattern, and its second argument.

    >>> [_function(p) for p in ("a", "a%", "%a", "%a%")]
    [('=', 'a'), ('starts_with', 'a'), ('ends_with', 'a'), ('contains', 'a')]
    >>> print(*_function("%a_c%d.%"))
    regexp_full_match .*a.c.*d\..*
    """
    inner = pattern.strip("%")
    if "%" in inner or "_" in inner:
        return "regexp_full_match", expression(pattern)
    before, after = pattern.startswith("%"), pattern.endswith("%")
    if before and after:
        return ("contains" if inner else "starts_with"), inner
    return ("ends_with" if before else "starts_with" if after else "="), inner


def expression(pattern: str) -> str:
    r"""The regular expression of a pattern. Lower-casing it lower-cases the pattern's letters only.

    >>> print(expression("50%\\_é"))
    50.*\\.é
    """
    wild = {"%": ".*", "_": "."}
    return "".join(
        wild.get(c) or (f"\\{c}" if c.isascii() and not c.isalnum() else c) for c in pattern
    )

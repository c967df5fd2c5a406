"""Arguments of functions that are literals: strings, patterns, formats, elements, JSON paths."""

import re
from collections.abc import Sequence
from math import prod

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dp_sql.privacy.expressions.collations import LONGEST_EXPRESSION, LONGEST_PATTERN
from dp_sql.privacy.expressions.literals import is_double, is_literal, whole_number
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node, parsed_text
from dp_sql.sql.tokens import tokenize
from dp_sql.sql.types import INTEGER_RANGES, UP_TO_64_BITS

_MAX_STATES = 2000  # of a regular expression, as if all its repetitions were nested
_REPEATED = re.compile(r"\{(\d*)(?:,(\d*))?\}", re.ASCII)
_ESCAPED = re.compile(r"\\(?:x\{[0-9A-Fa-f]+\}|.)", re.DOTALL)  # \x{3040} is one character
# What DuckDB knows; it reads the format of a time with a zone only when there is a row.
_FORMAT = re.compile(r"(?:%[YmdHMSjUWVGuwaAbBypIf%]|%-[mdHMSjyI]|[^%\0])*", re.ASCII)
# A character, an escaped one, or a class; of several, the last may be repeated; and | between.
_CHARACTER = (
    r"(?:[^\\\[\](){}|*+?^$\0]|\\[dswDSW.*+?()\[\]{}|^$/\\-]"
    r"|\[\^?(?:[^\\\[\]^]|\\[dswDSW.\[\]^\\-])+\])"
)
_FEW_CHARACTERS = re.compile(rf"{_CHARACTER}+\+?(?:\|{_CHARACTER}+\+?)*")
_KEY = re.compile(r"[^\W\d]\w*")
_ONE_KEY = re.compile(r"(?:[^\W\d]|@)[\w @:-]*")
_STEP = re.compile(rf"""\.(?:({_KEY.pattern})|"({_ONE_KEY.pattern})")|(\[\d{{1,18}}\])""")
_PATH = re.compile(rf"\$(?:{_STEP.pattern})*")
_WORDS = re.compile(r"\w+")


def quoted(name: str, kind: str, node: Node) -> Value:
    """A string in the statement: characters, a pattern or a format; of strptime, also several."""
    is_nested = isinstance(node.parent, exp.Array)
    if name == "strptime" and isinstance(node, exp.Array) and node.expressions and not is_nested:
        formats = [quoted(name, kind, one) for one in node.expressions]
        return Value(f"[{', '.join(one.sql for one in formats)}]", kind)
    written = node.this if isinstance(node, exp.Literal) and node.is_string else "\0"
    if "\0" in written or len(written) > LONGEST_PATTERN or (kind == "padding" and not written):
        raise refuse(node, f"{name} takes a string in quotes here")
    if kind == "pattern":
        _check_pattern(node, written)
    if kind == "format" and not _FORMAT.fullmatch(written):
        raise refuse(node, "This format has a part that is not supported here")
    return Value(literal(written), kind, bound=len(written.encode()))


def element(name: str, kind: str, node: Node) -> Value:
    """A literal that an element may equal; one of another type would cast the list."""
    number = whole_number(node)
    if kind == "VARCHAR" and isinstance(node, exp.Literal) and node.is_string:
        written = node.this if "\0" not in node.this else None
        if written is not None and len(written) <= LONGEST_PATTERN:
            return Value(literal(written), kind)
    elif kind in UP_TO_64_BITS and number is not None and not is_double(node):
        low, high = INTEGER_RANGES[kind]
        if low <= number <= high:
            return Value(f"CAST({number} AS {kind})", kind)
    raise refuse(node, f"{name} takes a literal of type {kind} here")


def json_path(node: Node) -> str:
    """A JSON path of keys and places, written anew."""
    keys = [one.this for one in node.expressions[1:]] if isinstance(node, exp.JSONPath) else []
    texts = {node.this} if is_literal(node) and node.is_string else _strings_of(node, keys)
    found = {_path(text) for text in texts}
    if not texts and keys and all(map(_is_plain, keys)):  # ->> 0
        found = {"$" + "".join(f"[{key}]" if isinstance(key, int) else f'."{key}"' for key in keys)}
    if len(found) != 1 or None in found:
        why = "This JSON path is not supported here"
        hint = "Write a path of keys and places, as in '$.a.\"b c\"[0]', or one key: 'user agent'."
        raise refuse(node, why, hint)
    return found.pop() or ""


def _path(text: str) -> str | None:
    """The path that DuckDB reads in a string: without a $ it is one key."""
    if _ONE_KEY.fullmatch(text):
        return f'$."{text}"'
    steps = (place or f'."{key or name}"' for key, name, place in _STEP.findall(text))
    return "$" + "".join(steps) if _PATH.fullmatch(text) else None


def _is_plain(key: object) -> bool:
    is_place = isinstance(key, int) and key >= 0
    return is_place or (isinstance(key, str) and _KEY.fullmatch(key) is not None)


def _strings_of(node: Node, keys: Sequence[object]) -> set[str]:
    """The strings of the statement in which sqlglot reads this path.

    To DuckDB some of them have another meaning: '.a', 'a.b' and 'a:b' are keys, '$a' is an error.
    """
    words, read = _WORDS.findall(" ".join(map(str, keys))), DuckDB().to_json_path
    quoted = (token.text for token in tokenize(parsed_text(node)) if token.text[-1:] in {"'", "$"})
    strings = (text.partition(text[-1])[2][:-1].strip("$" * (text[-1] == "$")) for text in quoted)
    likely = (text for text in strings if _WORDS.findall(text) == words)
    return {text for text in likely if read(exp.Literal.string(text)) == node}


def check_replaced_pattern(node: Node, pattern: str) -> None:
    """Refuse a regular expression all of whose matches may not be found in linear time.

    Each search goes on from the last match. It reads no more than the length of the pattern beyond
    the next one, if a match is a few characters, of which the last may be repeated.
    """
    if not _FEW_CHARACTERS.fullmatch(pattern):
        why = "This regular expression cannot be replaced everywhere here"
        hint = "With 'g', write characters and classes, and + after the last alone: '[^0-9]+'."
        raise refuse(node, why, hint)


def _check_pattern(node: Node, pattern: str) -> None:
    r"""Refuse a regular expression that could have many states; and \C, which cuts characters."""
    plain = _ESCAPED.sub("c", pattern)
    counts = [int(n) for found in _REPEATED.findall(plain) for n in found if n]
    states = len(pattern) * prod(max(count, 1) for count in counts)
    if "\\C" in pattern:
        raise refuse(node, "\\C is not supported here: its match may not be a valid string")
    if len(pattern) > LONGEST_EXPRESSION or states > _MAX_STATES or "\\p" in pattern.lower():
        why = "This regular expression is too large"
        hint = f"Use at most {LONGEST_EXPRESSION} characters, small repetitions, and no \\p."
        raise refuse(node, why, hint)

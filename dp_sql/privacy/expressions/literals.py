"""Literals: which nodes are constants, and what is their value and type?"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sqlglot import exp

from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node, parts_of
from dp_sql.sql.tokens import tokenize
from dp_sql.sql.types import DATED, MOST_DIGITS, NUMBERS, TYPE_ALIASES

FARTHEST = 10**6  # of a position, a length or a count in a literal
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_TARGETS = NUMBERS | DATED | {"VARCHAR", "BOOLEAN", "TIME", "UUID"}
_DECIMAL = re.compile(r"DECIMAL\((\d\d?),\s*(\d\d?)\)", re.ASCII)
_INTERVAL = re.compile(r"\s*(-?\d{1,9})\s*([a-z]*)\s*", re.ASCII)
# How many of each unit are at least a year.
A_YEAR = {"year": 1, "quarter": 4, "month": 12, "week": 52, "day": 365, "hour": 8760,
          "minute": 525_600, "second": 31_536_000, "millisecond": 31_536 * 10**6}  # fmt: skip
_AMOUNT = rf"(-?\d{{1,9}}(?:\.\d{{1,6}})?) ({'|'.join(A_YEAR)})s?"
_AMOUNTS = re.compile(_AMOUNT, re.ASCII)
_OF_INTERVALS = {"this", "unit", "fraction_in_string"}
_NUMBER = re.compile(r"(\d)(?=[a-z])", re.ASCII)
_SEVERAL = re.compile(
    rf"({_AMOUNT}( |$))*(-?\d{{1,4}}:[0-5]\d(:[0-5]\d(\.\d{{1,6}})?)?)?", re.ASCII
)
_DIGITS = re.compile(r"\d{1,38}(\.\d{0,37})?|\.\d{1,37}", re.ASCII)


def is_literal(node: Node) -> bool:
    """Whether a node is a constant in the statement."""
    inner = node.this
    match node:
        case exp.Paren() | exp.Neg() if parts_of(node) - {"this"}:
            return False
        case exp.Paren():
            return is_literal(inner)
        case exp.Neg():
            return isinstance(inner, exp.Literal) and not inner.is_string
        case exp.Cast():
            return isinstance(inner, exp.Literal) and inner.is_string
        case exp.Interval():
            return inner is not None and is_literal(inner)
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def is_double(node: Node) -> bool:
    """Whether a literal is a number with an exponent: DuckDB reads those as DOUBLE."""
    inner = without_sign(node)
    return isinstance(inner, exp.Literal) and not inner.is_string and "e" in inner.this.lower()


def whole_number(node: Node | None) -> int | None:
    """The integer that a literal is; None for everything else."""
    number = number_of(node) if node is not None and is_literal(node) else None
    return int(number) if number is not None and number.denominator == 1 else None


def near_number(node: Node | None) -> int | None:
    """The integer that a literal is, from -FARTHEST to FARTHEST; None for everything else."""
    number = None if node is None or is_double(node) else whole_number(node)
    return None if number is None or abs(number) > FARTHEST else number


def constant(node: Node, schema: Schema) -> Value:
    """A literal as a value beside others."""
    inner, negative = node, False
    while isinstance(inner, exp.Paren | exp.Neg):
        inner, negative = inner.this, negative or isinstance(inner, exp.Neg)
    written = "" if isinstance(inner, exp.Null | exp.Boolean) else str(inner.this)
    plain = written.replace("_", "")
    match inner:
        case exp.Null() | exp.Boolean():
            word = inner.sql()
            return Value(word, "BOOLEAN") if word != "NULL" else Value(word, word, literal=word)
        case exp.Literal(is_string=True) if "\0" not in written:
            return Value(literal(written), "VARCHAR", bound=len(written.encode()))
        case exp.Cast():
            kind, string = target(inner), inner.this.this
            if kind in DATED | {"TIME", "UUID"} and schema.readable(string, kind):
                return Value(f"CAST({literal(string)} AS {kind})", kind)
        case exp.Interval() if not negative:
            return Value(interval(inner)[0], "INTERVAL")
        case exp.Literal() if is_double(node):
            sign = "-" if negative else ""
            return Value(f"CAST('{sign}{float(plain)!r}' AS DOUBLE)", "DOUBLE")
        case exp.Literal() if _DIGITS.fullmatch(plain):
            sql = f"(-{plain})" if negative else plain
            return Value(sql, schema.type_of(sql), literal=sql)
    raise refuse(node, "This literal is not supported here")


def interval(node: Node) -> tuple[str, int]:
    """An interval that is written in the statement, written anew, and the years that it spans."""
    written = _written(node)
    if not (written and _SEVERAL.fullmatch(written)) or parts_of(node) - _OF_INTERVALS:
        number, word = interval_units(node, node)
        return f"CAST('{number} {word}' AS INTERVAL)", abs(number) // A_YEAR[word] + 1
    years = sum(abs(Fraction(n)) / A_YEAR[word] for n, word in _AMOUNTS.findall(written))
    return f"CAST({literal(written)} AS INTERVAL)", int(years) + 2  # and the time


def interval_units(node: Node, of: Node) -> tuple[int, str]:
    """The number and the unit of an interval that is written in the statement."""
    found = _INTERVAL.fullmatch(_written(of)) if isinstance(of, exp.Interval) else None
    word = found[2].removesuffix("s") if found else ""
    if found is None or parts_of(of) - {"this", "unit"} or word not in UNITS:
        hint = f"Write a whole number of one of these: {', '.join(UNITS)}; several in one string, "
        hint += "with or without a time: INTERVAL '1 day 2.5 hours', INTERVAL '1 day 02:30:00'."
        raise refuse(node, "This interval is not supported here", hint)
    return int(found[1]), word


def _written(node: Node) -> str:
    """The text of an interval, "" if it is none or not known.

    Of '1 day ago' and '1 day 02:30:00' sqlglot keeps 1 day; of 1.5 HOUR, DuckDB 2.0 reads 1 hour.
    """
    unit, inner = node.text("unit").lower(), without_sign(node.this)
    sign = "-" * (node.this.find(exp.Neg) is not None)
    if not isinstance(inner, exp.Literal) or ("." in inner.this and inner is not node.this):
        return ""
    amount = f"{sign}{inner.this}".lower()
    tokens, found = tokenize(str(node.root().meta.get("sql", ""))), set()
    for token, behind in pairwise([*tokens, *tokens[-1:]] if unit else ()):
        text = _NUMBER.sub(r"\1 ", " ".join(token.text.strip("'").lower().split()))
        if text == inner.this and behind.text.lower() == unit:
            found.add("" if "." in text else f"{amount} {unit}")
        first, *more = exp.INTERVAL_STRING_RE.findall(text) or [("", "")]
        if not more and first[0] == amount and first[1][:1] == unit[:1]:
            found.add(f"{amount} {unit}" if text == " ".join(first) else text)
    return found.pop() if len(found) == 1 else "" if found else f"{amount} {unit}".strip()


def target(node: Node) -> str:
    """The type to which a cast goes, or ""."""
    kind = node.args["to"].sql(dialect="duckdb").upper()
    if found := _DECIMAL.fullmatch(kind):
        width, scale = int(found[1]), int(found[2])
        return f"DECIMAL({width},{scale})" if scale <= width <= MOST_DIGITS else ""
    kind = TYPE_ALIASES.get(kind, kind)
    return kind if kind in _TARGETS - {"DECIMAL"} else ""


def number_of(node: Node) -> Fraction | None:
    """The number that a literal is; None for everything else, and for very large ones."""
    inner = without_sign(node)
    try:
        is_number = isinstance(inner, exp.Literal) and not inner.is_string
        number = Decimal(inner.this.replace("_", "") if is_number else "nan")
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > 300:
        return None
    return Fraction(number) * (-1 if node.find(exp.Neg) is not None else 1)


def without_sign(node: Node) -> Node:
    """What stands within brackets and behind minus signs."""
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return node


def of_literals(left: Node, sign: str, right: Node) -> str:
    """The truth of a comparison of two literals, as in 1 = 1 or 'All' = 'All'; "" if not known.

    Numbers with an exponent, dates and values of two kinds are not compared here.
    """
    a, b = _known(left), _known(right)
    if a is None or b is None or (a[0] != b[0] and "null" not in {a[0], b[0]}):
        return ""
    if sign.startswith("IS "):
        return str((a == b) == ("NOT" in sign)).upper()
    if "null" in {a[0], b[0]}:
        return "CAST(NULL AS BOOLEAN)"
    return str(_SIGNS[sign](a[1], b[1])).upper()


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _known(node: Node) -> tuple[str, Fraction | bytes | bool | None] | None:
    """The kind and the value of a literal, where these alone decide a comparison."""
    match inner := without_sign(node):
        case exp.Null():
            return "null", None
        case exp.Boolean():
            return "boolean", bool(inner.this)
        case exp.Literal(is_string=True) if "\0" not in inner.this:
            return "string", inner.this.encode()
    number = None if is_double(node) else number_of(node)
    return None if number is None else ("number", number)

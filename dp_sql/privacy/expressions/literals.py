"""Literals: which nodes are constants, and what is their value and type?"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import DATED, MOST_DIGITS, NUMBERS, TYPE_ALIASES

_TARGETS = NUMBERS | DATED | {"VARCHAR", "BOOLEAN", "TIME", "UUID"}
_DECIMAL = re.compile(r"DECIMAL\((\d\d?),\s*(\d\d?)\)", re.ASCII)
_DIGITS = re.compile(r"\d{1,38}(\.\d{0,37})?|\.\d{1,37}", re.ASCII)


def is_literal(node: Node) -> bool:
    """Whether a node is a constant in the statement."""
    inner = node.this
    match node:
        case exp.Paren() | exp.Neg() if any(node.args[k] for k in node.args if k != "this"):
            return False
        case exp.Paren():
            return is_literal(inner)
        case exp.Neg():
            return isinstance(inner, exp.Literal) and not inner.is_string
        case exp.Cast():
            return isinstance(inner, exp.Literal) and inner.is_string
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def is_double(node: Node) -> bool:
    """Whether a literal is a number with an exponent: DuckDB reads those as DOUBLE."""
    inner = without_sign(node)
    return isinstance(inner, exp.Literal) and not inner.is_string and "e" in inner.this.lower()


def whole_number(node: Node | None) -> int | None:
    """The integer that a literal is; None for everything else."""
    number = number_of(node) if node is not None and is_literal(node) else None
    return int(number) if number is not None and number.denominator == 1 else None


def constant(node: Node, schema: Schema) -> Value:
    """A literal as a value beside others."""
    inner, negative = node, False
    while isinstance(inner, exp.Paren | exp.Neg):
        inner, negative = inner.this, negative or isinstance(inner, exp.Neg)
    written = "" if isinstance(inner, exp.Null | exp.Boolean) else str(inner.this)
    match inner:
        case exp.Null():
            return Value("NULL", "NULL", literal="NULL")
        case exp.Boolean():
            return Value("TRUE" if inner.this else "FALSE", "BOOLEAN")
        case exp.Literal(is_string=True) if "\0" not in written:
            return Value(literal(written), "VARCHAR", bound=len(written.encode()))
        case exp.Cast():
            kind, string = target(inner), inner.this.this
            if kind in DATED | {"TIME", "UUID"} and schema.readable(string, kind):
                return Value(f"CAST({literal(string)} AS {kind})", kind)
        case exp.Literal():
            sign, plain = "-" if negative else "", written.replace("_", "")
            if is_double(node):
                return Value(f"CAST('{sign}{float(plain)!r}' AS DOUBLE)", "DOUBLE")
            if _DIGITS.fullmatch(plain):
                sql = f"({sign}{plain})" if sign else plain
                return Value(sql, schema.type_of(sql), literal=sql)
    raise refuse(node, "This literal is not supported here")


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

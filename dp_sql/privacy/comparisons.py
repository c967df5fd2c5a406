"""A value and a literal: in which type are the two compared, so that nothing can fail?

Owns the values of expressions, the refusals, and DuckDB's rules for a column and a constant. A
comparison here is exact, or it is in the floating type in which DuckDB itself would compare; a
literal that fits neither is refused. Casts of a column are only ever to a type that holds every
value of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dp_sql.errors import NotPrivate, SourceError
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import family

INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    **{
        name: (-(1 << bits - 1), (1 << bits - 1) - 1)
        for name, bits in (
            ("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128),
        )
    },
    **{
        name: (0, (1 << bits) - 1)
        for name, bits in (
            ("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64), ("UHUGEINT", 128)
        )
    },
}  # fmt: skip
SMALL = INTEGER_RANGES.keys() - {"HUGEINT", "UHUGEINT"}
"""Integers that fit HUGEINT and, with 18 places behind the point, DECIMAL(38, 18)."""
FLOATS = {"FLOAT", "DOUBLE"}
TIMES = {
    "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
_FROM_TEXT = TIMES | {"TIME", "UUID"}
_HOLD_DATES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_WRITTEN = {
    "TEXT": "VARCHAR", "VARCHAR": "VARCHAR", "DATE": "DATE", "TIME": "TIME", "UUID": "UUID",
    "TIMESTAMP": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_S": "TIMESTAMP_S", "TIMESTAMP_MS": "TIMESTAMP_MS", "TIMESTAMP_NS": "TIMESTAMP_NS",
}  # fmt: skip
_MOST_DIGITS = 38
MAX_TEXT_BYTES = 10_000
"""The longest string, in bytes, that functions read; they read a longer one as NULL."""
_COLUMN = re.compile(r"r\d+c\d+", re.ASCII)
WAY_OUT = (
    "Under a policy, and over groups, you can use comparisons with literals, BETWEEN, IN (a list), "
    "IS NULL, AND, OR, NOT, LIKE, lower, upper, trim, substr, date_trunc, year, month, day, and "
    "coalesce with a literal. For anything else the owner can add a column to the table."
)


@dataclass(frozen=True)
class Value:
    """A compiled expression: its SQL and its type.

    origin: the column of a base table that it is, unchanged: the table's full name and the
        column's.
    is_person: whether it is the privacy unit of its row.
    collation: how its strings are compared, as collations.py names it.
    """

    sql: str
    type: str
    origin: tuple[tuple[str, ...], str] | None = None
    is_person: bool = False
    collation: str = ""

    @property
    def origin_name(self) -> str | None:
        """The name of the column that it is."""
        return None if self.origin is None else self.origin[1]


@dataclass(frozen=True)
class Scope:
    """What an expression may use.

    column: finds a column by its parts, or refuses it.
    constant: whether a string can be read as a type; asked of the engine, over no rows.
    listed: the values of a public one-column query, or a refusal.
    aggregate: compiles an aggregate, where one is allowed.
    as_written: takes an expression that cannot be compiled as the owner wrote it; None where the
        person who asks is not the owner.
    """

    column: Callable[[exp.Column], Value]
    constant: Callable[[str, str], bool]
    listed: Callable[[Node], Value]
    aggregate: Callable[[Node], Value] | None = None
    as_written: Callable[[Node], Value] | None = None


class Refused(NotPrivate):
    """A refusal that knows its node, so that a caret can be put under it.

    offset: its place in the SQL that was parsed, if the node does not say it.
    """

    node: Node
    offset: int | None = None


class Unbound(SourceError):
    """What the engine says of a node that it cannot bind; `node` as in Refused."""

    def __init__(self, node: Node, error: SourceError, message: str | None = None) -> None:
        self.node = node
        super().__init__(message or error.message, hint=error.hint)


def refuse(node: Node, message: str, hint: str = WAY_OUT) -> Refused:
    """A refusal of one node."""
    error = Refused(f"{message}.", hint=hint)
    error.node = node
    return error


def short(sql: str) -> str:
    r"""A string as a function reads it: NULL where a column holds one that is too long.

    Functions take time that grows with the string, and one row could hold gigabytes.

    >>> print(short("r0c1"), short("lower(r0c1)"), sep="\n")
    (CASE WHEN system.main.strlen(r0c1) <= 10000 THEN r0c1 END)
    lower(r0c1)
    """
    if not _COLUMN.fullmatch(sql):
        return sql
    return f"(CASE WHEN system.main.strlen({sql}) <= {MAX_TEXT_BYTES} THEN {sql} END)"


def is_literal(node: Node) -> bool:
    """Whether a node is a constant written in the SQL."""
    if isinstance(node, exp.Paren | exp.Neg) and any(
        node.args[k] for k in node.args if k != "this"
    ):
        return False
    if isinstance(node, exp.Paren):
        return is_literal(node.this)
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    if isinstance(node, exp.Cast):
        return isinstance(node.this, exp.Literal) and node.this.is_string
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def is_double(node: Node) -> bool:
    """Whether a literal is a number with an exponent: DuckDB reads those as DOUBLE."""
    inner = _bare(node)
    return isinstance(inner, exp.Literal) and not inner.is_string and "e" in inner.this.lower()


def whole_number(node: Node | None) -> int | None:
    """The integer written in the SQL; None for everything else."""
    number = _number(node) if node is not None and is_literal(node) else None
    return int(number) if number is not None and number.denominator == 1 else None


def beside(value: Value, constant: Node, scope: Scope) -> tuple[str, str]:
    """A value and a literal as they are compared: no cast of the value can fail."""
    while isinstance(constant, exp.Paren):
        constant = constant.this
    kind = family(value.type)
    found = None
    if isinstance(constant, exp.Null):
        found = value.sql, "NULL"
    elif isinstance(constant, exp.Boolean):
        found = (value.sql, "TRUE" if constant.this else "FALSE") if kind == "BOOLEAN" else None
    elif isinstance(constant, exp.Cast):
        found = _cast_beside(value, constant, scope)
    elif isinstance(constant, exp.Literal) and constant.is_string:
        found = _text_beside(value, constant.this, scope)
    else:
        number = _number(constant)
        if number is not None:
            found = _number_beside(value, kind, number, is_double(constant))
    if found is None:
        raise refuse(constant, f"This literal cannot be compared with {value.type}")
    return found


# --- strings --------------------------------------------------------------------------------------


def _cast_beside(value: Value, constant: Node, scope: Scope) -> tuple[str, str] | None:
    """DATE '2024-01-31' and its like: a literal that says its type."""
    if any(part and key not in {"this", "to"} for key, part in constant.args.items()):
        return None
    kind, written = (
        _WRITTEN.get(constant.args["to"].sql(dialect="duckdb").upper()),
        constant.this.this,
    )
    if kind == value.type or (kind == "VARCHAR" and family(value.type) == "ENUM"):
        return _text_beside(value, written, scope)
    beyond = kind != "DATE" or value.type not in _HOLD_DATES or not _DATE.fullmatch(written)
    if not beyond and scope.constant(written, "DATE"):
        return value.sql, f"CAST(CAST({literal(written)} AS DATE) AS {value.type})"
    return None


def _text_beside(value: Value, written: str, scope: Scope) -> tuple[str, str] | None:
    kind = family(value.type)
    if "\0" in written:
        return None
    if kind == "VARCHAR":
        return value.sql, literal(written)
    if kind == "ENUM":
        return f"CAST({value.sql} AS VARCHAR)", literal(written)
    if kind in _FROM_TEXT and scope.constant(written, value.type):
        return value.sql, f"CAST({literal(written)} AS {value.type})"
    return None


# --- numbers --------------------------------------------------------------------------------------


def _bare(node: Node) -> Node:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return node


def _number(node: Node) -> Fraction | None:
    literal = _bare(node)
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    try:
        number = Decimal(literal.this.replace("_", ""))
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > 300:
        return None
    return Fraction(number) * (-1 if node.find(exp.Neg) is not None else 1)


def _number_beside(
    value: Value, kind: str, number: Fraction, double: bool
) -> tuple[str, str] | None:
    if kind not in INTEGER_RANGES and kind not in FLOATS | {"DECIMAL"}:
        return None
    if double or kind == "DOUBLE":
        # Every number has a nearest DOUBLE, so this cast fails on no row.
        column = value.sql if kind == "DOUBLE" else f"CAST({value.sql} AS DOUBLE)"
        return column, _floating(number, "DOUBLE", double)
    if kind == "FLOAT":
        return None if abs(number) > 10**38 else (value.sql, _floating(number, "FLOAT", double))
    if kind in INTEGER_RANGES and number.denominator == 1:
        return _integer_beside(value, kind, number)
    return _decimal_beside(value, kind, number)


def _integer_beside(value: Value, kind: str, number: Fraction) -> tuple[str, str] | None:
    low, high = INTEGER_RANGES[kind]
    if low <= number <= high:
        return value.sql, f"CAST({literal(str(number))} AS {kind})"
    low, high = INTEGER_RANGES["HUGEINT"]
    if kind in SMALL and low <= number <= high:
        return f"CAST({value.sql} AS HUGEINT)", f"CAST({literal(str(number))} AS HUGEINT)"
    return None


def _decimal_beside(value: Value, kind: str, number: Fraction) -> tuple[str, str] | None:
    """Both as decimals with places enough for both, which hold every value of the column."""
    if kind == "DECIMAL":
        digits, has = (int(n) for n in value.type[8:-1].split(","))
        if (number * 10**has).denominator == 1 and abs(number) < 10 ** (digits - has):
            return value.sql, f"CAST({literal(decimal_text(number, has))} AS {value.type})"
        places = max(has, _places(number))
        fits = digits - has + places <= _MOST_DIGITS
    else:
        places, fits = 18, kind in SMALL
    scaled = number * 10**places
    if not fits or scaled.denominator != 1 or abs(scaled) >= 10**_MOST_DIGITS:
        return None
    wide = f"DECIMAL({_MOST_DIGITS},{places})"
    return (
        f"CAST({value.sql} AS {wide})", f"CAST({literal(decimal_text(number, places))} AS {wide})",
    )  # fmt: skip


def _floating(number: Fraction, kind: str, double: bool) -> str:
    """A number as DuckDB brings it to a floating type: by way of the literal's own type."""
    places = _places(number)
    scaled = number * 10**places
    if double or scaled.denominator != 1 or abs(scaled) >= 10**_MOST_DIGITS:
        return f"CAST({literal(repr(float(number)))} AS {kind})"
    if places:
        own = f"DECIMAL({max(len(str(abs(scaled.numerator))), places)},{places})"
    else:
        kinds = ("INTEGER", "BIGINT", "HUGEINT")
        fitting = (k for k in kinds if INTEGER_RANGES[k][0] <= number <= INTEGER_RANGES[k][1])
        own = next(fitting, "HUGEINT")
    return f"CAST(CAST({literal(decimal_text(number, places))} AS {own}) AS {kind})"


def _places(number: Fraction) -> int:
    """How many places behind the point a number needs, as far as decimals go."""
    places = 0
    while places <= _MOST_DIGITS and (number * 10**places).denominator != 1:
        places += 1
    return places


def decimal_text(number: Fraction, places: int) -> str:
    """A number with so many places behind the point.

    >>> decimal_text(Fraction(-5, 100), 3)
    '-0.050'
    """
    digits = str(abs(number * 10**places).numerator).zfill(places + 1)
    point = len(digits) - places
    shown = digits[:point] + ("." + digits[point:] if places else "")
    return ("-" if number < 0 else "") + shown

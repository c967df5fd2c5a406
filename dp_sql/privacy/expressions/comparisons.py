"""Values of expressions, what compiles them, and literals: in which type are these compared?

By DuckDB's rules for a column beside a constant, and so that nothing can fail. A
comparison here is exact, or it is in the floating type in which DuckDB itself would compare; a
literal that fits neither is refused. Casts of a column are only ever to a type that holds every
value of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from dp_sql.errors import NotPrivate, SourceError
from dp_sql.privacy.catalog import Schema
from dp_sql.sql.formatting import decimal, literal
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import INTEGER_RANGES, INTEGERS, NUMBERS, digits_of, family

# Integers that fit HUGEINT and, with 18 places behind the point, DECIMAL(38, 18).
SMALL = INTEGERS - {"HUGEINT", "UHUGEINT"}
FLOATS = {"FLOAT", "DOUBLE"}
TIMES = {
    "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
ZONED = "TIMESTAMP WITH TIME ZONE"
DATED = {"DATE", "TIMESTAMP", ZONED}
_FROM_TEXT = TIMES | {"TIME", "UUID"}
_HOLD_DATES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"}
_TARGETS = NUMBERS | DATED | {"VARCHAR", "BOOLEAN", "TIME", "UUID"}
_DECIMAL = re.compile(r"DECIMAL\((\d\d?),\s*(\d\d?)\)", re.ASCII)
_DIGITS = re.compile(r"\d{1,38}(\.\d{0,37})?|\.\d{1,37}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
TYPE_ALIASES = {
    "TEXT": "VARCHAR", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE", "INT": "INTEGER", "REAL": "FLOAT",
    "UINT": "UINTEGER", "INT128": "HUGEINT", "UINT128": "UHUGEINT",
}  # fmt: skip
MOST_DIGITS = 38  # of a DECIMAL
MAX_TEXT_BYTES = 10_000  # of a string that functions read; they read a longer one as NULL
MAX_STRING = 200_000  # of a string that is computed
NEAR = ("100000-01-01 (BC)", "100000-01-01")  # they read a date beyond these as NULL
_NEAR_YEARS = 100_000
WAY_OUT = (
    "Under a policy, and over groups, you can use comparisons, LIKE, CASE, coalesce, arithmetic, "
    "TRY_CAST, and the functions of strings, dates and JSON that docs/sql.md lists. For anything "
    "else the owner can add a column to the table."
)
_LITERALS = {
    "VARCHAR": "Write a string in quotes: 'text'.",
    "DATE": "Write a date in quotes, year first: '2026-01-31'.",
    **dict.fromkeys(NUMBERS, "Write a number without quotes."),
}
PER_PERSON = (
    "Compute a value of each person in a subquery, and ask about these: SELECT DP_AVG(n, …) FROM "
    "(SELECT user_id, count(*) AS n FROM orders GROUP BY user_id)."
)
BY_PARAMETER = (
    "Write $d, and pass the value as a parameter: session.sql(query, params={'d': …}). In "
    "FROM dp($$ … $$, params := row(…)) it is ?."
)
FIRST_ROW = (
    "For each person's first row: "
    "FROM (FROM events QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY ts) = 1)."
)


class Value(NamedTuple):
    """A compiled expression: its SQL and its type.

    origin: the column of a base table that it is, unchanged: the table's full name, and its own.
    is_person: whether it is the privacy unit of its row.
    collation: how its strings are compared, as collations.py names it.
    bound: the most bytes of a string, or the years from 0 to the farthest date; None: not known.
    literal: the SQL of a literal whose type depends on what is beside it.
    is_unnested: whether it is a list of which each element becomes a row.
    image: of an item or key that is computed from one column alone: that column, and the SQL over
        its values in a column `item`.
    """

    sql: str
    type: str
    origin: tuple[tuple[str, ...], str] | None = None
    is_person: bool = False
    collation: str = ""
    is_unnested: bool = False
    bound: int | None = None
    literal: str = ""
    image: tuple[Value, str] | None = None

    @property
    def shape(self) -> str:
        """What replaces it where the engine is asked for a type; it must not be a constant."""
        return self.literal or f"(SELECT CAST(NULL AS {self.type}))"

    @property
    def origin_name(self) -> str | None:
        """The name of the column that it is."""
        return None if self.origin is None else self.origin[1]


class Scope(NamedTuple):
    """What an expression may use.

    compile: compiles an expression: compiler.compiled.
    column: finds a column by its parts, or refuses it.
    schema: what the engine is asked, over no rows: types, and which constants it can read.
    listed: the values of a public one-column query, or a refusal.
    now: the time of the statement.
    aggregate: compiles an aggregate, where one is allowed.
    as_written: for owners, takes an expression that cannot be compiled as it is written.
    matched: in WHERE, whether a row has a match in a query: EXISTS, or IN for a value. None for IN
    over public tables.
    """

    compile: Callable[[Node, Scope], Value]
    column: Callable[[exp.Column], Value]
    schema: Schema
    listed: Callable[[Node], Value]
    now: Callable[[], datetime] | None = None
    aggregate: Callable[[Node], Value] | None = None
    as_written: Callable[[Node], Value] | None = None
    matched: Callable[[Node, Value | None], Value | None] | None = None

    def compiled(self, node: Node) -> Value:
        """A part of an expression."""
        return self.compile(node, self)

    def argument(self, node: Node) -> Value:
        """What is computed with: an expression, or a literal."""
        return constant(node, self) if is_literal(node) else self.compiled(node)

    def operand(self, node: Node) -> Value:
        """A side of a comparison: parsers may differ about which of a = b = c comes first."""
        several = isinstance(node, exp.Predicate | exp.And | exp.Or | exp.Not)
        if several and not isinstance(node, exp.SubqueryPredicate):
            raise refuse(node, "Put brackets around one of these two comparisons")
        return self.compiled(node)

    def condition(self, node: Node) -> str:
        """An expression that must be true or false."""
        if (found := self.compiled(node)).type == "BOOLEAN":
            return found.sql
        raise refuse(node, "A condition must be true or false")

    def only_analysts(self, node: Node, why: str) -> None:
        """Refuse, for an owner, whose text is then taken as it is written, DuckDB's errors too."""
        if self.as_written is not None:
            raise refuse(node, why)


class Refused(NotPrivate):
    """A refusal that knows its node, so that a caret can be put under it.

    offset: the node's place in the SQL that was parsed, where the node does not know it.
    n_parts: of json.key, how many of its names are those of the column; 0 of all else.
    """

    node: Node
    offset: int | None = None
    n_parts: int = 0


class Unbound(SourceError):
    """What the engine says of a node that it cannot bind; `node` as in Refused."""

    def __init__(self, node: Node, error: SourceError, message: str | None = None) -> None:
        self.node = node
        super().__init__(message or error.message, hint=error.hint)
        self.names = error.names


def refuse(node: Node, message: str, hint: str | None = None) -> Refused:
    """A refusal of one node; by default with WAY_OUT if something is not supported."""
    if hint is None:
        hint = WAY_OUT if "support" in message else ""
    error = Refused(f"{message}.", hint=hint)
    error.node = node
    return error


def bounded(value: Value, most_bytes: int = MAX_STRING) -> Value:
    r"""A string or date as functions read it: NULL where it is too long, or too far away.

    Functions take time that grows with the string, and one row could hold gigabytes. `most_bytes`:
    how long a string may be without being read as NULL.

    >>> print(bounded(Value("r0c1", "VARCHAR")).sql)
    (CASE WHEN system.main.strlen(r0c1) <= 10000 THEN r0c1 END)
    """
    sql, most = value.sql, None
    if family(value.type) in TIMES and value.bound is None:
        low, high = (f"CAST('{day}' AS {value.type})" for day in NEAR)
        fits, most = f"{sql} BETWEEN {low} AND {high}", _NEAR_YEARS
    elif value.type == "VARCHAR" and (value.bound is None or value.bound > most_bytes):
        fits, most = f"system.main.strlen({sql}) <= {MAX_TEXT_BYTES}", MAX_TEXT_BYTES
    if most is None:
        return value
    return value._replace(sql=f"(CASE WHEN {fits} THEN {sql} END)", bound=most, origin=None)


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
    inner = _bare(node)
    return isinstance(inner, exp.Literal) and not inner.is_string and "e" in inner.this.lower()


def whole_number(node: Node | None) -> int | None:
    """The integer that a literal is; None for everything else."""
    number = _number(node) if node is not None and is_literal(node) else None
    return int(number) if number is not None and number.denominator == 1 else None


def constant(node: Node, scope: Scope) -> Value:
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
            if kind in DATED | {"TIME", "UUID"} and scope.schema.readable(string, kind):
                return Value(f"CAST({literal(string)} AS {kind})", kind)
        case exp.Literal():
            sign, plain = "-" if negative else "", written.replace("_", "")
            if is_double(node):
                return Value(f"CAST('{sign}{float(plain)!r}' AS DOUBLE)", "DOUBLE")
            if _DIGITS.fullmatch(plain):
                sql = f"({sign}{plain})" if sign else plain
                return Value(sql, scope.schema.type_of(sql), literal=sql)
    raise refuse(node, "This literal is not supported here")


def target(node: Node) -> str:
    """The type to which a cast goes, or ""."""
    kind = node.args["to"].sql(dialect="duckdb").upper()
    if found := _DECIMAL.fullmatch(kind):
        width, scale = int(found[1]), int(found[2])
        return f"DECIMAL({width},{scale})" if scale <= width <= MOST_DIGITS else ""
    kind = TYPE_ALIASES.get(kind, kind)
    return kind if kind in _TARGETS - {"DECIMAL"} else ""


def beside(value: Value, constant: Node, scope: Scope) -> tuple[str, str]:
    """A value and a literal as they are compared: no cast of the value can fail."""
    while isinstance(constant, exp.Paren):
        constant = constant.this
    kind, found = family(value.type), None
    match constant:
        case exp.Null():
            found = value.sql, "NULL"
        case exp.Boolean():
            found = (value.sql, "TRUE" if constant.this else "FALSE") if kind == "BOOLEAN" else None
        case exp.Cast():
            found = _cast_beside(value, constant, scope)
        case exp.Literal(is_string=True):
            found = _string_beside(value, constant.this, scope)
        case _ if (number := _number(constant)) is not None:
            found = _number_beside(value, kind, number, is_double(constant))
    if found is None:
        hint = _LITERALS.get("DATE" if kind in TIMES else kind, "")
        raise refuse(constant, f"This literal cannot be compared with {value.type}", hint)
    return found


def _cast_beside(value: Value, constant: Node, scope: Scope) -> tuple[str, str] | None:
    """DATE '2024-01-31' and its like: a literal that says its type."""
    if any(part and key not in {"this", "to"} for key, part in constant.args.items()):
        return None
    kind, string = constant.args["to"].sql(dialect="duckdb").upper(), constant.this.this
    kind = TYPE_ALIASES.get(kind, kind if kind in _FROM_TEXT | {"VARCHAR"} else None)
    if kind == value.type or (kind == "VARCHAR" and family(value.type) == "ENUM"):
        return _string_beside(value, string, scope)
    fits = kind == "DATE" and value.type in _HOLD_DATES and _DATE.fullmatch(string)
    if fits and scope.schema.readable(string, "DATE"):
        return value.sql, f"CAST(CAST({literal(string)} AS DATE) AS {value.type})"
    return None


def _string_beside(value: Value, written: str, scope: Scope) -> tuple[str, str] | None:
    kind = family(value.type)
    if "\0" in written:
        return None
    if kind == "VARCHAR":
        return value.sql, literal(written)
    if kind == "ENUM":
        return f"CAST({value.sql} AS VARCHAR)", literal(written)
    if kind in _FROM_TEXT and scope.schema.readable(written, value.type):
        return value.sql, f"CAST({literal(written)} AS {value.type})"
    return None


def _bare(node: Node) -> Node:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return node


def _number(node: Node) -> Fraction | None:
    inner = _bare(node)
    try:
        is_number = isinstance(inner, exp.Literal) and not inner.is_string
        number = Decimal(inner.this.replace("_", "") if is_number else "nan")
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > 300:
        return None
    return Fraction(number) * (-1 if node.find(exp.Neg) is not None else 1)


def _number_beside(
    value: Value, kind: str, number: Fraction, double: bool
) -> tuple[str, str] | None:
    if kind not in NUMBERS or (kind == "FLOAT" and not double and abs(number) > 10**38):
        return None
    if double or kind in FLOATS:
        # Every number has a nearest DOUBLE, so this cast fails on no row.
        shared = "DOUBLE" if double else kind
        column = value.sql if kind == shared else f"CAST({value.sql} AS DOUBLE)"
        return column, _floating(number, shared, double)
    if kind == "DECIMAL" or number.denominator != 1:
        return _decimal_beside(value, kind, number)
    if _holds(kind, number):
        return value.sql, f"CAST({literal(str(number))} AS {kind})"
    if kind in SMALL and _holds("HUGEINT", number):
        return f"CAST({value.sql} AS HUGEINT)", f"CAST({literal(str(number))} AS HUGEINT)"
    return None


def _holds(kind: str, number: Fraction) -> bool:
    low, high = INTEGER_RANGES[kind]
    return low <= number <= high


def _decimal_beside(value: Value, kind: str, number: Fraction) -> tuple[str, str] | None:
    """Both as decimals with places enough for both, which hold every value of the column."""
    if kind == "DECIMAL":
        digits, has = digits_of(value.type)
        if (number * 10**has).denominator == 1 and abs(number) < 10 ** (digits - has):
            return value.sql, f"CAST({literal(decimal(number, has))} AS {value.type})"
        places = max(has, _places(number))
        fits = digits - has + places <= MOST_DIGITS
    else:
        places, fits = 18, kind in SMALL
    scaled = number * 10**places
    if not fits or scaled.denominator != 1 or abs(scaled) >= 10**MOST_DIGITS:
        return None
    wide = f"DECIMAL({MOST_DIGITS},{places})"
    return f"CAST({value.sql} AS {wide})", f"CAST({literal(decimal(number, places))} AS {wide})"


def _floating(number: Fraction, kind: str, double: bool) -> str:
    """A number as DuckDB brings it to a floating type: by way of the literal's own type."""
    places = _places(number)
    scaled = number * 10**places
    if double or scaled.denominator != 1 or abs(scaled) >= 10**MOST_DIGITS:
        return f"CAST({literal(repr(float(number)))} AS {kind})"
    if places:
        own = f"DECIMAL({max(len(str(abs(scaled.numerator))), places)},{places})"
    else:
        own = next((k for k in ("INTEGER", "BIGINT") if _holds(k, number)), "HUGEINT")
    return f"CAST(CAST({literal(decimal(number, places))} AS {own}) AS {kind})"


def _places(number: Fraction) -> int:
    """How many places behind the point a number needs, as far as decimals go."""
    every = range(MOST_DIGITS + 1)
    return next((n for n in every if (number * 10**n).denominator == 1), MOST_DIGITS + 1)

"""A value beside a literal: in which type are they compared?

By DuckDB's rules for a column beside a constant, and so that nothing can fail. A comparison here
is exact, or it is in the floating type in which DuckDB itself would compare; a literal that fits
neither is refused. Casts of a column are only ever to a type that holds every value of its own.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.literals import interval, is_double, number_of
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import decimal, literal, places_of
from dp_sql.sql.sqlglot_tree import Node, parts_of
from dp_sql.sql.types import (
    BINARY_TYPES,
    INTEGER_RANGES,
    MOST_DIGITS,
    NUMBERS,
    TIMES,
    TYPE_ALIASES,
    UP_TO_64_BITS,
    ZONED,
    digits_of,
    family,
)

_FROM_TEXT = TIMES | {"TIME", "UUID", "INTERVAL", "BLOB"}
_HOLD_DATES = TIMES - {"DATE", "TIMESTAMP_NS"}
_ALSO_FROM = {ZONED: {"TIMESTAMP"}, "TIMESTAMP_NS": {"DATE", "TIMESTAMP"}}  # if a value fits
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LITERALS = {
    **dict.fromkeys(("VARCHAR", "ENUM"), "Write a string in quotes: 'text'."),
    "JSON": "Compare a string: json ->> 'key' = 'text'.",
    "DATE": "Write a date in quotes, year first: '2026-01-31'.",
    "TIMESTAMP": "Write a time without a time zone, year first: '2026-01-31 12:00:00'.",
    "BOOLEAN": "Write TRUE or FALSE.",
    "INTERVAL": "Write an interval: INTERVAL 30 DAY.",
    "BLOB": "Write bytes as a string: 'text', '\\xFF'.",
    **dict.fromkeys(NUMBERS, "Write a number without quotes."),
}


def beside(value: Value, constant: Node, schema: Schema) -> tuple[str, str]:
    """A value and a literal as they are compared: no cast of the value can fail."""
    constant, kind, found = constant.unnest(), family(value.type), None
    match constant:
        case exp.Null():
            found = value.sql, "NULL"
        case exp.Boolean():
            found = (value.sql, "TRUE" if constant.this else "FALSE") if kind == "BOOLEAN" else None
        case exp.Interval(this=exp.Literal(is_string=True, this=str(written)), unit=None):
            found = _string_beside(value, written, schema) if kind == "INTERVAL" else None
        case exp.Interval():
            found = (value.sql, interval(constant)[0]) if kind == "INTERVAL" else None
        case exp.Cast():
            found = _cast_beside(value, constant, schema)
        case exp.Literal(is_string=True):
            found = _string_beside(value, constant.this, schema)
        case _ if (number := number_of(constant)) is not None:
            found = _number_beside(value, kind, number, is_double(constant))
    if found is None:
        day = _DATE.match(constant.name) if kind in TIMES else None
        if day and not schema.readable(day[0], "DATE"):
            raise refuse(constant, f"There is no date {day[0]}")
        hint = _LITERALS.get(kind, _LITERALS["DATE"] if kind in TIMES else "")
        raise refuse(constant, f"This literal cannot be compared with {value.type}", hint)
    return found


def _cast_beside(value: Value, constant: Node, schema: Schema) -> tuple[str, str] | None:
    """DATE '2024-01-31' and its like: a literal that says its type."""
    if parts_of(constant) - {"this", "to"}:
        return None
    kind, string = constant.args["to"].sql(dialect="duckdb").upper(), constant.this.this
    kind = TYPE_ALIASES.get(kind, kind if kind in _FROM_TEXT | {"VARCHAR"} else None)
    if kind == value.type or (kind == "VARCHAR" and family(value.type) == "ENUM"):
        return _string_beside(value, string, schema)
    fits = kind == "DATE" and value.type in _HOLD_DATES and _DATE.fullmatch(string)
    if fits and schema.readable(string, "DATE"):
        return value.sql, f"CAST(CAST({literal(string)} AS DATE) AS {value.type})"
    read = f"CAST(CAST({literal(string)} AS {kind}) AS {value.type})"
    if kind in _ALSO_FROM.get(value.type, ()) and schema.runs(f"{read} IS NULL"):
        return value.sql, read
    return None


def _string_beside(value: Value, written: str, schema: Schema) -> tuple[str, str] | None:
    kind = family(value.type)
    if "\0" in written:
        return None
    if kind == "VARCHAR":
        return value.sql, literal(written)
    if kind == "ENUM":
        return f"CAST({value.sql} AS VARCHAR)", literal(written)
    if kind in _FROM_TEXT and schema.readable(written, value.type):
        return value.sql, f"CAST({literal(written)} AS {value.type})"
    return None


def _number_beside(
    value: Value, kind: str, number: Fraction, double: bool
) -> tuple[str, str] | None:
    if kind not in NUMBERS or (kind == "FLOAT" and not double and abs(number) > 10**38):
        return None
    if double or kind in BINARY_TYPES:
        # Every number has a nearest DOUBLE, so this cast fails on no row.
        shared = "DOUBLE" if double else kind
        column = value.sql if kind == shared else f"CAST({value.sql} AS DOUBLE)"
        return column, _floating(number, shared, double)
    if kind == "DECIMAL" or number.denominator != 1:
        return _decimal_beside(value, kind, number)
    if _holds(kind, number):
        return value.sql, f"CAST({literal(str(number))} AS {kind})"
    if kind in UP_TO_64_BITS and _holds("HUGEINT", number):
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
        places = max(has, places_of(number, MOST_DIGITS))
        fits = digits - has + places <= MOST_DIGITS
    else:
        places, fits = 18, kind in UP_TO_64_BITS
    scaled = number * 10**places
    if not fits or scaled.denominator != 1 or abs(scaled) >= 10**MOST_DIGITS:
        return None
    wide = f"DECIMAL({MOST_DIGITS},{places})"
    return f"CAST({value.sql} AS {wide})", f"CAST({literal(decimal(number, places))} AS {wide})"


def _floating(number: Fraction, kind: str, double: bool) -> str:
    """A number as DuckDB brings it to a floating type: by way of the literal's own type."""
    places = places_of(number, MOST_DIGITS)
    scaled = number * 10**places
    if double or scaled.denominator != 1 or abs(scaled) >= 10**MOST_DIGITS:
        return f"CAST({literal(repr(float(number)))} AS {kind})"
    if places:
        own = f"DECIMAL({max(len(str(abs(scaled.numerator))), places)},{places})"
    else:
        own = next((k for k in ("INTEGER", "BIGINT") if _holds(k, number)), "HUGEINT")
    return f"CAST(CAST({literal(decimal(number, places))} AS {own}) AS {kind})"

"""SQL names, literals and types: how they are written, and which types compare exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

# Types whose equality is exact. Floats are out: 0.1 + 0.2 and 0.3 are two items, NaN is one.
_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
     "UBIGINT", "UHUGEINT"}
)  # fmt: skip
EXACT_TYPES = _INTEGERS | {
    "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE", "UUID", "BOOLEAN", "ENUM", "BLOB", "DECIMAL",
}  # fmt: skip
BINARY_TYPES = frozenset({"FLOAT", "DOUBLE"})
NUMBERS = _INTEGERS | BINARY_TYPES | {"DECIMAL"}


def quote(name: str) -> str:
    """An identifier that SQL reads back as exactly this name.

    >>> print(quote('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | bool | int | Fraction) -> str:
    """A value as SQL reads it back exactly.

    Raises:
        ValueError: a fraction that no finite decimal is.

    >>> print(literal("it's"), literal(True), literal(-3), literal(Fraction(-5, 4)))
    'it''s' TRUE -3 -1.25
    """
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
        if places > value.denominator.bit_length():
            raise ValueError("This fraction has no finite decimal text.")
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    point = len(digits) - places
    text = digits[:point] + ("." + digits[point:] if places else "")
    return f"-{text}" if value < 0 else text


def full_name(parts: Sequence[str]) -> str:
    """A relation's or column's name of several parts, as SQL.

    >>> print(full_name(("shop", "main", "my table")))
    "shop"."main"."my table"
    """
    return ".".join(quote(part) for part in parts)


def family(type_name: str) -> str:
    """The type without its parameters: DECIMAL(18,2) → DECIMAL; lists and structs stay."""
    if type_name.endswith("]"):
        return type_name
    return type_name.split("(", 1)[0].strip()


def by_value(expression: str, type_name: str) -> str:
    """The expression to order by: by values, and not by the order in which an ENUM was declared.

    An ENUM may have been made from data, and a dataframe's categories stand in the order of rows.
    """
    if family(type_name) == "ENUM":
        expression, type_name = f"CAST({expression} AS VARCHAR)", "VARCHAR"
    return f"{exact(expression, type_name)} ASC NULLS LAST"


def exact(expression: str, type_name: str) -> str:
    """The expression compared byte by byte: text without regard to any collation."""
    return f'({expression}) COLLATE "binary"' if family(type_name) == "VARCHAR" else expression

"""Spark's types as DuckDB's, and strings as DuckDB can read them."""

from __future__ import annotations

from typing import Any

from dp_sql.sql.formatting import quote

# By the names of pyspark's classes, so that pyspark need not be imported.
_TYPES = {
    "StringType": "VARCHAR", "BooleanType": "BOOLEAN", "ByteType": "TINYINT",
    "ShortType": "SMALLINT",
    "IntegerType": "INTEGER", "LongType": "BIGINT", "FloatType": "FLOAT", "DoubleType": "DOUBLE",
    "CharType": "VARCHAR", "VarcharType": "VARCHAR", "BinaryType": "BLOB", "DateType": "DATE",
    "TimestampType": "TIMESTAMP WITH TIME ZONE", "TimestampNTZType": "TIMESTAMP",
    "TimeType": "TIME", "NullType": "INTEGER",
}  # fmt: skip
_STRINGS = {"StringType", "CharType", "VarcharType"}
_BYTES = "UTF8_BINARY"  # the collation of Spark that compares bytes, as DuckDB does


def duckdb_type(kind: Any) -> str | None:
    """The DuckDB type that holds each value of a type of Spark; None where there is none.

    Collated strings have none: DuckDB would tell values apart that Spark takes for equal. Nor have
    maps whose keys are made of strings and more.
    """
    name, inner = type(kind).__name__, list(map(duckdb_type, _inner(kind)))
    if None in inner or (name in _STRINGS and getattr(kind, "collation", _BYTES) != _BYTES):
        return None
    if name == "DecimalType":
        return f"DECIMAL({kind.precision},{kind.scale})"
    if name == "ArrayType":
        return f"{inner[0]}[]"
    if name == "MapType":
        is_simple = type(kind.keyType).__name__ in _STRINGS or not _has_strings(kind.keyType)
        return f"MAP({inner[0]}, {inner[1]})" if is_simple else None
    if name == "StructType":
        named = zip(kind.fields, inner, strict=True)
        fields = ", ".join(f"{quote(field.name)} {of}" for field, of in named)
        return f"STRUCT({fields})" if fields else None
    return _TYPES.get(name)


def backquoted(name: str) -> str:
    """An identifier as Spark's SQL.

    >>> print(backquoted("a`b"))
    `a``b`
    """
    return f"`{name.replace('`', '``')}`"


def readable(sql: str, kind: Any, depth: int = 0) -> str:
    """An expression of Spark with the same values, whose strings are UTF-8.

    Spark takes any bytes for a string. On bytes that are no UTF-8 DuckDB fails, so one person's row
    could fail every question; they become U+FFFD here, and entries of maps with such keys are left
    out.
    """
    name = type(kind).__name__
    if name in _STRINGS:
        return f"make_valid_utf8({sql})"
    if not _has_strings(kind):
        return sql
    key, one = f"k{depth}", f"v{depth}"
    if name == "ArrayType":
        return f"transform({sql}, {one} -> {readable(one, kind.elementType, depth + 1)})"
    if name == "MapType":
        if type(kind.keyType).__name__ in _STRINGS:
            sql = f"map_filter({sql}, ({key}, {one}) -> is_valid_utf8({key}))"
        value = readable(one, kind.valueType, depth + 1)
        return f"transform_values({sql}, ({key}, {one}) -> {value})"
    listed = [
        (f"'{_escaped(field.name)}'", f"{sql}.{backquoted(field.name)}", field.dataType)
        for field in kind.fields
    ]
    fields = ", ".join(f"{name}, {readable(of, kind, depth)}" for name, of, kind in listed)
    return f"if({sql} IS NULL, NULL, named_struct({fields}))"


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


def _has_strings(kind: Any) -> bool:
    return type(kind).__name__ in _STRINGS or any(map(_has_strings, _inner(kind)))


def _inner(kind: Any) -> list[Any]:
    """The types that a type is made of."""
    name = type(kind).__name__
    if name == "ArrayType":
        return [kind.elementType]
    if name == "MapType":
        return [kind.keyType, kind.valueType]
    return [field.dataType for field in kind.fields] if name == "StructType" else []

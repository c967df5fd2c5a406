"""Lists and maps as functions read them: NULL where they are too large, and of known types only."""

import re

from dp_sql.privacy.expressions.value import MAX_TEXT_BYTES, Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import BINARY_TYPES, UP_TO_64_BITS, family

_ELEMENTS = {
    "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL", "STRUCT", *BINARY_TYPES, *UP_TO_64_BITS
}  # fmt: skip


_ARRAY = re.compile(r"(.*)\[\d+\]", re.ASCII)  # of a fixed length
_OF_LISTS = re.compile(r"(\[\d*\])+\Z", re.ASCII)


def as_list(value: Value) -> Value:
    """An array as a list; other values as they are."""
    if found := _ARRAY.fullmatch(value.type):
        listed = f"{found[1]}[]"
        return value.computed(f"CAST({value.sql} AS {listed})")._replace(type=listed)
    return value


def bounded_list(name: str, value: Value, node: Node, *, compared: bool = True) -> Value:
    """A list as functions read it: NULL where it is too long.

    compared: whether its elements are, so that equal ones must be the same.
    """
    value = as_list(value)
    kind = value.type.removesuffix("[]")
    kinds, shown = {"VARCHAR", *UP_TO_64_BITS}, "strings or of integers"
    if not compared:
        kinds, shown = _ELEMENTS, "strings, numbers, dates, booleans or structs"
    inner = kind if compared else _OF_LISTS.sub("", kind)
    if kind == value.type or family(inner) not in kinds:
        raise refuse(node, f"{name} takes a list of {shown} here, not {value.type}")
    fits = f"system.main.len({value.sql}) <= {MAX_TEXT_BYTES}"
    return value.computed(f"(CASE WHEN {fits} THEN {value.sql} END)")


def bounded_map(name: str, value: Value, node: Node) -> Value:
    """A map as functions read it: NULL where it has too many keys."""
    if not key_type(value.type):
        raise refuse(node, f"{name} takes a map here, not {value.type}")
    fits = f"system.main.cardinality({value.sql}) <= {MAX_TEXT_BYTES}"
    return value.computed(f"(CASE WHEN {fits} THEN {value.sql} END)")


def key_type(kind: str) -> str:
    """The type of a map's keys, if it is a simple one; "" of what is no map.

    >>> key_type("MAP(VARCHAR, INTEGER)"), key_type("MAP(VARCHAR, INTEGER)[]")
    ('VARCHAR', '')
    """
    is_map = kind.startswith("MAP(") and not kind.endswith("]")
    return kind.removeprefix("MAP(").partition(", ")[0] if is_map else ""

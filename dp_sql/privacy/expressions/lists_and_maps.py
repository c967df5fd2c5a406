"""Lists and maps as functions read them: NULL where they are too large, and of known types only."""

import re

from dp_sql.privacy.expressions.value import MAX_TEXT_BYTES, Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import BINARY_TYPES, UP_TO_64_BITS, digits_of, family

_ORDERED = {"VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL", *BINARY_TYPES, *UP_TO_64_BITS}
# What the elements of a list may be, as functions read it, and how messages call them.
_KINDS = {
    "list": ({"VARCHAR", *UP_TO_64_BITS}, "strings or of integers"),
    "values": (_ORDERED, "strings, numbers, dates or booleans"),
    "numbers": ({"DECIMAL", *BINARY_TYPES, *UP_TO_64_BITS}, "numbers"),
    "elements": ({*_ORDERED, "STRUCT"}, "strings, numbers, dates, booleans or structs"),
}
_MOST_DIGITS = 18  # of decimals that are added up: 10,000 of them have 4 digits more


_ARRAY = re.compile(r"(.*)\[\d+\]", re.ASCII)  # of a fixed length
_OF_LISTS = re.compile(r"(\[\d*\])+\Z", re.ASCII)


def as_list(value: Value) -> Value:
    """An array as a list; other values as they are."""
    if found := _ARRAY.fullmatch(value.type):
        listed = f"{found[1]}[]"
        return value.computed(f"CAST({value.sql} AS {listed})")._replace(type=listed)
    return value


def bounded_list(name: str, value: Value, node: Node, of: str = "list") -> Value:
    """A list as functions read it: NULL where it is too long.

    of: what its elements may be; those of a "list" are compared, so equal ones must be the same.
    """
    value = as_list(value)
    kind, (kinds, shown) = value.type.removesuffix("[]"), _KINDS[of]
    inner = _OF_LISTS.sub("", kind) if of == "elements" else kind
    too_wide = of == "numbers" and kind.startswith("DECIMAL") and digits_of(kind)[0] > _MOST_DIGITS
    if kind == value.type or family(inner) not in kinds or too_wide:
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

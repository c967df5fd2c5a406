"""Numbers that are added up for each person, as integers: nothing is rounded, nothing overflows."""

from __future__ import annotations

import re

from dp_sql.sql.types import family

AMOUNT_TYPES = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
     "UBIGINT", "DECIMAL"}
)  # fmt: skip
_DIGITS = 21  # rows of wider types are clamped to 10**21 units
_LARGEST = 1 << 70  # a person's net sum is clamped to this many units
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


def scale_of(kind: str) -> int:
    """Count the digits after the point of an amount's type; a unit is the last of them.

    >>> scale_of("BIGINT"), scale_of("DECIMAL(18,2)")
    (0, 2)
    """
    found = _DECIMAL.fullmatch(kind)
    return int(found[2]) if found else 0


def net_sum(kind: str) -> str:
    """Write the aggregate over `__dp_item` that is a person's net sum: HUGEINT, in units."""
    item, scale = "__dp_item", scale_of(kind)
    found = _DECIMAL.fullmatch(kind)
    if family(kind) == "HUGEINT" or (found and int(found[1]) > _DIGITS):
        whole, point = str(10**_DIGITS).rjust(scale + 1, "0"), -scale or None
        item = _clamped(item, f"{whole[:point]}.{whole[point:] if scale else '0'}", kind)
    total = f"system.main.sum({item})"
    if scale:  # -0.05 → -005
        total = f"system.main.replace(CAST({total} AS VARCHAR), '.', '')"
    return _clamped(f"CAST({total} AS HUGEINT)", str(_LARGEST), "HUGEINT")


def _clamped(sql: str, most: str, kind: str) -> str:
    low, high = (f"CAST('{sign}{most}' AS {kind})" for sign in ("-", ""))
    return f"system.main.least(system.main.greatest({sql}, {low}), {high})"


def bucket(sql: str) -> str:
    """Write the bucket of an integer >= 1: 0 for 1, 1 for 2, 2 for 3 and 4, …."""
    # bin writes a number without leading zeros.
    return f"(CASE WHEN {sql} = 1 THEN 0 ELSE system.main.length(system.main.bin({sql} - 1)) END)"

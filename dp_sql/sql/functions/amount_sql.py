"""Amounts as SQL: exact sums of integers and decimals, in units of the last digit, and buckets."""

from dp_sql.sql.types import INTEGERS, digits_of, family

AMOUNT_TYPES = INTEGERS - {"UHUGEINT"} | {"DECIMAL"}
_DIGITS = 21  # rows of wider types are clamped to 10**21 units
LARGEST_SUM = str(1 << 70)  # a person's net sum is clamped to this many units


def scale_of(kind: str) -> int:
    """Count the digits after the point of an amount's type; a unit is the last of them."""
    return digits_of(kind)[1]


def units(sql: str, kind: str) -> str:
    """Write a number of a type as an integer: exact, as a cast of its digits is."""
    if "DECIMAL" not in kind:
        return sql
    return f"CAST(system.main.replace(CAST({sql} AS VARCHAR), '.', '') AS HUGEINT)"  # -0.05 → -005


def net_sum(kind: str) -> str:
    """Write the aggregate over `__dp_item` that is a person's net sum: HUGEINT, in units."""
    item, (digits, scale) = "__dp_item", digits_of(kind)
    if family(kind) == "HUGEINT" or digits > _DIGITS:
        whole, point = str(10**_DIGITS).rjust(scale + 1, "0"), -scale or None
        item = clamped(item, f"{whole[:point]}.{whole[point:] if scale else '0'}", kind)
    total = units(f"system.main.sum({item})", kind)
    return clamped(f"CAST({total} AS HUGEINT)", LARGEST_SUM)


def clamped(sql: str, most: str, kind: str = "HUGEINT") -> str:
    """Write a number of a type, or the nearest of -most and most."""
    low, high = (f"CAST('{sign}{most}' AS {kind})" for sign in ("-", ""))
    return f"system.main.least(system.main.greatest({sql}, {low}), {high})"


def bucket(sql: str) -> str:
    """Write the bucket of an integer >= 1: 0 for 1, 1 for 2, 2 for 3 and 4, …."""
    # bin writes a number without leading zeros.
    return f"(CASE WHEN {sql} = 1 THEN 0 ELSE system.main.length(system.main.bin({sql} - 1)) END)"

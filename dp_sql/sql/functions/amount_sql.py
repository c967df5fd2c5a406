"""Amounts as SQL: exact sums of integers and decimals, in units of the last digit, and buckets."""

from fractions import Fraction

from dp_sql.sql.formatting import decimal
from dp_sql.sql.types import FIT_HUGEINT, digits_of, family

AMOUNT_TYPES = FIT_HUGEINT | {"DECIMAL"}
_FAST_SCALE = 8  # decimals of which 18 digits can hold twice as many
_DIGITS = 21  # rows of wider types are clamped to 10**21 units
LARGEST_SUM = str(1 << 70)  # a person's net sum is clamped to this many units


def scale_of(kind: str) -> int:
    """Count the digits after the point of an amount's type; a unit is the last of them."""
    return digits_of(kind)[1]


def units(sql: str, kind: str) -> str:
    """Write a number of a type as an integer: exact, as a cast of its digits is."""
    if "DECIMAL" not in kind:
        return sql
    exact = f"CAST(system.main.replace(CAST({sql} AS VARCHAR), '.', '') AS HUGEINT)"  # -0.05 → -005
    scale = scale_of(kind)
    if scale > _FAST_SCALE:
        return exact
    # Most numbers fit 18 digits after the product, which DuckDB computes as a BIGINT.
    narrow = f"TRY_CAST({sql} AS DECIMAL({17 - scale}, {scale}))"
    product = f"{narrow} * CAST({10**scale} AS DECIMAL({scale + 1}, 0))"
    return f"coalesce(CAST(CAST({product} AS BIGINT) AS HUGEINT), {exact})"


def net_sum(kind: str) -> str:
    """Write the aggregate over `__dp_item` that is a person's net sum: HUGEINT, in units."""
    item = "__dp_item"
    if family(kind) == "HUGEINT" or digits_of(kind)[0] > _DIGITS:
        item = clamped(item, constant(10**_DIGITS, kind), kind)
    total = units(f"system.main.sum({item})", kind)
    return clamped(f"CAST({total} AS HUGEINT)", LARGEST_SUM)


def constant(n_units: int, kind: str) -> str:
    """Write a number of units in a type's own unit.

    >>> constant(1234, "DECIMAL(18,2)")
    '12.34'
    """
    if "DECIMAL" not in kind:
        return str(n_units)
    scale = scale_of(kind)
    return decimal(Fraction(n_units, 10**scale), scale)


def clamped(sql: str, most: str, kind: str = "HUGEINT") -> str:
    """Write a number of a type, or the nearest of -most and most."""
    low, high = (f"CAST('{sign}{most}' AS {kind})" for sign in ("-", ""))
    return f"system.main.least(system.main.greatest({sql}, {low}), {high})"


def bucket(sql: str) -> str:
    """Write the bucket of an integer >= 1: 0 for 1, 1 for 2, 2 for 3 and 4, …."""
    # bin writes a number without leading zeros.
    digits = f'system.main.bin(system.main."-"({sql}, 1))'
    return f"(CASE WHEN {sql} = 1 THEN 0 ELSE system.main.length({digits}) END)"


def by_bucket(keys: str, relation: str, own: str, n: str) -> str:
    """The people in each bucket of their `own` number, by keys, and the total of their `n`.

    People with equal numbers are counted first, because a bucket is slow to compute.
    """
    sizes = (
        f"SELECT {keys}{own} AS own, system.main.count(*) AS people, system.main.sum({n}) AS total "
        f"FROM {relation} GROUP BY {keys}{own}"
    )
    return (
        f"SELECT {keys}{bucket('own')} AS bucket, "
        "CAST(system.main.sum(people) AS BIGINT) AS people, "
        f"CAST(system.main.sum(total) AS HUGEINT) AS total FROM ({sizes}) AS sizes "
        f"GROUP BY {keys}bucket"
    )

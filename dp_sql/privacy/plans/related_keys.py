"""Which combinations of keys are possible that are computed from one value? From public data alone.

dayname(day) and isodow(day) have 7 pairs, not 49. Pure: SQL in, SQL out.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.plan import Column
from dp_sql.sql.formatting import literal
from dp_sql.sql.types import exact, in_type, writable

# The calendar repeats after 400 years, which are whole weeks.
_CALENDAR = (
    "(SELECT CAST('2000-01-01' AS DATE) + CAST(i AS INTEGER) AS d "
    "FROM system.main.range(146097) AS t(i)) AS calendar"
)


class Related(NamedTuple):
    """Keys by their places in GROUP BY, and SQL of their combinations as c0, c1, and so on."""

    places: Sequence[int]
    select: str


def alike(keys: Sequence[Value], read: Callable[[Value], Hashable]) -> list[list[int]]:
    """The places of keys that read the same; `read` is falsy for those that are left out."""
    found: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        if of := read(key):
            found.setdefault(of, []).append(place)
    return [places for places in found.values() if len(places) > 1]


def of_days(keys: Sequence[Value], places: Sequence[int]) -> Related:
    """Parts of one date, as any day has them."""
    named = [keys[place].day_part[0] for place in places]
    parts = (
        f"system.main.{name}(d)" if name.endswith("name")
        else f"system.main.date_part({literal(name)}, d)"
        for name in named
    )  # fmt: skip
    columns = ", ".join(f"{part} AS c{i}" for i, part in enumerate(parts))
    return Related(places, f"SELECT {columns} FROM {_CALENDAR}")


def combined(keys: Sequence[Column], related: Related) -> str:
    """SQL of the combinations, each once and without NULL, named as keys: __dp_key_0."""
    kinds = [keys[place].type for place in related.places]
    casts = [f"CAST(c{i} AS {kind})" for i, kind in enumerate(kinds)]
    named = (
        f"{exact(cast, kind)} AS __dp_key_{place}"
        for cast, kind, place in zip(casts, kinds, related.places, strict=True)
    )
    there = " AND ".join(
        f"{writable(in_type(cast, kind), kind)} IS NOT NULL"
        for cast, kind in zip(casts, kinds, strict=True)
    )
    listed = f"({related.select}) AS __dp_query"
    return f"SELECT DISTINCT {', '.join(named)} FROM {listed} WHERE {there}"


def crossed(factors: Sequence[str], combinations: Sequence[tuple[Related, str]] = ()) -> str:
    """SQL of each value of one key with each value of the others; `factors` list them as `item`.

    combinations: those of related keys, in place of each with each.
    """
    of_related = {place for related, _ in combinations for place in related.places}
    listed = [select for _, select in combinations] + [
        f"SELECT item AS __dp_key_{i} FROM ({factor}) AS listed"
        for i, factor in enumerate(factors)
        if i not in of_related
    ]
    names = ", ".join(f"__dp_key_{i}" for i in range(len(factors))) if combinations else "*"
    crossing = " CROSS JOIN ".join(f"({one}) AS __dp_g{i}" for i, one in enumerate(listed))
    return f"SELECT {names} FROM {crossing}"

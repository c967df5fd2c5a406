"""A compiled expression: its SQL, its type, and how long or far away it can be."""

from __future__ import annotations

from typing import NamedTuple

from dp_sql.sql.types import TIMES, family

MAX_TEXT_BYTES = 10_000  # of a string that functions read; they read a longer one as NULL
MAX_STRING = 200_000  # of a string that is computed
NEAR = ("100000-01-01 (BC)", "100000-01-01")  # they read a date beyond these as NULL
_NEAR_YEARS = 100_000


class Value(NamedTuple):
    """A compiled expression: its SQL and its type.

    origin: the column of a base table that it is, unchanged: the table's full name, and its own.
        For an analyst's VALUES: "VALUES" with the literals of the column, and no name.
    is_person: whether it is the privacy unit of its row. is_own: whether it is that or NULL, as
        behind a LEFT JOIN: in all rows of a person it has one value at most, and no one else's.
    collation: how its strings are compared, as collations.py names it.
    bound: of a string, the most bytes that it can have; of a date, how many years it can be from
        the year 0; of an interval, the same of the dates between which it lies. None: not known.
    literal: the SQL of a literal whose type depends on what is beside it.
    is_unnested: whether it is a list of which each element becomes a row.
    image: of an item or key that is computed from one column alone: that column, and the SQL over
        its values in a column `item`.
    own_values: of an item or key, literals of all values that it can have, if its form alone says
        so, as that of month(day).
    day_part: of a part of a date that has such values, its name and the SQL of the date; or ().
    ends: the least and the largest value of an integer, if its form tells more than its type.
    is_of_one: whether it is the same in all rows of a person, or NULL.
    facts_of: the SQL that these five are facts of; what is computed from it has other SQL, and
        none of them. They choose groups and types; SQL stays total without them (TRY_CAST).
    """

    sql: str
    type: str
    origin: tuple[tuple[str, ...], str] | None = None
    is_person: bool = False
    is_own: bool = False
    collation: str = ""
    is_unnested: bool = False
    bound: int | None = None
    literal: str = ""
    image: tuple[Value, str] | None = None
    own_values: tuple[str, ...] = ()
    day_part: tuple[str, ...] = ()
    ends: tuple[int, int] | None = None
    is_of_one: bool = False
    facts_of: str = ""

    def column(self, number: int, index: int) -> Value:
        """The value as column `index` of relation `number` of a FROM clause."""
        sql, image, part = f"r{number}c{index}", self.image, self.day_part
        if not self.has_facts:
            return self.without_facts()._replace(sql=sql)
        # What it reads is a column of another FROM clause.
        if image is not None:
            image = image[0]._replace(sql=f"r{number}.{image[0].sql}"), image[1]
        part = part and (part[0], f"r{number}.{part[1]}")
        return self._replace(sql=sql, image=image, day_part=part, facts_of=sql)

    def computed(self, sql: str) -> Value:
        """Another value of the same type: no column, and not the privacy unit."""
        return self._replace(sql=sql, origin=None, is_person=False, is_own=False)

    @property
    def is_of_person(self) -> bool:
        """Whether it can only be the privacy unit of its row, or NULL."""
        return self.is_person or self.is_own

    @property
    def has_facts(self) -> bool:
        """Whether `image`, `own_values`, `day_part`, `ends` and `is_of_one` are facts of it."""
        return bool(self.sql) and self.facts_of == self.sql

    def without_facts(self) -> Value:
        """The value without what is known of the values that it can have."""
        return self._replace(
            image=None, own_values=(), day_part=(), ends=None, is_of_one=False, facts_of=""
        )

    @property
    def stand_in(self) -> str:
        """What replaces it where the engine is asked for a type; it must not be a constant."""
        return self.literal or f"(SELECT CAST(NULL AS {self.type}))"

    @property
    def row_literals(self) -> tuple[str, ...]:
        """The literals of a column of VALUES; () of another column."""
        return self.origin[0][1:] if self.origin and not self.origin[1] else ()

    @property
    def is_null(self) -> bool:
        """Whether it is a column of NULLs that the statement writes out: one of any type."""
        return self.origin == NULL.origin

    @property
    def origin_name(self) -> str | None:
        """The name of the column that it is."""
        return None if self.origin is None else self.origin[1]


NULL = Value("CAST(NULL AS INTEGER)", "INTEGER", (("VALUES",), ""))


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
    return value.computed(f"(CASE WHEN {fits} THEN {sql} END)")._replace(bound=most)

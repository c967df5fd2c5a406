"""PEP 249's type objects and constructors; a type code is the name of DuckDB's type."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from time import localtime


@dataclass(frozen=True)
class TypeObject:
    """Equal to each type code of its kind."""

    names: frozenset[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.names == other.names
        return isinstance(other, str) and other.split("(")[0] in self.names

    def __hash__(self) -> int:
        return hash(self.names)


def _kind(names: str) -> TypeObject:
    return TypeObject(frozenset(names.split(", ")))


STRING = _kind("VARCHAR, ENUM, UUID, JSON, BIT")
BINARY = _kind("BLOB")
NUMBER = _kind(
    "TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, UTINYINT, USMALLINT, UINTEGER, UBIGINT, "
    "UHUGEINT, BIGNUM, FLOAT, DOUBLE, DECIMAL, BOOLEAN"
)
DATETIME = _kind(
    "DATE, TIME, TIME_NS, TIME WITH TIME ZONE, TIMESTAMP, TIMESTAMP_S, TIMESTAMP_MS, "
    "TIMESTAMP_NS, TIMESTAMP WITH TIME ZONE, INTERVAL"
)
ROWID = TypeObject(frozenset())

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of a time in seconds since the epoch."""
    return Date(*localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of a time in seconds since the epoch."""
    return Time(*localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time of a time in seconds since the epoch."""
    return Timestamp(*localtime(ticks)[:6])

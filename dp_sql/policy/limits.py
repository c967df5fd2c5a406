"""What may one query ask at most? The limits of a policy, their ranges, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_sql.policy.parser import Document
from dp_sql.sql import ranges


@dataclass(frozen=True)
class WorkLimits:
    """How much work one person's rows may cause.

    rows_per_person: the most rows of one person on each side of a join that multiplies rows.
    joined_rows_per_person: the most rows that such joins may make of them.
    """

    rows_per_person: int
    joined_rows_per_person: int


@dataclass(frozen=True)
class Limits:
    """What one query may ask; None where the policy sets no limit of its own.

    Without max_delta_per_query, as with 0, no delta is allowed: pure epsilon-DP only.

    max_rows_per_person, max_joined_rows_per_person: how much work the rows of one person may cause;
        see WorkLimits. They have defaults.

    memory_limit, temp_directory, max_temp_directory_size and threads are DuckDB's settings for the
    queries that read private rows; public_memory_limit is for the rest of an analyst's statement.
    """

    max_epsilon_per_query: Fraction | None = None
    max_delta_per_query: Fraction | None = None
    max_k: int | None = None
    max_contributions: int | None = None
    deadline_seconds: Fraction | None = None
    max_rows_per_person: int = 1_000
    max_joined_rows_per_person: int = 1_000_000
    memory_limit: str | None = None
    public_memory_limit: str | None = None
    temp_directory: Path | None = None
    max_temp_directory_size: str | None = None
    threads: int | None = None

    @property
    def work(self) -> WorkLimits:
        """How much work the rows of one person may cause."""
        return WorkLimits(self.max_rows_per_person, self.max_joined_rows_per_person)


LIMITS: Mapping[str, tuple[bool, Fraction, Fraction]] = {
    "max_epsilon_per_query": (False, ranges.MIN_EPSILON, ranges.MAX_EPSILON),
    "max_delta_per_query": (False, Fraction(0), ranges.MAX_DELTA),
    "max_k": (True, Fraction(1), Fraction(ranges.MAX_K)),
    "max_contributions": (True, Fraction(1), Fraction(ranges.MAX_CONTRIBUTIONS)),
    "deadline_seconds": (False, Fraction(1, 100), Fraction(86400)),
    "max_rows_per_person": (True, Fraction(1), Fraction(10**6)),
    "max_joined_rows_per_person": (True, Fraction(1), Fraction(10**8)),
    "threads": (True, Fraction(1), Fraction(1024)),
}
"""The limits: whether they are whole numbers, and from where to where."""


SIZES = ("memory_limit", "public_memory_limit", "max_temp_directory_size")
"""Limits that are sizes, as DuckDB writes them."""

_SIZE = re.compile(r"(\d{1,12})(\.\d{1,6})? ?([kmgt])(i?)b", re.IGNORECASE | re.ASCII)
_SMALLEST = 10**7  # DuckDB itself needs a few megabytes


def read_limits(document: Document, file: Path) -> Limits:
    """The limits of a policy's text.

    Args:
        document: the text.
        file: its path; relative paths begin at its folder.
    """
    section = document.section("limits")
    known = (*LIMITS, *SIZES, "temp_directory", "unique_per_person")
    document.only(section, ("limits",), known)
    values: dict[str, Any] = {
        key: _limit(document, key, section[key]) for key in LIMITS if key in section
    }
    values |= {key: _size(document, key, section[key]) for key in SIZES if key in section}
    if "temp_directory" in section:
        values["temp_directory"] = _directory(document, section["temp_directory"], file)
    return Limits(**values)


def size_in_bytes(text: str) -> int:
    """What a size means, as DuckDB reads it.

    >>> size_in_bytes("1.5 GB"), size_in_bytes("64MiB")
    (1500000000, 67108864)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    unit = (1024 if found[4] else 1000) ** ("kmgt".index(found[3].lower()) + 1)
    return int(Fraction(found[1] + (found[2] or "")) * unit)


def _size(document: Document, key: str, value: Any) -> str:
    if isinstance(value, str) and _SIZE.fullmatch(value) and size_in_bytes(value) >= _SMALLEST:
        return value
    raise document.refuse(
        ("limits", key), f'{key} must be a size of at least 10 MB, such as "4GB".'
    )


def _directory(document: Document, value: Any, file: Path) -> Path:
    if isinstance(value, str) and value and "\0" not in value:
        return file.parent / value
    raise document.refuse(
        ("limits", "temp_directory"),
        'temp_directory must be the path of a folder, such as "spill".',
    )


def _limit(document: Document, key: str, value: Any) -> int | Fraction:
    whole, low, high = LIMITS[key]
    number = isinstance(value, int | Fraction) and not isinstance(value, bool)
    if number and low <= value <= high and (value.denominator == 1 or not whole):
        return int(value) if whole else Fraction(value)
    kind = "a whole number" if whole else "a number"
    raise document.refuse(
        ("limits", key), f"{key} must be {kind} from {float(low):g} to {float(high):g}."
    )

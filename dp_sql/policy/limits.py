"""What one query may ask at most: the [limits] of a policy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from dp_sql.policy.keys import Key, Kind, number, read, string
from dp_sql.policy.parser import Document
from dp_sql.sql import functions

_WRITTEN_SIZE = re.compile(r"(\d{1,12})(\.\d{1,6})? ?([kmgt])(i?)b", re.IGNORECASE | re.ASCII)
_SMALLEST = 10**7  # DuckDB itself needs a few megabytes


def size_in_bytes(text: str) -> int:
    """The bytes of a size, as DuckDB reads it.

    >>> size_in_bytes("1.5 GB"), size_in_bytes("64MiB")
    (1500000000, 67108864)
    """
    found = _WRITTEN_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    unit = (1024 if found[4] else 1000) ** ("kmgt".index(found[3].lower()) + 1)
    return int(Fraction(found[1] + (found[2] or "")) * unit)


@dataclass(frozen=True)
class WorkLimits:
    """How much work one person's rows may cause.

    rows_per_person: the most rows of one person on each side of a join that multiplies rows.
    joined_rows_per_person: the most rows that such joins may make of them.
    """

    rows_per_person: int
    joined_rows_per_person: int


_SIZE = string(
    'a size of at least 10 MB, such as "4GB"',
    lambda text: _WRITTEN_SIZE.fullmatch(text) and size_in_bytes(text) >= _SMALLEST,
)
_FOLDER = Kind(
    'the path of a folder, such as "spill"',
    lambda value: Path(value) if isinstance(value, str) and value and "\0" not in value else None,
)


def _whole(high: int) -> Kind:
    return number(1, high, whole=True)


@dataclass(frozen=True)
class Limits:
    """What one query may ask; None where the policy sets no limit.

    The exception is delta: without max_delta_per_query, as with 0, none may be used.
    """

    max_epsilon_per_query: Annotated[
        Fraction | None,
        Key(number(functions.MIN_EPSILON, functions.MAX_EPSILON), "the privacy loss", "1"),
    ] = None
    max_delta_per_query: Annotated[
        Fraction | None,
        Key(number(0, functions.MAX_DELTA), "the probability that the promise fails", "1e-9"),
    ] = None
    max_k: Annotated[int | None, Key(_whole(functions.MAX_K), "the length of a list", "1000")] = (
        None
    )
    max_contributions: Annotated[
        int | None,
        Key(
            _whole(functions.MAX_CONTRIBUTIONS),
            "the contribution bound of a distinct count",
            "1000",
        ),
    ] = None
    deadline_seconds: Annotated[
        Fraction | None,
        Key(
            number(Fraction(1, 100), 86400),
            "answers wait for this time, so that timing shows nothing",
            "5",
        ),
    ] = None
    max_rows_per_person: Annotated[
        int, Key(_whole(10**6), "rows of one person in a join that multiplies rows", "1000")
    ] = 1_000
    max_joined_rows_per_person: Annotated[
        int, Key(_whole(10**8), "rows that such joins may make of them", "1000000")
    ] = 1_000_000
    memory_limit: Annotated[
        str | None, Key(_SIZE, "memory of the queries that read private rows", '"4GB"')
    ] = None
    public_memory_limit: Annotated[
        str | None, Key(_SIZE, "memory of the rest of a statement; it never spills", '"1GB"')
    ] = None
    temp_directory: Annotated[
        Path | None, Key(_FOLDER, "where private queries spill to disk", '"spill"')
    ] = None
    max_temp_directory_size: Annotated[
        str | None, Key(_SIZE, "how much they may spill", '"10GB"')
    ] = None
    threads: Annotated[int | None, Key(_whole(1024), "threads of the private queries", "4")] = None

    @property
    def work(self) -> WorkLimits:
        """How much work the rows of one person may cause."""
        return WorkLimits(self.max_rows_per_person, self.max_joined_rows_per_person)


def read_limits(document: Document, file: Path) -> Limits:
    """The limits of a policy; a relative path begins at the folder of `file`."""
    section = {k: v for k, v in document.section("limits").items() if k != "unique_per_person"}
    limits = read(document, ("limits",), Limits, section)
    if limits.temp_directory is not None:
        limits = replace(limits, temp_directory=file.parent / limits.temp_directory)
    return limits

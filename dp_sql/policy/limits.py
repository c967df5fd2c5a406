"""What one query may ask at most: the [limits] of a policy."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from dp_sql.policy.parser import Document, ValueKind, key, number, read, string
from dp_sql.sql import ranges
from dp_sql.sql.sizes import size_in_bytes


@dataclass(frozen=True)
class WorkLimits:
    """How many rows of a person enter each side of a join that multiplies, and may leave it."""

    rows_per_person: int
    joined_rows_per_person: int


def _is_enough(size: str) -> bool:
    """Whether DuckDB works with this much memory; it needs a few megabytes itself."""
    try:
        return size_in_bytes(size) >= 10**7
    except ValueError:
        return False


_SIZE = string('a size of at least 10 MB, such as "4GB"', _is_enough)
_FOLDER = ValueKind('the path of a folder, such as "spill"', lambda value: Path(value)
               if isinstance(value, str) and value and "\0" not in value else None)  # fmt: skip
_EPSILON, _DELTA = number(ranges.MIN_EPSILON, ranges.MAX_EPSILON), number(0, ranges.MAX_DELTA)
_SECONDS = number(Fraction(1, 100), 86400)
_ROWS, _JOINED, _THREADS, _K, _CONTRIBUTIONS = (
    number(1, most, whole=True)
    for most in (10**6, 10**8, 1024, ranges.MAX_K, ranges.MAX_CONTRIBUTIONS)
)


@dataclass(frozen=True)
class Limits:
    """What one query may ask; None where the policy sets no limit.

    The exception is delta: without max_delta_per_query, as with 0, none may be used.
    """

    # fmt: off
    max_epsilon_per_query: Fraction | None = key(_EPSILON, "the privacy loss", "1")
    max_delta_per_query: Fraction | None = key(
        _DELTA, "the probability that the guarantee fails", "1e-9")
    max_k: int | None = key(_K, "the length of a list", "1000")
    max_contributions: int | None = key(
        _CONTRIBUTIONS, "the contribution bound of counts and means", "1000")
    deadline_seconds: Fraction | None = key(
        _SECONDS, "answers come after this time or a multiple of it", "5")
    max_rows_per_person: int = key(
        _ROWS, "rows of one person in a join that multiplies rows", "1000", default=1000)
    max_joined_rows_per_person: int = key(
        _JOINED, "rows that such joins may make of them", "1000000", default=1_000_000)
    memory_limit: str | None = key(_SIZE, "memory of the queries that read private rows", '"4GB"')
    public_memory_limit: str | None = key(
        _SIZE, "memory of the rest of a statement; it never spills", '"1GB"')
    temp_directory: Path | None = key(_FOLDER, "where private queries spill to disk", '"spill"')
    max_temp_directory_size: str | None = key(_SIZE, "how much they may spill", '"10GB"')
    threads: int | None = key(_THREADS, "threads of the private queries", "4")
    # fmt: on

    @property
    def work(self) -> WorkLimits:
        """How much work the rows of one person may cause."""
        return WorkLimits(self.max_rows_per_person, self.max_joined_rows_per_person)


def read_limits(document: Document, file: Path) -> Limits:
    """The limits of a policy; a relative path begins at the folder of `file`."""
    section = {k: v for k, v in document.section("limits").items() if k != "unique_per_person"}
    limits = read(document, ("limits",), Limits, section)
    folder = limits.temp_directory
    return replace(limits, temp_directory=None if folder is None else file.parent / folder)

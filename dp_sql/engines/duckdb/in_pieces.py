"""Distinct counts of sources that are too large for one statement: their rows are read once.

DuckDB sends the rows in pieces. People and items become numbers, equal values the same number, and
the pairs of numbers are kept in memory and then in a file. The counts of covered items are computed
from part of these pairs and are exact (udfs/count_distinct/partial.md), so the mechanism draws as
from all pairs. The size of a source affects how long an answer takes, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dp_sql.engines.duckdb.arrow_rows import (
    LONG,
    SHARE,
    SHORTER,
    TooLong,
    ValueNumbers,
    batches,
    comparable_in_arrow,
)
from dp_sql.engines.duckdb.sql_runner import SqlRunner, in_bytes
from dp_sql.privacy.plans.plan import Plan, bounds_of
from dp_sql.privacy.private_sql.people_rows import PeopleRows

if TYPE_CHECKING:
    from dp_sql.udfs.count_distinct.graph import Int64s
    from dp_sql.udfs.count_distinct.stored_pairs import Block, StoredPairs

T = TypeVar("T")


def cover_counts(plan: Plan, release: str, engine: SqlRunner) -> Int64s:
    """How many items are covered under each bound that the mechanism considers.

    `release` holds the first arguments of its UDF, from which a sample of the items gets its key.
    """
    with contextlib.suppress(TooLong):
        return _cover_counts(plan, release, engine, LONG, engine.memory_limit // SHARE)
    return _cover_counts(plan, release, engine, SHORTER, inf)


def _cover_counts(
    plan: Plan, release: str, engine: SqlRunner, long: int, most_bytes: float
) -> Int64s:
    """The counts, with values of `long` bytes as hashes; TooLong: they take too many."""
    from dp_sql.udfs.count_distinct.partial import partial_cover_counts

    bounds, before = bounds_of(plan), engine.state.interrupts.n

    def stopping(pieces: Iterable[T]) -> Generator[T]:
        return engine.state.interrupts.ending(pieces, before)

    with contextlib.closing(_store(engine)) as pairs:
        rows = stopping(batches(engine.relate(_pairs_sql(plan, release, long))))
        with contextlib.closing(rows):
            n_items, n_people = _stored(rows, pairs, most_bytes)
        found = partial_cover_counts(
            lambda people_per_item: stopping(pairs.thin(people_per_item)),
            lambda some, theirs: stopping(pairs.complete(some, theirs)),
            bounds,
            n_people,
            numbered=(n_items, n_people),
            ending=stopping,
        )
    engine.state.interrupts.check(before)
    return found.counts


def _stored(rows: Iterable[Any], pairs: StoredPairs, most_bytes: float) -> tuple[int, int]:
    """Store rows of people and items; return how many there are.

    While DuckDB reads a piece, the one before it is numbered, and the one before that is stored.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    people, items = ValueNumbers(), ValueNumbers()
    with ThreadPoolExecutor(3) as others:

        def numbered(batch: Any) -> Block:
            of_people = others.submit(people.numbers, batch.column(0))
            return items.numbers(batch.column(1)), of_people.result()

        def store(block: Future[Block], before: Future[None]) -> Future[None]:
            before.result()
            return others.submit(pairs.add, *block.result())

        stored: Future[Any] = others.submit(int)
        last: Future[Block] | None = None
        for batch in rows:
            if people.n_bytes + items.n_bytes > most_bytes:
                raise TooLong
            if last is not None:
                stored = store(last, stored)
            last = others.submit(numbered, batch)
        if last is not None:
            stored = store(last, stored)
        stored.result()
    return items.size, people.size


def _pairs_sql(plan: Plan, release: str, long: int) -> str:
    """The SELECT of pairs of people and items, as sent; a pair may occur more than once."""
    rows = PeopleRows([plan._replace(keep_source=False)], [release])
    columns = [
        comparable_in_arrow(f"__dp_{name}", plan.columns[name].type, long)
        for name in ("privacy_unit", "item")
    ]
    ctes = ", ".join([*rows.shared(), *rows.of(0)])
    return f"WITH {ctes} SELECT {', '.join(columns)} FROM __dp_kept"


def _store(engine: SqlRunner) -> StoredPairs:
    """A store for pairs, within the disk space that DuckDB may use."""
    from dp_sql.udfs.count_distinct.stored_pairs import StoredPairs

    folder, most = engine.settings("temp_directory", "max_temp_directory_size")
    place = _existing(Path(folder)) if folder else None  # else DuckDB does not spill
    if place is None:
        return StoredPairs(None)
    spilled = "SELECT coalesce(system.main.sum(size), 0) FROM system.main.duckdb_temporary_files()"

    def space() -> int:
        with contextlib.closing(engine.connection.cursor()) as other:
            free = in_bytes(most)
            free = shutil.disk_usage(place).free if free is None else free
            return free - int(other.execute(spilled).fetchall()[0][0])

    return StoredPairs(place, space)


def _existing(folder: Path) -> Path | None:
    """A folder for a file without a name; DuckDB makes its own folder only when it spills."""
    for place in (folder, folder.parent, Path(tempfile.gettempdir())):
        if place.is_dir() and os.access(place, os.W_OK):
            return place
    return None

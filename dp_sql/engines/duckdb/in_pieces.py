"""Distinct counts of sources that are too large for one statement: their rows are read once.

DuckDB sends the rows in pieces. People and items become numbers, equal values the same number, and
the pairs of numbers are kept in memory and then in a file. The counts of covered items are computed
from part of these pairs and are exact (udfs/count_distinct/partial.md), so the mechanism draws as
from all pairs. The size of a source affects how long an answer takes, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import duckdb

from dp_sql.engines.duckdb import persons
from dp_sql.engines.duckdb.arrow_rows import Column, batches, sent
from dp_sql.engines.duckdb.persons import computed_from
from dp_sql.errors import InternalError, SourceError
from dp_sql.privacy.plans.plan import Plan, drawn_from
from dp_sql.privacy.private_sql.bundles import read_together
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.privacy.private_sql.release_select import EXECUTION, call_of, merged_sql
from dp_sql.sql.formatting import full_name
from dp_sql.sql.types import INTEGERS

if TYPE_CHECKING:
    from dp_sql.engines.duckdb.connection import Engine
    from dp_sql.udfs.count_distinct.stored_pairs import StoredPairs

T = TypeVar("T")

LARGE = 1 << 22  # rows; a source of at least so many is read in pieces
_BITS, _MOST_BITS = "perfect_ht_threshold", 32  # DuckDB takes no more
_MINUTE, _REMEMBERED = 60, 256  # seconds, sources
_SMALL = WeakKeyDictionary["Interrupts", dict[str, tuple[float, int]]]()  # when asked, and rows
_CARDINALITY = re.compile(r'"Estimated Cardinality": *"~?(\d+)"')
_SIZE = re.compile(r"([\d.]+) ?(bytes|[KMGT]iB)")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Interrupts:
    """Counts interrupts of a session; DuckDB notices them only while a statement runs."""

    def __init__(self) -> None:
        self.n = 0

    def add(self) -> None:
        """Count an interrupt, from any thread."""
        self.n += 1

    def ending(self, pieces: Iterable[T], before: int) -> Generator[T]:
        """Yield the pieces; raise if the count of interrupts is not `before`."""
        try:
            for piece in pieces:
                if self.n != before:
                    break
                yield piece
        except duckdb.Error:
            if self.n == before:
                raise
        if self.n != before:
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")


def for_size(plan: Plan, engine: Engine) -> Plan:
    """The plan to release: one that draws from counts of covered items, if its source is large."""
    of_cover = drawn_from(plan)
    if of_cover is plan or plan.keys or _n_rows(plan, engine) < LARGE:
        return plan
    return of_cover


def _n_rows(plan: Plan, engine: Engine) -> int:
    """DuckDB's estimate of the rows of the largest step of a plan.

    The estimate of a source that is below half of LARGE is reused for a minute.
    """
    known, now = _SMALL.setdefault(engine.interrupts, {}), time.monotonic()
    read = read_together(plan)
    columns = ", ".join(read.columns[name].sql for name in ("privacy_unit", "item"))
    select = f"SELECT {columns} FROM {read.source}"
    asked, n_rows = known.get(select, (-inf, 0))
    if now - asked < _MINUTE:
        return n_rows
    explained = "0"
    with contextlib.suppress(duckdb.Error):  # the release will raise it
        ((_, explained),) = engine.run(f"EXPLAIN (FORMAT json) {select}").fetchall()
    n_rows = max(map(int, _CARDINALITY.findall(explained)), default=0)
    if n_rows < LARGE >> 1:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[select] = (now, n_rows)
    return n_rows


def _fits_memory(plan: Plan, engine: Engine) -> bool:
    """Whether a source has so many rows that it is worth while to compute people's values here."""
    if not persons.LEAST <= (n_rows := _n_rows(plan, engine)) <= persons.MOST:
        return False
    (limit,) = _settings(engine, "memory_limit")
    return n_rows * persons.BYTES <= (_in_bytes(limit) or 0)


def _settings(engine: Engine, *names: str) -> tuple[Any, ...]:
    """The values of settings of DuckDB."""
    listed = ", ".join(f"system.main.current_setting('{name}')" for name in names)
    (values,) = engine.run(f"SELECT {listed}").fetchall()
    return tuple(values)


@contextlib.contextmanager
def _people_in_arrays(plans: Sequence[Plan], engine: Engine) -> Iterator[None]:
    """Let DuckDB group people by their numbers as places in an array, if it has fewer than rows.

    DuckDB knows between which numbers a column's values are; by itself, it does this for 12 bits.
    Each thread has an array, which DuckDB does not count as memory. With 64 bytes of a place for
    each call, all take at most a 16th of the memory limit.
    """
    plan, n_rows = plans[0], 0
    if plan.parameters.reads_people and plan.columns["privacy_unit"].type in INTEGERS:
        n_rows = _n_rows(plan, engine)
    if n_rows < persons.LEAST:
        yield
        return
    threads, limit, before, is_locked = _settings(
        engine, "threads", "memory_limit", _BITS, "lock_configuration"
    )
    places = min(n_rows, (_in_bytes(limit) or 0) // (16 * 64 * len(plans) * threads))
    bits = min(places.bit_length() - 1, _MOST_BITS)
    if is_locked or bits <= before:
        yield
        return
    engine.run(f"SET SESSION {_BITS} = {bits}")
    try:
        yield
    finally:
        with contextlib.suppress(duckdb.Error):  # in a transaction that has failed
            engine.run(f"SET SESSION {_BITS} = {before}")


def _is_in_pieces(plan: Plan) -> bool:
    return "__dp_cover" in plan.parameters.takes


@contextlib.contextmanager
def release_sql(
    plans: Sequence[Plan],
    tickets: Sequence[str],
    engine: Engine,
    in_one: Callable[..., str],
    execution: str = EXECUTION,
) -> Iterator[tuple[str, list[str]]]:
    """Yield the SELECT of the release of a bundle of plans, to be run once, and its parameters.

    `in_one` writes the SELECT as private_sql does. Raises DuckDB's errors, or a SourceError.
    """
    calls = [call_of(ticket, execution) for ticket in tickets]
    if not _is_in_pieces(plans[0]):
        fits = partial(_fits_memory, plans[0], engine)
        computed_there = computed_from(plans, calls, engine, fits)
        with computed_there as computed, _people_in_arrays(plans, engine):
            if computed is None:  # the same text each time
                yield in_one(plans, [f"${n}" for n, _ in enumerate(tickets, 1)]), [*tickets]
            else:
                yield in_one(plans, tickets, persons=computed), []
        return
    (plan,), (ticket,), (call,) = plans, tickets, calls
    try:
        counts = _cover_counts(plan, call, engine)
    except (OSError, MemoryError, RuntimeError, ValueError) as error:
        raise SourceError(f"The source cannot be counted ({type(error).__name__}).") from None
    table = full_name(("temp", "main", f"__dp_cover_{ticket}"))
    unnested = "system.main.unnest($1) AS place, system.main.unnest($2) AS n"
    numbered = [[*range(len(counts))], counts]
    engine.run(f"CREATE TEMP TABLE {table} AS SELECT {unnested}", numbered)
    try:
        yield merged_sql(plan, ticket, table, execution=execution), []
    finally:
        with contextlib.suppress(duckdb.Error):  # in a transaction that has failed it is gone
            engine.run(f"DROP TABLE IF EXISTS {table}")


def _cover_counts(plan: Plan, call: str, engine: Engine) -> list[int]:
    """How many items are covered under each bound that the mechanism considers.

    `call` holds the first arguments of its UDF, from which a sample of the items gets its key.
    """
    from dp_sql.udfs.count_distinct.partial import partial_cover_counts

    bounds, before = plan.mechanism.bounds, engine.interrupts.n

    def stopping(pieces: Iterable[T]) -> Generator[T]:
        return engine.interrupts.ending(pieces, before)

    if bounds is None:
        raise InternalError("This mechanism needs pairs.")
    with contextlib.closing(_store(engine)) as pairs:
        rows = stopping(batches(engine.relate(_pairs_sql(plan, call))))
        with contextlib.closing(rows):
            n_items, n_people = _stored(rows, pairs)
        found = partial_cover_counts(
            lambda people_per_item: stopping(pairs.thin(people_per_item)),
            lambda some, theirs: stopping(pairs.complete(some, theirs)),
            bounds(**plan.parameters.given_to(plan.mechanism)),
            n_people,
            numbered=(n_items, n_people),
        )
    return [*stopping(found.counts.tolist())]


def _stored(rows: Iterable[Any], pairs: StoredPairs) -> tuple[int, int]:
    """Store rows of people and items while DuckDB reads the next; return how many there are."""
    from concurrent.futures import Future, ThreadPoolExecutor

    people, items = Column(), Column()
    with ThreadPoolExecutor(2) as others:

        def store(batch: Any) -> None:
            of_people = others.submit(people.numbers, batch.column(0))
            pairs.add(items.numbers(batch.column(1)), of_people.result())

        last: Future[Any] = others.submit(int)
        for batch in rows:
            last.result()
            last = others.submit(store, batch)
        last.result()
    return items.size, people.size


def _pairs_sql(plan: Plan, call: str) -> str:
    """The SELECT of pairs of people and items, as sent; a pair may occur more than once."""
    rows = PeopleRows([plan._replace(keep_source=False)], [call])
    columns = [sent(f"__dp_{name}", plan.columns[name].type) for name in ("privacy_unit", "item")]
    ctes = ", ".join([*rows.shared(), *rows.of(0)])
    return f"WITH {ctes} SELECT {', '.join(columns)} FROM __dp_kept"


def _store(engine: Engine) -> StoredPairs:
    """A store for pairs, within the disk space that DuckDB may use."""
    from dp_sql.udfs.count_distinct.stored_pairs import StoredPairs

    ((folder, most),) = engine.run(
        "SELECT system.main.current_setting('temp_directory'), "
        "system.main.current_setting('max_temp_directory_size')"
    ).fetchall()
    place = _existing(Path(folder)) if folder else None  # else DuckDB does not spill
    if place is None:
        return StoredPairs(None)
    spilled = "SELECT coalesce(system.main.sum(size), 0) FROM system.main.duckdb_temporary_files()"

    def space() -> int:
        with contextlib.closing(engine.connection.cursor()) as other:
            free = _in_bytes(most)
            free = shutil.disk_usage(place).free if free is None else free
            return free - int(other.execute(spilled).fetchall()[0][0])

    return StoredPairs(place, space)


def _existing(folder: Path) -> Path | None:
    """A folder for a file without a name; DuckDB makes its own folder only when it spills."""
    for place in (folder, folder.parent, Path(tempfile.gettempdir())):
        if place.is_dir() and os.access(place, os.W_OK):
            return place
    return None


def _in_bytes(size: str) -> int | None:
    """A size as DuckDB prints it, in bytes; None if it is a percentage."""
    found = _SIZE.match(size)
    return int(Fraction(found[1]) * 1024 ** _UNITS.index(found[2])) if found else None

"""What Spark's workers run: SQL in their own DuckDB, over one part of the people at a time.

Workers get these functions by value and have duckdb, numpy and pyarrow, but not dp_sql, which must
not be imported here. question_sql.py writes all SQL. Nothing here draws, and results depend only on
the rows, not on their order: Spark may run each task more than once.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

INCOMING, PART, SOURCE = "__dp_incoming", "__dp_number", "__dp_source"
PEOPLE, ITEM, KEPT, ALL = "__dp_people", "__dp_item_number", "__dp_kept", "__dp_all"
PIECES = "slice INT, part INT, piece INT, data BINARY"  # the columns of all that a task returns
_NAMES = ("slice", "part", "piece", "data")
PER_CODE = 1 << 32  # codes of people: part * this + number; of items: slice * this + number
_SIZE = 8 << 20  # bytes of a piece: Spark Connect limits its messages
_BUFFERED = 1 << 17  # rows; DuckDB stores rows by about as many
_SHARE = 0.6  # of the memory that DuckDB would use, over all tasks: Spark needs some, too
_LEAST = 512 << 20

Piece = tuple[int, int, int, bytes]
"""Rows of a slice: the slice, the part that they are of, a number, and arrow's IPC format."""


@dataclass(frozen=True)
class TaskTable:
    """A table of the task's DuckDB: `insert` reads its rows from the relation `__dp_incoming`."""

    create: Sequence[str]
    insert: str
    rows: bytes | None = None  # of a public one


@dataclass(frozen=True)
class Task:
    """What a worker runs, in a DuckDB of its own.

    version: of its DuckDB, which must be the driver's. settings: SQL.
    public, incoming: the tables that it reads; those that come from Spark are empty at first.
    answer: a SELECT. seen: for each incoming table, a SELECT of one row that tells its rows from
        others; a task over parts has them, and the last column of its answer is the slice of a row.
    """

    version: str
    settings: Sequence[str]
    public: Sequence[TaskTable]
    incoming: Sequence[TaskTable]
    answer: str
    n_slices: int
    seen: Sequence[str] = ()


# --- parts ---


def answer_parts(batches: Iterable[Any], work: Task) -> Iterator[Any]:
    """Run the work over each part in some batches of rows, which have all rows of their parts."""
    parts: dict[int, _Part] = {}
    for batch in batches:
        for number, source, rows in _split(batch, len(work.incoming)):
            if number not in parts:
                parts[number] = _Part(work, number)
            parts[number].add(source, rows)
    for number in sorted(parts):
        for piece in parts.pop(number).answer():
            yield as_batch(piece)


def no_rows(work: Task, number: int) -> list[Piece]:
    """The answer of a part without rows, for which Spark runs no task."""
    return list(_Part(work, number).answer())


class _Part:
    """The rows of one part, in a DuckDB of its own."""

    def __init__(self, work: Task, number: int) -> None:
        self._work, self._number = work, number
        self._open = contextlib.ExitStack()
        self._database = self._open.enter_context(task_database(work, number))
        self._waiting: list[list[Any]] = [[] for _ in work.incoming]

    def add(self, source: int, rows: Any) -> None:
        """Add rows to a table."""
        waiting = self._waiting[source]
        waiting.append(rows)
        if sum(one.num_rows for one in waiting) >= _BUFFERED:
            self._insert(source)

    def answer(self) -> Iterator[Piece]:
        """The part's rows of each slice; and what it has read, as a slice after all others."""
        work = self._work
        with self._open:
            for source in range(len(self._waiting)):
                self._insert(source)
            seen = [self._database.execute(select).fetchall()[0] for select in work.seen]
            rows = _select(self._database, work.answer)
        for number, some in _sliced(rows):
            yield from in_pieces(number, self._number, some)
        yield work.n_slices, self._number, 0, json.dumps(seen).encode()

    def _insert(self, source: int) -> None:
        if self._waiting[source]:
            rows = pa.Table.from_batches(self._waiting[source])
            _insert(self._database, self._work.incoming[source], rows)
            self._waiting[source] = []


def _split(batch: Any, n_sources: int) -> Iterator[tuple[int, int, Any]]:
    """The part, the table and the rows of each in a batch."""
    parts = batch.column(PART).to_numpy().astype(np.int64)
    codes = parts * n_sources + batch.column(SOURCE).to_numpy()
    found = np.unique(codes).tolist()
    for code in found:
        number, source = divmod(code, n_sources)
        is_all = len(found) == 1
        yield number, source, batch if is_all else batch.filter(pa.array(codes == code))


def _sliced(rows: Any) -> Iterator[tuple[int, Any]]:
    """The rows of each slice; their last column says which, and they are in its order."""
    last = rows.num_columns - 1
    numbers, starts = np.unique(rows.column(last).to_numpy(), return_index=True)
    rows, cuts = rows.remove_column(last), [*starts.tolist(), rows.num_rows]
    for number, (start, end) in zip(numbers.tolist(), itertools.pairwise(cuts), strict=True):
        yield number, rows.slice(start, end - start)


# --- slices ---


def merge_slices(batches: Iterable[Any], merge: Task) -> Iterator[Any]:
    """Merge each slice in some batches of pieces, which have all pieces of their slices."""
    slices: dict[int, list[Piece]] = {}
    for piece in pieces_in(batches):
        slices.setdefault(piece[0], []).append(piece)
    for number in sorted(slices):
        for piece in merge_slice(merge, number, slices.pop(number)):
            yield as_batch(piece)


def merge_slice(merge: Task, number: int, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The answer of one slice, from what the parts have in it."""
    if number == merge.n_slices:  # what the parts have read
        yield from pieces
        return
    with task_database(merge, number) as database:
        if pieces:  # at once: an insert takes longer than most pieces
            rows = pa.concat_tables(from_bytes(data) for *_, data in pieces)
            _insert(database, merge.incoming[0], rows)
        rows = _select(database, merge.answer)
    yield from in_pieces(number, 0, rows)


# --- pairs ---


@dataclass(frozen=True)
class Chosen:
    """Which pairs are wanted.

    most: so many people of each item, and one pair of each person; None: all pairs of the items and
    of the people. These are given as a bit for each number, by slice or part; None: all items.
    """

    most: int | None
    items: dict[int, bytes] | None = None
    people: dict[int, bytes] | None = None


def thin_pieces(batches: Iterable[Any], n_slices: int, chosen: Chosen) -> Iterator[Any]:
    """The chosen pairs of pieces."""
    for piece in pieces_in(batches):
        for found in thin_piece(piece, n_slices, chosen):
            yield as_batch(found)


def thin_piece(piece: Piece, n_slices: int, chosen: Chosen) -> Iterator[Piece]:
    """The chosen pairs of one piece: its items and, numbered below 0, the codes of their people."""
    number, _, part, data = piece
    if number == n_slices:
        yield piece
        return
    rows = from_bytes(data).combine_chunks()
    people, items = rows.column(PEOPLE).combine_chunks(), rows.column(ITEM).to_numpy()
    codes, counts = people.flatten().to_numpy(), people.value_lengths().to_numpy()
    digest = hashlib.sha256(codes.tobytes() + counts.tobytes() + items.tobytes()).hexdigest()
    if chosen.most is not None:
        places = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = (places < chosen.most) | (codes % 2 == 1)
    elif chosen.items is None:
        kept = np.ones(len(codes), bool)
    else:
        kept = np.repeat(_are_set(items + number * PER_CODE, chosen.items), counts)
        kept |= _are_set(codes >> 1, chosen.people or {})
    sizes = np.bincount(np.repeat(np.arange(len(counts)), counts)[kept], minlength=len(counts))
    here, codes = np.flatnonzero(sizes), codes[kept].astype(np.int64)
    shown = rows.remove_column(rows.column_names.index(PEOPLE)).take(pa.array(here))
    shown = shown.append_column(KEPT, pa.array(sizes[here], pa.int64()))
    shown = shown.append_column(ALL, pa.array(counts[here], pa.int64()))
    yield from in_pieces(number, part, shown.replace_schema_metadata({"digest": digest}))
    step = _SIZE // codes.itemsize
    for i, start in enumerate(range(0, len(codes), step)):
        yield number, part, -1 - i, codes[start : start + step].tobytes()


def _are_set(codes: Any, wanted: dict[int, bytes]) -> Any:
    """Whether the bit of each code is set."""
    found, groups = np.zeros(len(codes), bool), codes // PER_CODE
    for group in np.intersect1d(groups, [*wanted]).tolist():
        bits = np.append(np.unpackbits(np.frombuffer(wanted[group], np.uint8)), 0).astype(bool)
        mine = groups == group
        found[mine] = bits[np.minimum(codes[mine] % PER_CODE, len(bits) - 1)]
    return found


# --- arrow ---


def pieces_in(batches: Iterable[Any]) -> Iterator[Piece]:
    """The pieces in some batches."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in _NAMES), strict=True)


def as_batch(*pieces: Piece) -> Any:
    """Pieces as rows."""
    columns = [[one[i] for one in pieces] for i in range(len(_NAMES))]
    kinds = (pa.int32(), pa.int32(), pa.int32(), pa.binary())
    arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=_NAMES)


def in_pieces(number: int, part: int, rows: Any) -> Iterator[Piece]:
    """Rows of a slice as pieces; one if there are no rows."""
    step = max(1, rows.num_rows * _SIZE // max(1, rows.nbytes))
    for i, start in enumerate(range(0, max(1, rows.num_rows), step)):
        yield number, part, i, arrow_bytes(rows.slice(start, step))


def arrow_bytes(rows: Any) -> bytes:
    """A table in arrow's IPC format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def from_bytes(data: Any) -> Any:
    """The table again."""
    return pa.ipc.open_stream(data).read_all()


# --- DuckDB ---


def make(database: Any, relation: TaskTable) -> None:
    """Make a table, with its rows if it is public."""
    for statement in relation.create:
        database.execute(statement)
    if relation.rows is not None:
        _insert(database, relation, from_bytes(relation.rows))


def _insert(database: Any, relation: TaskTable, rows: Any) -> None:
    database.register(INCOMING, rows)
    database.execute(relation.insert)
    database.unregister(INCOMING)


def _select(database: Any, select: str) -> Any:
    return database.sql(select).to_arrow_table()


@contextlib.contextmanager
def task_database(task: Task, number: int) -> Iterator[Any]:
    """A DuckDB in memory with the tables of a task; `number` is what `__dp_part()` says."""
    if duckdb.__version__ != task.version:
        raise RuntimeError(
            f"A worker has DuckDB {duckdb.__version__}, but the driver has {task.version}."
        )
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]  # removed with the application
    at = folder if os.path.isdir(folder) else None
    with tempfile.TemporaryDirectory(prefix="dp_sql-", dir=at) as spill:
        database = duckdb.connect(":memory:", config={"threads": 1, "temp_directory": spill})
        try:
            for name in (
                "python_enable_replacements", "autoinstall_known_extensions",
                "autoload_known_extensions", "allow_community_extensions", "enable_progress_bar",
            ):  # fmt: skip
                database.execute(f"SET {name} = false")
            for setting in task.settings:
                database.execute(setting)
            database.execute("SET arrow_large_buffer_size = true")  # strings of 2 GiB and more
            database.execute(f"SET memory_limit = '{_memory(database)}B'")
            database.execute(f"CREATE TEMP MACRO __dp_part() AS CAST({number} AS BIGINT)")
            for table in (*task.public, *task.incoming):
                make(database, table)
            yield database
        finally:
            database.close()


def _memory(database: Any) -> int:
    """How many bytes one task may use: its share of what DuckDB finds that it may use."""
    ((limit,),) = database.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = limit.split()
    total = float(number) * 1024 ** "BKMGTP".index(unit[0].upper())
    tasks = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    share = int(total * _SHARE) // (tasks or 1)
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource

        own, _ = resource.getrlimit(resource.RLIMIT_AS)  # spark.executor.pyspark.memory
        share = share if own == resource.RLIM_INFINITY else min(share, int(own * _SHARE))
    return max(share, _LEAST)

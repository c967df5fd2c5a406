"""Runs questions as Spark jobs: rows are shuffled by person, and DuckDB runs over each part.

1. Each row goes to the part of its person, which is a hash (people.py). A task runs the question's
   SQL over one part, and cuts the result into slices by a hash of the keys.
2. A task merges one slice of all parts. Few parts are merged on the driver.

The two stages exchange arrow tables as bytes, a few for each task. A part is computed from its rows
alone, so it may be computed again; the driver notices if it receives a part twice. Each job also
reports what it has read, and the driver raises an error if a later job of the release reads other
rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from dp_sql.engines.protocol import Pairs, PartedQuestion
from dp_sql.engines.spark import parts
from dp_sql.engines.spark.parts import ALL, ITEM, KEPT, PART, PER_CODE, PIECES, Chosen, Piece
from dp_sql.engines.spark.people import Read, rows_by_part
from dp_sql.engines.spark.progress import Progress
from dp_sql.engines.spark.question_sql import BoundQuestion, asked
from dp_sql.errors import InternalError, SourceError

ROWS_PER_PART = 1_000_000
MAX_PARTS = 10_000  # each sends a piece to each slice, so parts grow with larger tables
MERGED_HERE = 4  # so many parts are merged on the driver
_CHANGED = "A table changed while it was being read. Run the query again."


def parts_of(n_rows: int) -> int:
    """Into how many parts people with so many rows are split."""
    return min(-(-n_rows // ROWS_PER_PART) or 1, MAX_PARTS)


@dataclass(frozen=True)
class _Slices:
    """Merged slices of a question.

    pieces: a list where they were merged on the driver, else a dataframe.
    """

    asked: BoundQuestion
    n_slices: int
    pieces: Any


class SparkJobs:
    """The jobs of one release over the tables of a Spark session, classic or Connect.

    read: the dataframe and the columns of a private table. n_parts: into how many parts people are
    split; None: by the number of rows. It changes the time and nothing else.
    """

    def __init__(self, spark: Any, read: Read, n_parts: int | None = None) -> None:
        self._spark, self._read, self._n_parts = spark, read, n_parts
        self._tag = f"dp_sql-{uuid.uuid4().hex}"
        # A tag of a classic session is its thread's: no other could cancel by it.
        self._context = getattr(spark, "sparkContext", None)
        self._is_cancelled = False
        self._seen: dict[Any, int] = {}
        self._digests: dict[tuple[int, int, int], str] = {}
        self._pairs: list[tuple[PartedQuestion, _Slices]] = []
        self.progress: Progress | None = None  # what the owner sees

    def cancel(self) -> None:
        """Stop what runs now, from another thread: it fails, and so does all that follows."""
        self._is_cancelled = True
        if self._context is None:
            self._spark.interruptTag(self._tag)
        else:
            self._context.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Forget what Spark keeps for this release."""
        while self._pairs:
            pieces = self._pairs.pop()[1].pieces
            with suppress(Exception):  # a session that is gone keeps nothing
                if not isinstance(pieces, list):
                    pieces.unpersist()

    # --- what an engine answers (dp_sql.engines.protocol) ---

    def rows(self, question: PartedQuestion) -> Any:
        """All rows of the answer."""
        bound = self._bound(question)
        merge = bound.merge(self._n_slices(question))
        slices = self._merged(bound, merge)
        pieces = self._checked(slices, self._collected(slices.pieces))
        pieces = pieces or [*parts.merge_slice(merge, 0, [])]
        return pa.concat_tables(parts.from_bytes(data) for *_, data in pieces)

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        """Some people of each item, by a hash of their codes, and a pair of each person."""
        return self._chosen(question, Chosen(people_per_item))

    def complete(self, question: PartedQuestion, items: Any, people: Any) -> Pairs:
        """All pairs of these items and people; None: of all items."""
        if items is None:
            return self._chosen(question, Chosen(None))
        return self._chosen(question, Chosen(None, _bits(items), _bits(people)))

    # --- jobs ---

    def _chosen(self, question: PartedQuestion, chosen: Chosen) -> Pairs:
        slices = self._slices(question)
        given = (slices.n_slices, chosen)
        if isinstance(slices.pieces, list):
            found = [one for piece in slices.pieces for one in parts.thin_piece(piece, *given)]
        else:
            found = self._collected(_mapped(slices.pieces, parts.thin_pieces, *given))
        pieces = self._checked(slices, found)
        if not pieces:
            (none,) = parts.merge_slice(slices.asked.pairs(1), 0, [])
            pieces = [*parts.thin_piece(none, *given)]
        return self._assembled(slices, pieces, has_all_people=chosen.most is not None)

    def _slices(self, question: PartedQuestion) -> _Slices:
        """Merged pairs of a question, which are kept until the release ends."""
        for known, slices in self._pairs:
            if known == question:
                return slices
        bound = self._bound(question)
        slices = self._merged(bound, bound.pairs(self._n_slices(question)))
        if not isinstance(slices.pieces, list):
            slices.pieces.persist()
        self._pairs.append((question, slices))
        return slices

    def _merged(self, bound: BoundQuestion, merge: parts.Task) -> _Slices:
        """Run a question over all parts, and merge what comes out; few parts on the driver."""
        n_parts, n_slices = self._parts(bound.question), merge.n_slices
        work = bound.work(n_slices)
        read = {table: bound.read[table] for table in bound.tables}
        rows = rows_by_part(list(dict.fromkeys(bound.question.tables)), read, self._read, n_parts)
        frame = _mapped(_spread(rows, n_parts, PART), parts.answer_parts, work)
        own = parts.no_rows(work, n_parts)  # Spark calls no function where there are no rows
        if n_slices == 1:
            pieces = [*self._collected(frame), *own]
            rows = [piece for piece in pieces if piece[0] == 0]
            seen = [piece for piece in pieces if piece[0]]
            return _Slices(bound, n_slices, [*parts.merge_slice(merge, 0, rows), *seen])
        own = [piece for piece in own if piece[0] < n_slices]
        if own:
            table = pa.Table.from_batches([parts.as_batch(*own)])
            frame = frame.union(self._spark.createDataFrame(table, PIECES))
        merged = _mapped(_spread(frame, n_slices + 1, "slice"), parts.merge_slices, merge)
        return _Slices(bound, n_slices, merged)

    def _collected(self, pieces: Any) -> list[Piece]:
        if isinstance(pieces, list):
            return pieces
        with self._tagged():
            return list(parts.pieces_in(pieces.toArrow().to_batches()))

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        if self._is_cancelled:
            raise InternalError("This release was cancelled.")
        if self._context is None:
            add, remove = self._spark.addTag, self._spark.removeTag
        else:
            add, remove = self._context.addJobTag, self._context.removeJobTag
        add(self._tag)
        try:
            with self.progress.shown() if self.progress else nullcontext():
                yield
        finally:
            remove(self._tag)

    # --- how far to split ---

    def _parts(self, question: PartedQuestion) -> int:
        """Into how many parts people are split: the same for all of a release."""
        if self._n_parts is None:
            frames = [self._read(one.table)[0].selectExpr("1 AS n") for one in question.tables]
            with self._tagged():
                n_rows = reduce(lambda a, b: a.union(b), frames).count()
            self._n_parts = parts_of(n_rows)
            if self.progress:
                self.progress.n_rows = n_rows
        return self._n_parts

    def _n_slices(self, question: PartedQuestion) -> int:
        """Into how many slices; one is merged on the driver."""
        n_parts = self._parts(question)
        return n_parts if question.keys and n_parts > MERGED_HERE else 1

    def _bound(self, question: PartedQuestion) -> BoundQuestion:
        return asked(question, {one.table: self._read(one.table)[1] for one in question.tables})

    # --- checks ---

    def _checked(self, slices: _Slices, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces of the answer; raises if other rows were read than before in this release."""
        read: dict[Any, int] = {}
        numbers: set[int] = set()
        for number, part, _, data in pieces:
            if number == slices.n_slices:
                if part in numbers:
                    raise InternalError("Spark returned the result of a part twice.")
                numbers.add(part)
                for name, value in _named(slices.asked, json.loads(data)):
                    read[name] = read.get(name, 0) + value
        for name, value in read.items():
            if self._seen.setdefault(name, value) != value:
                raise SourceError(_CHANGED)
        found = [piece for piece in pieces if piece[0] < slices.n_slices]
        return sorted(found, key=lambda piece: piece[:3])

    def _assembled(self, slices: _Slices, pieces: Sequence[Piece], has_all_people: bool) -> Pairs:
        """Pairs from pieces: for each piece of a slice its items, and the codes of their people."""
        people, shown = [], []
        for (number, part), some in groupby(pieces, key=lambda piece: piece[:2]):
            for _, _, i, data in sorted(some, key=lambda piece: abs(piece[2])):
                if i < 0:
                    people.append(np.frombuffer(data, np.int64))
                    continue
                rows = parts.from_bytes(data)
                digest = rows.schema.metadata[b"digest"]
                if self._digests.setdefault((id(slices), number, part), digest) != digest:
                    raise SourceError(_CHANGED)
                codes = pa.array(rows.column(ITEM).to_numpy() + number * PER_CODE)
                shown.append(rows.append_column("item", codes).replace_schema_metadata())
        every = pa.concat_tables(shown)
        kept, codes = every.column(KEPT).to_numpy(), every.column("item").to_numpy()
        marked = np.concatenate([np.zeros(0, np.int64), *people])
        complete = codes[kept == every.column(ALL).to_numpy()]
        shown = every.select(["item", *slices.asked.question.shown])
        n_people = int((marked & 1).sum()) if has_all_people else None
        return Pairs(np.repeat(codes, kept), marked >> 1, complete, shown, n_people)


def _named(bound: BoundQuestion, seen: Sequence[Sequence[str]]) -> Iterator[tuple[Any, int]]:
    """What one part has read of each table: how many rows, and sums of hashes."""
    for one, values in zip(dict.fromkeys(bound.question.tables), seen, strict=True):
        columns = bound.read[one.table]
        names = ["", *columns, tuple(columns)]
        for name, value in zip(names, map(int, values), strict=False):
            yield (one, name), value


def _spread(frame: Any, n: int, column: str) -> Any:
    """Rows with the same number in a column together, those of each number in a task of its own."""
    if hasattr(frame, "repartitionById"):  # from Spark 4.1
        return frame.repartitionById(n, column)
    return frame.repartition(n, column)


def _mapped(frame: Any, function: Callable[..., Iterator[Any]], *given: Any) -> Any:
    """What a function of parts.py makes of the batches of each task; it is sent by value."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(parts)

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        return function(batches, *given)

    return frame.mapInArrow(run, PIECES)


def _bits(codes: Any) -> dict[int, bytes]:
    """Codes as a bit for each number, by slice or part."""
    codes = np.unique(np.asarray(codes, np.int64))
    groups, numbers = codes // PER_CODE, codes % PER_CODE
    found = {}
    for group in np.unique(groups).tolist():
        mine = numbers[groups == group]
        bits = np.zeros(mine[-1] + 1, bool)
        bits[mine] = True
        found[group] = np.packbits(bits).tobytes()
    return found

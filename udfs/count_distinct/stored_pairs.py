"""All pairs of items and people, as numbers, in memory and then in files, which are read in blocks.

Up to WHOLE pairs all come at once: to sort them would take longer than the flow of all of them.
Of more pairs, those that partial.py asks for are chosen. A hash of the pair decides which pairs of
an item come first, so neither the order of rows nor how often one occurs matters. The more pairs an
item has, the smaller the hash of those that come first; pairs that cannot come first any more are
put aside.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import byref, c_int64
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

import numpy as np

from dp_sql.udfs.count_distinct.dense_numbers import Numbers
from dp_sql.udfs.count_distinct.graph import LIMIT, Int32s, Int64s, zeros
from dp_sql.udfs.count_distinct.kernels import library
from dp_sql.udfs.randomness import fair_bits

WHOLE = 1 << 25  # pairs that come all at once; of more, some come first
IN_MEMORY = 1 << 25  # pairs; the others are in files
_MOST = 12  # pairs of each item that are kept in front
_OFTEN = Fraction(5, 4)  # rows per pair from which on each pair is passed on once

Block = tuple[Int32s, Int32s]  # items and people of some pairs


@dataclass(frozen=True)
class Chosen:
    """Pairs, and items all of whose pairs have been passed on by then."""

    items: Any
    people: Any
    complete: Any


class _Blocks:
    """Pairs in memory, and in a file where that is full."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.in_file: list[int] = []  # how many pairs each block has
        self.file: IO[bytes] | None = None

    def write(self, items: Int32s, people: Int32s, folder: Path) -> None:
        """Add a block to the file."""
        if self.file is None:
            self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.file.write(items.data)
        self.file.write(people.data)
        self.in_file.append(items.size)

    def read(self) -> Iterator[Block]:
        """All pairs."""
        yield from self.blocks
        if self.file is not None:
            self.file.seek(0)
            for n_pairs in self.in_file:
                both = np.fromfile(self.file, np.int32, 2 * n_pairs)
                yield both[:n_pairs], both[n_pairs:]


class StoredPairs:
    """Pairs of the numbers of an item and a person, which may come more than once.

    folder: where the files are; None: there are none. space: how many bytes they may have by now.
    """

    def __init__(self, folder: Path | None, space: Callable[[], int] | None = None) -> None:
        self.n_items, self.n_people, self._n_rows, self._last = 0, 0, 0, -1
        self._folder, self._space = folder, space
        self._waiting = deque[Block]()  # all pairs, while they are at most WHOLE
        self._first, self._others = _Blocks(), _Blocks()  # nearly all that comes first is in front
        self._memory, self._in_memory = np.empty((2, 0), np.int32), 0
        self._key = fair_bits(63)
        self._counts = zeros(0)  # of pairs, per item
        self._sample: list[Int64s] = []

    def close(self) -> None:
        """Forget all pairs."""
        self._waiting.clear()
        self._memory = self._memory[:, :0].copy()
        for some in (self._first, self._others):
            some.blocks.clear()
            if some.file is not None:
                some.file.close()

    def add(self, items: Int32s, people: Int32s) -> None:
        """Store pairs. Raises OSError if the file cannot hold them."""
        if items.size == 0:
            return
        self.n_items = max(self.n_items, int(items.max()) + 1)
        self.n_people = max(self.n_people, int(people.max()) + 1)
        self._n_rows += items.size
        self._waiting.append((items, people))
        while self._waiting and self._n_rows > WHOLE:
            self._sort(*self._waiting.popleft())

    def _sort(self, items: Int32s, people: Int32s) -> None:
        n_sampled = c_int64(0)
        if self._counts.size < self.n_items:
            more = zeros(self.n_items + self.n_items // 2 - self._counts.size)
            self._counts = np.append(self._counts, more)
        (of_items, of_people), sample = _two(items.size), np.empty(items.size, np.int64)
        n_first = library().sort_pairs(
            items, people, items.size, self._counts, _MOST, self._key, self._last,
            of_items, of_people, sample, byref(n_sampled),
        )  # fmt: skip
        self._last = max(self._last, int(people.max()))
        self._sample.append(sample[: n_sampled.value].copy())
        self._store(self._first, of_items[:n_first], of_people[:n_first])
        self._store(self._others, of_items[n_first:], of_people[n_first:])

    def _store(self, blocks: _Blocks, items: Int32s, people: Int32s) -> None:
        first, last = self._in_memory, self._in_memory + items.size
        if self._folder is None or last <= IN_MEMORY:
            if last > self._memory.shape[1]:  # the old one stays as long as blocks are in it
                self._memory, first = np.empty((2, max(IN_MEMORY, items.size)), np.int32), 0
            place = self._memory[:, first : first + items.size]
            place[:] = items, people
            blocks.blocks.append((place[0], place[1]))
            self._in_memory = first + items.size
            return
        in_files = sum(self._first.in_file) + sum(self._others.in_file)
        if self._space is not None and 8 * (in_files + items.size) > self._space():
            raise OSError("the pairs need more space than the temporary folder may use")
        blocks.write(items, people, self._folder)

    def _stored(self) -> Iterator[Block]:
        yield from self._first.read()
        yield from self._others.read()

    @property
    def _rows_per_pair(self) -> Fraction:
        sample = np.concatenate([*self._sample, np.zeros(0, np.int64)])
        return Fraction(sample.size or 1, np.unique(sample).size or 1)

    # --- what partial.py asks ---

    def thin(self, people_per_item: int) -> Iterable[Chosen]:
        """About so many pairs of each item, and at least one of each item and each person.

        If these are all pairs, they are forgotten.
        """
        if self._waiting:
            while self._waiting:
                yield Chosen(*self._waiting.popleft(), zeros(0))
            yield _complete(np.arange(self.n_items, dtype=np.int32))
            return
        most = min(-(-people_per_item * self._rows_per_pair // 1), LIMIT)
        yield from self._pieces(self._some_of_each(most))
        items = np.flatnonzero(self._counts[: self.n_items] <= most).astype(np.int32)
        if items.size == self.n_items:  # nothing is left to ask for
            self.close()
            self._counts = zeros(0)
        yield _complete(items)

    def _some_of_each(self, most: int) -> Iterator[Block]:
        item_has, person_has = np.zeros(self.n_items, np.uint8), np.zeros(self.n_people, np.uint8)
        known = (self._counts, most, self._key, item_has, person_has)
        blocks = self._first.read() if most <= _MOST else self._stored()
        yield from _chosen(library().choose_pairs, blocks, *known)
        blocks = takewhile(lambda _: not (item_has.all() and person_has.all()), self._stored())
        yield from _chosen(library().choose_missing, blocks, item_has, person_has)

    def complete(self, items: Any, people: Any) -> Iterable[Chosen]:
        """All pairs of these items and all pairs of these people."""
        listed = _bits(self.n_items, items), _bits(self.n_people, people)
        yield from self._pieces(_chosen(library().choose_listed, self._stored(), *listed))
        yield _complete(items)

    def _pieces(self, blocks: Iterable[Block]) -> Iterator[Chosen]:
        nothing = zeros(0)
        if self._rows_per_pair < _OFTEN:
            for items, people in blocks:
                yield Chosen(items, people, nothing)
            return
        pairs = Numbers()
        for items, people in blocks:
            pairs.of(_packed(items, people))
        both = pairs.codes
        yield Chosen((both >> 32).astype(np.int32), both.astype(np.int32), nothing)


def _two(size: int) -> Block:
    return np.empty(size, np.int32), np.empty(size, np.int32)


def _chosen(kernel: Any, blocks: Iterable[Block], *known: Any) -> Iterator[Block]:
    """The pairs that a kernel chooses, in two threads."""

    def chosen(block: Block) -> Block:
        (items, people), (of_items, of_people) = block, _two(block[0].size)
        n = kernel(items, people, items.size, *known, of_items, of_people)
        return of_items[:n].copy(), of_people[:n].copy()

    waiting = deque[Future[Block]]()
    with ThreadPoolExecutor(2) as threads:
        for block in blocks:
            waiting.append(threads.submit(chosen, block))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _bits(size: int, codes: Any) -> Any:
    """One bit for each number below `size`, set for some."""
    listed = np.zeros(size, np.bool_)
    listed[codes] = True
    return np.packbits(listed, bitorder="little")


def _packed(items: Int32s, people: Int32s) -> Int64s:
    return items.astype(np.int64) << 32 | people


def _complete(items: Any) -> Chosen:
    return Chosen(zeros(0), zeros(0), items)

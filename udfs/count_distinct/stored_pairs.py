"""All pairs of items and people, as numbers, in memory and then in a file, which is read in blocks.

What partial.py asks for is chosen from them. A hash of the pair decides which pairs of an item come
first, so that it does not matter how rows are ordered, nor how often one occurs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np

from dp_sql.udfs.count_distinct.dense_numbers import Numbers
from dp_sql.udfs.count_distinct.graph import LIMIT, Int32s, Int64s, zeros
from dp_sql.udfs.count_distinct.kernels import library
from dp_sql.udfs.randomness import fair_bits

IN_MEMORY = 1 << 25  # pairs; the others are in the file
_SAMPLE = 12  # one of 2^12 pairs tells how often pairs occur
_ODD = np.array([0x9E3779B1, 0x85EBCA77], np.uint32)
_OFTEN = Fraction(5, 4)  # from so many rows per pair on, each pair is passed on once

Block = tuple[Int32s, Int32s]  # items and people of some pairs


@dataclass(frozen=True)
class Chosen:
    """Pairs, and items all of whose pairs have been passed on by then."""

    items: Any
    people: Any
    complete: Any


class StoredPairs:
    """Pairs of the numbers of an item and a person, which may come more than once.

    folder: where the file is; None: there is none. space: how many bytes it may have by now.
    """

    def __init__(self, folder: Path | None, space: Callable[[], int] | None = None) -> None:
        self.n_items, self.n_people = 0, 0
        self._folder, self._space = folder, space
        self._blocks: list[Block] = []
        self._file: IO[bytes] | None = None
        self._in_file: list[int] = []  # how many pairs each block has
        self._counts = zeros(0)  # of pairs, per item
        self._sample: list[Int64s] = []

    def close(self) -> None:
        """Forget all pairs."""
        self._blocks.clear()
        if self._file is not None:
            self._file.close()

    def add(self, items: Int32s, people: Int32s) -> None:
        """Store pairs. Raises OSError if the file cannot hold them."""
        if items.size == 0:
            return
        self.n_items = max(self.n_items, int(items.max()) + 1)
        self.n_people = max(self.n_people, int(people.max()) + 1)
        if self._counts.size < self.n_items:
            more = zeros(self.n_items + self.n_items // 2 - self._counts.size)
            self._counts = np.append(self._counts, more)
        library().count_pairs(items, items.size, self._counts)
        words = items.view(np.uint32) * _ODD[0] ^ people.view(np.uint32) * _ODD[1]
        sampled = words >> np.uint32(32 - _SAMPLE) == 0
        self._sample.append(_packed(items[sampled], people[sampled]))
        in_memory = sum(some.size for some, _ in self._blocks)
        if self._folder is None or in_memory + items.size <= IN_MEMORY:
            self._blocks.append((items, people))
        else:
            self._write(items, people)

    def _write(self, items: Int32s, people: Int32s) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        size = 8 * (sum(self._in_file) + items.size)
        if self._space is not None and size > self._space():
            raise OSError("the pairs need more space than the temporary folder may use")
        self._file.write(items.data)
        self._file.write(people.data)
        self._in_file.append(items.size)

    def _stored(self) -> Iterator[Block]:
        yield from self._blocks
        if self._file is not None:
            self._file.seek(0)
            for n_pairs in self._in_file:
                both = np.fromfile(self._file, np.int32, 2 * n_pairs)
                yield both[:n_pairs], both[n_pairs:]

    @property
    def _rows_per_pair(self) -> Fraction:
        sample = np.concatenate([*self._sample, np.zeros(0, np.int64)])
        return Fraction(sample.size or 1, np.unique(sample).size or 1)

    # --- what partial.py asks ---

    def thin(self, people_per_item: int) -> Iterable[Chosen]:
        """About so many pairs of each item, and at least one of each item and each person."""
        most = min(-(-people_per_item * self._rows_per_pair // 1), LIMIT)
        counts = self._counts[: self.n_items]
        yield from self._pieces(self._first(most))
        yield _complete(np.flatnonzero(counts <= most))

    def _first(self, most: int) -> Iterator[Block]:
        key, kernels = fair_bits(63), library()
        item_has, person_has = np.zeros(self.n_items, np.uint8), np.zeros(self.n_people, np.uint8)
        for items, people in self._stored():
            chosen = np.empty(items.size, np.uint8)
            kernels.choose_pairs(
                items, people, items.size, self._counts, most, key, chosen, item_has, person_has
            )
            yield _some(items, people, chosen)
        for items, people in self._stored():
            if item_has.all() and person_has.all():
                return
            chosen = np.empty(items.size, np.uint8)
            kernels.choose_missing(items, people, items.size, chosen, item_has, person_has)
            yield _some(items, people, chosen)

    def complete(self, items: Any, people: Any) -> Iterable[Chosen]:
        """All pairs of these items and all pairs of these people."""
        of_items, of_people = np.zeros(self.n_items, np.uint8), np.zeros(self.n_people, np.uint8)
        of_items[items], of_people[people] = 1, 1
        yield from self._pieces(
            _some(some, theirs, of_items[some] | of_people[theirs])
            for some, theirs in self._stored()
        )
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


def _some(items: Int32s, people: Int32s, chosen: Any) -> Block:
    chosen = chosen.view(np.bool_)
    return items[chosen], people[chosen]


def _packed(items: Int32s, people: Int32s) -> Int64s:
    return items.astype(np.int64) << 32 | people


def _complete(items: Any) -> Chosen:
    return Chosen(zeros(0), zeros(0), items)

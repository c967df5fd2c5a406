"""Rows that come in pieces of arrow, as numbers, and the lists that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dp_sql.engines.duckdb.arrow_rows import (
    RowNumbers,
    ValueNumbers,
    arrow_numbers,
    lengths,
    not_null,
    whole_numbers,
)
from dp_sql.engines.duckdb.rows_in_memory import Lists, Piece, Rows
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.rows_read import GroupsFound, RowsRead
from dp_sql.udfs.contributions.summaries import merged


class ArrowPeople(Rows):
    """People's rows in memory, from batches of arrow, and the lists that are made of them.

    Its methods are called in this order:

    1. `add_items`, if items are public.
    2. If groups are not public, they are those in the rows. For each part of the people,
       `next_part`, `add` for each batch of rows, and `note_members`. Of the `members` a mechanism
       finds some groups; `groups` has their keys, and `number` their order.
    3. For each part of the people, `next_part`, `add` for each batch of rows, and `made`, which is
       `joined` to that of the others. If there is only one part, its rows are added once.
    4. `lists`, and then `items_of` the answers if these are of pairs.

    `make_room` may be called after any `add`.
    """

    def __init__(self, read: RowsRead) -> None:
        super().__init__()
        self._read, self._keys = read, RowNumbers()
        self._people, self._items = ValueNumbers(), ValueNumbers()
        self.n_rows = self.n_loose = self.n_read = 0
        self._found = np.empty(0, np.int64)
        self._members, self._n_before = list[tuple[Any, Any]](), 0
        self._n_pairs = 0  # numbers of people in pairs so far
        self._public, self._items_of_codes = list[Any](), list[Any]()
        self.has_groups = read.n_keys > 0
        self.n_groups = 0 if isinstance(read.groups, GroupsFound) else read.groups

    @property
    def n_bytes(self) -> int:
        """How many bytes of memory the people, keys and items take that are strings."""
        return self._people.n_bytes + self._keys.n_bytes + self._items.n_bytes

    def add_items(self, items: Any) -> None:
        """Add public items, an arrow array in the order of their codes; before all rows."""
        self._public.append(items)

    def add(self, piece: Any) -> None:
        """Add the rows of an arrow batch."""
        self.n_rows, self.n_loose = self.n_rows + len(piece), self.n_loose + len(piece)
        self.n_read += len(piece)
        n_keys, (person, *columns) = self._read.n_keys, piece.columns
        groups = self._numbered(columns[:n_keys]) if n_keys else None
        items = columns[n_keys:]
        values = [
            whole_numbers(c) if s else None for c, s in zip(items, self._read.sends, strict=True)
        ]
        if self._read.lists is not None and not self._read.lists.sends_codes:
            values = [self._items.numbers(items[0])]
        owners = self._people.numbers(person)
        self.n_people = self._people.size
        self.pieces.append(Piece(owners, groups, values, [*map(not_null, items)]))

    def _numbered(self, keys: Sequence[Any]) -> Any:
        if isinstance(self._read.groups, GroupsFound):
            return self._keys.numbers(keys)
        return whole_numbers(keys[0]).astype(np.int32) - np.int32(1)

    def make_room(self) -> None:
        """Combine the rows so far, so that a person with many rows needs little memory."""
        if isinstance(self._read.groups, GroupsFound) and self.order is None:
            self.n_groups = self._keys.size
        self.combine_rows(() if self._read.lists else self._read.kept)
        self.n_rows, self.n_loose = sum(piece.owners.size for piece in self.pieces), 0

    def note_members(self) -> None:
        """Note who is in which group, and that groups are all keys in the rows so far."""
        self.n_groups = self._keys.size
        people, groups = self.all_slots
        self._members.append((groups, people.astype(np.int64) + self._n_before))

    @property
    def n_members(self) -> int:
        """How many people were noted, counting them in each group."""
        return sum(groups.size for groups, _ in self._members)

    def members(self) -> tuple[Any, Any]:
        """The groups and the people of all that was noted."""
        groups, people = zip(*self._members, strict=True)
        self._members = []
        return np.concatenate(groups).astype(np.int32), np.concatenate(people)

    def groups(self, found: Sequence[int]) -> Any:
        """Some of these groups as an arrow table of keys; `place` is a group's place in `found`."""
        self._found = np.array(found, np.int64)
        keys = (
            self._keys.values(self._found) if self.n_groups else [pa.nulls(0)] * self._read.n_keys
        )
        columns = {f"__dp_key_{i}": values for i, values in enumerate(keys)}
        return pa.table({"place": arrow_numbers(np.arange(len(found)), "int64"), **columns})

    def number(self, order: Sequence[int]) -> None:
        """Number the groups found, from their places in the order of the keys."""
        numbers = np.full(self.n_groups, -1)
        numbers[self._found[[*order]]] = np.arange(len(order))
        self.order = numbers

    def made(self, n_items: int | None, other: Executor) -> Any:
        """What `lists` takes of these people; `n_items`: of which people are counted by item."""
        lists = self._read.lists
        if lists is None:
            return self.summed_up(self._read.kept, other)
        if n_items is not None:
            return self.counts(lists.cap, n_items)
        groups, items, people = self.listed_pairs(lists.cap)
        people += self._n_pairs
        self._n_pairs = int(people.max(initial=self._n_pairs - 1)) + 1
        return groups, items, people

    def next_part(self) -> None:
        """Forget the people so far: the rows to come are of others."""
        self._n_before += self.n_people
        self.pieces, self._people = [], ValueNumbers()
        self.n_people = self.n_rows = self.n_loose = self.n_read = 0
        if self._public:  # only those count, and the others would add up
            self._items = ValueNumbers()
        for items in self._public:
            self._items.numbers(items)
        self.__dict__.pop("all_slots", None)

    def joined(self, made: Any, other: Any) -> Any:
        """What was made of two parts of the people; the first is no longer needed."""
        if self._read.lists is None:
            return {place: merged(made[place], other[place]) for place in made}
        if self._read.lists.items:
            made += other
            return made
        return [*map(np.concatenate, zip(made, other, strict=True))]

    def lists(self, plans: Sequence[Plan], made: Any) -> list[Lists]:
        """What the UDF of each plan takes, from what was made of all people."""
        lists = self._read.lists
        if lists is None:
            return self.lists_of(plans, made)
        if lists.items:
            return [[[*made]]]
        pairs, self._items_of_codes = self.lists_of_pairs(*made)
        return [pairs]

    def items_of(self, answers: Any) -> tuple[Any, Any]:
        """The items that are in answers, as sent, and the answers with places among their own."""
        chosen, ends = answers.flatten(), np.append(0, np.cumsum(lengths(answers)))
        has_counts = pa.types.is_struct(chosen.type)
        places = whole_numbers(chosen.field("place") if has_counts else chosen)
        own = zip(self._items_of_codes, pairwise(ends.tolist()), strict=True)
        numbers = [listed[places[start:stop] - 1] for listed, (start, stop) in own]
        renumbered = arrow_numbers(
            np.arange(1, places.size + 1) - np.repeat(ends[:-1], np.diff(ends)), "int64"
        )
        if has_counts:
            columns = [renumbered, chosen.field("people")]
            renumbered = pa.StructArray.from_arrays(columns, ["place", "people"])
        each = pa.ListArray.from_arrays(arrow_numbers(ends, "int32"), renumbered)
        return self._items.values(np.concatenate(numbers)), each

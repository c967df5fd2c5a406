"""Rows that come in pieces of arrow, as numbers, and what is computed of people as arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pyarrow as pa

from dp_sql.engines.duckdb.arrow_rows import (
    Column,
    Columns,
    arrow_numbers,
    arrow_strings,
    not_null,
    whole_numbers,
)
from dp_sql.engines.duckdb.rows_in_memory import Computed, Piece, Rows
from dp_sql.privacy.private_sql.rows_read import Kept, RowsRead
from dp_sql.udfs.contributions.summaries import Summary


class ArrowPeople:
    """People's rows in memory, from batches of arrow, and what is computed of them, as arrow.

    Its methods are called in this order:

    1. `add_groups` and `add_items`, if groups or items are public.
    2. `add`, for each batch of rows.
    3. If groups are not public, they are those in the rows. `pairs` says who is in which of them,
       so that a mechanism can find some; `groups` has their keys, and `number` their order.
    4. `computed` or `lists`.
    """

    def __init__(self, read: RowsRead) -> None:
        self._read, self._people, self._keys, self._items = read, Column(), Columns(), Column()
        self._rows, self.n_rows, self._found = Rows(), 0, np.empty(0, np.int64)
        self._rows.has_groups = read.n_keys > 0

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return self._rows.n_groups

    def add_groups(self, keys: Sequence[Any]) -> None:
        """Add public groups, in order, from arrow arrays of their keys; before all rows."""
        self._keys.numbers(keys)
        self._rows.n_groups += len(keys[0])

    def add_items(self, items: Any) -> None:
        """Add public items, an arrow array in the order of their codes; before all rows."""
        self._items.numbers(items)

    def add(self, piece: Any) -> None:
        """Add the rows of an arrow batch."""
        self.n_rows += len(piece)
        n_keys, (person, *columns) = self._read.n_keys, piece.columns
        groups = self._keys.numbers(columns[:n_keys]) if n_keys else None
        items = columns[n_keys:]
        values = [
            whole_numbers(c) if s else None for c, s in zip(items, self._read.sends, strict=True)
        ]
        if self._read.lists is not None and not self._read.lists.sends_codes:
            values = [self._items.numbers(items[0])]
        owners = self._people.numbers(person)
        self._rows.n_people = self._people.size
        self._rows.pieces.append(Piece(owners, groups, values, [*map(not_null, items)]))

    def pairs(self) -> Any:
        """Who is in which group, as an arrow table; the groups are all keys in the rows."""
        self._rows.n_groups = self._keys.size
        people, groups = self._rows.all_slots
        columns = {"item": arrow_numbers(groups, "int32"), "person": arrow_numbers(people, "int64")}
        return pa.table(columns)

    def groups(self, found: Sequence[int]) -> Any:
        """Some of these groups as an arrow table of keys; `place` is a group's place in `found`."""
        self._found = np.array(found, np.int64)
        keys = self._keys.values(self._found) if self.n_rows else [pa.nulls(0)] * self._read.n_keys
        columns = {f"__dp_key_{i}": values for i, values in enumerate(keys)}
        return pa.table({"place": arrow_numbers(np.arange(len(found)), "int64"), **columns})

    def number(self, order: Sequence[int]) -> None:
        """Number the groups found, from their places in the order of the keys."""
        numbers = np.full(self.n_groups, -1)
        numbers[self._found[[*order]]] = np.arange(len(order))
        self._rows.order = numbers

    def computed(self, kept: Kept, other: Executor) -> tuple[Any, dict[int, Any]]:
        """What is computed: a row for each person in each group, if needed, and summaries."""
        made = self._rows.computed(kept, other)
        summaries = {place: _summary(one) for place, one in self._rows.summaries(kept, *made)}
        return _persons(kept, *made) if kept.values else None, summaries

    def lists(self, cap: int | None, n_items: int | None) -> Any:
        """A list of lists, one for each group, as an arrow table of one row.

        n_items: the lists say how many people have each item of a code from 0 to n_items - 1; None:
        the lists are of pairs of items and people.
        """
        if n_items is None:
            ends, codes, people = self._rows.pairs(cap)
            columns = [arrow_numbers(codes, "int32"), arrow_numbers(people, "int64")]
            name, values = "__dp_pairs", pa.StructArray.from_arrays(columns, ["item", "person"])
        else:
            ends, counts = n_items * np.arange(self.n_groups + 1), self._rows.counts(cap, n_items)
            name, values = "__dp_counts", arrow_numbers(counts, "int64")
        for each in (ends, [0, self.n_groups]):
            values = pa.ListArray.from_arrays(arrow_numbers(each, "int32"), values)
        return pa.table({name: values})


def _summary(made: Summary) -> Any:
    columns = {
        name: arrow_strings([*map(str, values)])
        if isinstance(values, list)
        else arrow_numbers(values, "int64")
        for name, values in made.items()
    }
    columns["__dp_group"] = arrow_numbers(np.asarray(made["group"]) + 1, "int64")
    return pa.table(columns)


def _persons(kept: Kept, people: Any, groups: Any, computed: Mapping[int, Computed]) -> Any:
    there = np.logical_or.reduce([made["count"] for made in computed.values()])
    present = slice(None) if there.all() else np.flatnonzero(there)
    columns = {
        "__dp_group": arrow_numbers(groups[present] + 1, "int64"),
        "__dp_privacy_unit": arrow_numbers(people[present], "int64"),
    }
    for i, made in computed.items():
        for name, values in made.items():
            if name != "sum":  # it is in a summary
                columns[f"__dp_{name}_{i}"] = arrow_numbers(values[present], "int64")
    return pa.table(columns)

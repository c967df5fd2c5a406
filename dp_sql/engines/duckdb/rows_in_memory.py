"""People's values, computed from rows that came as arrow batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dp_sql.engines.duckdb.arrow_rows import Column, Columns, arrow_numbers, arrow_strings
from dp_sql.privacy.private_sql.rows_read import Kept, RowsRead
from dp_sql.sql.shape import Summed
from dp_sql.udfs.contributions import slots as kernels
from dp_sql.udfs.contributions import summaries as summing
from dp_sql.udfs.exact_sampling import secret_draws


@dataclass(frozen=True)
class _Piece:
    """Rows: whose they are, the numbers of their groups, and what they have of each item.

    values: of each item, or None if they are not sent. there: which rows have it; None: all.
    """

    owners: Any
    groups: Any
    values: Sequence[Any]
    there: Sequence[Any]

    def at(self, rows: Any, slots: Any) -> _Piece:
        """Some of the rows, with their slots in place of people."""
        values, there = (
            [None if one is None else one[rows] for one in each]
            for each in (self.values, self.there)
        )
        return _Piece(slots, None, values, there)


class Rows:
    """Rows in memory. The keys of groups are added before them, in the order of their numbers."""

    def __init__(self, read: RowsRead) -> None:
        self._read, self._people, self._keys, self._items = read, Column(), Columns(), Column()
        self._pieces: list[_Piece] = []
        self.n_rows = self.n_groups = 0
        self._found: Any = None
        self._numbers: Any = None

    def add_groups(self, keys: Sequence[Any]) -> None:
        """Add groups, from arrow arrays of their keys."""
        self._keys.numbers(keys)
        self.n_groups += len(keys[0])

    def add_items(self, items: Any) -> None:
        """Add items, an arrow array, in the order of their codes, before rows that have them."""
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
        self._pieces.append(_Piece(owners, groups, values, [*map(not_null, items)]))

    def pairs(self) -> Any:
        """Who is in which group, as an arrow table; the groups are all keys in the rows."""
        self.n_groups = self._keys.size
        people, groups = self._own
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
        self._numbers = np.full(self.n_groups, -1)
        self._numbers[self._found[[*order]]] = np.arange(len(order))

    def computed(self, kept: Kept, other: Executor) -> tuple[Any, dict[int, Any]]:
        """What is computed: a row for each person in each group, if needed, and summaries.

        They are arrow tables.
        """
        people, groups, pieces = self._placed(kept.cap)
        computed = _computed(kept, pieces, len(people), other)
        summaries = {
            place: self._summary(by, people, groups, computed[i])
            for place, (i, by) in kept.summed.items()
        }
        return self._table(kept, people, groups, computed) if kept.values else None, summaries

    def _summary(self, by: Summed, people: Any, groups: Any, computed: Mapping[str, Any]) -> Any:
        """A summary, made from what is computed of an item."""
        n, sums = max(self.n_groups, 1), computed.get("sum")
        values = summing.Values(people, groups, n, computed["count"], sums)
        made = summing.summary(by.function, values, by.more)
        columns = {
            name: arrow_strings([*map(str, values)])
            if isinstance(values, list)
            else arrow_numbers(values, "int64")
            for name, values in made.items()
        }
        columns["__dp_group"] = arrow_numbers(np.asarray(made["group"]) + 1, "int64")
        return pa.table(columns)

    def _table(
        self, kept: Kept, people: Any, groups: Any, computed: Mapping[int, Mapping[str, Any]]
    ) -> Any:
        there = np.logical_or.reduce([made["count"] for made in computed.values()])
        present = slice(None) if there.all() else np.flatnonzero(there)
        columns = {
            "__dp_group": arrow_numbers(groups[present] + 1, "int64"),
            "__dp_privacy_unit": arrow_numbers(people[present], "int64"),
        }
        for i, item in kept.items.items():
            for name, values in computed[i].items():
                columns[f"__dp_{name}_{i}"] = _sent_back(values[present], item.scale)
        return pa.table(columns)

    def lists(self, cap: int | None, n_items: int | None) -> Any:
        """A list of lists, one for each group, as an arrow table of one row.

        n_items: the lists say how many people have each item of a code from 0 to n_items - 1; None:
        the lists are of pairs of items and people.
        """
        owners, groups, pieces = self._placed(cap)
        slots = _joined([piece.owners for piece in pieces], np.int32)
        items = _joined([piece.values[0] for piece in pieces], np.int64)
        if n_items is None:
            rows = groups[slots], items, owners[slots]
            ends, codes, people = kernels.pairs_of_groups(*rows, self.n_groups)
            columns = [arrow_numbers(codes, "int32"), arrow_numbers(people, "int64")]
            name, values = "__dp_pairs", pa.StructArray.from_arrays(columns, ["item", "person"])
        else:
            ends = n_items * np.arange(self.n_groups + 1)
            counts = kernels.count_people(slots, items, groups, self.n_groups, n_items)
            name, values = "__dp_counts", arrow_numbers(counts, "int64")
        for each in (ends, [0, self.n_groups]):
            values = pa.ListArray.from_arrays(arrow_numbers(each, "int32"), values)
        return pa.table({name: values})

    def _placed(self, cap: int | None) -> tuple[Any, Any, list[_Piece]]:
        """The person and the group of each slot, and the rows in slots."""
        n_people, n_groups, pieces = self._people.size, self.n_groups, self._pieces
        if not self._read.n_keys:
            return np.arange(n_people), np.zeros(n_people, np.int64), pieces
        numbers = np.arange(n_groups) if self._numbers is None else self._numbers
        owners, own = self._own
        if (numbers < 0).any():
            there = numbers[own] >= 0
            owners, own = owners[there], own[there]
        if cap is not None:
            drawn = kernels.draw_slots(owners, n_people, cap, secret_draws())
            owners, own = owners[drawn], own[drawn]
        places = kernels.place_rows(self._rows, owners, own, n_people, n_groups)
        placed = [piece.at(*some) for piece, some in zip(pieces, places, strict=True)]
        return owners, numbers[own], placed

    @cached_property
    def _own(self) -> Any:
        """The person and the group of each slot, if all are kept."""
        return kernels.own_groups(self._rows, self._people.size, self.n_groups)

    @property
    def _rows(self) -> list[tuple[Any, Any]]:
        return [(piece.owners, piece.groups) for piece in self._pieces]


def _computed(
    kept: Kept, pieces: Sequence[_Piece], n_slots: int, other: Executor
) -> dict[int, dict[str, Any]]:
    """What is computed of each item, for each slot, by name."""
    slots, computed = _joined([piece.owners for piece in pieces], np.int32), {}
    counts, sums = kernels.count_rows(slots, n_slots), dict[int, Future[Any]]()
    for i, item in kept.items.items():
        own, made = slots, dict[str, Any](count=counts)
        if any(piece.there[i] is not None for piece in pieces):
            there = [
                np.ones(piece.owners.size, bool) if (x := piece.there[i]) is None else x
                for piece in pieces
            ]
            own = np.where(_joined(there, bool), slots, np.int32(n_slots))
            made["count"] = kernels.count_rows(own, n_slots)
        values = _joined([x for piece in pieces if (x := piece.values[i]) is not None], np.int64)
        if item.scale is not None:
            sums[i] = other.submit(kernels.add_items, own, values, n_slots)
        if item.votes:
            made["vote"] = kernels.draw_items(own, values, made["count"], secret_draws())
        computed[i] = made
    for i, future in sums.items():
        computed[i]["sum"] = future.result()
    return computed


def _joined(arrays: Sequence[Any], kind: Any) -> Any:
    return np.concatenate([np.empty(0, kind), *arrays])


def not_null(column: Any) -> Any:
    """Which values of an arrow array are not NULL; None: all."""
    if not column.null_count:
        return None
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    there = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)]
    return there.view(bool)


def whole_numbers(column: Any) -> Any:
    """The values of an arrow array of numbers, in units; they fit 64 bits, the lowest first."""
    width = column.type.bit_width // 8
    sign = "u" if pa.types.is_unsigned_integer(column.type) else "i"
    found = np.frombuffer(column.buffers()[1] or b"", f"{sign}{min(width, 8)}")
    return found.reshape(-1, max(width // 8, 1))[column.offset : column.offset + len(column), 0]


def _sent_back(values: Any, scale: int | None) -> Any:
    """Numbers as an arrow array; a sum has two words."""
    if values.ndim == 1:
        return arrow_numbers(values, "int64")
    low, high = values.T
    if scale == 0 and np.array_equal(low >> 63, high):
        return arrow_numbers(low, "int64")
    kind = pa.decimal128(38, scale)
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )

"""People's values, computed from rows that came as arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dp_sql.engines.duckdb.arrow_rows import Column, Columns, arrow_numbers
from dp_sql.privacy.private_sql.group_bits import N_BITS
from dp_sql.privacy.private_sql.rows_read import Kept, RowsRead
from dp_sql.udfs.contributions import slots as kernels
from dp_sql.udfs.count_distinct.dense_numbers import Numbers
from dp_sql.udfs.exact_sampling import secret_draws

_OTHERS = 1 << 16  # values of keys that are no group; with more of them, all are forgotten


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
        self._read, self._people, self._keys = read, Column(), Columns()
        self._groups: list[Sequence[Any]] = []
        self._pieces: list[_Piece] = []
        self.n_rows = self._n_groups = 0
        self._found: Any = None
        self._numbers: Any = None

    def add_groups(self, keys: Sequence[Any]) -> None:
        """Add groups, from arrow arrays of their keys."""
        self._groups.append(keys)
        self._keys.numbers(keys)
        self._n_groups += len(keys[0])

    def add(self, piece: Any) -> None:
        """Add the rows of an arrow batch."""
        self.n_rows += len(piece)
        n_keys, (person, *columns) = self._read.n_keys, piece.columns
        groups = self._keys.numbers(columns[:n_keys]) if n_keys else None
        if self._groups and self._keys.size > self._n_groups + _OTHERS:
            self._keys = Columns()
            for keys in self._groups:
                self._keys.numbers(keys)
        items = columns[n_keys:]
        values = [_values(c) if s else None for c, s in zip(items, self._read.sends, strict=True)]
        owners = self._people.numbers(person)
        self._pieces.append(_Piece(owners, groups, values, [*map(_there, items)]))

    def pairs(self) -> Any:
        """Who is in which group, as an arrow table; the groups are all keys in the rows."""
        self._n_groups = self._keys.size
        few = self._n_groups <= N_BITS
        people, groups, _ = kernels.slots_of_groups(self._own) if few else self._slots
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
        self._numbers = np.full(self._n_groups, -1)
        self._numbers[self._found[[*order]]] = np.arange(len(order))

    def table(self, kept: Kept, other: Executor) -> Any:
        """What is computed as an arrow table: a row for each person in each group."""
        people, groups, pieces = self._placed(kept.cap)
        computed = _computed(kept, pieces, len(people), other)
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

    def _placed(self, cap: int | None) -> tuple[Any, Any, list[_Piece]]:
        """The person and the group of each slot, and the rows in slots."""
        n_people, n_groups, pieces = self._people.size, self._n_groups, self._pieces
        if not self._read.n_keys:
            return np.arange(n_people), np.zeros(n_people, np.int64), pieces
        numbers = np.arange(n_groups) if self._numbers is None else self._numbers
        there = numbers >= 0
        if n_groups > N_BITS:
            people, groups, placed = self._slots
            is_kept = there[groups]
            if cap is not None:
                is_kept[is_kept] = kernels.draw_slots(people[is_kept], cap, secret_draws())
            slots = np.where(is_kept, np.cumsum(is_kept) - 1, is_kept.sum()).astype(np.int32)
            placed = [replace(piece, owners=slots[piece.owners]) for piece in placed]
            return people[is_kept], numbers[groups[is_kept]], placed
        own = self._own & sum(1 << group for group in np.flatnonzero(there).tolist())
        kept = own if cap is None else kernels.draw_groups(own, cap, secret_draws())
        people, groups, first = kernels.slots_of_groups(kept)
        placed = [
            piece.at(*kernels.place_rows(piece.owners, piece.groups, n_groups, kept, first))
            for piece in pieces
        ]
        return people, numbers[groups], placed

    @cached_property
    def _own(self) -> Any:
        """The groups of each person as bits."""
        own = np.zeros(self._people.size, np.int64)
        for piece in self._pieces:
            kernels.add_groups(piece.owners, piece.groups, self._n_groups, own)
        return own

    @cached_property
    def _slots(self) -> tuple[Any, Any, list[_Piece]]:
        """All slots, if a person's groups are too many for bits: pairs of both are numbered."""
        pairs, placed = Numbers(), []
        for piece in self._pieces:
            rows = np.flatnonzero(piece.groups < self._n_groups)
            codes = piece.owners[rows] * np.int64(self._n_groups) + piece.groups[rows]
            placed.append(piece.at(rows, pairs.of(codes)))
        people, groups = np.divmod(pairs.codes, max(self._n_groups, 1))
        return people, groups, placed


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
        low, high = future.result().T
        is_small = kept.items[i].scale == 0 and np.array_equal(low >> 63, high)
        computed[i]["sum"] = low if is_small else future.result()
    return computed


def _joined(arrays: Sequence[Any], kind: Any) -> Any:
    return np.concatenate([np.empty(0, kind), *arrays])


def _there(column: Any) -> Any:
    """Which values of an arrow array are not NULL; None: all."""
    if not column.null_count:
        return None
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    there = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)]
    return there.view(bool)


def _values(column: Any) -> Any:
    """The values of an arrow array of numbers, in units; they fit 64 bits, the lowest first."""
    width = column.type.bit_width // 8
    sign = "u" if pa.types.is_unsigned_integer(column.type) else "i"
    found = np.frombuffer(column.buffers()[1] or b"", f"{sign}{min(width, 8)}")
    return found.reshape(-1, max(width // 8, 1))[column.offset : column.offset + len(column), 0]


def _sent_back(values: Any, scale: int | None) -> Any:
    """Numbers as an arrow array; a sum has two words."""
    if values.ndim == 1:
        return arrow_numbers(values, "int64")
    kind = pa.decimal128(38, scale)
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )

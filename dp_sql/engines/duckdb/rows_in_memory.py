"""People's rows in memory: what is counted, added up and drawn of each person in each group.

Each row comes as numbers: of its person, its group and its items. A slot is one person in one group
(udfs/contributions/slots.py). First the slots are listed, all or those that are drawn, and each row
is placed in its slot; then what is computed of people, and what mechanisms take, is added up.

Few rows come as DuckDB sends them (few_rows.py), more rows in pieces of arrow (many_rows.py). Of
both come the lists that UDFs take: for each column of a call one list, with an element for each
group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import chain, pairwise
from typing import Any

import numpy as np

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.rows_read import ItemRead, Kept
from dp_sql.udfs.contributions import slots as kernels
from dp_sql.udfs.contributions import summaries
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mixed import Mixed

Lists = list[Any]
"""What the UDF of a call takes."""

Computed = Mapping[int, Mapping[str, Any]]
"""Of each item: how many rows have it, what they add up to, and one vote, as summaries.Values."""


@dataclass(frozen=True)
class Piece:
    """Rows: the numbers of people and of groups, and what they have of each item.

    groups: None if there are none; numbers from `n_groups` on do not count. values: of each item,
    or None if none are needed. there: which rows have it; None: all. computed: in place of both,
    what is computed of rows that are combined; then no person has two rows in a group.
    """

    owners: Any
    groups: Any
    values: Sequence[Any] = ()
    there: Sequence[Any] = ()
    computed: Computed | None = None

    def at(self, rows: Any, slots: Any) -> Piece:
        """Some of the rows, with their slots in place of people."""
        if self.computed is not None:
            made = {
                i: {name: x[rows] for name, x in own.items()} for i, own in self.computed.items()
            }
            return Piece(slots, None, computed=made)
        values, there = (
            [None if one is None else one[rows] for one in each]
            for each in (self.values, self.there)
        )
        return Piece(slots, None, values, there)

    def by_slot(self, n_slots: int) -> Computed:
        """What is computed of these rows, for each slot; owners are slots."""
        return {
            i: {name: _put(column, self.owners, n_slots) for name, column in own.items()}
            for i, own in (self.computed or {}).items()
        }


def _put(column: Any, places: Any, n: int) -> Any:
    made = np.zeros((n, *column.shape[1:]), column.dtype)
    made[places] = column
    return made


class Rows:
    """Rows in memory: their pieces, and how many people and groups there are.

    order: the number of each group, below 0 if it does not count; None: they stay as they are.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.n_people = self.n_groups = 0
        self.has_groups = False
        self.order: Any = None

    @cached_property
    def all_slots(self) -> Any:
        """The person and the group of each slot, if all are kept."""
        return kernels.own_groups(self._rows, self.n_people, self.n_groups)

    @property
    def _rows(self) -> list[tuple[Any, Any]]:
        return [(piece.owners, piece.groups) for piece in self.pieces]

    def _placed(self, cap: int | None) -> tuple[Any, Any, list[Piece]]:
        """The person and the group of each slot, and the rows in slots."""
        if not self.has_groups:
            return np.arange(self.n_people), np.zeros(self.n_people, np.int64), self.pieces
        numbers = np.arange(self.n_groups) if self.order is None else self.order
        owners, own = self.all_slots
        if (numbers < 0).any():
            there = numbers[own] >= 0
            owners, own = owners[there], own[there]
        if cap is not None:
            drawn = kernels.draw_slots(owners, self.n_people, cap, secret_draws())
            kept = np.flatnonzero(drawn)  # faster than a mask
            owners, own = owners[kept], own[kept]
        return owners, numbers[own], self._in_slots(owners, own)

    def _in_slots(self, owners: Any, own: Any) -> list[Piece]:
        places = kernels.place_rows(self._rows, owners, own, self.n_people, self.n_groups)
        return [piece.at(*some) for piece, some in zip(self.pieces, places, strict=True)]

    def combine_rows(self, kept: Sequence[Kept]) -> None:
        """Combine all rows of a person in a group, or, without `kept`, those with the same item.

        What mechanisms take has the same distribution as without it (recursive.md, "A drawn vote").
        """
        owners, groups, pieces = np.arange(self.n_people, dtype=np.int32), None, self.pieces
        if self.has_groups:
            owners, groups = kernels.own_groups(self._rows, self.n_people, self.n_groups)
            pieces = self._in_slots(owners, groups)
        if kept:
            made = _computed(_items_of_all(kept), pieces, owners.size)
            self.pieces = [Piece(owners, groups, computed=made)]
            return
        slots, items = kernels.different_items(*_rows_with_items(pieces))
        own = None if groups is None else groups[slots]
        self.pieces = [Piece(owners[slots], own, [items], [None])]

    @property
    def n_answers(self) -> int:
        """How many groups are answered; without groups, one."""
        if not self.has_groups:
            return 1
        return self.n_groups if self.order is None else int((self.order >= 0).sum())

    def summed(self, plans: Sequence[Plan], kept: Sequence[Kept]) -> list[Lists]:
        """The lists of each plan, from people's values."""
        return self.lists_of(plans, self.summed_up(kept))

    def summed_up(
        self, kept: Sequence[Kept], other: Executor | None = None
    ) -> dict[int, summaries.Summary]:
        """What the lists of each plan are made of; calls with one cap share the draw."""
        found, n_groups = dict[int, summaries.Summary](), self.n_answers
        for each in kept:
            people, groups, pieces = self._placed(each.cap)
            computed = _computed(each.items, pieces, len(people), other)
            for place, (i, by) in each.summed.items():
                values = summaries.Values(people, groups, n_groups, **computed[i])
                found[place] = getattr(summaries, by.function)(values, *by.more)
        return found

    def lists_of(
        self, plans: Sequence[Plan], found: Mapping[int, summaries.Summary]
    ) -> list[Lists]:
        """The lists of each plan, from its summary."""
        lists = list[Lists]()
        for place, plan in enumerate(plans):
            lists.append(plan.parameters.lists_of(found[place]))
            if plan.parameters.mixes_groups:
                lists[place][:0] = self.n_answers, np.asarray(found[place]["group"]) + 1
        return lists

    def pairs(self, cap: int | None) -> tuple[Lists, list[Any]]:
        """Lists of pairs of items and people; in each group, the number of each code's item."""
        return self.lists_of_pairs(*self.listed_pairs(cap))

    def listed_pairs(self, cap: int | None) -> tuple[Any, Any, Any]:
        """The group, the item and the person of each row; a person has a number in each group."""
        _, groups, slots, items = self._listed(cap)
        return groups[slots].astype(np.int32), items.astype(np.int32), slots.astype(np.int64)

    def lists_of_pairs(self, groups: Any, items: Any, people: Any) -> tuple[Lists, list[Any]]:
        """What `pairs` returns, made of listed pairs."""
        if not self.has_groups:  # items are numbered as they came
            return [[(items, people)]], [np.arange(items.max(initial=-1) + 1)]
        rows = groups.astype(np.int64), items.astype(np.int64), people
        ends, codes, people, *of_codes = kernels.pairs_of_groups(*rows, self.n_groups)
        own = np.repeat(np.arange(self.n_groups), np.diff(ends))
        return [Mixed(self.n_groups, own, (codes, people))], _cut(of_codes[1], of_codes[0])

    def counts(self, cap: int | None, n_items: int) -> Any:
        """How many people have each item of a number from 0 to n_items - 1: a row of each group."""
        _, groups, slots, items = self._listed(cap)
        made = kernels.count_people(slots, items, groups, self.n_answers, n_items)
        return made.reshape(self.n_answers, n_items)

    def _listed(self, cap: int | None) -> tuple[Any, Any, Any, Any]:
        """The person and the group of each slot; the slot and the item of each row."""
        owners, groups, pieces = self._placed(cap)
        return owners, groups, *_rows_with_items(pieces)


def _rows_with_items(pieces: Sequence[Piece]) -> tuple[Any, Any]:
    """The slot and the item of each row."""
    slots = _joined([piece.owners for piece in pieces], np.int32)
    return slots, _joined([piece.values[0] for piece in pieces], np.int64)


def _items_of_all(kept: Sequence[Kept]) -> dict[int, ItemRead]:
    """What is computed of each item for any of the plans."""
    all_items = dict[int, ItemRead]()
    for i, item in chain.from_iterable(each.items.items() for each in kept):
        same = all_items.get(i, item)
        all_items[i] = ItemRead(same.sums or item.sums, same.votes or item.votes)
    return all_items


def _computed(
    items: Mapping[int, ItemRead], pieces: Sequence[Piece], n_slots: int,
    other: Executor | None = None,
) -> Computed:  # fmt: skip
    """What is computed of each item, for each slot; sums by the other thread."""
    made = [piece.by_slot(n_slots) for piece in pieces if piece.computed is not None]
    rows = [piece for piece in pieces if piece.computed is None]
    if rows or not made:
        made.append(_of_rows(items, rows, n_slots, other))
    return reduce(_combined, made)


def _combined(one: Computed, other: Computed) -> Computed:
    """What is computed of rows in two parts; of the items that are in both."""
    return {i: kernels.combined(one[i], own, secret_draws()) for i, own in other.items()}


def _of_rows(
    items: Mapping[int, ItemRead], pieces: Sequence[Piece], n_slots: int, other: Executor | None
) -> Computed:
    slots, computed = _joined([piece.owners for piece in pieces], np.int32), {}
    counts, sums = kernels.count_rows(slots, n_slots), dict[int, Callable[[], Any]]()
    for i, item in items.items():
        own, made = slots, dict[str, Any](counts=counts)
        if any(piece.there[i] is not None for piece in pieces):
            there = [
                np.ones(piece.owners.size, bool) if (x := piece.there[i]) is None else x
                for piece in pieces
            ]
            own = np.where(_joined(there, bool), slots, np.int32(n_slots))
            made["counts"] = kernels.count_rows(own, n_slots)
        values = _joined([x for piece in pieces if (x := piece.values[i]) is not None], np.int64)
        if item.sums:
            add = partial(kernels.add_items, own, values, n_slots)
            sums[i] = other.submit(add).result if other else add
        if item.votes:
            made["votes"] = kernels.draw_items(own, values, made["counts"], secret_draws())
        computed[i] = made
    for i, result in sums.items():
        computed[i]["sums"] = result()
    return computed


def _cut(array: Any, ends: Any) -> list[Any]:
    return [array[start:end] for start, end in pairwise(ends.tolist())]


def _joined(arrays: Sequence[Any], kind: Any) -> Any:
    if len(arrays) == 1:
        return np.ascontiguousarray(arrays[0], kind)
    return np.concatenate([np.empty(0, kind), *arrays], dtype=kind, casting="unsafe")

"""Values of each person in each group, from rows in memory: counts, sums, and one row drawn.

A slot stands for a person in a group. The slot after all others takes the rows that do not count.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.count_distinct.dense_numbers import Numbers
from dp_sql.udfs.count_distinct.kernels import Int32s, library, lists_by_person
from dp_sql.udfs.count_distinct.pairs import runs_of_items
from dp_sql.udfs.exact_sampling import Draws

Int64s = NDArray[np.int64]

Rows = Sequence[tuple[Int32s, Int32s]]
"""Rows in parts: the person of each row, and its group, which may be none of those that count."""

_DENSE = 4  # so many places for a row, at most, are a table of people and groups


def draw_groups(own: Int64s, cap: int, draws: Draws) -> Int64s:
    """Draw at most `cap` of each person's groups, which are bits of a number >= 0.

    Privacy: budget/accountants.md, "Releases that draw first".
    """
    kept = np.zeros((own.size, 8), np.uint8)
    used = _used_bytes(own)
    kept[:, : used.shape[1]] = draw_bits(used, cap, draws)
    return kept.view("<i8").ravel()


def draw_bits(own: NDArray[np.uint8], cap: int, draws: Draws) -> NDArray[np.uint8]:
    """Draw at most `cap` of the groups that are the bits of each row, of shape (people, bytes)."""
    bits = np.unpackbits(own, axis=1)
    bits[bits == 1] = draws.subsets(bits.sum(axis=1, dtype=np.int64), cap)
    return np.packbits(bits, axis=1)


def own_groups(rows: Rows, n_people: int, n_groups: int) -> tuple[Int32s, Int32s]:
    """List the different groups of each person, of those below n_groups.

    Returns the person and the group of each slot, person by person, each person's in order.
    """
    if _is_dense(rows, n_people, n_groups):
        there = np.zeros(n_people * n_groups, bool)
        for some in rows:
            library().mark_groups(*some, some[0].size, n_groups, there)
        owners, own = np.divmod(np.flatnonzero(there), max(n_groups, 1))
        return owners.astype(np.int32), own.astype(np.int32)
    people, groups = (np.concatenate(column) for column in zip(*rows, strict=True))
    if not (there := groups < n_groups).all():
        people, groups = people[there], groups[there]
    offsets, runs = runs_of_items(groups, people, numbered=True)
    order = np.arange(offsets.size - 1, dtype=np.int32)
    start, stop, own = lists_by_person(offsets, runs, order, n_people)
    owners = np.repeat(np.arange(n_people, dtype=np.int32), np.diff(start, append=own.size))
    if (stop - start).sum() < own.size:
        once = np.arange(own.size) < stop[owners]
        own, owners = own[once], owners[once]
    return owners, own


def _is_dense(rows: Rows, n_people: int, n_groups: int) -> bool:
    """Whether a table of people and groups has few places for each row."""
    return n_people * n_groups <= _DENSE * sum(people.size for people, _ in rows)


def draw_slots(owners: Int32s, n_people: int, cap: int, draws: Draws) -> NDArray[np.bool_]:
    """Draw at most `cap` of each person's slots; owners are in order. Returns which are drawn.

    Privacy: as in draw_groups.
    """
    return draws.subsets(np.bincount(owners, minlength=n_people), cap)


def _used_bytes(numbers: Int64s) -> NDArray[np.uint8]:
    """Bytes of numbers >= 0, a row for each number, the lowest first; none above the highest."""
    n_bytes = int(numbers.max(initial=0)).bit_length() + 7 >> 3
    return numbers.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :n_bytes]


def place_rows(
    rows: Rows, owners: Int32s, own: Int32s, n_people: int, n_groups: int
) -> list[tuple[Int32s, Int32s]]:
    """For each part of the rows: those in groups that are kept, and the slot of each.

    Slots are some of those of own_groups, in the same order.
    """
    is_dense = _is_dense(rows, n_people, n_groups)
    if is_dense:
        kept = np.zeros(n_people * n_groups, bool)
        places = owners.astype(np.int64) * n_groups + own
        table = np.empty(kept.size, np.int32)
        kept[places], table[places] = 1, np.arange(own.size)
    else:
        ends = np.zeros(n_people + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=n_people), out=ends[1:])
    placed = []
    for people, groups in rows:
        there, slots = np.empty(people.size, np.int32), np.empty(people.size, np.int32)
        some = people, groups, people.size
        if is_dense:
            n = library().place_by_table(*some, n_groups, kept, table, there, slots)
        else:
            n = library().place_rows(*some, ends, own, there, slots)
        placed.append((there[:n], slots[:n]))
    return placed


def count_rows(slots: Int32s, n_slots: int) -> Int32s:
    """Count the rows of each slot."""
    counts = np.zeros(n_slots + 1, np.int32)
    library().count_pairs(slots, slots.size, counts)
    return counts[:-1]


def count_people(
    slots: Int32s, items: Int64s, groups: Int64s, n_groups: int, n_items: int
) -> Int64s:
    """Count the people of each item in each group: group by group, in the order of the items.

    Row k says that a person in the group groups[slots[k]] has items[k], which counts if it
    is from 0 to n_items - 1.
    """
    there = (items >= 0) & (items < n_items)
    if not there.all():
        slots, items = slots[there], items[there]
    ends = np.append(
        np.cumsum(count_rows(slots, groups.size), dtype=np.int32), np.int32(slots.size)
    )
    rows, own = (slots, items.astype(np.int32), slots.size), np.empty(items.size, np.int32)
    counts, last = np.zeros(n_groups * n_items, np.int64), np.zeros(n_items, np.int32)
    of_slots = groups.astype(np.int64), groups.size, n_items, ends
    library().count_people(*rows, *of_slots, own, last, counts)
    return counts


def pairs_of_groups(
    groups: Int64s, items: Int64s, people: Int64s, n_groups: int
) -> tuple[Int64s, Int32s, Int64s, Int64s, Int64s]:
    """Sort rows by their groups.

    Returns where each group ends, codes 0, 1, 2, … of its items in each group, and people; where
    its different items end, and the item of each code.
    """
    n_items, cells = int(items.max(initial=0)) + 1, Numbers()
    numbers = cells.of(groups * n_items + items)
    firsts, order = by_group(cells.codes // n_items, n_groups)
    codes = np.empty(cells.size, np.int32)
    codes[order] = np.arange(cells.size) - np.repeat(firsts[:-1], np.diff(firsts))
    ends, rows = by_group(groups, n_groups)
    return ends, codes[numbers[rows]], people[rows], firsts, cells.codes[order] % n_items


def by_group(groups: Int64s, n_groups: int) -> tuple[Int64s, Int32s]:
    """Where each group's rows start and end, and the rows in this order."""
    offsets, order = runs_of_items(groups, np.arange(groups.size), numbered=True)
    ends = np.full(n_groups + 1, groups.size, np.int64)
    ends[: offsets.size] = offsets
    return ends, order


def add_items(slots: Int32s, items: Int64s, n_slots: int) -> Int64s:
    """Add up the items of each slot: the low and the high 64 bits of each sum."""
    sums = np.zeros((n_slots + 1, 2), np.int64)
    library().add_items(slots, items, slots.size, sums.ravel())
    return sums[:-1]


def draw_items(slots: Int32s, items: Int64s, counts: Int32s, draws: Draws) -> Int64s:
    """Draw one row of each slot, all with the same probability; return its item, 0 if none.

    Privacy: what is drawn for a person depends on that person's rows alone (recursive.md, "A drawn
        vote").
    """
    places = np.append(draws.places(counts), -1).astype(np.int32)
    taken = np.zeros(counts.size + 1, np.int64)
    library().take_items(slots, items, slots.size, places, taken)
    return taken[:-1]


def combined(one: Mapping[str, Any], other: Mapping[str, Any], draws: Draws) -> dict[str, Any]:
    """Combine what rows in two parts come to in each slot: counts, sums, votes (summaries.Values).

    Columns that the second lacks are left out. Privacy: the vote of one part is kept with the
    probability of its share of the rows, so that it is drawn as by draw_items from all of them.
    """
    made = {"counts": one["counts"] + other["counts"]}
    if "sums" in other:
        made["sums"] = one["sums"] + other["sums"]
        is_carried = made["sums"][:, 0].view(np.uint64) < other["sums"][:, 0].view(np.uint64)
        made["sums"][:, 1] += is_carried
    if "votes" in other:
        is_first = draws.places(made["counts"].astype(np.int64)) < one["counts"]
        made["votes"] = np.where(is_first, one["votes"], other["votes"])
    return made


def different_items(slots: Int32s, items: Int64s) -> tuple[Int32s, Int64s]:
    """Leave out rows whose slot has the same item in another row; items are below 2^31 in size."""
    least, pairs = int(items.min(initial=0)), Numbers()
    n_items = int(items.max(initial=0)) - least + 1
    pairs.of(slots.astype(np.int64) * n_items + (items - least))
    own, places = np.divmod(pairs.codes, n_items)
    return own.astype(np.int32), places + least

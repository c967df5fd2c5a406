"""Values of each person in each group, from rows in memory: counts, sums, and one row drawn.

A slot stands for a person in a group. The slot after all others takes the rows that do not count.
"""

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.count_distinct.kernels import Int32s, library
from dp_sql.udfs.count_distinct.pairs import runs_of_items
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import FRACTION_BITS

Int64s = NDArray[np.int64]


def add_groups(people: Int32s, groups: Int32s, n_groups: int, own: Int64s) -> None:
    """Add the groups of rows to those of their people, as bits; only groups below n_groups <= 62.

    Row k is of person people[k] < own.size, in group groups[k] >= 0.
    """
    library().add_groups(people, groups, people.size, n_groups, own)


def draw_groups(own: Int64s, cap: int, draws: Draws) -> Int64s:
    """Draw at most `cap` of each person's groups, which are bits of a number >= 0.

    Privacy: budget/accountants.md, "Releases that draw first".
    """
    kept = np.zeros((own.size, 8), np.uint8)
    used = _used_bytes(own)
    kept[:, : used.shape[1]] = draw_bits(used, cap, draws)
    return kept.view("<i8").ravel()


def draw_bits(own: NDArray[np.uint8], cap: int, draws: Draws) -> NDArray[np.uint8]:
    """The same of groups that are the bits of rows of bytes. Shape (people, bytes) both."""
    bits = np.unpackbits(own, axis=1)
    bits[bits == 1] = draws.subsets(bits.sum(axis=1, dtype=np.int64), cap)
    return np.packbits(bits, axis=1)


def draw_slots(people: Int64s, cap: int, draws: Draws) -> NDArray[np.bool_]:
    """Draw at most `cap` of each person's slots, from the person of each; the same draw.

    Returns which are drawn.
    """
    offsets, order = runs_of_items(people, np.arange(people.size), numbered=True)
    kept = np.empty(people.size, bool)
    kept[order] = draws.subsets(np.diff(offsets), cap)
    return kept


def slots_of_groups(kept: Int64s) -> tuple[Int64s, Int64s, Int32s]:
    """Number the groups of people, which are bits, person by person.

    Returns the person and the group of each slot, and the first slot of each person.
    """
    people, groups = np.nonzero(np.unpackbits(_used_bytes(kept), axis=1, bitorder="little"))
    sizes = np.bincount(people, minlength=kept.size)
    return people, groups, (np.cumsum(sizes) - sizes).astype(np.int32)


def _used_bytes(numbers: Int64s) -> NDArray[np.uint8]:
    """Bytes of numbers >= 0, a row for each number, the lowest first; none above the highest."""
    n_bytes = int(numbers.max(initial=0)).bit_length() + 7 >> 3
    return numbers.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :n_bytes]


def place_rows(
    people: Int32s, groups: Int32s, n_groups: int, kept: Int64s, first: Int32s
) -> tuple[Int32s, Int32s]:
    """The rows in groups that are kept, and the slot of each.

    Rows are those of add_groups. kept[p] has the groups in which person p counts, as bits,
    all below n_groups; first[p] is the slot of the lowest of them.
    """
    rows, slots = np.empty(people.size, np.int32), np.empty(people.size, np.int32)
    n = library().place_rows(people, groups, people.size, n_groups, kept, first, rows, slots)
    return rows[:n], slots[:n]


def count_rows(slots: Int32s, n_slots: int) -> Int32s:
    """Count the rows of each slot."""
    counts = np.zeros(n_slots + 1, np.int32)
    library().count_pairs(slots, slots.size, counts)
    return counts[:-1]


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


def means(
    counts: Int64s, sums: Int64s, bound: int | None, last: int
) -> list[tuple[int, int, int, int]]:
    """Sum up what bounded_mean takes, from how many rows people have, and what these add up to.

    sums: the low and the high 64 bits of each sum. bound: on a person's rows. last: the place of
        the largest bound, if there is none.

    Returns codes, buckets, people and totals, as sql/functions/avg.py says what they are.
    """
    table = np.zeros((4 * last + 5, 96, 3), np.int64)
    library().summarize_means(
        counts, sums.ravel(), counts.size, bound or 0, FRACTION_BITS, last, table.ravel()
    )
    codes, buckets = np.nonzero(table[:, :, 0])
    entries = zip(codes.tolist(), buckets.tolist(), table[codes, buckets].tolist(), strict=True)
    return [(code - 1, at, n, high << 64 | low % 2**64) for code, at, (n, low, high) in entries]

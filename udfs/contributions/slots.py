"""Values of each person in each group, from rows in memory: counts, sums, and one row drawn.

A slot is a person in a group, numbered person * n_groups + group. The slot after all others takes
the rows that do not count.
"""

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.count_distinct.kernels import Int32s, library
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import FRACTION_BITS

Int64s = NDArray[np.int64]


def groups_of_people(people: Int32s, groups: Int32s, n_people: int) -> Int64s:
    """The groups of each person, as bits; groups are below 63."""
    own = np.zeros(n_people, np.int64)
    library().groups_of_people(people, groups, people.size, own)
    return own


def draw_groups(own: Int64s, cap: int, draws: Draws) -> Int64s:
    """Draw at most `cap` of each person's groups, which are bits of a number >= 0.

    Privacy: budget/accountants.md, "Releases that draw first".
    """
    numbers = own.astype("<i8").view(np.uint8).reshape(-1, 8)
    bits = np.unpackbits(numbers, axis=1, bitorder="little")
    bits[bits == 1] = draws.subsets(bits.sum(axis=1, dtype=np.int64), cap)
    return np.packbits(bits, axis=1, bitorder="little").view("<i8").ravel()


def kept_slots(people: Int32s, groups: Int32s, n_groups: int, kept: Int64s) -> Int32s:
    """The slot of each row: the last one where the row's group is not a bit of `kept`.

    Row k is of person people[k] < kept.size, in group groups[k] < n_groups; kept[p] has the groups
    in which person p counts, as bits.
    """
    slots = np.empty(people.size, np.int32)
    last = kept.size * n_groups
    library().kept_slots(people, groups, people.size, n_groups, kept, last, slots)
    return slots


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

"""What mechanisms take of people's values in groups, summed up: people by what they contribute.

Slots are as in slots.py, groups are numbers from 0.
"""

from collections.abc import Mapping
from ctypes import byref, c_int64
from typing import Any, NamedTuple

import numpy as np

from dp_sql.udfs.contributions.slots import Int64s, by_group
from dp_sql.udfs.count_distinct.kernels import Int32s, library
from dp_sql.udfs.mechanism import FRACTION_BITS

Summary = Mapping[str, Int64s | list[int] | list[Int64s]]
"""Columns; integers of any size are in lists, and so are arrays."""

_ADDED = frozenset({"__dp_number", "people", "total", "low", "high"})  # columns that are no key
_CELLS = 1 << 21  # of a table, unless one group has more
_ENTRIES = 1 << 16
_N_SIZES = 128  # as SIZES in rows.c


class Values(NamedTuple):
    """What people's rows come to, for each slot; those of one person are next to each other.

    counts: how many rows count. sums: the low and the high 64 bits of what their items add up to.
    votes: the item of one of these rows.
    """

    owners: Int32s
    groups: Any
    n_groups: int
    counts: Int32s
    sums: Any = None
    votes: Any = None


def merged(one: Summary, other: Summary) -> Summary:
    """The summary of all people, from those that a function of this module made of two parts.

    Each is a function of a multiset of people: votes, or rows that add up by their keys.
    """
    if "votes" in one:
        places = np.searchsorted(one["group"], other["group"], side="right")
        return {name: np.insert(one[name], places, other[name]) for name in one}
    columns = {name: _joined(one[name], other[name]) for name in one}
    keys = [columns[name] for name in one if name not in _ADDED]
    order = np.lexsort(keys[::-1])
    is_new = np.ones(order.size, bool)
    is_new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    firsts = np.flatnonzero(is_new)
    return {
        name: _added(column[order], firsts) if name in _ADDED else column[order][firsts]
        for name, column in columns.items()
    }


def _joined(*columns: Any) -> Any:
    """One column of two; integers are objects if the sum of two may not fit 64 bits."""
    arrays = [np.array(x, object) if isinstance(x, list) else x for x in columns]
    if max(abs(int(x)) for one in arrays for x in (one.min(initial=0), one.max(initial=0))) >> 62:
        arrays = [one.astype(object) for one in arrays]
    return np.concatenate(arrays)


def _added(column: Any, firsts: Any) -> Any:
    """The sums of runs that begin at `firsts`; objects as a list."""
    sums = np.add.reduceat(column, firsts) if firsts.size else column
    return sums.tolist() if column.dtype == object else sums


def rows_in_all(values: Values, bound: int) -> Summary:
    """Sum up what draws of one number take: the rows of each group, of a person at most `bound`."""
    rows = np.zeros(values.n_groups, np.int64)
    np.add.at(rows, values.groups, np.minimum(values.counts.astype(np.int64), bound))
    return {"group": np.arange(values.n_groups), "__dp_number": rows}


def votes_by_group(values: Values) -> Summary:
    """List what quantiles take: the votes of people with a row that counts, group by group."""
    there = values.counts > 0
    ends, order = by_group(values.groups[there], values.n_groups)
    groups = np.repeat(np.arange(values.n_groups, dtype=np.int32), np.diff(ends))
    return {"group": groups, "votes": values.votes[there][order]}


def rows_under_limit(values: Values, bound: int) -> dict[str, Int64s]:
    """Sum up what chosen_norm takes: a row for each group, side and bucket of rows.

    bound: on a person's rows in a group, or 0.
    """
    owners, groups, n_groups, counts = values[:4]
    if bound:
        counts = np.minimum(counts, bound, dtype=np.int32)
    own = owners.astype(np.int32), groups.astype(np.int32), counts, counts.size
    n_sizes = int(counts.sum(dtype=np.int64)).bit_length() + 1
    parts, at_once = [np.empty((5, 0), np.int64)], max(1, _CELLS // (8 * n_sizes))
    for first in range(0, n_groups, at_once):
        table = np.zeros((4, min(at_once, n_groups - first), n_sizes, 2), np.int64)
        library().summarize_rows(*own, first, table.shape[1], n_sizes, table.ravel())
        side, group, bucket = np.nonzero(table[..., 0])
        parts.append(np.stack([group + first, side, bucket, *table[side, group, bucket].T]))
    names = ("group", "side", "bucket", "people", "total")
    return dict(zip(names, np.concatenate(parts, 1), strict=True))


def rows_by_size(values: Values, bound: int) -> Summary:
    """Sum up what bounded_count takes: a row for each group and bucket of rows.

    bound: on a person's rows in a group, or 0.
    """
    ends, order = by_group(values.groups, values.n_groups)
    given = order, values.counts, ends, values.n_groups, bound or 1 << 31
    made = _entries(library().summarize_counts, 1, values.n_groups, *given)
    groups, _, buckets, people, totals, _ = made.T
    return {"group": groups, "bucket": buckets, "people": people, "total": totals}


def sums_by_size(values: Values, bound: int, above: int) -> Summary:
    """Sum up what bounded_sum takes: a row for each group, side and bucket of sizes of sums.

    bound: on their sizes, or 0. above: 1 if those below 0 are left out, else 0.
    """
    high, low = divmod(bound or (1 << 127) - 1, 1 << 64)
    ends, order = by_group(values.groups, values.n_groups)
    given = order, values.sums.ravel(), ends, values.n_groups, low - ((low >> 63) << 64), high
    made = _entries(library().summarize_sums, 2, values.n_groups, *given)
    if above:
        made = made[made[:, 1] == 0]
    groups, sides, buckets, people, lows, highs = made.T
    columns = {"group": groups, "side": sides, "bucket": buckets, "people": people}
    return {**columns, "low": _whole(lows, highs), "high": np.zeros(len(made), np.int64)}


def _entries(kernel: Any, n_codes: int, n_groups: int, *given: Any) -> Int64s:
    """What a kernel makes: entries of a group, a code, a bucket, people, and two halves of totals.

    It is called until it has seen all groups, and makes so many entries at a time.
    """
    first, places = c_int64(0), np.zeros(n_codes * _N_SIZES, np.int32)
    entries = np.empty((max(_ENTRIES, places.size), 6), np.int64)
    parts = [entries[:0]]
    while first.value < n_groups:
        n = kernel(*given, byref(first), places, entries.ravel(), len(entries))
        parts.append(entries[:n].copy())
    return np.concatenate(parts)


def _whole(low: Int64s, high: Int64s) -> Int64s | list[int]:
    """Put both halves together, as 64 bits if all fit."""
    if not high.any() and (low >= 0).all():
        return low
    return [h << 64 | x % 2**64 for x, h in zip(low.tolist(), high.tolist(), strict=True)]


def means_by_size(values: Values, *more: int) -> Summary:
    """The summary that `means` makes, with its last arguments, from people in any order."""
    ends, order = by_group(values.groups, values.n_groups)
    sums = np.take(values.sums, order, axis=0)  # faster than sums[order]
    return means(values.counts[order].astype(np.int64), sums, ends, *more)


def means(
    counts: Int64s, sums: Int64s, ends: Int64s, bound: int, last: int, steps: int = 0
) -> Summary:
    """Sum up what bounded_mean takes, as sql/functions/avg.py says: by groups, codes and buckets.

    counts: of people, their rows; those of group g are from ends[g] to ends[g + 1] - 1. sums: the
        low and the high 64 bits of what their rows add up to. bound: on a person's rows, or 0.
        last: the place of the largest bound, if there is none. steps: of a range; then rows are
        counted from its lower end, and in the summary in halves from its middle; or 0.
    """
    n_groups = ends.size - 1
    given = counts, sums.ravel(), ends, n_groups, bound, steps, FRACTION_BITS, last
    made = _entries(library().summarize_means, 4 * last + 5, n_groups, *given)
    groups, codes, buckets, people, low, high = made.T
    columns = {"group": groups, "code": codes - 1, "bucket": buckets, "people": people}
    return {**columns, "total": _whole(low, high)}

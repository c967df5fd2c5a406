"""Pairs of an item and a person who has it, sorted by item or by person."""

import numpy as np

from dp_sql.udfs.count_distinct.dense_numbers import Numbers
from dp_sql.udfs.count_distinct.graph import LIMIT, Int32s, Int64s, Integers, zeros
from dp_sql.udfs.count_distinct.kernels import library, lists_by_person


def runs_of_items(
    items: Integers, people: Integers, *, numbered: bool = False
) -> tuple[Int32s, Int32s]:
    """Sort pairs into one run of people per item, as graph.build_graph takes them.

    Args:
        items: codes, integers >= 0 below 2^31 - 1, dense or nearly so, shape (pairs,).
        people: any integers of at most 64 bits, shape (pairs,); a pair may occur more than once.
        numbered: whether people are codes as items are, and keep them; else they are numbered.

    Raises ValueError for other arrays.
    """
    items, people = np.asarray(items), np.asarray(people)
    shapes = {array.shape for array in (items, people)}
    if len(shapes) > 1 or items.ndim != 1 or any(a.dtype.kind not in "iu" for a in (items, people)):
        raise ValueError("items and people must be arrays of as many integers")
    if items.size >= LIMIT:
        raise ValueError("there must be fewer than 2^31 - 1 pairs")
    for name, codes in (("item", items), ("person", people if numbered else items)):
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < LIMIT:
            raise ValueError(f"{name} codes must be at least 0 and below 2^31 - 1")
    codes = np.ascontiguousarray(items, np.int32)
    numbers = np.ascontiguousarray(people, np.int32) if numbered else Numbers().of(people)
    offsets = zeros(int(codes.max(initial=-1)) + 2)
    library().count_pairs(codes, codes.size, offsets[1:])
    np.cumsum(offsets, out=offsets)
    runs = np.empty(codes.size, np.int32)
    library().fill_runs(codes, numbers, codes.size, offsets[1:].copy(), runs)
    return offsets, runs


def items_of_people(items: Integers, people: Integers) -> tuple[Int64s, Int32s]:
    """Sort pairs by person: each person's number of different items, and these items."""
    offsets, runs = runs_of_items(items, people)
    order = np.arange(offsets.size - 1, dtype=np.int32)
    n_people = int(runs.max(initial=-1)) + 1
    start, stop, own = lists_by_person(offsets, runs, order, n_people)
    sizes = (stop - start).astype(np.int64)
    if sizes.sum() < own.size:
        rooms = np.diff(start, append=own.size)
        own = own[np.arange(own.size) < np.repeat(stop, rooms)]
    return sizes, own

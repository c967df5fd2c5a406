"""Pairs of an item and a person who has it, sorted by item or by person."""

from collections.abc import Iterator, Sequence

import numpy as np

from dp_sql.udfs.count_distinct.dense_numbers import Numbers
from dp_sql.udfs.count_distinct.graph import LIMIT, Graphs, Int32s, Int64s, Integers, join, zeros
from dp_sql.udfs.count_distinct.kernels import library
from dp_sql.udfs.mixed import Mixed
from dp_sql.udfs.slices import slices

_GROUPS, _PAIRS = 1 << 14, 1 << 20  # so many are sorted at once


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
    return _runs(*_numbers(items, people, numbered=numbered))


def runs_of_groups(
    groups: Sequence[tuple[Integers, Integers]], *, numbered: bool = False
) -> Sequence[tuple[Int32s, Int32s]]:
    """Sort the pairs of each group as runs_of_items does, in less time.

    Raises ValueError as it does. Unless `numbered`, the runs of a group are of no other items than
    those in its pairs, in the order in which they come; in a Mixed, in that of their codes.
    """
    if isinstance(groups, Mixed) and not numbered and (graphs := _graphs(groups)) is not None:
        return graphs
    if numbered:
        return [runs_of_items(*pairs, numbered=True) for pairs in groups]
    found = list[tuple[Int32s, Int32s]]()
    for part in slices([len(items) for items, _ in groups], _GROUPS, _PAIRS):
        some = groups[part]
        found += _together(some) if len(some) > 1 else [runs_of_items(*some[0])]
    return found


def _graphs(of: Mixed) -> Graphs | None:
    """The runs of all groups if their codes of items are dense and none has a person of another."""
    items, people = _checked(*of.columns)
    _check_codes("item", items)
    ends = np.searchsorted(of.owners, np.arange(of.n + 1))
    sizes, persons = np.diff(ends), Numbers().of(people)
    n_items, some = np.zeros(of.n, np.int64), sizes > 0
    n_items[some] = np.maximum.reduceat(items, ends[:-1][some]) + 1 if items.size else 0
    first, last = _spans(persons, ends[1:])
    if n_items.sum() > 2 * items.size or (persons < np.repeat(first, sizes)).any():
        return None
    item_ends = np.append(0, np.cumsum(n_items))
    numbers = (items + np.repeat(item_ends[:-1], sizes)).astype(np.int32)
    return Graphs(*_runs(numbers, persons), item_ends, np.array([0, *last]))


def _together(groups: Sequence[tuple[Integers, Integers]]) -> Iterator[tuple[Int32s, Int32s]]:
    """Number the items of all groups one after the other, and so the people; sort; cut."""
    of_items, of_people, ends, _ = _numbers_in_groups(groups)
    offsets, runs = runs_of_items(of_items, of_people, numbered=True)
    (low, high), (first, _) = (_spans(numbers, ends) for numbers in (of_items, of_people))
    for i, j, least in zip(low, high, first, strict=True):
        own = offsets[i : j + 1]
        yield own - own[0], runs[own[0] : own[-1]] - np.int32(least)


def _numbers_in_groups(
    groups: Sequence[tuple[Integers, Integers]],
) -> tuple[Int32s, Int32s, Int64s, Int64s]:
    """Number the items of each group, and so the people, and find where its pairs end.

    The last array has, for each item's number, its group times LIMIT plus its code.
    """
    checked = [_checked(*pairs) for pairs in groups]
    items, people = (join(column) for column in zip(*checked, strict=True))
    _check_codes("item", items)
    sizes = np.array([own.size for own, _ in checked])
    group, known, cells = np.repeat(np.arange(sizes.size), sizes), Numbers(), Numbers()
    persons = known.of(people).astype(np.int64)
    of_items = cells.of(group * LIMIT + items)
    return of_items, Numbers().of(group * known.size + persons), np.cumsum(sizes), cells.codes


def _spans(numbers: Int32s, ends: Int64s) -> tuple[list[int], list[int]]:
    """Find where the numbers of each group start and end, if they come in the order of groups."""
    most = np.append(0, np.maximum.accumulate(numbers) + 1)[ends].tolist()
    return [0, *most[:-1]], most


def items_of_people(items: Integers, people: Integers) -> tuple[Int64s, Int32s]:
    """Sort pairs by person: each person's number of different items, and these items.

    Raises ValueError as runs_of_items does.
    """
    codes, numbers = _numbers(items, people, numbered=False)
    offsets, own = _runs(numbers, codes)
    last, sizes = zeros(int(codes.max(initial=-1)) + 1), np.empty(offsets.size - 1, np.int64)
    n = library().keep_different(offsets, sizes.size, own, last, sizes)
    return sizes, own[:n]


def items_of_people_in_groups(
    groups: Sequence[tuple[Integers, Integers]],
) -> tuple[Int64s, Int32s, Int64s, Int64s]:
    """Sort the pairs of all groups as items_of_people does; no two groups share people.

    Items are numbered 0, 1, 2, ..., group by group; also returns the group and the code of each.
    """
    of_items, of_people, _, cells = _numbers_in_groups(groups)
    return *items_of_people(of_items, of_people), *np.divmod(cells, LIMIT)


def _numbers(items: Integers, people: Integers, *, numbered: bool) -> tuple[Int32s, Int32s]:
    """Check pairs; number the people, unless they are `numbered`."""
    items, people = _checked(items, people)
    if items.size >= LIMIT:
        raise ValueError("there must be fewer than 2^31 - 1 pairs")
    _check_codes("item", items)
    if numbered:
        _check_codes("person", people)
    numbers = np.ascontiguousarray(people, np.int32) if numbered else Numbers().of(people)
    return np.ascontiguousarray(items, np.int32), numbers


def _runs(keys: Int32s, values: Int32s) -> tuple[Int32s, Int32s]:
    """Sort values into one run per key, 0, 1, ...: where the runs begin and end, and the values."""
    offsets = zeros(int(keys.max(initial=-1)) + 2)
    library().count_pairs(keys, keys.size, offsets[1:])
    np.cumsum(offsets, out=offsets)
    runs = np.empty(keys.size, np.int32)
    library().fill_runs(keys, values, keys.size, offsets[1:].copy(), runs)
    return offsets, runs


def _checked(items: Integers, people: Integers) -> tuple[Integers, Integers]:
    """Refuse what are not two vectors of as many integers."""
    items, people = np.asarray(items), np.asarray(people)
    shapes = {array.shape for array in (items, people)}
    if len(shapes) > 1 or items.ndim != 1 or any(a.dtype.kind not in "iu" for a in (items, people)):
        raise ValueError("items and people must be arrays of as many integers")
    return items, people


def _check_codes(name: str, codes: Integers) -> None:
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < LIMIT:
        raise ValueError(f"{name} codes must be at least 0 and below 2^31 - 1")

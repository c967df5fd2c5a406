"""Pairs of items and people, sorted by item and by person."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from dp_sql.udfs.count_distinct.graph import LIMIT
from dp_sql.udfs.count_distinct.pairs import items_of_people, runs_of_items


def lists_of(pairs):
    """The items of each person, as a multiset of lists: people have no order."""
    people, items = np.array(pairs).T
    sizes, own = items_of_people(items, people)
    return Counter(tuple(sorted(one.tolist())) for one in np.split(own, np.cumsum(sizes)[:-1]))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint64])
def test_codes_that_differ_in_some_bits_are_different_people(kind):
    codes = {sum(1 << bit for bit in bits) for bits in combinations((0, 15, 16, 30, 47, 62), 2)}
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    people = np.array([least, most, *(c for c in codes if c < most)], kind)
    items, people = np.tile(np.arange(3), 2 * people.size), np.repeat(people, 6)
    sizes, own = items_of_people(items, people)
    assert sizes.tolist() == [3] * (people.size // 6)
    assert np.sort(own.reshape(-1, 3)).tolist() == [[0, 1, 2]] * sizes.size


def test_the_lists_are_those_of_the_pairs():
    pairs = np.random.default_rng(0).integers(0, (40, 9), (300, 2))
    wanted = Counter(tuple(sorted({i for q, i in pairs if q == p})) for p in {*pairs[:, 0]})
    assert lists_of(pairs) == wanted
    assert lists_of(pairs[::-1]) == wanted
    assert lists_of([(0, 0), (1, 2), (1, 0), (1, 2), (0, 0)]) == Counter([(0,), (0, 2)])


def test_the_runs_of_numbered_people_have_their_numbers():
    offsets, runs = runs_of_items(np.array([2, 0, 2, 2]), np.array([5, 9, 5, 1]), numbered=True)
    assert offsets.tolist() == [0, 1, 1, 4]
    assert runs[:1].tolist() == [9]
    assert sorted(runs[1:].tolist()) == [1, 5, 5]


def test_no_pairs_are_no_runs():
    nothing = np.zeros(0, np.int64)
    assert runs_of_items(nothing, nothing)[0].tolist() == [0]
    assert [one.tolist() for one in items_of_people(nothing, nothing)] == [[], []]


@pytest.mark.parametrize("code", [-1, LIMIT, 1 << 40])
def test_a_code_out_of_range_is_refused(code):
    with pytest.raises(ValueError, match="item codes"):
        runs_of_items(np.array([0, code]), np.array([0, 0]))
    with pytest.raises(ValueError, match="person codes"):
        runs_of_items(np.array([0, 0]), np.array([0, code]), numbered=True)


def test_as_many_pairs_as_offsets_cannot_count_are_refused():
    pairs = np.broadcast_to(np.int32(0), LIMIT)
    with pytest.raises(ValueError, match="fewer than"):
        runs_of_items(pairs, pairs)


@pytest.mark.parametrize("people", [np.zeros(3, np.int32), np.zeros(2), np.zeros((2, 1), np.int32)])
def test_other_arrays_are_refused(people):
    with pytest.raises(ValueError, match="arrays of as many integers"):
        runs_of_items(np.zeros(2, np.int32), people)

"""Pairs that are stored come back as they are asked for, and the counts from them are exact."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import stored_pairs
from dp_sql.udfs.count_distinct.flow import max_cover_counts
from dp_sql.udfs.count_distinct.partial import partial_cover_counts
from dp_sql.udfs.count_distinct.stored_pairs import Chosen, StoredPairs
from tests.pairs import in_pairs
from tests.udfs.covers import graph_of

BOUNDS = (1, 2, 3, 5, 16)
Pairs = set[tuple[int, int]]


def random_pairs(rng: np.random.Generator, repeats: int = 1) -> Any:
    """Pairs of dense numbers, popular items among them, in any order; shape (rows, 2)."""
    n_items, n_people = rng.integers(1, 60, 2)
    size = int(rng.integers(1, 600))
    drawn = np.stack(
        [(n_items * rng.random(size) ** 3).astype(int), rng.integers(0, n_people, size)]
    )
    dense = np.stack([np.unique(one, return_inverse=True)[1] for one in drawn], axis=1)
    return rng.permutation(np.repeat(dense, repeats, axis=0)).astype(np.int32)


def stored(rows: Any, folder: Path | None, pieces: int = 3) -> StoredPairs:
    found = StoredPairs(folder)
    for piece in np.array_split(rows, pieces):
        found.add(*np.ascontiguousarray(piece.T))
    return found


def read(answer: Iterable[Chosen]) -> tuple[list[tuple[int, int]], set[int]]:
    pairs: list[tuple[int, int]] = []
    complete: set[int] = set()
    for one in answer:
        pairs += zip(one.items.tolist(), one.people.tolist(), strict=True)
        complete |= {*one.complete.tolist()}
    return pairs, complete


@pytest.fixture(autouse=True)
def _sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_pairs, "WHOLE", 0)


KEPT = {"in memory": 10**6, "in a file": 0, "in both": 100}


@pytest.fixture(params=KEPT)
def folder(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path | None:
    monkeypatch.setattr(stored_pairs, "IN_MEMORY", KEPT[request.param])
    return tmp_path


@pytest.mark.one_in(4)
@pytest.mark.parametrize("repeats", [1, 9])
def test_what_is_asked_for_comes(folder: Path, repeats: int) -> None:
    rng, n_asked = np.random.default_rng(1), 0
    for _ in range(30):
        rows = random_pairs(rng, repeats)
        everything = {*map(tuple, rows.tolist())}
        pairs = stored(rows, folder)
        some, complete = read(pairs.thin(2))
        assert {*some} <= everything
        assert {i for i, _ in some} == {i for i, _ in everything}
        assert {p for _, p in some} == {p for _, p in everything}
        assert {pair for pair in everything if pair[0] in complete} <= {*some}
        if len(complete) == pairs.n_items:  # they are forgotten
            continue
        n_asked += 1
        items, people = rng.integers(0, pairs.n_items, 3), rng.integers(0, pairs.n_people, 2)
        asked, complete = read(pairs.complete(items, people))
        assert {*asked} == {(i, p) for i, p in everything if i in items or p in people}
        assert complete == {*items.tolist()}
        pairs.close()
    assert n_asked > 0


def check_counts(folder: Path | None, rng: np.random.Generator) -> None:
    check_counts_of(random_pairs(rng, int(rng.integers(1, 4))), folder)


def check_counts_of(rows: Any, folder: Path | None) -> None:
    n_items, n_people = rows.max(axis=0) + 1
    runs = [[p for i, p in rows.tolist() if i == item] for item in range(n_items)]
    pairs = stored(rows, folder)
    found = partial_cover_counts(
        pairs.thin, pairs.complete, BOUNDS, n_people, 1, numbered=(n_items, n_people)
    )
    pairs.close()
    assert found.counts.tolist() == max_cover_counts(graph_of(runs), BOUNDS).tolist()


@pytest.mark.one_in(3)
def test_counts_are_exact(folder: Path) -> None:
    for seed in range(100):
        check_counts(folder, np.random.default_rng(seed))


SPECIAL = [
    [(0, 0)],
    [(0, 0)] * 500,
    [(i, 0) for i in range(300)],  # one person
    [(0, p) for p in range(300)],  # one item
    [(i, 0) for i in range(300)] + [(i % 40, 1 + i % 7) for i in range(300)],  # a busy person
    [(0, p) for p in range(300)] + [(1 + p // 2, p) for p in range(300)],  # a popular item
    [(i, p) for i in range(300) for p in (i, i + 1)],  # a chain
]


@pytest.mark.parametrize(
    ("rows", "whole", "folder"),
    in_pairs(SPECIAL, [0, 100, 10**6], [*KEPT]),
    indirect=["folder"],
)
def test_counts_of_special_graphs_are_exact(
    rows: list[tuple[int, int]], whole: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pairs, "WHOLE", whole)
    check_counts_of(np.array(rows, np.int32), folder)
    check_counts_of(np.array(rows[::-1] + rows, np.int32), folder)  # each twice


@pytest.mark.parametrize("whole", [100, 10**6])
def test_few_pairs_all_come_as_they_are(
    whole: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    monkeypatch.setattr(stored_pairs, "WHOLE", whole)
    for _ in range(30):
        check_counts(folder, rng)
    rows = random_pairs(rng)
    pairs = stored(rows, folder, 9)
    some, complete = read(pairs.thin(1))
    came = sorted(some) == sorted(map(tuple, rows.tolist()))
    assert came == (len(rows) <= whole) and (complete == {*range(pairs.n_items)}) >= came
    assert pairs._waiting == deque()


def test_popular_items_are_thinned_and_pairs_are_passed_on_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_pairs, "fair_bits", lambda n: 5)  # which pairs are in the sample
    n_people = 5000
    people = np.tile(np.arange(n_people), 20)
    rows = np.stack([np.zeros_like(people), people], axis=1)
    rows = np.concatenate([rows, np.stack([people + 1, people], axis=1)]).astype(np.int32)
    some, complete = read(stored(rows, None).thin(8))
    assert len(some) == len({*some}) == 2 * n_people or len(some) < n_people + 100
    assert sum(item == 0 for item, _ in some) < 100
    assert complete == {*range(1, n_people + 1)}


def test_which_pairs_come_first_does_not_depend_on_their_order() -> None:
    """People who come first would else be the only ones of all popular items."""
    rows = np.array([(i, p) for p in range(1000) for i in range(50)], np.int32)
    some, _ = read(stored(rows, None).thin(8))
    assert np.std([p for _, p in some]) > 200


def test_an_item_may_come_more_often_than_a_count_can_say() -> None:
    rows = np.array([(0, p) for p in range(1000)], np.int32)
    pairs = stored(rows, None, 1)
    pairs._counts[0] = 2**31 - 2  # as if it had come as often before
    pairs.add(*np.ascontiguousarray(rows.T))
    assert pairs._counts[0] == 2**31 - 1
    assert read(pairs.thin(8))[1] == set()


def test_rows_per_pair_are_those_of_a_small_sample() -> None:
    n = 1 << 17
    items = np.arange(n, dtype=np.int32)
    pairs = stored(np.tile(np.stack([items, n - 1 - items % 2], axis=1), (3, 1)), None)
    assert pairs._rows_per_pair == 3
    assert sum(one.size for one in pairs._sample) < n // 64


def test_the_same_pairs_come_first_however_many_are_put_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, n_people = np.random.default_rng(2), 300
    popular = [(n_people + i, p) for i in range(20) for p in rng.permutation(n_people)[: 15 * i]]
    rows = rng.permutation([*popular, *((p, p) for p in range(n_people))]).astype(np.int32)
    monkeypatch.setattr(stored_pairs, "fair_bits", lambda n: 5)
    found, n_front = [], []
    for most in (0, 12, 10**6):
        monkeypatch.setattr(stored_pairs, "_MOST", most)
        pairs = stored(rows, None, 9)
        found.append({*read(pairs.thin(8))[0]})
        n_front.append(sum(items.size for items, _ in pairs._first.read()))
    assert found[0] == found[1] == found[2] and len(found[0]) < len(rows) / 4
    assert n_front[0] <= n_people < len(found[1]) < n_front[1] < n_front[2] == len(rows)


def test_a_file_keeps_to_its_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stored_pairs, "IN_MEMORY", 0)
    pairs = StoredPairs(tmp_path, lambda: 100)
    one = np.arange(10, dtype=np.int32)
    pairs.add(one, one)
    assert not any(tmp_path.iterdir())  # no one can open it by its name
    with pytest.raises(OSError, match="more space"):
        pairs.add(one, one)
    pairs.close()


def test_a_choice_that_leaves_pairs_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = stored_pairs._chosen

    def wrong(kernel: Any, blocks: Any, *known: Any) -> Any:
        halves = (
            (items[: items.size // 2], people[: people.size // 2]) for items, people in blocks
        )
        return right(kernel, halves, *known)

    monkeypatch.setattr(stored_pairs, "_chosen", wrong)
    with pytest.raises((AssertionError, RuntimeError)):
        for seed in range(20):
            check_counts(None, np.random.default_rng(seed))

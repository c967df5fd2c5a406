"""People's values that are computed in memory are those that DuckDB computes."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines.duckdb import (
    arrow_rows,
    few_rows,
    install,
    many_rows,
    mechanism_udfs,
    release_sql,
    row_estimate,
    rows_in_memory,
)
from dp_sql.engines.duckdb.arrow_people import ArrowPeople
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.errors import QueryError
from dp_sql.privacy.plans.plan import Plan
from dp_sql.sql.functions.chosen_limit import RowsUnderChosenLimit
from dp_sql.sql.functions.vectors import PeopleOfGroups
from dp_sql.udfs.contributions import slots
from dp_sql.udfs.exact_sampling import secret_draws
from tests.conftest import SURE
from tests.pairs import in_pairs
from tests.session.several_calls import priced, wrap_draws

ROWS = """
CREATE TYPE mood AS ENUM ('glad', 'calm');
CREATE TABLE seen AS SELECT i,
    CASE WHEN i % 50 > 0 THEN i * i % 91 END AS u, 'p' || u AS name, u % 2 = 0 AS half,
    CAST(lpad(CAST(u AS VARCHAR), 32, 'a') AS UUID) AS id, CAST(u AS HUGEINT) << 70 AS huge,
    'r' || i % 5 AS region, CAST(['calm', 'glad'][1 + i % 2] AS mood) AS mood, i % 3 AS n, CAST(nullif(i % 83 - 40, 3) AS INTEGER) AS x,
    CASE WHEN i % 4 > 0 THEN (i % 7 - 3) * 3000000000000000000 END AS large,
    CAST(x / 4 AS DECIMAL(9, 2)) AS price, CAST(x AS DECIMAL(18, 3)) * 7 AS rent,
    CAST(x AS DECIMAL(20, 1)) AS wide, CAST(abs(x) AS UINTEGER) AS small,
    DATE '2026-01-01' + x AS day, x / 8 AS real, lpad(region, CAST(254 + i % 3 AS INTEGER), 'a') AS long, encode(long) AS bytes, CAST(NULL AS INTEGER) AS nothing
FROM range(2000) AS r(i);
CREATE TABLE items AS SELECT i, x, day, long, bytes, mood, price, rent, small FROM seen;
"""
CALLS = [
    "DP_COUNT(*, {0})", "DP_COUNT(x, {0})", "DP_COUNT(region, {0}, contribution_bound := 3)",
    "DP_COUNT(nothing, {0})", "DP_COUNT_DISTINCT(user_id, {0})", "DP_SUM(x, {0})", "DP_SUM(large, {0})",
    "DP_SUM(price, {0})", "DP_SUM(small, {0}, contribution_bound := 9)", "DP_AVG(x, {0})",
    "DP_AVG(large, {0})", "DP_AVG(rent, {0}, contribution_bound := 4)", "DP_AVG(price, {0})",
    "DP_AVG(nothing, {0})", "DP_MEDIAN(x, {0}, lower := -30, upper := 30)",
    "DP_QUANTILE(day, [0.25, 0.5], {0}, lower := DATE '2025-12-01', upper := DATE '2026-02-01')",
    "DP_MEDIAN(real, {0}, lower := -4, upper := 4, step := 0.25)",
    "DP_QUANTILE(rent, 0.9, {0}, lower := 0, upper := 100)",
    "DP_AVG(rent, {0}, lower := 0, upper := 100)", "DP_AVG(huge, {0}, lower := -9, upper := 9)",
]  # fmt: skip
COMBINED = slots.combined
MADE, ADD = many_rows._made, ArrowPeople.add
BESIDE = CALLS[0], CALLS[9], CALLS[14]
TOGETHER = [CALLS[n::4] for n in range(4)]
GROUPS = [
    "", "groups := ['r0', 'r1', 'r3', 'none'], max_groups_contributed := 2",
    "groups := ['r0', 'r1', 'r2', 'r3', 'r4'], max_groups_contributed := 5",
    "delta := 1e-6, max_groups_contributed := 5",
]  # fmt: skip
Taken = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    """Of each person's rows the smallest is drawn, and of the groups the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(install, "words_of_rows", lambda rows: rows.combine_chunks())
        patch.setattr(mechanism_udfs, "_kept_places", first_places)
        patch.setattr(slots, "draw_items", smallest)
        patch.setattr(slots, "combined", smallest_of_both)
        patch.setattr(slots, "draw_groups", first_groups)
        patch.setattr(slots, "draw_slots", first_slots)
        with dp_sql.connect() as session:
            session.execute(ROWS)
            yield session


def smallest(rows: Any, items: Any, counts: Any, draws: object) -> Any:
    taken = np.full(counts.size + 1, np.iinfo(np.int64).max)
    np.minimum.at(taken, rows, items)
    return taken[:-1]


def smallest_of_both(one: Any, other: Any, draws: object) -> Any:
    made = COMBINED(one, other, secret_draws())
    if "votes" in made:
        votes = [
            np.where(own["counts"] > 0, own["votes"], np.iinfo(np.int64).max)
            for own in (one, other)
        ]
        made["votes"] = np.minimum(*votes)
    return made


def in_the_first_slots(rows: Any, owners: Any, own: Any, n_people: int, n_groups: int) -> Any:
    placed = []
    for people, _ in rows:
        there = np.flatnonzero(np.isin(people, owners)).astype(np.int32)
        placed.append((there, np.searchsorted(owners, people[there]).astype(np.int32)))
    return placed


def first_slots(owners: Any, n: int, cap: int, draws: object) -> Any:
    return np.arange(owners.size) - np.searchsorted(owners, owners) < cap


def first_places(sizes: Any, cap: int) -> Any:
    places = [[*range(1, min(size, cap) + 1)] for size in sizes.tolist()]
    return pa.array(places, pa.list_(pa.int64()))


def first_groups(own: Any, cap: int, draws: object) -> Any:
    kept = np.zeros_like(own)
    for _ in range(cap):
        kept |= (own & ~kept) & -(own & ~kept)
    return kept


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """What the mechanisms take, in any order; their epsilons differ."""
    found: Taken = []

    def note(shape: Any, lists: Any) -> None:
        columns = [_plain(name, x) for name, x in zip(shape.takes, lists, strict=True)]
        are_lists = columns[1:] and isinstance(columns[0], list)
        some = [sorted(zip(*columns, strict=True))] if are_lists else columns
        found.append((shape.epsilon, type(shape).__name__, *map(_sorted, some)))

    wrap_draws(monkeypatch, note)
    real = PeopleOfGroups.draw_groups

    def draw_groups(self: PeopleOfGroups, *given: Any) -> Any:
        for lists in given[3]:
            note(self, lists)
        return real(self, *given)

    monkeypatch.setattr(PeopleOfGroups, "draw_groups", draw_groups)
    monkeypatch.setattr(RowsUnderChosenLimit, "draw_groups", draw_groups)
    return found


def _plain(name: str, values: Any) -> Any:
    if name == "__dp_sums":  # SQL writes numbers of any size as strings
        return [*map(str, values)]
    return values.tolist() if isinstance(values, np.ndarray) else values


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[int]:
    """Have each source read into memory, in small pieces; notes each reading.

    In half of the tests people are read in three parts where they can be, and in half of both
    the rows of a person in a group are combined after each piece.
    """
    if len(request.node.name) % 4 > 1:
        monkeypatch.setattr(ArrowPeople, "add", add_and_make_room)
    if len(request.node.name) % 2:
        monkeypatch.setattr(many_rows, "_made", in_three_parts)
    found: list[int] = []
    real = many_rows._read
    monkeypatch.setattr(few_rows, "FEW", 0)
    monkeypatch.setattr(many_rows, "LEAST", 0)
    monkeypatch.setattr(many_rows, "ROWS_EACH", 1 << 60)
    monkeypatch.setattr(arrow_rows, "ROWS", 300)
    monkeypatch.setattr(many_rows, "_read", lambda *given: (found.append(1), real(*given))[1])
    return found


def add_and_make_room(rows: ArrowPeople, piece: Any) -> None:
    ADD(rows, piece)
    rows.make_room()


def in_three_parts(*given: Any) -> tuple[Any, str]:
    return MADE(*given[:-1], 3)


def both_ways(
    session: dp_sql.Session, statement: str, taken: Taken, patch: pytest.MonkeyPatch
) -> tuple[Taken, Taken]:
    """What is taken in memory, and from DuckDB."""
    in_memory = _run(session, statement, taken)
    with patch.context() as other:
        other.setattr(many_rows, "LEAST", 1 << 60)
        return in_memory, _run(session, statement, taken)


def _run(session: dp_sql.Session, statement: str, taken: Taken) -> Taken:
    taken.clear()
    session.sql(statement).fetchall()
    return sorted(taken, key=itemgetter(0, 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("calls", "unit", "groups"), in_pairs(TOGETHER, ["u", "name", "id", "huge", "half"], GROUPS)
)
def test_mechanisms_take_what_duckdb_computes(
    calls: list[str], groups: str, unit: str, owner: dp_sql.Session, taken: Taken,
    reads: list[int], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    listed = ", ".join(priced(one, n, groups) for n, one in enumerate(calls))
    listed = listed.replace("user_id", unit)
    by = "GROUP BY region" if groups else "WHERE n < 2"
    statement = f"SELECT {'region, ' if groups else ''}{listed} FROM seen {by}"
    in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
    assert in_memory == from_duckdb
    assert len(reads) == 1 and (in_memory or unit == "half")  # too few people to find groups


@pytest.mark.one_in(4)
@pytest.mark.parametrize("unit", ["u", "name"])
@pytest.mark.parametrize("beside", [[], [CALLS[1]], [CALLS[2], CALLS[4]]])
@pytest.mark.parametrize("call", [CALLS[0], CALLS[1], CALLS[3]])
def test_limits_are_chosen_from_what_duckdb_computes(
    call: str, beside: list[str], unit: str, owner: dp_sql.Session, taken: Taken, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    calls = [
        priced(one, n, GROUPS[1].partition(", max")[0]) for n, one in enumerate([call, *beside])
    ]
    listed = ", ".join(calls).replace("user_id", unit)
    both = both_ways(
        owner, f"SELECT region, {listed} FROM seen GROUP BY region", taken, monkeypatch
    )
    in_memory, from_duckdb = ([*map(_over_groups, one)] for one in both)
    assert len(reads) == 1 and sorted(in_memory) == sorted(from_duckdb) and in_memory


def _over_groups(taken: tuple[Any, ...]) -> Any:
    """What is taken, without the rows that may be in any group of a person; these differ in ties."""
    epsilon, shape, rows = taken[:3]
    if isinstance(rows, list):
        rows = [row for row in rows if row[0] % 2 == 0]
    return epsilon, shape, rows


@pytest.mark.one_in(6)
@pytest.mark.parametrize("are_public", [True, False])
@pytest.mark.parametrize(
    "keys",
    [
        "x",
        "day",
        "half",
        "price",
        "name, n",
        "huge, region, half",
        "region, mood, id",
        "i",
        "mood, large",
        "long, n",
        "n, bytes",
        "mood, n, region",
    ],
)
def test_keys_of_any_types_make_the_same_groups(
    keys: str, are_public: bool, owner: dp_sql.Session, taken: Taken, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    owner.execute(
        f"CREATE OR REPLACE TABLE listed AS SELECT {keys} FROM seen WHERE i % 5 < 2 UNION ALL "
        f"SELECT {keys} FROM seen ORDER BY ALL DESC LIMIT 50"
    )
    groups = f"groups := (SELECT {keys} FROM listed)" if are_public else "delta := 1e-6"
    groups += ", max_groups_contributed := 1000"
    calls = ", ".join(priced(call, n, groups) for n, call in enumerate(BESIDE))
    statement = f"SELECT {keys}, {calls} FROM seen GROUP BY {keys}".replace("user_id", "u")
    in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
    assert in_memory == from_duckdb
    assert len(reads) == 1 and (in_memory or not are_public)  # no one's groups are found


LISTS = [
    "DP_COUNT_DISTINCT({1}, {0})",
    "DP_COUNT_DISTINCT({1}, {0}, mechanism := 'r2t', max_contributions := 9)",
    "DP_TOPK({1}, 2, {0}, domain := observed)",
    "DP_TOPK({1}, 2, {0}, delta := 1e-6, max_contributions := 9)",
    "DP_TOPK({1}, 2, {0}, domain := (SELECT {1} FROM items WHERE i % 5 = 1))",
]


ITEMS = ["x", "day", "long", "bytes", "mood", "price", "rent", "i", "small"]
WHERE = [*product(GROUPS[1:3], ["seen", "seen JOIN (SELECT 1 AS one) ON one = 1"])]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("nth_item", "item"), [*enumerate(ITEMS)])
@pytest.mark.parametrize(("nth_call", "call"), [*enumerate(LISTS)])
def test_lists_are_those_that_duckdb_makes(
    nth_call: int, call: str, nth_item: int, item: str,
    owner: dp_sql.Session, taken: Taken, reads: list[int], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Any two of the calls, items, units, and groups with a source meet."""
    unit = ["u", "name", "id", "huge"][(nth_call + nth_item) % 4]
    groups, source = WHERE[(nth_call + 2 * nth_item + nth_item // 4) % 4]
    asked = priced(call.replace("{1}", item), 0, groups).replace("user_id", unit)
    statement = f"SELECT region, {asked} FROM {source} GROUP BY region ORDER BY region"
    in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
    assert [*map(_anonymous, in_memory)] == [*map(_anonymous, from_duckdb)] and in_memory
    assert reads == [1]


def _anonymous(taken: tuple[Any, ...]) -> Any:
    """What is taken, in which codes of people and items mean nothing."""
    epsilon, shape, first = taken
    if shape not in {"CountDistinct", "TopKOfPairs"}:
        return taken
    pairs = {*zip(*(one.tolist() for one in first), strict=True)}
    sizes = [sorted(Counter(pair[i] for pair in pairs).values()) for i in range(2)]
    return epsilon, sizes, {item for item, _ in pairs} == {*range(len(sizes[0]))}


@pytest.mark.parametrize("item", ["x", "long", "mood", "price"])
def test_items_have_their_own_counts(item: str, owner: dp_sql.Session, reads: list[int]) -> None:
    call = f"DP_TOPK({item}, 2, {SURE}, privacy_unit := name, domain := observed, counts := true, {GROUPS[2]})"
    rows = f"(SELECT {item}, name, region FROM seen WHERE i % 7 < 4)"
    exact = {
        tuple(row[:2]): row[2]
        for row in owner.execute(
            f"SELECT region, {item}, count(DISTINCT name) FROM {rows} GROUP BY ALL"
        ).fetchall()
    }
    for region, found in owner.sql(f"SELECT region, {call} FROM {rows} GROUP BY region").fetchall():
        assert len(found) == 2
        assert [one["count"] for one in found] == [exact[region, one["item"]] for one in found]
    assert reads


FOUND = [
    *product(["x", "day", "region", "long", "bytes", "mood", "price", "wide"], ["i", "name"]),
    *product(["id", "huge", "half", "name", "n"], ["i"]),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("found", "way", "groups"), in_pairs(FOUND, ["few", "many", "in DuckDB"], GROUPS[:3:2])
)
def test_items_found_have_their_own_counts(
    found: tuple[str, str], way: str, groups: str, owner: dp_sql.Session, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    item, unit = found
    if way == "few":
        monkeypatch.setattr(few_rows, "FEW", 1 << 60)
    if way != "many":
        monkeypatch.setattr(many_rows, "LEAST", 1 << 60)
    call = f"DP_TOPK({item}, 9, {SURE}, privacy_unit := {unit}, delta := 1e-6, counts := true, max_contributions := 99{groups and ', '}{groups})"
    exact = Counter[Any]()
    people = f"SELECT DISTINCT {'region' if groups else 1}, {item}, {unit} FROM seen WHERE {item} IS NOT NULL AND {unit} IS NOT NULL"
    for region, key, _ in owner.execute(people).fetchall():
        exact[region, key] += 1
    by = "GROUP BY region ORDER BY region" if groups else ""
    rows = owner.sql(f"SELECT {'region' if groups else 1}, {call} FROM seen WHERE i >= 0 {by}")
    for region, listed in rows.fetchall():
        right = sorted(
            (n for (own, _), n in exact.items() if own == region and n > 2), reverse=True
        )
        counts = [one["count"] for one in listed]
        assert counts == [exact[region, one["item"]] for one in listed] == right[:9]
        assert len({one["item"] for one in listed}) == len(listed) > 0
    assert len(reads) == (way == "many")


@pytest.mark.parametrize("groups", GROUPS[::2])
@pytest.mark.parametrize("item", ["long", "bytes", "right(long, 65)"])
def test_strings_that_take_too_much_memory_are_read_as_hashes(
    item: str, groups: str, owner: dp_sql.Session, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, right = set[int](), arrow_rows.ValueNumbers.numbers

    def numbers(self: arrow_rows.ValueNumbers, values: Any) -> Any:
        if len(reads) == 2:
            sizes.update(map(len, values.cast("binary").to_pylist()))
        return right(self, values)

    monkeypatch.setattr(many_rows, "SHARE", 1 << 60)
    monkeypatch.setattr(arrow_rows.ValueNumbers, "numbers", numbers)
    rows = f"(SELECT {item} AS item, name, region FROM seen)"
    call = f"DP_TOPK(item, 5, {SURE}, privacy_unit := name, delta := 1e-6, counts := true, max_contributions := 99{groups and ', '}{groups})"
    key, by = ("region", "GROUP BY region ORDER BY 1") if groups else ("1", "")
    answers = owner.sql(f"SELECT {key}, {call} FROM {rows} {by}").fetchall()
    counted = f"SELECT {key}, item, count(DISTINCT name) AS n FROM {rows} GROUP BY ALL ORDER BY ALL"
    exact = {(one, which): n for one, which, n in owner.execute(counted).fetchall()}
    for one, found in answers:
        counts = [n for (own, _), n in exact.items() if own == one and n > 2]
        assert [each["count"] for each in found] == sorted(counts, reverse=True)[:5]
        assert found == [{"item": x["item"], "count": exact[one, x["item"]]} for x in found]
    assert answers and reads == [1, 1] and max(sizes) == arrow_rows.SHORTER
    tables = "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE '__dp_computed%'"
    assert owner.execute(tables).fetchall() == [(0,)]


def test_groups_whose_keys_take_too_much_memory_have_their_own_answers(
    owner: dp_sql.Session, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_rows, "SHARE", 1 << 60)
    test_groups_found_have_their_own_answers("n, lpad(region, 66, 'b')", owner, reads)
    assert reads == [1, 1]


@pytest.mark.parametrize("item", ["x", "region", "bytes", "price", "wide", "id"])
def test_no_items_are_found_in_no_rows(item: str, owner: dp_sql.Session, reads: list[int]) -> None:
    call = f"DP_TOPK({item}, 9, {SURE}, privacy_unit := u, delta := 1e-6, max_contributions := 9"
    assert owner.sql(f"SELECT {call}) FROM seen WHERE i < 0").fetchall() == [([],)]
    groups = f"SELECT region, {call}, {GROUPS[2]}) FROM seen WHERE i < 0 GROUP BY region"
    assert sorted(owner.sql(groups).fetchall()) == [(f"r{i}", []) for i in range(5)]
    assert reads == [1, 1]


@pytest.mark.parametrize("keys", ["region, n", "n, bytes", "n, long"])
def test_groups_found_have_their_own_answers(
    keys: str, owner: dp_sql.Session, reads: list[int]
) -> None:
    given = f"{SURE}, privacy_unit := u, contribution_bound := 9, max_groups_contributed := 15"
    rows = f"FROM seen WHERE u >= 0 AND i < 200 + 120 * (i % 15) GROUP BY {keys} ORDER BY {keys}"
    found = owner.sql(f"SELECT {keys}, DP_COUNT(*, {given}, delta := 1e-6) {rows}").fetchall()
    exact = {row[:2]: row[2] for row in owner.execute(f"SELECT {keys}, count(*) {rows}").fetchall()}
    right = [exact[row[:2]] for row in found]
    assert [row[2] for row in found] == pytest.approx(right, abs=3) and len({*right}) > 9
    assert reads


def test_values_of_others_are_noticed(
    owner: dp_sql.Session, taken: Taken, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "place_rows", in_the_first_slots)
    with pytest.raises(AssertionError):
        test_mechanisms_take_what_duckdb_computes(
            TOGETHER[0], GROUPS[1], "u", owner, taken, reads, monkeypatch
        )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DP_SUM(wide, {0}), DP_MEDIAN(x, {0}, lower := 0, upper := 9) FROM seen",  # more than 64 bits
        "SELECT DP_AVG(x, {0}), DP_COUNT(*, {0}), DP_COUNT_DISTINCT(u, {0}) FROM seen",  # sooner
        "SELECT DP_TOPK(region, 2, {0}, domain := ['r0', 'r1']), DP_COUNT(*, {0}) FROM seen",
    ],
)
def test_duckdb_computes_what_memory_does_not(
    query: str, owner: dp_sql.Session, reads: list[int]
) -> None:
    assert owner.sql(query.format(f"{SURE}, privacy_unit := u")).fetchall()
    assert not reads


MEDIAN = f"SELECT DP_MEDIAN(x, {SURE}, privacy_unit := u, lower := 0, upper := 9) FROM seen"


def test_duckdb_takes_over_where_there_are_more_rows_than_it_estimates(
    owner: dp_sql.Session, taken: Taken, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = LISTS[0].replace("{1}", "x").format(f"{SURE}, privacy_unit := u, {GROUPS[1]}")
    monkeypatch.setattr(many_rows, "_made", MADE)
    monkeypatch.setattr(many_rows, "MOST", 900)
    monkeypatch.setattr(row_estimate, "n_rows", lambda *_: 50)
    statement = f"SELECT region, {call} FROM seen GROUP BY region"
    in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
    assert [*map(_anonymous, in_memory)] == [*map(_anonymous, from_duckdb)] and in_memory
    assert reads == [1]


LISTS_OF_I = [call.replace("{1}", "i") for call in LISTS[2::2]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("estimated", [50, 2000, 1 << 40])
@pytest.mark.parametrize(
    ("call", "groups"),
    [
        *product([CALLS[0], CALLS[9], CALLS[14]], [GROUPS[1], GROUPS[3]]),
        *product(LISTS_OF_I, [GROUPS[1]]),
    ],
)
def test_people_with_more_rows_than_fit_are_read_in_parts(
    call: str, groups: str, estimated: int, owner: dp_sql.Session, taken: Taken, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    sizes, kept, real = list[tuple[int, int]](), list[int](), many_rows._add
    most = 400 if call in LISTS_OF_I else 100

    def add(reading: Any, *given: Any, is_limited: bool = True) -> None:
        real(reading, *given, is_limited=is_limited)
        rows = reading.rows
        sizes.append((rows.n_read, rows.n_rows))
        kept.append(rows._items.size - rows.n_rows)

    monkeypatch.setattr(many_rows, "_add", add)
    monkeypatch.setattr(many_rows, "_made", MADE)
    monkeypatch.setattr(many_rows, "MOST", most)
    monkeypatch.setattr(arrow_rows, "ROWS", 30)
    monkeypatch.setattr(row_estimate, "n_rows", lambda *_: estimated)
    asked = priced(call, 0, groups).replace("user_id", "u")
    statement = f"SELECT region, {asked} FROM seen GROUP BY region ORDER BY region"
    in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
    assert in_memory == from_duckdb and in_memory
    if groups == GROUPS[3]:  # groups are found before
        half = len(sizes) // 2
        assert sizes[:half] == sizes[half:]
        del sizes[half:]
    n_read, n_kept = zip(*sizes, strict=True)
    assert reads == [1] and len(sizes) > sum(n_kept) // most and max(n_kept) <= most
    assert (sum(n_read) > 2 * sum(n_kept)) == (most == 100)  # a person's rows are combined
    n_items = 400 if "FROM items" in call else 2000 if "TOPK" in call else 0
    assert max(kept) <= n_items  # none of the other parts, besides those that are public


def test_members_of_unknown_groups_that_do_not_fit_are_left_to_duckdb(
    owner: dp_sql.Session, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, real = list[int](), many_rows._found
    monkeypatch.setattr(many_rows, "_found", lambda *given: (found.append(1), real(*given))[1])
    monkeypatch.setattr(many_rows, "_made", MADE)
    monkeypatch.setattr(many_rows, "MOST", 400)
    call = f"DP_COUNT(*, {SURE}, privacy_unit := u, delta := 1e-6, max_groups_contributed := 5)"
    for each in (2, 0):
        monkeypatch.setattr(many_rows, "MEMBERS", each)
        assert owner.sql(f"SELECT region, {call} FROM seen GROUP BY region").fetchall()
        assert found == [1]
    assert reads == [1, 1]


def test_groups_found_are_those_that_were_noted(
    owner: dp_sql.Session, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are written between both readings change no key, and may be in no group."""
    call = f"DP_COUNT(*, {SURE}, privacy_unit := u, delta := 1e-6, max_groups_contributed := 9)"
    owner.execute("CREATE OR REPLACE TABLE grows AS SELECT u, region FROM seen WHERE u IS NOT NULL")
    size = "SELECT region, count(*) FROM grows GROUP BY region ORDER BY region"
    exact, real, added = owner.execute(size).fetchall(), many_rows._add, list[int]()

    def add(*given: Any, is_limited: bool = True) -> None:
        if not is_limited and not added:
            added.append(1)
            owner.connection.cursor().execute("INSERT INTO grows SELECT u, 'new' FROM grows")
        real(*given, is_limited=is_limited)

    monkeypatch.setattr(many_rows, "_add", add)
    monkeypatch.setattr(many_rows, "_made", lambda *given: MADE(*given[:-1], 4))
    query = f"SELECT region, {call} FROM grows GROUP BY region ORDER BY region"
    found = owner.sql(query).fetchall()
    assert added == [1] and reads == [1] and [key for key, _ in found] == [key for key, _ in exact]
    assert [n for _, n in found] == pytest.approx([n for _, n in exact], abs=3)


def test_a_person_s_rows_are_in_one_part(owner: dp_sql.Session) -> None:
    for unit in ("u", "name", "id", "huge", "half", "real", "day", "price", "bytes"):
        select = f"SELECT {unit} AS __dp_privacy_unit FROM seen WHERE {unit} IS NOT NULL"
        parts = [owner.execute(many_rows._part_of(select, i, 7)).fetchall() for i in range(7)]
        people = Counter(row for part in parts for row in {*part})
        assert {*people.values()} == {1}
        assert sorted(row for part in parts for row in part) == sorted(
            owner.execute(select).fetchall()
        )


@pytest.mark.parametrize("most", [400, 1 << 20])
@pytest.mark.parametrize(
    "call", ["DP_MEDIAN(x, {0}, lower := 0, upper := 9)", LISTS[2].replace("{1}", "x")]
)
def test_groups_that_are_changed_meanwhile_keep_their_numbers(
    call: str, most: int, tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = many_rows._add, str(tmp_path / "shop.duckdb")
    monkeypatch.setattr(many_rows, "_made", MADE)
    monkeypatch.setattr(many_rows, "MOST", most)
    monkeypatch.setattr(arrow_rows, "ROWS", 30)
    with duckdb.connect(path) as con, dp_sql.connect(path) as session:
        con.execute("CREATE TABLE g AS SELECT i AS n FROM range(1, 6) AS r(i)")
        con.execute(
            "CREATE TABLE own AS SELECT i % 99 AS u, i % 5 + 1 AS n, n AS x FROM range(990) AS r(i)"
        )

        def add(*given: Any, is_limited: bool = True) -> None:
            real(*given, is_limited=is_limited)
            con.execute("DELETE FROM g WHERE n = 1")

        monkeypatch.setattr(many_rows, "_add", add)
        asked = priced(call, 0, "groups := (SELECT n FROM g), max_groups_contributed := 5")
        asked = asked.replace("user_id", "u").replace(", 2,", ", 1,")
        found = session.sql(f"SELECT n, {asked} FROM own GROUP BY n").fetchall()
    assert [(n, *(x if isinstance(x, list) else [x])) for n, x in found] == [
        (n, n) for n in range(1, 6)
    ]
    assert reads == [1]


def test_rows_of_too_few_people_are_left_to_duckdb(
    owner: dp_sql.Session, taken: Taken, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_rows, "_made", MADE)
    monkeypatch.setattr(many_rows, "MOST", 400)
    asked = priced(CALLS[0], 0, GROUPS[1]).replace("user_id", "half")
    statement = f"SELECT region, {asked} FROM seen GROUP BY region ORDER BY region"
    in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
    assert in_memory == from_duckdb and in_memory and reads == [1]


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes each part that is read, as many as there are by the rows."""
    found, real = list[int](), many_rows._add

    def add(*given: Any, **more: Any) -> None:
        found.append(1)
        real(*given, **more)

    monkeypatch.setattr(many_rows, "_made", MADE)
    monkeypatch.setattr(many_rows, "_add", add)
    return found


def test_sources_of_another_size_are_not_read(
    owner: dp_sql.Session, reads: list[int], added: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LEAST", 2001), ("MOST", 1), ("BYTES", 1 << 60)):
        with monkeypatch.context() as patch:
            patch.setattr(many_rows, name, value)
            patch.setattr(many_rows, "MOST_PARTS", 9)
            owner.sql(MEDIAN).fetchall()
        assert not added and reads == [1] * (name != "LEAST")
        reads.clear()
    owner.sql(MEDIAN).fetchall()
    assert reads == added == [1]


@pytest.mark.parametrize(
    ("n_before", "is_read"), [((1 << 31) - 10_000, True), ((1 << 31) - 9, False)]
)
def test_counts_of_a_part_stay_within_32_bits(
    n_before: int, is_read: bool, owner: dp_sql.Session, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A piece that would pass them is not added; DuckDB counts in 64 bits."""
    added, real = list[int](), ArrowPeople.next_part

    def next_part(rows: ArrowPeople) -> None:
        real(rows)
        rows.n_read = n_before

    def add(rows: ArrowPeople, piece: Any) -> None:
        added.append(len(piece))
        ADD(rows, piece)

    monkeypatch.setattr(ArrowPeople, "next_part", next_part)
    monkeypatch.setattr(ArrowPeople, "add", add)
    assert owner.sql(MEDIAN).fetchall()
    assert reads == [1] and bool(added) == is_read


def test_lists_take_more_memory_for_a_row_than_values(
    owner: dp_sql.Session, reads: list[int], added: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DuckDB makes itself would take more for a row than either, and fail after the debit."""
    assert many_rows.BYTES < many_rows.BYTES_OF_LISTS <= 128
    lists = (
        f"SELECT DP_TOPK(x, 1, {SURE}, delta := 1e-6, privacy_unit := u, "
        "mechanism := 'weighted_gaussian') FROM seen"
    )
    for of_lists, n_parts in ((1 << 60, 0), (1 << 7, 1)):
        monkeypatch.setattr(many_rows, "BYTES_OF_LISTS", of_lists)
        owner.sql(lists).fetchall()
        assert len(added) == n_parts
    owner.sql(MEDIAN).fetchall()
    assert len(reads) == 3 and len(added) == 2


@pytest.mark.parametrize("call", [LISTS[0], LISTS[3]])
def test_pairs_of_parts_are_kept_together(
    call: str, owner: dp_sql.Session, taken: Taken, reads: list[int], added: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = priced(call.replace("{1}", "x"), 0, GROUPS[1]).replace("user_id", "u")
    statement = f"SELECT region, {asked} FROM seen GROUP BY region"
    for most, n_parts in ((400, 6), (200, 0)):  # of which there are few
        monkeypatch.setattr(many_rows, "MOST", most)
        added.clear()
        in_memory, from_duckdb = both_ways(owner, statement, taken, monkeypatch)
        assert [*map(_anonymous, in_memory)] == [*map(_anonymous, from_duckdb)] and in_memory
        assert len(added) == n_parts and reads


@pytest.mark.parametrize("call, is_read", [(CALLS[0], False), (CALLS[5], False), (CALLS[14], True)])
def test_people_with_many_rows_in_a_group_are_added_up_by_duckdb(
    call: str, is_read: bool, owner: dp_sql.Session, taken: Taken, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(many_rows, "ROWS_EACH", 40)
    asked = priced(call, 0, GROUPS[1])
    for unit, few in (("n", True), ("u", False)):
        rows = f"SELECT region, {asked.replace('user_id', unit)} FROM seen GROUP BY region"
        one, other = both_ways(owner, rows, taken, monkeypatch)
        assert one == other and reads == ([1] if is_read or not few else [])
        reads.clear()


@pytest.mark.parametrize("call", [CALLS[0], CALLS[5], CALLS[14]])
@pytest.mark.parametrize("rows", ["seen WHERE i >= 0", "(SELECT region, u, x + 1 AS x FROM seen)"])
@pytest.mark.usefixtures("owner")
def test_an_analyst_s_rows_are_read_as_an_owner_s(
    call: str, rows: str, tmp_path: Path, taken: Taken, reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Without its optimizers, DuckDB has no estimate for the scan of a table."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as con:
        con.execute(ROWS)
    monkeypatch.setattr(many_rows, "LEAST", 1999)
    policy = tmp_path / "policy.toml"
    policy.write_text('tables.seen.privacy_unit = "u"', "utf-8")
    asked = priced(call, 0, GROUPS[1]).replace(", privacy_unit := user_id", "")
    statement = f"SELECT region, {asked} FROM {rows} GROUP BY region"
    with dp_sql.connect(str(tmp_path / "shop.duckdb"), policy=policy) as analyst:
        one, other = both_ways(analyst, statement, taken, monkeypatch)
    assert one == other and one and reads == [1]


def test_nothing_is_left_in_the_database(owner: dp_sql.Session, reads: list[int]) -> None:
    owner.sql(MEDIAN).fetchall()
    call = priced(LISTS[2].replace("{1}", "mood"), 0, GROUPS[1]).replace("user_id", "name")
    owner.sql(
        f"SELECT region, {call} FROM seen JOIN (SELECT 1 AS one) ON one = 1 GROUP BY region"
    ).fetchall()
    views = (
        "SELECT view_name AS name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables()"
    )
    left = f"SELECT name FROM ({views}) WHERE name SIMILAR TO '__dp_(computed|made).*'"
    assert reads == [1, 1] and owner.execute(left).fetchall() == []


def test_a_plain_connection_computes_in_memory(reads: list[int]) -> None:
    with duckdb.connect() as con:
        con.execute(ROWS)
        dp_sql.install(con)
        assert len(con.sql(MEDIAN).fetchall()) == 1
        assert len(dp_sql.receipts(con)) == 1
    assert reads


def test_a_source_that_fails_spends_and_says_as_much_as_ever(
    owner: dp_sql.Session, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = MEDIAN.replace("FROM seen", "FROM (SELECT u, CAST(region AS INTEGER) AS x FROM seen)")
    said = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(many_rows, "LEAST", least)
        with pytest.raises(QueryError) as caught:
            owner.sql(failing).fetchall()
        said.append(str(caught.value))
    assert said[0] == said[1] and reads


@pytest.mark.parametrize("call", [CALLS[0], CALLS[5], CALLS[9], CALLS[14]])
def test_no_group_is_found_where_no_row_is_left(
    call: str, owner: dp_sql.Session, reads: list[int]
) -> None:
    asked = priced(call, 0, GROUPS[3]).replace("user_id", "u")
    assert not owner.sql(f"SELECT region, {asked} FROM seen WHERE i < 0 GROUP BY region").fetchall()
    assert reads


def test_an_interrupt_while_rows_are_in_memory_is_not_lost(
    owner: dp_sql.Session, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, summed = rows_in_memory.Rows.summed_up, list[int]()

    def interrupted(*given: Any) -> Any:
        summed.append(1)
        owner.interrupt()
        return table(*given)

    monkeypatch.setattr(rows_in_memory.Rows, "summed_up", interrupted)
    for made in (in_three_parts, MADE):
        monkeypatch.setattr(many_rows, "_made", made)
        with pytest.raises(QueryError, match="was interrupted"):
            owner.sql(MEDIAN).fetchall()
    assert reads == [1, 1] == summed  # no other part is read


@pytest.mark.one_in(2)
@pytest.mark.parametrize("locked", [False, True])
def test_people_are_grouped_in_arrays_while_a_release_runs(
    locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = "SELECT current_setting('perfect_ht_threshold')"
    seen: list[object] = []
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE v AS SELECT i % 5000 AS u, 'p' || u AS name FROM range(20000) AS r(i)"
        )
        ((before,),) = session.execute(bits).fetchall()
        if locked:  # DuckDB 1 needs the first of these
            session.execute("SET disabled_optimizers = 'statistics_propagation'")
            session.execute("SET lock_configuration = true")
        right = release_sql.people_in_arrays

        @contextlib.contextmanager
        def watched(plans: Sequence[Plan], engine: Engine) -> Iterator[None]:
            with right(plans, engine):
                seen.extend(*engine.run(bits).fetchall())
                yield

        monkeypatch.setattr(few_rows, "FEW", 0)
        monkeypatch.setattr(release_sql, "people_in_arrays", watched)
        monkeypatch.setattr(many_rows, "LEAST", 0)
        for unit in ("u", "name"):
            asked = f"DP_COUNT_DISTINCT({unit}, {SURE}, privacy_unit := {unit})"
            assert session.execute(f"SELECT {asked} FROM v").fetchall() == [(5000,)]
        if not locked:  # the arrays of many calls are shorter; DuckDB takes 32 bits at most
            with monkeypatch.context() as patch:
                patch.setattr(row_estimate, "n_rows", lambda *_: 1 << 60)
                for limit in ("64MB", "1000TB"):
                    session.execute(f"SET memory_limit = '{limit}'; SET threads = 1")
                    for n in (1, 2):
                        calls = ", ".join(
                            f"DP_COUNT(*, epsilon := {9000 + i}, privacy_unit := u)"
                            for i in range(n)
                        )
                        session.execute(f"SELECT {calls} FROM v").fetchall()
        assert session.execute(bits).fetchall() == [(before,)]
    assert seen == [before if locked else 14, before, *([] if locked else [15, 14, 32, 32])]


def test_numbers_take_no_memory_for_strings() -> None:
    numbers, strings = arrow_rows.ValueNumbers(), arrow_rows.ValueNumbers()
    numbers.numbers(pa.array([1, 2]))
    strings.numbers(pa.array(["a", "b"]))
    assert numbers.n_bytes == 0 < strings.n_bytes

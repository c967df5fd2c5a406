"""Groups that people are kept in: the answers of every draw, against the same in Python.

A statement is asked once for each outcome of its draws, at a loss where answers are sure. What
comes out is compared as a distribution, in which people are drawn independently, each with the same
chance for all sets of the own groups, and all calls of a SELECT see one draw.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

import dp_sql
from dp_sql.engines.duckdb import connection as duckdb_connection
from dp_sql.engines.duckdb import few_rows, many_rows, mechanism_udfs, release_sql, rows_in_memory
from dp_sql.errors import SourceError
from dp_sql.privacy.plans import groups as planned_groups
from dp_sql.sql.functions import topk
from dp_sql.udfs.contributions import slots
from tests.conftest import SURE
from tests.pairs import in_pairs
from tests.udfs.distributions import distribution_of

Row = tuple[Any, ...]  # person, two keys, item, number
ROWS: list[Row] = [
    ("a", "p", 0, "x", 1), ("a", "p", 0, "x", 1), ("a", "p", 0, "y", 2), ("a", "p", 1, "y", 4),
    ("a", "q", 0, None, 8), ("a", "q", 0, "off", 16), ("b", "p", 0, "x", 3), ("b", "q", 0, "z", 5),
    ("b", "q", 0, "z", None), ("c", "p", 1, "z", 9), ("c", "p", 1, None, None),
    ("c", "r", 0, "gone", 100), (None, "p", 0, "none", 100), ("d", None, 0, "none", 100),
    ("d", "r", 65, "y", 100),
]  # fmt: skip
FEW = [("p", 0), ("p", 1), ("q", 0), ("q", 1)]
MANY = [*(("m", i) for i in range(61)), *FEW]  # the last ones are bits 62 to 65
Call = tuple[str, Callable[[list[Row]], Any], Callable[[Row], Any]]


def listed(domain: list[str]) -> Callable[[list[Row]], Any]:
    """Items with their people, the most frequent first."""

    def best(rows: list[Row]) -> Any:
        people = Counter(item for _, item in {(row[0], row[3]) for row in rows})
        return [
            {"item": one, "count": people[one]}
            for one in sorted(domain, key=lambda one: (-people[one], one))
        ]

    return best


CALLS: dict[str, Call] = {
    "domain": (
        "DP_TOPK(item, 3, {}, domain := shelf.item, counts := true)",
        listed(["x", "y", "z"]),
        lambda row: row[3],
    ),
    "observed": (
        "DP_TOPK(item, 5, {}, domain := observed, counts := true)",
        listed(["gone", "off", "x", "y", "z"]),
        lambda row: row[3],
    ),
    "items": (
        "DP_COUNT_DISTINCT(item, {})",
        lambda rows: len({row[3] for row in rows}),
        lambda row: row[3],
    ),
    "people": (
        "DP_COUNT_DISTINCT(u, {})",
        lambda rows: len({row[0] for row in rows}),
        lambda row: row[0],
    ),
    "rows": ("DP_COUNT(*, {}, contribution_bound := 9)", len, lambda row: 1),
    "sum": (
        "DP_SUM(x, {}, contribution_bound := 99)",
        lambda rows: sum(row[4] for row in rows),
        lambda row: row[4],
    ),
    "median": (
        "0 * DP_MEDIAN(x, {}, lower := 0, upper := 9)",
        lambda rows: 0,
        lambda row: row[4],
    ),
}
SELECTS = [
    ["domain"], ["observed"], ["items"], ["people"], ["rows"], ["sum"], ["people", "median"],
    ["items", "domain", "rows"], ["sum", "items"], ["sum", "people"],
]  # fmt: skip


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    """A session where a cap is never left out."""
    with pytest.MonkeyPatch.context() as patch, dp_sql.connect() as session:
        patch.setattr(planned_groups, "over_public_groups", lambda call, groups, *_: (call, groups))
        session.execute(
            "CREATE TABLE seen (u VARCHAR, g VARCHAR, h INTEGER, item VARCHAR, x INTEGER)"
        )
        connection = session.connection
        assert connection is not None
        connection.executemany("INSERT INTO seen VALUES (?, ?, ?, ?, ?)", ROWS)
        session.execute("CREATE TABLE shelf AS SELECT unnest(['z', 'x', 'y', 'x', NULL]) AS item")
        for name, listed in (("few", FEW), ("many", MANY)):
            session.execute(f"CREATE TABLE {name} (g VARCHAR, h INTEGER)")
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", listed * 2)
        session.execute("SET threads = 1")  # draws in one order, whatever the people
        yield session


def statement(names: list[str], cap: int, groups: str, where: str = "") -> str:
    given = f"{SURE}, privacy_unit := u, groups := (SELECT g, h FROM {groups})"
    calls = (CALLS[one][0].format(f"{given}, max_groups_contributed := {cap}") for one in names)
    return f"SELECT g, h, {', '.join(calls)} FROM seen {where} GROUP BY g, h"


def answers_of(
    session: dp_sql.Session, text: str, patch: pytest.MonkeyPatch
) -> dict[str, Fraction]:
    """The answers of all draws, with their probabilities."""

    def run(path: Any) -> str:
        for module in (mechanism_udfs, rows_in_memory):
            patch.setattr(module, "secret_draws", lambda: path)
        return repr(session.sql(text).fetchall())

    return distribution_of(run, {})[0]


def expected(
    names: list[str], cap: int, groups: list[Any], without: str = ""
) -> dict[str, Fraction]:
    """The same from the rows alone."""
    counted = [row for row in ROWS if row[0] not in (None, without) and row[1:3] in groups]
    counted = [row for row in counted if any(CALLS[one][2](row) is not None for one in names)]
    own = {row[0]: sorted({r[1:3] for r in counted if r[0] == row[0]}) for row in counted}
    draws = [*product(*(combinations(one, min(cap, len(one))) for one in own.values()))]
    found: Counter[str] = Counter()
    for draw in draws:
        kept = dict(zip(own, draw, strict=True))
        answer = []
        for group in groups:
            rows = [row for row in counted if row[1:3] == group and group in kept[row[0]]]
            of_calls = ([row for row in rows if CALLS[one][2](row) is not None] for one in names)
            values = [CALLS[one][1](some) for one, some in zip(names, of_calls, strict=True)]
            answer.append((*group, *values))
        found[repr(answer)] += 1
    return {answer: Fraction(n, len(draws)) for answer, n in found.items()}


def read(way: str, patch: pytest.MonkeyPatch) -> None:
    """Have rows read in one way, however many there are."""
    patch.setattr(few_rows, "FEW", 1 << 60 if way == "few" else 0)
    patch.setattr(many_rows, "LEAST", 0 if way == "in memory" else 1 << 60)


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    ("names", "cap", "way"), in_pairs(SELECTS, [1, 2, 3], ["few", "by DuckDB"])
)
def test_answers_are_those_of_each_draw(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, names: list[str], cap: int, way: str
) -> None:
    read(way, monkeypatch)
    found = answers_of(owner, statement(names, cap, "few"), monkeypatch)
    assert found == expected(names, cap, FEW)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", [["rows"], ["sum", "people"]], ids=" ".join)
def test_rows_in_memory_are_drawn_alike(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    read("in memory", monkeypatch)
    found = answers_of(owner, statement(names, 1, "few"), monkeypatch)
    assert found == expected(names, 1, FEW)


MORE = [
    ["domain"],
    ["observed"],
    ["items", "sum"],
    ["people"],
    ["rows", "people"],
    ["sum", "median"],
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("names", "way", "cap"), in_pairs(MORE, ["few", "by DuckDB", "in memory"], [1, 2])
)
def test_more_groups_than_a_number_has_bits(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, cap: int, names: list[str],
    way: str,
) -> None:  # fmt: skip
    read(way, monkeypatch)
    found = answers_of(owner, statement(names, cap, "many"), monkeypatch)
    assert found == expected(names, cap, MANY)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("names", SELECTS, ids=" ".join)
def test_a_cap_that_is_no_limit_draws_nothing(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.setattr(mechanism_udfs, "secret_draws", None)
    answer = owner.sql(statement(names, len(FEW), "few")).fetchall()
    assert {repr(answer): 1} == expected(names, len(FEW), FEW)


def test_a_draw_depends_on_no_other_person(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = statement(["domain"], 1, "few", "WHERE u <> 'b'")
    assert answers_of(owner, text, monkeypatch) == expected(["domain"], 1, FEW, without="b")


MUTANTS: dict[str, tuple[str, str, str]] = {
    "a draw for each row": (
        "domain", "FROM __dp_placed GROUP BY __dp_privacy_unit)",
        "FROM __dp_placed GROUP BY __dp_privacy_unit, __dp_group)",
    ),
    "a draw for each reading": ("items", " AS MATERIALIZED", " AS NOT MATERIALIZED"),
    "the next bit": (
        "domain", "kept >> CAST(__dp_group - 1 AS INTEGER)", "kept >> CAST(__dp_group AS INTEGER)",
    ),
    "another cap": ("items", "__dp_sql_keep_bits(own, 1)", "__dp_sql_keep_bits(own, 2)"),
    "all groups of a person": ("people", "__dp_sql_keep_bits(own, 1) AS kept", "own AS kept"),
    "items in another order": ("domain", "list(item ORDER BY code)", "list(item ORDER BY -code)"),
    "groups without a listed item": ("domain", "__dp_groups LEFT JOIN", "__dp_groups JOIN"),
}  # fmt: skip
OF_MANY: dict[str, tuple[str, str, str]] = {
    "the next bit": (
        "domain",
        "get_bit(kept, CAST(__dp_group - 1",
        "get_bit(kept, CAST(__dp_group",
    ),
    "other bits": ("people", "bitstring_agg(CAST(__dp_group - 1", "bitstring_agg(CAST(__dp_group"),
    "another cap": ("rows", "__dp_sql_keep_bytes(own, 1)", "__dp_sql_keep_bytes(own, 2)"),
    "all groups of a person": ("sum", "__dp_sql_keep_bytes(own, 1) AS", "own AS"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", [*MUTANTS, *(f"of many: {one}" for one in OF_MANY)])
def test_wrong_draws_and_counts_are_noticed(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    table, groups = ("many", MANY) if mutant.startswith("of many") else ("few", FEW)
    name, old, new = (MUTANTS | {f"of many: {one}": it for one, it in OF_MANY.items()})[mutant]
    real = release_sql.private_sql

    def private_sql(*args: Any, **named: Any) -> str:
        sql = real(*args, **named)
        assert old in sql
        return sql.replace(old, new)

    read("by DuckDB", monkeypatch)
    monkeypatch.setattr(release_sql, "private_sql", private_sql)
    rejected = (AssertionError, SourceError)  # a wrong place is beyond the last one, too
    with pytest.raises(rejected):
        found = answers_of(owner, statement([name], 1, table), monkeypatch)
        assert found == expected([name], 1, groups)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "wrong",
    [
        lambda people, n, cap, draws: slots.draw_slots(people, n, cap, draws)[::-1],
        lambda people, n, cap, draws: slots.draw_slots(people, n, cap + 1, draws),
        lambda people, n, cap, draws: slots.draw_slots(people // 2, n, cap, draws),
    ],
    ids=["of another person", "one more", "two people share"],
)
def test_wrong_draws_of_many_groups_in_memory_are_noticed(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., Any]
) -> None:
    read("in memory", monkeypatch)
    monkeypatch.setattr(
        rows_in_memory, "kernels", SimpleNamespace(**{**vars(slots), "draw_slots": wrong})
    )
    found = answers_of(owner, statement(["rows"], 1, "many"), monkeypatch)
    assert found != expected(["rows"], 1, MANY)


@pytest.mark.parametrize("way", ["few", "by DuckDB", "in memory"])
@pytest.mark.parametrize("cap", [1, 4])
def test_groups_that_are_added_after_they_were_counted_are_not_answered(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, way: str, cap: int
) -> None:
    """People in many more groups, of which the bits of a number could not hold all."""
    real, connection = duckdb_connection.Engine.release, owner.connection
    assert connection is not None
    owner.execute("CREATE OR REPLACE TABLE growing AS FROM few")

    def release(*given: Any) -> list[str]:
        connection.execute("INSERT INTO growing SELECT 'r', range FROM range(70)")
        return real(*given)

    monkeypatch.setattr(duckdb_connection.Engine, "release", release)
    read(way, monkeypatch)
    answer = owner.sql(statement(["people", "rows"], cap, "growing")).fetchall()
    assert [row[:2] for row in answer] == FEW
    assert sum(row[2] for row in answer) == (3 if cap == 1 else 6)


@pytest.mark.parametrize("more", ["domain := ['x', 'y'], counts := true", "delta := 1e-6"])
def test_accuracy_is_stated_once_for_all_groups(more: str) -> None:
    """It is arithmetic on public numbers, which would take as long as the draws."""
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE seen AS SELECT i AS u, i % 50 AS g, 'x' AS item FROM range(100) r(i)"
        )
        before = topk._stated.cache_info()
        call = f"DP_TOPK(item, 2, epsilon := 0.123, privacy_unit := u, {more}, groups := range(50), max_groups_contributed := 1)"
        assert len(session.sql(f"SELECT g, {call} FROM seen GROUP BY g").fetchall()) == 50
        after = topk._stated.cache_info()
        assert after.misses - before.misses == 1 and "50 groups" in session.receipts[-1].accuracy

"""Releases over parts of the people answer as one statement over all rows does."""

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from pytest import approx

import dp_sql
from dp_sql.engines.by_parts import ByParts
from dp_sql.engines.protocol import PartedQuestion
from dp_sql.errors import ArgumentError
from dp_sql.privacy.plans.plan import drawn_from
from tests.conftest import READING_LOG
from tests.engines import sessions
from tests.engines.fake import FakeEngine
from tests.engines.test_keyed_draws import plans_of
from tests.pairs import in_pairs

E = "epsilon := 10000, privacy_unit := user_id"
GROUPS = "groups := ['north', 'south', 'east'], max_groups_contributed := 2"
CERTAIN = [
    f"DP_TOPK(title, 2, {E}, domain := catalog.title)",
    f"DP_TOPK(title, 2, {E}, domain := catalog.title, counts := true)",
    f"DP_TOPK(title, 2, {E}, domain := observed)",
    f"DP_TOPK(kind, 2, {E}, domain := kind)",
    f"DP_TOPK(title, 2, {E}, delta := 1e-9)",
    f"DP_TOPK(title, 2, {E}, delta := 1e-9, mechanism := 'weighted_gaussian', counts := true)",
    f"DP_COUNT_DISTINCT(title, {E})",
    f"DP_COUNT_DISTINCT(title, {E}, mechanism := 'greedy')",
    f"DP_COUNT_DISTINCT(title, {E}, mechanism := 'r2t', max_contributions := 10)",
    f"DP_COUNT_DISTINCT(title, {E}, bound_selection := 'gem', max_contributions := 10)",
    f"DP_COUNT_DISTINCT(title, {E}, contribution_bound := 2, report := true)",
    f"DP_COUNT_DISTINCT(user_id, {E})",
    f"DP_COUNT(1, {E}, contribution_bound := 10)",
    f"DP_SUM(score::INT, {E}, contribution_bound := 1000)",
    f"DP_SUM(score::DECIMAL(30, 2), {E}, lower := 0, contribution_bound := 1000)",
    f"DP_AVG(year::INT % 2, {E}, contribution_bound := 10)",
    f"DP_AVG(year::INT % 9, {E}, lower := 2, upper := 5)",
    f"DP_MEDIAN(user_id::INT // 3, {E}, lower := 0, upper := 60)",
    f"DP_QUANTILE(user_id::INT, [0.1234, 0.8766], {E}, lower := 0, upper := 60)",
    f"DP_COUNT_DISTINCT(title, {E}, sample_items := 0.999999999999)",
]  # fmt: skip
GROUPED = [
    f"DP_COUNT_DISTINCT(user_id, {E}, groups := ['north', 'south', 'east'])",
    f"DP_COUNT(1, {E}, groups := ['north', 'south', 'east'])",
    f"DP_COUNT(1, {E}, delta := 1e-6)",
    f"DP_COUNT_DISTINCT(user_id, {E}, delta := 1e-6)",
    f"DP_COUNT_DISTINCT(user_id, {E}, groups := observed)",
    f"DP_COUNT(1, {E}, {GROUPS}, contribution_bound := 10)",
    f"DP_COUNT_DISTINCT(title, {E}, {GROUPS})",
    f"DP_TOPK(title, 1, {E}, domain := ['Dune', 'Emma'], {GROUPS}), DP_SUM(year::INT, {E}, {GROUPS}, "
    "contribution_bound := 100000)",
    f"DP_MEDIAN(user_id::INT, {E}, lower := 0, upper := 60, {GROUPS})",
    f"DP_COUNT(1, {E}, groups := observed, max_groups_contributed := 2, contribution_bound := 10)",
    f"DP_COUNT(1, {E}, groups := ['north', 'south', 'east'], contribution_bound := 10)",
]
CALLS = [
    "DP_TOPK(title, 2, domain := ['Dune', 'Emma'], {0})",
    "DP_TOPK(title, 2, domain := ['Dune', 'Emma'], counts := true, {0})",
    "DP_TOPK(title, 2, domain := ['Dune', 'Emma'], mechanism := 'subset', {0})",
    *(f"{call}, {{0}}{report})" for report in ("", ", report := true") for call in (
        "DP_COUNT_DISTINCT(title", "DP_COUNT_DISTINCT(user_id", "DP_COUNT(1", "DP_SUM(year::INT",
        "DP_COUNT(title, contribution_bound := 3", "DP_AVG(year::INT")),
    "DP_SUM(score::DECIMAL(30, 2), lower := 0, {0})",
    "DP_AVG(year::INT, lower := 0, upper := 3000, {0})",
    "DP_QUANTILE(user_id::INT, [0.1, 0.9], lower := 0, upper := 60, {0})",
]  # fmt: skip
SOURCES = [
    "FROM ratings",
    "FROM (SELECT * FROM ratings WHERE year > 2003)",
    "FROM ratings JOIN (SELECT DISTINCT user_id AS u FROM ratings WHERE year = 2001) AS r ON u = user_id",
    "FROM ratings JOIN catalog USING (title)",
    "FROM (SELECT * FROM ratings UNION ALL SELECT * FROM ratings)",
    "FROM ratings WHERE title IN (SELECT title FROM catalog)",
]


def near(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Answers in which what remains of the noise of large bounds is no difference."""
    numbers = int | float | Decimal
    return [
        tuple(
            approx(x, rel=type(x)("0.001") if isinstance(x, Decimal) else 1e-3)
            if isinstance(x, numbers)
            else x
            for x in row
        )
        for row in rows
    ]


def by_parts(monkeypatch: pytest.MonkeyPatch, seed: int, n_parts: int, repeats: int = 1) -> None:
    sessions.by_parts(monkeypatch, lambda rows: FakeEngine(rows, seed, n_parts, repeats))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("call", CERTAIN)
def test_an_answer_is_the_same_by_parts(
    call: str, shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT {call} {SOURCES[CERTAIN.index(call) % len(SOURCES)]}"
    expected = near(shared.sql(query).fetchall())
    for seed, n_parts in ((1, 1), (2, 4)):
        by_parts(monkeypatch, seed, n_parts, repeats=2)
        assert shared.sql(query).fetchall() == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_read_by_parts(
    source: str, shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = (
        f"SELECT DP_COUNT_DISTINCT(title, {E}), DP_COUNT(1, {E}, contribution_bound := 20) {source}"
    )
    expected = near(shared.sql(query).fetchall())
    by_parts(monkeypatch, 3, 5)
    assert shared.sql(query).fetchall() == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize("calls", GROUPED)
def test_groups_are_the_same_by_parts(
    calls: str, shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT region, {calls} FROM ratings WHERE title <> 'x' GROUP BY region"
    certain = near([row for row in shared.sql(query).fetchall() if row[0] != "east"])
    by_parts(monkeypatch, 4, 3)
    assert [row for row in shared.sql(query).fetchall() if row[0] != "east"] == certain


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    ("call", "groups", "more"),
    in_pairs(
        CALLS,
        ["groups := ['north', 'south', 'east']", "delta := 1e-6"],
        ["", ", max_groups_contributed := 2"],
    ),
)
def test_every_call_in_groups_is_answered_by_parts(
    call: str, groups: str, more: str, shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT region, {call.format(f'{E}, {groups}{more}')} FROM ratings GROUP BY region"
    try:
        whole = shared.sql(query).fetchall()
    except ArgumentError as refusal:
        assert not more or "TOPK" in call, refusal
        return
    by_parts(monkeypatch, 4, 3)
    assert [row[0] for row in shared.sql(query).fetchall()] == [row[0] for row in whole]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "counted",
    ["user_id, max_groups_contributed := 7",
     "title, contribution_bound := 4, max_groups_contributed := 7, sample_items := 0.999999999999",
     f"user_id, max_groups_contributed := 7, {E}), DP_COUNT_DISTINCT(title, max_groups_contributed := 7, "
     f"contribution_bound := 4, {E}), DP_MEDIAN(user_id::INT * 0, max_groups_contributed := 7, lower := 0, upper := 9"],
)  # fmt: skip
def test_unknown_groups_are_found_by_parts(
    counted: str, shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = f"DP_COUNT_DISTINCT({counted}, epsilon := 10000, delta := 1e-9, privacy_unit := user_id)"
    query = f"SELECT year, {call} FROM ratings GROUP BY year"
    expected = near(shared.sql(query).fetchall())
    by_parts(monkeypatch, 5, 4, repeats=2)
    assert shared.sql(query).fetchall() == expected


def test_each_call_has_the_items_that_it_has_seen(
    shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [f"DP_TOPK({item}, 1, {E}, domain := observed, {GROUPS})" for item in ("kind", "title")]
    query = f"SELECT region, {', '.join(calls)} FROM ratings GROUP BY region"
    certain = [row for row in shared.sql(query).fetchall() if row[0] != "east"]
    by_parts(monkeypatch, 6, 3)
    assert [row for row in shared.sql(query).fetchall() if row[0] != "east"] == certain


def test_items_that_an_engine_answers_compare_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE votes AS SELECT i AS user_id, ['Dune', 'dune', 'DUNE', 'emma'][1 + i % 4] "
            "AS title FROM range(10) AS t(i); SET default_collation = 'NOCASE'"
        )
        query = (
            f"SELECT DP_COUNT_DISTINCT(title, {E}), DP_TOPK(title, 4, {E}, domain := observed, "
            "counts := true) FROM votes"
        )
        expected = session.sql(query).fetchall()
        assert expected[0][0] == 4
        by_parts(monkeypatch, 7, 3)
        assert session.sql(query).fetchall() == expected


@pytest.mark.thorough
def test_the_greedy_cover_does_not_depend_on_how_people_are_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise one person could move it by more than the bound (greedy.md)."""
    query = (
        f"SELECT region, DP_COUNT_DISTINCT(title, {E}, mechanism := 'greedy', contribution_bound "
        ":= 1, groups := ['north', 'south'], max_groups_contributed := 2) FROM ratings GROUP BY region"
    )
    answers = set()
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE ratings AS SELECT i % 20 AS user_id, 'book ' || hash(i) % 15 AS title, "
            "['north', 'south'][1 + i % 2] AS region FROM range(60) AS t(i)"
        )
        for seed in range(8):
            by_parts(monkeypatch, seed, 1 + seed)
            answers.add(tuple(session.sql(query).fetchall()))
    assert len(answers) == 1


# --- failures ---


def no_answer(engine: FakeEngine, question: PartedQuestion) -> None:
    engine.connection.execute("SELECT error('no row')")


def wrong_answer(engine: FakeEngine, question: PartedQuestion) -> pa.Table:
    return pa.table({name: ["no number"] for name, _ in question.columns})


@pytest.mark.parametrize("rows", [no_answer, wrong_answer])
def test_after_a_failure_an_owners_transaction_can_be_rolled_back(
    rows: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        session.execute("BEGIN")
        by_parts(monkeypatch, 8, 3)
        monkeypatch.setattr(FakeEngine, "rows", rows)
        with pytest.raises(dp_sql.QueryError):
            session.sql(f"SELECT region, {GROUPED[3]} FROM ratings GROUP BY region")
        session.execute("ROLLBACK")
        tables = "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, '__dp_')"
        assert session.sql(tables).fetchall() == []


@pytest.mark.parametrize("rows", [no_answer, wrong_answer])
def test_a_failure_is_not_hidden_by_what_is_undone_after_it(
    rows: object, shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a transaction that has failed neither tables nor views can be dropped."""
    plans = [*map(drawn_from, plans_of(shared, f"SELECT {CERTAIN[0]} FROM ratings"))]
    monkeypatch.setattr(FakeEngine, "rows", rows)
    connection = shared.connection
    shared.execute("BEGIN")
    released = ByParts(FakeEngine(connection), connection).released(plans, ["ticket"])
    with pytest.raises((duckdb.InvalidInputException, duckdb.ConversionException)), released:
        pass
    shared.execute("ROLLBACK")

"""A statement that comes again: what is remembered of it, and what is read anew."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, private_connection
from dp_sql.engines.duckdb.called_functions import functions_in
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.session import analyst as analysts
from dp_sql.session import owner_plans, plain_call
from dp_sql.session.analyst import AnalystSession
from tests.conftest import SURE
from tests.session.reading_policy import MORE, write

COUNT = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings"
VIEW = "CREATE VIEW lately AS SELECT user_id, title FROM ratings WHERE year < year(current_date);"


@pytest.fixture
def analyst(tmp_path: Path) -> Iterator[AnalystSession]:
    database, policy = write(tmp_path, more=MORE + VIEW)
    text = Path(policy).read_text("utf-8").replace('["recent"]', '["recent", "lately"]')
    Path(policy).write_text(text, "utf-8")
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session


class _Clock(datetime):
    year_now = 2003

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime(cls.year_now, 1, 1, tzinfo=tz)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("source", "n_plans"),
    [
        ("ratings", 1),
        ("ratings WHERE year < year(current_date)", 3),
        ("ratings WHERE year < extract('year' FROM now())", 3),
        ("lately", 3),
    ],
)
def test_a_statement_is_planned_again_if_it_depends_on_the_time(
    source: str, n_plans: int, analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Any] = []
    real = analysts.analyst_plans

    def planned(*given: Any) -> Any:
        plans.extend(real(*given))
        return plans[-1:]

    monkeypatch.setattr(analysts, "analyst_plans", planned)
    monkeypatch.setattr(analysts, "datetime", _Clock)
    for year in (2001, 2002, 2005):
        monkeypatch.setattr(_Clock, "year_now", year)
        analyst.explain(f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM {source}")
    assert len(plans) == n_plans
    assert len({plan.source for plan in plans}) == n_plans


def test_a_plan_is_forgotten_with_the_public_rows_that_it_reads(
    analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_connection, "_MAX_PUBLIC_TABLES", 1)
    among = "SELECT title FROM catalog WHERE title <> '{}'"
    texts = [f"{COUNT} WHERE title IN ({among.format(name)})" for name in ("Dune", "Emma")]
    wanted = [analyst.sql(text).fetchall() for text in texts]
    assert len(analyst._private._public_rows) == 1
    assert [analyst.sql(text).fetchall() for text in texts] == wanted
    assert len(analyst._private.planned) == 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("DROP TABLE seen; CREATE TABLE seen AS SELECT 'x' AS item, i AS u FROM range(9) t(i)", 1),
        ("ALTER TABLE seen RENAME u TO v; ALTER TABLE seen RENAME item TO u; "
         "ALTER TABLE seen RENAME v TO item", 9),
        ("DELETE FROM seen WHERE u > 1", 2),
    ],
)  # fmt: skip
def test_kept_private_sql_sees_what_another_connection_changes(change: str, answer: int) -> None:
    count = "SELECT DP_COUNT_DISTINCT(item, epsilon := 10000, privacy_unit := u) AS n FROM seen"
    with dp_sql.connect() as session:
        assert session.connection is not None
        session.execute("CREATE TABLE seen AS SELECT i AS u, i % 3 AS item FROM range(9) t(i)")
        assert [session.sql(count).fetchall() for _ in range(3)] == [[(3,)]] * 3
        with session.connection.cursor() as other:
            other.execute(change)
        assert [session.sql(count).fetchall() for _ in range(2)] == [[(answer,)]] * 2


def test_a_source_is_compared_again_where_its_columns_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared, real = list[str](), Engine.reads_only

    def reads_only(engine: Engine, source: str, *given: Any) -> bool:
        compared.append(source)
        return real(engine, source, *given)

    monkeypatch.setattr(Engine, "reads_only", reads_only)
    count = "SELECT DP_COUNT_DISTINCT(item, epsilon := 10000, privacy_unit := u) FROM seen WHERE {}"
    steps = (
        ("item = 2", 1),  # what the name means was not known before
        ("item < 2", 2), ("item < 2", 2), ("item < 1", 2), ("item < 1.5", 3), ("item < 2.5", 3),
        ("item <> 2", 4), ("item <> 1", 4),
    )  # fmt: skip
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE seen AS SELECT i AS u, i % 3 AS item FROM range(9) t(i)")
        for condition, n in steps:
            session.sql(count.format(condition)).fetchall()
            assert len(compared) == n, condition
        session.execute("ALTER TABLE seen ADD COLUMN day DATE")
        session.sql(count.format("item <> 1")).fetchall()
        assert len(compared) == n + 1


def test_functions_are_known_for_other_numbers_and_not_for_other_names() -> None:
    texts = "abs(1)", "abs(2)", '"f 1"(3)', '"f 2"(3)', "'1' || f2(2)", "1", "-1", "a2(1)"
    with dp_sql.connect() as session:
        assert session.connection is not None
        engine = Engine(session.connection, Tickets())
        for text in texts:
            sql = f"SELECT {text}"
            assert engine.functions_in(sql) == functions_in(sql, session.connection), text


@pytest.mark.parametrize(
    ("asked", "n"),
    [
        ('{0} AS n FROM t WHERE g < 9 GROUP BY g ORDER BY n DESC, "g" LIMIT 3', 1),
        ("{0} + 1 FROM t GROUP BY g", 2),
        ("{0}::DOUBLE FROM t GROUP BY g", 2),
        ("twice({0}) FROM t GROUP BY g", 2),
        ("{0} FROM t GROUP BY g LIMIT (FROM one)", 2),
        ("{0} FROM t GROUP BY g UNION ALL SELECT g, 1 FROM one AS r(g)", 2),
        ("{0} FROM t GROUP BY g ORDER BY 1.5", 2),
    ],
)
def test_what_may_come_to_mean_something_else_is_bound_each_time(
    monkeypatch: pytest.MonkeyPatch, asked: str, n: int
) -> None:
    bound, real = list[str](), Engine.bind
    monkeypatch.setattr(Engine, "bind", lambda *given: (bound.append(given[1]), real(*given))[1])
    call = "DP_COUNT(*, epsilon := 1, privacy_unit := u, groups := [0, 1], max_groups_contributed := 1)"
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE t AS SELECT i % 9 AS u, i % 2 AS g FROM range(90) AS r(i)")
        session.execute("CREATE TABLE one AS SELECT 1 AS g; CREATE MACRO twice(x) AS 2 * x")
        session.execute("SET order_by_non_integer_literal = true")
        for _ in range(2):
            assert session.execute(f"SELECT g, {asked.format(call)}").fetchall()
    assert len(bound) == n


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("CREATE TABLE one AS SELECT 1", 3),
        ("INSERT INTO seen VALUES (9, 4)", 4),
        ("DROP TABLE seen; CREATE TABLE seen AS SELECT 'x' AS item, i AS u FROM range(9) t(i)", 1),
        ("CREATE SCHEMA s; CREATE TABLE s.seen AS SELECT 1 AS u, 1 AS item; USE s", 1),
        ("ALTER TABLE seen RENAME TO seen_0; "
         "CREATE VIEW seen AS FROM seen_0 WHERE item < 2", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("asked", ["{}", "FROM dp($$ {} $$)"])
def test_a_plain_statement_that_comes_again_sees_what_has_changed(
    change: str, answer: int, asked: str
) -> None:
    count = asked.format(
        f"SELECT DP_COUNT_DISTINCT(item, {SURE}, privacy_unit := u) AS n FROM seen"
    )
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("CREATE TABLE seen AS SELECT i AS u, i % 3 AS item FROM range(9) t(i)")
        assert [con.sql(count).fetchall() for _ in range(3)] == [[(3,)]] * 3
        con.execute(change)
        assert [con.sql(count).fetchall() for _ in range(2)] == [[(answer,)]] * 2
        assert len(dp_sql.receipts(con)) == 5


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("CREATE MACRO lower(x) AS x", "a function lower of its own"),
        ("CREATE TEMP TABLE seen AS SELECT 1 AS u, 1 AS item", "temporary"),
        ("DROP TABLE other; CREATE VIEW other AS SELECT 1 AS one", "not a table"),
        ("DROP TABLE other; CREATE TABLE other AS SELECT 1 AS u", "may show rows of its source"),
        ("ALTER TABLE seen RENAME item TO thing", "item"),
        ("DROP TABLE seen", "seen"),
    ],
)
def test_a_plain_statement_that_comes_again_is_refused_for_what_has_changed(
    change: str, why: str
) -> None:
    asked = (
        f"SELECT (SELECT DP_COUNT_DISTINCT(item, {SURE}, privacy_unit := u) FROM seen), lower('A') "
        "FROM other"
    )
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("CREATE TABLE seen AS SELECT i AS u, i % 3 AS item FROM range(9) t(i)")
        con.execute("CREATE TABLE other AS SELECT 1 AS one")
        assert [con.execute(asked).fetchall() for _ in range(2)] == [[(3, "a")]] * 2
        con.execute(change)
        for _ in range(2):
            with pytest.raises(duckdb.Error, match=why):
                con.execute(asked).fetchall()
        assert len(dp_sql.receipts(con)) == 2


@pytest.mark.parametrize(
    ("asked", "planner", "name"),
    [("{}", plain_call, "plans_of_all"), ("FROM dp($$ {} $$)", owner_plans, "plans_of_text")],
)
def test_a_plain_statement_is_planned_once_while_nothing_changes(
    asked: str, planner: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, plan = [], getattr(planner, name)
    monkeypatch.setattr(planner, name, lambda *a: planned.append(a) or plan(*a))
    count = asked.format("SELECT DP_COUNT(1, epsilon := 1, privacy_unit := u) FROM seen{}")
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("CREATE TABLE seen AS SELECT i AS u FROM range(9) t(i)")
        for where in ("", "", " WHERE u > 1", ""):
            con.sql(count.format(where)).fetchall()
        assert len(planned) == 2
        con.execute("ALTER TABLE seen ADD COLUMN more INTEGER")
        con.sql(count.format("")).fetchall()
        assert len(planned) == 3


@pytest.mark.parametrize("asked", ["{}", "FROM dp($$ {} $$)"])
def test_strings_are_compared_by_the_collation_that_their_column_has_now(asked: str) -> None:
    count = f"SELECT DP_COUNT(1, {SURE}, privacy_unit := u) AS n FROM seen WHERE item = 'a'"
    with dp_sql.install(duckdb.connect()) as con:
        for kind, n in [("", 5), (" COLLATE NOCASE", 10), ("", 5)]:
            con.execute(f"CREATE TABLE seen (u INTEGER, item VARCHAR{kind})")
            con.execute("INSERT INTO seen SELECT i, ['a', 'A'][1 + i % 2] FROM range(10) t(i)")
            for _ in range(3):
                assert con.execute(asked.format(count)).fetchall() == [(n,)]
            con.execute("DROP TABLE seen")


def test_rows_are_read_by_the_statement_that_was_bound_before_the_debit(
    analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, executed = SqlRunner.run, list[object]()

    def noted(self: SqlRunner, sql: Any, parameters: object = None) -> Any:
        executed.append(sql)
        return run(self, sql, parameters)

    monkeypatch.setattr(SqlRunner, "run", noted)
    monkeypatch.setattr(few_rows, "FEW", 1 << 16)
    monkeypatch.setattr(few_rows, "read_shortly", None)  # it was asked before
    analyst.sql(f"SELECT DP_COUNT_DISTINCT(copy, {SURE}) FROM loan_items")
    parsed = analyst._private._engine.state.statements
    assert any("loan_items" in sql and parsed[sql] in executed for sql in parsed)


def test_other_numbers_read_the_same_tables_and_other_strings_are_looked_at(
    analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, reads_only = list[str](), Engine.reads_only

    def noted(self: Engine, source: str, *given: Any) -> bool:
        seen.append(source)
        return reads_only(self, source, *given)

    monkeypatch.setattr(Engine, "reads_only", noted)
    for user, title, n in ((1, "Dune", 1), (22, "Dune", 1), (-3, "Dune", 1), (-3, "Emma", 2)):
        where = f"user_id <> {user} AND title <> '{title}'"
        analyst.sql(f"SELECT DP_COUNT(*, epsilon := 1e-6) FROM ratings WHERE {where}")
        assert len(seen) == n

"""Sessions on Spark: names, policies, budgets, and statements around their DP calls.

Spark is DuckDB underneath here, and its jobs are a stand-in's; tests/engines/spark has real ones.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import dp_sql
from dp_sql.engines.spark import catalog, progress, release
from dp_sql.engines.spark.owner_engine import SparkEngine
from dp_sql.errors import (
    ArgumentError,
    BudgetExceeded,
    NotPrivate,
    NotSupported,
    PolicyError,
    QueryError,
    SourceError,
)
from dp_sql.session.analyst import AnalystSession
from dp_sql.session.base import Session
from tests.conftest import READING_LOG, SURE
from tests.engines.fake import FakeEngine, Lost
from tests.engines.spark.fake import FakeSpark

UNIT = f"{SURE}, privacy_unit := user_id"
TOP = f"DP_TOPK(title, 3, {UNIT}, domain := catalog.title)"
COUNT = f"DP_COUNT_DISTINCT(title, {UNIT})"
BEST = [(["Dune", "Emma", "Ulysses"],)]
MORE = """
ALTER TABLE ratings ALTER kind TYPE VARCHAR;
CREATE TABLE loans AS SELECT i AS id, i % 7 AS reader FROM range(20) t(i);
CREATE TABLE loan_items AS SELECT i % 20 AS loan, 'copy ' || i AS copy FROM range(60) t(i);
CREATE TABLE regions AS SELECT unnest(['north', 'south', 'east']) AS name;
CREATE TABLE models AS SELECT 'm' || i AS model, i * 10.0 AS accuracy FROM range(4) t(i);
CREATE SCHEMA lake.sales;
CREATE TABLE lake.sales.bought AS SELECT i % 5 AS user_id, 'thing ' || (i % 4) AS thing FROM range(40) t(i);
"""
POLICY = """
[tables."spark_catalog.default.ratings"]
privacy_unit = "user_id"
[tables."lake.sales.bought"]
privacy_unit = "user_id"
[tables.loans]
privacy_unit = "reader"
[tables.loan_items]
privacy_unit = { link = "loan", to = "loans.id" }
[public]
tables = ["catalog", "default.regions"]
[scores.models]
candidate = "model"
score = "accuracy"
sensitivity = 1
[domains]
"spark_catalog.default.ratings.title" = "catalog.title"
[limits]
max_epsilon_per_query = 10000
max_contributions = 200
"""
BUDGET = """
[budget]
dataset = "readers"
epsilon = 30000
ledger = "ledger.sqlite"
checkpoint = "checkpoint.sqlite"
keep_releases = true
"""


class FakeJobs(FakeEngine):
    """Jobs over the tables of a FakeSpark; `lost` is how many of them do not come back."""

    lost = 0
    n_interrupts = 0
    newest: Any = None
    progress: Any = None

    def __init__(self, spark: FakeSpark) -> None:
        FakeJobs.newest = self
        super().__init__(spark.con, 1, n_parts=3, repeats=2, job=self.fail)

    def fail(self) -> None:
        if FakeJobs.lost:
            FakeJobs.lost -= 1
            raise Lost("a row: 17")

    def cancel(self) -> None:
        FakeJobs.n_interrupts += 1

    def close(self) -> None:
        pass


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    made = FakeSpark("lake")
    made.sql(READING_LOG + MORE)
    monkeypatch.setattr(release, "SparkJobs", lambda spark, read: FakeJobs(made))
    monkeypatch.setattr(FakeJobs, "lost", 0)
    return made


@pytest.fixture
def owner(spark: FakeSpark) -> Iterator[Session]:
    with dp_sql.connect(spark) as session:
        yield session


@pytest.fixture
def analyst(spark: FakeSpark, tmp_path: Path) -> Iterator[AnalystSession]:
    with opened(spark, tmp_path) as session:
        yield session


def opened(spark: FakeSpark, folder: Path, policy: str = POLICY) -> AnalystSession:
    (folder / "policy.toml").write_text(policy, "utf-8")
    return dp_sql.connect(spark, policy=folder / "policy.toml", analyst="reporting")


def asked(session: Session, text: str, params: Any = None) -> list[Any]:
    found: list[Any] = session.sql(text, params=params).fetchall()
    return found


# --- the owner ---


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (f"SELECT {TOP} AS best FROM ratings", BEST),
        (f"SELECT {TOP} AS best FROM default.Ratings", BEST),
        (f"SELECT {TOP} AS best FROM spark_catalog.default.ratings AS r", BEST),
        (f"SELECT DP_COUNT_DISTINCT(thing, {UNIT}) FROM lake.sales.bought", [(4,)]),
        (f"SELECT {COUNT} FROM ratings JOIN regions ON region = name WHERE name < 'o'", [(4,)]),
        (f"SELECT {COUNT} FROM ratings JOIN lake.sales.bought USING (user_id)", [(3,)]),
        (f"WITH r AS (FROM ratings) SELECT {COUNT} FROM r WHERE title IN (SELECT title FROM catalog)", [(3,)]),
        (f"SELECT region, DP_COUNT_DISTINCT(user_id, {UNIT}, groups := regions.name) AS n FROM ratings "
         "GROUP BY region ORDER BY region", [("east", 0), ("north", 25), ("south", 25)]),
        ("SELECT DP_SELECT(model, accuracy, 1, epsilon := 10000) FROM models", [("m3",)]),
        (f"SELECT DP_COUNT_DISTINCT(title, {UNIT}) AS n FROM ratings WHERE year > $1", [(4,)]),
    ],
)  # fmt: skip
def test_the_owner_asks(owner: Session, query: str, answer: list[Any]) -> None:
    assert asked(owner, query, [1999] if "$1" in query else None) == answer
    assert len(owner.receipts) == 1


@pytest.mark.parametrize(
    ("groups", "kinds"),
    [("(observed, ['novel', 'essay'])", ["essay", "novel"]), ("observed", ["novel", "poems"])],
)
def test_observed_groups_are_asked_of_spark(owner: Session, groups: str, kinds: list[str]) -> None:
    """Also those whose rows WHERE drops, and in all combinations, whichever part has them."""
    call = f"DP_COUNT_DISTINCT(user_id, {UNIT}, groups := {groups}, max_groups_contributed := 4)"
    query = f"SELECT region, kind, {call} FROM ratings WHERE year = 2001 AND region = 'north'"
    n_people = {("north", "novel"): 9, ("north", "poems"): 5}
    assert asked(owner, f"{query} GROUP BY region, kind ORDER BY ALL") == [
        (region, kind, n_people.get((region, kind), 0))
        for region in ("north", "south", "x")
        for kind in kinds
    ]
    assert f"the set of groups, {groups}, is public" in owner.receipts[0].assumptions


def test_a_receipt_says_what_is_assumed(owner: Session) -> None:
    asked(owner, f"SELECT {COUNT} FROM ratings JOIN regions ON region = name")
    (receipt,) = owner.receipts
    assert receipt.assumptions == (
        "each row of ratings belongs to the person in user_id",
        "each row of regions is public, or belongs to the person it is joined to",
    )


def test_the_rest_of_a_statement_reads_public_tables_and_no_private_one(owner: Session) -> None:
    query = f"SELECT name, n FROM (SELECT {COUNT} AS n FROM ratings) AS r, {{}} AS t ORDER BY 1"
    assert asked(owner, query.format("default.regions").replace("default", '"default"')) == [
        ("east", 4), ("north", 4), ("south", 4),
    ]  # fmt: skip
    with pytest.raises(SourceError, match="ratings holds people's rows, which stay in Spark"):
        asked(owner, query.format("ratings"))
    assert len(owner.receipts) == 1


def test_names_follow_spark_s_own_database_and_views(spark: FakeSpark, owner: Session) -> None:
    spark.current = ["lake", "sales"]
    query = f"SELECT DP_COUNT_DISTINCT(thing, {UNIT}) FROM bought"
    assert asked(owner, query) == [(4,)]
    spark.sql("CREATE TEMP TABLE bought AS SELECT 1 AS user_id, 'one' AS thing")
    spark.views["bought"] = "SELECT 1 AS user_id, 'one' AS thing"
    assert asked(owner, query) == [(1,)]
    del spark.views["bought"]
    assert asked(owner, query) == [(4,)]


def test_public_rows_are_as_spark_has_them_now(spark: FakeSpark, owner: Session) -> None:
    query = (
        f"SELECT DP_COUNT_DISTINCT(region, {UNIT}) AS n FROM ratings JOIN regions ON region = name"
    )
    around = f"SELECT count(*) FROM (SELECT {COUNT} FROM ratings), regions"
    assert (asked(owner, query), asked(owner, around)) == ([(2,)], [(3,)])
    spark.sql("DELETE FROM regions WHERE name <> 'north'")
    assert (asked(owner, query), asked(owner, around)) == ([(1,)], [(1,)])


def test_a_public_table_is_read_once_for_a_statement(spark: FakeSpark, owner: Session) -> None:
    spark.n_reads = 0
    join = "ratings JOIN regions ON region = name"
    asked(owner, f"SELECT {COUNT}, DP_COUNT_DISTINCT(region, {UNIT}) FROM {join}")
    assert spark.n_reads == 1


def test_a_column_that_makes_a_table_private_may_be_renamed(owner: Session) -> None:
    query = f"SELECT DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := who) FROM "
    assert asked(owner, query + "(SELECT user_id AS who, title FROM ratings)") == [(4,)]


@pytest.mark.parametrize(
    ("query", "kind", "why"),
    [
        ("SELECT 1", NotSupported, "On Spark a session answers SELECTs with DP calls"),
        ("SELECT count(*) FROM ratings", NotSupported, "On Spark a session answers"),
        (f"CREATE TABLE t AS SELECT {COUNT} FROM ratings", NotSupported, "On Spark a session"),
        (f"FROM dp($$ SELECT {COUNT} FROM ratings $$)", NotSupported, "On Spark a session"),
        (f"PREPARE p AS SELECT {COUNT} FROM ratings", NotSupported, "On Spark a session"),
        (f"SELECT {COUNT} FROM rating", SourceError, "Spark has no table or view rating"),
        (f"SELECT {COUNT} FROM read_parquet('x.parquet')", SourceError, "dp_sql reads no files"),
        (f"SELECT {COUNT} FROM regions", NotPrivate, "user_id is not a column of the source"),
        ("SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings", ArgumentError, "privacy_unit"),
        ("FROM dp_budget()", NotSupported, "There is no ledger here"),
    ],
)  # fmt: skip
def test_what_is_refused(owner: Session, query: str, kind: type[QueryError], why: str) -> None:
    with pytest.raises(kind, match=why):
        asked(owner, query)
    assert not owner.receipts


def test_a_mistyped_name_gets_a_statement_that_works(owner: Session) -> None:
    with pytest.raises(SourceError) as error:
        asked(owner, f"SELECT {COUNT} FROM rating")
    assert error.value.suggestion == f"SELECT {COUNT} FROM ratings"


def test_what_costs_nothing(owner: Session) -> None:
    text = str(asked(owner, f"EXPLAIN SELECT {COUNT} FROM ratings JOIN catalog USING (title)"))
    assert "epsilon = 10000" in text
    assert owner.explain(f"SELECT {COUNT} FROM ratings").epsilon == 10000
    assert not owner.receipts


def test_releases_can_be_read_again(owner: Session) -> None:
    asked(owner, f"SELECT {TOP} FROM ratings")
    ((release_id, *_),) = asked(owner, "FROM dp_releases()")
    assert asked(owner, f"SELECT answer FROM dp_release('{release_id}')") == BEST
    assert len(owner.receipts) == 1


def test_a_public_table_beyond_the_limit_is_refused(
    owner: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MAX_PUBLIC_ROWS", 2)
    with pytest.raises(SourceError, match="regions has more than 2 rows"):
        asked(owner, f"SELECT {COUNT} FROM ratings JOIN regions ON region = name")
    assert not owner.receipts


def test_a_lost_job_is_one_debit(spark: FakeSpark, tmp_path: Path) -> None:
    with dp_sql.connect(spark, ledger=tmp_path / "ledger.sqlite") as session:
        FakeJobs.lost = 1
        with pytest.raises(
            SourceError, match=r"Spark could not compute the source \(Lost\)"
        ) as error:
            asked(session, f"SELECT {COUNT} FROM ratings")
        assert "17" not in str(error.value)
        kinds = asked(session, "SELECT kind FROM dp_ledger() ORDER BY number")
        assert kinds == [("opened",), ("reserved",), ("failed",)]
        assert asked(session, f"SELECT {COUNT} FROM ratings") == [(4,)]
        kinds = asked(session, "SELECT kind FROM dp_ledger() ORDER BY number")
        assert kinds[3:] == [("reserved",), ("answered",)]


def test_interrupt_cancels_the_jobs(owner: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = FakeJobs.n_interrupts

    def stop() -> None:
        owner.interrupt()
        raise Lost

    monkeypatch.setattr(FakeJobs, "fail", lambda self: stop())
    with pytest.raises(QueryError):
        asked(owner, f"SELECT {COUNT} FROM ratings")
    assert FakeJobs.n_interrupts > before


def test_an_error_of_python_in_spark_asks_for_its_packages() -> None:
    class Failed(Exception):
        def getCondition(self) -> str:
            return "PYTHON_EXCEPTION"

    assert "(PYSPARK_PYTHON) needs duckdb" in str(release.told(Failed("a row: 17")))


def test_the_owner_alone_sees_how_far_a_job_is(owner: Session, analyst: AnalystSession) -> None:
    asked(owner, f"SELECT {COUNT} FROM ratings")
    assert FakeJobs.newest.progress is not None
    asked(analyst, f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings")
    assert FakeJobs.newest.progress is None


def test_a_bar_that_fails_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_for = threading.Event()

    def fail() -> list[int]:
        asked_for.set()
        raise OSError("Spark is gone")

    tracker = SimpleNamespace(getActiveStageIds=fail, getStageInfo=None)
    context = SimpleNamespace(statusTracker=lambda: tracker, getConf=dict)
    monkeypatch.setattr(progress, "_AFTER", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(threading, "excepthook", lambda given: print(given.exc_value))
    with progress.Progress(SimpleNamespace(sparkContext=context)).shown():
        assert asked_for.wait(60)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("is_terminal", "spark_s_own"), [(True, "false"), (True, "true"), (False, "false")]
)
def test_the_bar_is_on_a_terminal_and_goes_away(
    is_terminal: bool, spark_s_own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    stages = {1: SimpleNamespace(numTasks=4, numCompletedTasks=1), 2: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: [*stages], getStageInfo=stages.get)
    settings = {"spark.ui.showConsoleProgress": spark_s_own}
    context = SimpleNamespace(statusTracker=lambda: tracker, getConf=lambda: settings)
    monkeypatch.setattr(progress, "_AFTER", 0.0)
    terminal = SimpleNamespace(isatty=lambda: is_terminal, write=written.append, flush=Mock())
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = progress.Progress(SimpleNamespace(sparkContext=context))
    bar.n_rows = 12000
    with bar.shown():
        is_shown = is_terminal and spark_s_own == "false"
        while is_shown and not written:
            time.sleep(0.001)
    line = f"\rSpark [{'#######':30}] 12,000 rows, job 1, 1 of 4 tasks"
    assert written == ([line, f"\r{'':{len(line) - 1}}\r"] if is_shown else [])


# --- under a policy ---


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (f"SELECT DP_TOPK(title, 3, {SURE}) FROM ratings", BEST),
        (f"SELECT DP_TOPK(title, 3, {SURE}) FROM spark_catalog.default.ratings", BEST),
        (f"SELECT DP_COUNT_DISTINCT(thing, {SURE}) FROM sales.bought", [(4,)]),
        (f"SELECT DP_COUNT_DISTINCT(copy, {SURE}) FROM loan_items", [(60,)]),
        (
            f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings JOIN regions ON region = name",
            [(4,)],
        ),
        ("SELECT DP_SELECT(model, accuracy, 1, epsilon := 10000) FROM models", [("m3",)]),
        ("SELECT count(*) FROM regions", [(3,)]),
        ("SELECT count(*) FROM spark_catalog.default.regions", [(3,)]),
        ("DESCRIBE bought", [("user_id", "BIGINT"), ("thing", "VARCHAR")]),
    ],
)
def test_an_analyst_asks(analyst: AnalystSession, query: str, answer: list[Any]) -> None:
    assert asked(analyst, query) == answer


def test_an_analyst_sees_the_policy_s_tables_alone(analyst: AnalystSession) -> None:
    assert [name for name, _ in asked(analyst, "SHOW TABLES")] == [
        "lake.sales.bought", "loan_items", "loans", "spark_catalog.default.ratings",
        "catalog", "default.regions", "models",
    ]  # fmt: skip
    with pytest.raises(NotPrivate, match="ratings is private"):
        asked(analyst, "SELECT * FROM ratings")
    with pytest.raises(SourceError, match="There is no table models"):
        asked(analyst, "SELECT * FROM models")


def test_the_budget_is_one_and_a_stored_release_is_free(spark: FakeSpark, tmp_path: Path) -> None:
    query = "SELECT DP_COUNT_DISTINCT(title, epsilon := 9000) FROM ratings"
    for _ in range(2):
        with opened(spark, tmp_path, POLICY + BUDGET) as session:
            assert asked(session, query) == [(4,)]
            (row,) = [row for row in session.budget() if row.analyst == "reporting"]
            assert row.epsilon_spent == 9000
    spark.settings["spark.sql.warehouse.dir"] = "file:/other"
    with opened(spark, tmp_path, POLICY + BUDGET) as session:
        asked(session, query)
        asked(session, query.replace("title", "region"))
        with pytest.raises(BudgetExceeded):
            asked(session, query.replace("title", "year"))


def test_a_lost_job_under_a_policy_is_one_sentence(spark: FakeSpark, tmp_path: Path) -> None:
    with opened(spark, tmp_path, POLICY + BUDGET) as session:
        FakeJobs.lost = 1
        with pytest.raises(QueryError) as error:
            asked(session, "SELECT DP_COUNT_DISTINCT(title, epsilon := 9000) FROM ratings")
        assert str(error.value) == "The answer could not be computed. Its cost is spent."
        assert error.value.__context__ is None
        (receipt,) = session.receipts
        assert receipt.accuracy == "it failed, and nothing was released"
        assert session.budget()[0].epsilon_spent == 9000


def test_public_tables_stay_as_they_were_when_the_session_opened(
    spark: FakeSpark, analyst: AnalystSession
) -> None:
    spark.sql("DELETE FROM regions")
    assert asked(analyst, "SELECT count(*) FROM regions") == [(3,)]


def test_a_session_ends_when_a_private_table_has_other_columns(
    spark: FakeSpark, analyst: AnalystSession
) -> None:
    assert analyst.is_current
    spark.sql("ALTER TABLE ratings ADD COLUMN more INTEGER")
    assert not analyst.is_current
    with pytest.raises(NotSupported, match="columns of a private table have changed in Spark"):
        asked(analyst, "SELECT count(*) FROM regions")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"lake.sales.bought"', '"lake.sales.buys"', "There is no table or view lake.sales.buys"),
        ('privacy_unit = "reader"', 'privacy_unit = "person"', "loans has no column person"),
        ("[public]", '[views]\ntables = ["recent"]\n[public]', "views. is not supported with Spark"),
        ('["catalog", "default.regions"]', '["catalog", "waits"]', "waits.waited has Spark's type"),
        ("[domains]", '[domains]\n"loan_items.copy" = "observed"', "cannot be observed with Spark.*: loan_items.copy"),
    ],
)  # fmt: skip
def test_a_policy_that_does_not_fit_spark(
    spark: FakeSpark, tmp_path: Path, old: str, new: str, why: str
) -> None:
    spark.sql("CREATE TABLE waits AS SELECT INTERVAL 1 DAY AS waited")
    with pytest.raises(PolicyError, match=why):
        opened(spark, tmp_path, POLICY.replace(old, new))


def test_a_large_public_table_is_refused_when_the_session_opens(
    spark: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MAX_PUBLIC_ROWS", 6)
    with pytest.raises(PolicyError, match="catalog has more than 6 rows"):
        opened(spark, tmp_path)


def test_what_connect_takes(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="A policy names its ledger itself"):
        dp_sql.connect(FakeSpark(), policy="p.toml", ledger="x")  # type: ignore[call-overload]
    with pytest.raises(dp_sql.DpSqlError, match=r"needs Spark 4\.0 or newer, and this is 3\.5\.0"):
        dp_sql.connect(FakeSpark(version="3.5.0"))


def test_nothing_is_filled_in_that_holds_people(spark: FakeSpark) -> None:
    """The owner's compiler reads rows of public tables alone."""
    with dp_sql.connect(spark) as session:
        asked(session, f"SELECT {COUNT} FROM ratings JOIN regions ON region = name")
        side: SparkEngine = session._side  # type: ignore[attr-defined]
        count = "SELECT count(*) FROM spark_catalog.default."
        assert side.run(f"{count}ratings").fetchall() == [(0,)]
        assert side.run(f"{count}regions").fetchall() == [(3,)]

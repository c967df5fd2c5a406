"""The owner's session on Spark: names, statements, receipts and lost jobs."""

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
from dp_sql.engines.spark import progress, release, spark_catalog
from dp_sql.engines.spark.owner_engine import SparkEngine
from dp_sql.errors import (
    ArgumentError,
    NotPrivate,
    NotSupported,
    PolicyError,
    QueryError,
    SourceError,
)
from dp_sql.session.base import Session
from tests.conftest import SURE
from tests.engines.fake import Lost
from tests.engines.spark.fake import FakeSpark
from tests.session.spark_jobs import BEST, COUNT, TOP, UNIT, FakeJobs, asked


@pytest.fixture
def owner(spark: FakeSpark) -> Iterator[Session]:
    with dp_sql.connect(spark) as session:
        yield session


@pytest.mark.one_in(6)
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


@pytest.mark.one_in(2)
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


@pytest.mark.one_in(3)
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
def test_what_spark_cannot_answer_is_refused_and_releases_nothing(
    owner: Session, query: str, kind: type[QueryError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        asked(owner, query)
    assert not owner.receipts


def test_a_mistyped_name_gets_a_statement_that_works(owner: Session) -> None:
    with pytest.raises(SourceError) as error:
        asked(owner, f"SELECT {COUNT} FROM rating")
    assert error.value.suggestion == f"SELECT {COUNT} FROM ratings"


def test_explain_releases_nothing(owner: Session) -> None:
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
    monkeypatch.setattr(spark_catalog, "MAX_PUBLIC_ROWS", 2)
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

    class PythonException(Exception):
        """As Spark Connect raises it: its condition has no other name."""

    for error in (Failed("a row: 17"), PythonException("a row: 17")):
        assert "(PYSPARK_PYTHON) needs duckdb" in str(release.told(error))


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


def test_connect_refuses_a_ledger_beside_a_policy_and_an_old_spark(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="A policy names its ledger itself"):
        dp_sql.connect(FakeSpark(), policy="p.toml", ledger="x")  # type: ignore[call-overload]
    with pytest.raises(dp_sql.DpSqlError, match=r"needs Spark 4\.0 or newer, and this is 3\.5\.0"):
        dp_sql.connect(FakeSpark(version="3.5.0"))


def test_nothing_is_filled_in_that_holds_people(spark: FakeSpark) -> None:
    """The owner's compiler reads rows of public tables alone."""
    with dp_sql.connect(spark) as session:
        asked(session, f"SELECT {COUNT} FROM ratings JOIN regions ON region = name")
        engine: SparkEngine = session._spark  # type: ignore[attr-defined]
        count = "SELECT count(*) FROM spark_catalog.default."
        assert engine.run(f"{count}ratings").fetchall() == [(0,)]
        assert engine.run(f"{count}regions").fetchall() == [(3,)]

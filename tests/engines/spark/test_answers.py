"""Sessions on Spark answer as sessions on DuckDB do, also where tasks and executors are lost."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.engines.spark import jobs
from tests.attacks.attack_bench import _chain
from tests.engines.spark.conftest import KIND, NOT_COMPILED
from tests.engines.spark.faults import around_tasks, fail_once, kill_once, wait_for_ever
from tests.engines.spark.tables import store
from tests.engines.test_sessions import (
    LAWS,
    POLICY,
    SIX_ROWS,
    TABLES,
    TWO_CALLS,
    Elsewhere,
    asked_of_draws,
)
from tests.test_docs import TEXT

ON_CLUSTER = pytest.mark.skipif(KIND != "cluster", reason="no executor of its own: make spark")


@pytest.fixture(scope="module", autouse=True)
def stored(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store(spark, tmp_path_factory.mktemp("tables"), TABLES + SIX_ROWS, "reading")
    spark.catalog.setCurrentDatabase("reading")
    yield
    spark.catalog.setCurrentDatabase("default")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """The same tables in DuckDB."""
    found = Elsewhere(tmp_path, monkeypatch)
    yield found
    found.rows.close()


def analyst(spark: Any, folder: Path, more: str = "") -> Any:
    policy = folder / "spark.toml"
    policy.write_text(POLICY.format(deadline="", more=more))
    return dp_sql.connect(spark, policy=policy, analyst="ann")


def in_parts(monkeypatch: pytest.MonkeyPatch, rows: int = 1) -> None:
    """Split people as if a part could have so few rows."""
    monkeypatch.setattr(jobs, "ROWS_PER_PART", rows)


# --- the same distribution ---


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=() if KIND != "connect" or place in {0, 9} else pytest.mark.slow)
        for place in (0, 1, 3, 4, 9, 10, 12, 14)
    ],
)
def test_an_answer_has_the_same_distribution(
    place: int, spark: Any, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same function of draws with the same odds, also where each task is lost once."""
    query = LAWS[place]
    with elsewhere.analyst("full", more="", where="full") as session:
        right = asked_of_draws(session, query, monkeypatch, 1)
    assert right[0][1], "nothing was drawn"
    in_parts(monkeypatch, 1 + place % 3)
    if place in {0, 1, 10}:
        around_tasks(monkeypatch, lambda _: fail_once(str(elsewhere.folder)))
    with analyst(spark, elsewhere.folder) as session:
        assert asked_of_draws(session, query, monkeypatch, 1) == right


@ON_CLUSTER
def test_ten_million_pairs_are_counted(spark: Any) -> None:
    """Of 10⁶ people: a tenth has the same ten items, and four items belong to each ten others."""
    rows = """SELECT id % 1000000 AS user_id, if(id % 10 = 0, id DIV 1000000,
              10 + id % 1000000 % 100000 * 4 + id DIV 1000000 % 4) AS item FROM range(10000000)"""
    for name in NOT_COMPILED:
        spark.conf.unset(name)
    spark.sql(rows).createOrReplaceTempView("pairs")
    call = "DP_COUNT_DISTINCT(item, epsilon := 1000, privacy_unit := user_id)"
    with dp_sql.connect(spark) as session:
        ((found,),) = session.sql(f"SELECT {call} FROM pairs").fetchall()
    spark.catalog.dropTempView("pairs")
    for name, value in NOT_COMPILED.items():
        spark.conf.set(name, value)
    assert abs(found - 360_010) < 100


# --- what is lost ---


@ON_CLUSTER
def test_an_executor_that_is_killed_changes_nothing(
    spark: Any, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is lost over its parts, one over slices, and one with what it kept of the pairs."""
    with elsewhere.analyst("full", more="", where="full") as session:
        right = asked_of_draws(session, TWO_CALLS, monkeypatch, 1)
    in_parts(monkeypatch)
    killed = elsewhere.folder / "killed"
    killed.mkdir()
    around_tasks(monkeypatch, lambda name: kill_once(str(killed / name)))
    with analyst(spark, elsewhere.folder) as session:
        assert asked_of_draws(session, TWO_CALLS, monkeypatch, 1) == right
        assert len(session.receipts) == 2 and "it failed" not in repr(session.receipts)
    assert elsewhere.kinds("spark") == ["reserved"] * 2 + ["answered"] * 2
    assert {file.name for file in killed.iterdir()} == {
        "answer_parts", "merge_slices", "thin_pieces",
    }  # fmt: skip


def test_tasks_that_fail_for_good_are_one_sentence(
    spark: Any, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: str) -> Any:
        def check(found: Iterator[Any]) -> Iterator[Any]:
            raise ValueError("user 3 has score 9")

        return check

    around_tasks(monkeypatch, failing)
    with analyst(spark, elsewhere.folder) as session:
        with pytest.raises(dp_sql.QueryError) as raised:
            session.sql(TWO_CALLS)
        assert str(raised.value) == "The answer could not be computed. Its cost is spent."
        assert "score" not in _chain(raised.value)
        assert repr(session.receipts).count("it failed, and nothing was released") == 2
    assert elsewhere.kinds("spark") == ["reserved"] * 2 + ["failed"] * 2
    with dp_sql.connect(spark, ledger=elsewhere.folder / "owner.ledger.sqlite") as session:
        with pytest.raises(dp_sql.QueryError, match="Spark could not compute") as raised:
            session.sql("SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings")
        assert "score" not in _chain(raised.value)
    assert elsewhere.kinds("owner") == ["reserved", "failed"]


# --- interrupts ---


def press_when(started: Path) -> threading.Thread:
    """Press Ctrl-C once a task has started."""

    def press() -> None:
        while not started.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    return pressing


def hold(go: str) -> Any:
    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        while not os.path.exists(go):
            time.sleep(0.05)
        yield from batches

    return wait


@pytest.mark.parametrize("who", ["ann", "owner"])
def test_ctrl_c_cancels_the_jobs_of_a_session(
    who: str, spark: Any, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no others; but Spark's driver, which is in this process, hears an owner's signal first."""
    folder = elsewhere.folder
    query = "SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings"
    started, go = folder / "started", folder / "go"
    around_tasks(monkeypatch, lambda _: wait_for_ever(str(started)))
    if who == "ann":
        query = query.replace(", privacy_unit := user_id", "")
        session, name = analyst(spark, folder), "spark"
    else:
        session, name = dp_sql.connect(spark, ledger=folder / "owner.ledger.sqlite"), "owner"
    with session, ThreadPoolExecutor(1) as pool:
        other = pool.submit(spark.range(0, 4, 1, 1).mapInArrow(hold(str(go)), "id long").count)
        pressing = press_when(started)
        with pytest.raises(KeyboardInterrupt):
            session.sql(query)
        pressing.join()
        go.touch()
        if who == "ann":
            assert other.result() == 4
        monkeypatch.undo()
        assert len(session.sql(query).fetchall()) == 1
    assert elsewhere.kinds(name) == ["reserved", "failed", "reserved", "answered"]


# --- what is written ---


def test_the_questions_of_the_readme(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (first, shown), (second, printed) = re.findall(
        r"```python\n(.+?)```\n\n```text\n(.+?)```", TEXT["README.md"], re.DOTALL
    )
    made = re.findall(r'con.sql\("""(CREATE .+?)"""\)', first, re.DOTALL)
    store(spark, tmp_path, ";".join(made), "shop")
    spark.catalog.setCurrentDatabase("shop")
    (query,) = re.findall(r'con.sql\("""(SELECT .+?)"""\)', first, re.DOTALL)
    with dp_sql.connect(spark) as session:
        assert session.sql(query).fetchall() == [(["Dune", "Walden"],)]
        assert str(session.receipts[-1]).strip() in shown
    exec(second.replace('"shop.duckdb"', "spark"), {"spark": spark})
    assert capsys.readouterr().out.strip() == printed.strip()
    spark.catalog.setCurrentDatabase("reading")

"""When a session's debit is in the ledger: before a row is read, whatever happens afterwards."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import BudgetExceeded, InternalError, LedgerError
from dp_sql.session import release_store
from dp_sql.session.analyst import AnalystSession
from dp_sql.udfs.count_distinct import kernels
from tests.budget.shop import COUNT, DISCOVER, POLICY, SHOP, TOP, Opened, kinds, left, watch
from tests.databases import write_database

REFUSED = [
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1) FROM nowhere",
    "SELECT DP_COUNT_DISTINCT(nothing, epsilon := 0.1) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1), title FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1) AS n FROM ratings ORDER BY nowhere",
    "SELECT n + nowhere FROM (SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1) AS n FROM ratings)",
    "SELECT DP_TOPK(title, 99, epsilon := 0.1) FROM ratings",
    *(
        COUNT.format(bad)
        for bad in (
            "NaN", "'nan'", "-0", "-0.0", "0", "1e-320", "1e400", "'1'", "1_000", "1_0e-1", "0x1",
            "true", "NULL", "?", "$1", "1/2", "(0.1)", "-0.1", "inf", "getvariable('e')",
        )
    ),
    *(
        TOP.format(f"0.1, mechanism := 'cdp_peel', delta := {bad}")
        for bad in ("-1e-9", "1e-3", "0.5", "0", "'1e-9'", "NaN", "true", "NULL", "1e-19", "?")
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def thrifty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnalystSession]:
    """A session that spends nothing."""
    folder = tmp_path_factory.mktemp("thrifty")
    (folder / "policy.toml").write_text(POLICY + "delta = 1e-6\n")
    shop = write_database(folder / "shop.duckdb", SHOP)
    with dp_sql.connect(shop, policy=folder / "policy.toml", analyst="ann") as session:
        yield session
        assert kinds(folder) == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_costs_nothing(text: str, thrifty: AnalystSession) -> None:
    with pytest.raises((dp_sql.QueryError, duckdb.Error)):
        thrifty.sql(text)
    assert thrifty.sql("FROM dp_ledger()").fetchall() == []


@pytest.mark.usefixtures("by_sql")
def test_the_loss_is_in_the_file_before_a_private_row_is_read(opened: Opened, folder: Path) -> None:
    session = opened()
    watched = watch(session, folder)
    session.sql(COUNT.format("0.1")).fetchall()
    session.sql(TOP.format("0.1")).fetchall()
    assert watched.seen == [["reserved"], ["reserved", "answered", "reserved"]]


@pytest.mark.usefixtures("by_sql")
def test_a_failure_after_the_debit_stays_spent(opened: Opened, folder: Path) -> None:
    session = opened()
    watched = watch(session, folder)

    def fails(*given: object) -> Any:
        raise duckdb.ConversionException("a person's value")

    watched.instead = fails  # type: ignore[method-assign]
    both = TOP.format("0.1").replace(
        " FROM", ", DP_COUNT_DISTINCT(title, epsilon := 0.2) AS n FROM"
    )
    with pytest.raises(dp_sql.QueryError, match="Its cost is spent") as failed:
        session.sql(both)
    assert "person's value" not in str(failed.value)
    assert kinds(folder) == ["reserved", "reserved", "failed", "failed"]
    assert left(session) == Fraction(7, 10)


@pytest.mark.usefixtures("by_sql")
@pytest.mark.one_in(2)
@pytest.mark.parametrize("discovers", [False, True])
def test_what_never_ran_is_cancelled_by_an_event(
    opened: Opened, folder: Path, discovers: bool
) -> None:
    session = opened(more="delta = 1e-6\n")
    watched = watch(session, folder)

    def fails(sql: str | duckdb.Statement, parameters: object = None) -> Any:
        if "__dp_sql_" in (sql if isinstance(sql, str) else sql.query):
            raise duckdb.BinderException("no such function")
        return watched._inner.sql(sql)

    watched.sql = fails  # type: ignore[method-assign]
    with pytest.raises(dp_sql.InternalError, match="cannot bind the SQL generated"):
        session.sql(DISCOVER if discovers else COUNT.format("0.1"))
    assert kinds(folder) == ["reserved"] * (1 + discovers) + ["cancelled"] * (1 + discovers)
    row = session.budget()[0]
    assert (row.epsilon_spent, row.delta_spent) == (0, 0)


def test_sessions_that_race_never_spend_more_than_there_is(opened: Opened, folder: Path) -> None:
    sessions = [opened(name) for name in ("ann", "bob", "cy", "dan")]
    answered: list[str] = []

    def ask(session: AnalystSession) -> None:
        for _ in range(5):
            try:
                session.sql(COUNT.format("0.1")).fetchall()
                answered.append(session.analyst)
            except BudgetExceeded:
                pass

    threads = [threading.Thread(target=ask, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == 10
    assert kinds(folder).count("answered") == 10


def test_before_the_deadline_no_ledger_shows_that_an_answer_is_ready(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session could read the moment there, and the deadline would hide nothing."""
    policy = POLICY.replace("[budget]", "deadline_seconds = 0.5\n[budget]\nkeep_releases = true")
    (folder / "policy.toml").write_text(policy)
    session, other = opened(), opened()
    seen: list[object] = []

    def look(seconds: float) -> None:
        seen.append((kinds(folder), other.releases))

    monkeypatch.setattr(time, "sleep", look)
    session.sql(COUNT.format("0.1")).fetchall()
    assert seen == [(["reserved"], ())]
    assert kinds(folder) == ["reserved", "answered"] and len(other.releases) == 1


def test_an_answer_that_could_not_be_kept_costs_nothing(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = POLICY.replace("[budget]", "[budget]\nkeep_releases = true")
    (folder / "policy.toml").write_text(policy)
    monkeypatch.setattr(release_store, "_PATIENCE", 1)
    session = opened()
    with contextlib.closing(sqlite3.connect(folder / "policy.ledger.sqlite.releases")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="stored releases"):
            session.sql(COUNT.format("0.1"))
    assert kinds(folder) == []
    session.sql(COUNT.format("0.1"))
    assert kinds(folder) == ["reserved", "answered"]


def test_an_answer_that_cannot_be_stored_is_said_to_be_spent(opened: Opened, folder: Path) -> None:
    policy = POLICY.replace("[budget]", "[budget]\nkeep_releases = true")
    (folder / "policy.toml").write_text(policy)
    session = opened()
    with contextlib.closing(sqlite3.connect(folder / "policy.ledger.sqlite.releases")) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON releases BEGIN SELECT RAISE(ABORT, ''); END"
        )
    with pytest.raises(LedgerError, match=r"^The answer could not be stored. Its cost is spent. "):
        session.sql(COUNT.format("0.1"))
    assert kinds(folder) == ["reserved", "answered"]


def test_an_outcome_that_cannot_be_written_is_said_to_be_spent(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise LedgerError("The disk is full.")

    session = opened()
    monkeypatch.setattr(Ledger, "settle", full)
    with pytest.raises(LedgerError, match=r"^The disk is full. The cost of this query is spent.$"):
        session.sql(COUNT.format("0.1"))
    assert kinds(folder) == ["reserved"]


def test_explain_shows_the_cost_and_spends_nothing(opened: Opened, folder: Path) -> None:
    session = opened()
    watched = watch(session, folder)
    text = TOP.format("0.25")
    relation = session.sql(f"EXPLAIN {text}")
    told = dict(relation.fetchall())
    assert (told["fits"], told["mechanism"]) == ("yes", "joint")
    assert told["cost"].startswith("epsilon = 0.25 ") and "with probability" in told["accuracy"]
    assert (
        told["left"] == "epsilon = 0.5 of 0.5 for ann; 0.25 after" or "0.75 after" in told["left"]
    )
    assert "sql" not in told
    assert "__dp_sql_topk" in dict(session.sql(f"EXPLAIN (sql) {text}").fetchall())["sql"]
    found = session.explain(text)
    assert found.fits and found.epsilon == Fraction(1, 4)
    assert found.after[0].epsilon_left == Fraction(3, 4)
    assert "joint" in str(found) and "0.75 after" in str(found)
    assert watched.seen == [] and kinds(folder) == []


def test_a_batch_is_priced_as_a_whole(opened: Opened, folder: Path) -> None:
    session = opened()
    some = [TOP.format("0.5"), COUNT.format("0.4")]
    assert session.cost(some).fits
    more = session.cost([*some, COUNT.format("0.2")])
    assert not more.fits and more.epsilon == Fraction(11, 10) and len(more.calls) == 3
    assert kinds(folder) == []


@pytest.mark.usefixtures("by_sql")
def test_an_interrupted_query_is_spent_and_the_session_goes_on(
    opened: Opened, folder: Path
) -> None:
    session = opened()
    watched = watch(session, folder)

    ended = threading.Event()

    def press() -> None:
        while not ended.wait(0.1):
            session.interrupt()

    pressing = threading.Thread(target=press, daemon=True)

    def slow(*given: object) -> tuple[str, None]:
        pressing.start()
        rows = "range(1000000000) AS a, range(1000) AS b"
        return f"SELECT count(*) FROM {rows} WHERE a.range + b.range < 0", None

    watched.instead = slow  # type: ignore[method-assign]
    with pytest.raises(dp_sql.QueryError, match="Its cost is spent"):
        session.sql(COUNT.format("0.1"))
    ended.set()
    pressing.join()  # or it would interrupt the next query
    assert kinds(folder) == ["reserved", "failed"]
    del watched.instead
    assert len(session.sql(COUNT.format("0.1")).fetchall()) == 1


def test_explain_says_that_too_little_is_left(opened: Opened) -> None:
    told = dict(opened().sql(f"EXPLAIN {TOP.format(1)}").fetchall())
    assert told["fits"] == "yes" and told["left"].endswith("; 0 after")
    told = dict(opened().sql(f"EXPLAIN {TOP.format(2)}").fetchall())
    assert told["fits"].startswith("no: it would be refused") and "after" not in told["left"]
    assert "epsilon = 1 fits" in told["fits"] + told[""]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", [f"EXPLAIN {TOP.format('0.333333')}", "FROM dp_budget()"])
def test_what_people_read_fits_80_columns(
    opened: Opened, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened().sql(text).show(max_width=80)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown, shown
    assert "spent" in shown or "accuracy" in shown


def test_missing_kernels_are_said_before_anything_is_spent(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    monkeypatch.setattr(kernels, "LIBRARY", Path("nowhere.so"))
    kernels.library.cache_clear()
    try:
        with pytest.raises(InternalError, match="is not built: run pip install again"):
            session.sql(COUNT.format("1.00"))  # not read before
    finally:
        kernels.library.cache_clear()
    assert [row.epsilon_spent for row in session.budget()] == [0, 0]

"""Sessions that spend: what is in the ledger when, what is refused, and what is read again free."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.budget.accountants import epsilon_of_rho
from dp_sql.budget.amounts import ATTO, NANO, PICO, rounded_up
from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
from dp_sql.engines.duckdb.introspection import DatabaseCatalogue
from dp_sql.errors import (
    ArgumentError,
    BudgetExceeded,
    InternalError,
    LedgerError,
    NotSupported,
    PolicyError,
)
from dp_sql.session.analyst import AnalystSession
from dp_sql.udfs.concentrated import largest_rho
from dp_sql.udfs.count_distinct import kernels
from tests.databases import write_database

POLICY = """
[tables.ratings]
privacy_unit = "user_id"
[tables.visits]
privacy_unit = "user_id"
[public]
tables = ["catalog"]
[domains]
"ratings.title" = "catalog.title"
[limits]
max_delta_per_query = 1e-6
[budget]
dataset = "reading"
epsilon = 1
"""
SHOP = """
CREATE TABLE catalog AS SELECT 'book ' || i AS title FROM range(8) AS t(i);
CREATE TABLE ratings AS SELECT i % 90 AS user_id, 'book ' || (i % 7) AS title, i % 2 = 0 AS odd
    FROM range(400) AS t(i);
CREATE TABLE visits AS FROM ratings
"""
COUNT = "SELECT DP_COUNT_DISTINCT(title, epsilon := {}) AS n FROM ratings"
TOP = "SELECT DP_TOPK(title, 2, epsilon := {}) AS best FROM ratings"

Opened = Callable[..., AnalystSession]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_database(tmp_path / "shop.duckdb", SHOP)
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    sessions = []

    def open_one(analyst: str = "ann", more: str = "") -> AnalystSession:
        policy = folder / "policy.toml"
        if more:
            policy.write_text(POLICY + more)
        session = dp_sql.connect(str(folder / "shop.duckdb"), policy=policy, analyst=analyst)
        sessions.append(session)
        return session

    yield open_one
    for session in sessions:
        session.close()


def events(folder: Path, name: str = "policy.ledger.sqlite") -> list[Event]:
    with Ledger(folder / name, folder / f"{name}.witness", read_only=True) as ledger:
        return list(ledger.events())


def kinds(folder: Path) -> list[str]:
    return [event.kind for event in events(folder)][1:]  # the first opens the ledger


def left(session: AnalystSession) -> Fraction:
    found = session.budget()[0].epsilon_left
    assert found is not None
    return found


# --- spending -------------------------------------------------------------------------------------


def test_an_answer_is_reserved_and_settled(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    assert kinds(folder) == ["reserved", "answered"]
    assert left(session) == Fraction(3, 4)
    assert [row.analyst for row in session.budget()] == [None, "ann"]


def test_three_tenths_are_three_tenths(opened: Opened) -> None:
    session = opened(more="[budget.analysts.ann]\nepsilon = 0.3\n")
    for _ in range(3):
        session.sql(COUNT.format("0.1")).fetchall()
    assert session.budget()[1].epsilon_left == 0
    with pytest.raises(BudgetExceeded):
        session.sql(COUNT.format("1e-9"))


def test_what_does_not_fit_is_refused_with_what_would(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.625")).fetchall()
    with pytest.raises(BudgetExceeded) as refused:
        session.sql(COUNT.format("0.5"))
    words = str(refused.value)
    assert "costs epsilon = 0.5" in words and "0.375 of 1 is left" in words
    assert "largest epsilon that still fits is 0.375" in words
    assert kinds(folder) == ["reserved", "answered"]
    session.sql(COUNT.format("0.375")).fetchall()
    with pytest.raises(BudgetExceeded, match="No epsilon fits"):
        session.sql(COUNT.format("1e-9"))


def test_calls_of_one_query_are_reserved_together_or_not_at_all(
    opened: Opened, folder: Path
) -> None:
    session = opened()
    two = (
        "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.6) AS a, "
        "DP_TOPK(title, 2, epsilon := 0.6) AS b FROM ratings"
    )
    with pytest.raises(BudgetExceeded, match="for all calls together is 1"):
        session.sql(two)
    assert kinds(folder) == []
    session.sql(two.replace("0.6", "0.5")).fetchall()
    assert kinds(folder) == ["reserved", "reserved", "answered", "answered"]


def test_analysts_share_the_total_and_have_caps_of_their_own(opened: Opened) -> None:
    more = "[budget.analysts.ann]\nepsilon = 0.5\n"
    ann, bob = opened("ann", more), opened("bob", more)
    ann.sql(COUNT.format("0.5")).fetchall()
    with pytest.raises(BudgetExceeded, match="of the budget of ann in reading"):
        ann.sql(COUNT.format("0.1"))
    bob.sql(COUNT.format("0.4")).fetchall()
    with pytest.raises(BudgetExceeded, match=r"0\.1 of 1 is left of the budget of reading"):
        bob.sql(COUNT.format("0.2"))


def test_another_table_of_the_same_people_has_no_budget_of_its_own(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.75")).fetchall()
    with pytest.raises(BudgetExceeded):
        session.sql(COUNT.format("0.75").replace("ratings", "visits"))


def test_groups_cost_what_is_written(opened: Opened) -> None:
    session = opened()
    session.sql(
        "SELECT odd, DP_TOPK(title, 2, epsilon := 0.5, groups := [true, false], "
        "max_groups_contributed := 2) AS best FROM ratings GROUP BY odd"
    ).fetchall()
    assert left(session) == Fraction(1, 2)


def test_delta_has_a_budget_too(opened: Opened) -> None:
    asked = (
        "SELECT DP_TOPK(title, 2, epsilon := 0.1, delta := 1e-9, mechanism := 'cdp_peel') AS b "
        "FROM ratings"
    )
    with pytest.raises(BudgetExceeded, match="delta"):
        opened().sql(asked)
    session = opened(more="delta = 1e-8\n")
    session.sql(asked).fetchall()
    assert session.budget()[0].delta_left == Fraction(9, 10**9)


def test_under_zcdp_more_small_questions_fit(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\naccountant = 'zcdp'\n")
    for _ in range(12):
        session.sql(TOP.format("0.1")).fetchall()
    spent = session.budget()[0].epsilon_spent
    assert Fraction(1, 2) < spent < 1


def test_the_largest_epsilon_that_is_told_fits_to_the_last_digit(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\naccountant = 'zcdp'\n")
    for spent, asked in (("0.1", "1.377427169026"), ("0.07", "2.1234567890123"), ("0.01", "3")):
        session.sql(TOP.format(spent)).fetchall()
        with pytest.raises(BudgetExceeded) as refused:
            session.sql(TOP.format(asked))
        largest = str(refused.value.hint).split()[-1].rstrip(".")
        assert refused.value.suggestion == TOP.format(largest)
        assert session.cost([TOP.format(largest)]).fits
        assert not session.cost([TOP.format(Decimal(largest) + Decimal("1e-9"))]).fits


@pytest.mark.parametrize("name", ["", 5, True, b"ann", None.__class__, ["ann"], "\ud800", "a\0b"])
def test_a_name_that_no_ledger_can_write_is_refused(name: Any, opened: Opened) -> None:
    with pytest.raises(PolicyError, match="name"):
        opened(name)
    assert opened("ann").budget()[0].epsilon_left == 1


def test_many_threads_open_sessions_and_one_reads_the_catalog(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[BaseException] = []
    met: list[int] = []
    two = threading.Barrier(2)

    def read(catalog: DatabaseCatalogue) -> list[str]:
        with contextlib.suppress(threading.BrokenBarrierError):
            met.append(two.wait(1))  # broken once one thread has waited alone
        return []

    def use_some() -> None:
        try:
            for _ in range(2):
                with opened() as session:
                    session.sql(COUNT.format("1e-6")).fetchall()
                    for shown in ("SHOW TABLES", "DESCRIBE ratings"):
                        session.sql(shown).fetchall()
        except BaseException as error:
            wrong.append(error)

    monkeypatch.setattr(DatabaseCatalogue, "stand_ins", read)
    threads = [threading.Thread(target=use_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == met == []


def test_a_fitting_pld_query_is_told_from_one_that_would_spoil_the_rule(opened: Opened) -> None:
    pytest.importorskip("dp_accounting")
    session = opened(more="delta = 1e-6\naccountant = 'pld'\nrelease_epsilon = 0.1\n")
    with pytest.raises(BudgetExceeded, match="charges every release as epsilon"):
        session.sql(COUNT.format("0.1"))
    session.sql(COUNT.format("0.06")).fetchall()
    session.sql(TOP.format("0.1")).fetchall()
    grouped = (
        "SELECT odd, DP_TOPK(title, 2, epsilon := 0.1, groups := [true, false], "
        "max_groups_contributed := 2) AS best FROM ratings GROUP BY odd"
    )
    assert session.cost([grouped]).fits


DISCOVER = (
    "SELECT DP_TOPK(title, 10, epsilon := 0.3, delta := 1e-9, mechanism := 'weighted_gaussian') "
    "FROM ratings"
)
ZCDP = "delta = 1e-6\naccountant = 'zcdp'\n"


def test_zcdp_counts_the_discovery_of_items_where_the_policy_keeps_delta_for_it(
    opened: Opened, folder: Path
) -> None:
    session = opened(more=f"{ZCDP}discovery_share = 0.1\n")
    for _ in range(5):  # five times 0.3 is more than 1
        session.sql(DISCOVER).fetchall()
    assert kinds(folder) == ["reserved", "reserved", "answered", "answered"] * 5
    half = Fraction(1, 2 * 10**9)
    first, second = [event.amount for event in events(folder)[1:3]]
    assert first is not None and first.rho is not None
    assert (first.epsilon, first.delta) == (3 * 10**8, half * ATTO)
    assert first.rho == rounded_up(largest_rho(Fraction(3, 10), half) * PICO)
    assert second == (0, half * ATTO, None, 0)
    row = session.budget()[0]
    shown = epsilon_of_rho(5 * first.rho, Fraction(9, 10**7))
    assert (row.epsilon_spent, row.delta_spent) == (Fraction(shown, NANO), Fraction(1, 10**6))
    assert row.epsilon_spent < Fraction(6, 10)


def test_zcdp_refuses_the_discovery_of_items_where_the_policy_keeps_no_delta_for_it(
    opened: Opened, folder: Path
) -> None:
    session = opened(more=ZCDP)
    with pytest.raises(BudgetExceeded, match=r"as in discovery_share = 0\.1"):
        session.sql(DISCOVER)
    assert kinds(folder) == []


def test_the_discovery_of_items_costs_epsilon_and_delta_in_a_plain_sum(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\n")
    session.sql(DISCOVER).fetchall()
    row = session.budget()[0]
    assert (row.epsilon_spent, row.delta_spent) == (Fraction(3, 10), Fraction(1, 10**9))


# --- before the first row is read -----------------------------------------------------------------

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


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_costs_nothing(text: str, thrifty: AnalystSession) -> None:
    with pytest.raises((dp_sql.QueryError, duckdb.Error)):
        thrifty.sql(text)
    assert thrifty.sql("FROM dp_ledger()").fetchall() == []


class Watched:
    """A connection that notes what is in the ledger whenever it runs a mechanism."""

    def __init__(self, inner: Any, folder: Path) -> None:
        self._inner, self._folder = inner, folder
        self.seen: list[list[str]] = []

    def execute(self, sql: str, parameters: object = None) -> Any:
        if "__dp_sql_" in sql and not sql.startswith("DESCRIBE"):
            self.seen.append(kinds(self._folder))
        return self._inner.execute(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def watch(session: AnalystSession, folder: Path) -> Watched:
    private = session._private
    private._connection = watched = Watched(private._connection, folder)  # type: ignore[assignment]
    return watched


def test_the_loss_is_in_the_file_before_a_private_row_is_read(opened: Opened, folder: Path) -> None:
    session = opened()
    watched = watch(session, folder)
    session.sql(COUNT.format("0.1")).fetchall()
    session.sql(TOP.format("0.1")).fetchall()
    assert watched.seen == [["reserved"], ["reserved", "answered", "reserved"]]


def test_a_failure_after_the_debit_stays_spent(opened: Opened, folder: Path) -> None:
    session = opened()
    watched = watch(session, folder)

    def fails(sql: str, parameters: object = None) -> Any:
        if "__dp_sql_" in sql and not sql.startswith("DESCRIBE"):
            raise duckdb.ConversionException("a person's value")
        return watched._inner.execute(sql, parameters)

    watched.execute = fails  # type: ignore[method-assign]
    both = TOP.format("0.1").replace(
        " FROM", ", DP_COUNT_DISTINCT(title, epsilon := 0.2) AS n FROM"
    )
    with pytest.raises(dp_sql.QueryError, match="Its cost is spent") as failed:
        session.sql(both)
    assert "person's value" not in str(failed.value)
    assert kinds(folder) == ["reserved", "reserved", "failed", "failed"]
    assert left(session) == Fraction(7, 10)


@pytest.mark.parametrize("discovers", [False, True])
def test_what_never_ran_is_cancelled_by_an_event(
    opened: Opened, folder: Path, discovers: bool
) -> None:
    session = opened(more="delta = 1e-6\n")
    watched = watch(session, folder)

    def fails(sql: str, parameters: object = None) -> Any:
        if "__dp_sql_" in sql:
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


# --- what it would cost ---------------------------------------------------------------------------


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


# --- the system tables -----------------------------------------------------------------------------


def test_the_budget_is_a_table(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    relation = session.sql("SELECT * FROM dp_budget()")
    assert relation.columns == ["analyst", "loss", "spent", "remaining", "total", "accountant"]
    total, own = relation.fetchall()
    assert total[:5] == (None, "epsilon", 0.25, 0.75, 1)
    assert own[:5] == ("ann", "epsilon", 0.25, None, None)
    text = f"SELECT n, b.remaining FROM ({COUNT.format('0.25')}), dp_budget() AS b"
    assert session.sql(text).fetchall()[0][1] == 0.75  # read before the answer


def test_an_analyst_sees_own_events_only(opened: Opened) -> None:
    ann, bob = opened("ann"), opened("bob")
    ann.sql(COUNT.format("0.25")).fetchall()
    bob.sql(COUNT.format("0.125")).fetchall()
    seen = bob.sql("SELECT analyst, kind, epsilon FROM dp_ledger() WHERE epsilon > 0").fetchall()
    assert seen == [("bob", "spent", Decimal("0.125"))]
    assert bob.sql("FROM dp_ledger() SELECT DISTINCT analyst").fetchall() == [("bob",)]
    assert bob.sql("FROM dp_budget() SELECT remaining").fetchall()[0] == (0.625,)


def test_the_numbers_of_an_analysts_events_count_no_one_elses(opened: Opened) -> None:
    ann, bob = opened("ann"), opened("bob")
    for session in (ann, bob, ann, bob, bob):
        session.sql(COUNT.format("0.01")).fetchall()
    numbers = [n for (n,) in bob.sql("SELECT number FROM dp_ledger() ORDER BY number").fetchall()]
    assert numbers == [1, 2, 3]


def test_system_tables_that_are_read_again_take_bounded_room(opened: Opened) -> None:
    session = opened(more="keep_releases = true\n")
    session.sql(COUNT.format("0.1")).fetchall()
    kept = session.releases[0].id
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '\\_\\_dp%' ESCAPE '\\'"
    for round in range(10):
        for text in ("FROM dp_budget()", "FROM dp_ledger()", "FROM dp_releases()",
                     f"FROM dp_release('{kept}')", COUNT.format("0.1")):  # fmt: skip
            session.sql(text).fetchall()
        if round == 5:  # 16 copies are kept
            before = session.sql(tables).fetchall()
    assert session.sql(tables).fetchall() == before and before[0][0] > 0


def test_nothing_is_spent_while_an_answer_is_read_in_pieces(opened: Opened) -> None:
    """DuckDB 2.0 keeps nothing while a reader is open; 1.5 ends the reader."""
    session = opened()
    reader = session.sql("SELECT unnest(range(100000)) AS i").arrow()
    before = left(session)
    try:
        session.sql(COUNT.format("0.1")).fetchall()
        assert left(session) == before - Fraction(1, 10)
    except NotSupported as refused:
        assert "still being read" in str(refused) and left(session) == before
        del reader
        gc.collect()
        session.sql(COUNT.format("0.1")).fetchall()


@pytest.mark.parametrize("table", ["dp_budget()", "dp_ledger()"])
def test_without_a_budget_there_are_no_system_tables(table: str, folder: Path) -> None:
    (folder / "policy.toml").write_text(POLICY.split("[budget]")[0])
    with dp_sql.connect(str(folder / "shop.duckdb"), policy=folder / "policy.toml") as session:
        with pytest.raises(NotSupported, match="no ledger here"):
            session.sql(f"FROM {table}")
        assert session.budget() == ()
        session.sql(COUNT.format("1000")).fetchall()


@pytest.mark.parametrize(
    "text", ["FROM dp_budget(1)", "FROM dp_release()", "FROM dp_release(x)", "FROM dp_release('x')"]
)
def test_a_system_table_read_wrongly_is_refused(text: str, opened: Opened) -> None:
    with pytest.raises(ArgumentError):
        opened().sql(text)


# --- kept releases --------------------------------------------------------------------------------


def test_a_release_is_read_again_for_nothing(opened: Opened, folder: Path) -> None:
    session = opened()
    grouped = (
        "SELECT odd, DP_TOPK(title, 2, epsilon := 0.25, groups := [true, false], "
        "max_groups_contributed := 1) AS best FROM ratings GROUP BY odd"
    )
    answer = session.sql(grouped).fetchall()
    (release,) = session.releases
    again = session.sql(f"SELECT odd, answer FROM dp_release('{release.id}')").fetchall()
    assert sorted(again) == sorted(answer)
    assert session.sql("SELECT id, epsilon FROM dp_releases()").fetchall() == [
        (release.id, Decimal("0.25"))
    ]
    assert release.columns == (("odd", "BOOLEAN"), ("answer", "VARCHAR[]"))
    assert kinds(folder) == ["reserved", "answered"]


def test_without_the_owners_word_the_same_question_is_a_new_debit(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    session.sql(COUNT.format("0.25")).fetchall()
    assert left(session) == Fraction(1, 2)
    assert opened().releases == ()


@pytest.mark.parametrize(
    "asked",
    [
        TOP,
        COUNT,
        "SELECT DP_COUNT_DISTINCT(title, epsilon := {}, report := true) AS r FROM ratings",
        "SELECT odd, DP_COUNT_DISTINCT(title, epsilon := {}, groups := [true, false], "
        "max_groups_contributed := 1) AS n FROM ratings GROUP BY odd",
    ],
)
def test_a_dashboard_that_refreshes_spends_once(asked: str, opened: Opened, folder: Path) -> None:
    keep = "keep_releases = true\n"
    text = asked.format("0.5")
    first = opened(more=keep).sql(text).fetchall()
    for _ in range(3):
        session = opened(more=keep)
        assert session.explain(text).epsilon == 0
        assert session.sql(text).fetchall() == first
        assert len(session.releases) == 1 and session.receipts == ()
    assert kinds(folder) == ["reserved", "answered"]


def test_a_stored_release_is_of_its_own_database(opened: Opened, folder: Path) -> None:
    ann = opened("ann", "keep_releases = true\n")
    ann.sql(TOP.format("0.125")).fetchall()
    (folder / "newer").mkdir()
    shutil.copy(folder / "shop.duckdb", folder / "newer" / "shop.duckdb")
    newer = str(folder / "newer" / "shop.duckdb")
    with dp_sql.connect(newer, policy=folder / "policy.toml", analyst="ann") as session:
        assert session.cost([TOP.format("0.125")]).epsilon > 0


def test_a_stored_release_answers_its_own_question_and_analyst_only(opened: Opened) -> None:
    keep = "keep_releases = true\n"
    ann = opened("ann", keep)
    ann.sql(TOP.format("0.125")).fetchall()
    for other in (
        TOP.format("0.126"),
        TOP.format("0.125").replace("ratings", "ratings WHERE odd"),
        TOP.format("0.125").replace("2,", "3,"),
        TOP.format("0.125, domain := ['book 1', 'book 2']"),
    ):
        assert ann.cost([other]).epsilon > 0
    bob = opened("bob", keep)
    assert bob.cost([TOP.format("0.125")]).epsilon > 0
    with pytest.raises(ArgumentError, match="no release with this id"):
        bob.sql(f"FROM dp_release('{ann.releases[0].id}')")


def test_receipts_and_releases_are_plain_where_that_is_wanted(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    told = json.loads(json.dumps(session.receipts[0].to_dict()))
    assert (told["mechanism"], told["epsilon"], told["delta"]) == ("matching", "0.25", "0")
    release = session.releases[0].to_dict()
    assert release["columns"] == [{"name": "answer", "type": "BIGINT"}]
    assert release["epsilon"] == "0.25" and release["id"] == session.releases[0].id


def test_an_interrupted_query_is_spent_and_the_session_goes_on(
    opened: Opened, folder: Path
) -> None:
    session = opened()
    watched = watch(session, folder)

    def slow(sql: str, parameters: object = None) -> Any:
        if "__dp_sql_" in sql and not sql.startswith("DESCRIBE"):
            threading.Timer(0.1, session.interrupt).start()
            sql = "SELECT count(*) FROM range(1000000000) AS a, range(1000) AS b WHERE a.range + b.range < 0"
        return watched._inner.execute(sql, parameters)

    watched.execute = slow  # type: ignore[method-assign]
    with pytest.raises(dp_sql.QueryError, match="Its cost is spent"):
        session.sql(COUNT.format("0.1"))
    assert kinds(folder) == ["reserved", "failed"]
    del watched.execute
    assert len(session.sql(COUNT.format("0.1")).fetchall()) == 1


def test_a_forgotten_session_leaves_no_file_open(opened: Opened, folder: Path) -> None:
    session: Any = dp_sql.connect(
        str(folder / "shop.duckdb"), policy=folder / "policy.toml", analyst="ann"
    )
    session.sql(COUNT.format("0.1")).fetchall()
    del session
    gc.collect()  # Python 3.13 warns of what is open here, and a warning is an error
    assert left(opened()) == Fraction(9, 10)


# --- damage, as a session meets it ----------------------------------------------------------------


def test_a_ledger_that_is_gone_is_not_made_anew(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.5")).fetchall()
    session.close()
    for file in folder.glob("policy.ledger.sqlite*"):
        if not file.name.endswith(".witness"):
            file.unlink()
    with pytest.raises(LedgerError):
        opened()
    assert not (folder / "policy.ledger.sqlite").exists()


def test_a_ledger_taken_away_under_a_session_answers_nothing(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.5")).fetchall()
    for file in folder.glob("policy.ledger.sqlite*"):
        file.unlink()
    with pytest.raises(LedgerError):
        session.sql(COUNT.format("0.5"))


def test_the_ledger_of_another_dataset_is_refused(opened: Opened, folder: Path) -> None:
    opened().close()
    policy = POLICY.replace('"reading"', '"writing"')
    (folder / "policy.toml").write_text(policy)
    with pytest.raises(LedgerError, match="reading"):
        dp_sql.connect(str(folder / "shop.duckdb"), policy=folder / "policy.toml")


# --- the owner's own ledger -----------------------------------------------------------------------

OWN_TOP = (
    "SELECT DP_TOPK(title, 2, epsilon := 0.5, privacy_unit := user_id, domain := catalog.title) "
    "AS best FROM ratings"
)


@pytest.fixture
def owner(folder: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite") as session:
        yield session


def own(folder: Path) -> list[tuple[str, int]]:
    found = events(folder, "own.sqlite")[1:]
    return [(event.kind, event.amount.epsilon if event.amount else 0) for event in found]


HALF = [("reserved", 5 * 10**8), ("answered", 0)]


def test_an_owner_may_keep_a_ledger(owner: dp_sql.Session, folder: Path) -> None:
    owner.sql(OWN_TOP).fetchall()
    assert own(folder) == HALF
    assert owner.sql("FROM dp_budget() SELECT analyst, spent").fetchall() == [
        (None, Decimal("0.5")),
        ("owner", Decimal("0.5")),
    ]
    (release,) = owner.releases
    (again,) = owner.sql(f"SELECT answer FROM dp_release('{release.id}')").fetchall()
    assert len(again[0]) == 2
    assert owner.sql("SELECT count(*) FROM dp_ledger()").fetchall() == [(3,)]
    assert own(folder) == HALF


def test_rollback_takes_no_debit_back(owner: dp_sql.Session, folder: Path) -> None:
    owner.execute("BEGIN")
    owner.sql(OWN_TOP).fetchall()
    owner.execute("ROLLBACK")
    assert own(folder) == HALF
    with pytest.raises(ArgumentError, match="rolled back"):
        owner.sql(f"FROM dp_release('{owner.releases[0].id}')")


def test_dp_pays_from_the_ledger_once_per_execution(owner: dp_sql.Session, folder: Path) -> None:
    con = owner.connection
    relation = con.sql(f"FROM dp($$ {OWN_TOP} $$)")
    assert own(folder) == []  # bound, not run
    con.execute(f"SELECT * FROM dp($$ {OWN_TOP} $$) AS a, dp($$ {OWN_TOP} $$) AS b").fetchall()
    assert own(folder) == HALF
    relation.fetchall()
    assert own(folder) == HALF * 2


def test_selection_for_each_group_costs_each_group(owner: dp_sql.Session, folder: Path) -> None:
    owner.execute(
        "CREATE TABLE scores AS SELECT i % 3 AS region, 'c' || (i // 3) AS candidate, "
        "i AS score FROM range(12) AS t(i)"
    )
    text = (
        "SELECT region, DP_SELECT(candidate, score, 1, epsilon := 0.5) AS best FROM scores "
        "GROUP BY region"
    )
    assert owner.explain(text).epsilon == Fraction(3, 2)
    assert len(owner.sql(text).fetchall()) == 3
    assert own(folder) == [("reserved", 15 * 10**8), ("answered", 0)]
    with pytest.raises(duckdb.Error, match="takes no DP_SELECT with GROUP BY"):
        owner.connection.execute(f"FROM dp($$ {text} $$)").fetchall()
    assert own(folder) == [("reserved", 15 * 10**8), ("answered", 0)]


def test_explain_of_an_owner_spends_nothing(owner: dp_sql.Session, folder: Path) -> None:
    told = dict(owner.sql(f"EXPLAIN {OWN_TOP}").fetchall())
    assert told["mechanism"] == "joint" and told["cost"].startswith("epsilon = 0.5 ")
    assert owner.explain(OWN_TOP).epsilon == Fraction(1, 2)
    assert own(folder) == []


def test_one_database_has_one_ledger_in_a_process(owner: dp_sql.Session, folder: Path) -> None:
    with pytest.raises(PolicyError, match="with a ledger"):
        dp_sql.connect(str(folder / "shop.duckdb"))
    with pytest.raises(PolicyError, match="with a ledger"):
        dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "other.sqlite")
    with dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite") as second:
        second.sql(OWN_TOP).fetchall()
    assert own(folder) == HALF
    owner.connection.execute(f"FROM dp($$ {OWN_TOP} $$)").fetchall()
    assert own(folder) == HALF * 2


def test_a_ledger_is_not_opened_while_sessions_without_one_are_open(folder: Path) -> None:
    with (
        dp_sql.connect(str(folder / "shop.duckdb")),
        pytest.raises(PolicyError, match="without a ledger"),
    ):
        dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite")
    dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite").close()


def test_a_policy_names_its_ledger_itself(folder: Path) -> None:
    with pytest.raises(PolicyError, match="names its ledger itself"):
        dp_sql.connect(
            str(folder / "shop.duckdb"),
            policy=folder / "policy.toml",
            ledger=folder / "x",  # type: ignore[call-overload]
        )


def test_explain_says_that_too_little_is_left(opened: Opened) -> None:
    told = dict(opened().sql(f"EXPLAIN {TOP.format(1)}").fetchall())
    assert told["fits"] == "yes" and told["left"].endswith("; 0 after")
    told = dict(opened().sql(f"EXPLAIN {TOP.format(2)}").fetchall())
    assert told["fits"].startswith("no: it would be refused") and "after" not in told["left"]
    assert "epsilon = 1 fits" in told["fits"] + told[""]


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
            session.sql(COUNT.format(1))
    finally:
        kernels.library.cache_clear()
    assert [row.epsilon_spent for row in session.budget()] == [0, 0]

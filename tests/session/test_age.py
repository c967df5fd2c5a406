"""An old session works as a new one: the same steps for an answer, and little held for each.

Counted, not timed: Python's calls, statements, objects, temporary tables and open files.
"""

import gc
import os
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.budget.amounts import amount_of
from dp_sql.engines.duckdb import frozen, tickets
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.install import instance_of
from dp_sql.engines.duckdb.relation_names import Names
from dp_sql.udfs import exact_sampling
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.conftest import READING_LOG

N = 20
SURE = "epsilon := 100"
OWNERS = f"SELECT DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id) AS n FROM ratings"
ANALYSTS = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings"
POLICY = '[tables.ratings]\nprivacy_unit = "user_id"\n'
BUDGET = '[budget]\ndataset = "log"\nepsilon = 1000000\nledger = "{}.sqlite"\n'


class Opened:
    """A session, what is asked of it, and the connection that has its temporary tables."""

    def __init__(self, session: Any, question: str, tables: duckdb.DuckDBPyConnection) -> None:
        self.session, self.question, self.tables = session, question, tables

        self.is_macro = not question.startswith("SELECT")
        self.is_stored = False

    def ask(self, question: str = "") -> Any:
        return self.session.sql(question or self.question)

    def n_tables(self) -> int:
        sql = "SELECT table_name FROM duckdb_tables() WHERE temporary"
        return len(self.tables.execute(sql).fetchall())


@contextmanager
def _owner(folder: Path, question: str = OWNERS, **ledger: Any) -> Iterator[Opened]:
    with dp_sql.connect(**ledger) as session:
        session.execute("SET threads = 1")  # steps are counted in one thread
        session.execute(READING_LOG)
        yield Opened(session, question, session.connection)


@contextmanager
def _analyst(folder: Path, more: str = "") -> Iterator[Opened]:
    database, policy = folder / "log.duckdb", folder / "policy.toml"
    with duckdb.connect(str(database)) as con:
        con.execute(READING_LOG)
    policy.write_text(f"{POLICY}[limits]\nthreads = 1\n{more}", "utf-8")
    with dp_sql.connect(str(database), policy=policy) as session:
        public: Any = session
        opened = Opened(session, ANALYSTS, public._public.connection)
        opened.is_stored = "keep_releases" in more
        yield opened


SESSIONS: dict[str, Callable[[Path], Any]] = {
    "owner": _owner,
    "owner with a ledger": lambda folder: _owner(folder, ledger=folder / "owner.sqlite"),
    "dp macro": lambda folder: _owner(folder, f"FROM dp($$ {OWNERS} $$)"),
    "analyst": _analyst,
    "analyst with a budget": lambda folder: _analyst(folder, BUDGET.format("paid")),
    "analyst with stored releases": lambda folder: _analyst(
        folder, BUDGET.format("kept") + "keep_releases = true\n"
    ),
}


@pytest.fixture(params=SESSIONS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with SESSIONS[request.param](tmp_path) as opened:
        yield opened


def steps(ask: Callable[[], Any]) -> int:
    """How many functions an answer calls in Python, when all answers draw the same bits."""
    counted = []
    for _ in range(3):  # a ledger, for one, does a little more now and then
        n = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal n
            n += event in {"call", "c_call"}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exact_sampling, "fair_bits", random.Random(7).getrandbits)
            gc.disable()
            sys.setprofile(count)
            try:
                ask().fetchall()
            finally:
                sys.setprofile(None)
                gc.enable()
        counted.append(n)
    return min(counted)


def n_objects() -> int:
    gc.collect()
    # sqlite3 drops its references to old cursors only once they are 200.
    return sum(type(one) is not weakref.ref for one in gc.get_objects())


@pytest.mark.thorough
def test_an_old_session_does_what_a_new_one_does(opened: Opened) -> None:
    held = [opened.ask(opened.question.replace(SURE, "epsilon := 0.001")) for _ in range(5)]
    first = [] if opened.is_macro else [relation.filter("true").fetchall() for relation in held]
    for _ in range(8):
        opened.ask().fetchall()
    young, objects = steps(opened.ask), n_objects()
    tables, files = opened.n_tables(), len(os.listdir("/proc/self/fd"))
    n_before = opened.session.n_receipts
    for _ in range(N):
        opened.ask().fetchall()
    made = opened.session.n_receipts - n_before
    assert made == (0 if opened.is_stored else N)
    assert opened.n_tables() == tables <= 1
    assert len(os.listdir("/proc/self/fd")) == files
    assert n_objects() - objects < 6 * N
    same = opened.session.receipts[-made:] if made else ()
    assert len(set(map(id, same))) == bool(made), "equal receipts are one object"
    # Waiting for a thread takes a few steps more where the machine is busy.
    assert steps(opened.ask) < young + N, "something held for each answer was walked"
    if not opened.is_macro:  # noise is drawn anew in each release, so another draw would show
        made = opened.session.n_receipts
        assert [relation.filter("true").fetchall() for relation in held] == first
        assert opened.session.n_receipts == made
        assert len(set(map(repr, first))) > 1 or opened.is_stored


def test_a_walk_of_the_receipts_takes_more_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Engine.release

    def walk(engine: Engine, *given: Any) -> Any:
        assert all(receipt.loss for receipt in session.receipts)
        return right(engine, *given)

    with _owner(tmp_path) as opened:
        session = opened.session
        monkeypatch.setattr(Engine, "release", walk)
        young = steps(opened.ask)
        assert steps(opened.ask) > young


@pytest.mark.one_in(3)
@pytest.mark.parametrize("opened", [name for name in SESSIONS if name != "dp macro"], indirect=True)
def test_copies_of_system_tables_do_not_pile_up(opened: Opened) -> None:
    opened.ask()
    tables = opened.n_tables()
    relation = opened.session.sql("FROM dp_releases()")
    for _ in range(frozen.MAX_SYSTEM_TABLES - 1):
        opened.session.sql("FROM dp_releases()")
    assert relation.fetchall() == opened.session.sql("FROM dp_releases()").fetchall()
    for _ in range(3):
        opened.session.sql("FROM dp_releases()")
    assert opened.n_tables() == tables + frozen.MAX_SYSTEM_TABLES


@pytest.mark.thorough
def test_an_old_ledger_is_not_walked(tmp_path: Path) -> None:
    with _owner(tmp_path, ledger=tmp_path / "old.sqlite") as opened:
        opened.ask()
        young, ledger = steps(opened.ask), opened.session._ledger
        ledger.reserve("ann", [amount_of(PrivacyLoss(Fraction(1)))] * 2000, lambda *spent: None)
        opened.ask()
        assert steps(opened.ask) == young


@pytest.mark.thorough
def test_the_macro_holds_the_plans_of_the_newest_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "_MAX_PLANS", 8)
    with duckdb.connect() as con:
        con.execute(READING_LOG)
        dp_sql.install(con)
        for n in range(20):
            assert len(con.sql(f"FROM dp($$ {OWNERS} -- {n}\n$$)").fetchall()) == 1
        assert len(dp_sql.receipts(con)) == 20
        instance = instance_of(con)
        assert instance is not None and len(instance.tickets._again) == 8


def test_the_catalog_is_asked_once_for_all_names(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetch = Names._fetch

    def spy(names: Names, sql: str) -> Any:
        asked.append(sql)
        return fetch(names, sql)

    monkeypatch.setattr(Names, "_fetch", spy)
    declared = f"{SURE}, privacy_unit := user_id, domain := catalog.title"
    session.sql(f"SELECT DP_TOPK(title, 2, {declared}) FROM ratings")
    assert len([sql for sql in asked if "duckdb_tables" in sql]) == 1


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("change", "n"),
    [
        ("CREATE OR REPLACE TABLE seen AS SELECT i AS u, i AS item FROM range(7) AS r(i)", 7),
        ("CREATE TEMP TABLE seen AS SELECT i AS u, 'x' AS item FROM range(7) AS r(i)", 1),
        ("CREATE TEMP VIEW seen AS FROM memory.main.seen WHERE item < 2", 2),
        ("ALTER TABLE seen ALTER item TYPE VARCHAR USING 'all'", 1),
        ("CREATE SCHEMA s; CREATE VIEW s.seen AS FROM main.seen WHERE item < 3; USE s", 3),
        ("ALTER TABLE seen RENAME TO old; CREATE VIEW seen AS FROM old WHERE item < 4", 4),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_a_change_of_the_schema_is_seen(change: str, n: int, together: bool) -> None:
    count = "SELECT DP_COUNT_DISTINCT(item, epsilon := 10000, privacy_unit := u) AS n FROM seen"
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE seen AS SELECT i AS u, i AS item FROM range(5) AS r(i)")
        assert session.sql(count).fetchall() == [(5,)]
        if not together:
            session.execute(change)
        asked = f"{count}; {change}; {count}" if together else count
        assert session.sql(asked).fetchall() == [(n,)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("session", ["owner", "analyst"])
@pytest.mark.parametrize(
    ("keys", "stored"),
    [
        ("number", ["number", "answer"]),  # as the column that numbers the answers
        ("answer", ["answer", "answer_1"]),
        ('"Answer"', ["Answer", "answer_1"]),
        ("answer, Answer_1", ["answer", "Answer_1", "answer_2"]),
        ("year + 0, YEAR +  0, answer", ["year + 0", "answer", "answer_1"]),
    ],
)
def test_a_group_key_may_have_any_name(
    session: str, keys: str, stored: list[str], tmp_path: Path
) -> None:
    names = {name for name in stored[:-1] if "+" not in name}
    source = "".join(f', year AS "{name}"' for name in sorted(names))
    groups = ", ".join(["[2000]"] * (len(stored) - 1))
    unit = ", privacy_unit := user_id" if session == "owner" else ""
    with SESSIONS[session](tmp_path) as opened:
        answer = opened.ask(
            f"SELECT {keys}, DP_COUNT_DISTINCT(title, {SURE}{unit}, groups := ({groups}), "
            f"max_groups_contributed := 1) AS n FROM (SELECT *{source} FROM ratings) GROUP BY {keys}"
        ).fetchall()
        again = opened.ask(f"FROM dp_release('{opened.session.releases[-1].id}')")
        assert again.columns == stored
        assert again.fetchall() == [(*[2000] * (len(stored) - 1), answer[0][-1])]

"""Sessions over an engine that loses, repeats and shuffles jobs: one debit, one draw, one outcome."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dp_sql
from dp_sql.sql.functions.topk import TopK
from dp_sql.udfs.count_distinct import partial
from dp_sql.udfs.exact_sampling import Draws
from tests.attacks.attack_bench import _chain
from tests.budget.shop import events
from tests.databases import write_database
from tests.engines.fake import FakeEngine, Lost
from tests.engines.sessions import by_parts

TABLES = """
CREATE TABLE catalog (title VARCHAR);
INSERT INTO catalog VALUES ('Dune'), ('Emma'), ('Ulysses');
CREATE TABLE ratings (user_id INTEGER, title VARCHAR, region VARCHAR, score INTEGER);
"""
SIX_ROWS = """
INSERT INTO ratings VALUES (1, 'Dune', 'north', 2), (2, 'Dune', 'north', 3), (2, 'Emma', 'north', 3),
    (3, 'Emma', 'south', 9), (4, 'Dune', 'south', -4), (5, 'Ulysses', 'south', 1);
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"
public.tables = ["catalog"]
domains."ratings.title" = "catalog.title"
domains."ratings.region" = ["north", "south", "east"]
[limits]
max_delta_per_query = 1e-3
{deadline}
[budget]
dataset = "reading"
epsilon = 100
delta = 0.0001
{more}
"""
TWO_CALLS = "SELECT DP_TOPK(title, 2, epsilon := 0.1), DP_COUNT_DISTINCT(title, epsilon := 0.1) FROM ratings"
N_JOBS = 2  # of TWO_CALLS: counts, and some pairs


class Elsewhere:
    """A folder with the database of a session, without rows, and the rows elsewhere."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        (folder / "full").mkdir()
        write_database(folder / "shop.duckdb", TABLES)
        full = write_database(folder / "full" / "shop.duckdb", TABLES + SIX_ROWS)
        self.rows = duckdb.connect()
        self.rows.execute(f"ATTACH '{full}' AS shop (READ_ONLY)")
        self.engines: list[FakeEngine] = []

    def read_by_parts(self, **given: Any) -> None:
        def make(_: Any) -> FakeEngine:
            self.engines.append(FakeEngine(self.rows, len(self.engines), **given))
            return self.engines[-1]

        by_parts(self.patch, make)

    def analyst(
        self, name: str, deadline: str = "", more: str = "keep_releases = true", where: str = ""
    ) -> Any:
        """A session with a ledger of its own; `where` is the folder with the rows, or here."""
        policy = self.folder / where / f"{name}.toml"
        policy.write_text(POLICY.format(deadline=deadline, more=more))
        database = self.folder / where / "shop.duckdb"
        return dp_sql.connect(str(database), policy=policy, analyst="ann")

    def owner(self, name: str, where: str = "") -> Any:
        database, ledger = (
            self.folder / where / "shop.duckdb",
            self.folder / f"{name}.ledger.sqlite",
        )
        return dp_sql.connect(str(database), ledger=ledger)

    def kinds(self, name: str) -> list[str]:
        return [event.kind for event in events(self.folder, f"{name}.ledger.sqlite")][1:]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    found = Elsewhere(tmp_path, monkeypatch)
    yield found
    found.rows.close()


def losing(*lost: int) -> Callable[[], None]:
    """Lose the jobs with these numbers, of all that run."""
    numbers = count(1)

    def job() -> None:
        if next(numbers) in lost:
            raise Lost("user 3 has score 9")

    return job


def left_behind(connection: Any) -> list[Any]:
    tables = "SELECT table_name FROM duckdb_tables() WHERE temporary AND NOT starts_with(table_name, '__dp_public') AND NOT starts_with(table_name, '__dp_releases')"
    return connection.execute(tables).fetchall()


# --- failures ---


def fails_at(step: str, elsewhere: Elsewhere) -> None:
    """Let the question fail at one step."""

    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("user 3 has score 9")

    if step.startswith("job"):
        elsewhere.read_by_parts(job=losing(int(step.removeprefix("job "))))
        return
    elsewhere.read_by_parts()
    if step == "flow":
        elsewhere.patch.setattr(partial, "partial_cover_counts", fail)
    if step == "draw":
        elsewhere.patch.setattr(TopK, "draw", fail)


STEPS = [*(f"job {n}" for n in range(1, N_JOBS + 1)), "flow", "draw"]


def test_whatever_fails_an_analyst_sees_the_same(elsewhere: Elsewhere) -> None:
    outcomes = []
    for step in STEPS:
        fails_at(step, elsewhere)
        with elsewhere.analyst(step) as session:
            with pytest.raises(dp_sql.QueryError) as raised:
                session.sql(TWO_CALLS)
            outcomes.append((
                str(raised.value), _chain(raised.value), repr(session.receipts),
                session.sql("SELECT * EXCLUDE (ticket, time) FROM dp_ledger()").fetchall(),
                session.sql("FROM dp_releases()").fetchall(), elsewhere.kinds(step),
                left_behind(session._private._connection),
            ))  # fmt: skip
        elsewhere.patch.undo()
    said, chain, receipts, _, releases, kinds, tables = outcomes[0]
    assert outcomes == [outcomes[0]] * len(STEPS)
    assert said == "The answer could not be computed. Its cost is spent." and "score" not in chain
    assert receipts.count("it failed, and nothing was released") == 2
    assert kinds == ["reserved"] * 2 + ["failed"] * 2 and releases == [] and tables == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("step", STEPS)
def test_an_owner_pays_for_what_failed(step: str, elsewhere: Elsewhere) -> None:
    fails_at(step, elsewhere)
    with elsewhere.owner("owner") as session:
        with pytest.raises(dp_sql.QueryError) as raised:
            session.sql(
                TWO_CALLS.replace(
                    "0.1)", "0.1, privacy_unit := user_id, domain := catalog.title)", 1
                ).replace("0.1)", "0.1, privacy_unit := user_id)", 1)
            )
        assert "score 9" not in _chain(raised.value)
        assert session.receipts == () and left_behind(session.connection) == []
        assert elsewhere.kinds("owner") == ["reserved"] * 2 + ["failed"] * 2
        elsewhere.patch.undo()
        elsewhere.read_by_parts()
        assert session.sql(
            "SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings"
        ).fetchall()


def test_lost_jobs_are_run_again_and_nothing_else(elsewhere: Elsewhere) -> None:
    elsewhere.read_by_parts(retries=2, repeats=2, job=losing(1, 2, 4))
    with elsewhere.analyst("ann") as session:
        assert len(session.sql(TWO_CALLS).fetchall()) == 1
        assert len(session.receipts) == 2 and "it failed" not in repr(session.receipts)
        assert elsewhere.kinds("ann") == ["reserved"] * 2 + ["answered"] * 2
        assert sum(engine.n_jobs for engine in elsewhere.engines) == N_JOBS + 3
        n_engines = len(elsewhere.engines)
        assert session.sql(TWO_CALLS).fetchall()  # read again, free
        assert len(elsewhere.engines) == n_engines and len(elsewhere.kinds("ann")) == 4


def test_jobs_that_run_too_often_fail(elsewhere: Elsewhere) -> None:
    elsewhere.read_by_parts(retries=1, job=losing(2, 3))
    with elsewhere.analyst("ann") as session, pytest.raises(dp_sql.QueryError, match="Its cost"):
        session.sql(TWO_CALLS)
    assert elsewhere.kinds("ann") == ["reserved"] * 2 + ["failed"] * 2


# --- slow jobs and interrupts ---


@pytest.mark.parametrize("is_slow", [False, True])
def test_an_interrupt_does_not_show_whether_a_job_was_done(
    is_slow: bool, elsewhere: Elsewhere
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        if is_slow:
            stopped.wait(60)
            raise Lost

    elsewhere.read_by_parts(job=job)
    with elsewhere.analyst("ann", "deadline_seconds = 1.5") as session:
        right = session._private.interrupt
        session._private.interrupt = lambda: (stopped.set(), right())

        def interrupt() -> None:
            begun.wait(60)
            session.interrupt()

        pressing = threading.Thread(target=interrupt)
        pressing.start()
        with pytest.raises(dp_sql.QueryError) as raised:
            session.sql(TWO_CALLS)
        pressing.join()
        assert str(raised.value) == "The query was interrupted. Its cost is spent."
        assert repr(session.receipts).count("it failed") == 2 and session.releases == ()
        assert elsewhere.kinds("ann") == ["reserved"] * 2 + ["failed"] * 2


# --- the same distribution ---


class Scripted(Draws):
    """Draws whose bits a seed decides, and what was asked of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed).getrandbits)
        self.log: list[Any] = []

    def below(self, n: int) -> int:
        self.log.append(n)
        return super().below(n)

    def choose(self, odds: Any) -> int:
        self.log.append((tuple(odds.weights), odds.rate))
        return super().choose(odds)

    def choose_each(self, odds: Any, n: int) -> Any:
        self.log += n * [(tuple(odds.weights), odds.rate)]
        return super().choose_each(odds, n)

    def places(self, sizes: Any) -> Any:
        self.log.append(sizes.tolist())
        return super().places(sizes)

    def choose_powers(self, exponents: Any, rate: Any, *times: Any) -> Any:
        self.log.append((exponents.tolist(), rate, *(one.tolist() for one in times)))
        return super().choose_powers(exponents, rate, *times)

    def flip_powers(self, exponents: Any, rate: Any) -> Any:
        self.log.append((exponents.tolist(), rate))
        return super().flip_powers(exponents, rate)

    def flip_each(self, coins: Any, n: int) -> Any:
        self.log += [(tuple(one.weights), one.rate) for one in n * [*coins.odds]]
        return super().flip_each(coins, n)

    def hits(self, which: Any, chances: Any) -> Any:
        self.log.append((sorted(which.tolist()), *map(tuple, chances(64))))  # items of no order
        return super().hits(which, chances)

    def subsets(self, sizes: Any, most: int) -> Any:
        """Which groups a person is kept in: here all of them, so that no order matters."""
        assert max(sizes, default=0) <= most
        return np.ones(sum(sizes), bool)


_GROUPS = "max_groups_contributed := 3) FROM ratings GROUP BY region"
LAWS = [
    "SELECT DP_TOPK(title, 2, epsilon := 0.7) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.7) FROM ratings",
    "SELECT DP_COUNT(*, epsilon := 0.7) FROM ratings",
    "SELECT DP_MEDIAN(score, epsilon := 0.7, lower := -5, upper := 10) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.7, delta := 1e-6) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.7, bound_selection := 'gem', max_contributions := 3) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.7, mechanism := 'r2t', max_contributions := 4) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(user_id, epsilon := 0.7, report := true) FROM ratings",
    "SELECT DP_SUM(score, epsilon := 0.7) FROM ratings",
    "SELECT DP_AVG(score, epsilon := 0.7) FROM ratings",
    f"SELECT region, DP_COUNT_DISTINCT(title, epsilon := 0.7, {_GROUPS}",
    f"SELECT region, DP_QUANTILE(score, [0.25, 0.5], epsilon := 0.7, lower := -5, upper := 10, {_GROUPS}",
    f"SELECT region, DP_TOPK(title, 1, epsilon := 0.7, mechanism := 'pnf_peel', {_GROUPS}",
    f"SELECT region, DP_TOPK(title, 2, epsilon := 0.7, delta := 1e-6, mechanism := 'weighted_gaussian', {_GROUPS}",
    f"SELECT region, DP_TOPK(title, 2, epsilon := 0.7, counts := true, {_GROUPS}",
    "SELECT region, DP_COUNT(*, epsilon := 0.7, contribution_bound := 2) FROM ratings GROUP BY region",
]  # fmt: skip


def asked_of_draws(
    session: Any, query: str, patch: pytest.MonkeyPatch, n_seeds: int = 3
) -> list[Any]:
    """For each of some seeds, all that is drawn with it and what comes of it.

    Each mechanism draws for itself, as DuckDB may run two calls in either order.
    """
    found = []
    for seed in range(n_seeds):
        drawn: list[Scripted] = []

        def draws(seed: int = seed, drawn: list[Scripted] = drawn) -> Scripted:
            drawn.append(Scripted(seed))
            return drawn[-1]

        for name, module in list(sys.modules.items()):
            if name.startswith("dp_sql.") and hasattr(module, "secret_draws"):
                patch.setattr(module, "secret_draws", draws)
        rows = session.sql(query).fetchall()
        found.append((rows, sorted((one.log for one in drawn if one.log), key=repr)))
    return found


@pytest.mark.one_in(18)
@pytest.mark.parametrize("query", LAWS)
def test_an_answer_has_the_same_distribution(query: str, elsewhere: Elsewhere) -> None:
    """It is the same function of draws with the same odds."""
    with elsewhere.analyst("full", more="", where="full") as session:
        right = asked_of_draws(session, query, elsewhere.patch)
    assert all(log for _, log in right)
    elsewhere.read_by_parts(retries=1, repeats=2, job=losing(2))
    with elsewhere.analyst("ann", more="") as session:
        assert asked_of_draws(session, query, elsewhere.patch) == right


@pytest.mark.thorough
@pytest.mark.parametrize("query", LAWS[:4])
def test_another_distribution_is_found(query: str, elsewhere: Elsewhere) -> None:
    with elsewhere.analyst("full", more="", where="full") as session:
        right = asked_of_draws(session, query, elsewhere.patch)
    rows = elsewhere.rows
    rows.execute("DETACH shop; ATTACH ':memory:' AS shop; USE shop")
    rows.execute(f"{TABLES}{SIX_ROWS}; DELETE FROM ratings WHERE user_id = 5")
    elsewhere.read_by_parts()
    with elsewhere.analyst("ann", more="") as session:
        assert asked_of_draws(session, query, elsewhere.patch) != right

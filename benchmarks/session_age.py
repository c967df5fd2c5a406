"""`python -m benchmarks.session_age`: what an answer costs after 1, 1,000 and 10,000 others.

Time, memory, temporary tables and open files of an owner's session, the macro, analysts' sessions
(with a ledger, and with kept releases) and a served database.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb

import dp_sql
from dp_sql.server.access_tokens import add_token
from dp_sql.server.gateway import Gateway

N_ANSWERS = (1, 1_000, 10_000)
_SAMPLE = 100  # answers whose median is the time
_DATA = """
CREATE TABLE catalog AS SELECT 'book ' || i AS title FROM range(10) AS r(i);
CREATE TABLE ratings AS SELECT i % 10 AS user_id, 'book ' || i % 7 AS title FROM range(20) AS r(i);
"""
_POLICY = """
tables.ratings.privacy_unit = "user_id"
public.tables = ["catalog"]
domains."ratings.title" = "catalog.title"
"""
_BUDGET = "[budget]\ndataset = '{0}'\nepsilon = 1000000\n"
_DECLARED = "epsilon := 0.1, privacy_unit := user_id, domain := catalog.title"
_OWNERS = f"SELECT DP_TOPK(title, 3, {_DECLARED}) FROM ratings"
_ANALYSTS = "SELECT DP_TOPK(title, 3, epsilon := {}) FROM ratings"
_MEMORY = """Most of what a process grows by is DuckDB's: each block of a query leaves an entry in its buffer
manager's eviction queues, which are not cleaned below 32,768 entries each.""".splitlines()
# What is asked for the n-th time, and the connection whose tables are counted.
Asked = tuple[Callable[[int], Any], Any]


def session_age() -> list[str]:
    """The section of the results."""
    sizes = [f"{n:,}" for n in N_ANSWERS]
    lines = [
        "## A session that grows old",
        "",
        f"A top-k over 20 rows, after {', '.join(sizes)} others: CPU time. Goal: the last costs what the first did, and memory",
        "grows by a few hundred bytes an answer.",
        "",
        f"| session | {' | '.join(f'CPU ms after {n}' for n in sizes)} | bytes an answer | temporary tables | open files |",
        f"|---|{'---|' * len(sizes)}---|---|---|",
    ]
    for name, opened in _SESSIONS.items():
        lines.append(f"| {name} | {' | '.join(_aged(opened))} |")
    return [*lines, "", *_MEMORY]


def _aged(opened: Callable[[Path], Any]) -> list[str]:
    cache = Path(".cache")  # on the project's disk: what a system calls temporary may be memory
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name, opened(Path(name)) as (ask, con):
        times, memory, files, n = [], [], [], 0
        for size in N_ANSWERS:
            while n < size:
                ask(n := n + 1)
            memory.append(_resident())
            files.append(len(os.listdir("/proc/self/fd")))
            times.append(statistics.median(_time(ask, n := n + 1) for _ in range(_SAMPLE)))
        grown = (memory[-1] - memory[-2]) / (N_ANSWERS[-1] - N_ANSWERS[-2])
        tables = con.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall()
        return [
            *(f"{ms:.1f}" for ms in times), f"{grown:.0f}", str(tables[0][0]),
            f"{files[0]} → {files[-1]}",
        ]  # fmt: skip


def _time(ask: Callable[[int], Any], n: int) -> float:
    """CPU time in ms: other processes on the machine matter less than for the time that passes."""
    start = time.process_time()
    ask(n)
    return 1000 * (time.process_time() - start)


def _resident() -> int:
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _owner(folder: Path, question: str = _OWNERS, **ledger: Any) -> Iterator[Asked]:
    with dp_sql.connect(**ledger) as session:
        session.execute(_DATA)
        yield lambda n: session.sql(question).fetchall(), session.connection


@contextmanager
def _installed(folder: Path) -> Iterator[Asked]:
    with duckdb.connect() as con:
        con.execute(_DATA)
        dp_sql.install(con)
        yield lambda n: con.sql(f"FROM dp($$ {_OWNERS} $$)").fetchall(), con


def _policy(folder: Path, more: str = "") -> tuple[str, Path]:
    with duckdb.connect(str(folder / "aged.duckdb")) as con:
        con.execute(_DATA)
    (folder / "policy.toml").write_text(_POLICY + more, "utf-8")
    return str(folder / "aged.duckdb"), folder / "policy.toml"


@contextmanager
def _analyst(folder: Path, more: str = "", epsilon: str = "0.1") -> Iterator[Asked]:
    database, policy = _policy(folder, more)
    with dp_sql.connect(database, policy=policy) as session:

        def ask(n: int) -> Any:
            return session.sql(_ANALYSTS.format(epsilon.format(n))).fetchall()

        yield ask, session._public.connection


class _Server:
    """A Quack server without its network: it holds answers, and knows its connections."""

    def __init__(self) -> None:
        self.n, self.held = 0, set[str]()

    def connections(self) -> set[str]:
        return {"one"}

    def hold(self, rows: Any) -> tuple[str, str]:
        self.n += 1
        self.held.add(f"held_{self.n}")
        return f"held_{self.n}", f"FROM held_{self.n}"

    def drop(self, table: str) -> None:
        self.held.discard(table)


@contextmanager
def _served(folder: Path) -> Iterator[Asked]:
    database, policy = _policy(folder, _BUDGET.format("served"))
    token = add_token(folder / "policy.tokens", "ann")
    server: Any = _Server()
    with ExitStack() as closing:
        gateway = Gateway(database, str(policy), folder / "policy.tokens", server)
        closing.callback(gateway.close)
        gateway.check()
        gateway.admit("one", token)
        session: Any = gateway._analysts["ann"].session
        question = _ANALYSTS.format(0.1)
        yield lambda n: gateway.answer("one", f"{question} -- {n}"), session._public.connection


_SESSIONS: dict[str, Callable[[Path], Any]] = {
    "owner": _owner,
    "owner, with a ledger": lambda folder: _owner(folder, ledger=folder / "owner.sqlite"),
    "`FROM dp($$ … $$)` after `install`": _installed,
    "analyst": _analyst,
    "analyst, with a budget": lambda folder: _analyst(folder, _BUDGET.format("paid")),
    "analyst, with kept releases": lambda folder: _analyst(
        folder, _BUDGET.format("kept") + "keep_releases = true\n", "0.1{:05}1"
    ),
    "server": _served,
}

if __name__ == "__main__":
    print("\n".join(session_age()))

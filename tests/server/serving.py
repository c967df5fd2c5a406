"""A served shop, the real duckdb shell that asks it, and other clients.

The shell and the extensions are Python packages for DuckDB 1.5.5; `make serve-test` makes an
environment that has them. Without them the tests of the gateway itself still run.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
import dp_sql.server.gateway
from dp_sql.cli import serve
from dp_sql.engines.duckdb import quack_server
from dp_sql.engines.duckdb.quack_extension import load_quack
from dp_sql.engines.duckdb.quack_server import QuackServer, address
from dp_sql.engines.duckdb.results import Result
from dp_sql.server.access_tokens import add_token
from dp_sql.server.gateway import Gateway
from tests.conftest import READING_LOG, SURE
from tests.databases import write_database

POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.notes.privacy_unit = "user_id"
public.tables = ["catalog"]
domains."ratings.title" = "catalog.title"
[limits]
max_epsilon_per_query = 10000
{limits}
[budget]
dataset = "shop"
epsilon = 1000000
[budget.analysts.poor]
epsilon = 1
"""


HIDDEN = """
CREATE TABLE notes AS SELECT i AS user_id, 'canary-' || i AS note FROM range(1234) AS r(i);
CREATE TABLE secret AS SELECT 987654321 AS hidden_column;
"""


TOPK = f"SELECT DP_TOPK(title, 3, {SURE}) AS best FROM ratings"


COUNT = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings"


def _wheel(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).parent


SHELL = (_wheel("duckdb_cli") or Path("/")) / "duckdb"


WITHOUT = "no duckdb shell with its quack extension here; `make serve-test` has them"


real = pytest.mark.skipif(
    not SHELL.exists() or _wheel("duckdb_extension_quack") is None, reason=WITHOUT
)


def _paste(where: str, token: str) -> str:
    """What `dp-sql serve` says to paste, with the extensions loaded from their packages."""
    loads = "".join(
        f"LOAD '{path}';\n"
        for name in ("httpfs", "quack")
        for path in (_wheel(f"duckdb_extension_{name}") or Path()).rglob("*.duckdb_extension")
    )
    pasted = serve.PASTE.format(where=where).replace("the token of dp-sql token add", token)
    return loads + pasted.partition("\n")[2]


class Served:
    """A shop that is served from this process, and shells that ask it."""

    def __init__(self, folder: Path, limits: str = "") -> None:
        self.folder = folder
        self.database, self.policy = folder / "shop.duckdb", folder / "policy.toml"
        self.tokens = folder / "policy.tokens"
        write_database(self.database, READING_LOG + HIDDEN)
        self.policy.write_text(POLICY.format(limits=limits), "utf-8")
        self.where = address(f"quack:localhost:{free_port()}")
        self.secrets = {name: add_token(self.tokens, name) for name in ("reporting", "poor")}
        self.server: Any = None

    def open(self) -> Served:
        self.server = QuackServer()
        self.gateway = Gateway(str(self.database), str(self.policy), self.tokens, self.server)
        self.gateway.check()
        self.server.start(self.where, self.gateway.admit, self.gateway.answer)
        return self

    def close(self) -> None:
        self.gateway.interrupt()
        self.server.close()
        self.gateway.close()

    def token(self, name: str) -> str:
        if name not in self.secrets:
            self.secrets[name] = add_token(self.tokens, name)
        return self.secrets[name]

    def start(self, *arguments: str, analyst: str = "", token: str = "") -> subprocess.Popen[str]:
        """The real shell, with our lines as its .duckdbrc."""
        secret = token or self.token(analyst)
        rc = self.folder / f"rc-{secret}"
        if not rc.exists():  # another shell may be reading it
            rc.write_text(_paste(str(self.where), secret), "utf-8")
        return subprocess.Popen(
            [str(SHELL), "-init", str(rc), "-csv", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder, encoding="utf-8",
        )  # fmt: skip

    def shell(self, text: str, analyst: str = "reporting", token: str = "") -> tuple[str, str]:
        """What the shell prints, and what it says is wrong."""
        with self.start(analyst=analyst, token=token) as process:
            out, err = process.communicate(".bail off\n" + text, timeout=60)
        return plain(out), plain(err)

    def python(self, analyst: str) -> duckdb.DuckDBPyConnection:
        """Another client of the same protocol, faster to start."""
        client = duckdb.connect(config={"threads": 1})
        load_quack(client)
        client.execute(f"ATTACH '{self.where}' AS dpsql (TOKEN '{self.token(analyst)}')")
        return client

    def spent(self, analyst: str) -> Fraction:
        """What is in the ledger."""
        with dp_sql.connect(str(self.database), policy=self.policy, analyst=analyst) as session:
            return Fraction(session.budget()[-1].epsilon_spent)


def plain(text: str) -> str:
    """Without the colours, and without what is said of the init file."""
    for code in ("\x1b[90m", "\x1b[00m"):
        text = text.replace(code, "")
    return "\n".join(line for line in text.splitlines() if "Loading resources" not in line)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def asked(client: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    quoted = text.replace("'", "''")
    return client.execute(f"FROM dpsql.query('{quoted}')").fetchall()


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(6000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("It did not come to that in a minute.")


def in_parallel(run: Callable[[int], None], n: int) -> None:
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


PROGRAM = "import sys; from dp_sql.cli.main import main; sys.exit(main(['serve', *sys.argv[1:]]))"


class Shelf:
    """A server that keeps no rows: answers have names, and memory never fills."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.live: frozenset[str] = frozenset()

    def is_full(self) -> bool:
        return False

    def holds_more_than(self, n_bytes: int) -> bool:
        return False

    def hold(self, rows: Result) -> tuple[str, str]:
        self.names.append(f"answer_{len(self.names)}")
        return self.names[-1], f"FROM {self.names[-1]}"

    def drop(self, name: str) -> None:
        pass

    def connections(self) -> frozenset[str]:
        return self.live


def stored_by(gateway: Gateway, n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> QuackServer:
    """Let DuckDB store a gateway's answers in so much memory; no client reaches it."""
    monkeypatch.setattr(quack_server, "load_quack", lambda _: None)
    monkeypatch.setattr(quack_server, "_MEMORY", n_bytes)
    server = QuackServer()
    monkeypatch.setattr(gateway, "_server", server)
    monkeypatch.setattr(server, "connections", lambda: frozenset[str]())
    return server

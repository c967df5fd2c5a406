"""The real duckdb shell through a Quack server: what it gets, what it cannot reach, what it spends.

The shell and the extensions are Python packages for DuckDB 1.5.5; `make serve-test` makes an
environment that has them. Without them the tests of the gateway itself still run.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
import dp_sql.server.gateway
from dp_sql.cli import serve
from dp_sql.cli.main import main
from dp_sql.engines.duckdb import quack_server as duckdb_quack
from dp_sql.engines.duckdb.quack_server import QuackServer, Result, address, fetched, load_quack
from dp_sql.errors import BudgetExceeded, NotSupported, PolicyError
from dp_sql.server.gateway import SCHEMATA, TABLES, Gateway
from dp_sql.server.tokens import add_token, read_tokens, remove_token
from tests.attacks.attack_bench import CANARIES, Side, attacks, families
from tests.conftest import READING_LOG, SURE
from tests.databases import write_database

POLICY = """
[tables.ratings]
privacy_unit = "user_id"
[tables.notes]
privacy_unit = "user_id"
[public]
tables = ["catalog"]
[domains]
"ratings.title" = "catalog.title"
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
REFUSALS = {
    "SELECT * FROM ratings": "ratings is private",
    "SELECT count(*) FROM ratings": "ratings is private",
    "FROM secret": "There is no table secret",
    "COPY catalog TO 'x.csv'": "Under a policy you can run SELECT",
    "COPY (FROM catalog) TO 'x.csv'": "Under a policy you can run SELECT",
    "ATTACH 'shop.duckdb' AS y": "Under a policy you can run SELECT",
    "SET threads = 8": "Under a policy you can run SELECT",
    "SET GLOBAL quack_authorization_function = 'x'": "Under a policy you can run SELECT",
    "INSTALL httpfs": "Under a policy you can run SELECT",
    "LOAD httpfs": "Under a policy you can run SELECT",
    "PRAGMA database_list": "Under a policy you can run SELECT",
    "CALL quack_stop('quack:localhost:9494')": "Under a policy you can run SELECT",
    "PREPARE p AS SELECT 1": "Under a policy you can run SELECT",
    "EXECUTE p": "Under a policy you can run SELECT",
    "CREATE TABLE x AS SELECT 1": "Under a policy you can run SELECT",
    "BEGIN TRANSACTION": "Under a policy you can run SELECT",
    "INSERT INTO catalog VALUES ('x')": "Authorization failed",
    "SELECT 1; SELECT 2": "can run one statement at a time",
    f"{COUNT}; FROM ratings": "can run one statement at a time",
    "FROM read_csv('/etc/passwd')": "",
    "FROM quack_active_connections()": "quack_active_connections",
    "FROM quack_server_list()": "quack_server_list",
    "SELECT dp_sql_instead('a', 'b')": "There is no function dp_sql_instead",
    "SELECT DP_TOPK(note, 3, epsilon := 1) AS t FROM notes": "domain",
}


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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).open()
    yield served
    served.close()


@real
def test_the_shell_gets_a_top_k_and_a_distinct_count_through_the_macro(served: Served) -> None:
    out, err = served.shell(
        f"SELECT unnest(best) AS title FROM dp($$ {TOPK} $$);\nFROM dp($$ {COUNT} $$);\n"
    )
    assert (out.split(), err) == (["title", "Dune", "Emma", "Ulysses", "n", "4"], "")


@real
def test_the_shell_gets_an_answer_on_its_command_line(served: Served) -> None:
    with served.start("-c", f"FROM dp($$ {COUNT} $$)", analyst="reporting") as process:
        out, err = process.communicate(timeout=60)
    assert (plain(out).split(), plain(err), process.returncode) == (["n", "4"], "", 0)


@real
def test_what_was_answered_is_a_table_in_the_shell(served: Served) -> None:
    out, err = served.shell(
        f"CREATE TABLE mine AS FROM dp($$ {TOPK} $$);\n"
        "SELECT len(best) AS k FROM mine;\nSELECT typeof(best) AS kind FROM mine;\n"
    )
    assert (out.split(), err) == (["k", "3", "kind", "VARCHAR[]"], "")
    counted = TOPK.replace(") AS", ", counts := true) AS")
    out, err = served.shell(
        f"SELECT u.item, u.count FROM (SELECT unnest(best) AS u FROM dp($$ {counted} $$)) LIMIT 1;\n"
    )
    assert (out.split(), err) == (["item,count", "Dune,45"], "")


@real
def test_each_refusal_is_read_in_the_shell_and_it_goes_on(served: Served) -> None:
    before = served.spent("reporting")
    script = "".join(f"FROM dp($q$ {text} $q$);\nSELECT 'then' AS next;\n" for text in REFUSALS)
    out, err = served.shell(script)
    assert out.split() == ["next", "then"] * len(REFUSALS)
    errors = [part for part in err.split("Invalid Input Error: ") if part.strip()]
    for (text, words), said in zip(REFUSALS.items(), errors, strict=True):
        assert words in said, (text, said)
    assert served.spent("reporting") == before
    assert not any(canary in out + err for canary in CANARIES)


@real
def test_the_shells_own_statements_on_the_attached_database_are_refused(served: Served) -> None:
    statements = [
        "FROM dpsql.ratings", "SELECT count(*) FROM dpsql.ratings", "FROM dpsql.secret",
        "INSERT INTO dpsql.catalog VALUES ('x')", "CREATE TABLE dpsql.mine (a INTEGER)",
        "CREATE VIEW dpsql.mine AS SELECT 1", "CREATE SCHEMA dpsql.mine", "DROP TABLE dpsql.catalog",
        "DELETE FROM dpsql.catalog", "UPDATE dpsql.catalog SET title = 'x'",
        "COPY dpsql.ratings TO 'x.csv'", "ALTER TABLE dpsql.catalog ADD COLUMN x INTEGER",
        "FROM dpsql.query('SELECT 1 FROM ratings')",
    ]  # fmt: skip
    out, err = served.shell("".join(f"{text};\nSELECT 'then' AS next;\n" for text in statements))
    assert out.split() == ["next", "then"] * len(statements)
    assert err.count("Error: ") >= len(statements)
    out, _ = served.shell("SELECT count(*) AS n FROM dpsql.catalog;\n")
    assert out.split() == ["n", "7"]
    assert not any((served.folder / "x.csv").read_text().splitlines()[1:])


@real
def test_attach_shows_names_and_types_and_no_sizes(served: Served) -> None:
    out, err = served.shell(
        "SELECT 1 FROM dpsql.catalog LIMIT 0;\n.mode csv\nDESCRIBE dpsql.ratings;\n"
        "SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY ALL;\n.tables\n"
        "SHOW ALL TABLES;\nSELECT suggestion FROM sql_auto_complete('FROM dpsql.');\n"
        "FROM dp('SHOW TABLES');\nFROM dp('DESCRIBE notes');\n"
    )
    assert err == ""
    assert "region" in out and "note,VARCHAR" in out
    assert [line for line in out.splitlines() if line.endswith((",private", ",public"))] == [
        "notes,private", "ratings,private", "catalog,public",
    ]  # fmt: skip
    for told in ("secret", "hidden_column", "canary", "1234", "201", "202"):
        assert told not in out


@real
def test_the_catalogue_that_attach_reads_is_written_by_us(served: Served) -> None:
    client = served.python("reader")
    schemata, tables = asked(client, SCHEMATA), asked(client, TABLES)
    assert schemata == [("dp_sql", "main")]
    assert {(schema, kind) for schema, _, kind in tables} == {("main", "table")}
    made = sorted(sql for _, sql, _ in tables)
    assert made[0] == 'CREATE TABLE "main"."catalog"("title" VARCHAR);'
    assert made[1] == 'CREATE TABLE "main"."notes"("user_id" BIGINT, "note" VARCHAR);'
    assert len(made) == 3


@real
def test_only_a_token_of_the_file_comes_in(served: Served) -> None:
    for token in ("x" * 64, served.token("reporting")[:-1] + "x", "' OR true --"):
        with pytest.raises(duckdb.Error, match="Authentication failed"):
            served_client(served, f"TOKEN '{token.replace(chr(39), chr(39) * 2)}'")
    with pytest.raises(duckdb.Error, match="token"):
        served_client(served, "")
    _, err = served.shell("FROM dp('SELECT 1');\n", token="not-a-token")
    assert "Authentication failed" in err


def served_client(served: Served, option: str) -> None:
    with duckdb.connect() as client:
        load_quack(client)
        client.execute(f"ATTACH '{served.where}' AS dpsql {f'({option})' if option else ''}")


@real
def test_a_token_identifies_its_analyst_until_it_is_removed(served: Served) -> None:
    one, other = served.python("first"), served.python("second")
    asked(one, "SELECT DP_COUNT_DISTINCT(title, epsilon := 3) AS n FROM ratings")
    own = "SELECT analyst, spent FROM dp_budget() WHERE analyst IS NOT NULL"
    assert asked(one, own) == [("first", 3)]
    assert asked(other, own) == [("second", 0)]
    remove_token(served.tokens, "second")
    with pytest.raises(duckdb.Error, match="not valid here"):
        asked(other, "SELECT 1")
    assert asked(one, "SELECT 1") == [(1,)]


@real
def test_an_analysts_cap_holds_over_connections(served: Served) -> None:
    question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.75) AS n FROM ratings"
    asked(served.python("poor"), question)
    with pytest.raises(duckdb.Error, match=r"BudgetExceeded: .*0\.25"):
        asked(served.python("poor"), question + " -- anew")


@real
def test_the_same_statement_on_one_connection_is_spent_once_however_it_is_sent(
    served: Served,
) -> None:
    question = "dp($$ SELECT DP_COUNT_DISTINCT(title, epsilon := 2) AS n FROM ratings $$)"
    served.shell(
        f"EXPLAIN FROM {question};\nDESCRIBE FROM {question};\nFROM {question};\n"
        f"CREATE VIEW v AS FROM {question};\nFROM v;\nFROM v;\nCREATE TABLE t AS FROM {question};\n"
        f"PREPARE p AS FROM {question};\nEXECUTE p;\nEXECUTE p;\n",
        "thrifty",
    )
    assert served.spent("thrifty") == 2
    served.shell(f"FROM {question};\n", "thrifty")
    assert served.spent("thrifty") == 2
    served.shell("FROM " + question.replace("ratings", "ratings /* anew */") + ";\n", "thrifty")
    assert served.spent("thrifty") == 4


@real
def test_a_release_joins_public_tables_and_other_releases_in_the_shell(served: Served) -> None:
    best = f"(SELECT unnest(best) AS title FROM dp($$ {TOPK} $$))"
    out, err = served.shell(
        "CREATE TABLE notes AS SELECT 'Emma' AS title, 'read it' AS note;\n"
        f"SELECT DISTINCT title FROM {best} JOIN dpsql.catalog USING (title) ORDER BY title;\n"
        f"SELECT count(*) AS left FROM dpsql.catalog WHERE title NOT IN {best};\n"
        f"SELECT note, n FROM {best} JOIN notes USING (title), dp($$ {COUNT} $$);\n",
        "joiner",
    )
    assert (out.split("\n"), err) == (
        ["title", "Dune", "Emma", "Ulysses", "left", "2", "note,n", "read it,4"], "",
    )  # fmt: skip
    assert served.spent("joiner") == 20_000


@real
def test_a_join_that_quack_refuses_has_its_answer_for_free_afterwards(served: Served) -> None:
    two = "dpsql.catalog AS a JOIN dpsql.catalog AS b USING (title)"
    out, err = served.shell(f"FROM dp($$ {COUNT} $$), {two};\nFROM dp($$ {COUNT} $$);\n", "twice")
    assert "Multiple streaming scans" in err and out.split() == ["n", "4"]
    assert served.spent("twice") == 10_000


@real
def test_reading_an_answer_again_is_the_same_answer(served: Served) -> None:
    client = served.python("again")
    question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.01) AS n FROM ratings"
    assert len({asked(client, question)[0] for _ in range(10)}) == 1
    assert served.spent("again") == Fraction("0.01")
    assert len({asked(client, f"{question} -- {n}")[0] for n in range(10)}) > 1
    assert served.spent("again") == Fraction("0.11")


@real
def test_the_clients_own_binding_spends_once(served: Served) -> None:
    client = served.python("binder")
    question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 2) AS n FROM ratings"
    relation = client.sql(f"FROM dpsql.query('{question}')")
    assert {tuple(relation.fetchall()[0]), tuple(relation.fetchall()[0])} == set(
        relation.fetchall()
    )
    assert served.spent("binder") == 2


@real
def test_explain_over_quack_shows_the_cost_and_spends_nothing(served: Served) -> None:
    client = served.python("careful")
    rows = asked(client, "EXPLAIN SELECT DP_TOPK(title, 2, epsilon := 0.5) AS t FROM ratings")
    assert "epsilon = 0.5" in str(rows)
    assert served.spent("careful") == 0


@real
def test_no_statement_of_a_client_is_ever_run_in_the_served_instance(served: Served) -> None:
    client = served.python("spy")
    asked(client, COUNT)
    for name in ("memory.main", "main"):
        with pytest.raises(duckdb.Error, match="There is no table"):
            asked(client, f"FROM {name}.answer_1")
    with pytest.raises(duckdb.Error, match="more than public tables"):
        asked(client, "SELECT table_name FROM duckdb_tables()")


@real
def test_held_answers_go_when_others_come_and_free_ones_with_their_connection(
    served: Served,
) -> None:
    def held() -> int:
        rows = served.server._run("SELECT table_name FROM duckdb_tables()")
        return len(rows)

    client = served.python("many")
    asked(client, "SELECT 1")
    before = held()
    for n in range(20):
        asked(client, f"SELECT {n}")
    assert held() == before
    for n in range(20):
        asked(client, f"SELECT DP_COUNT_DISTINCT(title, epsilon := 0.01) AS n FROM ratings -- {n}")
    assert held() == before + 15  # sixteen are kept, and the passing one has gone
    others = [served.python("another") for _ in range(5)]
    for other in others:
        asked(other, "SELECT 1")
    most = held()
    for other in others:
        other.close()
    asked(served.python("another"), "SELECT 1")
    assert held() <= most - 4


@real
def test_every_kind_of_value_arrives_as_it_left(served: Served) -> None:
    values = (
        "170141183460469231731687303715884105727::HUGEINT", "'101'::BIT", "['101'::BIT]", "'\\xAA'::BLOB",
        "'3f0c9c5e-6f0a-4ef1-8a57-2b5f1f0c3d11'::UUID", "1.25::DECIMAL(38, 10)", "NULL", "'it''s'",
        "['a', NULL, 'b, c']", "{'a': 1, 'b': [DATE '2024-02-29']}", "MAP {'x': 1}", "[]",
        "'12:00:00+02'::TIMETZ", "INTERVAL 3 DAY", "'x'::ENUM ('x', 'y')", "'infinity'::FLOAT",
        "340282366920938463463374607431768211455::UHUGEINT",
    )  # fmt: skip
    client = served.python("typist")
    for value in values:
        want = client.sql(f"SELECT {value} AS it, typeof({value}) AS kind").fetchall()
        assert asked(client, f"SELECT {value} AS it, typeof({value}) AS kind") == want, value


@real
def test_a_release_in_a_struct_without_names_arrives_and_is_spent_once(served: Served) -> None:
    client = served.python("nameless")
    question = "SELECT (n, 1) AS x FROM (SELECT DP_COUNT_DISTINCT(title, epsilon := 2) AS n {})"
    for _ in range(2):
        ((pair,),) = asked(client, question.format("FROM ratings"))
        assert len(pair) == 2 or pair.endswith(", 1)")  # a string, where DuckDB has no such type
    assert served.spent("nameless") == 2


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("It did not come to that in ten seconds.")


@real
def test_fifty_clients_at_once_are_answered(served: Served) -> None:
    answers: list[Any] = []
    with duckdb.connect(config={"threads": 1}) as one:  # loads once; each ATTACH is a client
        load_quack(one)
        clients = [one.cursor() for _ in range(50)]
        for n, client in enumerate(clients):
            secret = served.token(f"crowd {n % 10}")  # five of each: one asks, four wait
            client.execute(f"ATTACH '{served.where}' AS client_{n} (TOKEN '{secret}')")

        def ask(n: int) -> None:
            question = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings -- {n}"
            answers.append(clients[n].execute(f"FROM client_{n}.query('{question}')").fetchall())

        in_parallel(ask, len(clients))
    assert answers == [[(4,)]] * 50
    assert served.spent("crowd 0") == 50_000


def in_parallel(run: Callable[[int], None], n: int) -> None:
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@real
@pytest.mark.slow
def test_fifty_shells_at_once_are_answered(served: Served) -> None:
    processes = [
        served.start("-c", f"FROM dp($$ SELECT {n} AS n $$)", analyst=f"crowd {n % 10}")
        for n in range(50)
    ]
    told = [process.communicate(timeout=120) for process in processes]
    assert [(plain(out).split(), plain(err)) for out, err in told] == [
        (["n", str(n)], "") for n in range(50)
    ]


@real
def test_a_killed_client_has_spent_once_and_no_other_client_notices(tmp_path: Path) -> None:
    served = Served(tmp_path, "deadline_seconds = 1").open()
    try:
        question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 5) AS n FROM ratings"
        process = served.start("-c", f"FROM dp($$ {question} $$)", analyst="reporting")
        while served.spent("reporting") == 0:
            time.sleep(0.05)
        process.kill()
        process.communicate()
        assert asked(served.python("poor"), "SELECT 1 AS one") == [(1,)]
        assert asked(served.python("reporting"), "SELECT 2 AS two") == [(2,)]
        assert served.spent("reporting") == 5
    finally:
        served.close()


@real
def test_a_server_is_stopped_while_it_answers(tmp_path: Path) -> None:
    served = Served(tmp_path, "deadline_seconds = 1").open()
    client = served.python("reporting")
    failed: list[str] = []

    def ask(_: int) -> None:
        try:
            asked(client, COUNT)
        except duckdb.Error as error:
            failed.append(str(error))

    asking = threading.Thread(target=ask, args=(0,))
    asking.start()
    while served.spent("reporting") == 0:
        time.sleep(0.05)
    served.close()
    asking.join()
    assert all("canary" not in text for text in failed)
    again = Served.open(served)
    try:
        assert asked(served.python("reporting"), "SELECT 1 AS one") == [(1,)]
    finally:
        again.close()


PROGRAM = "import sys; from dp_sql.cli.main import main; sys.exit(main(['serve', *sys.argv[1:]]))"


@real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_stops_and_serves_again_on_the_same_port(
    tmp_path: Path, number: signal.Signals
) -> None:
    served = Served(tmp_path)
    command = [
        sys.executable, "-c", PROGRAM, str(served.database), "--policy", str(served.policy),
        "--listen", str(served.where),
    ]  # fmt: skip
    for _ in range(2):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while "COUNT_DISTINCT" not in lines[-1]:
                assert lines[-1], "it ended"
                lines.append(process.stdout.readline())
            out, err = served.shell(f"FROM dp($$ {COUNT} $$);\n")
            process.send_signal(number)
            assert process.wait(timeout=30) == 0
        assert (out.split(), err) == (["n", "4"], "")
        assert f"ATTACH '{served.where}'" in "".join(lines)
    assert served.spent("reporting") == 20_000


LIKE = "SELECT repeat('ab', 200000) LIKE '%a%b%a_b%c%a_a%d%' AS it"  # 1.5 cannot interrupt it


@real
@pytest.mark.parametrize(
    ("limits", "questions"),
    [
        ("deadline_seconds = 3600", [COUNT, COUNT + " ", COUNT + "  "]),
        ("", [LIKE, COUNT]),
        ("", ["SELECT count(*) FROM range(1000000000000)", COUNT]),
    ],
    ids=["a deadline and a queue", "what cannot be interrupted", "a long query"],
)
def test_sigterm_ends_the_server_in_seconds_whatever_is_running(
    tmp_path: Path, limits: str, questions: list[str]
) -> None:
    served = Served(tmp_path, limits)
    spilled = tmp_path / "tmp"
    spilled.mkdir()
    command = [
        sys.executable, "-c", PROGRAM, str(served.database), "--policy", str(served.policy),
        "--listen", str(served.where),
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env={**os.environ, "TMPDIR": str(spilled)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while "COUNT_DISTINCT" not in process.stdout.readline():
            assert process.poll() is None
        asking = [
            served.start("-c", f"FROM dp($$ {question} $$)", analyst="reporting")
            for question in questions
        ]
        time.sleep(3)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        took = time.monotonic() - started
        for client in asking:
            client.kill()
            client.communicate()
    assert took < serve._GRACE_SECONDS + 10
    assert list(spilled.glob("dp_sql-*")) == []


@real
def test_an_answer_that_has_no_end_is_refused_and_the_server_goes_on(served: Served) -> None:
    client = served.python("reporting")
    with pytest.raises(duckdb.Error, match="at most 256 MB"):
        asked(client, "FROM range(1000000000000)")
    assert asked(client, "SELECT 1 AS one") == [(1,)]


@real
def test_a_port_in_use_is_reported(served: Served) -> None:
    with pytest.raises(NotSupported, match="Cannot listen on"):
        served_again(served)


def served_again(served: Served) -> None:
    other = QuackServer()
    try:
        with socket.socket() as busy:
            busy.bind(("localhost", 0))
            busy.listen()
            where = address(f"quack:localhost:{busy.getsockname()[1]}")
            other.start(where, lambda *_: False, lambda *_: "SELECT 1")
    finally:
        other.close()


@real
def test_all_addresses_are_listened_on_only_where_that_is_asked_for() -> None:
    port = free_port()
    server = QuackServer()
    try:
        server.start(address(f"0.0.0.0:{port}"), lambda *_: False, lambda *_: "SELECT 1")
        with pytest.raises(duckdb.Error, match="Authentication failed"), duckdb.connect() as client:
            load_quack(client)
            url = f"quack:127.0.0.1:{port}"
            client.execute(f"FROM quack_query('{url}', 'SELECT 1', token := 'wrong')")
    finally:
        server.close()


@real
@pytest.mark.parametrize("told", [[(1,)], None])
def test_a_quack_that_would_run_the_clients_statement_is_not_served(
    monkeypatch: pytest.MonkeyPatch, told: list[Any] | None
) -> None:
    monkeypatch.setattr(duckdb_quack, "_asked", lambda *_: told)
    server = QuackServer()
    try:
        with pytest.raises(NotSupported, match="cannot be served safely"):
            server.start(address(f"localhost:{free_port()}"), lambda *_: False, lambda *_: "")
    finally:
        server.close()


@real
@pytest.mark.parametrize("share", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_the_corpus_of_attacks_gets_no_further_through_the_gateway(
    tmp_path: Path, share: int
) -> None:
    side = Side(tmp_path / "side", True)
    tokens = tmp_path / "side" / "tokens"
    secret = add_token(tokens, "reporting")
    database, policy = (str(tmp_path / "side" / name) for name in ("shop.duckdb", "policy.toml"))
    server = QuackServer()
    gateway = Gateway(database, policy, tokens, server)
    where = address(f"localhost:{free_port()}")
    server.start(where, gateway.admit, gateway.answer)
    client = duckdb.connect()
    load_quack(client)
    client.execute(f"ATTACH '{where}' AS dpsql (TOKEN '{secret}')")
    try:
        corpus = [attack for family in families() for attack in attacks(family)]
        for attack in corpus[::share]:
            want = side.ask(attack.statement)
            try:
                asked(client, attack.statement)
                got, said = "answered", ""
            except (duckdb.Error, UnicodeEncodeError) as error:  # half a character is no text
                got, said = "refused", str(error)
            inserts = attack.statement.lstrip()[:6].upper() == "INSERT"
            expected = "answered" if want.kind == "answered" and not inserts else "refused"
            assert got == expected, (attack.statement[:300], said[:300])
            assert not any(canary in said.replace(attack.statement, "") for canary in CANARIES)
    finally:
        client.close()
        gateway.interrupt()
        server.close()
        gateway.close()
        side.session.close()


# --- without Quack ---


class Shelf:
    """Stands in for the server: holds names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.live: frozenset[str] = frozenset()

    def hold(self, rows: Result) -> tuple[str, str]:
        self.names.append(f"answer_{len(self.names)}")
        return self.names[-1], f"FROM {self.names[-1]}"

    def drop(self, name: str) -> None:
        pass

    def connections(self) -> frozenset[str]:
        return self.live


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[Gateway, Served]]:
    served = Served(tmp_path)
    shelf: Any = Shelf()
    gateway = Gateway(str(served.database), str(served.policy), served.tokens, shelf)
    yield gateway, served
    gateway.close()


def test_a_gateway_answers_no_one_who_was_not_admitted(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    assert not it.admit("one", "wrong")
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("one", "SELECT 1")
    assert it.admit("one", served.token("reporting"))
    assert it.answer("one", "SELECT 1") == "FROM answer_0"
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("two", "SELECT 1")


def test_errors_in_the_owners_files_are_reported_to_the_owner(
    gateway: tuple[Gateway, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    it, served = gateway
    secrets = [served.token(name) for name in ("reporting", "poor")]
    for connection, secret in zip(("one", "two"), secrets, strict=True):
        assert it.admit(connection, secret)
    it.answer("one", "SELECT 1")
    served.tokens.chmod(0o644)
    with pytest.raises(NotSupported, match="Its owner can read why") as told:
        it.answer("one", "SELECT 1")
    assert str(served.folder) not in str(told.value)
    assert "chmod 600" in capsys.readouterr().err
    served.tokens.chmod(0o600)
    served.policy.write_text("nonsense", "utf-8")
    with pytest.raises(NotSupported, match="Its owner can read why"):
        it.answer("two", "SELECT 1")
    assert "PolicyError" in capsys.readouterr().err


def test_a_missing_database_is_reported_to_the_owner(
    gateway: tuple[Gateway, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    served.database.rename(served.folder / "elsewhere")
    with pytest.raises(NotSupported, match="Its owner can read why"):
        it.answer("one", "SELECT 1")
    assert "shop.duckdb" in capsys.readouterr().err


def test_a_closed_gateway_answers_no_one(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    it.interrupt()
    assert not it.admit("two", served.token("reporting"))
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("one", "SELECT 1")


def test_a_gateway_repeats_what_has_cost_and_nothing_else(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    for connection in ("one", "two"):
        assert it.admit(connection, served.token("reporting"))
    first = it.answer("one", COUNT)
    assert it.answer("one", COUNT) == first
    assert it.answer("two", COUNT) == first
    assert it.answer("one", "FROM dp_budget()") != it.answer("one", "FROM dp_budget()")
    assert it.admit("other", served.token("poor"))
    with pytest.raises(BudgetExceeded):
        it.answer("other", COUNT)
    assert served.spent("reporting") == 10_000


def test_the_answers_read_least_recently_go_first(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    monkeypatch.setattr(dp_sql.server.gateway, "_MAX_ANSWERS", 2)
    assert it.admit("one", served.token("reporting"))
    first, second = it.answer("one", COUNT), it.answer("one", COUNT + " ")
    assert it.answer("one", COUNT) == first
    it.answer("one", COUNT + "  ")
    assert it.answer("one", COUNT) == first
    assert it.answer("one", COUNT + " ") != second
    assert served.spent("reporting") == 40_000


def test_a_statement_sent_twice_at_once_on_one_connection_is_spent_once(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    it._server.live = frozenset({"one"})  # type: ignore[attr-defined]
    analyst = it._analyst("reporting")
    told: list[str] = []
    with analyst.lock:
        asking = [
            threading.Thread(target=lambda: told.append(it.answer("one", COUNT))) for _ in range(3)
        ]
        for thread in asking:
            thread.start()
        until(lambda: analyst.asking == 3)
    for thread in asking:
        thread.join()
    assert len(told) == 3 and len(set(told)) == 1
    assert served.spent("reporting") == 10_000


def test_five_questions_of_an_analyst_are_taken_and_the_sixth_is_refused_at_once(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    names = [str(n) for n in range(6)]
    for name in names:
        assert it.admit(name, served.token("reporting"))
    assert it.admit("other", served.token("poor"))
    it._server.live = frozenset(names)  # type: ignore[attr-defined]
    analyst = it._analyst("reporting")
    told: list[str] = []

    def ask(name: str) -> None:
        told.append(it.answer(name, "SELECT 1"))

    with analyst.lock:
        asking = [threading.Thread(target=ask, args=(name,)) for name in names[:5]]
        for thread in asking:
            thread.start()
        until(lambda: analyst.asking == 5)
        with pytest.raises(NotSupported, match=r"Busy: 4 of your queries .* cost nothing"):
            it.answer(names[5], "SELECT 1")
        assert it.answer("other", "SELECT 1").startswith("FROM answer")
    for thread in asking:
        thread.join()
    assert len(told) == 5
    assert it.answer(names[5], "SELECT 1").startswith("FROM answer")


def test_waiting_questions_leave_room_for_other_analysts(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    monkeypatch.setattr(dp_sql.server.gateway, "_WAITING_AT_ONCE", 3)
    monkeypatch.setattr(dp_sql.server.gateway, "_ASKED_AT_ONCE", 4)
    for name, who in (("a", "reporting"), ("b", "poor")):
        assert it.admit(name, served.token(who))
    reporting, other = it._analyst("reporting"), it._analyst("other")
    reporting.asking = 3
    with pytest.raises(
        NotSupported, match=r"Busy: 3 queries of all analysts are open.* cost nothing"
    ):
        it.answer("a", "SELECT 1")
    assert it.answer("b", "SELECT 1").startswith("FROM answer")  # it asks nothing else
    other.asking = 1
    with pytest.raises(NotSupported, match="Busy: 4 queries of all analysts"):
        it.answer("b", "SELECT 1")
    reporting.asking = other.asking = 0
    assert it.answer("a", "SELECT 1").startswith("FROM answer")


def test_all_analysts_together_cannot_take_every_thread_of_quack() -> None:
    assert dp_sql.server.gateway._WAITING_AT_ONCE < dp_sql.server.gateway._ASKED_AT_ONCE < 120


def test_a_timeout_differs_from_a_failure() -> None:
    assert serve._ends_within(5, lambda: None)
    assert not serve._ends_within(0.01, threading.Event().wait)
    with pytest.raises(ZeroDivisionError):
        serve._ends_within(5, lambda: print(1 / 0))


@pytest.mark.parametrize("what", ["left", "removed"])
def test_a_question_that_waited_is_not_asked_for_a_client_that_is_gone(
    gateway: tuple[Gateway, Served], what: str
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    it._server.live = frozenset({"one"})  # type: ignore[attr-defined]
    analyst = it._analyst("reporting")
    told: list[str] = []

    def ask() -> None:
        try:
            told.append(it.answer("one", COUNT))
        except NotSupported as error:
            told.append(str(error))

    with analyst.lock:
        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: analyst.asking == 1)
        if what == "left":
            it._server.live = frozenset()  # type: ignore[attr-defined]
        else:
            remove_token(served.tokens, "reporting")
    asking.join()
    assert "closed before its turn" in told[0] or "not valid here" in told[0]
    assert served.spent("reporting") == 0


def test_a_release_that_cannot_be_held_is_spent_once_and_names_no_table(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    with duckdb.connect() as con:
        plain_server = QuackServer.__new__(QuackServer)
        plain_server._connection, plain_server._numbers = con, itertools.count(1)
        odd = Result((("x", "NO SUCH TYPE"),), con.sql("SELECT 1 AS c0").to_arrow_table())
        monkeypatch.setattr(it._server, "hold", lambda _: plain_server.hold(odd))
        told = {it.answer("one", COUNT) for _ in range(3)}
    assert told == {duckdb_quack.refusal(RuntimeError())}
    assert served.spent("reporting") == 10_000


def test_a_question_that_fails_after_its_release_is_spent_once(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    inside = f"(SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings)"
    told = {it.answer("one", f"SELECT ('x' || n)::INTEGER AS i FROM {inside}") for _ in range(3)}
    assert len(told) == 1 and "Conversion Error" in told.pop()
    assert served.spent("reporting") == 10_000


def test_a_refusal_is_not_held(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    assert it.admit("one", served.token("poor"))
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            it.answer("one", COUNT)
    assert not it._analyst("poor").answers


def test_a_gateway_forgets_connections_that_are_gone(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    assert it.admit("two", served.token("reporting"))
    it.answer("one", "SELECT 1")
    assert it.admit("three", served.token("reporting"))
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("one", "SELECT 1")
    it.answer("two", "SELECT 1")  # just admitted, and not listed as open yet
    monkeypatch.setattr(dp_sql.server.gateway, "_GRACE_SECONDS", -1.0)
    assert it.admit("four", served.token("reporting"))
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("three", "SELECT 1")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("quack:localhost:9494", "quack:localhost:9494"), ("quack:localhost", "quack:localhost:9494"),
        ("127.0.0.1:80", "quack:127.0.0.1:80"), ("quack:[::1]:9495", "quack:[::1]:9495"),
        ("Quack.example:1", "quack:quack.example:1"),
    ],
)  # fmt: skip
def test_an_address_is_read(text: str, want: str) -> None:
    assert str(address(text)) == want
    assert address(text).is_local == ("example" not in want)


@pytest.mark.parametrize(
    "text",
    ["", "quack:", "quack:localhost:0", "localhost:99999", "a b", "x'y", "quack:a:b", "http://a"],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(NotSupported, match="not an address to listen on"):
        address(text)


def test_a_bug_is_one_constant_sentence_for_the_client() -> None:
    def answer(connection: str, text: str) -> str:
        raise RuntimeError("canary")

    told = duckdb_quack._instead(answer, "one", "SELECT 1")
    assert told is not None and "canary" not in told
    with duckdb.connect() as con, pytest.raises(duckdb.Error, match="The server failed"):
        con.execute(told).fetchall()


def test_an_error_arrives_with_its_quotes() -> None:
    def answer(connection: str, text: str) -> str:
        raise NotSupported("It's not 'there'\0.")

    told = duckdb_quack._instead(answer, "one", "SELECT 1")
    with duckdb.connect() as con, pytest.raises(duckdb.Error, match=r"It's not 'there'\."):
        con.execute(str(told)).fetchall()


@pytest.mark.parametrize("text", ["INSERT INTO a.b VALUES (NULL)", "  insert into x", None])
def test_an_insert_gets_no_answer(text: Any) -> None:
    assert duckdb_quack._instead(lambda *_: "SELECT 1", "one", text) is None


def test_columns_of_the_same_name_stay_apart() -> None:
    with duckdb.connect() as con:
        rows = fetched(con.sql("SELECT 1 AS a, 'x' AS a"))
        assert rows.columns == (("a", "INTEGER"), ("a", "VARCHAR"))
        assert rows.table.column_names == ["c0", "c1"]
        odd = fetched(con.sql("SELECT '101'::BIT AS a, 'x' AS A, '1'::BIT AS b"))
        assert [column.to_pylist() for column in odd.table.columns] == [["101"], ["x"], ["1"]]
        assert [kind for _, kind in odd.columns] == ["BIT", "VARCHAR", "BIT"]


def test_a_type_that_sql_cannot_write_is_fetched_as_a_string() -> None:
    with duckdb.connect() as con:
        sql = "SELECT row(1, 'x') AS a, {'b': [row(2)]} AS c, {'d': 1} AS e"
        rows = fetched(con.sql(sql))
        for _, kind in rows.columns:
            con.execute(f"SELECT NULL::{kind}").fetchall()
        assert rows.columns[2] == ("e", "STRUCT(d INTEGER)")
        if rows.columns[0][1] == "VARCHAR":  # 2.0 has a name for it
            assert rows.table.slice(0, 1).to_pylist()[0]["c0"] == "(1, x)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Serving needs a policy"),
        (["--policy", ""], "Serving needs a policy"),
        (["--policy", "."], "A policy is a file"),
        (
            ["--policy", "policy.toml", "--listen", "quack:0.0.0.0:9494"],
            "reached from other machines",
        ),
        (["--policy", "policy.toml", "--listen", "quack:a b"], "not an address"),
    ],
)
def test_the_command_refuses_before_it_opens_anything(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "missing.duckdb", *arguments]) == 1
    assert words in capsys.readouterr().err


@real
def test_the_command_writes_what_the_shell_of_an_analyst_reads_first(tmp_path: Path) -> None:
    served = Served(tmp_path)
    file = tmp_path / "Ann_B.sql"
    for port in (free_port(), free_port()):  # the second time the token is kept
        command = [
            sys.executable, "-c", PROGRAM, str(served.database), "--policy", str(served.policy),
            "--analyst", "Ann/B", "--listen", f"quack:localhost:{port}",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while f"duckdb -init {file}" not in (line := process.stdout.readline()):
                assert line, "it ended"
            shell = [
                str(SHELL),
                "-init",
                str(file),
                "-csv",
                "-c",
                f"FROM dp($$ {COUNT} -- {port}\n$$)",
            ]
            asked = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        assert plain(asked.stdout).split() == ["n", "4"]
        assert file.stat().st_mode & 0o777 == 0o600
    assert served.spent("Ann/B") == 20_000


def test_the_file_for_the_shell_replaces_no_file_of_the_owners(tmp_path: Path) -> None:
    where, tokens = address("localhost:1"), tmp_path / "policy.tokens"
    theirs = tmp_path / "ann.sql"
    theirs.write_text(f"SET VARIABLE dp_token = '{'0' * 64}';", "utf-8")
    with pytest.raises(PolicyError, match="without a token of ann"):
        serve._shell_file("ann", tokens, where)
    assert read_tokens(tokens) == () and "000" in theirs.read_text("utf-8")
    theirs.unlink()
    serve._shell_file("ann", tokens, where)
    theirs.unlink()
    with pytest.raises(PolicyError, match="has a token already"):
        serve._shell_file("ann", tokens, where)
    for name in ("", "a\nb"):
        with pytest.raises(PolicyError, match="name cannot"):
            serve._shell_file(name, tokens, where)


def test_a_database_of_a_newer_duckdb_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.duckdb"

    def write(checksum: int) -> None:
        head = checksum.to_bytes(8, "little") + b"DUCK" + (999_999).to_bytes(8, "little")
        file.write_bytes(head.ljust(3 * 4096, b"\0"))

    write(0)
    with pytest.raises(duckdb.Error) as wrong:
        duckdb.connect(str(file), read_only=True)
    found = re.search(r"computed checksum (\d+)", str(wrong.value))
    assert found is not None
    write(int(found[1]))
    assert main(["serve", str(file), "--policy", "policy.toml"]) == 1
    said = capsys.readouterr().err
    assert f"was written by a newer DuckDB than {duckdb.__version__}" in said
    assert f"ATTACH '{file}' AS newer;\nATTACH '{tmp_path}/new.v1.duckdb' AS older" in said


@real
def test_the_command_refuses_a_server_that_no_one_could_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served = Served(tmp_path)
    for name in served.secrets:
        remove_token(served.tokens, name)
    assert main(["serve", str(served.database), "--policy", str(served.policy)]) == 1
    assert "There is no token" in capsys.readouterr().err


def test_without_the_extension_serving_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(duckdb_quack, "_EXTENSIONS", ("no_such_extension",))
    off: dict[str, Any] = {"autoinstall_known_extensions": "false"}
    with (
        duckdb.connect(config=off) as con,
        pytest.raises(NotSupported, match=r"pip install .*\[serve\]"),
    ):
        load_quack(con)


def test_help_names_the_flag_and_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--allow-other-hosts" in text and "Nothing is encrypted" in text

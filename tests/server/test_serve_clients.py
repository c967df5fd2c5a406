"""Many clients of one Quack server at once, clients that are killed, and a server that stops."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dp_sql.cli import serve
from dp_sql.engines.duckdb import quack_server as duckdb_quack
from dp_sql.engines.duckdb.quack_extension import load_quack
from dp_sql.engines.duckdb.quack_server import QuackServer, address
from dp_sql.errors import NotSupported
from dp_sql.server.access_tokens import add_token
from dp_sql.server.gateway import Gateway
from dp_sql.server.sent_by_drivers import is_of_transaction
from tests.attacks.attack_bench import CANARIES, Side, attacks, families
from tests.conftest import SURE
from tests.server.serving import COUNT, PROGRAM, Served, asked, free_port, in_parallel, plain, real


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


@real
def test_a_client_without_duckdb_is_answered_over_adbc(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/serve.md shows it; its driver begins a transaction before the first statement."""
    pytest.importorskip("adbc_driver_quack")
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text("utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    private = "    con.rollback()\n    con.cursor().execute('SELECT user_id FROM ratings')"
    program = shown.replace("9494", str(served.where.port)) + private
    with pytest.raises(Exception, match="ratings is private"):
        exec(program, {"token": served.token("adbc")})
    assert re.fullmatch(r"\[\(-?\d+,\)\]\n", capsys.readouterr().out)
    assert served.spent("adbc") == Fraction("0.5")


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
            is_answered = want.kind == "answered" or is_of_transaction(attack.statement)
            expected = "answered" if is_answered and not inserts else "refused"
            assert got == expected, (attack.statement[:300], said[:300])
            assert not any(canary in said.replace(attack.statement, "") for canary in CANARIES)
    finally:
        client.close()
        gateway.interrupt()
        server.close()
        gateway.close()
        side.session.close()

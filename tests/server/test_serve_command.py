"""`dp-sql serve`: its arguments, what it refuses before it opens anything, and what it writes."""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from dp_sql.cli import serve
from dp_sql.cli.main import main
from dp_sql.engines.duckdb.quack_server import address
from dp_sql.errors import PolicyError
from dp_sql.server.access_tokens import read_tokens, remove_token
from tests.server.serving import COUNT, PROGRAM, SHELL, Served, free_port, plain, real


def test_a_timeout_differs_from_a_failure() -> None:
    assert serve._ends_within(5, lambda: None)
    assert not serve._ends_within(0.01, threading.Event().wait)
    with pytest.raises(ZeroDivisionError):
        serve._ends_within(5, lambda: print(1 / 0))


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


@real
@pytest.mark.parametrize(
    ("database", "policy"), [("shop.duckdb", "polcy.toml"), ("shp.duckdb", "policy.toml")]
)
def test_a_mistyped_name_makes_no_token_and_no_file(
    tmp_path: Path, database: str, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Served(tmp_path)
    names = [str(tmp_path / database), "--policy", str(tmp_path / policy)]
    assert main(["serve", *names, "--analyst", "ann"]) == 1
    assert "rror: " in capsys.readouterr().err
    assert not (tmp_path / "ann.sql").exists() and not (tmp_path / "polcy.tokens").exists()
    assert "ann" not in {token.analyst for token in read_tokens(tmp_path / "policy.tokens")}


def test_help_names_the_flag_and_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--allow-other-hosts" in text and "Nothing is encrypted" in text

"""The command line: what it prints, where, and with which exit code; the first as processes."""

import errno
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import pytest

import dp_sql
from dp_sql.cli.main import COMMANDS, main
from tests.conftest import READING_LOG, SURE
from tests.databases import write_database

TOP = (
    f"SELECT unnest(DP_TOPK(title, 2, {SURE}, privacy_unit := user_id, domain := catalog.title)) "
    "AS title FROM ratings"
)


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "log.duckdb")
    with dp_sql.connect(path) as session:
        session.execute(READING_LOG)
    return path


def run_process(
    *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dp_sql", *arguments],
        input=stdin, capture_output=True, text=True, check=False, encoding="utf-8",
        env={**os.environ, **environment},
    )  # fmt: skip


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, without the time that it takes to start one."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.mark.thorough
def test_a_question_is_answered_in_duckdbs_rendering(database: str) -> None:
    done = run_process(database, "-c", TOP)
    assert (done.returncode, done.stderr) == (0, "")
    assert "│ Dune    │" in done.stdout and "┌─────────┐" in done.stdout
    assert done.stdout.index("Dune") < done.stdout.index("Emma")


def test_a_mistyped_command_is_no_new_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("polcy", "check")
    assert done.returncode == 2 and "Did you mean policy?" in done.stderr
    assert [*tmp_path.iterdir()] == []
    assert run("./polcy", "-c", "SELECT 1").returncode == 0


@pytest.mark.thorough
def test_statements_come_from_standard_input(database: str) -> None:
    done = run_process(database, "--csv", stdin=f"-- two statements\nSELECT 1 AS one;\n{TOP};\n")
    assert (done.returncode, done.stdout) == (0, "one\n1\ntitle\nDune\nEmma\n")


def test_json_is_an_array_of_rows(database: str) -> None:
    count = "DP_COUNT_DISTINCT(title, epsilon := 10000, privacy_unit := user_id, report := true)"
    done = run(
        database, "--json", "--read-only", "-c", f"SELECT {count} AS n, [1] AS one FROM ratings"
    )
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert row["n"]["estimate"] == 4 and row["one"] == [1]
    assert json.loads(run("--json", "-c", "SELECT 1 AS x WHERE false").stdout) == []


def test_receipts_go_to_standard_error(database: str) -> None:
    done = run(database, "--csv", "--receipts", "-c", f"{TOP}; {TOP}")
    assert done.stdout == "title\nDune\nEmma\n" * 2
    assert done.stderr.count("mechanism  joint") == 2
    assert "epsilon = 10000" in done.stderr


def test_an_error_has_a_caret_and_exit_code_one(database: str) -> None:
    done = run_process(
        database, "-c", f"SELECT 7 AS seven; {TOP.replace('10000', '0')}; SELECT 8 AS eight"
    )
    assert done.returncode == 1
    assert "7" in done.stdout and "8" not in done.stdout
    lines = done.stderr.splitlines()
    assert lines[0].startswith("ArgumentError: epsilon must be a number from")
    caret = lines[3].index("^")
    assert lines[2].startswith("LINE 1: ") and lines[2][caret] == "0"


def test_duckdbs_errors_are_shown_as_they_are(database: str) -> None:
    done = run(database, "-c", "SELECT nothing FROM ratings")
    assert done.returncode == 1
    assert "Binder Error" in done.stderr and "^" in done.stderr and "Traceback" not in done.stderr
    done = run("/nowhere/at/all.duckdb", "-c", "SELECT 1")
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_commands_print_nothing_and_changes_last(database: str) -> None:
    done = run(database, "-c", f"CREATE TABLE best AS {TOP}; INSERT INTO best VALUES ('x')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run(database, "--csv", "-c", "SELECT count(*) AS n FROM best").stdout == "n\n3\n"


def test_explain_shows_the_plan_and_no_draw(database: str) -> None:
    done = run(database, "--receipts", "-c", f"EXPLAIN {TOP}")
    assert done.returncode == 0 and "mechanism │ joint" in done.stdout
    assert "left" not in done.stdout.split("accuracy")[0]  # there is no budget
    done = run(database, "--receipts", "-c", f"EXPLAIN (FORMAT json) {TOP}")
    assert done.returncode == 0 and "CTE" in done.stdout
    assert "Dune" not in done.stdout and done.stderr == ""


def test_help_shows_statements_that_work() -> None:
    shown = run("--help").stdout
    assert "DP_TOPK(title, 10, epsilon := 1.0," in shown and "--receipts" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_listed_and_has_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0
    assert f"\n  {name} " in capsys.readouterr().out
    assert main([name, "-h"]) == 0
    assert f"\n    dp-sql {name}" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_demo_comes_with_the_package_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run_process("demo", PATH="", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    for shown in ("count(DISTINCT user_id)", "mechanism │ joint", "Write instead:", "accountant"):
        assert shown in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_that_of_the_package() -> None:
    assert run_process("--version").stdout == f"dp-sql {version('dp-sql')}\n"


class Full(StringIO):
    def write(self, _: str, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_help_that_cannot_be_written_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with redirect_stdout(Full()):
        assert main(["--help"]) == 1
    assert capsys.readouterr().err == "No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.duckdb", "SELECT 1"], "Write: dp-sql a.duckdb -c 'SELECT 1'\n"),
        (["a.duckdb", "p.toml"], "Write: dp-sql a.duckdb --policy p.toml --as NAME\n"),
        (["a.duckdb", "b.duckdb"], "Unexpected argument b.duckdb.\n"),
        (["help"], "Did you mean --help?"),
    ],
)
def test_an_argument_without_its_option_is_told_which(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["a.duckdb", "b.duckdb"],
        ["shell", "-c"],
        ["policy"],
        ["--as", "reporting", "-c", "SELECT 1"],
        ["--policy", "p.toml", "--ledger", "l.sqlite"],
    ],
)
def test_wrong_usage_is_exit_code_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and "Error: " in said.err


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (["--help"], {"dp_sql.cli.budget", "duckdb", "numpy"}),
        (["shell", "-c", "SELECT 1"], {"dp_sql.budget", "dp_sql.policy", "sqlite3", "tomllib"}),
    ],
)
def test_a_command_imports_no_more_than_it_needs(arguments: list[str], left_out: set[str]) -> None:
    program = (
        f"import sys; from dp_sql.cli.main import main; main({arguments}); "
        f"sys.exit(' '.join({left_out} & set(sys.modules)) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("words", "offered"), [("dp-sql led", "ledger"), ("dp-sql ledger ver", "verify")]
)
def test_bash_completes_commands(words: str, offered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_DP_SQL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert run_process().stdout == f"plain,{offered}\n"


@pytest.mark.parametrize("readable", [False, True])
def test_a_locked_database_is_said_to_be_readable_if_it_is(tmp_path: Path, readable: bool) -> None:
    path = write_database(tmp_path / "shop.duckdb", "SELECT 1")
    opened = f"duckdb.connect({path!r}, read_only={readable})"
    code = f"import duckdb; held = {opened}; print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        done = run(path, "-c", "SELECT 1")
        owner.communicate(b"\n")
    assert "Could not set lock" in done.stderr and "docs/locks.md" in done.stderr
    assert ("the option is --read-only" in done.stderr) is readable

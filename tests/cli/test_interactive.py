"""`dp-sql shell` at a real terminal: a pseudo-terminal types, and reads the screen."""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dp_sql
from dp_sql.cli.shell.state import Shell
from tests.cli.test_batch import ASKED, HIDDEN, POLICY, TOP
from tests.conftest import READING_LOG
from tests.databases import write_database

pexpect = pytest.importorskip("pexpect", reason="the shell is tested with pexpect")
pytest.importorskip("prompt_toolkit", reason="the shell's prompt is prompt_toolkit's")
pytest.importorskip("pygments", reason="the shell's colours are those of pygments")
from dp_sql.cli.shell.prompt import prompt_function  # noqa: E402  # where the two are there

COMMAND = [sys.executable, "-m", "dp_sql", "shell"]
PATIENCE = 60  # seconds until a test gives up; none waits that long
_COLOURS = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")
_READY = r"\x1b\[\?2004h[^\n]*>"  # a prompt switches bracketed paste on
# Some seconds of work, in which a question can be stopped.
LONG = "SELECT count(*) AS n FROM {0} a, {0} b WHERE a.i * b.i % 7 = 3;"


class Terminal:
    """A shell in a pseudo-terminal."""

    def __init__(self, arguments: list[str], state: Path) -> None:
        environment = {
            **os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1",
            "XDG_STATE_HOME": str(state), "PYTHONWARNINGS": "error",
        }  # fmt: skip
        environment.pop("NO_COLOR", None)
        self.child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], *arguments], env=environment, encoding="utf-8",
            cwd=state.parent, dimensions=(50, 100), timeout=PATIENCE,
        )  # fmt: skip

    def ready(self) -> str:
        """Wait for the prompt; what stood on the screen before it, without colours."""
        self.child.expect(_READY)
        return _COLOURS.sub("", self.child.before)

    def ask(self, text: str) -> str:
        """Type a line and Enter; what came before the next prompt."""
        self.child.send(f"{text}\r")
        return self.ready()

    def sees(self, pattern: str) -> None:
        """Wait until something is on the screen."""
        self.child.expect(pattern)

    def left(self) -> int:
        """The exit code, once the shell has ended."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return int(self.child.exitstatus)


Opened = Callable[..., Terminal]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open a shell on the reading log: as its owner, or with `analyst=True` under a policy."""
    numbers = "CREATE TABLE numbers AS SELECT i FROM range(200000) AS r(i)"
    database = write_database(tmp_path / "shop.duckdb", f"{READING_LOG};{HIDDEN};{numbers}")
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.replace('["catalog"]', '["catalog", "numbers"]'), encoding="utf-8")
    found: list[Terminal] = []

    def opened(*more: str, analyst: bool = False) -> Terminal:
        guarded = ["--policy", str(policy), "--as", "reporting"] if analyst else []
        terminal = Terminal([database, *guarded, *more], tmp_path / "state")
        found.append(terminal)
        terminal.ready()
        return terminal

    yield opened
    for terminal in found:
        terminal.child.close(force=True)


def history(tmp_path: Path) -> dict[str, str]:
    """What each history file holds, by name."""
    return {p.name: p.read_text("utf-8") for p in (tmp_path / "state" / "dp-sql").iterdir()}


@pytest.mark.thorough
def test_an_owner_asks_over_many_lines_with_tab_and_sees_the_cost(opened: Opened) -> None:
    terminal = opened()
    terminal.child.send(
        "SELECT DP_TOPK(title, 2, eps\t10000, priv\tuser\t,\r domain := catalog.\t)"
    )
    screen = terminal.ask(" AS best\rFROM rat\t;")
    assert "[Dune, Emma]" in screen and "┌" in screen
    assert "spent epsilon = 10000; in this session: epsilon = 10000" in screen
    terminal.child.sendeof()
    assert terminal.left() == 0


@pytest.mark.thorough
def test_an_error_has_its_caret_and_the_shell_goes_on(opened: Opened) -> None:
    terminal = opened()
    screen = terminal.ask("SELECT nothing FROM ratings;")
    assert "Binder Error" in screen and "^" in screen and "Traceback" not in screen
    assert "ArgumentError" in terminal.ask(TOP.replace("10000", "0") + ";")
    assert "│    42 │" in terminal.ask("SELECT 42 AS a, 1 AS b;")
    terminal.child.send(".quit\r")
    assert terminal.left() == 0


def test_ctrl_c_stops_the_question_and_keeps_the_session(opened: Opened) -> None:
    terminal = opened()
    terminal.ask("CREATE TEMP TABLE kept AS SELECT 4711 AS n;")
    terminal.child.send(LONG.format("numbers") + "\r")
    terminal.sees(r"\d+ %  [\d.]+ s  Ctrl-C stops it")
    terminal.child.sendintr()
    assert "Interrupted." in terminal.ready()
    assert "4711" in terminal.ask("FROM kept;")


@pytest.mark.thorough
def test_exit_leaves_as_elsewhere(opened: Opened) -> None:
    terminal = opened()
    terminal.child.send("exit\r")
    assert terminal.left() == 0


@pytest.mark.thorough
def test_ctrl_c_at_the_prompt_clears_the_line(opened: Opened) -> None:
    terminal = opened()
    terminal.child.send("SELECT nonsense\rFROM")
    terminal.sees("FROM")
    terminal.child.sendintr()
    terminal.ready()
    screen = terminal.ask("SELECT 4711 AS n;")
    assert "4711" in screen and "Error" not in screen


@pytest.mark.thorough
def test_history_is_found_again_and_private(opened: Opened, tmp_path: Path) -> None:
    terminal = opened()
    terminal.ask("SELECT 4000 + 711\r AS n;")
    terminal.child.sendeof()
    terminal.left()
    (path,) = (tmp_path / "state" / "dp-sql").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    terminal = opened()
    assert "4711" in terminal.ask("\x1b[A")  # Up, and Enter


@pytest.mark.thorough
def test_an_analyst_never_sees_the_owners_history(opened: Opened, tmp_path: Path) -> None:
    owner = opened()
    owner.ask("SELECT * FROM payroll WHERE employee = 'Ann';")
    owner.child.sendeof()
    owner.left()
    analyst = opened(analyst=True)
    analyst.child.send("\x1b[A\x10\x12payroll")  # Up, Ctrl-P, and Ctrl-R for it
    analyst.sees("payroll")
    screen = analyst.child.before
    analyst.child.send("\x07")  # give the search up
    analyst.child.sendintr()
    screen += analyst.ready()
    assert "Ann" not in screen and "employee" not in screen
    assert "4711" not in screen
    owners = [text for text in history(tmp_path).values() if "Ann" in text]
    assert len(owners) == 1 and len(history(tmp_path)) == 2


@pytest.mark.thorough
def test_an_analyst_sees_what_is_spent_and_what_is_left(opened: Opened) -> None:
    terminal = opened(analyst=True)
    screen = terminal.ask(f"{ASKED};")
    assert (
        "spent epsilon = 0.5; left: epsilon 0.5 of 1 for reporting, "
        "epsilon 2.5 of 3 for all together" in " ".join(screen.split())
    )
    screen = terminal.ask(f"{ASKED.replace('0.5', '0.75')};")
    assert (
        "BudgetExceeded" in screen and "still fits is 0.5" in screen and "spent" not in screen[-50:]
    )
    assert "spent" not in terminal.ask(f"EXPLAIN {ASKED};")
    assert "opens no files" in terminal.ask(".output answers.csv")


@pytest.mark.thorough
def test_an_analyst_stops_a_question_and_goes_on(opened: Opened) -> None:
    terminal = opened(analyst=True)
    terminal.child.send(LONG.format("numbers") + "\r")
    terminal.sees(r"[\d.]+ s  Ctrl-C stops it")
    assert "%" not in terminal.child.before.rpartition("2004l")[2]  # all since Enter
    terminal.child.sendintr()
    assert "Interrupted." in terminal.ready()
    assert "Dune" in terminal.ask("SELECT min(title) AS m FROM catalog WHERE title > 'D';")


def test_no_key_shows_an_analyst_a_hidden_name_or_leads_out(opened: Opened, tmp_path: Path) -> None:
    terminal = opened(analyst=True)
    seen = ""
    for typed in (
        "FROM pay\t",
        "SELECT emp\t",
        "FROM \t\t",
        "SELECT sal\t",
        ".schema \t",
        ".tables p\t",
    ):
        terminal.child.send(typed)
        terminal.child.sendintr()
        seen += terminal.ready().replace("FROM pay", "").replace("SELECT emp", "")
    assert "roll" not in seen and "loyee" not in seen and "ary" not in seen
    assert "│  4711 │" in terminal.ask("SELECT \x1a4711;")  # Ctrl-Z types nothing
    for keys in ("\x1b!", "\x18\x05", "\x1bv", "!", ".shell ", ".system "):  # ways out, elsewhere
        screen = terminal.ask(f"{keys}touch owned;")
        assert "Error" in screen or "NotSupported" in screen or "no command" in screen
    assert "Dune" in terminal.ask("SELECT min(title) AS m FROM catalog WHERE title > 'D';")
    assert not (tmp_path / "owned").exists()


@pytest.mark.thorough
def test_pasted_lines_are_one_input_that_enter_runs(opened: Opened) -> None:
    terminal = opened()
    terminal.child.send("\x1b[200~SELECT 4711 AS a;\nSELECT\n'twice' AS b;\n\x1b[201~")
    screen = terminal.ask("")
    assert "4711" in screen and "twice" in screen


@pytest.mark.thorough
def test_answers_may_go_elsewhere_while_the_prompt_stays(opened: Opened, tmp_path: Path) -> None:
    terminal = opened("--markdown")
    assert "| n |" in terminal.ask("SELECT 4711 AS n;")
    path = tmp_path / "answers.md"
    terminal.ask(f".output {path}")
    assert "4711" not in terminal.ask("SELECT 4000 + 711 AS n;")
    terminal.ask(".output")
    assert "| 5 |" in terminal.ask("SELECT 5 AS n;")
    assert path.read_text(encoding="utf-8") == "| n |\n| ---: |\n| 4711 |\n"


@pytest.mark.thorough
def test_an_owner_may_suspend_the_prompt_and_an_analyst_may_not(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(analyst=True).child.close(force=True)  # now there is a database and a policy
    database, policy = str(tmp_path / "shop.duckdb"), tmp_path / "policy.toml"
    allowed: list[bool] = []

    def prompting(*_: Any, enable_suspend: bool, **__: Any) -> Any:
        allowed.append(enable_suspend)
        return SimpleNamespace(prompt=None)

    monkeypatch.setattr("dp_sql.cli.shell.prompt.PromptSession", prompting)
    for session in (dp_sql.connect(), dp_sql.connect(database, policy=policy)):
        with session:
            prompt_function(Shell(session, "table"), "x", None)
    assert allowed == [True, False]


@pytest.mark.thorough
def test_duckdb_draws_no_progress_for_an_analyst(opened: Opened) -> None:
    terminal = opened(analyst=True)
    terminal.child.send(LONG.format("numbers") + "\r")
    terminal.sees(r"3\.\d s  Ctrl-C stops it")  # DuckDB's own line would come after two seconds
    screen = terminal.child.before
    terminal.child.sendintr()
    screen += terminal.ready()
    assert "elapsed" not in screen and "▕" not in screen

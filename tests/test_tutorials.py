"""The tutorials are followed from top to bottom, and what they show is what a terminal prints."""

import io
import math
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import dp_sql
from dp_sql.cli import serve
from dp_sql.cli.main import main
from dp_sql.cli.shell.main import _run_input
from dp_sql.cli.shell.state import Shell
from dp_sql.server.access_tokens import tokens_beside

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w+)\n(.+?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
TOLERANCE = 0.11  # which a mean exceeds by chance below 1e-7
# What takes a network or another program: tests/server types into the real shell.
ELSEWHERE = ("pip ", "duckdb ")
IN_DUCKDB = re.compile(r"FROM dp\(\$\$ (.+) \$\$\);\s*")


class Screen(io.StringIO):
    """A terminal of 80 columns without colours, as a tutorial shows it."""

    def isatty(self) -> bool:
        return True


class Reader:
    """One who follows a tutorial: types each block, and remembers what came."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.screen, self.stack = Screen(), ExitStack()
        self.shell: Shell | None = None
        self.names: dict[str, object] = {}
        self.patch, self.folder = monkeypatch, folder

    def takes(self, language: str, block: str) -> str:
        """Do what a block says; returns what is printed."""
        self.screen.seek(0)
        self.screen.truncate()
        with redirect_stdout(self.screen), redirect_stderr(self.screen):
            if language == "sql" and (asked := IN_DUCKDB.fullmatch(block)):
                with dp_sql.connect("library.duckdb", policy="policy.toml", analyst="ann") as ann:
                    ann.sql(asked[1]).show()
            elif language == "sql":
                assert self.shell is not None
                _run_input(self.shell, block)
            elif language == "python":
                self.leave()
                exec(block, self.names)
            elif language == "sh":
                for line in block.splitlines():
                    self.types(line)
            elif language == "toml":
                self.writes(block)
            else:
                raise AssertionError(f"Who follows a block of {language}?")
        return self.screen.getvalue()

    def writes(self, block: str) -> None:
        """The policy, or its first section that is called as the block."""
        path = self.folder / "policy.toml"
        if block.startswith("[budget]"):
            whole = path.read_text("utf-8")
            block = re.sub(r"\[budget\]\n(?:.+\n)+", lambda _: block, whole)
        path.write_text(block, "utf-8")

    def types(self, line: str) -> None:
        """A line of a terminal."""
        if line.startswith(ELSEWHERE):
            return
        command, *words = shlex.split(line, comments=True)
        if command == "cd":
            self.patch.chdir(Path(words[0]).expanduser())
        elif command != "dp-sql":
            done = subprocess.run(line, shell=True, check=True, capture_output=True)
            self.screen.write(done.stdout.decode())
        elif words[0] == "serve":
            database, _, policy, _, analyst = words[1:]
            where = serve.address("quack:localhost:9494")
            path = serve._shell_file(analyst, tokens_beside(policy), where)
            start = serve._START_FROM_FILE.format(name=analyst, path=path)
            print(serve._SERVING.format(database=database, where=where, start=start))
        elif words[0] == "shell":
            database, _, policy, _, analyst = words[1:]
            self.leave()
            session = self.stack.enter_context(
                dp_sql.connect(database, policy=policy, analyst=analyst)
            )
            self.shell = self.stack.enter_context(
                closing(Shell(session, "table", shows_costs=True))
            )
        else:
            given = ""
            if "<" in words:
                words, given = words[:-2], Path(words[-1]).expanduser().read_text("utf-8")
            self.patch.setattr("sys.stdin", io.StringIO(given))
            main([re.sub("^~", str(self.folder.parent), word) for word in words])

    def leave(self) -> None:
        """End the shell."""
        self.stack.close()
        self.shell = None


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    for name, value in (("HOME", tmp_path), ("COLUMNS", 80), ("TERM", "dumb"), ("NO_COLOR", 1)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(ROOT)
    reader = Reader(tmp_path / "library", monkeypatch)
    yield reader
    reader.leave()


def plain(text: str) -> str:
    """A screen without the lines of tables, whose widths depend on noise, times and tokens."""
    text = re.sub(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|\+00:00)|\b(?:[0-9a-f]{32}){1,2}\b", "…", text
    )
    text = text.replace(str(Path.home()), "/home/you").replace(tempfile.gettempdir(), "/tmp")
    return " ".join(re.sub(r"[─┌┐└┘├┤┬┴┼]+", " ", text).split())


def differs(shown: str, printed: str) -> str:
    """How two screens differ, if they do; noise may move a large or long number by 11 %."""
    shown, printed = plain(shown), plain(printed)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return f"shown:   {shown}\nprinted: {printed}"
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    for one, other in pairs:
        a, b = float(one.replace(",", "")), float(other.replace(",", ""))
        is_noisy = a >= 100 or len(one.partition(".")[2]) >= 6
        if a != b and not (is_noisy and math.isclose(a, b, rel_tol=TOLERANCE)):
            return f"{one} is shown, {other} printed: {printed}"
    return ""


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("│ 8563 │", "│  8601 │", True),
        ("│ 8563 │", "│ 7601 │", False),
        ("15.211779", "15.40123", True),
        ("15.211779", "17.211779", False),
        ("epsilon = 0.1", "epsilon = 0.2", False),
        ("[Emma]", "[Walden]", False),
        ("1 2", "1 2 3", False),
    ],
)
def test_only_noise_may_differ(shown: str, printed: str, same: bool) -> None:
    assert (differs(shown, printed) == "") is same


@pytest.mark.one_in(2)
@pytest.mark.parametrize("page", sorted(TUTORIALS.glob("*.md")), ids=lambda path: path.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, reader: Reader) -> None:
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert len(blocks) > 10
    before, printed = "", ""
    for language, block in blocks:
        if language == "text":
            assert differs(block, printed) == "", before
        else:
            before, printed = block, reader.takes(language, block)

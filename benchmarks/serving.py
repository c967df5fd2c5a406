"""`python -m benchmarks.serving`: what a Quack server costs, compared with one without privacy.

Needs the packages of `make serve-test`, and prints its section of the results.
"""

import importlib.util
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dp_sql.cli.serve import PASTE
from dp_sql.engines.duckdb.quack_extension import load_quack
from dp_sql.server.access_tokens import add_token

N_ROWS = 100_000
N_ANALYSTS = 20
N_QUESTIONS = 5
_POLICY = """
tables.ratings.privacy_unit = "user_id"
public.tables = ["catalog"]
domains."ratings.title" = "catalog.title"
[budget]
dataset = "bench"
epsilon = 1000000
"""
_DATA = f"""
CREATE TABLE catalog AS SELECT 'book ' || i AS title FROM range(1000) AS r(i);
CREATE TABLE ratings AS SELECT (hash(i) % 10000)::BIGINT AS user_id,
    'book ' || floor(1000 * pow((hash(i + 7) % 100000) / 100000, 3))::BIGINT AS title
FROM range({N_ROWS}) AS r(i);
"""
_QUESTIONS = {
    "DP_TOPK, k = 10": (
        "SELECT DP_TOPK(title, 10, epsilon := 0.1) AS best FROM ratings",
        "SELECT title FROM ratings GROUP BY title ORDER BY count(DISTINCT user_id) DESC LIMIT 10",
    ),
    "DP_COUNT_DISTINCT": (
        "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1) AS n FROM ratings",
        "SELECT count(*) AS n FROM (SELECT DISTINCT user_id, title FROM ratings)",
    ),
}
_OURS = "import sys; from dp_sql.cli.main import main; sys.exit(main(['serve', *sys.argv[1:]]))"
_THEIRS = """
import sys, duckdb
from dp_sql.engines.duckdb.quack_extension import load_quack
con = duckdb.connect(sys.argv[1], read_only=True)
load_quack(con)
con.execute(f"CALL quack_serve('{sys.argv[2]}', token := 'without')").fetchall()
print("DP_COUNT_DISTINCT", flush=True)
sys.stdin.read()
"""
_PORT = 9599


@dataclass(frozen=True)
class Crowd:
    """How many analysts at once were answered: per second, in which time, how often not."""

    per_second: float
    median: float
    p95: float
    errors: int


def serving() -> list[str]:
    """The section of the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect(str(folder / "bench.duckdb")) as owner:
            owner.execute(_DATA)
        (folder / "policy.toml").write_text(_POLICY, "utf-8")
        tokens = [add_token(folder / "policy.tokens", f"analyst {n}") for n in range(N_ANALYSTS)]
        ours, figures = _ours(folder, tokens)
        theirs = _theirs(folder)
    lines = [
        "## A server for the duckdb shell",
        "",
        f"{N_ROWS} rows, {N_ANALYSTS} analysts at once with a connection each, who ask "
        f"{N_QUESTIONS} questions one after the other; without privacy: the same table behind a "
        f"plain Quack server. DuckDB {duckdb.__version__}.",
        "",
        "| question | per second | median, ms | 95 %, ms | errors | without privacy: per second "
        "| 95 %, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for question, crowd in ours.items():
        plain = theirs[question]
        lines.append(
            f"| {question} | {crowd.per_second:.1f} | {crowd.median:.0f} | {crowd.p95:.0f} "
            f"| {crowd.errors} | {plain.per_second:.1f} | {plain.p95:.0f} |"
        )
    return [*lines, "", "| what | |", "|---|---|", *(f"| {what} | {n} |" for what, n in figures)]


def _ours(folder: Path, tokens: Sequence[str]) -> tuple[dict[str, Crowd], list[tuple[str, str]]]:
    where = f"quack:localhost:{_PORT}"
    arguments = [str(folder / "bench.duckdb"), "--policy", str(folder / "policy.toml")]
    started = time.perf_counter()
    with _server(_OURS, [*arguments, "--listen", where]) as process:
        ready = time.perf_counter() - started
        idle = _memory(process.pid)
        first, again = (_first_answer(folder, where, tokens[0]) for _ in range(2))
        crowds = {
            question: _crowd(where, list(tokens), with_privacy)
            for question, (with_privacy, _) in _QUESTIONS.items()
        }
        busy = _memory(process.pid)
    return crowds, [
        ("the server is ready after", f"{ready:.1f} s"),
        ("memory of the idle server", f"{idle:.0f} MB"),
        (f"memory after {N_ANALYSTS} analysts", f"{busy:.0f} MB"),
        ("the real shell, from its start to its first answer", f"{first:.1f} s"),
        ("the same again", f"{again:.1f} s"),
    ]


def _theirs(folder: Path) -> dict[str, Crowd]:
    where = f"quack:localhost:{_PORT + 1}"
    with _server(_THEIRS, [str(folder / "bench.duckdb"), where]):
        return {
            question: _crowd(where, ["without"] * N_ANALYSTS, without)
            for question, (_, without) in _QUESTIONS.items()
        }


@contextmanager
def _server(program: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        while "DP_COUNT_DISTINCT" not in (line := process.stdout.readline()):
            assert line, "the server ended"
        try:
            yield process
        finally:
            process.terminate()


def _crowd(where: str, tokens: Sequence[str], question: str) -> Crowd:
    with duckdb.connect(config={"threads": 1}) as one:
        load_quack(one)
        clients = [one.cursor() for _ in tokens]
        for n, (client, token) in enumerate(zip(clients, tokens, strict=True)):
            client.execute(f"ATTACH '{where}' AS client_{n} (TOKEN '{token}')")
        times: list[float] = []
        errors: list[str] = []

        def ask(n: int) -> None:
            for number in range(-1, N_QUESTIONS):
                start = time.perf_counter()
                try:  # the number makes each text another question
                    clients[n].execute(
                        f"FROM client_{n}.query($$ {question} -- {number}\n$$)"
                    ).fetchall()
                except duckdb.Error as error:
                    errors.append(str(error))
                if number >= 0:  # the first opens the analyst's session
                    times.append(time.perf_counter() - start)
                else:
                    ready.wait()

        ready = threading.Barrier(len(tokens) + 1)
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(tokens))]
        for thread in threads:
            thread.start()
        ready.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
    times.sort()
    middle, late = statistics.median(times), times[int(0.95 * len(times))]
    return Crowd(len(times) / seconds, 1000 * middle, 1000 * late, len(errors))


def _first_answer(folder: Path, where: str, token: str) -> float:
    shell, *extensions = (
        _package(name)
        for name in ("duckdb_cli", "duckdb_extension_httpfs", "duckdb_extension_quack")
    )
    loads = [f"LOAD '{next(path.rglob('*.duckdb_extension'))}';" for path in extensions]
    pasted = PASTE.format(where=where).partition("\n")[2]
    text = "\n".join([*loads, pasted]).replace("the token of dp-sql token add", token)
    (folder / "rc").write_text(text, "utf-8")
    question = f"FROM dp($$ {_QUESTIONS['DP_TOPK, k = 10'][0]} $$)"
    start = time.perf_counter()
    subprocess.run(
        [str(shell / "duckdb"), "-init", str(folder / "rc"), "-c", question],
        check=True, capture_output=True,
    )  # fmt: skip
    return time.perf_counter() - start


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"{name} is not installed; `make serve-test` makes an environment with it")
    return Path(found.origin).parent


def _memory(process: int) -> float:
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(process)], check=True, capture_output=True, text=True
    )
    return int(told.stdout) / 1024


if __name__ == "__main__":
    print("\n".join(serving()))

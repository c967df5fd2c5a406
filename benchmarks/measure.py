"""The data sets, and timing: queries run in turn, so that a machine that slows down slows both."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

    import dp_sql

DATA = Path(os.environ.get("DP_SQL_DATA", ""))  # docs/data.md
ROUNDS = 7
TOP_ITEMS = "SELECT item, count(DISTINCT user_id) n FROM {} GROUP BY item ORDER BY n DESC LIMIT {}"


def file_of(name: str) -> Path:
    """The file of a data set, which may be absent."""
    return DATA / f"{name}.parquet"


def present(name: str) -> bool:
    return file_of(name).exists()


def missing(names: Iterable[str]) -> list[str]:
    """A line on the data sets that are absent, if any are."""
    absent = [name for name in names if not present(name)]
    return [f"Skipped: no {', '.join(absent)} (set DP_SQL_DATA to their folder)."] if absent else []


def load(session: dp_sql.Session, name: str) -> None:
    """Make a table of a data set."""
    session.execute(f"CREATE TABLE {name} AS FROM '{file_of(name)}'")


def fetch(session: dp_sql.Session | duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    """The rows of an answer."""
    rows: list[Any] = session.execute(query).fetchall()
    return rows


@dataclass(frozen=True)
class Paired:
    """Medians in milliseconds, and the median of the ratios round by round."""

    ours: float
    theirs: float
    ratio: float

    def __str__(self) -> str:
        return f"{self.ours:.1f} | {self.theirs:.1f} | {self.ratio:.2f}"


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = ROUNDS) -> Paired:
    ours(), theirs()
    times = [(_time(ours), _time(theirs)) for _ in range(rounds)]
    return Paired(
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        statistics.median(a / b for a, b in times),
    )


def compared(
    session: dp_sql.Session, ours: str, theirs: str, other: duckdb.DuckDBPyConnection | None = None
) -> Paired:
    """A query beside the same one without privacy, which another connection may run."""
    return paired(partial(fetch, session, ours), partial(fetch, other or session, theirs))


def median(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    run()
    return statistics.median(_time(run) for _ in range(rounds))


def _time(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)


_PEAK = """
def _peak():
    try:  # of this program alone: getrusage remembers the size of the process it was forked from
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
import json
print(json.dumps({"peak": _peak()}))
"""


_BYTECODE = tempfile.TemporaryDirectory()


def in_fresh_process(program: str) -> dict[str, float]:
    """`seconds` of a whole process that runs a program, and its `peak` memory in MB."""
    seconds, printed = timed("-c", program + _PEAK)
    return {"seconds": seconds, **json.loads(printed.splitlines()[-1])}


def timed(*words: str) -> tuple[float, str]:
    """How long Python takes with these command-line arguments, and what it prints.

    From the second run on, all modules are compiled, as pip installs them.
    """
    given = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words], check=True, capture_output=True, text=True,
        env={**given, "PYTHONPYCACHEPREFIX": _BYTECODE.name},
    )  # fmt: skip
    return time.perf_counter() - start, done.stdout

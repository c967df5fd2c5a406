"""What runs in a library's own process: ask every question, time it, and write the errors as JSON.

Called as `python -m benchmarks.rivals.NAME FOLDER RESULT`. FOLDER holds the tables as parquet
files and the questions as questions.json. Only DuckDB and the library are needed.
"""

import json
import statistics
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb

from benchmarks.rivals.questions import Asked, Question

MOST_RUNS = 200
FEWEST_RUNS = 5
SECONDS = 4.0
"""A question stops at MOST_RUNS, or after so many seconds and FEWEST_RUNS."""
FACTORS = (0.2, 5.0)
"""What the bound is multiplied by to see what a worse guess costs."""


class Refused(Exception):
    """The library has no such question; the message says what its user can do instead."""


@dataclass(frozen=True)
class Answerer:
    """One question, prepared: `run` answers it anew, and the rest is what the table says."""

    run: Callable[[], Any]
    needs: str = ""
    """The bounds that the library needs from its user, with their values."""
    note: str = ""
    wrong: str = ""
    """Why its answer is one to another question, if it is."""


Prepare = Callable[[Asked, Path], Answerer]


def error(asked: Asked, answer: Any) -> float:
    """The relative error: of a number, of the list of the best, or of all groups together.

    NULL, which means no answer, counts as 0.
    """
    if isinstance(asked.truth, float):
        return abs(float(answer or 0) - asked.truth) / abs(asked.truth)
    if asked.question.kind == "top":
        return 1 - len(set(answer) & set(asked.truth)) / len(asked.truth)
    truth = dict(asked.truth)
    off = sum(abs(float(answer.get(key) or 0) - value) for key, value in truth.items())
    off += sum(abs(float(value or 0)) for key, value in answer.items() if key not in truth)
    return float(off / sum(truth.values()))


def at_95(values: list[float]) -> float:
    """The value that 95 % of the runs stay within; the largest, if there are fewer than 20."""
    return sorted(values)[-(-95 * len(values) // 100) - 1]


def _measure(
    asked: Asked, prepare: Prepare, folder: Path, seconds: float, fewest: int
) -> dict[str, Any]:
    table = folder / f"{asked.question.table}.parquet"
    try:
        answerer = prepare(asked, table)
        answerer.run()
    except Refused as refused:
        return {"status": "refused", "note": str(refused)}
    except Exception as failed:
        traceback.print_exc()
        return {"status": "failed", "note": _words(failed)}
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE {asked.question.table} AS FROM '{table}'")
        con.execute(asked.question.plain).fetchall()
        runs: list[tuple[float, float, float]] = []
        signed: list[float] = []
        end = time.monotonic() + seconds
        while len(runs) < MOST_RUNS and (len(runs) < fewest or time.monotonic() < end):
            plain = _seconds(lambda: con.execute(asked.question.plain).fetchall())
            start = time.perf_counter()
            answer = answerer.run()
            private = time.perf_counter() - start
            runs.append((error(asked, answer), private, plain))
            if isinstance(asked.truth, float):
                signed.append((float(answer or 0) - asked.truth) / abs(asked.truth))
    errors = [one for one, _, _ in runs]
    return {
        "status": "answered",
        "runs": len(runs),
        "error": statistics.median(errors),
        "error_95": at_95(errors),
        "bias": statistics.median(signed) if signed else None,
        "spread": [-at_95([-one for one in signed]), at_95(signed)] if signed else None,
        "seconds": statistics.median(private for _, private, _ in runs),
        "ratio": statistics.median(private / plain for _, private, plain in runs),
        "needs": answerer.needs,
        "note": answerer.note,
        "wrong": answerer.wrong,
    }


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main(
    packages: list[str],
    prepare: Prepare,
    guesses: bool = True,
    fewest: int = FEWEST_RUNS,
    checks: Mapping[str, Callable[[], object]] = MappingProxyType({}),
) -> None:
    """Ask the questions of the folder and write the results.

    Args:
        packages: The distributions whose versions are reported.
        prepare: What prepares one question.
        guesses: Whether the bounds are the user's, so that worse ones are tried, too.
        fewest: The fewest runs of a question, however long they take.
        checks: What is claimed about the library, as programs whose results are shown.
    """
    folder, result = map(Path, sys.argv[1:3])
    only = sys.argv[3:]
    asked_all = [
        Asked(**(one | {"question": Question(**one["question"])}))
        for one in json.loads((folder / "questions.json").read_text("utf-8"))
    ]
    found: dict[str, Any] = {}
    results = {
        "versions": {name: version(name) for name in packages},
        "questions": found,
        "checks": {what: _result(check) for what, check in checks.items()},
    }
    for asked in asked_all:
        key = asked.question.key
        if (only and key not in only) or (asked.question.told and guesses):
            continue
        found[key] = _measure(asked, prepare, folder, SECONDS, fewest)
        if guesses and asked.question.guessed and found[key]["status"] == "answered":
            found[key]["guesses"] = {
                str(factor): _measure(asked.scaled(factor), prepare, folder, SECONDS / 3, fewest)
                for factor in FACTORS
            }
        print(key, {k: v for k, v in found[key].items() if v}, file=sys.stderr, flush=True)
        result.write_text(json.dumps(results), "utf-8")  # what is there if the time ends


def _result(check: Callable[[], object]) -> str:
    try:
        return str(check())
    except Exception as failed:
        return _words(failed)


def _words(failed: Exception) -> str:
    """An error as one short line."""
    words = f"{type(failed).__name__}: {' '.join(str(failed).split())}"
    return textwrap.shorten(words.replace("\\n", " ").replace("`", "'"), 110, placeholder=" …")

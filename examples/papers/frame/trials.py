"""Trials: run what is missing, keep what is done. Never runs a trial twice, never takes a seed.

One process at a time may keep trials in a folder (`command` sees to that).
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dp_sql import udfs

_SECONDS_AT_RISK = 2.0
"""What an interruption may cost: trials are written down this often."""


@dataclass(frozen=True)
class Point:
    """One point of a figure or a table: what is tried there, and how often.

    key: distinguishes it from all other points: names, numbers, the digest of the data.
    once: runs one trial; its result is what JSON can keep.
    """

    key: tuple[str | int, ...]
    n_trials: int
    once: Callable[[], Any]


class Trials:
    """The trials of one paper, in a file with one line for each few of them.

    Args:
        folder: where the file is, made if need be. Its name carries a digest of the mechanisms'
            code, so that other code repeats all trials.
        paper: the name of the file.
    """

    def __init__(self, folder: Path, paper: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{paper}-{_digest_of_mechanisms()}.jsonl"
        self._done: dict[str, list[Any]] = {}
        if self._file.exists():
            self._read()

    def _read(self) -> None:
        """Load the stored trials; a last line that was cut off is dropped."""
        stored = self._file.read_bytes()
        whole = stored.rfind(b"\n") + 1
        if whole < len(stored):
            os.truncate(self._file, whole)
        for number, line in enumerate(stored[:whole].splitlines(), start=1):
            try:
                found = json.loads(line)
                key, results = found["key"], [*found["results"]]
            except (ValueError, KeyError, TypeError):
                sys.exit(f"Line {number} of {self._file} is not a line of trials. Delete it.")
            self._done.setdefault(_name(key), []).extend(results)

    def run(self, what: str, points: Sequence[Point]) -> list[list[Any]]:
        """Return the results of every point's trials, after running those that are missing.

        Args:
            what: is shown with the progress.
            points: each with its own key.
        """
        missing = sum(max(0, point.n_trials - len(self._of(point))) for point in points)
        with (
            self._file.open("a", encoding="utf-8") as file,
            tqdm(total=missing, desc=what, unit="trial") as progress,
        ):
            for point in points:
                done = self._of(point)
                while len(done) < point.n_trials:
                    results = _some(point, point.n_trials - len(done))
                    file.write(json.dumps({"key": point.key, "results": results}) + "\n")
                    file.flush()
                    done.extend(results)
                    progress.update(len(results))
        return [self._of(point)[: point.n_trials] for point in points]

    def _of(self, point: Point) -> list[Any]:
        return self._done.setdefault(_name(point.key), [])


@cache
def _digest_of_mechanisms() -> str:
    digest = hashlib.sha256()
    folder = Path(udfs.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _name(key: Sequence[str | int]) -> str:
    return json.dumps(list(key))


def _some(point: Point, at_most: int) -> list[Any]:
    """Run a few trials, as many as may be lost."""
    end = time.monotonic() + _SECONDS_AT_RISK
    results = [point.once()]
    while len(results) < at_most and time.monotonic() < end:
        results.append(point.once())
    return results

"""Makes the nth step of a ledger fail: a write, a sync or a statement, before or after it is done."""

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest.mock import patch

from dp_sql.budget import checkpoint

When = Literal["before", "after", "half", "ever since"]


@dataclass
class Fault:
    """The step to fail: `at` counts from 1.

    when: "before": as if it was never done. "after": done, and yet reported as failed. "half": a
        write stops in the middle. "ever since": that step and all that follow fail.
    """

    at: int
    when: When
    steps: int = 0

    def step(self, do: Callable[[], Any], half: Callable[[], Any], error: Exception) -> Any:
        """Do it, or fail."""
        self.steps += 1
        if self.steps < self.at or (self.steps > self.at and self.when != "ever since"):
            return do()
        if self.when in {"after", "half"}:
            (do if self.when == "after" else half)()
        raise error


@contextmanager
def failing(fault: Fault) -> Iterator[None]:
    """A world in which that step fails; only for what is called inside."""

    class Connection(sqlite3.Connection):
        def execute(self, *given: Any) -> Any:
            error = sqlite3.OperationalError("disk I/O error")
            act = super().execute
            return fault.step(lambda: act(*given), lambda: None, error)

    def faulty(act: Callable[..., Any], half: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            full = OSError(errno.ENOSPC, "no space left on device")
            return fault.step(lambda: act(*given), lambda: half(*given), full)

        return call

    def half_of_it(file: int, data: bytes, offset: int) -> int:
        return write(file, data[: len(data) // 2], offset)

    def nothing(*given: Any) -> None:
        pass

    write, connect, sync = os.pwrite, sqlite3.connect, faulty(os.fsync, nothing)
    with (
        patch.object(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Connection)),
        patch.object(os, "pwrite", faulty(write, half_of_it)),
        patch.object(os, "rename", faulty(os.rename, nothing)),
        patch.object(os, "fsync", sync),
        patch.object(checkpoint, "_SYNC", sync),
    ):
        yield

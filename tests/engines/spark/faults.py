"""Faults of tasks: functions that stand around what a task makes. They are sent to workers by value."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dp_sql.engines.spark import jobs

Fault = Callable[[Iterator[Any]], Iterator[Any]]


def around_tasks(monkeypatch: pytest.MonkeyPatch, fault: Callable[[str], Fault]) -> None:
    """Put a fault around what each task makes; it is given the name of the task's function."""
    mapped = jobs._mapped

    def wrapped(frame: Any, function: Any, *given: Any) -> Any:
        within = fault(function.__name__)
        return mapped(frame, lambda batches, *given: within(function(batches, *given)), *given)

    monkeypatch.setattr(jobs, "_mapped", wrapped)


def fail_once(folder: str) -> Fault:
    """Lose the first attempt of each task that has made something."""

    def check(found: Iterator[Any]) -> Iterator[Any]:
        import os

        from pyspark import TaskContext

        made = list(found)
        context = TaskContext.get()
        marker = os.path.join(folder, f"{context.stageId()}-{context.partitionId()}")
        if made and not os.path.exists(marker):
            with open(marker, "w"):
                raise OSError("this attempt is lost: user 3 has score 9")
        return iter(made)

    return check


def kill_once(marker: str) -> Fault:
    """End the executor of the first task that has made something, and all that it keeps."""

    def check(found: Iterator[Any]) -> Iterator[Any]:
        import os
        import signal

        made = list(found)
        if not made:
            return iter(made)
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return iter(made)
        with open(f"/proc/{os.getppid()}/stat") as file:  # of the daemon that forks workers
            executor = int(file.read().rsplit(")")[-1].split()[1])
        with open(f"/proc/{executor}/cmdline") as file:
            if "CoarseGrainedExecutorBackend" not in file.read():
                raise RuntimeError("this is no executor")
        os.kill(executor, signal.SIGKILL)
        os._exit(1)

    return check


def wait_for_ever(started: str) -> Fault:
    """Write a file and wait."""

    def check(found: Iterator[Any]) -> Iterator[Any]:
        import time

        open(started, "w").close()
        time.sleep(10_000)
        return found

    return check

"""A progress bar for owners while a release waits for Spark: rows, jobs and finished tasks.

All of it depends on the data, so analysts' sessions have none.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_AFTER, _EVERY = 2.0, 0.5  # seconds
_WIDTH = 30


class Progress:
    """The bar of one release, on stderr if that is a terminal without Spark's own bar.

    n_rows: how many rows there are, once this is known.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._context = getattr(spark, "sparkContext", None)  # None: Spark Connect
        self.n_rows: int | None = None
        self._n_jobs = 0
        self._told = (0, 0)  # by Spark Connect: tasks that are done, and all

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar while a job runs, from its third second on."""
        self._n_jobs += 1
        settings = {} if self._context is None else self._context.getConf()
        has_other = settings.get("spark.ui.showConsoleProgress", "false") == "true"
        if has_other or not sys.stderr.isatty():
            yield
            return
        over = threading.Event()
        with self._followed() as tasks:
            showing = threading.Thread(target=self._show, args=(over, tasks), daemon=True)
            showing.start()
            try:
                yield
            finally:
                over.set()
                showing.join()

    @contextlib.contextmanager
    def _followed(self) -> Iterator[Callable[[], tuple[int, int]]]:
        """How many tasks are done, and of how many: as Spark says while a job runs."""
        if self._context is not None:
            tracker = self._context.statusTracker()

            def running() -> tuple[int, int]:
                stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
                return _sums((one.numCompletedTasks, one.numTasks) for one in stages)

            yield running
            return

        def follow(stages: Iterable[Any] | None, *_: Any, **__: Any) -> None:
            self._told = _sums((one.num_completed_tasks, one.num_tasks) for one in stages or ())

        self._spark.registerProgressHandler(follow)
        try:
            yield lambda: self._told
        finally:
            self._spark.removeProgressHandler(follow)

    def _show(self, over: threading.Event, tasks: Callable[[], tuple[int, int]]) -> None:
        wait, length = _AFTER, 0
        with contextlib.suppress(Exception):  # the bar ends if Spark does not tell
            while not over.wait(wait):
                line = self._line(*tasks())
                length, wait = max(length, len(line)), _EVERY
                sys.stderr.write(f"\r{line:{length}}")
                sys.stderr.flush()
        with contextlib.suppress(Exception):
            sys.stderr.write(f"\r{'':{length}}\r" if length else "")

    def _line(self, done: int, every: int) -> str:
        bar = "#" * (_WIDTH * done // every if every else 0)
        rows = "" if self.n_rows is None else f"{self.n_rows:,} rows, "
        return f"Spark [{bar:{_WIDTH}}] {rows}job {self._n_jobs}, {done} of {every} tasks"


def _sums(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    listed = [*pairs]
    return sum(done for done, _ in listed), sum(every for _, every in listed)

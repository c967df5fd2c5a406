"""Runs one statement: in a thread, with a progress line, until Ctrl-C; then prints what came."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import TextIO

from dp_sql.cli.budget_bars import bar
from dp_sql.cli.errors import error_text
from dp_sql.cli.shell.costs import cost_note, releases
from dp_sql.cli.shell.output import is_status, render
from dp_sql.cli.shell.state import Shell

Write = Callable[[str], object]
# Python variables are no tables. DuckDB counts progress only where it thinks that it draws it; it
# would draw into the results, and does so by itself in a process that began with `python -m`.
_SETTINGS = (
    "SET python_enable_replacements = false",
    "SET enable_progress_bar = true",
    "SET enable_progress_bar_print = false",
)
_DELAY = 0.5  # seconds before the first progress line
_PAUSE = 0.1
_WIDTH = 20
_WIPE = "\r\x1b[K"


def prepare(shell: Shell) -> None:
    """Set the owner's connection up for a shell; an analyst's has its own locked settings."""
    for setting in () if shell.connection is None else _SETTINGS:
        with contextlib.suppress(Exception):  # an older DuckDB has fewer settings
            shell.connection.execute(setting)


def run_statement(shell: Shell, statement: str) -> bool:
    """Run a statement and print its result; returns whether it succeeded.

    Raises:
        BrokenPipeError: no one reads the results any more.
    """
    shell.last_statement, started = statement, time.monotonic()
    n_receipts = len(shell.session.receipts)
    budget = shell.session.budget() if releases(statement) else ()
    draws = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    failure: str | None = None
    try:
        run(
            partial(_work, shell, statement, shell.width), shell.out.write,
            shell.session.interrupt, partial(progress_percent, shell),
            sys.stderr if draws else None,
        )  # fmt: skip
        shell.out.flush()
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        failure = error_text(error, shell.connection, statement)
    shell.forget_names()
    if failure is not None:
        with contextlib.suppress(BrokenPipeError):
            shell.out.flush()
        print(failure, file=sys.stderr, flush=True)
    if shell.shows_receipts:
        for receipt in shell.session.receipts[n_receipts:]:
            print(receipt, file=sys.stderr, flush=True)
    if shell.shows_costs:
        note = cost_note(shell.session, n_receipts, budget, statement, failure is None)
        if note is not None:
            shell.note(note)
    if shell.shows_times:
        shell.note(f"Run Time (s): real {time.monotonic() - started:.3f}")
    return failure is None


def _work(shell: Shell, statement: str, width: int | None, write: Write) -> None:
    relation = shell.session.sql(statement)
    if relation is not None and not is_status(statement, relation):
        for part in render(relation, shell.mode, width):
            write(part)


def progress_percent(shell: Shell) -> float | None:
    """DuckDB's progress, for the owner; None for an analyst, to whom it would leak data."""
    if shell.connection is not None:
        with contextlib.suppress(Exception):
            return float(shell.connection.query_progress())
    return None


def run(
    work: Callable[[Write], None],
    write: Write,
    interrupt: Callable[[], None],
    percent: Callable[[], float | None],
    terminal: TextIO | None,
) -> None:
    """Run a function in a thread, to its end.

    Args:
        work: gets a function to which it hands each part of its result.
        write: where these parts go.
        interrupt: makes the work fail soon; called until it has.
        percent: how much is done; None if that is unknown or must not be shown.
        terminal: where the progress line is drawn; None draws none.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the work.
        Exception: what the work raised.
    """
    line = _ProgressLine(terminal)
    done, stop = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def write_part(text: str) -> None:
        line.close()
        if stop.is_set():
            raise InterruptedError
        write(text)

    def target() -> None:
        try:
            work(write_part)
        except BaseException as error:
            raised.append(error)
        finally:
            done.set()

    with _catch_ctrl_c(stop):
        threading.Thread(target=target, name="dp-sql statement", daemon=True).start()
        started = time.monotonic()
        while not done.wait(_PAUSE):
            if stop.is_set():  # repeatedly: it may not have begun, or go on to a next step
                interrupt()
            passed = time.monotonic() - started
            if passed >= _DELAY:
                is_stopping = stop.is_set()
                line.draw(_progress(passed, None if is_stopping else percent(), is_stopping))
    line.close()
    if raised and stop.is_set():
        raise KeyboardInterrupt
    if raised:
        raise raised[0]


class _ProgressLine:
    """The progress line: drawn while a statement runs, wiped before its result is written."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._is_drawn = False

    def draw(self, text: str) -> None:
        """Replace the line, unless it is closed or there is no terminal."""
        with self._lock:
            if self._stream is not None:
                self._stream.write(_WIPE + text)
                self._stream.flush()
                self._is_drawn = True

    def close(self) -> None:
        """Wipe the line, for good."""
        with self._lock:
            if self._stream is not None and self._is_drawn:
                self._stream.write(_WIPE)
                self._stream.flush()
            self._stream = None


@contextlib.contextmanager
def _catch_ctrl_c(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C sets an event instead of interrupting Python code anywhere.

    The quit key (Ctrl-backslash) does nothing: the core file that it leaves may hold private rows.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt = signal.signal(signal.SIGINT, lambda *_: stop.set())
    quit_key = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGQUIT, quit_key)


def _progress(passed: float, percent: float | None, is_stopping: bool) -> str:
    """The text of the progress line.

    >>> _progress(1.25, 50.0, False)
    '██████████░░░░░░░░░░   50 %  1.2 s  Ctrl-C stops it'
    """
    if is_stopping:
        return f"{passed:.1f} s  stopping …"
    drawn = ""
    if percent is not None and 0 <= percent <= 100:
        drawn = f"{bar(Fraction(int(percent), 100), _WIDTH)}  {int(percent):3} %  "
    return f"{drawn}{passed:.1f} s  Ctrl-C stops it"

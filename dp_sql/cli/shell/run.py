"""Runs one statement: in a thread, with a progress line, until Ctrl-C; then prints what came."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, TextIO

from dp_sql.cli.bars import bar, visible
from dp_sql.cli.errors import error_text, wrapped
from dp_sql.cli.shell.output import is_status, render
from dp_sql.cli.shell.state import Shell
from dp_sql.errors import ParseError
from dp_sql.releases import Receipt
from dp_sql.session.base import Session
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import tokenize
from dp_sql.udfs.mechanism import in_words

if TYPE_CHECKING:  # an owner's shell needs no ledger
    from dp_sql.budget.account import BudgetRow

Write = Callable[[str], object]
# Python variables are not tables. DuckDB counts progress only where it thinks that it draws it; it
# would draw into the results, and does so by itself in a process that began with `python -m`.
_SETTINGS = (
    "SET python_enable_replacements = false",
    "SET enable_progress_bar = true",
    "SET enable_progress_bar_print = false",
)
_DELAY, _PAUSE = 0.5, 0.1  # seconds before the first progress line, and between two
_WIPE = "\r\x1b[K"


def prepare(shell: Shell) -> None:
    """Set the owner's connection up for a shell; an analyst's has its own locked settings."""
    connection = shell.session.connection
    if connection is not None:
        for setting in _SETTINGS:
            with contextlib.suppress(Exception):  # an older DuckDB has fewer settings
                connection.execute(setting)


def run_statement(shell: Shell, statement: str) -> bool:
    """Run a statement and print its result; returns whether it succeeded."""
    shell.last_statement, started = statement, time.monotonic()
    n_receipts = len(shell.session.receipts)
    budget = shell.session.budget() if releases(statement) else ()
    draws = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    failure: str | None = None
    width = shell.width  # of the terminal, before a thread asks

    def work(write: Write) -> None:
        relation = shell.session.sql(statement)
        if relation is not None and not is_status(statement, relation):
            for part in render(relation, shell.mode, width):
                write(part)

    try:
        run(
            work, shell.out.write, shell.session.interrupt, partial(progress_percent, shell),
            sys.stderr if draws else None,
        )  # fmt: skip
        shell.out.flush()
    except BrokenPipeError:  # no one reads the results any more
        raise
    except (Exception, KeyboardInterrupt) as error:
        failure = error_text(error, shell.session.connection, statement)
        failure += ";" * bool(getattr(error, "suggestion", ""))  # as it is typed here
    shell.forget_names()
    if failure is not None:
        with contextlib.suppress(BrokenPipeError):
            shell.out.flush()
        print(wrapped(failure), file=sys.stderr, flush=True)
    new = shell.session.receipts[n_receipts:]
    for receipt in new if shell.shows_receipts else ():
        print(receipt, file=sys.stderr, flush=True)
    if shell.shows_costs:
        cost = cost_note(shell.session, n_receipts, budget, statement, failure is None)
        is_shown = failure is not None or shell.shows_receipts
        for note in (*(() if is_shown else accuracy_notes(new, statement)), cost):
            if note:
                shell.note(note)
    if shell.shows_times:
        shell.note(f"Run Time (s): real {time.monotonic() - started:.3f}")
    return failure is None


def progress_percent(shell: Shell) -> float | None:
    """DuckDB's progress, for the owner; None for an analyst, to whom it would leak data."""
    if shell.session.connection is not None:
        with contextlib.suppress(Exception):
            return float(shell.session.connection.query_progress())
    return None


def run(
    work: Callable[[Write], None], write: Write, interrupt: Callable[[], None],
    percent: Callable[[], float | None], terminal: TextIO | None,
) -> None:  # fmt: skip
    """Run a function in a thread, to its end; it hands each part of its result to `write`.

    After Ctrl-C, `interrupt` is called until the work has failed, and KeyboardInterrupt is raised.
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
    if raised:
        raise KeyboardInterrupt if stop.is_set() else raised[0]


class _ProgressLine:
    """The progress line: drawn while a statement runs, wiped before its result is written."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._is_drawn = False

    def draw(self, text: str) -> None:
        with self._lock:
            if self._stream is not None:
                print(_WIPE + text, end="", file=self._stream, flush=True)
                self._is_drawn = True

    def close(self) -> None:
        with self._lock:
            if self._stream is not None and self._is_drawn:
                print(_WIPE, end="", file=self._stream, flush=True)
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
        drawn = f"{bar(Fraction(int(percent), 100), 20)}  {int(percent):3} %  "
    return f"{drawn}{passed:.1f} s  Ctrl-C stops it"


def releases(statement: str) -> bool:
    """Whether a statement has DP calls that it runs.

    >>> releases("SELECT DP_TOPK(a) FROM t"), releases("EXPLAIN SELECT DP_TOPK(a) FROM t")
    (True, False)
    """
    try:
        tokens = tokenize(statement)
    except ParseError:
        return False
    only_binds = tokens and tokens[0].upper in {"EXPLAIN", "DESCRIBE", "DESC", "SHOW", "PREPARE"}
    names = {name.upper() for name in tokens.called()}
    return not only_binds and bool(names & {*FUNCTIONS, "DP"})


def cost_note(
    session: Session, n_receipts: int, budget: Sequence[BudgetRow], statement: str, answered: bool
) -> str | None:
    """A line on what a statement spent and what is left; None if it releases nothing.

    `n_receipts` and `budget` are the session's before the statement.
    """
    new = session.receipts[n_receipts:]
    if not new and not releases(statement):
        return None
    rows = session.budget()
    if answered:
        return f"spent {_loss(new) if new else 'nothing'}; {_left(session, rows)}"
    if [row.epsilon_spent for row in rows[-1:]] != [row.epsilon_spent for row in budget[-1:]]:
        return f"spent, although there is no answer; {_left(session, rows)}"
    return None


def accuracy_notes(receipts: Sequence[Receipt], statement: str) -> Iterator[str]:
    """A line for each answer without a report, on how accurate it is, which offers a report.

    `receipts` are those of the statement.
    """
    has_report = any(token.upper == "REPORT" for token in tokenize(statement))
    for receipt in receipts:
        offer = FUNCTIONS[receipt.call.partition("(")[0].upper()].shape.offer
        if not (offer and has_report):
            of = f"{receipt.call}: " if len(receipts) > 1 else ""
            yield f"{of}{receipt.accuracy}" + (f"; next time, {offer}" if offer else "")


def _loss(receipts: Sequence[Receipt]) -> str:
    epsilon = sum((receipt.loss.epsilon for receipt in receipts), Fraction(0))
    delta = sum((receipt.loss.delta for receipt in receipts), Fraction(0))
    return f"epsilon = {in_words(epsilon)}" + (f", delta = {in_words(delta)}" if delta else "")


def _left(session: Session, rows: Sequence[BudgetRow]) -> str:
    capped = [row for row in rows if row.epsilon_left is not None]
    if capped:
        return "left: " + ", ".join(_left_of(row) for row in reversed(capped))
    if rows:
        return f"in this ledger: epsilon {in_words(rows[0].epsilon_spent)}"
    return f"in this session: {_loss(session.receipts)}"


def _left_of(row: BudgetRow) -> str:
    left, total = row.epsilon_left or Fraction(0), row.epsilon_total or Fraction(0)
    words = f"epsilon {in_words(left)} of {in_words(total)}"
    if row.delta_total:
        words += f" and delta {in_words(row.delta_left or Fraction(0))}"
    return f"{words} for {'all together' if row.analyst is None else visible(row.analyst)}"

"""One statement, from the question to what stands on the screen: answer, receipts, cost, time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from functools import partial

from dp_sql.cli.shell.errors import in_full
from dp_sql.cli.shell.forms import is_silent, rendered
from dp_sql.cli.shell.run import Write, run
from dp_sql.cli.shell.spent import Standing, cost_note, standing
from dp_sql.cli.shell.state import Shell
from dp_sql.session.base import Session

# Variables of ours are no tables. DuckDB counts its progress only where it thinks to draw it; it
# would draw into the answers, and does by itself in a process that began with `python -m`.
_SETTINGS = (
    "SET python_enable_replacements = false",
    "SET enable_progress_bar = true",
    "SET enable_progress_bar_print = false",
)


def prepare(session: Session) -> None:
    """Make the owner's connection ready for a shell; an analyst's has its own locked settings."""
    for setting in _SETTINGS if session.analyst is None else ():
        with contextlib.suppress(Exception):  # an older DuckDB knows fewer
            session.execute(setting)


def ask(shell: Shell, statement: str) -> bool:
    """Ask one statement and print its answer; False where there was none.

    Raises:
        BrokenPipeError: nobody reads the answers any more.
    """
    shell.last_question = statement
    before = standing(shell.session, statement)
    started = time.monotonic()
    told: str | None = None
    draws = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    out = shell.out
    try:
        run(
            partial(_answer, shell, statement, shell.width), out.write,
            shell.session.interrupt, partial(_share, shell),
            sys.stderr if draws else None,
        )  # fmt: skip
        out.flush()
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        told = in_full(error, shell.session, statement)
    shell.forget_names()
    if told is not None:
        with contextlib.suppress(BrokenPipeError):
            out.flush()
        print(told, file=sys.stderr, flush=True)
    _remark(shell, before, told is None)
    if shell.times:
        shell.remark(f"Run Time (s): real {time.monotonic() - started:.3f}")
    return told is None


def _remark(shell: Shell, before: Standing, answered: bool) -> None:
    """What is said of the last question beside its answer: its receipts, and what it cost."""
    if shell.tells_receipts:
        for receipt in shell.session.receipts[before.n_receipts :]:
            print(receipt, file=sys.stderr, flush=True)
    if shell.tells_costs:
        note = cost_note(shell.session, before, shell.last_question, answered)
        if note is not None:
            shell.remark(note)


def _answer(shell: Shell, statement: str, width: int | None, write: Write) -> None:
    """The work itself, in a thread of its own."""
    relation = shell.session.sql(statement)
    if relation is not None and not is_silent(statement, relation):
        for part in rendered(relation, shell.mode, width):
            write(part)


def _share(shell: Shell) -> float | None:
    """How much DuckDB has done, for the owner; to an analyst it would tell of the data."""
    connection = shell.session.connection
    if connection is not None:
        with contextlib.suppress(Exception):
            return connection.query_progress()
    return None

"""One session for all browsers of an analyst, used by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
from questions import Question

import dp_sql
from dp_sql.session.explain import Cost


@dataclass(frozen=True)
class Shared:
    """A session and its lock.

    A session answers one thread at a time, but its results are read from the one DuckDB connection
    behind it after that: asking and fetching must be one step, and the lock makes them one.
    """

    session: dp_sql.Session
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, and fetch all rows."""
        with self.lock:
            found: list[tuple[Any, ...]] = self.session.sql(sql).fetchall()
            return found

    def ask(self, sql: str) -> str:
        """Answer a question, which spends; returns the id of the release, to read it again."""
        with self.lock:
            self.session.sql(sql).fetchall()
            return self.session.releases[-1].id


def connected(folder: Path, analyst: str) -> Shared:
    """A session on reading.duckdb under policy.toml, both in a folder."""
    database, policy = folder / "reading.duckdb", folder / "policy.toml"
    session = dp_sql.connect(str(database), policy=policy, analyst=analyst)
    return Shared(session)


def cost(shared: Shared, question: Question, hundredths: int) -> Cost:
    """What a question would cost. Spends nothing."""
    with shared.lock:
        return shared.session.explain(question.at(hundredths))


def largest(shared: Shared, question: Question, below: int) -> int | None:
    """The largest privacy loss, in hundredths, at which a question would be answered now.

    What fits depends on limits, caps and how losses add up; so we ask, which spends nothing.
    """
    fits, too_much = 0, below
    while too_much - fits > 1:
        middle = (fits + too_much) // 2
        fits, too_much = (middle, too_much) if _fits(shared, question, middle) else (fits, middle)
    return fits or None


def is_answerable(shared: Shared, question: Question) -> bool:
    """Whether a question is one that dp_sql answers here, whatever is left of the budget."""
    try:
        cost(shared, question, 1)
    except (dp_sql.QueryError, duckdb.Error):
        return False
    return True


def _fits(shared: Shared, question: Question, hundredths: int) -> bool:
    try:
        return cost(shared, question, hundredths).fits
    except dp_sql.QueryError:
        return False


LOSSES = """
SELECT epsilon FROM dp_ledger() WHERE kind = 'spent' AND ticket NOT IN
    (SELECT ticket FROM dp_ledger() WHERE kind = 'cancelled') ORDER BY number
"""


def burn_down(left: Fraction, total: Fraction, losses: Sequence[Fraction]) -> list[Fraction]:
    """What was left before and after each loss, oldest first, computed from what is left now.

    With a budget that starts again each month, the losses of earlier months are not in `left`: what
    would lift it above the total is theirs.

    >>> burn_down(Fraction(1), Fraction(2), [Fraction(5), Fraction(1, 2), Fraction(1, 2)])
    [Fraction(2, 1), Fraction(3, 2), Fraction(1, 1)]
    """
    before = [left]
    for loss in reversed(losses):
        if before[-1] + loss > total:
            break
        before.append(before[-1] + loss)
    return before[::-1]

"""What the engines of one session share: an owner's statements have an engine each.

Its interrupts are counted, since DuckDB notices them only while a statement runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Sequence
from typing import Any, TypeVar

import duckdb

from dp_sql.privacy.catalog import Parts

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """The entries that were added last; several threads may add some."""

    def __init__(self, most: int = 500) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            with contextlib.suppress(RuntimeError, StopIteration):  # another thread removes, too
                self.pop(next(iter(self)), None)


class Interrupts:
    """Counts interrupts of a session."""

    def __init__(self) -> None:
        self.n = 0

    def add(self) -> None:
        """Count an interrupt, from any thread."""
        self.n += 1

    def ending(self, pieces: Iterable[T], before: int) -> Generator[T]:
        """Yield the pieces; raise if the count of interrupts is not `before`."""
        try:
            for piece in pieces:
                if self.n != before:
                    break
                yield piece
        except duckdb.Error:
            if self.n == before:
                raise
        self.check(before)

    def check(self, before: int) -> None:
        """Raise if the count of interrupts is not `before`."""
        if self.n != before:
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")


class SessionState:
    """The interrupts of a session, and what is remembered from one statement to the next.

    statements: SQL that comes again, parsed (40 kB each). meant: the tables that bare names meant.
    functions: those that DuckDB looks up for some SQL, which follow from the text alone.
    named, called: relations and functions that statements of one kind asked for.
    agreed: sources that DuckDB reads as dp_sql does, without numbers, and what that depends on.
    bindable: SQL without parameters that DuckDB can bind here, whatever else changes.
    conditions: those that DuckDB could last bind over a table, by its full name.
    n_rows: of sources, when DuckDB was asked for their rows, and its estimates.
    number: of the session's connection.
    planned: the last statements, their plans, and the engine's answers that the plans rest on.
    public_sets: groups and items that releases have read, by the SQL that lists them; None: they
        may change from one statement to the next.
    tried: statements that need not be tried again over made-up answers.
    """

    def __init__(self, number: int = 0) -> None:
        self.interrupts, self.number = Interrupts(), number
        self.statements: Recent[str, duckdb.Statement] = Recent(100)
        self.meant: Recent[str, Parts] = Recent(100)
        self.functions: Recent[str, frozenset[str]] = Recent()
        self.named: Recent[Any, tuple[str, ...]] = Recent()
        self.called: Recent[Any, tuple[Parts, ...]] = Recent()
        self.agreed: Recent[tuple[str, object], None] = Recent()
        self.bindable: Recent[str, None] = Recent()
        self.conditions: Recent[str, str] = Recent(100)
        self.n_rows: Recent[str, tuple[float, Sequence[int]]] = Recent()
        self.planned: Recent[Any, Any] = Recent(100)
        self.public_sets: Recent[Any, Any] | None = None
        self.tried: Recent[Any, None] = Recent()

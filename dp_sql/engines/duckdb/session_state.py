"""What the engines of one session share: an owner's statements have an engine each.

Its interrupts are counted, since DuckDB notices them only while a statement runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb

from dp_sql.privacy.catalog import Parts

T = TypeVar("T")


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


@dataclass
class SessionState:
    """The interrupts of a session, and what is remembered from one statement to the next.

    statements: SQL that comes again, parsed. meant: the tables that bare names meant.
    functions: those that DuckDB looks up for some SQL, which follow from the text alone.
    named, called: relations and functions that statements of one kind asked for.
    agreed: sources that DuckDB reads as dp_sql does, with the columns of their tables.
    conditions: those that DuckDB could last bind over a table, by its full name.
    n_rows: of sources, when DuckDB was asked for their rows, and its estimates.
    number: of the session's connection.
    planned: the last statements, their plans, and the engine's answers that the plans rest on.
    public_sets: groups and items that releases have read, by the SQL that lists them; None: they
        may change from one statement to the next.
    tried: statements that need not be tried again over made-up answers.
    """

    interrupts: Interrupts = field(default_factory=Interrupts)
    statements: dict[str, duckdb.Statement] = field(default_factory=dict)
    meant: dict[str, Parts] = field(default_factory=dict)
    functions: dict[str, frozenset[str]] = field(default_factory=dict)
    named: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    called: dict[Any, tuple[Parts, ...]] = field(default_factory=dict)
    agreed: dict[tuple[str, str], None] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    n_rows: dict[str, tuple[float, Sequence[int]]] = field(default_factory=dict)
    number: int = 0
    planned: dict[Any, Any] = field(default_factory=dict)
    public_sets: dict[Any, Any] | None = None
    tried: dict[Any, None] = field(default_factory=dict)

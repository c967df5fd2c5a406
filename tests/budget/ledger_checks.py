"""What every ledger must do, as checks that a planted mutant must fail; and those mutants."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from unittest.mock import patch

from dp_sql.budget.amounts import Amount, Spent, amount_of
from dp_sql.budget.checkpoint import Checkpoint, LockedCheckpoint
from dp_sql.budget.events import Event
from dp_sql.budget.integrity import added_up, verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.store import LedgerFile
from dp_sql.budget.totals import Totals
from dp_sql.errors import BudgetExceeded, LedgerError
from dp_sql.udfs.mechanism import PrivacyLoss

TENTH = amount_of(PrivacyLoss(Fraction("0.1")))


def admit_all(everybody: Spent, analyst: Spent) -> None:
    """Let everything through."""


def at_most(epsilon: int) -> Callable[[Spent, Spent], None]:
    """Let through what keeps everybody's epsilon, in 1e-9, within a limit."""

    def admit(everybody: Spent, analyst: Spent) -> None:
        if everybody.epsilon > epsilon:
            raise BudgetExceeded("The answer would cost more than is left.")

    return admit


def paths(folder: Path) -> tuple[Path, Path]:
    """Where a ledger and its checkpoint lie in a folder."""
    return folder / "ledger.sqlite", folder / "checkpoint"


def check_that_answers_are_counted(kind: type[Ledger], folder: Path) -> None:
    """Whatever a ledger says of a ticket it gave: its event is in the file, and stays there."""
    with kind(*paths(folder)) as ledger:
        (ticket,) = ledger.reserve("ann", [TENTH], admit_all)
        with Ledger(*paths(folder), read_only=True) as other:
            assert [e.ticket for e in other.events("ann") if e.kind == "reserved"] == [ticket]
        ledger.settle({ticket: "answered"})
    verify(*paths(folder))


def check_that_failures_cost(kind: type[Ledger], folder: Path) -> None:
    """A failure is a loss like an answer: it may have been caused by the data."""
    with kind(*paths(folder)) as ledger:
        for outcome in ("answered", "failed"):
            (ticket,) = ledger.reserve("ann", [TENTH], admit_all)
            ledger.settle({ticket: outcome})
        assert ledger.spent().n == 2


def check_that_backups_are_refused(kind: type[Ledger], folder: Path) -> None:
    """A ledger put back to an older copy forgets losses; its checkpoint does not."""
    ledger, checkpoint = paths(folder)
    for _ in range(2):
        shutil.rmtree(folder / "copy", ignore_errors=True)
        (folder / "copy").mkdir()
        for file in folder.glob("ledger.sqlite*"):
            shutil.copy(file, folder / "copy")
        with kind(ledger, checkpoint) as opened:
            opened.reserve("ann", [TENTH], admit_all)
    for file in folder.glob("ledger.sqlite*"):
        file.unlink()
    for file in (folder / "copy").iterdir():
        shutil.copy(file, folder)
    try:
        with Ledger(ledger, checkpoint):
            raise AssertionError("an older copy was taken for the newest")
    except LedgerError as error:
        assert "older than its checkpoint" in str(error)


def check_what_was_raced_for(folder: Path, tickets: Sequence[str], fit: int) -> None:
    """After a race: exactly as many reservations as fit, each with a ticket of its own."""
    assert len(tickets) == fit
    assert len(set(tickets)) == fit
    with Ledger(*paths(folder)) as ledger:
        assert {e.ticket for e in ledger.events() if e.kind == "reserved"} == set(tickets)
        assert ledger.spent().n == fit
    verify(*paths(folder))


def check_after_a_crash(folder: Path, answered: Sequence[str]) -> int:
    """The file opens, every answered loss counts, and the chain holds; how many were answered."""
    with Ledger(*paths(folder)) as ledger:
        events = list(ledger.events())
        spent = ledger.spent()
    counted = {e.ticket for e in events if e.kind == "reserved"}
    counted -= {e.ticket for e in events if e.kind == "cancelled"}
    assert set(answered) <= counted
    assert spent.n == len(counted)
    assert verify(*paths(folder)) == len(events)
    return len(answered)


def check_that_changed_rows_are_noticed(kind: type[Ledger], folder: Path) -> None:
    """Whatever was done to a row before the checkpoint: no budget comes back by it."""
    events = "events WHERE number ="
    for i, change in enumerate(
        (
            "UPDATE events SET epsilon = 0 WHERE number = 2",
            "UPDATE events SET delta = 1 WHERE number = 2",
            "UPDATE events SET rho = NULL WHERE number = 2",
            "UPDATE events SET bounded_range = 5 WHERE number = 2",
            "UPDATE events SET analyst = 'bob' WHERE number IN (2, 3)",
            "UPDATE events SET kind = 'cancelled' WHERE number = 3",
            "UPDATE events SET kind = 'failed' WHERE number = 7",
            "UPDATE events SET time = '2026-01-01T00:00:00Z' WHERE number = 2",
            f"DELETE FROM {events} 2",
            f"DELETE FROM {events} 7",
            "DELETE FROM events WHERE number BETWEEN 2 AND 5",
            "INSERT INTO events SELECT -1, time, kind, 'x', analyst, epsilon, delta, rho, "
            f"bounded_range, sums, hash FROM {events} 2",
        )
    ):
        home = folder / str(i)
        home.mkdir()
        with Ledger(*paths(home)) as ledger:
            for analyst in ("ann", "bob"):
                ledger.settle({ledger.reserve(analyst, [TENTH], admit_all)[0]: "answered"})
            ledger.cancel(ledger.reserve("ann", [TENTH], admit_all)[0])
            for _ in range(2):
                ledger.reserve("ann", [TENTH], admit_all)
        change_by_force(paths(home)[0], change)
        for monthly in (False, True):
            with kind(*paths(home), monthly=monthly) as ledger:
                try:
                    ledger.reserve("cid", [TENTH], admit_all)
                    raise AssertionError(f"no one noticed: {change}")
                except LedgerError as error:
                    assert "does not add up" in str(error)
                    assert "`dp-sql ledger verify`" in str(error)


def change_by_force(path: Path, statement: str) -> None:
    """Change the file as a person could who knows it well: without its rules, which then come back."""
    con = sqlite3.connect(path, isolation_level=None)
    try:
        con.execute("PRAGMA ignore_check_constraints = ON")
        triggers = con.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            con.execute(f"DROP TRIGGER {name}")
        con.execute(statement)
        for _, sql in triggers:
            con.execute(sql)
    finally:
        con.close()


def folder_in_memory() -> Iterator[Path]:
    """A folder that waits for no disk, where there is one; for faults that need none."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


class AnswersFirst(Ledger):
    """Gives a ticket before it is reserved."""

    def reserve(
        self, analyst: str, amounts: Sequence[Amount], admit: Callable[[Spent, Spent], None]
    ) -> tuple[str, ...]:
        self._late = analyst, amounts, admit
        return tuple(os.urandom(16).hex() for _ in amounts)

    def settle(self, outcomes: Mapping[str, Literal["answered", "failed"]]) -> None:
        written = super().reserve(*self._late)
        super().settle(dict(zip(written, outcomes.values(), strict=True)))

    def cancel(self, ticket: str) -> None:
        """Nothing to take back."""


class Refunds(Ledger):
    """Takes back the loss of what failed."""

    def settle(self, outcomes: Mapping[str, Literal["answered", "failed"]]) -> None:
        for ticket, outcome in outcomes.items():
            if outcome == "failed":
                self.cancel(ticket)
            else:
                super().settle({ticket: outcome})


class SkipsItsCheckpoint(Ledger):
    """Never writes its checkpoint after the opening."""

    def reserve(
        self, analyst: str, amounts: Sequence[Amount], admit: Callable[[Spent, Spent], None]
    ) -> tuple[str, ...]:
        with patch.object(LockedCheckpoint, "advance"):
            return super().reserve(analyst, amounts, admit)


class WritesItsCheckpointLater(Ledger):
    """Lets go of the checkpoint between reading it and writing the next."""

    @contextmanager
    def _checkpointed(self, *, make: bool = False) -> Iterator[tuple[sqlite3.Connection, Event]]:
        with self._transaction("IMMEDIATE") as found:
            yield found
        with suppress(LedgerError):
            self._checkpoint.advance(Checkpoint(self._id, self._head.number, self._head.hash))  # type: ignore[union-attr]


class BelievesItsRows(Ledger):
    """Adds up its rows, and compares the sums with nothing."""

    def _current(self, con: sqlite3.Connection, head: Event) -> Totals:
        if self._totals is None:
            self._totals = added_up(con, head)[0]
        return self._totals


class ReadsThenWrites(Ledger):
    """Decides in one transaction and writes in the next."""

    def reserve(
        self, analyst: str, amounts: Sequence[Amount], admit: Callable[[Spent, Spent], None]
    ) -> tuple[str, ...]:
        sums = self.spent(), self.spent(analyst)
        for amount in amounts:
            sums = sums[0].plus(amount), sums[1].plus(amount)
        admit(*sums)
        time.sleep(0.02)
        return super().reserve(analyst, amounts, admit_all)


class GivesATicketTwice(Ledger):
    """Gives its first ticket again each time, and does not mind that it is settled."""

    def reserve(
        self, analyst: str, amounts: Sequence[Amount], admit: Callable[[Spent, Spent], None]
    ) -> tuple[str, ...]:
        tickets = super().reserve(analyst, amounts, admit)
        self._first = getattr(self, "_first", tickets)
        return self._first

    def settle(self, outcomes: Mapping[str, Literal["answered", "failed"]]) -> None:
        with suppress(LedgerError):
            super().settle(outcomes)


class KeepsItsFileOpen(Ledger):
    """Leaves its connection open at a fork, and lets the child open another beside it."""

    def __init__(self, path: Path, checkpoint: Path) -> None:
        super().__init__(path, checkpoint)
        self._file.__class__ = _OpenAtForks


class _OpenAtForks(LedgerFile):
    def _before_fork(self) -> None:
        self.lock.acquire()

    def _after_fork_in_child(self) -> None:
        self.lock = threading.RLock()
        self._left, self._con = self._con, None


KINDS: dict[str, type[Ledger]] = {
    kind.__name__: kind
    for kind in (
        Ledger, AnswersFirst, Refunds, SkipsItsCheckpoint, ReadsThenWrites, GivesATicketTwice,
        KeepsItsFileOpen, WritesItsCheckpointLater, BelievesItsRows,
    )
}  # fmt: skip


def tickets_in(file: Path) -> list[str]:
    """The tickets of a log, one in each whole line."""
    with suppress(FileNotFoundError):
        return [line for line in file.read_text().splitlines() if len(line) == 32]
    return []

"""Checks every event of a ledger. Writes a checkpoint at most."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dp_sql.budget import schema, store
from dp_sql.budget.checkpoint import ADOPT, Checkpoint, CheckpointFile
from dp_sql.budget.events import Event, next_event, origin, wrong_event
from dp_sql.budget.integrity import follow
from dp_sql.budget.totals import Totals
from dp_sql.errors import LedgerError


def verify(path: Path, checkpoint: Path) -> int:
    """Check every event of a ledger, the chain, and that the checkpoint's event is in it.

    Returns the number of events.

    Raises:
        LedgerError: names the first event that is wrong, or what else is.
    """
    newest = CheckpointFile(checkpoint).read()
    if newest is None:
        raise LedgerError(f"The checkpoint {checkpoint} is missing or cut off. {ADOPT}")
    return _walk(store.resolved(path), newest).number


def adopt(path: Path, checkpoint: Path) -> int:
    """Write a new checkpoint for a ledger that has lost its own, after checking every event.

    The owner declares that this ledger is the newest copy; nothing can check that any more.
    Returns the number of events.

    Raises:
        LedgerError: the ledger is damaged, or there is a checkpoint that contradicts it.
    """
    file = CheckpointFile(checkpoint)
    if file.read() is not None:
        return verify(path, checkpoint)
    newest = _walk(store.resolved(path), None)
    file.advance(newest)
    return newest.number


@dataclass
class Tickets:
    """Which tickets were given, and the reservations that are not settled."""

    _given: set[str] = field(default_factory=set)
    _open: dict[str, Event] = field(default_factory=dict)

    def follow(self, event: Event) -> Event | None:
        """Take one more event; returns the reservation that it settles."""
        reservation, fault = None, None
        if event.kind == "opened":
            if event.ticket or event.analyst:
                fault = "opens the ledger in someone's name"
        elif event.kind == "reserved":
            if not event.ticket or event.ticket in self._given:
                fault = "gives a ticket that was given before"
            self._given.add(event.ticket)
            self._open[event.ticket] = event
        elif event.ticket not in self._given:
            fault = "settles a ticket before it is reserved"
        else:
            reservation = self._open.pop(event.ticket, None)
            if reservation is None:
                fault = "settles a ticket for the second time"
            elif reservation.analyst != event.analyst:
                fault = "settles the ticket of another analyst"
        if fault is not None:
            raise wrong_event(event.number, fault)
        return reservation


def _walk(path: Path, checkpoint: Checkpoint | None) -> Checkpoint:
    """Check all events; returns the checkpoint of the newest."""
    file = store.LedgerFile(path, read_only=True)
    try:
        with file.transaction("DEFERRED") as con:
            ledger_id, dataset = schema.name_of(con)
            last, tickets, totals = origin(ledger_id, dataset), Tickets(), Totals("")
            seen = checkpoint or Checkpoint(ledger_id, 0, "")
            if seen.ledger_id != ledger_id:
                raise LedgerError(f"The checkpoint belongs to another ledger than {path}.")
            for row in _rows(con):
                last = next_event(last, row)
                settled = tickets.follow(last)
                follow(totals, last, settled if last.kind == "cancelled" else None)
                if last.number == seen.number and last.hash != seen.hash:
                    raise wrong_event(last.number, "is not the one that the checkpoint saw")
            (whole,) = con.execute("PRAGMA integrity_check(1)").fetchone()
    finally:
        file.close()
    if not last.number or whole != "ok":
        raise LedgerError(f"The ledger {path} is damaged outside its events. Restore it.")
    if seen.number > last.number:
        raise LedgerError(
            f"The ledger {path} is older than its checkpoint: event {last.number + 1} is missing, "
            f"and event {seen.number} was seen."
        )
    return Checkpoint(ledger_id, last.number, last.hash)


def _rows(con: sqlite3.Connection) -> Iterator[Sequence[Any]]:
    n = 0
    try:
        for row in schema.rows_after(con, 0):
            yield row
            n += 1
    except sqlite3.Error as error:
        raise LedgerError(f"Event {n + 1} of the ledger cannot be read.") from error

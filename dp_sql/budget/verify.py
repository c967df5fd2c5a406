"""Checks every event of a ledger. Writes a checkpoint at most."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from dp_sql.budget import schema, store
from dp_sql.budget.checkpoint import ADOPT, Checkpoint, CheckpointFile
from dp_sql.budget.events import Event, Totals, next_event, origin, wrong_event
from dp_sql.budget.integrity import check_newest, follow
from dp_sql.errors import LedgerError


def verify(path: Path, checkpoint: Path) -> int:
    """Check every event, the chain, and the checkpoint; returns the number of events.

    LedgerError names the first event that is wrong, or what else is.
    """
    newest = CheckpointFile(checkpoint).read()
    if newest is None:
        raise LedgerError(f"The checkpoint {checkpoint} is missing or cut off. {ADOPT}")
    return _walk(store.resolved(path), newest).number


def adopt(path: Path, checkpoint: Path) -> int:
    """Write a new checkpoint for a ledger that has lost its own, after checking every event.

    The owner declares that this ledger is the newest copy; nothing can check that any more.
    Returns the number of events. A checkpoint that can be read is not replaced, only verified.
    """
    file = CheckpointFile(checkpoint)
    if file.read() is not None:
        return verify(path, checkpoint)
    newest = _walk(store.resolved(path), None)
    file.advance(newest)
    return newest.number


class Tickets(dict[str, Event | None]):
    """The reservation of each ticket that was given; None once it is settled."""

    def follow(self, event: Event) -> Event | None:
        """Take one more event; returns the reservation that it settles."""
        ticket, fault, reservation = event.ticket, "", self.get(event.ticket)
        if event.kind == "opened":
            fault = "opens the ledger in someone's name" if ticket or event.analyst else ""
        elif event.kind == "reserved":
            fault = "" if ticket and ticket not in self else "gives a ticket that was given before"
        elif ticket not in self:
            fault = "settles a ticket before it is reserved"
        elif reservation is None:
            fault = "settles a ticket for the second time"
        elif reservation.analyst != event.analyst:
            fault = "settles the ticket of another analyst"
        if fault:
            raise wrong_event(event.number, fault)
        if event.kind != "opened":
            self[ticket] = event if event.kind == "reserved" else None
        return reservation


def _walk(path: Path, checkpoint: Checkpoint | None) -> Checkpoint:
    with (
        closing(store.LedgerFile(path, read_only=True)) as file,
        file.transaction("DEFERRED") as con,
    ):
        ledger_id, dataset = schema.name_of(con)
        last, tickets, totals = origin(ledger_id, dataset), Tickets(), Totals("")
        try:
            for row in schema.rows_after(con, 0):
                last = next_event(last, row)
                settled = tickets.follow(last)
                follow(totals, last, settled if last.kind == "cancelled" else None)
        except sqlite3.Error as error:
            raise wrong_event(last.number + 1, "cannot be read") from error
        (whole,) = con.execute("PRAGMA integrity_check(1)").fetchone()
        if not last.number or whole != "ok":
            raise LedgerError(f"The ledger {path} is damaged outside its events. Restore it.")
        if checkpoint is not None:
            check_newest(con, path, ledger_id, checkpoint)
    return Checkpoint(ledger_id, last.number, last.hash)

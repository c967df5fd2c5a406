"""Whether a ledger is the newest copy, its past unchanged: at each transaction, and in full."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from dp_sql.budget import schema, store
from dp_sql.budget.amounts import Amount
from dp_sql.budget.checkpoint import ADOPT, Checkpoint, CheckpointFile
from dp_sql.budget.events import (
    Event,
    EventKind,
    event_of,
    new_event,
    next_event,
    origin,
    wrong_event,
)
from dp_sql.budget.totals import Totals, month_of
from dp_sql.errors import LedgerError


def check_newest(
    con: sqlite3.Connection, path: Path, ledger_id: str, checkpoint: Checkpoint | None
) -> None:
    """Check that the ledger contains what its checkpoint, read before, saw; a new one has none."""
    if checkpoint is None:
        if schema.last_number(con) > 1:
            raise LedgerError(f"The checkpoint of the ledger {path} is missing or cut off. {ADOPT}")
        return
    if checkpoint.ledger_id != ledger_id:
        raise LedgerError(f"The checkpoint belongs to another ledger than {path}.")
    number = checkpoint.number
    seen = schema.find_event(con, number)
    if seen is None and number > (last := schema.last_number(con)):
        raise LedgerError(
            f"The ledger {path} is older than its checkpoint: it ends with event {last}, and event "
            f"{number} was seen. Restore the newest copy."
        )
    if (seen or schema.event(con, number)).hash != checkpoint.hash:  # which raises if it is missing
        wrong = f"Event {number} of the ledger {path} is not the one that its checkpoint saw."
        raise LedgerError(f"{wrong} Restore the newest copy.")


def new_events(
    con: sqlite3.Connection, last: Event, checkpoint: Checkpoint | None
) -> Iterator[Event]:
    """Check the chain, and yield its events after `last`, which must be as it was.

    last: the newest event that is known; or the origin, and then from the checkpoint's event on.
    """
    if last.number:
        rows = schema.rows_after(con, last.number - 1)
        if (row := next(rows, None)) is None or last != event_of(row):
            why = f"Event {last.number} of the ledger has changed. Restore the ledger."
            raise LedgerError(why)
    else:
        if checkpoint is not None and checkpoint.number > 1:
            last = schema.event(con, checkpoint.number - 1)
        rows = schema.rows_after(con, last.number)
    for row in rows:
        last = next_event(last, row)
        yield last


def added_up(con: sqlite3.Connection, head: Event) -> tuple[Totals, dict[str, int]]:
    """Add up all rows up to `head`, the newest; and the last event to change each analyst's sum."""
    totals, newest = Totals(head.time), dict[str, int]()
    for sql, sign in ((schema.RESERVED_SUMS, 1), (schema.CANCELLED_SUMS, -1)):
        ever = list(schema.subtotals(con, sql, ""))
        totals.fill(ever, schema.subtotals(con, sql, totals.month), sign)
        for part in ever:
            newest[part.analyst] = max(newest.get(part.analyst, 0), part.newest)
    return totals, newest


def check_sums(
    con: sqlite3.Connection, path: Path, totals: Totals, newest: dict[str, int], head: Event
) -> None:
    """Check, without hashing every event, that the rows add up to what the newest events say."""
    found = [(head.sums, totals.sums(head.analyst), slice(0, 1))]
    for analyst, number in newest.items():
        event = schema.event(con, number)  # of a month that is over the sum is no longer known
        parts = slice(1, 3 if month_of(event.time) == totals.month else 2)
        found.append((event.sums, totals.sums(analyst), parts))
    if any(says.split()[part] != is_now.split()[part] for says, is_now, part in found):
        raise LedgerError(
            f"The ledger {path} does not add up to what its newest events say: an older one was "
            "changed or lost. `dp-sql ledger verify` finds it; restore the newest copy."
        )


def add_event(totals: Totals, event: Event, cancelled: Event | None) -> None:
    """Add a checked event, which may take back `cancelled`; check what it says of the sums."""
    totals.count(event.time, event.analyst, event.amount, cancelled)
    if totals.sums(event.analyst) != event.sums:
        raise wrong_event(event.number, "does not say what the events add up to")


def append(
    con: sqlite3.Connection, totals: Totals, head: Event, kind: EventKind, time: str, ticket: str,
    analyst: str, amount: Amount | None,
) -> Event:  # fmt: skip
    """Write the event after `head`, and read it back; any error must undo the transaction."""
    cancelled = schema.reservation_of(con, ticket) if kind == "cancelled" else None
    totals.count(time, analyst, amount, cancelled)
    event = new_event(head, kind, time=time, ticket=ticket, analyst=analyst, amount=amount,
                      sums=totals.sums(analyst))  # fmt: skip
    schema.add(con, event)
    if [next_event(head, row) for row in schema.rows_after(con, head.number)] != [event]:
        raise LedgerError("The ledger did not store an event as intended; nothing was recorded.")
    return event


def verify(path: Path, checkpoint: Path) -> int:
    """Check every event, the chain, and the checkpoint; returns the number of events.

    LedgerError names the first event that is wrong, or what else is.
    """
    newest = CheckpointFile(checkpoint).read()
    if newest is None and not os.path.lexists(path):
        raise LedgerError(f"There is no ledger {path}.")
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


class Reservations(dict[str, Event | None]):
    """The reservation of each ticket that was given; None once it is settled."""

    def follow(self, event: Event) -> Event | None:
        """Take one more event; returns the reservation that it settles."""
        if fault := self._fault(event):
            raise wrong_event(event.number, fault)
        reservation = self.get(event.ticket)
        if event.kind != "opened":
            self[event.ticket] = event if event.kind == "reserved" else None
        return reservation

    def _fault(self, event: Event) -> str:
        """What is wrong with an event that comes after these; "" if nothing is."""
        ticket = event.ticket
        if event.kind == "opened":
            return "opens the ledger in someone's name" if ticket or event.analyst else ""
        if event.kind == "reserved":
            return "" if ticket and ticket not in self else "gives a ticket that was given before"
        if ticket not in self:
            return "settles a ticket before it is reserved"
        reservation = self[ticket]
        if reservation is None:
            return "settles a ticket for the second time"
        is_own = reservation.analyst == event.analyst
        return "" if is_own else "settles the ticket of another analyst"


def _walk(path: Path, checkpoint: Checkpoint | None) -> Checkpoint:
    with (
        closing(store.LedgerFile(path, read_only=True)) as file,
        file.transaction("DEFERRED") as con,
    ):
        ledger_id, dataset = schema.id_and_dataset(con)
        last, tickets, totals = origin(ledger_id, dataset), Reservations(), Totals("")
        try:
            for row in schema.rows_after(con, 0):
                last = next_event(last, row)
                settled = tickets.follow(last)
                add_event(totals, last, settled if last.kind == "cancelled" else None)
        except sqlite3.Error as error:
            raise wrong_event(last.number + 1, "cannot be read") from error
        (whole,) = con.execute("PRAGMA integrity_check(1)").fetchone()
        if not last.number or whole != "ok":
            raise LedgerError(f"The ledger {path} is damaged outside its events. Restore it.")
        if checkpoint is not None:
            check_newest(con, path, ledger_id, checkpoint)
    return Checkpoint(ledger_id, last.number, last.hash)

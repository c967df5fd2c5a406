"""Whether a ledger is the newest copy, its past unchanged. Knows the chain and the sums in it.

All checks raise LedgerError. A connection is always inside a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dp_sql.budget import schema
from dp_sql.budget.amounts import Amount
from dp_sql.budget.checkpoint import ADOPT, Checkpoint
from dp_sql.budget.events import Event, Kind, new_event, next_event
from dp_sql.budget.totals import Totals, month_of
from dp_sql.errors import LedgerError


def check_newest(
    con: sqlite3.Connection, path: Path, ledger_id: str, checkpoint: Checkpoint | None
) -> None:
    """Check that the ledger contains what its checkpoint saw; only a new one may be without.

    `checkpoint` was read before the transaction of `con` read anything.
    """
    last = schema.last_number(con)
    if checkpoint is None:
        if last > 1:
            raise LedgerError(f"The checkpoint of the ledger {path} is missing or cut off. {ADOPT}")
        return
    if checkpoint.ledger_id != ledger_id:
        raise LedgerError(f"The checkpoint belongs to another ledger than {path}.")
    number = checkpoint.number
    if number > last:
        raise LedgerError(
            f"The ledger {path} is older than its checkpoint: it ends with event {last}, and event "
            f"{number} was seen. Restore the newest copy."
        )
    if schema.event(con, number).hash != checkpoint.hash:
        raise LedgerError(
            f"Event {number} of the ledger {path} is not the one that its checkpoint saw. "
            "Restore the newest copy."
        )


def new_events(
    con: sqlite3.Connection, origin: Event, known: Event | None, checkpoint: Checkpoint | None
) -> Iterator[Event]:
    """Check the chain to the newest event, and yield the events on the way.

    Begins after `known`, the newest event that was checked already; if None, at the checkpoint.
    """
    if known is not None and known != schema.event(con, known.number):
        raise LedgerError(f"Event {known.number} of the ledger has changed. Restore the ledger.")
    if known is None and checkpoint is not None and checkpoint.number > 1:
        known = schema.event(con, checkpoint.number - 1)
    last = known or origin
    for row in schema.rows_after(con, last.number):
        last = next_event(last, row)
        yield last


def added_up(con: sqlite3.Connection, head: Event) -> tuple[Totals, dict[str, int]]:
    """Add up all rows up to `head`, the newest; and the last event to change each analyst's sum."""
    totals, newest = Totals(head.time), dict[str, int]()
    for sql, sign in ((schema.RESERVED, 1), (schema.CANCELLED, -1)):
        ever = list(schema.subtotals(con, sql, ""))
        totals.fill(ever, schema.subtotals(con, sql, totals.month), sign)
        for part in ever:
            newest[part.analyst] = max(newest.get(part.analyst, 0), part.newest)
    return totals, newest


def check_sums(
    con: sqlite3.Connection, path: Path, totals: Totals, newest: dict[str, int], head: Event
) -> None:
    """Check that the rows still add up to what the newest events say.

    The checkpoint vouches for the newest event of all. An older row that was changed, added or lost
    changes a sum, and is found here without hashing a million events.
    """
    found = [(head.sums, totals.sums(head.analyst), slice(0, 1))]
    for analyst, number in newest.items():
        event = schema.event(con, number)
        # The sum in a month that is over is no longer known.
        parts = slice(1, 3 if month_of(event.time) == totals.month else 2)
        found.append((event.sums, totals.sums(analyst), parts))
    if any(says.split()[part] != is_now.split()[part] for says, is_now, part in found):
        raise LedgerError(
            f"The ledger {path} does not add up to what its newest events say: an older one was "
            "changed or lost. `dp-sql ledger verify` finds it; restore the newest copy."
        )


def follow(totals: Totals, event: Event, cancelled: Event | None) -> None:
    """Add one event, already checked, to the sums; and check that it says what they are then.

    cancelled: the reservation that it takes back, if it does.
    """
    _count(totals, event.time, event.analyst, event.amount, cancelled)
    if totals.sums(event.analyst) != event.sums:
        raise LedgerError(
            f"Event {event.number} of the ledger does not say what the events add up to."
        )


def cancelled_by(con: sqlite3.Connection, kind: Kind, ticket: str) -> Event | None:
    """The reservation that an event takes back, if it does."""
    return schema.reserved(con, ticket) if kind == "cancelled" else None


def append(
    con: sqlite3.Connection,
    totals: Totals,
    head: Event,
    kind: Kind,
    *,
    time: str,
    ticket: str,
    analyst: str,
    amount: Amount | None = None,
) -> Event:
    """Write the next event, and read it back as it will be read from now on.

    `con` is inside a transaction, which any error must undo. `totals` has the sums up to `head`,
    the newest event, and follows to the new one.
    """
    _count(totals, time, analyst, amount, cancelled_by(con, kind, ticket))
    sums = totals.sums(analyst)
    event = new_event(
        head, kind, time=time, ticket=ticket, analyst=analyst, amount=amount, sums=sums
    )
    schema.add(con, event)
    if [next_event(head, row) for row in schema.rows_after(con, head.number)] != [event]:
        raise LedgerError("The ledger did not store an event as intended; nothing was recorded.")
    return event


def _count(
    totals: Totals, time: str, analyst: str, amount: Amount | None, cancelled: Event | None
) -> None:
    totals.reach(time)
    if amount is not None:
        totals.add(analyst, amount)
    if cancelled is not None and cancelled.amount is not None:
        totals.take_off(cancelled.analyst, cancelled.amount, cancelled.time)

"""Whether a ledger is the newest copy, its past unchanged. Knows the chain and the sums in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dp_sql.budget import schema
from dp_sql.budget.amounts import Amount
from dp_sql.budget.checkpoint import ADOPT, Mark
from dp_sql.budget.events import Event, Kind, new_event, next_event
from dp_sql.budget.totals import Lot, Tally, lot_of, month_of
from dp_sql.errors import LedgerError


def check_mark(con: sqlite3.Connection, path: Path, ledger_id: str, mark: Mark | None) -> None:
    """Check that the ledger holds what its witness saw.

    Args:
        con: inside of a transaction that had read nothing yet when `mark` was read.
        path: of the ledger.
        ledger_id: of the ledger.
        mark: the witness's; None: there is no witness, which only a new ledger may be without.

    Raises:
        LedgerError: it does not.
    """
    last = schema.last_number(con)
    if mark is None:
        if last > 1:
            raise LedgerError(f"The witness of the ledger {path} is missing or cut off. {ADOPT}")
        return
    if mark.ledger_id != ledger_id:
        raise LedgerError(f"The witness belongs to another ledger than {path}.")
    if mark.number > last:
        raise LedgerError(
            f"The ledger {path} is older than its witness: it ends with event {last}, and event "
            f"{mark.number} was seen. Restore the newest copy."
        )
    if schema.event(con, mark.number).hash != mark.hash:
        raise LedgerError(
            f"Event {mark.number} of the ledger {path} is not the one that its witness saw. "
            "Restore the newest copy."
        )


def new_events(
    con: sqlite3.Connection, first_link: str, known: Event | None, mark: Mark | None
) -> Iterator[Event]:
    """Check the chain to the newest event, and give the events on the way.

    Args:
        con: inside of a transaction.
        first_link: the hash before the first event.
        known: the newest event that was checked already; None: begin where the mark is.
        mark: the witness's, already checked.

    Raises:
        LedgerError: an event does not follow; or what was checked has changed.
    """
    if known is not None and known != schema.event(con, known.number):
        raise LedgerError(f"Event {known.number} of the ledger has changed. Restore the ledger.")
    if known is None and mark is not None and mark.number > 1:
        known = schema.event(con, mark.number - 1)
    link = first_link if known is None else known.hash
    for row in schema.rows_after(con, 0 if known is None else known.number):
        known = next_event(known, link, row)
        link = known.hash
        yield known


def added_up(con: sqlite3.Connection, head: Event) -> tuple[Tally, dict[str, int]]:
    """Add up all rows; and the event of each analyst that changed a sum last.

    Args:
        con: inside of a transaction.
        head: the newest event, already checked.
    """
    tally, newest = Tally(head.time), dict[str, int]()
    for lots, sign in ((schema.reserved_lots, 1), (schema.cancelled_lots, -1)):
        ever = list(lots(con, ""))
        tally.fill(ever, lots(con, tally.month), sign)
        for lot in ever:
            newest[lot.analyst] = max(newest.get(lot.analyst, 0), lot.newest)
    return tally, newest


def check_sums(
    con: sqlite3.Connection, path: Path, tally: Tally, newest: dict[str, int], head: Event
) -> None:
    """Check that the rows still add up to what the newest events say.

    The witness vouches for the newest event of all. An older row that was changed, added or lost
    moves a sum, and is found here without hashing a million events.

    Raises:
        LedgerError: they do not.
    """
    found = [(head.sums, tally.sums(head.analyst), slice(0, 1))]
    for analyst, number in newest.items():
        event = schema.event(con, number)
        # The sum in a month that is over is not known any more.
        parts = slice(1, 3 if month_of(event.time) == tally.month else 2)
        found.append((event.sums, tally.sums(analyst), parts))
    if any(says.split()[part] != is_now.split()[part] for says, is_now, part in found):
        raise LedgerError(
            f"The ledger {path} does not add up to what its newest events say: an older one was "
            "changed or lost. `dp-sql ledger verify` tells which; restore the newest copy."
        )


def follow(tally: Tally, event: Event, reservation: Event | None) -> None:
    """Bring sums up to date with one event more.

    Args:
        tally: the sums before it.
        event: already checked.
        reservation: what it settles; None where it settles nothing.

    Raises:
        LedgerError: the event says that something else counts after it.
    """
    _count(tally, event.kind, event.time, lot_of(event.analyst, event.amount), reservation)
    if tally.sums(event.analyst) != event.sums:
        raise LedgerError(
            f"Event {event.number} of the ledger does not say what its events add up to."
        )


def taken_back(con: sqlite3.Connection, kind: Kind, ticket: str) -> Event | None:
    """The reservation that an event takes back, if it does."""
    return schema.reserved(con, ticket) if kind == "cancelled" else None


def append(
    con: sqlite3.Connection,
    tally: Tally,
    head: Event,
    kind: Kind,
    *,
    time: str,
    ticket: str,
    analyst: str,
    amount: Amount | None = None,
) -> Event:
    """Write the next event, and read it as it will be read ever after.

    `con` is inside of a transaction, which any error must undo. `tally` has the sums up to `head`,
    the newest event; they go on to the new one.

    Raises:
        LedgerError: what stands in the file is not what was meant.
    """
    _count(tally, kind, time, lot_of(analyst, amount), taken_back(con, kind, ticket))
    event = new_event(
        head, head.hash, kind,
        time=time, ticket=ticket, analyst=analyst, amount=amount, sums=tally.sums(analyst),
    )  # fmt: skip
    schema.add(con, event)
    written = [next_event(head, head.hash, row) for row in schema.rows_after(con, head.number)]
    if written != [event]:
        raise LedgerError("The ledger did not take an event as it was meant; nothing counts.")
    return event


def _count(tally: Tally, kind: Kind, time: str, lot: Lot | None, reservation: Event | None) -> None:
    tally.reach(time)
    if kind == "reserved" and lot is not None:
        tally.add(lot)
    if kind == "cancelled" and reservation is not None:
        lot = lot_of(reservation.analyst, reservation.amount)
        if lot is not None:
            tally.take_off(lot, reservation.time)

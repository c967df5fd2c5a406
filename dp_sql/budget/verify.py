"""Whether a whole ledger is what its chain says. Reads every event; writes a witness at most."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dp_sql.budget import schema
from dp_sql.budget import store as book
from dp_sql.budget.checkpoint import ADOPT, Mark, Witness
from dp_sql.budget.events import Event, first_link, next_event
from dp_sql.budget.integrity import follow
from dp_sql.budget.totals import Tally
from dp_sql.errors import LedgerError


def verify(path: Path, witness: Path) -> int:
    """Check every event of a ledger, the chain, and the witness's mark in it.

    Returns:
        The number of events.

    Raises:
        LedgerError: names the first event that is wrong, or what else is.
    """
    mark = Witness(witness).read()
    if mark is None:
        raise LedgerError(f"The witness {witness} is missing or cut off. {ADOPT}")
    return _walk(book.real(path), mark).number


def adopt(path: Path, witness: Path) -> int:
    """Write a new witness for a ledger whose own is lost, once every event is checked.

    The owner's word that this ledger is the newest copy; nobody can check that any more.

    Returns:
        The number of events.

    Raises:
        LedgerError: the ledger is damaged, or there is a witness that says otherwise.
    """
    if Witness(witness).read() is not None:
        return verify(path, witness)
    mark = _walk(book.real(path), None)
    Witness(witness).advance(mark)
    return mark.number


@dataclass
class Tickets:
    """Which tickets were given out, and the reservations that are not settled."""

    _given: set[str] = field(default_factory=set)
    _open: dict[str, Event] = field(default_factory=dict)

    def follow(self, event: Event) -> Event | None:
        """Take one event more; the reservation that it settles.

        Raises:
            LedgerError: a ticket is given twice, settled twice, or settled before it is reserved.
        """
        if event.kind == "opened":
            if event.ticket or event.analyst:
                raise _wrong(event, "opens the ledger in somebody's name")
        elif event.kind == "reserved":
            if not event.ticket or event.ticket in self._given:
                raise _wrong(event, "gives a ticket that was given before")
            self._given.add(event.ticket)
            self._open[event.ticket] = event
        elif event.ticket not in self._given:
            raise _wrong(event, "settles a ticket before it is reserved")
        elif event.ticket not in self._open:
            raise _wrong(event, "settles a ticket for the second time")
        elif self._open[event.ticket].analyst != event.analyst:
            raise _wrong(event, "settles the ticket of another analyst")
        else:
            return self._open.pop(event.ticket)
        return None


def _walk(path: Path, mark: Mark | None) -> Mark:
    """Check all events; the mark of the newest."""
    opened = book.Book(path, read_only=True)
    try:
        with opened.transaction("DEFERRED") as con:
            ledger_id, dataset = schema.name_of(con)
            if mark is not None and mark.ledger_id != ledger_id:
                raise LedgerError(f"The witness belongs to another ledger than {path}.")
            link, last, tickets, tally = first_link(ledger_id, dataset), None, Tickets(), None
            for row in _rows(con):
                last = next_event(last, link, row)
                tally = tally or Tally(last.time)
                follow(tally, last, tickets.follow(last))
                link = last.hash
                if mark is not None and mark.number == last.number and mark.hash != link:
                    raise _wrong(last, "is not the one that the witness saw")
            (whole,) = con.execute("PRAGMA integrity_check(1)").fetchone()
    finally:
        opened.close()
    if last is None or whole != "ok":
        raise LedgerError(f"The ledger {path} is damaged beside its events. Restore it.")
    if mark is not None and mark.number > last.number:
        raise LedgerError(
            f"The ledger {path} is older than its witness: event {last.number + 1} is missing, and "
            f"event {mark.number} was seen."
        )
    return Mark(ledger_id, last.number, last.hash)


def _rows(con: sqlite3.Connection) -> Iterator[Sequence[object]]:
    n = 0
    try:
        for row in schema.rows_after(con, 0):
            yield row
            n += 1
    except sqlite3.Error as error:
        raise LedgerError(f"Event {n + 1} of the ledger cannot be read.") from error


def _wrong(event: Event, why: str) -> LedgerError:
    return LedgerError(f"Event {event.number} of the ledger {why}.")

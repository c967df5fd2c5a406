"""Whether a ledger is the newest copy, its past unchanged. Knows the chain, adds nothing up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dp_sql.budget import schema
from dp_sql.budget.events import Event, next_event
from dp_sql.budget.witness import Mark
from dp_sql.errors import LedgerError

ADOPT = (
    "Restore it; or, where you are sure that this ledger is the newest, run "
    "`dp-sql ledger witness LEDGER`."
)


def check_mark(con: sqlite3.Connection, path: Path, ledger_id: str, mark: Mark | None) -> None:
    """Check that the ledger holds what its witness saw.

    Args:
        con: inside of a transaction that began before `mark` was read, and had read nothing yet.
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

"""What stands in the SQLite file of a ledger, and the SQL for it. Opens no file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from dp_sql.budget.events import Event, event_of, first_link, new_event
from dp_sql.budget.tally import Lot
from dp_sql.errors import LedgerError

VERSION = 1
PAGE = 4096
_APPLICATION = int.from_bytes(b"dpsq", "big")
_COLUMNS = "number, time, kind, ticket, analyst, epsilon, delta, rho, bounded_range, hash"
# In halves, since the sum of int64 numbers may not be one.
_SUMS = """SELECT r.analyst, count(*), count(r.rho), r.bounded_range,
    sum(r.epsilon >> 32), sum(r.delta >> 32), coalesce(sum(r.rho >> 32), 0),
    sum(r.epsilon & 4294967295), sum(r.delta & 4294967295), coalesce(sum(r.rho & 4294967295), 0)
FROM {} WHERE {} AND r.kind = 'reserved' AND r.time >= ? GROUP BY r.analyst, r.bounded_range"""
# The index of tickets would lead through the whole table in the order of tickets.
_RESERVED = _SUMS.format("events AS r NOT INDEXED", "true")
_CANCELLED = _SUMS.format("events AS c JOIN events AS r USING (ticket)", "c.kind = 'cancelled'")
_SCHEMA = (
    """CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL,
    dataset TEXT NOT NULL
)""",
    """CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL CHECK (typeof(time) = 'text'),
    kind TEXT NOT NULL CHECK (kind IN ('opened', 'reserved', 'answered', 'failed', 'cancelled')),
    ticket TEXT NOT NULL CHECK (typeof(ticket) = 'text'),
    analyst TEXT NOT NULL CHECK (typeof(analyst) = 'text'),
    epsilon INTEGER CHECK (typeof(epsilon) IN ('integer', 'null') AND epsilon >= 0),
    delta INTEGER CHECK (typeof(delta) IN ('integer', 'null') AND delta >= 0),
    rho INTEGER CHECK (typeof(rho) IN ('integer', 'null') AND rho >= 0),
    bounded_range INTEGER CHECK (typeof(bounded_range) IN ('integer', 'null')
                                 AND bounded_range >= 0),
    hash TEXT NOT NULL CHECK (typeof(hash) = 'text'),
    CHECK ((kind = 'reserved') = (epsilon IS NOT NULL AND delta IS NOT NULL)),
    CHECK (kind = 'reserved' OR (rho IS NULL AND bounded_range IS NULL))
)""",
    "CREATE UNIQUE INDEX reserved_once ON events (ticket) WHERE kind = 'reserved'",
    """CREATE UNIQUE INDEX settled_once ON events (ticket)
    WHERE kind IN ('answered', 'failed', 'cancelled')""",
    "CREATE INDEX cancelled ON events (ticket) WHERE kind = 'cancelled'",
    """CREATE TRIGGER events_follow BEFORE INSERT ON events
    WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM events)
    BEGIN SELECT RAISE(ABORT, 'events are only added at the end'); END""",
    """CREATE TRIGGER events_stay BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events never change'); END""",
    """CREATE TRIGGER events_remain BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END""",
    """CREATE TRIGGER ledger_stays BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'a ledger keeps its name'); END""",
    """CREATE TRIGGER ledger_remains BEFORE DELETE ON ledger
    BEGIN SELECT RAISE(ABORT, 'a ledger keeps its name'); END""",
)


def write(con: sqlite3.Connection, ledger_id: str, dataset: str, time: str) -> None:
    """Fill an empty file: the tables, and the first event."""
    con.execute(f"PRAGMA page_size = {PAGE}")
    con.execute(f"PRAGMA application_id = {_APPLICATION}")
    con.execute(f"PRAGMA user_version = {VERSION}")
    con.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        con.execute(statement)
    con.execute("INSERT INTO ledger VALUES (1, ?, ?)", (ledger_id, dataset))
    add(con, new_event(None, first_link(ledger_id, dataset), "opened", time=time))
    con.execute("COMMIT")
    con.execute("PRAGMA journal_mode = WAL")


def is_of_ledger(con: sqlite3.Connection) -> bool:
    """Whether the file says that it is a ledger, and has just the tables and rules of one."""
    (application,) = con.execute("PRAGMA application_id").fetchone()
    statements = con.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return application == _APPLICATION and sorted(statements) == sorted((s,) for s in _SCHEMA)


def name_of(con: sqlite3.Connection) -> tuple[str, str]:
    """The ledger's id, and its dataset."""
    found = con.execute("SELECT id, dataset FROM ledger").fetchone()
    if found is None or not all(isinstance(text, str) for text in found):
        raise LedgerError("The ledger has lost its name: the file is damaged.")
    return found[0], found[1]


def add(con: sqlite3.Connection, event: Event) -> None:
    """Write one event, inside of a transaction."""
    a = event.amount
    numbers = (None,) * 4 if a is None else (a.epsilon, a.delta, a.rho, a.bounded_range)
    con.execute(
        f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            event.number, event.time, event.kind, event.ticket, event.analyst,
            *numbers, event.hash,
        ),
    )  # fmt: skip


def rows_after(con: sqlite3.Connection, number: int) -> Iterator[Sequence[object]]:
    """The rows after event `number`, oldest first, as event_of takes them."""
    return _rows(con, "number > ? ORDER BY number", number)


def some_after(
    con: sqlite3.Connection, number: int, analyst: str | None, limit: int
) -> list[Event]:
    """At most `limit` events after event `number`: of all, or of one analyst."""
    where = "number > ? AND (? IS NULL OR (analyst = ? AND kind <> 'opened'))"
    found = _rows(con, f"{where} ORDER BY number LIMIT ?", number, analyst, analyst, limit)
    return [event_of(row) for row in found]


def last_number(con: sqlite3.Connection) -> int:
    """The number of the newest event; 0 where there is none."""
    return int(con.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])


def event(con: sqlite3.Connection, number: int) -> Event:
    """One event, which must be there."""
    row = next(_rows(con, "number = ?", number), None)
    if row is None:
        raise LedgerError(f"Event {number} of the ledger is missing: the file is damaged.")
    return event_of(row)


def reserved(con: sqlite3.Connection, ticket: str) -> Event:
    """The reservation that a ticket stands for.

    Raises:
        LedgerError: there is none.
    """
    row = next(_rows(con, "ticket = ? AND kind = 'reserved'", ticket), None)
    if row is None:
        raise LedgerError("No loss was ever reserved under this ticket.")
    return event_of(row)


def is_settled(con: sqlite3.Connection, ticket: str) -> bool:
    """Whether a ticket is answered, failed or cancelled."""
    where = "ticket = ? AND kind IN ('answered', 'failed', 'cancelled')"
    return next(_rows(con, where, ticket), None) is not None


def analysts(con: sqlite3.Connection) -> set[str]:
    """Everybody who ever reserved something."""
    names = "SELECT DISTINCT analyst FROM events NOT INDEXED WHERE kind = 'reserved'"
    return {name for (name,) in con.execute(names)}


def reserved_lots(con: sqlite3.Connection, since: str) -> Iterator[Lot]:
    """What all reservations from a time on add up to, with those that were cancelled."""
    return (_lot(row) for row in con.execute(_RESERVED, (since,)))


def cancelled_lots(con: sqlite3.Connection, since: str) -> Iterator[Lot]:
    """What the cancelled ones among the reservations from a time on add up to."""
    return (_lot(row) for row in con.execute(_CANCELLED, (since,)))


def _lot(row: Sequence[Any]) -> Lot:
    analyst, n, with_rho, bounded_range, *halves = row
    if any(type(half) is not int or half < 0 for half in halves):
        raise LedgerError("An amount in the ledger is no whole number: the file is damaged.")
    epsilon, delta, rho = ((halves[i] << 32) + halves[i + 3] for i in range(3))
    return Lot(analyst, n, epsilon, delta, rho, with_rho, bounded_range)


def _rows(con: sqlite3.Connection, where: str, *values: object) -> Iterator[Any]:
    return iter(con.execute(f"SELECT {_COLUMNS} FROM events WHERE {where}", values))

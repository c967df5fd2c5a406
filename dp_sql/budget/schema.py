"""The tables of a ledger's SQLite file, the SQL for them, and plain errors. Opens no file."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dp_sql.budget.amounts import Spent
from dp_sql.budget.events import Event, check_text, event_of, new_event, origin
from dp_sql.budget.totals import Subtotal, Totals
from dp_sql.errors import LedgerError

VERSION = 1
PAGE = 4096
_UNKNOWN_TICKET = "No loss was ever reserved under this ticket."
_APPLICATION = int.from_bytes(b"dpsq", "big")
_COLUMNS = "number, time, kind, ticket, analyst, epsilon, delta, rho, bounded_range, sums, hash"
# In halves, since the sum of int64 numbers may not be one.
_SUMS = """SELECT r.analyst, max({0}.number), count(*),
    sum(r.rho IS NOT NULL OR r.epsilon = 0), r.bounded_range,
    sum(r.epsilon >> 32), sum(r.delta >> 32), coalesce(sum(r.rho >> 32), 0),
    sum((r.delta >> 32) * (r.rho IS NULL AND r.epsilon = 0)),
    sum(r.epsilon & 4294967295), sum(r.delta & 4294967295), coalesce(sum(r.rho & 4294967295), 0),
    sum((r.delta & 4294967295) * (r.rho IS NULL AND r.epsilon = 0))
FROM {1} WHERE {2} AND r.time >= ? GROUP BY r.analyst, r.bounded_range"""
# In the order of this index nothing has to be sorted, which makes this three times as fast.
RESERVED_SUMS = _SUMS.format("r", "events AS r INDEXED BY amounts", "r.epsilon IS NOT NULL")
CANCELLED_SUMS = _SUMS.format("c", "events AS c JOIN events AS r USING (ticket)",
                         "c.kind = 'cancelled' AND r.kind = 'reserved'")  # fmt: skip
# What another program's ANALYZE leaves behind.
_STATISTICS = {"CREATE TABLE sqlite_stat1(tbl,idx,stat)",
               "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"}  # fmt: skip
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
    sums TEXT NOT NULL CHECK (typeof(sums) = 'text'),
    hash TEXT NOT NULL CHECK (typeof(hash) = 'text'),
    CHECK ((kind = 'reserved') = (epsilon IS NOT NULL AND delta IS NOT NULL)),
    CHECK (kind = 'reserved' OR (rho IS NULL AND bounded_range IS NULL))
)""",
    "CREATE UNIQUE INDEX reserved_once ON events (ticket) WHERE kind = 'reserved'",
    """CREATE UNIQUE INDEX settled_once ON events (ticket)
    WHERE kind IN ('answered', 'failed', 'cancelled')""",
    "CREATE INDEX cancelled ON events (ticket) WHERE kind = 'cancelled'",
    """CREATE INDEX amounts ON events (analyst, bounded_range, time, epsilon, delta, rho)
    WHERE epsilon IS NOT NULL""",
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
    check_text(dataset)
    opened = new_event(origin(ledger_id, dataset), "opened", time=time, sums=Totals(time).sums(""))
    marks = f"page_size = {PAGE}", f"application_id = {_APPLICATION}", f"user_version = {VERSION}"
    for statement in (*(f"PRAGMA {mark}" for mark in marks), "BEGIN IMMEDIATE", *_SCHEMA):
        con.execute(statement)
    con.execute("INSERT INTO ledger VALUES (1, ?, ?)", (ledger_id, dataset))
    add(con, opened)
    con.execute("COMMIT")
    con.execute("PRAGMA journal_mode = WAL")


def is_ledger(con: sqlite3.Connection) -> bool:
    """Whether the file is marked as a ledger and has exactly a ledger's tables and rules."""
    (application,) = con.execute("PRAGMA application_id").fetchone()
    found = con.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    statements = sorted(str(sql) for (sql,) in found if sql not in _STATISTICS)
    return application == _APPLICATION and statements == sorted(_SCHEMA)


def id_and_dataset(con: sqlite3.Connection) -> tuple[str, str]:
    """The ledger's id, and its dataset."""
    found = con.execute("SELECT id, dataset FROM ledger").fetchone()
    if found is None or not all(isinstance(text, str) for text in found):
        raise LedgerError("The ledger has lost its name: the file is damaged.")
    return found[0], found[1]


def add(con: sqlite3.Connection, event: Event) -> None:
    """Write one event, inside a transaction."""
    head = (event.number, event.time, event.kind, event.ticket, event.analyst)
    row = (*head, *(event.amount or (None,) * 4), event.sums, event.hash)
    con.execute(f"INSERT INTO events ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)


def rows_after(con: sqlite3.Connection, number: int) -> Iterator[Sequence[Any]]:
    """The rows after event `number`, oldest first, as event_of takes them."""
    return _rows(con, "number > ? ORDER BY number", number)


def some_after(
    con: sqlite3.Connection, number: int, names: Sequence[str] | None, limit: int
) -> list[Event]:
    """At most `limit` events after event `number`: all, or those of an analyst's names."""
    where = "number > ?"
    if names is not None:
        where += f" AND analyst IN ({', '.join('?' * len(names))}) AND kind <> 'opened'"
    found = _rows(con, f"{where} ORDER BY number LIMIT ?", number, *(names or ()), limit)
    return [event_of(row) for row in found]


def last_number(con: sqlite3.Connection) -> int:
    """The number of the newest event; 0 if there is none."""
    return int(con.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])


def event(con: sqlite3.Connection, number: int) -> Event:
    """One event, which must exist."""
    if (found := find_event(con, number)) is None:
        raise LedgerError(f"Event {number} of the ledger is missing: the file is damaged.")
    return found


def find_event(con: sqlite3.Connection, number: int) -> Event | None:
    """The event with a number, if there is one."""
    return next(map(event_of, _rows(con, "number = ?", number)), None)


def reservation_of(con: sqlite3.Connection, ticket: str) -> Event:
    """The reservation of a ticket, which must exist."""
    for row in _rows(con, "ticket = ? AND kind = 'reserved'", ticket):
        return event_of(row)
    raise LedgerError(_UNKNOWN_TICKET)


def open_reservation(con: sqlite3.Connection, ticket: str) -> Event:
    """The reservation of a ticket that must be neither answered, failed nor cancelled."""
    settled = "ticket = ? AND kind IN ('answered', 'failed', 'cancelled')"
    both = (
        f"ticket = ? AND kind = 'reserved' UNION ALL SELECT {_COLUMNS} FROM events WHERE {settled}"
    )
    found = [*map(event_of, _rows(con, both, ticket, ticket))]
    if not found or found[0].kind != "reserved":
        raise LedgerError(_UNKNOWN_TICKET)
    if len(found) > 1:
        raise LedgerError("This ticket is settled or cancelled already.")
    return found[0]


def subtotals(con: sqlite3.Connection, sql: str, since: str) -> Iterator[Subtotal]:
    """The sums of reservations from a time on: of all (RESERVED), or of the CANCELLED ones."""
    for analyst, newest, n, with_rho, bounded_range, *halves in con.execute(sql, (since,)):
        if any(type(half) is not int or half < 0 for half in halves):
            raise LedgerError("An amount in the ledger is not a whole number: the file is damaged.")
        epsilon, delta, rho, slack = ((halves[i] << 32) + halves[i + 4] for i in range(4))
        with_range, widest = (0, 0) if bounded_range is None else (n, bounded_range)
        spent = Spent(n, epsilon, delta, rho, with_rho, with_range, widest, slack)
        yield Subtotal(analyst, spent, newest)


def _rows(con: sqlite3.Connection, where: str, *values: object) -> Iterator[Any]:
    return iter(con.execute(f"SELECT {_COLUMNS} FROM events WHERE {where}", values))


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into a sentence about a ledger."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise LedgerError(f"The ledger {path} {_SENTENCES.get(code, _UNKNOWN)}") from error
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise LedgerError(f"The ledger {path} cannot be read or written: {why}.") from error
    except UnicodeError as error:
        raise LedgerError(f"A name in the ledger {path} is not valid UTF-8.") from error


DAMAGED = "is damaged, or is not a ledger. Restore it; `dp-sql ledger verify` checks all of it."
_UNKNOWN = "cannot be read or written. Queries are refused until it can."
_SENTENCES = {
    sqlite3.SQLITE_BUSY: "was locked by another process for too long. Try again.",
    sqlite3.SQLITE_LOCKED: "is in use in this process. Try again.",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its disk is read-only.",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full.",
    sqlite3.SQLITE_IOERR: "cannot be read or written: is its disk full? Queries are refused.",
    sqlite3.SQLITE_CONSTRAINT: "refuses an event that does not follow from those before.",
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), DAMAGED),
    **dict.fromkeys((sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH),
                    "cannot be opened. Does its folder exist, and may you write there?"),
}  # fmt: skip

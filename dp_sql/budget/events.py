"""What an event of a ledger is, and the chain that ties it to all events before. Knows no file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from dp_sql.budget.amounts import Amount
from dp_sql.errors import LedgerError

Kind = Literal["opened", "reserved", "answered", "failed", "cancelled"]
_KINDS = get_args(Kind)
_LARGEST = 2**63 - 1
_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
_SUMS = re.compile(r"[0-9a-f]{32} [0-9a-f]{32} [0-9a-f]{32}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True)
class Event:
    """One line of a ledger; it never changes.

    number: 1, 2, 3, …, without gaps. time: UTC, such as 2026-11-21T19:30:05Z, never earlier than
        the event before.
    kind: "opened", the first event of a ledger; "reserved", a loss that counts from now on; then
        at most one of "answered", "failed" (the loss counts all the same) and "cancelled" (the
        loss no longer counts).
    ticket, analyst: empty for "opened". amount: of "reserved" alone.
    sums: what counts after this event, as Tally.sums writes it.
    hash: of this event and the hash before it.
    """

    number: int
    time: str
    kind: Kind
    ticket: str
    analyst: str
    amount: Amount | None
    sums: str
    hash: str


def first_link(ledger_id: str, dataset: str) -> str:
    """What stands in the place of a hash before the first event: it ties the chain to its file."""
    return _digest(["dp_sql ledger 1", ledger_id, dataset])


def hash_of(
    previous: str,
    number: int,
    time: str,
    kind: Kind,
    ticket: str,
    analyst: str,
    amount: Amount | None,
    sums: str,
) -> str:
    """The hash of an event, in hexadecimal digits; `previous` is the hash before it."""
    a = amount
    numbers = [a.epsilon, a.delta, a.rho, a.bounded_range] if a is not None else None
    return _digest([previous, number, time, kind, ticket, analyst, numbers, sums])


def new_event(
    previous: Event | None,
    link: str,
    kind: Kind,
    *,
    time: str,
    ticket: str = "",
    analyst: str = "",
    amount: Amount | None = None,
    sums: str,
) -> Event:
    """The event that comes next; `link` is the hash before it.

    Raises:
        LedgerError: a name or a ticket is no text that a file gives back as it was.
    """
    check_text(ticket)
    check_text(analyst)
    number = 1 if previous is None else previous.number + 1
    digest = hash_of(link, number, time, kind, ticket, analyst, amount, sums)
    return Event(number, time, kind, ticket, analyst, amount, sums, digest)


def event_of(row: Sequence[object]) -> Event:
    """The event in a row: number, time, kind, ticket, analyst, four of an amount, sums, hash.

    Raises:
        LedgerError: the row is no event, whatever its hash says.
    """
    number, time, kind, ticket, analyst, epsilon, delta, rho, bounded_range, sums, digest = row
    if not _whole(number):
        raise LedgerError("An event of the ledger has no number: the file is damaged.")
    texts = (time, kind, ticket, analyst, sums, digest)
    if not all(isinstance(text, str) for text in texts) or not _TIME.fullmatch(str(time)):
        raise _wrong(number, "is not written as an event is")
    if kind not in _KINDS:
        raise _wrong(number, "is of no known kind")
    if not _SUMS.fullmatch(str(sums)):
        raise _wrong(number, "does not say what counts after it")
    amount = None
    if kind == "reserved":
        if not (_whole(epsilon) and _whole(delta) and _whole_or_none(rho, bounded_range)):
            raise _wrong(number, "has an amount that is no whole number")
        amount = Amount(*cast("tuple[int, int]", (epsilon, delta, rho, bounded_range)))
    elif (epsilon, delta, rho, bounded_range) != (None, None, None, None):
        raise _wrong(number, "has an amount, and only a reservation may have one")
    return Event(
        cast(int, number),
        str(time),
        cast(Kind, kind),
        str(ticket),
        str(analyst),
        amount,
        str(sums),
        str(digest),
    )


def next_event(previous: Event | None, link: str, row: Sequence[object]) -> Event:
    """The event in a row, where it follows the one before.

    Args:
        previous: the event before; None for the first.
        link: the hash before: of `previous`, or the first link.
        row: as event_of takes it.

    Raises:
        LedgerError: its number, time or hash does not follow; names the event.
    """
    event = event_of(row)
    wanted = 1 if previous is None else previous.number + 1
    if event.number != wanted:
        raise LedgerError(
            f"Event {wanted} of the ledger is missing (event {event.number} comes in its place)."
        )
    if (event.kind == "opened") != (previous is None):
        raise _wrong(event.number, "is out of place: a ledger is opened once, and first")
    if previous is not None and event.time < previous.time:
        raise _wrong(event.number, "has an earlier time than the event before")
    e = event
    if e.hash != hash_of(link, e.number, e.time, e.kind, e.ticket, e.analyst, e.amount, e.sums):
        raise _wrong(
            event.number, "does not carry the hash of what it says and of what came before"
        )
    return event


def check_amount(amount: Amount) -> None:
    """Refuse what a ledger cannot write or add up.

    Raises:
        LedgerError: a number is no whole number, or is negative or too large.
    """
    a = amount
    if not (_whole(a.epsilon) and _whole(a.delta) and _whole_or_none(a.rho, a.bounded_range)):
        raise LedgerError("A loss in a ledger is made of whole numbers from 0 to 2^63 - 1.")


def check_text(text: object) -> None:
    """Refuse a name that SQLite would not give back as it was hashed.

    Raises:
        LedgerError: it is no plain str, holds a NUL, or cannot be written in UTF-8.
    """
    # A subclass of str may say one thing to SQLite and another to the hash.
    if type(text) is not str:
        raise LedgerError(
            f"A name in a ledger is a plain str, and this is a {type(text).__name__}."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LedgerError("A name in a ledger must be text that UTF-8 can write.") from None
    if "\0" in text:
        raise LedgerError("A name in a ledger must not hold the character NUL.")


def _wrong(number: object, why: str) -> LedgerError:
    return LedgerError(f"Event {number} of the ledger {why}.")


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _whole_or_none(*values: object) -> bool:
    return all(value is None or _whole(value) for value in values)


def _digest(parts: list[object]) -> str:
    # JSON keeps texts, numbers and their borders apart, so that no two events are written alike.
    return hashlib.sha256(_JSON.encode(parts).encode("ascii")).hexdigest()

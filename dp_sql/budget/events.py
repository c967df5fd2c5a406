"""The events of a ledger, and the chain of their hashes. Knows no file, and adds nothing up."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from dp_sql.budget.amounts import LARGEST, Amount
from dp_sql.errors import LedgerError

EventKind = Literal["opened", "reserved", "answered", "failed", "cancelled"]
_KINDS = frozenset(get_args(EventKind))
_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
_SUMS = re.compile(r"[0-9a-f]{32} [0-9a-f]{32} [0-9a-f]{32}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True)
class Event:
    """One line of a ledger; it never changes.

    kind: "opened", the first event; "reserved", a loss that counts from now on; then at most one of
        "answered", "failed" (the loss still counts) and "cancelled" (it no longer counts).
    """

    number: int  # 1, 2, 3, …, without gaps
    time: str  # UTC, such as 2026-11-21T19:30:05Z; never earlier than the event before
    kind: EventKind
    ticket: str  # this and the analyst are empty for "opened"
    analyst: str
    amount: Amount | None  # of "reserved" only
    sums: str  # what counts after this event, as Totals.sums writes it
    hash: str  # of this event and of the hash before it

    def hash_after(self, previous: str) -> str:
        """What the hash must be, in hexadecimal digits, after the hash of the event before."""
        head = (previous, self.number, self.time, self.kind, self.ticket, self.analyst)
        return _digest([*head, self.amount, self.sums])


def origin(ledger_id: str, dataset: str) -> Event:
    """What precedes the first event: number 0, with a hash that ties the chain to its file."""
    tie = _digest(["dp_sql ledger 1", ledger_id, dataset])
    return Event(0, "", "opened", "", "", None, "", tie)


def new_event(
    previous: Event, kind: EventKind, *, time: str, sums: str, ticket: str = "", analyst: str = "",
    amount: Amount | None = None,
) -> Event:  # fmt: skip
    """The event that follows `previous`; refuses names that check_text does."""
    check_text(ticket)
    check_text(analyst)
    event = Event(previous.number + 1, time, kind, ticket, analyst, amount, sums, "")
    return replace(event, hash=event.hash_after(previous.hash))


def event_of(row: Sequence[Any]) -> Event:
    """The event in a row: number, time, kind, ticket, analyst, four of an amount, sums, hash."""
    number, time, kind, ticket, analyst, *numbers, sums, digest = row
    if not _is_whole(number):
        raise LedgerError("An event of the ledger has no number: the file is damaged.")
    types = {*map(type, (time, kind, ticket, analyst, sums, digest))}
    if types != {str} or not _TIME.fullmatch(time):
        raise wrong_event(number, "does not have the form of an event")
    if kind not in _KINDS:
        raise wrong_event(number, "is of an unknown kind")
    if not _SUMS.fullmatch(sums):
        raise wrong_event(number, "does not say what counts after it")
    amount = Amount(*numbers) if kind == "reserved" else None
    if amount is not None and not _is_valid(amount):
        raise wrong_event(number, "has an amount that is not a whole number")
    if amount is None and any(n is not None for n in numbers):
        raise wrong_event(number, "has an amount, and only a reservation may have one")
    return Event(number, time, kind, ticket, analyst, amount, sums, digest)


def next_event(previous: Event, row: Sequence[Any]) -> Event:
    """The event in a row, if its number, time and hash follow from the one before."""
    event = event_of(row)
    if event.number != previous.number + 1:
        why = f"is missing; event {event.number} is in its place"
        raise wrong_event(previous.number + 1, why)
    if (event.kind == "opened") != (event.number == 1):
        raise wrong_event(event.number, "is out of place: only the first event opens a ledger")
    if event.time < previous.time:
        raise wrong_event(event.number, "has an earlier time than the event before")
    if event.hash != event.hash_after(previous.hash):
        raise wrong_event(event.number, "does not match its hash and the chain before it")
    return event


def check_amount(amount: Amount) -> None:
    """Refuse what a ledger cannot write or add up."""
    if not _is_valid(amount):
        raise LedgerError("A loss in a ledger must consist of whole numbers from 0 to 2^63 - 1.")


def check_text(text: object) -> None:
    """Refuse a name that SQLite would not give back as it was hashed."""
    # A subclass of str may say one thing to SQLite and another to the hash.
    if type(text) is not str:
        raise LedgerError(f"A name in a ledger must be a plain str, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LedgerError("A name in a ledger must be valid UTF-8.") from None
    if "\0" in text:
        raise LedgerError("A name in a ledger must not contain the character NUL.")


def wrong_event(number: int, why: str) -> LedgerError:
    """The error for a wrong event."""
    return LedgerError(f"Event {number} of the ledger {why}.")


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _is_valid(a: Amount) -> bool:
    optional = (n for n in (a.rho, a.bounded_range) if n is not None)
    return all(map(_is_whole, (a.epsilon, a.delta, *optional)))


def _digest(parts: list[object]) -> str:
    # JSON keeps strings, numbers and their borders apart, so no two events are written alike.
    return hashlib.sha256(_JSON.encode(parts).encode("ascii")).hexdigest()

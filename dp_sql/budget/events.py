"""The events of a ledger, the chain of their hashes, and what they add up to. Knows no file."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal, NamedTuple, get_args

from dp_sql.budget.amounts import LARGEST, Amount, Spent
from dp_sql.budget.model import normal_name
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


class Subtotal(NamedTuple):
    """The sum of some reservations of an analyst with one bounded range, and their newest event."""

    analyst: str
    spent: Spent
    newest: int = 0


def month_of(time: str) -> str:
    """The calendar month of an event's time."""
    return time[: len("2026-11")]


@dataclass
class _Sum:
    """The sum for one analyst, or for all; can be reduced again."""

    spent: Spent = field(default_factory=Spent)
    width: int = 0  # all ranges together, so that none can change unseen beside a wider one
    ranges: Counter[int] = field(default_factory=Counter)  # since the widest may be cancelled

    def change(self, part: Spent, sign: int) -> None:
        self.spent = self.spent.merged(part, sign)
        if part.with_range:
            n, width = sign * part.n, part.widest
            self.width += n * width
            self.ranges[width] += n
            if not self.ranges[width]:
                del self.ranges[width]
                self.spent = self.spent._replace(widest=max(self.ranges, default=0))

    def __str__(self) -> str:
        *spent, slack = self.spent  # which older ledgers have none of, and do not write
        return " ".join(map(str, (*spent, self.width, *([slack] if slack else []))))


_NOTHING = _Sum()
# The sum of each analyst, by the name as it is written; None: of all together.
_Sums = Mapping[str | None, _Sum]


class Totals:
    """The sums of all reservations, and of those in the month of the newest event, at `time`."""

    def __init__(self, time: str) -> None:
        self.month = month_of(time)
        self._ever: _Sums = defaultdict(_Sum)
        self._in_month: _Sums = defaultdict(_Sum)
        self._spellings: dict[str, set[str]] = {}

    def fill(self, ever: Iterable[Subtotal], in_month: Iterable[Subtotal], sign: int = 1) -> None:
        """Add subtotals; with sign -1, subtract them."""
        for sums, parts in ((self._ever, ever), (self._in_month, in_month)):
            for part in parts:
                # What is not a string is refused when the event is written.
                self._spellings.setdefault(normal_name(str(part.analyst)), set()).add(part.analyst)
                for name in (None, part.analyst):
                    sums[name].change(part.spent, sign)

    def count(
        self, time: str, analyst: str, amount: Amount | None, cancelled: Event | None
    ) -> None:
        """Count the next event: what it reserves, or no longer what it cancels."""
        if month_of(time) != self.month:
            self.month, self._in_month = month_of(time), defaultdict(_Sum)
        if amount is not None:
            part = [Subtotal(analyst, Spent().plus(amount))]
            self.fill(part, part)
        if cancelled is not None and cancelled.amount is not None:
            part = [Subtotal(cancelled.analyst, Spent().plus(cancelled.amount))]
            self.fill(part, part if month_of(cancelled.time) == self.month else [], -1)

    def spent(self, analyst: str | None = None, month: str | None = None) -> Spent:
        """The sum for an analyst, or all together: ever, or in a month that is not yet over."""
        # Names are normalised before they are written; an older ledger may hold other spellings.
        if month not in {None, self.month}:
            return Spent()
        sums = self._ever if month is None else self._in_month
        names = [None] if analyst is None else self._spellings.get(normal_name(str(analyst)), ())
        return reduce(Spent.merged, (sums.get(name, _NOTHING).spent for name in names), Spent())

    def analysts(self) -> list[str]:
        """The normalised name of each analyst who ever reserved something, in order."""
        return sorted(self._spellings)

    def spellings(self, analyst: str) -> list[str]:
        """The spellings of this analyst's name in the ledger."""
        return sorted({analyst, *self._spellings.get(normal_name(str(analyst)), ())})

    def sums(self, analyst: str) -> str:
        """Three short hashes of what counts: of all, of the analyst ever, and in the month."""
        ever, month = self._ever, self._in_month
        of_all = f"{ever.get(None, _NOTHING)} {month.get(None, _NOTHING)}"
        own = f"{ever.get(analyst, _NOTHING)}", f"{self.month} {month.get(analyst, _NOTHING)}"
        texts = (f"{self.month} {of_all}", *own)
        return " ".join(hashlib.sha256(text.encode("ascii")).hexdigest()[:32] for text in texts)

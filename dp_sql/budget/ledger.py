"""The budget's book: reserve a loss, settle it, add it up. Knows losses, never SQL of anybody's.

A loss counts from the moment it is reserved, and a reservation is durable in two places before
reserve returns. So whatever happens afterwards, what was answered has been counted.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from dp_sql.budget import integrity as trust
from dp_sql.budget import schema
from dp_sql.budget import store as book
from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.checkpoint import Held, Mark, Witness
from dp_sql.budget.events import Event, Kind, check_amount, check_text, first_link
from dp_sql.budget.totals import Tally, month_of
from dp_sql.errors import LedgerError

_AT_ONCE = 500  # events read in one transaction
_How = Literal["IMMEDIATE", "DEFERRED"]


class Ledger:
    """The open ledger of one dataset; for many threads, and beside other processes.

    Args:
        path, witness: the file, and the second place that tells whether it is the newest.
        dataset: the owner's name for the data; None: the one that the file holds, or, for a new
            file, its name without the ending.
        monthly: whether only the losses of the current calendar month (UTC) count.
        read_only: never write, and never make a file.
        clock: what time it is.

    Raises:
        LedgerError: the file is missing where one was, damaged, older than its witness, of
            another dataset, or cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        witness: Path,
        dataset: str | None = None,
        *,
        monthly: bool = False,
        read_only: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = book.real(path)
        self._witness = Witness(witness)
        self._monthly = monthly
        self._read_only = read_only
        self._clock = clock
        self._head: Event | None = None  # the newest event seen; all up to it is in the tally
        self._tally: Tally | None = None
        self._wanted = dataset
        self._id, self._dataset = "", ""  # until the file has told them
        self._make_if_new()
        self._book = book.Book(self._path, read_only=read_only)
        try:
            self._open()
        except BaseException:
            self._book.close()
            raise

    @property
    def path(self) -> Path:
        """The file itself: absolute, and no link."""
        return self._path

    @property
    def dataset(self) -> str:
        """The owner's name for the data whose budget this is."""
        return self._dataset

    def reserve(
        self, analyst: str, amounts: Sequence[Amount], admit: Callable[[Spent, Spent], None]
    ) -> tuple[str, ...]:
        """Count losses, durably, before anything is read for them.

        Args:
            analyst: who asks.
            amounts: one loss for each release.
            admit: admit(spent by all, spent by this analyst), both with `amounts` in them, raises
                where that is too much; then nothing is written.

        Returns:
            One ticket for each amount.

        Raises:
            LedgerError: the loss may or may not count, and nothing may be answered.
        """
        self._check_writable()
        check_text(analyst)
        for amount in amounts:
            check_amount(amount)
        if not amounts:
            return ()
        with self._witnessed() as (con, head):
            time = self._now(head)
            tally, month = self._current(con, head), self._month(time)
            sums = tally.spent(None, month), tally.spent(analyst, month)
            for amount in amounts:
                sums = sums[0].plus(amount), sums[1].plus(amount)
            admit(*sums)
            tickets = tuple(uuid.uuid4().hex for _ in amounts)
            last = head
            for ticket, amount in zip(tickets, amounts, strict=True):
                last = self._add(con, last, "reserved", time, ticket, analyst, amount)
        return tickets

    def settle(self, ticket: str, outcome: Literal["answered", "failed"]) -> None:
        """Write down what became of a reservation; its loss counts either way.

        Raises:
            LedgerError: no such ticket, or it is settled or cancelled already.
        """
        if outcome not in {"answered", "failed"}:
            raise LedgerError("A ticket is settled as answered or as failed.")
        self._close_ticket(ticket, outcome)

    def cancel(self, ticket: str) -> None:
        """Take a reservation back, for a reason that no data had a part in; its loss is free again.

        Raises:
            LedgerError: no such ticket, or it is settled or cancelled already.
        """
        self._close_ticket(ticket, "cancelled")

    def spent(self, analyst: str | None = None) -> Spent:
        """The losses of the current period: of one analyst, or of all together.

        An analyst's losses are those under every name that normalises to this one.
        """
        with self._transaction("DEFERRED") as (con, head):
            return self._current(con, head).spent(analyst, self._month(self._now(head)))

    def analysts(self) -> list[str]:
        """The normalised name of each analyst who ever reserved something, in order."""
        with self._transaction("DEFERRED") as (con, head):
            return self._current(con, head).analysts()

    def events(self, analyst: str | None = None) -> Iterator[Event]:
        """All events, or one analyst's, oldest first; read a few at a time."""
        last = 0
        while True:
            with self._transaction("DEFERRED") as (con, head):
                names = None if analyst is None else self._current(con, head).spellings(analyst)
                found = schema.some_after(con, last, names, _AT_ONCE)
            yield from found
            if len(found) < _AT_ONCE:
                return
            last = found[-1].number

    def close(self) -> None:
        """Close the file."""
        self._book.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_if_new(self) -> None:
        with schema.in_our_words(self._path):
            if Path(os.path.realpath(self._witness.path)) in {self._path, *book.beside(self._path)}:
                raise LedgerError(f"The ledger {self._path} needs a second file as its witness.")
            witnessed = self._witness.read() is not None or book.is_there(self._witness.path)
            if book.is_there(self._path):
                return  # looked for last, since others who make it make the witness after it
            if witnessed:
                raise LedgerError(
                    f"The ledger {self._path} is missing, and its witness {self._witness.path} "
                    "says that there was one. Restore it."
                )
            if self._read_only:
                raise LedgerError(f"There is no ledger {self._path} yet.")
            name = self._path.stem if self._wanted is None else self._wanted
            book.make(self._path, name, _text(self._clock()))

    def _open(self) -> None:
        missing = self._witness.read() is None
        try:
            self._look()  # nothing is written beside a ledger that is refused
        except LedgerError:
            if not missing or self._witness.read() is None:
                raise
            self._look()  # others have made the witness, and reserved, between two looks
        if not self._read_only:
            with self._witnessed(make=self._witness.read() is None):
                pass  # nobody reserves before there is a witness

    def _look(self) -> None:
        with self._transaction("DEFERRED"):
            pass

    @contextmanager
    def _witnessed(self, *, make: bool = False) -> Iterator[tuple[sqlite3.Connection, Event]]:
        """A transaction of which the witness learns before anybody else may look at its mark."""
        with self._book.alone(), self._witness.held(make=make) as held:
            with self._transaction("IMMEDIATE", held) as (con, head):
                yield con, head
            newest, mark = self._head, held.mark
            if newest is not None and (mark is None or mark.number != newest.number):
                held.advance(Mark(self._id, newest.number, newest.hash))

    @contextmanager
    def _transaction(
        self, how: _How, held: Held | None = None
    ) -> Iterator[tuple[sqlite3.Connection, Event]]:
        """A transaction on a ledger that can be trusted, and its newest event."""
        with self._book.alone():
            # The witness first: what it saw is in every later view of the ledger.
            mark = held.mark if held is not None else self._witness.read()
            head = self._head
            try:
                with self._book.transaction(how) as con:
                    if not self._id:
                        self._id, self._dataset = self._named(con)
                    head = self._catch_up(con, mark)
                    yield con, head
            except BaseException:
                if self._head is not head:  # what was added may not stand
                    self._head, self._tally = head, None
                raise

    def _named(self, con: sqlite3.Connection) -> tuple[str, str]:
        ledger_id, dataset = schema.name_of(con)
        if self._wanted not in {None, dataset}:
            raise LedgerError(
                f'The ledger {self._path} holds the budget of "{dataset}", and the policy names '
                f'"{self._wanted}".'
            )
        return ledger_id, dataset

    def _catch_up(self, con: sqlite3.Connection, mark: Mark | None) -> Event:
        """Check the witness and all new events, and bring the sums up to date."""
        trust.check_mark(con, self._path, self._id, mark)
        start = first_link(self._id, self._dataset)
        head = self._head
        try:
            for head in trust.new_events(con, start, self._head, mark):
                if self._tally is not None:
                    trust.follow(self._tally, head, trust.taken_back(con, head.kind, head.ticket))
                self._head = head
        except BaseException:
            self._tally = None  # an event may be counted by half
            raise
        if head is None:
            raise LedgerError(f"The ledger {self._path} is damaged: it has no events. Restore it.")
        return head

    def _current(self, con: sqlite3.Connection, head: Event) -> Tally:
        """The sums up to the newest event."""
        if self._tally is None:
            self._tally = self._added_up(con, head)
        return self._tally

    def _added_up(self, con: sqlite3.Connection, head: Event) -> Tally:
        tally, newest = trust.added_up(con, head)
        trust.check_sums(con, self._path, tally, newest, head)
        return tally

    def _month(self, time: str) -> str | None:
        return month_of(time) if self._monthly else None

    def _now(self, head: Event) -> str:
        # A clock that is set back must not bring back an earlier month.
        return max(_text(self._clock()), head.time)

    def _add(
        self, con: sqlite3.Connection, head: Event, kind: Kind, time: str, ticket: str,
        analyst: str, amount: Amount | None = None,
    ) -> Event:  # fmt: skip
        tally, self._tally = self._current(con, head), None  # until the event stands
        self._head = trust.append(
            con, tally, head, kind, time=time, ticket=ticket, analyst=analyst, amount=amount
        )
        self._tally = tally
        return self._head

    def _close_ticket(self, ticket: str, kind: Literal["answered", "failed", "cancelled"]) -> None:
        # The witness is left as it is: an event lost here leaves a loss counted, never free.
        self._check_writable()
        with self._transaction("IMMEDIATE") as (con, head):
            first = schema.reserved(con, ticket)
            if schema.is_settled(con, ticket):
                raise LedgerError("This ticket is settled or cancelled already.")
            self._add(con, head, kind, self._now(head), ticket, first.analyst)

    def _check_writable(self) -> None:
        if self._read_only:
            raise LedgerError(f"The ledger {self._path} was opened for reading alone.")


def _text(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"

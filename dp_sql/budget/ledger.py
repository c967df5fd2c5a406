"""The ledger of a budget: reserve a loss, settle it, add it up. Knows losses, never a query.

A loss counts from the moment it is reserved, and a reservation is durable in two places before
`reserve` returns. So whatever happens afterwards, every answer has been counted.
"""

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from dp_sql.budget import integrity, schema, store
from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.checkpoint import Checkpoint, CheckpointFile, LockedCheckpoint
from dp_sql.budget.events import Event, EventKind, check_amount, check_text, origin
from dp_sql.budget.totals import Totals, month_of
from dp_sql.errors import LedgerError


class Ledger:
    """The open ledger of one dataset; safe for many threads and processes.

    dataset: the owner's name for the data; None: the one in the file, or, for a new file, its
        name without the ending.
    monthly: whether only the losses of the current calendar month (UTC) count.
    read_only: never write, and never create a file.

    Raises LedgerError if the file is missing though it existed, damaged, older than its checkpoint,
    of another dataset, or cannot be opened.
    """

    def __init__(
        self, path: Path, checkpoint: Path, dataset: str | None = None, *, monthly: bool = False,
        read_only: bool = False, clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self.path, self._checkpoint = store.resolved(path), CheckpointFile(checkpoint)
        self._monthly, self._read_only, self._clock = monthly, read_only, clock
        self._head: Event | None = None  # the newest event seen; all up to it is in the totals
        self._totals: Totals | None = None
        self._wanted, self._id, self.dataset = dataset, "", ""  # until the file is read
        self._create_if_new()
        self._file = store.LedgerFile(self.path, read_only=read_only)
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def reserve(
        self, analyst: str, amounts: Sequence[Amount], admit: Callable[[Spent, Spent], None]
    ) -> tuple[str, ...]:
        """Count a loss for each release, durably, before anything is read for it.

        admit(spent by all, spent by this analyst), both including `amounts`, raises if that is too
        much; then nothing is written. Returns a ticket for each amount. After a LedgerError the
        losses may or may not count, and nothing may be answered.
        """
        self._check_writable()
        check_text(analyst)
        for amount in amounts:
            check_amount(amount)
        if not amounts:
            return ()
        with self._checkpointed() as (con, head):
            time = self._now(head)
            totals, month = self._current(con, head), self._month(time)
            admit(*(totals.spent(name, month).plus(*amounts) for name in (None, analyst)))
            tickets = tuple(uuid.uuid4().hex for _ in amounts)
            last = head
            for ticket, amount in zip(tickets, amounts, strict=True):
                last = self._add(con, last, "reserved", time, ticket, analyst, amount)
        return tickets

    def settle(self, outcomes: Mapping[str, Literal["answered", "failed"]]) -> None:
        """Record, all or none, what became of open reservations, by their tickets.

        Their losses count either way.
        """
        if not {*outcomes.values()} <= {"answered", "failed"}:
            raise LedgerError("A ticket is settled as answered or as failed.")
        self._close_tickets(outcomes)

    def cancel(self, ticket: str) -> None:
        """Take an open reservation back, for a reason independent of the data; its loss is free."""
        self._close_tickets({ticket: "cancelled"})

    def spent(self, analyst: str | None = None) -> Spent:
        """The losses of the current period: an analyst's, under every spelling, or all together."""
        with self._transaction("DEFERRED") as (con, head):
            return self._current(con, head).spent(analyst, self._month(self._now(head)))

    def analysts(self) -> list[str]:
        """The normalised name of each analyst who ever reserved something, in order."""
        with self._transaction("DEFERRED") as (con, head):
            return self._current(con, head).analysts()

    def events(self, analyst: str | None = None) -> Iterator[Event]:
        """All events, or one analyst's, oldest first; read a few at a time."""
        last, at_once = 0, 500
        while True:
            with self._transaction("DEFERRED") as (con, head):
                names = None if analyst is None else self._current(con, head).spellings(analyst)
                found = schema.some_after(con, last, names, at_once)
            yield from found
            if len(found) < at_once:
                return
            last = found[-1].number

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create_if_new(self) -> None:
        path, checkpoint = self.path, self._checkpoint.path
        with schema.plain_errors(path):
            if Path(os.path.realpath(checkpoint)) in {path, *store.side_files(path)}:
                raise LedgerError(f"The ledger {path} needs a checkpoint in a file of its own.")
            known = self._checkpoint.read() is not None or os.path.lexists(checkpoint)
            if os.path.lexists(path):
                return  # looked for last, since other processes create it before its checkpoint
            if known:
                raise LedgerError(
                    f"The ledger {path} is missing, though its checkpoint {checkpoint} shows that "
                    "it existed. Restore it."
                )
            if self._read_only:
                raise LedgerError(f"There is no ledger {path} yet.")
            name = path.stem if self._wanted is None else self._wanted
            store.create(path, name, _text(self._clock()))

    def _open(self) -> None:
        missing = self._checkpoint.read() is None
        try:
            self._look()  # nothing is written next to a ledger that is refused
        except LedgerError:
            if not missing or self._checkpoint.read() is None:
                raise
            self._look()  # another process wrote the checkpoint, and reserved, meanwhile
        if not self._read_only:
            with self._checkpointed(make=self._checkpoint.read() is None):
                pass  # no one reserves before there is a checkpoint

    def _look(self) -> None:
        with self._transaction("DEFERRED"):
            pass

    @contextmanager
    def _checkpointed(self, *, make: bool = False) -> Iterator[tuple[sqlite3.Connection, Event]]:
        """A transaction that is in the checkpoint before anyone else may read that."""
        with self._file.lock, self._checkpoint.locked(make=make) as locked:
            with self._transaction("IMMEDIATE", locked) as (con, before):
                yield con, before
            head, known = self._head or before, locked.newest
            if known is not None and known.number == head.number:
                return
            try:
                locked.advance(Checkpoint(self._id, head.number, head.hash))
            except LedgerError as error:
                spent = "" if head is before else " What was reserved is spent."
                raise LedgerError(f"{error}{spent}") from None

    @contextmanager
    def _transaction(
        self, how: Literal["IMMEDIATE", "DEFERRED"], locked: LockedCheckpoint | None = None
    ) -> Iterator[tuple[sqlite3.Connection, Event]]:
        """A transaction on a ledger whose integrity is checked, and its newest event."""
        with self._file.lock:
            # The checkpoint first: what it saw is in every later view of the ledger.
            checkpoint = self._checkpoint.read() if locked is None else locked.newest
            head = self._head
            try:
                with self._file.transaction(how) as con:
                    if not self._id:
                        self._id, self.dataset = self._named(con)
                    head = self._catch_up(con, checkpoint)
                    yield con, head
            except BaseException:
                if self._head is not head:  # what was added may not be committed
                    self._head, self._totals = head, None
                raise

    def _named(self, con: sqlite3.Connection) -> tuple[str, str]:
        ledger_id, dataset = schema.id_and_dataset(con)
        if self._wanted not in {None, dataset}:
            holds = f'The ledger {self.path} holds the budget of "{dataset}"'
            raise LedgerError(f'{holds}, and the policy names "{self._wanted}".')
        return ledger_id, dataset

    def _catch_up(self, con: sqlite3.Connection, checkpoint: Checkpoint | None) -> Event:
        integrity.check_newest(con, self.path, self._id, checkpoint)
        try:
            last = self._head or origin(self._id, self.dataset)
            for event in integrity.new_events(con, last, checkpoint):
                if self._totals is not None:
                    cancels = event.kind == "cancelled"
                    cancelled = schema.reservation_of(con, event.ticket) if cancels else None
                    integrity.add_event(self._totals, event, cancelled)
                self._head = event
        except BaseException:
            self._totals = None  # an event may be half counted
            raise
        if self._head is None:
            raise LedgerError(f"The ledger {self.path} is damaged: it has no events. Restore it.")
        return self._head

    def _current(self, con: sqlite3.Connection, head: Event) -> Totals:
        if self._totals is None:
            totals, newest = integrity.added_up(con, head)
            integrity.check_sums(con, self.path, totals, newest, head)
            self._totals = totals
        return self._totals

    def _month(self, time: str) -> str | None:
        return month_of(time) if self._monthly else None

    def _now(self, head: Event) -> str:
        # A clock that is set back must not bring back an earlier month.
        return max(_text(self._clock()), head.time)

    def _add(self, con: sqlite3.Connection, head: Event, kind: EventKind, time: str, ticket: str,
             analyst: str, amount: Amount | None = None) -> Event:  # fmt: skip
        totals, self._totals = self._current(con, head), None  # until the event is written
        self._head = integrity.append(con, totals, head, kind, time, ticket, analyst, amount)
        self._totals = totals
        return self._head

    def _close_tickets(
        self, kinds: Mapping[str, Literal["answered", "failed", "cancelled"]]
    ) -> None:
        # The checkpoint does not advance: losing this event leaves a loss counted, never free.
        self._check_writable()
        with self._transaction("IMMEDIATE") as (con, head):
            last = head
            for ticket, kind in kinds.items():
                first = schema.open_reservation(con, ticket)
                last = self._add(con, last, kind, self._now(last), ticket, first.analyst)

    def _check_writable(self) -> None:
        if self._read_only:
            raise LedgerError(f"The ledger {self.path} was opened read-only.")


def _text(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"

"""The desk of one database instance: offers plans, redeems tickets, keeps receipts. Never SQL.

A ticket stands for a plan inside SQL text, so that no parameter of a mechanism can be changed
there. A session's ticket is good for one release. A ticket of the `dp` table macro is the plan's
own digest: binding the same text twice offers the same ticket and changes nothing, and each
execution of a query redeems it once, however often DuckDB's plan calls the function.

Where a ledger is kept, a one-use ticket is the ledger's own: the session has reserved its loss. For
a ticket of `dp` the desk reserves when it is redeemed, before the mechanism draws.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dp_sql.budget.account import Account, Outcome
from dp_sql.errors import DpSqlError, InternalError, NotSupported, PolicyError
from dp_sql.privacy.plan import Plan, loss_at
from dp_sql.releases import Receipt

T = TypeVar("T")

# Answers kept so that one execution sees one draw. An execution's calls are close together, and
# its number never returns; the limit only bounds memory.
_KEPT = 256
_KEPT_LOTS = 8  # these are as large as the number of people
_ONCE = "once-"


@dataclass(frozen=True)
class Drawn(Generic[T]):
    """What a mechanism has drawn: the answer, its accuracy in words, and how many runs it took."""

    value: T
    accuracy: str
    n_runs: int = 1


@dataclass
class _Answer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: object = None
    done: bool = False


class Desk:
    """Plans waiting for their execution, and receipts of what was released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._once: dict[str, Plan] = {}
        self._again: dict[str, Plan] = {}
        self._runs: dict[str, int] = {}
        self._answers: OrderedDict[tuple[str, int, int], _Answer] = OrderedDict()
        self._lots: OrderedDict[tuple[str, int, int], _Answer] = OrderedDict()
        self._receipts: list[tuple[int, Receipt]] = []
        self._issued = 0
        self._failures: dict[str, DpSqlError] = {}
        self._accounts: list[Account | None] = []

    def pay_from(self, account: Account | None) -> None:
        """Pay the tickets of `dp` from this account, for a session that has just been opened.

        Raises:
            PolicyError: another session of this instance has another ledger, or none.
        """
        with self._lock:
            for other in self._accounts:
                if other is not account and (not other or not account or not account.same(other)):
                    raise PolicyError(
                        f"This database is open in this process {'with' if other else 'without'} a "
                        "ledger; all its sessions have the same one, or none."
                    )
            self._accounts.append(account)

    def stop_paying(self, account: Account | None) -> None:
        """Forget the account of a session that closes."""
        with self._lock, contextlib.suppress(ValueError):
            self._accounts.remove(account)

    def receipts(self, connection: int | None = None) -> tuple[Receipt, ...]:
        """One receipt per release, oldest first; those of one connection, or all."""
        with self._lock:
            return tuple(r for of, r in self._receipts if connection in {None, of})

    def offer_once(self, plan: Plan, reserved: str | None = None, runs: int | None = None) -> str:
        """A ticket for exactly one release of this plan.

        Args:
            plan: what is released.
            reserved: the ledger's ticket, where its loss stands in one.
            runs: how many runs are reserved; a release that turns out to take more is refused.
        """
        with self._lock:
            self._issued += 1
            ticket = f"{_ONCE}{reserved or self._issued}"
            self._once[ticket] = plan
            if runs is not None:
                self._runs[ticket] = runs
        return ticket

    def offer(self, plan: Plan, text: str, number: int) -> str:
        """The ticket of this plan, the same for the same plan at the same place of a text.

        Args:
            plan: what each execution releases.
            text: the text in which the DP call stands.
            number: which DP call of the text it is: equal calls in one text are separate releases.
        """
        digest = hashlib.blake2b(repr((plan, text, number)).encode(), digest_size=12).hexdigest()
        with self._lock:
            self._again.setdefault(digest, plan)
        return digest

    def withdraw(self, ticket: str) -> None:
        """Take back a one-use ticket, used or not, and what is kept of it."""
        with self._lock:
            self._once.pop(ticket, None)
            self._runs.pop(ticket, None)
            self._failures.pop(ticket, None)

    def lots(self, ticket: str, execution: tuple[int, int], draw: Callable[[], T]) -> T:
        """Draw once per ticket and execution what goes before the answer; it releases nothing."""
        with self._lock:
            kept = self._lots.setdefault((ticket, *execution), _Answer())
            while len(self._lots) > _KEPT_LOTS:
                self._lots.popitem(last=False)
        with kept.lock:
            if not kept.done:
                kept.value, kept.done = draw(), True
            return kept.value  # type: ignore[return-value]

    def write_failed(self, plans: Sequence[Plan], connection: int, told: int) -> None:
        """Replace the receipts after the first `told` of a connection: these plans have failed."""
        with self._lock:
            own = [i for i, (of, _) in enumerate(self._receipts) if of == connection]
            for i in reversed(own[told:]):
                del self._receipts[i]
        for plan in plans:
            self._write(plan, Drawn(None, "it failed, and nothing was released"), connection)

    def redeem(self, ticket: str, execution: tuple[int, int], run: Callable[[Plan], Drawn[T]]) -> T:
        """Release once per ticket and execution; later calls of the execution get that answer.

        Args:
            ticket: as offered; unknown or used ones are refused.
            execution: connection and query number of the engine.
            run: draws the answer of a plan and states its accuracy.
        """
        with self._lock:
            answer = self._answers.setdefault((ticket, *execution), _Answer())
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        with answer.lock:
            if not answer.done:
                plan = self._take(ticket)
                drawn = run(plan) if ticket.startswith(_ONCE) else self._paid(plan, run)
                if drawn.n_runs > self._runs.get(ticket, drawn.n_runs):
                    raise InternalError("There are more groups than were paid for; none is shown.")
                self._write(plan, drawn, execution[0])
                answer.value, answer.done = drawn.value, True
            return answer.value  # type: ignore[return-value]

    def _paid(self, plan: Plan, run: Callable[[Plan], Drawn[T]]) -> Drawn[T]:
        """Reserve, run and settle, where a ledger is kept."""
        with self._lock:
            account = next(iter(self._accounts), None)
        if account is None:
            return run(plan)
        if plan.function.kind == "select" and plan.keys:
            raise NotSupported(
                f"With a ledger dp(…) takes no {plan.function.name} with GROUP BY; ask it with "
                "session.sql."
            )
        (ticket,) = account.reserve(lambda factor: [loss_at(plan, factor)])
        outcome: Outcome = "failed"
        try:
            drawn = run(plan)
            outcome = "answered"
        finally:
            account.settle(ticket, outcome)
        return drawn

    def _take(self, ticket: str) -> Plan:
        with self._lock:
            plan = self._once.pop(ticket, None) or self._again.get(ticket)
        if plan is None:
            raise InternalError("This ticket is unknown or used; nothing was released.")
        return plan

    def _write(self, plan: Plan, drawn: Drawn[T], connection: int) -> None:
        if not drawn.n_runs:  # no group, nothing drawn
            return
        receipt = Receipt(
            call=plan.call,
            source=plan.written,
            mechanism=plan.mechanism.name,
            loss=plan.loss.times(drawn.n_runs),
            accuracy=drawn.accuracy,
            assumptions=plan.assumptions,
        )
        with self._lock:
            self._receipts.append((connection, receipt))

    def keep_failure(self, ticket: str, failure: DpSqlError) -> None:
        """Keep an error that DuckDB is about to turn into text, for who holds the ticket."""
        if ticket.startswith(_ONCE):  # others are held by nobody who would ask
            self._failures[ticket] = failure

    def failure_of(self, ticket: str) -> DpSqlError | None:
        """The error of a one-use ticket, if its mechanism raised one."""
        return self._failures.get(ticket)

"""The tickets of one database instance, and the receipts of what they released.

SQL names a plan by its ticket, so that no parameter of a mechanism can be changed there. A
session's ticket is good for one release; with a ledger, the session has reserved its loss. A ticket
of the `dp` table macro is the plan's own digest: each execution of a query redeems it once, however
often DuckDB binds it or calls the function, and its loss is reserved before the mechanism draws.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dp_sql.errors import DpSqlError, InternalError, NotSupported, PolicyError
from dp_sql.privacy.plans.plan import Plan, loss_at
from dp_sql.releases import Receipt, shared

if TYPE_CHECKING:
    from dp_sql.budget.account import Account

_Key = tuple[str, int, int]  # a ticket, and the numbers of a connection and of its query
T = TypeVar("T")
S = TypeVar("S", bound=Sized)

# Answers are held so that one execution sees one draw. The calls of an execution are close
# together, and its number never returns; these limits only bound memory.
_MAX_ANSWERS = 256
_MAX_PLANS = 4096  # of `dp`, each for one text, from its binding to its execution
_MAX_PEOPLE = 10**7  # of whom it is held in which groups they count, in all answers together
_ONCE = "once-"
_FAILED = "A mechanism failed; nothing was released."
_number = itemgetter(0)


@dataclass(frozen=True)
class Drawn(Generic[T]):
    """What a mechanism drew: the answer, a sentence on its accuracy, and how many runs it took."""

    value: T
    accuracy: str
    n_runs: int = 1


@dataclass
class _Answer:
    """The answer to one execution, and the draws that went before it, by their steps."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    value: object = None
    is_done: bool = False
    draws: dict[str, Sized] = field(default_factory=dict)
    n_readers: int = 0  # that draw it, or wait until it is drawn


class Tickets:
    """Plans that wait for their execution, and receipts of what was released.

    Receipts are in the order in which their tickets were issued, the order of the calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._once: dict[str, tuple[Plan, int | None, int]] = {}
        self._again: OrderedDict[str, Plan] = OrderedDict()
        self._answers: OrderedDict[_Key, _Answer] = OrderedDict()
        self._keys: dict[str, set[_Key]] = {}  # of these, by their tickets
        self._n_people: dict[_Key, int] = {}  # in the draws of those answers that have any
        self._receipts: defaultdict[int, list[tuple[int, Receipt]]] = defaultdict(list)
        self._numbers = itertools.count(1)
        self._errors: dict[str, DpSqlError] = {}
        self._accounts: list[Account | None] = []
        self.planned: tuple[object, Any] | None = None  # what plain calls keep of an execution

    def charge(self, account: Account | None) -> None:
        """Charge the tickets of `dp` to the account of a session that has just been opened."""
        with self._lock:
            for other in self._accounts:
                if other is not account and (not other or not account or not account.same(other)):
                    raise PolicyError(
                        f"This database is open in this process {'with' if other else 'without'} a "
                        "ledger; all its sessions have the same one, or none."
                    )
            self._accounts.append(account)

    def stop_charging(self, account: Account | None) -> None:
        """Forget the account of a session that closes."""
        with self._lock, contextlib.suppress(ValueError):
            self._accounts.remove(account)

    def receipts(self, connection: int | None = None, after: int = 0) -> tuple[Receipt, ...]:
        """One receipt per release, oldest first: of one connection after its first ones, or all."""
        with self._lock:
            of_one = self._receipts[connection][after:] if connection is not None else ()
            every = of_one if connection is not None else chain(*self._receipts.values())
            return tuple(receipt for _, receipt in sorted(every, key=_number))

    def n_receipts(self, connection: int) -> int:
        """How many releases one connection made."""
        with self._lock:
            return len(self._receipts[connection])

    @property
    def account(self) -> Account | None:
        """What releases of the macros are charged to; None without a ledger."""
        with self._lock:
            return next(iter(self._accounts), None)

    def once(self, name: str, execution: tuple[int, int], make: Callable[[], str]) -> str:
        """What `make` returns when it is first called with this name in an execution."""
        with self._answer(name, execution) as answer:
            if not answer.is_done:
                answer.value, answer.is_done = make(), True
            return str(answer.value)

    def issue_once(
        self, plan: Plan, reservation: str | None = None, n_runs: int | None = None
    ) -> str:
        """A ticket for exactly one release of a plan; one that takes more than `n_runs` fails."""
        with self._lock:
            number = next(self._numbers)
            ticket = f"{_ONCE}{reservation or number}"
            self._once[ticket] = plan, n_runs, number
        return ticket

    def issue(self, plan: Plan, text: str, number: int) -> str:
        """A ticket for a release in each execution; the same call has the same ticket.

        `number` says which DP call of the text it is: equal calls are separate releases.
        """
        digest = hashlib.blake2b(repr((plan, text, number)).encode(), digest_size=12).hexdigest()
        with self._lock:
            self._again.setdefault(digest, plan)
            self._again.move_to_end(digest)
            if len(self._again) > _MAX_PLANS:
                self._again.popitem(last=False)
        return digest

    def withdraw(self, ticket: str) -> None:
        """Forget a one-use ticket, used or not, and all that is held for it."""
        with self._lock:
            self._once.pop(ticket, None)
            self._errors.pop(ticket, None)
            for key in [*self._keys.get(ticket, ())]:
                self._forget(key)

    def draw_once(
        self, ticket: str, execution: tuple[int, int], draw: Callable[[], S], step: str = "kept"
    ) -> S:
        """What a step before the release draws: once per ticket and execution.

        A step finds groups, keeps some of each person's, or draws the key of a sample. An answer is
        held and forgotten together with these draws, because its places mean items in the groups
        that were drawn. A draw releases nothing by itself.
        """
        with self._answer(ticket, execution) as answer:
            if step in answer.draws or not answer.is_done:  # else they are forgotten
                if step not in answer.draws:
                    answer.draws[step] = draw()
                    self._count_people((ticket, *execution), answer)
                return answer.draws[step]  # type: ignore[return-value]
        with self._lock:  # unless another reading has done so
            if self._answers.get((ticket, *execution)) is answer:
                self._forget((ticket, *execution))
        return self.draw_once(ticket, execution, draw, step)

    def plan(self, ticket: str) -> Plan:
        """The plan of a ticket that has not been redeemed, or may be redeemed again."""
        with self._lock:
            once, again = self._once.get(ticket), self._again.get(ticket)
        plan = again if once is None else once[0]
        if plan is None:
            raise InternalError("This ticket is unknown or used; nothing was released.")
        return plan

    def redeem(self, ticket: str, execution: tuple[int, int], run: Callable[[Plan], Drawn[T]]) -> T:
        """Release once per ticket and execution; later calls of the execution get that answer.

        An execution is the engine's number of a connection and of its query.
        """
        with self._holding_errors(ticket), self._answer(ticket, execution) as answer:
            if not answer.is_done:
                plan, n_runs, number = self._take(ticket)
                drawn = run(plan) if ticket.startswith(_ONCE) else self._charged(plan, run)
                if n_runs is not None and drawn.n_runs > n_runs:
                    raise InternalError("There are more groups than were paid for; none is shown.")
                self._record(plan, drawn, execution[0], number)
                answer.value, answer.is_done = drawn.value, True
            return answer.value  # type: ignore[return-value]

    @contextlib.contextmanager
    def _holding_errors(self, ticket: str) -> Iterator[None]:
        """Keep an error for the session that asked: DuckDB turns the errors of functions into text.

        Errors of dp_sql stay as they are; all others become one constant sentence.
        """
        errors = self._errors if ticket.startswith(_ONCE) else {}  # no one asks for others
        try:
            yield
        except DpSqlError as error:
            errors[ticket] = error
            raise
        except Exception as error:
            errors[ticket] = failure = InternalError(_FAILED)
            failure.__cause__ = error
            raise InternalError(_FAILED) from None

    @contextlib.contextmanager
    def _answer(self, ticket: str, execution: tuple[int, int]) -> Iterator[_Answer]:
        """The answer to an execution, for one reader at a time; it is not forgotten meanwhile."""
        key = (ticket, *execution)
        with self._lock:
            answer = self._answers.setdefault(key, _Answer())
            self._keys.setdefault(ticket, set()).add(key)
            self._answers.move_to_end(key)
            answer.n_readers += 1
            self._forget_oldest()
        try:
            with answer.lock:
                yield answer
        finally:
            with self._lock:
                answer.n_readers -= 1

    def _forget_oldest(self) -> None:
        """Forget the oldest answers that no one is reading, as far as the limits ask for it."""
        while len(self._answers) > _MAX_ANSWERS or sum(self._n_people.values()) > _MAX_PEOPLE:
            unread = (key for key, answer in self._answers.items() if not answer.n_readers)
            oldest = next(unread, None)
            if oldest is None:
                return
            self._forget(oldest)

    def _forget(self, key: _Key) -> None:
        del self._answers[key]
        self._n_people.pop(key, None)
        of_ticket = self._keys[key[0]]
        of_ticket.remove(key)
        if not of_ticket:
            del self._keys[key[0]]

    def _count_people(self, key: _Key, answer: _Answer) -> None:
        with self._lock:
            if self._answers.get(key) is answer:  # else it has been withdrawn
                self._n_people[key] = sum(map(len, answer.draws.values()))

    def _take(self, ticket: str) -> tuple[Plan, int | None, int]:
        with self._lock:
            once, again = self._once.pop(ticket, None), self._again.get(ticket)
            number = next(self._numbers)
        if once is None and again is None:
            raise InternalError(
                "This ticket is unknown or used; nothing was released. Write the query again."
            )
        return once or (again, None, number)  # type: ignore[return-value]

    def _charged(self, plan: Plan, run: Callable[[Plan], Drawn[T]]) -> Drawn[T]:
        """Reserve, run and settle, if there is a ledger."""
        account = self.account
        if account is None:
            return run(plan)
        if plan.keys and not plan.parameters.reads_people:
            name = plan.function.name
            raise NotSupported(
                f"With a ledger dp(…) takes no {name} with GROUP BY; ask it with session.sql."
            )
        (reservation,) = account.reserve(lambda factor: [loss_at(plan, factor)])
        drawn = None
        try:
            drawn = run(plan)
            return drawn
        finally:
            account.settle({reservation: "failed" if drawn is None else "answered"})

    def _record(self, plan: Plan, drawn: Drawn[T], connection: int, number: int) -> None:
        if not drawn.n_runs:  # no group, nothing drawn
            return
        asked = (plan.call, plan.written, plan.mechanism.name)
        with self._lock:  # different questions share what is equal in their receipts
            told = shared((plan.loss.times(drawn.n_runs), drawn.accuracy, plan.assumptions))
            receipt = shared(Receipt(*asked, *told))
            self._receipts[connection].append((number, receipt))

    def record_failure(self, plans: Sequence[Plan], connection: int, n_before: int) -> None:
        """Replace the receipts of a connection after its first `n_before`: these plans failed."""
        with self._lock:
            del self._receipts[connection][n_before:]
        for plan in plans:
            drawn = Drawn(None, "it failed, and nothing was released")
            self._record(plan, drawn, connection, next(self._numbers))

    def error_of(self, ticket: str) -> DpSqlError | None:
        """The error of a one-use ticket, if its mechanism raised one."""
        return self._errors.get(ticket)

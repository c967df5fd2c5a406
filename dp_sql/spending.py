"""What one session spends: its account, its tickets from reserving to settling, its kept releases.

    reserve (durable) → offer → redeem → settle

Knows plans and the budget; no engine, no text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dp_sql.books import (
    BookCall,
    Table,
    budget_table,
    ledger_table,
    no_ledger,
    releases_table,
    unknown_release,
)
from dp_sql.budget.account import Account
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.terms import Terms
from dp_sql.kept import Kept, KeptReleases
from dp_sql.plan import Plan, loss_at
from dp_sql.types import quote

Offer = Callable[[Plan, str | None], str]
"""offer(plan, the ledger's ticket) is the desk's ticket; it raises where the plan cannot run."""
T = TypeVar("T")


@dataclass
class Ticket:
    """One reserved release, to be redeemed once."""

    plan: Plan
    account: Account | None
    reserved: str | None
    offered: str
    used: bool = False

    def redeem(self, release: Callable[[Plan, str], T]) -> T:
        """Release, and settle as answered, or as failed."""
        self.used = True
        answered = False
        try:
            answer = release(self.plan, self.offered)
            answered = True
        finally:
            self.settle(answered=answered)
        return answer

    def settle(self, *, answered: bool) -> None:
        """Write the outcome down, where there is a ledger."""
        if self.account is not None and self.reserved is not None:
            self.account.settle(self.reserved, "answered" if answered else "failed")


class Spending:
    """The budget's side of a session.

    Args:
        ledger: the book; None: there is none, and nothing is refused.
        terms: the policy's; None: the book is kept, and nothing is refused.
        analyst: who asks.
        database: what is asked; a kept answer is that of one database.
    """

    def __init__(
        self, ledger: Ledger | None, terms: Terms | None, analyst: str, database: str
    ) -> None:
        self._ledger = ledger
        self.account = None if ledger is None else Account(ledger, terms, analyst)
        self._keeps = terms is not None and terms.keep_releases
        path = None
        if terms is not None and terms.keep_releases:
            path = terms.ledger.with_name(terms.ledger.name + ".releases")
        self.kept = KeptReleases(path, analyst, database)

    def close(self) -> None:
        """Close the ledger and the kept releases."""
        self.kept.close()
        if self._ledger is not None:
            self._ledger.close()

    def answer(self, plan: Plan) -> Kept | None:
        """The kept release that answers a plan, where the policy keeps releases."""
        return self.kept.answer(plan) if self._keeps else None

    @contextlib.contextmanager
    def reserved(
        self, plans: Sequence[Plan], offer: Offer, runs: Sequence[int] | None = None
    ) -> Iterator[Iterator[Ticket]]:
        """Tickets for some releases, all of them reserved before the first is handed out.

        Args:
            plans: what is to be released, in this order.
            offer: the desk's.
            runs: how often each loss counts; left out, once.

        What is left of them at the end, after an error, is settled as failed. Where a plan turns
        out not to run before any of them did, which no row can have a part in, all are cancelled.

        Raises:
            BudgetExceeded: too little is left; nothing was reserved.
        """
        tickets = self._offered(plans, offer, runs or [1] * len(plans))
        try:
            yield iter(tickets)
        finally:
            for ticket in tickets:
                if not ticket.used:
                    ticket.settle(answered=False)

    def _offered(self, plans: Sequence[Plan], offer: Offer, runs: Sequence[int]) -> list[Ticket]:
        if not plans:
            return []
        account = self.account
        reserved: Sequence[str | None] = [None] * len(plans)
        if account is not None:
            both = list(zip(plans, runs, strict=True))
            reserved = account.reserve(
                lambda factor: [loss_at(plan, factor).times(n) for plan, n in both]
            )
        try:
            return [
                Ticket(plan, account, ticket, offer(plan, ticket))
                for plan, ticket in zip(plans, reserved, strict=True)
            ]
        except BaseException:
            if account is not None:
                account.cancel([ticket for ticket in reserved if ticket is not None])
            raise

    # --- the books as tables ---

    def book(self, call: BookCall, text: str) -> Table:
        """What one of the books holds, for this analyst.

        Raises:
            NotSupported: there is no ledger.
            ArgumentError: there is no release of that id.
        """
        if call.name == "dp_releases":
            return releases_table(self.kept.all())
        if call.name == "dp_release":
            return self._release(call, text)
        if self.account is None or self._ledger is None:
            raise no_ledger(call, text)
        if call.name == "dp_budget":
            return budget_table(self.account.rows())
        return ledger_table(self._ledger.events(self.account.analyst))

    def _release(self, call: BookCall, text: str) -> Table:
        found = self.kept.find(call.argument or "")
        if found is None:
            raise unknown_release(call, text)
        columns = [(quote(name), kind) for name, kind in found.release.columns]
        return columns, [row[-len(columns) :] for row in found.rows]


def open_ledger(terms: Terms | None) -> Ledger | None:
    """The ledger of a policy's budget; None where it has none.

    Raises:
        LedgerError: it cannot be trusted.
    """
    if terms is None:
        return None
    return Ledger(terms.ledger, terms.witness, terms.dataset, monthly=terms.monthly)

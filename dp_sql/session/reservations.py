"""What one session spends: its account, and its tickets from reserving to settling.

    reserve (durable) → offer → redeem → settle

Knows plans and the budget; no engine, no text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dp_sql.budget.account import Account
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms
from dp_sql.privacy.plan import Plan, loss_at

Offer = Callable[[Plan, str | None], str]
"""offer(plan, the ledger's ticket) is the desk's ticket; it raises where the plan cannot run."""
T = TypeVar("T")


@dataclass
class Ticket:
    """One release to be redeemed once; `reserved` is the ledger's ticket, where there is one."""

    plan: Plan
    reserved: str | None
    offered: str
    answered: bool = False

    def redeem(self, release: Callable[[Plan, str], T]) -> T:
        """Release; what came of it is settled when all tickets of the query are."""
        answer = release(self.plan, self.offered)
        self.answered = True
        return answer


class Spending:
    """The budget's side of a session.

    Args:
        ledger: the book; None: there is none, and nothing is refused.
        terms: the policy's; None: the book is kept, and nothing is refused.
        analyst: who asks.
    """

    def __init__(self, ledger: Ledger | None, terms: Terms | None, analyst: str) -> None:
        self._ledger = ledger
        self.account = None if ledger is None else Account(ledger, terms, analyst)

    def close(self) -> None:
        """Close the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    @contextlib.contextmanager
    def reserved(
        self, plans: Sequence[Plan], offer: Offer, runs: Sequence[int] | None = None
    ) -> Iterator[Iterator[Ticket]]:
        """Tickets for some releases: all reserved at the beginning, all settled at the end.

        What was not answered by then is settled as failed. Where a plan turns out not to run before
        any of them did, which no row can have a part in, all are cancelled.

        Args:
            plans: what is to be released, in this order.
            offer: the desk's.
            runs: how often each loss counts; left out, once.

        Raises:
            BudgetExceeded: too little is left; nothing was reserved.
        """
        tickets = self._offered(plans, offer, runs or [1] * len(plans))
        try:
            yield iter(tickets)
        finally:
            for ticket in tickets:
                if self.account is not None and ticket.reserved is not None:
                    self.account.settle(
                        ticket.reserved, "answered" if ticket.answered else "failed"
                    )

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
                Ticket(plan, ticket, offer(plan, ticket))
                for plan, ticket in zip(plans, reserved, strict=True)
            ]
        except BaseException:
            if account is not None:
                account.cancel([ticket for ticket in reserved if ticket is not None])
            raise


def open_ledger(terms: Terms | None) -> Ledger | None:
    """The ledger of a policy's budget; None where it has none.

    Raises:
        LedgerError: it cannot be trusted.
    """
    if terms is None:
        return None
    return Ledger(terms.ledger, terms.checkpoint, terms.dataset, monthly=terms.monthly)

"""The budget of one statement's releases: reserved before the first of them, settled after all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_sql.errors import LedgerError
from dp_sql.privacy.plans.plan import Plan, loss_at

if TYPE_CHECKING:
    from dp_sql.budget.account import Account, Outcome

Issue = Callable[[Sequence[Plan], Sequence[str | None]], Sequence[str]]
"""From plans and their reservations to the engine's tickets."""


@dataclass
class Reserved:
    """One release to be made: its plan, the ledger's ticket and the engine's."""

    plan: Plan
    reservation: str | None
    ticket: str
    is_answered: bool = False  # else it is settled as failed


@contextlib.contextmanager
def reserved(
    account: Account | None, plans: Sequence[Plan], issue: Issue, runs: Sequence[int] | None = None
) -> Iterator[list[Reserved]]:
    """Reserve all losses at the beginning, durably, and settle them at the end.

    `runs`: how often the loss of each plan counts; once by default. If `issue` raises, no row was
    read, and all reservations are cancelled.
    """
    counted = list(zip(plans, runs or [1] * len(plans), strict=True))
    reservations: Sequence[str | None] = [None] * len(plans)
    if account is not None and plans:
        reservations = account.reserve(
            lambda factor: [loss_at(plan, factor).times(n) for plan, n in counted]
        )
    try:
        tickets = issue(plans, reservations)
        releases = list(map(Reserved, plans, reservations, tickets))
    except BaseException:
        if account is not None:
            account.cancel([one for one in reservations if one is not None])
        raise
    try:
        yield releases
    finally:
        if account is not None and releases:
            outcomes: dict[str, Outcome] = {
                one.reservation: "answered" if one.is_answered else "failed"
                for one in releases
                if one.reservation is not None
            }
            try:
                account.settle(outcomes)
            except LedgerError as error:
                raise LedgerError(f"{error} The cost of this query is spent.") from None

"""A ledger that is asked: one reservation, its settling, and the kinds of its events."""

from datetime import datetime

from dp_sql.budget.amounts import Amount
from dp_sql.budget.ledger import Ledger
from tests.budget.ledger_checks import TENTH, admit_all


class Clock:
    """A clock that shows the time it is set to."""

    def __init__(self, text: str) -> None:
        self.now = datetime.fromisoformat(text)

    def __call__(self) -> datetime:
        return self.now


def reserve_one(ledger: Ledger, analyst: str = "ann", amount: Amount = TENTH) -> str:
    (ticket,) = ledger.reserve(analyst, [amount], admit_all)
    return ticket


def kinds(ledger: Ledger, analyst: str | None = None) -> list[str]:
    return [event.kind for event in ledger.events(analyst)]


def settle(ledger: Ledger, ticket: str, outcome: str) -> None:
    if outcome == "cancelled":
        ledger.cancel(ticket)
    else:
        ledger.settle({ticket: outcome})  # type: ignore[arg-type]

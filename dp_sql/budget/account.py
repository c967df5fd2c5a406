"""Who may spend what: one analyst's account over a ledger, under the terms of a policy.

Knows losses, caps and names; never SQL, tables or mechanisms. A loss is in the ledger before the
account hands out the ticket for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_sql.budget.accountants import Accountant, accountant
from dp_sql.budget.amounts import ATTO, NANO, Amount, Spent, amount_of
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Cap, Terms
from dp_sql.errors import BudgetExceeded
from dp_sql.udfs.mechanism import PrivacyLoss, in_words

Outcome = Literal["answered", "failed"]

Scaled = Callable[[Fraction], Sequence[PrivacyLoss]]
"""The losses of a query with each epsilon in it times a factor from (0, 1]."""

_NO_CAP = "none"


@dataclass(frozen=True)
class BudgetRow:
    """How much of a budget is spent; of one analyst, or of all together.

    analyst: None for all together. total, left: None where there is no cap.
    """

    dataset: str
    analyst: str | None
    epsilon_total: Fraction | None
    epsilon_spent: Fraction
    epsilon_left: Fraction | None
    delta_total: Fraction | None
    delta_spent: Fraction
    delta_left: Fraction | None
    accountant: str


class Account:
    """What one analyst has spent and may still spend.

    Args:
        ledger: the book.
        terms: what the owner promises; None: the book is kept, and nothing is refused.
        analyst: whose account this is.
    """

    def __init__(self, ledger: Ledger, terms: Terms | None, analyst: str) -> None:
        self._ledger = ledger
        self._terms = terms
        self.analyst = analyst
        self._all, self._own = _accountants(terms, analyst)

    def same(self, other: Account) -> bool:
        """Whether both write into the same book."""
        return self._ledger.path == other._ledger.path

    def reserve(self, scaled: Scaled) -> tuple[str, ...]:
        """Write the losses of one query into the ledger, all or none; durable on return.

        Args:
            scaled: scaled(1) are the losses; smaller factors find what would still fit.

        Returns:
            One ticket for each loss.

        Raises:
            BudgetExceeded: too little is left; says how much, and what would fit.
            LedgerError: the ledger cannot be trusted or written.
        """
        amounts = [amount_of(loss) for loss in scaled(Fraction(1))]

        def admit(of_all: Spent, own: Spent) -> None:
            if not self._admits(amounts, of_all, own):
                raise _Full

        try:
            return self._ledger.reserve(self.analyst, amounts, admit)
        except _Full:
            raise self._exceeded(amounts, scaled) from None

    def settle(self, ticket: str, outcome: Outcome) -> None:
        """Write down how a reserved release ended; its loss stays spent."""
        self._ledger.settle(ticket, outcome)

    def cancel(self, tickets: Sequence[str]) -> None:
        """Give back losses whose releases never began, for a reason that is not in the data."""
        for ticket in tickets:
            self._ledger.cancel(ticket)

    def rows(self, asked: Sequence[PrivacyLoss] = ()) -> list[BudgetRow]:
        """All analysts together, then this one; as it would be after these losses."""
        more = [amount_of(loss) for loss in asked]
        dataset = self._ledger.dataset
        return [
            _row(dataset, None, self._all, _cap(self._terms, None), self._after(None, more)),
            _row(
                dataset,
                self.analyst,
                self._own,
                _cap(self._terms, self.analyst),
                self._after(self.analyst, more),
            ),
        ]

    def fits(self, losses: Sequence[PrivacyLoss]) -> bool:
        """Whether these losses could be reserved now."""
        more = [amount_of(loss) for loss in losses]
        return self._admits(more, self._after(None, more), self._after(self.analyst, more))

    def _after(self, analyst: str | None, more: Sequence[Amount]) -> Spent:
        return _plus(self._ledger.spent(analyst), more)

    def _admits(self, amounts: Sequence[Amount], of_all: Spent, own: Spent) -> bool:
        for counting, spent in ((self._all, of_all), (self._own, own)):
            if counting is not None:
                if any(counting.refuses(amount) for amount in amounts):
                    return False
                if not counting.fits(spent):
                    return False
        return True

    def _exceeded(self, amounts: Sequence[Amount], scaled: Scaled) -> BudgetExceeded:
        """Why these amounts cannot be spent, in words; told of what is spent at this moment."""
        for counting, analyst, of in (
            (self._all, None, self._ledger.dataset),
            (self._own, self.analyst, f"{self.analyst} in {self._ledger.dataset}"),
        ):
            cap = _cap(self._terms, analyst)
            if counting is None or cap is None:
                continue
            why = next(filter(None, map(counting.refuses, amounts)), None)
            if why is not None:
                return BudgetExceeded(why)
            spent = self._ledger.spent(analyst)
            if not counting.fits(_plus(spent, amounts)):
                row = _row(of, analyst, counting, cap, spent)
                return _too_much(amounts, row, self._largest(scaled, amounts))
        return BudgetExceeded("The budget was full a moment ago; nothing was spent. Ask again.")

    def _largest(self, scaled: Scaled, amounts: Sequence[Amount]) -> Fraction | None:
        """The largest epsilon of the query's that would still fit, in whole 1e-9; None: none."""
        asked = sum((loss.epsilon for loss in scaled(Fraction(1))), Fraction(0))
        low, high = 0, sum(amount.epsilon for amount in amounts)
        of_all, own = self._ledger.spent(None), self._ledger.spent(self.analyst)
        while high - low > 1:
            middle = (low + high) // 2
            tried = [amount_of(loss) for loss in scaled(Fraction(middle, NANO) / asked)]
            if self._admits(tried, _plus(of_all, tried), _plus(own, tried)):
                low = middle
            else:
                high = middle
        return Fraction(low, NANO) if low else None


def owner_rows(ledger: Ledger, terms: Terms | None) -> list[BudgetRow]:
    """The budget as its owner sees it: all together, then everybody who spent or has a cap."""
    names = set(ledger.analysts()) | (set(terms.analysts) if terms is not None else set())
    of_all, _ = _accountants(terms, "")
    rows = [_row(ledger.dataset, None, of_all, _cap(terms, None), ledger.spent())]
    for name in sorted(names):
        _, own = _accountants(terms, name)
        rows.append(_row(ledger.dataset, name, own, _cap(terms, name), ledger.spent(name)))
    return rows


def _accountants(terms: Terms | None, analyst: str) -> tuple[Accountant | None, Accountant | None]:
    """For all together, and for one analyst; None where nothing limits."""
    if terms is None:
        return None, None
    cap = terms.analysts.get(analyst)
    own = None if cap is None else accountant(terms.accountant, cap, terms.release_epsilon)
    return accountant(terms.accountant, terms.total, terms.release_epsilon), own


def _cap(terms: Terms | None, analyst: str | None) -> Cap | None:
    if terms is None:
        return None
    return terms.total if analyst is None else terms.analysts.get(analyst)


def _plus(spent: Spent, amounts: Sequence[Amount]) -> Spent:
    for amount in amounts:
        spent = spent.plus(amount)
    return spent


def _row(
    dataset: str, analyst: str | None, counting: Accountant | None, cap: Cap | None, spent: Spent
) -> BudgetRow:
    if counting is None or cap is None:
        epsilon, delta = Fraction(spent.epsilon, NANO), Fraction(spent.delta, ATTO)
        return BudgetRow(dataset, analyst, None, epsilon, None, None, delta, None, _NO_CAP)
    epsilon = Fraction(counting.epsilon_spent(spent), NANO)
    delta = Fraction(counting.delta_spent(spent), ATTO)
    return BudgetRow(
        dataset=dataset,
        analyst=analyst,
        epsilon_total=cap.epsilon,
        epsilon_spent=epsilon,
        epsilon_left=max(cap.epsilon - epsilon, Fraction(0)),
        delta_total=cap.delta,
        delta_spent=delta,
        delta_left=max(cap.delta - delta, Fraction(0)),
        accountant=counting.name,
    )


def _too_much(
    amounts: Sequence[Amount], row: BudgetRow, largest: Fraction | None
) -> BudgetExceeded:
    delta = sum(amount.delta for amount in amounts)
    asked = f"epsilon = {in_words(Fraction(sum(a.epsilon for a in amounts), NANO))}"
    left = _left(row.epsilon_left, row.epsilon_total)
    if delta:
        asked += f" and delta = {in_words(Fraction(delta, ATTO))}"
        left = f"epsilon = {left} and delta = {_left(row.delta_left, row.delta_total)}"
    hint = "No epsilon fits any more."
    if delta and row.epsilon_left and largest is None:
        hint = "No delta fits any more; a mechanism without delta may."
    elif largest is not None:
        together = " for all calls together" if len(amounts) > 1 else ""
        hint = f"The largest epsilon that still fits{together} is {in_words(largest)}."
    return BudgetExceeded(
        f"This query costs {asked}, and {left} is left of the budget of {row.dataset}.", hint=hint
    )


def _left(left: Fraction | None, total: Fraction | None) -> str:
    return f"{in_words(left or Fraction(0))} of {in_words(total or Fraction(0))}"


class _Full(Exception):
    """Too little is left; the account says it in words."""

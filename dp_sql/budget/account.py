"""Who may spend what: one analyst's account over a ledger, under the terms of a policy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Literal

from dp_sql.budget.accountants import Accountant, accountant
from dp_sql.budget.amounts import ATTO, NANO, Amount, Spent, amounts_of
from dp_sql.budget.model import Terms
from dp_sql.errors import BudgetExceeded
from dp_sql.udfs.mechanism import PrivacyLoss, in_words

if TYPE_CHECKING:
    from dp_sql.budget.ledger import Ledger

Outcome = Literal["answered", "failed"]
# The losses of a query with each epsilon in it times a factor in (0, 1].
Scaled = Callable[[Fraction], Sequence[PrivacyLoss]]


@dataclass(frozen=True)
class BudgetRow:
    """How much of a budget is spent: by one analyst, or by all together (None); None: no cap."""

    dataset: str
    analyst: str | None
    epsilon_total: Fraction | None
    epsilon_spent: Fraction
    epsilon_left: Fraction | None
    delta_total: Fraction | None
    delta_spent: Fraction
    delta_left: Fraction | None
    accountant: str


@dataclass(frozen=True)
class _Share:
    """What one analyst, or all together (None), may spend; without an accountant, anything."""

    analyst: str | None
    counting: Accountant | None

    def admits(self, amounts: Sequence[Amount], spent: Spent) -> bool:
        """Whether all this may be spent, which includes `amounts`."""
        by = self.counting
        return by is None or (not any(map(by.refuses, amounts)) and by.fits(spent))

    def row(self, dataset: str, spent: Spent) -> BudgetRow:
        """How much of it is spent."""
        by, zero = self.counting, Fraction(0)
        epsilon = Fraction(by.epsilon_spent(spent) if by else spent.epsilon, NANO)
        delta = Fraction(by.delta_spent(spent) if by else spent.delta, ATTO)
        if by is None:
            return BudgetRow(dataset, self.analyst, None, epsilon, None, None, delta, None, "none")
        epsilons = by.cap.epsilon, epsilon, max(by.cap.epsilon - epsilon, zero)
        deltas = by.cap.delta, delta, max(by.cap.delta - delta, zero)
        return BudgetRow(dataset, self.analyst, *epsilons, *deltas, by.name)


def _share(terms: Terms | None, analyst: str | None) -> _Share:
    if terms is None:
        return _Share(analyst, None)
    cap = terms.total if analyst is None else terms.analysts.get(analyst)
    if cap is None:
        return _Share(analyst, None)
    counting = accountant(terms.accountant, cap, terms.release_epsilon, terms.discovery_share)
    return _Share(analyst, counting)


class Account:
    """What an analyst has spent and may still spend; without terms nothing is refused."""

    def __init__(self, ledger: Ledger, terms: Terms | None, analyst: str) -> None:
        self._ledger = ledger
        self.analyst = analyst
        self._shares = (_share(terms, None), _share(terms, analyst))

    def same(self, other: Account) -> bool:
        """Whether both write into the same ledger."""
        return self._ledger.path == other._ledger.path

    def reserve(self, scaled: Scaled) -> tuple[str, ...]:
        """Write the losses of one query, scaled(1), into the ledger: all or none, durably.

        Returns a ticket for each loss.

        Raises:
            BudgetExceeded: too little is left; says how much, and what would fit.
            LedgerError: the ledger cannot be trusted or written.
        """
        losses = [amounts_of(loss) for loss in scaled(Fraction(1))]
        amounts = [amount for loss in losses for amount in loss]

        def admit(*spent: Spent) -> None:
            if not self._admits(amounts, spent):
                raise _Full

        try:
            tickets = iter(self._ledger.reserve(self.analyst, amounts, admit))
        except _Full:
            raise self._exceeded(amounts, scaled) from None
        return tuple(" ".join(islice(tickets, len(loss))) for loss in losses)

    def settle(self, outcomes: Mapping[str, Outcome]) -> None:
        """Record how reserved releases ended, by their tickets; their losses stay spent."""
        each = {one: outcome for ticket, outcome in outcomes.items() for one in ticket.split()}
        self._ledger.settle(each)

    def cancel(self, tickets: Sequence[str]) -> None:
        """Give back losses whose releases never began, for a reason independent of the data."""
        for one in " ".join(tickets).split():
            self._ledger.cancel(one)

    def rows(self, asked: Sequence[PrivacyLoss] = ()) -> list[BudgetRow]:
        """All analysts together, then this one; as it would be after these losses."""
        after = self._after(_amounts(asked))
        dataset = self._ledger.dataset
        return [s.row(dataset, spent) for s, spent in zip(self._shares, after, strict=True)]

    def fits(self, losses: Sequence[PrivacyLoss]) -> bool:
        """Whether these losses could be reserved now."""
        more = _amounts(losses)
        return self._admits(more, self._after(more))

    def _after(self, more: Sequence[Amount]) -> list[Spent]:
        return [self._ledger.spent(share.analyst).plus(*more) for share in self._shares]

    def _admits(self, amounts: Sequence[Amount], spent: Sequence[Spent]) -> bool:
        return all(s.admits(amounts, own) for s, own in zip(self._shares, spent, strict=True))

    def _exceeded(self, amounts: Sequence[Amount], scaled: Scaled) -> BudgetExceeded:
        """Why not all of this fits: names the budget of which the least is left."""
        counted = [share.counting for share in self._shares if share.counting is not None]
        refused = (counting.refuses(amount) for counting in counted for amount in amounts)
        if (why := next(filter(None, refused), None)) is not None:
            return BudgetExceeded(why)
        full = [
            (self.largest(scaled, [share]), share)
            for share, spent in zip(self._shares, self._after(amounts), strict=True)
            if not share.admits(amounts, spent)
        ]
        if not full:
            return BudgetExceeded(
                "The budget was full a moment ago; nothing was spent. Run the query again."
            )
        largest, share = min(full, key=lambda one: one[0] or 0)
        dataset, name = self._ledger.dataset, share.analyst
        of = dataset if name is None else f"{name} in {dataset}"
        return _too_much(amounts, share.row(of, self._ledger.spent(name)), largest)

    def largest(self, scaled: Scaled, shares: Sequence[_Share] = ()) -> Fraction | None:
        """The largest epsilon of the query that would still fit, in whole 1e-9; None: none.

        It fits into these shares, by default into all.
        """
        shares = shares or self._shares
        amounts = _amounts(scaled(Fraction(1)))
        asked = sum((loss.epsilon for loss in scaled(Fraction(1))), Fraction(0))
        now = [self._ledger.spent(share.analyst) for share in shares]

        def admits(tried: Sequence[Amount]) -> bool:
            after = [spent.plus(*tried) for spent in now]
            return all(s.admits(tried, own) for s, own in zip(shares, after, strict=True))

        def too_much(nanos: int) -> bool:
            return not admits(_amounts(scaled(Fraction(nanos, NANO) / asked)))

        deltas = [a if a.is_slack else Amount(0, a.delta, 0, 0) for a in amounts]
        if not admits(deltas):  # before the losses at tiny epsilons, which take long to compute
            return None
        total = sum(amount.epsilon for amount in amounts)
        return Fraction(bisect_left(range(1, total), True, key=too_much), NANO) or None


def _amounts(losses: Sequence[PrivacyLoss]) -> list[Amount]:
    return [amount for loss in losses for amount in amounts_of(loss)]


def owner_rows(ledger: Ledger, terms: Terms | None) -> list[BudgetRow]:
    """The budget as its owner sees it: all together, then every analyst with losses or a cap."""
    names = sorted(set(ledger.analysts()) | set(terms.analysts if terms is not None else ()))
    return [_share(terms, name).row(ledger.dataset, ledger.spent(name)) for name in (None, *names)]


def _too_much(
    amounts: Sequence[Amount], row: BudgetRow, largest: Fraction | None
) -> BudgetExceeded:
    delta = sum(amount.delta for amount in amounts)
    asked = f"epsilon = {in_words(Fraction(sum(a.epsilon for a in amounts), NANO))}"
    left = _left(row.epsilon_left, row.epsilon_total)
    if delta:
        asked += f" and delta = {in_words(Fraction(delta, ATTO))}"
        left = f"epsilon = {left}"
        if row.accountant == "basic":  # others spend delta as a whole, on their proof
            left += f" and delta = {_left(row.delta_left, row.delta_total)}"
    hint = "No epsilon fits any more; only the owner can make room."
    if delta and row.epsilon_left and largest is None:
        hint = "No delta fits any more; a mechanism without delta may."
        if row.accountant == "basic" and row.delta_left:
            hint = f"The largest delta that still fits is {in_words(row.delta_left)}."
    elif largest is not None:
        together = " for all calls together" if len(amounts) > 1 else ""
        hint = f"The largest epsilon that still fits{together} is {in_words(largest)}."
    what = f"This query costs {asked}, but the budget of {row.dataset} has {left} left."
    return BudgetExceeded(what, hint=hint)


def _left(left: Fraction | None, total: Fraction | None) -> str:
    return f"{in_words(left or Fraction(0))} of {in_words(total or Fraction(0))}"


class _Full(Exception):
    """Too little is left; the account says so in words."""

"""What a query would cost, before anything is spent or read: from its plans and public numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dp_sql.budget.account import Account, BudgetRow
from dp_sql.errors import NotSupported
from dp_sql.privacy.plan import Plan, Work
from dp_sql.privacy.private_sql import private_sql
from dp_sql.session.describe import values_sql
from dp_sql.udfs.mechanism import PrivacyLoss, in_words

COST_COLUMNS = (
    "call", "mechanism", "epsilon", "delta", "epsilon_per_group", "accuracy", "budget_before",
    "budget_after", "kept_release", "work", "sql",
)  # fmt: skip
"""The columns of EXPLAIN, all of them texts."""


class PublicValues(Protocol):
    """What this file may ask of an engine."""

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""


@dataclass(frozen=True)
class Explanation:
    """What one DP call would do.

    Args:
        call: the DP call as DuckDB names its column.
        mechanism: the registry's name.
        loss: what it would cost, all groups together.
        epsilon_per_group: the epsilon with which each group is answered; without groups all of it.
        accuracy: a sentence that holds by public numbers alone.
        kept: the id of the release that answers the same question again and free, if there is one.
        work: how many rows of one person it reads and makes at most.
        sql: what DuckDB would run on the private side.
    """

    call: str
    mechanism: str
    loss: PrivacyLoss
    epsilon_per_group: Fraction
    accuracy: str
    kept: str | None
    work: str
    sql: str


@dataclass(frozen=True)
class Cost:
    """What the DP calls of some texts would cost together, and the budget around it.

    Args:
        epsilon: what would be debited, kept releases left out.
        delta: the same of delta.
        fits: whether it could be reserved now.
        calls: one explanation for each DP call, in the order of the texts.
        before: the budget as it is, all analysts together and then this one; empty: no ledger.
        after: as it would be.
    """

    epsilon: Fraction
    delta: Fraction
    fits: bool
    calls: tuple[Explanation, ...]
    before: tuple[BudgetRow, ...]
    after: tuple[BudgetRow, ...]

    def __str__(self) -> str:
        lines = []
        for one in self.calls:
            lines += [
                one.call,
                f"  mechanism  {one.mechanism}",
                f"  costs      {_price(one)}",
                f"  accuracy   {one.accuracy}",
                f"  work       {one.work}",
            ]
        for before, after in zip(self.before, self.after, strict=True):
            if before.epsilon_left is not None and after.epsilon_left is not None:
                of = before.dataset if before.analyst is None else before.analyst
                left, then = in_words(before.epsilon_left), in_words(after.epsilon_left)
                lines.append(f"budget of {of}: epsilon {left} left, {then} after")
        if not self.fits:
            lines.append("This is more than is left.")
        return "\n".join(lines)


def explained(plan: Plan, kept: str | None, engine: PublicValues, n_runs: int = 1) -> Explanation:
    """What a plan would do; counts its public domain.

    Args:
        plan: one call's.
        kept: the id of a release that answers it already.
        engine: reads the public domain.
        n_runs: how often its loss counts.
    """
    return Explanation(
        call=plan.call,
        mechanism=plan.mechanism.name,
        loss=plan.loss.times(n_runs),
        epsilon_per_group=plan.parameters.epsilon,
        accuracy=_accuracy(plan, engine),
        kept=kept,
        work=_work(plan.work),
        sql=private_sql(plan, "ticket"),
    )


def cost(calls: Sequence[Explanation], account: Account | None) -> Cost:
    """What some calls cost together."""
    asked = [call.loss for call in calls if call.kept is None]
    return Cost(
        epsilon=sum((loss.epsilon for loss in asked), Fraction(0)),
        delta=sum((loss.delta for loss in asked), Fraction(0)),
        fits=account is None or account.fits(asked),
        calls=tuple(calls),
        before=() if account is None else tuple(account.rows()),
        after=() if account is None else tuple(account.rows(asked)),
    )


def cost_sql(cost: Cost) -> str:
    """The same as SQL: one row for each DP call, and the budget left before and after all."""
    if not cost.calls:
        raise NotSupported("EXPLAIN shows what DP calls would cost, and there is none here.")
    left = [_least(rows) for rows in (cost.before, cost.after)]
    rows = [
        (
            call.call, call.mechanism,
            in_words(call.loss.epsilon if call.kept is None else Fraction(0)),
            in_words(call.loss.delta if call.kept is None else Fraction(0)),
            in_words(call.epsilon_per_group),
            call.accuracy, *left, call.kept or "", call.work, call.sql,
        )
        for call in cost.calls
    ]  # fmt: skip
    return values_sql(COST_COLUMNS, rows)


def _least(rows: Sequence[BudgetRow]) -> str:
    """What is left of the tightest budget; nothing said where there is none."""
    left = [row.epsilon_left for row in rows if row.epsilon_left is not None]
    return in_words(min(left)) if left else ""


def _price(one: Explanation) -> str:
    if one.kept is not None:
        return f"nothing: release {one.kept} is kept"
    price = f"epsilon = {in_words(one.loss.epsilon)}"
    if one.loss.delta:
        price += f", delta = {in_words(one.loss.delta)}"
    if one.epsilon_per_group != one.loss.epsilon:
        price += f" ({in_words(one.epsilon_per_group)} for each group)"
    return price


def _work(work: Work | None) -> str:
    """How much work one person's rows can cause, in words."""
    if work is None:
        return "not limited on the owner's connection"
    if work.joined_rows_per_person is None:
        return "every row of a person once; no join multiplies rows"
    return (
        f"at most {work.rows_per_person:,} rows per person enter each join, and at most "
        f"{work.joined_rows_per_person:,} leave the joins"
    )


def _accuracy(plan: Plan, engine: PublicValues) -> str:
    size = None
    if plan.domain is not None and plan.domain.select is not None:
        count = f"SELECT system.main.count(*) FROM ({plan.domain.select}) AS domain"
        size = int(str(engine.public_values(count)[0]))
    known = plan.parameters.public_accuracy(plan.mechanism, size)
    return known or "is in the receipt: what it depends on is read together with the answer"

"""EXPLAIN: what a query would cost. Spends nothing; uses plans and public numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dp_sql.budget.account import Account, BudgetRow
from dp_sql.errors import NotSupported
from dp_sql.privacy.plan import Plan
from dp_sql.privacy.private_sql import private_sql
from dp_sql.session.describe import values_sql
from dp_sql.udfs.mechanism import PrivacyLoss, in_words

COST_COLUMNS = (
    "call", "mechanism", "epsilon", "delta", "epsilon_per_group", "accuracy", "budget_before",
    "budget_after", "kept_release", "work", "sql",
)  # fmt: skip
"""The columns of EXPLAIN, all of type VARCHAR."""


class PublicValues(Protocol):
    """What EXPLAIN asks of an engine."""

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""


@dataclass(frozen=True)
class Explanation:
    """What one DP call would do.

    Args:
        call: the DP call as DuckDB names its column.
        mechanism: its name in the registry.
        loss: the cost of all groups together; nothing is spent if `kept` is set.
        epsilon_per_group: the epsilon that answers each group; without groups, all of it.
        accuracy: a sentence that follows from public numbers alone.
        kept: the id of a release that answers the same question for free, if there is one.
        work: how many rows of one person are read and made, at most.
        sql: what DuckDB would run over private rows.
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
    """What the DP calls of some queries would cost together, and the budget around it.

    Args:
        epsilon: what would be spent; kept releases are free.
        delta: the same for delta.
        fits: whether the budget allows it now.
        calls: one explanation for each DP call, in the order of the queries.
        before: the budget now, all analysts together and then this one; empty without a ledger.
        after: the budget after these calls.
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
                name = before.dataset if before.analyst is None else before.analyst
                left, then = in_words(before.epsilon_left), in_words(after.epsilon_left)
                lines.append(f"budget of {name}: epsilon {left} left, {then} after")
        if not self.fits:
            lines.append("This costs more than is left.")
        return "\n".join(lines)


def explanation(plan: Plan, kept: str | None, engine: PublicValues, n_runs: int = 1) -> Explanation:
    """What a plan would do; counts its public domain.

    Args:
        plan: of one call.
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
        work=_work(plan),
        sql=private_sql(plan, "ticket"),
    )


def cost_of(calls: Sequence[Explanation], account: Account | None) -> Cost:
    """What some calls cost together."""
    losses = [call.loss for call in calls if call.kept is None]
    return Cost(
        epsilon=sum((loss.epsilon for loss in losses), Fraction(0)),
        delta=sum((loss.delta for loss in losses), Fraction(0)),
        fits=account is None or account.fits(losses),
        calls=tuple(calls),
        before=() if account is None else tuple(account.rows()),
        after=() if account is None else tuple(account.rows(losses)),
    )


def cost_sql(cost: Cost) -> str:
    """The same as SQL: one row for each DP call, and the budget left before and after all.

    Raises:
        NotSupported: there is no DP call.
    """
    if not cost.calls:
        raise NotSupported("EXPLAIN shows what DP calls would cost, and this query has none.")
    left = [_least(rows) for rows in (cost.before, cost.after)]
    rows = []
    for call in cost.calls:
        spent = (call.loss.epsilon, call.loss.delta) if call.kept is None else (Fraction(0),) * 2
        numbers = map(in_words, (*spent, call.epsilon_per_group))
        rows.append(
            (call.call, call.mechanism, *numbers, call.accuracy, *left, call.kept or "", call.work,
             call.sql)
        )  # fmt: skip
    return values_sql(COST_COLUMNS, rows)


def _least(rows: Sequence[BudgetRow]) -> str:
    """What is left of the tightest budget; "" if there is none."""
    left = [row.epsilon_left for row in rows if row.epsilon_left is not None]
    return in_words(min(left)) if left else ""


def _price(one: Explanation) -> str:
    if one.kept is not None:
        return f"nothing: it is stored as release {one.kept}"
    price = f"epsilon = {in_words(one.loss.epsilon)}"
    if one.loss.delta:
        price += f", delta = {in_words(one.loss.delta)}"
    if one.epsilon_per_group != one.loss.epsilon:
        price += f" ({in_words(one.epsilon_per_group)} for each group)"
    return price


def _work(plan: Plan) -> str:
    """How much work one person's rows can cause."""
    if plan.work is None:
        return "not limited on the owner's connection"
    if plan.work.joined_rows_per_person is None:
        return "reads each row once; no join multiplies rows"
    return (
        f"at most {plan.work.rows_per_person:,} rows per person enter each join, and at most "
        f"{plan.work.joined_rows_per_person:,} leave the joins"
    )


def _accuracy(plan: Plan, engine: PublicValues) -> str:
    size = None
    if plan.domain is not None and plan.domain.select is not None:
        count = f"SELECT system.main.count(*) FROM ({plan.domain.select}) AS domain"
        size = int(str(engine.public_values(count)[0]))
    known = plan.parameters.public_accuracy(plan.mechanism, size)
    return known or "shown on the receipt, after the release"

"""EXPLAIN: what a query would cost. Spends nothing; uses plans and public numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.budget.account import Account, BudgetRow
from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import OwnersEngine, Schema
from dp_sql.privacy.plan import Plan
from dp_sql.privacy.private_sql import private_sql
from dp_sql.releases import priced
from dp_sql.session.describe import values_sql
from dp_sql.udfs.mechanism import PrivacyLoss, in_words

COST_COLUMNS = (  # of EXPLAIN, all of type VARCHAR
    "call", "mechanism", "epsilon", "delta", "rho", "range", "epsilon_per_group", "accuracy",
    "alternatives", "budget_before", "budget_after", "kept_release", "work", "sql",
)  # fmt: skip
EXAMPLE_DELTA = Fraction(1, 10**6)


@dataclass(frozen=True)
class Explanation:
    """What one DP call would do."""

    call: str  # as DuckDB names its column
    mechanism: str  # its name in the registry
    loss: PrivacyLoss  # of all groups together; nothing is spent if `kept` is set
    epsilon_per_group: Fraction  # without groups, all of it
    accuracy: str  # a sentence that follows from public numbers alone
    alternatives: Mapping[str, str]  # such sentences for the same epsilon, by mechanism
    kept: str | None  # the id of a release that answers the same question for free
    work: str  # how many rows of one person are read and made, at most
    sql: str  # what DuckDB would run over private rows


@dataclass(frozen=True)
class Cost:
    """What the DP calls of some queries would cost together, and the budget around it."""

    epsilon: Fraction  # what would be spent, as is delta; stored releases are free
    delta: Fraction
    fits: bool  # whether the budget allows it now
    calls: tuple[Explanation, ...]  # in the order of the queries
    before: tuple[BudgetRow, ...]  # of all analysts, then of this one; empty without a ledger
    after: tuple[BudgetRow, ...]

    def __str__(self) -> str:
        lines = []
        for one in self.calls:
            lines += [one.call, f"  mechanism  {one.mechanism}", f"  costs      {_price(one)}"]
            lines += [f"  accuracy   {one.accuracy}"]
            lines += [f"  or         {other}" for other in _alternatives(one)]
            lines += [f"  work       {one.work}"]
        for before, after in zip(self.before, self.after, strict=True):
            if before.epsilon_left is not None and after.epsilon_left is not None:
                name = before.dataset if before.analyst is None else before.analyst
                left, then = in_words(before.epsilon_left), in_words(after.epsilon_left)
                lines.append(f"budget of {name}: epsilon {left} left, {then} after")
        if not self.fits:
            lines.append("This costs more than is left.")
        return "\n".join(lines)


def explanation(
    plan: Plan,
    kept: str | None,
    engine: OwnersEngine | Schema,
    delta: Fraction | None,
    n_runs: int = 1,
) -> Explanation:
    """What a plan would do; counts its public domain, and its loss `n_runs` times.

    `delta` is what an alternative may spend; None: nothing.
    """
    n_items, shape = _n_items(plan, engine), plan.parameters
    each = None if delta is None else delta * shape.epsilon / plan.loss.epsilon
    accuracy = shape.public_accuracy(plan.mechanism, n_items)
    offer = f"; {shape.offer}" if shape.offer and not shape.detailed else ""
    return Explanation(
        plan.call, plan.mechanism.name, plan.loss.times(n_runs), shape.epsilon,
        (accuracy or "shown on the receipt, after the release") + offer,
        shape.alternatives(plan.mechanism, n_items, each), kept, _work(plan),
        private_sql(plan, "ticket"),
    )  # fmt: skip


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
    """The same as SQL: one row for each DP call, and the budget left before and after all."""
    if not cost.calls:
        raise NotSupported("EXPLAIN shows what DP calls would cost, and this query has none.")
    left = []  # of the tightest budget, before and after
    for budget in (cost.before, cost.after):
        known = [row.epsilon_left for row in budget if row.epsilon_left is not None]
        left.append(in_words(min(known)) if known else "")
    if not cost.fits:
        left[1] = "this costs more than is left"
    rows = []
    for call in cost.calls:
        loss = call.loss
        whole = (loss.epsilon, loss.delta, loss.rho, loss.bounded_range)
        spent = whole if call.kept is None else (Fraction(0),) * len(whole)
        numbers = ["" if x is None else in_words(x) for x in (*spent, call.epsilon_per_group)]
        others = "; ".join(_alternatives(call))
        rest = (call.accuracy, others, *left, call.kept or "", call.work, call.sql)
        rows.append((call.call, call.mechanism, *numbers, *rest))
    return values_sql(COST_COLUMNS, rows)


def _alternatives(one: Explanation) -> list[str]:
    return [f"mechanism := '{name}': {promise}" for name, promise in one.alternatives.items()]


def _price(one: Explanation) -> str:
    if one.kept is not None:
        return f"nothing: it is stored as release {one.kept}"
    price = priced(one.loss)
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


def _n_items(plan: Plan, engine: OwnersEngine | Schema) -> int | None:
    """The size of the public domain, if there is one before the release."""
    if plan.domain is None or plan.domain.select is None:
        return None
    count = f"SELECT system.main.count(*) FROM ({plan.domain.select}) AS domain"
    return int(str(engine.public_values(count)[0]))

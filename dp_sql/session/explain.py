"""EXPLAIN: what a query would cost. Spends nothing; uses plans and public numbers only."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import OwnersEngine, Schema, size_sql
from dp_sql.privacy.plans.plan import Plan, loss_at
from dp_sql.privacy.private_sql.release_select import private_sql
from dp_sql.releases import in_epsilon, in_short, priced
from dp_sql.session.describe import values_sql
from dp_sql.udfs.mechanism import PrivacyLoss, in_words

if TYPE_CHECKING:
    from dp_sql.budget.account import Account, BudgetRow

_WIDTH = 62  # columns of a value in EXPLAIN, so that DuckDB's box fits in 80
EXAMPLE_DELTA = Fraction(1, 10**6)


@dataclass(frozen=True)
class Explanation:
    """What one DP call would do."""

    call: str  # as DuckDB names its column
    mechanism: str  # its name in the registry
    loss: PrivacyLoss  # of all groups together; nothing is spent if `kept` is set
    epsilon_per_group: Fraction  # without groups, all of it; of a vector, for all groups
    accuracy: str  # a sentence that follows from public numbers alone
    alternatives: Mapping[str, str]  # such sentences for the same epsilon, by mechanism
    kept: str | None  # the id of a release that answers it for free; "": of an earlier query's
    groups: str  # in which groups a person counts, and why; "" where there is no choice
    work: str  # how many rows of one person are read and made, at most
    sql: str  # what DuckDB would run over private rows
    is_vector: bool  # whether one run answers for all groups
    # How far all its numbers may be from those without noise; None: only a report says.
    all_within: int | None = None


@dataclass(frozen=True)
class Cost:
    """What the DP calls of some queries would cost together, and the budget around it."""

    epsilon: Fraction  # what would be spent, as is delta; stored releases are free
    delta: Fraction
    fits: bool  # whether the budget allows it now
    calls: tuple[Explanation, ...]  # in the order of the queries
    before: tuple[BudgetRow, ...]  # of all analysts, then of this one; empty without a ledger
    after: tuple[BudgetRow, ...]
    largest: Fraction | None = None  # where it does not fit: the epsilon that would; None: none

    def lines(self, *, with_sql: bool = False) -> list[tuple[str, str]]:
        """What a person reads: names and values."""
        lines = [("fits", self._fit())]
        if len(self.calls) != 1:
            lines.append(("cost", in_epsilon(self.epsilon, self.delta)))
        for before, after in zip(self.before, self.after, strict=True):
            lines += _left(before, after, self.fits)
        for one in self.calls:
            lines += [("call", one.call), ("mechanism", one.mechanism), ("cost", _price(one))]
            lines += [("groups", one.groups)] if one.groups else []
            lines += [("accuracy", one.accuracy)]
            lines += [
                ("instead", f"mechanism := '{name}': {promise}")
                for name, promise in one.alternatives.items()
            ]
            if with_sql or one.work.startswith("at most"):
                lines.append(("work", one.work))
            if with_sql:
                lines.append(("sql", one.sql))
        return lines

    def _fit(self) -> str:
        if self.fits:
            return "yes"
        if self.largest is None:
            return "no: it would be refused, and cost nothing; no epsilon fits any more"
        return f"no: it would be refused, and cost nothing; epsilon = {in_words(self.largest)} fits"

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {value}".rstrip() for name, value in _wrapped(self.lines()))


def _left(before: BudgetRow, after: BudgetRow, fits: bool) -> list[tuple[str, str]]:
    """What is left of one budget, before and after."""
    if before.epsilon_left is None or after.epsilon_left is None or before.epsilon_total is None:
        return []
    whose = "all together" if before.analyst is None else before.analyst
    left = f"epsilon = {in_short(before.epsilon_left)} of {in_short(before.epsilon_total)}"
    then = in_short(after.epsilon_left)
    if before.delta_total:
        left += f", delta = {in_short(before.delta_left or Fraction(0))}"
        then += f", delta = {in_short(after.delta_left or Fraction(0))}"
    return [("left", f"{left} for {whose}" + (f"; {then} after" if fits else ""))]


def _wrapped(lines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The lines, with long values broken between words."""
    found = []
    for name, value in lines:
        parts = [value] if name == "sql" else textwrap.wrap(value, _WIDTH, break_long_words=False)
        found += [(name if n == 0 else "", part) for n, part in enumerate(parts)]
    return found


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
        call=plan.call,
        mechanism=plan.mechanism.name,
        loss=plan.loss.times(n_runs),
        epsilon_per_group=shape.epsilon,
        accuracy=(accuracy or "shown on the receipt, after the release") + offer,
        alternatives=shape.alternatives(plan.mechanism, n_items, each),
        kept=kept,
        groups="" if plan.groups is None else plan.groups.why,
        work=_work(plan),
        sql=private_sql([plan], ["ticket"]),
        is_vector=shape.is_vector,
        all_within=shape.all_within(plan.mechanism, n_items),
    )


def cost_of(plans: Sequence[Plan], calls: Sequence[Explanation], account: Account | None) -> Cost:
    """What some calls, of these plans, cost together."""
    losses = [call.loss for call in calls if call.kept is None]
    new = [plan for plan, call in zip(plans, calls, strict=True) if call.kept is None]
    fits = account is None or account.fits(losses)
    return Cost(
        epsilon=sum((loss.epsilon for loss in losses), Fraction(0)),
        delta=sum((loss.delta for loss in losses), Fraction(0)),
        fits=fits,
        largest=None
        if fits or account is None
        else account.largest(lambda factor: [loss_at(plan, factor) for plan in new]),
        calls=tuple(calls),
        before=() if account is None else tuple(account.rows()),
        after=() if account is None else tuple(account.rows(losses)),
    )


def cost_sql(cost: Cost, *, with_sql: bool) -> str:
    """A cost as SQL, in rows that DuckDB's box shows whole."""
    if not cost.calls:
        raise NotSupported("EXPLAIN shows what DP calls would cost, and this query has none.")
    return values_sql(("about", "value"), _wrapped(cost.lines(with_sql=with_sql)))


def _price(one: Explanation) -> str:
    if one.kept == "":
        return "nothing: an earlier query makes this release, which is stored"
    if one.kept is not None:
        return f"nothing: it is stored as release {one.kept}"
    price = priced(one.loss)
    if one.epsilon_per_group != one.loss.epsilon:
        which = "all groups together" if one.is_vector else "each group"
        price += f" ({in_short(one.epsilon_per_group)} for {which})"
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
    """The size of the public domain, if there is one before the release; of a vector's groups."""
    if plan.groups is not None and plan.parameters.is_vector:
        return plan.groups.size
    if plan.domain is None or plan.domain.select is None:
        return None
    return int(str(engine.public_values(size_sql(plan.domain.select))[0]))

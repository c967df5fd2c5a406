"""The rows of the system tables: of the budget, the ledger, releases, and the functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.privacy.expressions.scalar_functions import FUNCTION_ALIASES, FUNCTIONS, call_of
from dp_sql.sql.formatting import decimal, quote
from dp_sql.sql.functions import FUNCTIONS as DP_FUNCTIONS

if TYPE_CHECKING:
    from dp_sql.budget.account import BudgetRow
    from dp_sql.budget.events import Event
    from dp_sql.privacy.plans.plan import Released
    from dp_sql.releases import Release

SystemTable = tuple[Sequence[tuple[str, str]], Sequence[tuple[object, ...]]]
"""Columns (name and type) and rows; each value as a string that casts to its type, or None."""

_EPSILON, _DELTA, _RHO = "DECIMAL(38, 9)", "DECIMAL(38, 18)", "DECIMAL(38, 12)"
_BUDGET = (  # as DOUBLE: short, and exact to the nanos in which a ledger counts
    ("analyst", "VARCHAR"), ("loss", "VARCHAR"), ("spent", "DOUBLE"), ("remaining", "DOUBLE"),
    ("total", "DOUBLE"), ("accountant", "VARCHAR"),
)  # fmt: skip
_LEDGER = (
    ("number", "BIGINT"), ("time", "TIMESTAMP"), ("kind", "VARCHAR"), ("ticket", "VARCHAR"),
    ("analyst", "VARCHAR"), ("epsilon", _EPSILON), ("delta", _DELTA), ("rho", _RHO),
)  # fmt: skip
_FUNCTIONS = (("name", "VARCHAR"), ("call", "VARCHAR"), ("returns", "VARCHAR"))
_RELEASES = (
    ("id", "VARCHAR"), ("time", "TIMESTAMP"), ("call", "VARCHAR"), ("source", "VARCHAR"),
    ("mechanism", "VARCHAR"), ("epsilon", _EPSILON), ("delta", _DELTA),
)  # fmt: skip


def read_again(release: Release, released: Released) -> str:
    """SQL of a frozen release, with the column names that people read."""
    names = [quote(name) for name, _ in release.columns]
    listed = [f"__dp_key_{i} AS {name}" for i, name in enumerate(names[:-1])]
    listed.append(f"{released.value} AS {names[-1]}")
    return f"(SELECT {', '.join(listed)} FROM {released.relation} AS __dp_kept)"


def releases_table(releases: Iterable[Release]) -> SystemTable:
    """`dp_releases()`."""
    rows = []
    for one in releases:
        asked, loss = one.receipt, one.receipt.loss
        words = (one.id, _timestamp(one.time), asked.call, asked.source, asked.mechanism)
        rows.append((*words, decimal(loss.epsilon, 9), decimal(loss.delta, 18)))
    return _RELEASES, rows


def functions_table() -> SystemTable:
    """`dp_functions()`: the DP functions, then those that an analyst may use on private rows."""
    rows = [(one.name, one.call, one.purpose) for one in DP_FUNCTIONS.values()]
    calls = [(name, call_of(name), scalar.gives) for name, scalar in FUNCTIONS.items()]
    also = [(name, call_of(of), FUNCTIONS[of].gives) for name, of in FUNCTION_ALIASES.items()]
    return _FUNCTIONS, [*rows, *sorted(calls + also)]


def budget_table(budget: Iterable[BudgetRow]) -> SystemTable:
    """`dp_budget()`; the analyst is NULL for all analysts together.

    Epsilon has a row of its own, and delta where the budget has one or some is spent.
    """
    rows: list[tuple[object, ...]] = []
    for row in budget:
        numbers = {"epsilon": (row.epsilon_spent, row.epsilon_left, row.epsilon_total)}
        if row.delta_total or row.delta_spent:
            numbers["delta"] = (row.delta_spent, row.delta_left, row.delta_total)
        for loss, of in numbers.items():
            shown = [None if x is None else decimal(x, 18) for x in of]
            rows.append((row.analyst, loss, *shown, row.accountant))
    return _BUDGET, rows


def ledger_table(events: Iterable[Event]) -> SystemTable:
    """`dp_ledger()` as the owner sees it: all events."""
    return _LEDGER, [_ledger_row(event, event.number, event.kind) for event in events]


def spent_table(events: Iterable[Event]) -> SystemTable:
    """`dp_ledger()` as an analyst sees it: what was spent, and what was given back.

    How a release ended is not shown: it may depend on the data. The events are numbered 1, 2, …:
    gaps would show how many events other analysts have.
    """
    kinds = {"reserved": "spent", "cancelled": "cancelled"}
    shown = [event for event in events if event.kind in kinds]
    return _LEDGER, [_ledger_row(event, n, kinds[event.kind]) for n, event in enumerate(shown, 1)]


def _ledger_row(event: Event, number: int, kind: str) -> tuple[object, ...]:
    losses: list[str | None] = [None] * 3
    if (amount := event.amount) is not None:
        rho = None if amount.rho is None else decimal(Fraction(amount.rho, PICO), 12)
        epsilon, delta = Fraction(amount.epsilon, NANO), Fraction(amount.delta, ATTO)
        losses = [decimal(epsilon, 9), decimal(delta, 18), rho]
    return (str(number), _timestamp(event.time), kind, event.ticket, event.analyst, *losses)


def _timestamp(time: str) -> str:
    return time.replace("T", " ").rstrip("Z")

"""The system tables: `dp_budget()`, `dp_ledger()`, `dp_releases()` and `dp_release('…')`.

Lists their rows. Knows releases and events; no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from dp_sql.budget.account import BudgetRow
from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.releases import Release
from dp_sql.sql.formatting import decimal, quote
from dp_sql.sql.statement import SystemTableCall

Table = tuple[Sequence[tuple[str, str]], Sequence[tuple[object, ...]]]
"""Columns (name and type) and rows; each value as a string that casts to its type, or None."""

_EPSILON, _DELTA, _RHO = "DECIMAL(38, 9)", "DECIMAL(38, 18)", "DECIMAL(38, 12)"
_BUDGET = (
    ("dataset", "VARCHAR"), ("analyst", "VARCHAR"),
    ("epsilon_total", _EPSILON), ("epsilon_spent", _EPSILON), ("epsilon_left", _EPSILON),
    ("delta_total", _DELTA), ("delta_spent", _DELTA), ("delta_left", _DELTA),
    ("accountant", "VARCHAR"),
)  # fmt: skip
_LEDGER = (
    ("number", "BIGINT"), ("time", "TIMESTAMP"), ("kind", "VARCHAR"), ("ticket", "VARCHAR"),
    ("analyst", "VARCHAR"), ("epsilon", _EPSILON), ("delta", _DELTA), ("rho", _RHO),
)  # fmt: skip
_RELEASES = (
    ("id", "VARCHAR"), ("time", "TIMESTAMP"), ("call", "VARCHAR"), ("source", "VARCHAR"),
    ("mechanism", "VARCHAR"), ("epsilon", _EPSILON), ("delta", _DELTA),
)  # fmt: skip


def read_again(release: Release, relation: str) -> str:
    """SQL of a frozen release, with the column names that people read."""
    inner = [f"__dp_key_{i}" for i in range(len(release.columns) - 1)] + ["__dp_value"]
    listed = [
        f"{column} AS {quote(name)}"
        for column, (name, _) in zip(inner, release.columns, strict=True)
    ]
    return f"(SELECT {', '.join(listed)} FROM {relation} AS __dp_kept)"


def unknown_release(call: SystemTableCall, text: str) -> ArgumentError:
    """The refusal of an id that does not exist."""
    return ArgumentError(
        "There is no release with this id, or its transaction was rolled back.",
        text=text,
        position=call.start,
        hint="FROM dp_releases() lists them.",
    )


def system_table(
    call: SystemTableCall,
    text: str,
    releases: Iterable[Release],
    ledger: Ledger | None,
    budget: Callable[[], Iterable[BudgetRow]],
    analyst: str | None,
) -> Table:
    """The rows of `dp_releases`, `dp_budget` or `dp_ledger`.

    Args:
        call: one of the three.
        text: the text that holds it.
        releases: those that can be read again.
        ledger: None if there is none.
        budget: returns its rows.
        analyst: whose events are shown; None shows everyone's.

    Raises:
        NotSupported: there is no ledger.
    """
    if call.name == "dp_releases":
        return _RELEASES, [_release_row(release) for release in releases]
    if ledger is None:
        raise NotSupported(
            "There is no ledger here.",
            text=text,
            position=call.start,
            hint="A policy with a [budget] has one; so has connect(…, ledger='ledger.sqlite').",
        )
    if call.name == "dp_budget":
        return _BUDGET, [_budget_row(row) for row in budget()]
    if analyst is None:
        return _ledger_table(ledger.events())
    return _spent_table(ledger.events(analyst))


def _budget_row(row: BudgetRow) -> tuple[object, ...]:
    """One row of a budget; the analyst is NULL for all analysts together."""
    epsilons = (row.epsilon_total, row.epsilon_spent, row.epsilon_left)
    deltas = (row.delta_total, row.delta_spent, row.delta_left)
    numbers = [*(_decimal(x, 9) for x in epsilons), *(_decimal(x, 18) for x in deltas)]
    return (row.dataset, row.analyst, *numbers, row.accountant)


def _ledger_table(events: Iterable[Event]) -> Table:
    """All events of a ledger, as its owner sees them."""
    return _LEDGER, [_ledger_row(event, event.number, event.kind) for event in events]


def _spent_table(events: Iterable[Event]) -> Table:
    """The events of one analyst's ledger: what was spent, and what was given back.

    How a release ended is not shown: it may depend on the data. The events are numbered 1, 2, …:
    gaps would show how many events other analysts have.
    """
    kinds = {"reserved": "spent", "cancelled": "cancelled"}
    shown = [event for event in events if event.kind in kinds]
    return _LEDGER, [_ledger_row(event, n, kinds[event.kind]) for n, event in enumerate(shown, 1)]


def _ledger_row(event: Event, number: int, kind: str) -> tuple[object, ...]:
    amount = event.amount
    losses: list[str | None] = [None, None, None]
    if amount is not None:
        rho = None if amount.rho is None else Fraction(amount.rho, PICO)
        losses = [
            _decimal(Fraction(amount.epsilon, NANO), 9),
            _decimal(Fraction(amount.delta, ATTO), 18),
            _decimal(rho, 12),
        ]
    return (str(number), _timestamp(event.time), kind, event.ticket, event.analyst, *losses)


def _release_row(release: Release) -> tuple[object, ...]:
    receipt = release.receipt
    losses = (_decimal(receipt.loss.epsilon, 9), _decimal(receipt.loss.delta, 18))
    asked = (receipt.call, receipt.source, receipt.mechanism)
    return (release.id, _timestamp(release.time), *asked, *losses)


def _timestamp(time: str) -> str:
    return time.replace("T", " ").rstrip("Z")


def _decimal(x: Fraction | None, places: int) -> str | None:
    """A number rounded towards zero; no number in a ledger has more places."""
    return None if x is None else decimal(x, places)

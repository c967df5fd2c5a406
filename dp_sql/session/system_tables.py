"""The books that SQL can read: `dp_budget()`, `dp_ledger()`, `dp_releases()`, `dp_release('…')`.

Finds them in a text, and writes what they hold as tables. Knows tokens, rows and events; no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.budget.account import BudgetRow
from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.releases import Release
from dp_sql.sql.formatting import decimal, quote
from dp_sql.sql.tokens import Token

Table = tuple[Sequence[tuple[str, str]], Sequence[tuple[object, ...]]]
"""Columns (name and type) and rows; each value as a text that casts to its type, or None."""

BOOKS = ("dp_budget", "dp_ledger", "dp_releases", "dp_release")
_EPSILON, _DELTA, _RHO = "DECIMAL(38, 9)", "DECIMAL(38, 18)", "DECIMAL(38, 12)"
_LEDGER = (
    ("number", "BIGINT"), ("time", "TIMESTAMP"), ("kind", "VARCHAR"), ("ticket", "VARCHAR"),
    ("analyst", "VARCHAR"), ("epsilon", _EPSILON), ("delta", _DELTA), ("rho", _RHO),
)  # fmt: skip


@dataclass(frozen=True)
class BookCall:
    """One of the books in a text: its name, its argument, and its place."""

    name: str
    argument: str | None
    start: int
    stop: int


def mentions_books(text: str) -> bool:
    """Whether a text may read a book at all."""
    lower = text.lower()
    return any(book in lower for book in BOOKS)


def book_calls(text: str, tokens: Sequence[Token]) -> list[BookCall]:
    """The books that a statement reads.

    Raises:
        ArgumentError: a book has arguments that it does not take.
    """
    found = []
    for i, token in enumerate(tokens[:-2]):
        name = (token.name or "").lower()
        if name in BOOKS and tokens[i + 1].is_symbol("(") and not tokens[i - 1].is_symbol("."):
            argument, last = _argument(text, tokens, i, name)
            found.append(BookCall(name, argument, token.start, last.end))
    return found


def _argument(text: str, tokens: Sequence[Token], i: int, name: str) -> tuple[str | None, Token]:
    """What stands in the brackets, and the closing one."""
    inside = tokens[i + 2]
    if name != "dp_release":
        if inside.is_symbol(")"):
            return None, inside
        raise ArgumentError(
            f"{name} takes no arguments.", text=text, position=inside.start, hint=f"FROM {name}()"
        )
    written = text[inside.start : inside.end]
    closed = i + 3 < len(tokens) and tokens[i + 3].is_symbol(")")
    if closed and len(written) > 1 and written[0] == written[-1] == "'":
        return written[1:-1].replace("''", "'"), tokens[i + 3]
    raise ArgumentError(
        "dp_release takes the id of a release, as text.",
        text=text,
        position=inside.start,
        hint="FROM dp_releases() lists them.",
    )


def read_again(release: Release, relation: str) -> str:
    """SQL of a frozen release with the names that people read."""
    inner = [f"__dp_key_{i}" for i in range(len(release.columns) - 1)] + ["__dp_value"]
    listed = [
        f"{column} AS {quote(name)}"
        for column, (name, _) in zip(inner, release.columns, strict=True)
    ]
    return f"(SELECT {', '.join(listed)} FROM {relation} AS __dp_kept)"


def unknown_release(call: BookCall, text: str) -> ArgumentError:
    """The refusal of an id that nobody here has."""
    return ArgumentError(
        "There is no release of this id here, or its transaction was rolled back.",
        text=text,
        position=call.start,
        hint="FROM dp_releases() lists them.",
    )


def _no_ledger(call: BookCall, text: str) -> NotSupported:
    """The refusal of a book that is not kept."""
    return NotSupported(
        "There is no ledger here.",
        text=text,
        position=call.start,
        hint="A policy with a [budget] has one; so has connect(…, ledger='book.sqlite').",
    )


def book_table(
    call: BookCall,
    text: str,
    releases: Iterable[Release],
    ledger: Ledger | None,
    budget: Callable[[], Iterable[BudgetRow]],
    analyst: str | None = None,
) -> Table:
    """What `dp_releases`, `dp_budget` or `dp_ledger` holds.

    Args:
        call: one of the three.
        text: where it stands.
        releases: those that can be read again.
        ledger: None: there is none.
        budget: its rows.
        analyst: whose events are shown; None: everybody's.

    Raises:
        NotSupported: there is no ledger.
    """
    if call.name == "dp_releases":
        return _releases_table(releases)
    if ledger is None:
        raise _no_ledger(call, text)
    if call.name == "dp_budget":
        return _budget_table(budget())
    if analyst is None:
        return _ledger_table(ledger.events())
    return _spent_table(ledger.events(analyst))


def _budget_table(rows: Iterable[BudgetRow]) -> Table:
    """The rows of a budget; analyst is NULL for all analysts together."""
    columns = (
        ("dataset", "VARCHAR"), ("analyst", "VARCHAR"),
        ("epsilon_total", _EPSILON), ("epsilon_spent", _EPSILON), ("epsilon_left", _EPSILON),
        ("delta_total", _DELTA), ("delta_spent", _DELTA), ("delta_left", _DELTA),
        ("accountant", "VARCHAR"),
    )  # fmt: skip
    return columns, [
        (
            row.dataset, row.analyst,
            *(_decimal(x, 9) for x in (row.epsilon_total, row.epsilon_spent, row.epsilon_left)),
            *(_decimal(x, 18) for x in (row.delta_total, row.delta_spent, row.delta_left)),
            row.accountant,
        )
        for row in rows
    ]  # fmt: skip


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
    time = event.time.replace("T", " ").rstrip("Z")
    return (str(number), time, kind, event.ticket, event.analyst, *losses)


def _releases_table(releases: Iterable[Release]) -> Table:
    """The releases that can be read again."""
    columns = (
        ("id", "VARCHAR"), ("time", "TIMESTAMP"), ("call", "VARCHAR"), ("source", "VARCHAR"),
        ("mechanism", "VARCHAR"), ("epsilon", _EPSILON), ("delta", _DELTA),
    )  # fmt: skip
    rows = []
    for release in releases:
        receipt = release.receipt
        losses = (_decimal(receipt.loss.epsilon, 9), _decimal(receipt.loss.delta, 18))
        time = release.time.replace("T", " ").rstrip("Z")
        rows.append(
            (release.id, time, receipt.call, receipt.source, receipt.mechanism, *losses)
        )  # fmt: skip
    return columns, rows


def _decimal(x: Fraction | None, places: int) -> str | None:
    """A number as a decimal text, rounded down; what a ledger holds has no more places."""
    return None if x is None else decimal(x, places)

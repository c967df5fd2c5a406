"""Bars: how much of a budget is spent, or of a statement done. Also for the shell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_sql.releases import in_short
from dp_sql.sql.formatting import literal

if TYPE_CHECKING:  # an owner's shell needs no ledger
    from dp_sql.budget.account import BudgetRow

_EIGHTHS = "▏▎▍▌▋▊▉█"


def bar_lines(rows: Sequence[BudgetRow], width: int) -> list[str]:
    """A bar for each row, as wide as the figures next to it leave room for."""
    names = [rows[0].dataset, *(f"  {shortened(visible(row.analyst or ''))}" for row in rows[1:])]
    figures = [_figures(row) for row in rows]
    longest = max(map(len, names))
    room = width - longest - max(map(len, figures)) - len("    100 %  ")
    room = min(max(room, 10), 50)
    lines = []
    for name, row, beside in zip(names, rows, figures, strict=True):
        share = _share(row, rows[0])
        drawn = " " * (room + 7) if share is None else f"{bar(share, room)}  {_percent(share):>5}"
        lines.append(f"{name:{longest}}  {drawn}  {beside}")
    return lines


def bar(share: Fraction, width: int) -> str:
    """A bar of this width: full only if all is spent, empty only if nothing is.

    >>> bar(Fraction(1, 2), 5), bar(Fraction(1, 1000), 3), bar(Fraction(999, 1000), 3)
    ('██▌░░', '▏░░', '██▉')
    """
    eighths = min(int(share * width * 8), width * 8)
    eighths = max(eighths, 1) if share else 0
    whole, rest = divmod(eighths, 8)
    drawn = _EIGHTHS[-1] * whole + (_EIGHTHS[rest - 1] if rest else "")
    return drawn.ljust(width, "░")


def visible(text: str) -> str:
    """A string that moves no cursor: escaped if it has unprintable characters."""
    return text if text.isprintable() else json.dumps(text)


def shortened(name: str) -> str:
    """A name of at most 24 characters."""
    return name if len(name) <= 24 else f"{name[:23]}…"


def _figures(row: BudgetRow) -> str:
    delta = ""
    if row.delta_total or row.delta_spent:
        of = f" of {in_short(row.delta_total)}" if row.delta_total else ""
        delta = f"; δ {in_short(row.delta_spent)}{of}"
    if row.epsilon_total is None or row.epsilon_left is None:
        return f"ε {literal(row.epsilon_spent)} spent, no cap of its own{delta}"
    spent, total = literal(row.epsilon_spent), literal(row.epsilon_total)
    return f"ε {spent} of {total} spent, {literal(row.epsilon_left)} left{delta}"


def _share(row: BudgetRow, together: BudgetRow) -> Fraction | None:
    """How much of a cap is spent; without one, of the common cap if losses simply add up."""
    if row.epsilon_total is not None:
        return row.epsilon_spent / row.epsilon_total
    if together.epsilon_total is None or together.accountant != "basic":
        return None
    return row.epsilon_spent / together.epsilon_total


def _percent(share: Fraction) -> str:
    """Whole percents, rounded down: 100 % is all.

    >>> _percent(Fraction(999, 1000)), _percent(Fraction(1, 1000)), _percent(Fraction(0))
    ('99 %', '<1 %', '0 %')
    """
    return "<1 %" if 0 < share < Fraction(1, 100) else f"{int(share * 100)} %"

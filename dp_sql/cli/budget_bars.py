"""A budget as bars of text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from dp_sql.budget.account import BudgetRow
from dp_sql.budget.model import Terms
from dp_sql.sql.formatting import literal

_EIGHTHS = "▏▎▍▌▋▊▉█"
_EMPTY = "░"
_NARROWEST, _WIDEST = 10, 50
_LONGEST_NAME = 24


def bars(rows: Sequence[BudgetRow], terms: Terms, width: int) -> str:
    """A heading, and a bar for each row.

    Args:
        rows: of one dataset; all analysts together come first.
        terms: of its budget.
        width: of the terminal, in characters.
    """
    return "\n".join([_heading(terms), "", *bar_lines(rows, width)])


def bar_lines(rows: Sequence[BudgetRow], width: int) -> list[str]:
    """A bar for each row, as wide as the figures next to it leave room for."""
    names = [rows[0].dataset, *(f"  {_shortened(row.analyst or '')}" for row in rows[1:])]
    figures = [_figures(row) for row in rows]
    longest = max(map(len, names))
    room = width - longest - max(map(len, figures)) - len("    100 %  ")
    room = min(max(room, _NARROWEST), _WIDEST)
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
    return drawn.ljust(width, _EMPTY)


def visible(text: str) -> str:
    """A string that moves no cursor: escaped if it has unprintable characters."""
    return text if text.isprintable() else json.dumps(text)


def _heading(terms: Terms) -> str:
    refresh = "refresh monthly: figures of this month (UTC)" if terms.monthly else "no refresh"
    charged = ""
    if terms.release_epsilon is not None:
        charged = f", each release as epsilon {literal(terms.release_epsilon)}"
    return f"Budget of {terms.dataset} (accountant {terms.accountant}{charged}; {refresh})"


def _figures(row: BudgetRow) -> str:
    if row.epsilon_total is None or row.epsilon_left is None:
        return f"ε {literal(row.epsilon_spent)} spent, no cap of its own{_delta(row)}"
    spent, total = literal(row.epsilon_spent), literal(row.epsilon_total)
    return f"ε {spent} of {total} spent, {literal(row.epsilon_left)} left{_delta(row)}"


def _delta(row: BudgetRow) -> str:
    if row.delta_total:
        return f"; δ {_small(row.delta_spent)} of {_small(row.delta_total)}"
    return f"; δ {_small(row.delta_spent)}" if row.delta_spent else ""


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


def _small(x: Fraction) -> str:
    """A delta, short and exact.

    >>> _small(Fraction(1, 10**6)), _small(Fraction(0))
    ('1e-6', '0')
    """
    text = literal(x)
    return text if len(text) < 6 else f"{Decimal(text):e}"


def _shortened(name: str) -> str:
    text = visible(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"

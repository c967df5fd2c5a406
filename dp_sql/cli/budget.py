"""`dp-sql budget`: how much of a policy's budget is spent and left. It only reads the ledger."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import click

from dp_sql.budget.account import BudgetRow, owner_rows
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms
from dp_sql.cli.budget_plot import curves, draw, shortened
from dp_sql.cli.rows import format_options, print_rows
from dp_sql.errors import PolicyError
from dp_sql.policy.model import read_policy
from dp_sql.releases import in_short
from dp_sql.sql.formatting import literal

_HELP = """\
Show how much of the budget of POLICY is spent and left: a bar for all analysts together, then one
for each analyst who has spent something or has a cap. With refresh = "monthly" the figures are
those of this month (UTC).

\b
Examples:
  dp-sql budget policy.toml
  dp-sql budget policy.toml --csv > spent.csv     (exact decimals, as in FROM dp_budget())
  dp-sql budget policy.toml --plot burn.png       (spending over time; needs matplotlib)

The ledger is read and stays as it is. docs/budget.md explains the numbers.
"""
_EIGHTHS = "▏▎▍▌▋▊▉█"


@click.command("budget", help=_HELP)
@click.argument("policy", metavar="POLICY")
@format_options
@click.option("--plot", metavar="FILE", help="Also draw spending over time: .png, .svg or .pdf.")
def command(policy: str, form: str | None, plot: str | None) -> None:
    """Print the budget."""
    terms = read_terms(policy)
    with Ledger(
        terms.ledger, terms.checkpoint, terms.dataset, monthly=terms.monthly, read_only=True
    ) as ledger:
        rows = owner_rows(ledger, terms)
        if plot is not None:
            draw(curves(ledger, terms, datetime.now(UTC)), terms, Path(plot))
    if form is not None:
        print_rows([field.name for field in fields(BudgetRow)], map(astuple, rows), form)
        return
    print(bars(rows, terms, shutil.get_terminal_size().columns))
    if plot is not None:
        print(f"\n{plot} is written.")


def read_terms(path: str) -> Terms:
    """The budget of a policy file; PolicyError if it has none."""
    terms = read_policy(path).budget
    if terms is None:
        raise PolicyError(
            f"{path} has no [budget]: analysts may spend without limit. docs/budget.md says how "
            "to choose one."
        )
    return terms


def bars(rows: Sequence[BudgetRow], terms: Terms, width: int) -> str:
    """A heading, and a bar for each row; all analysts together come first."""
    refresh = "refresh monthly: figures of this month (UTC)" if terms.monthly else "no refresh"
    epsilon = terms.release_epsilon
    charged = "" if epsilon is None else f", each release as epsilon {literal(epsilon)}"
    heading = f"Budget of {terms.dataset} (accountant {terms.accountant}{charged}; {refresh})"
    return "\n".join([heading, "", *bar_lines(rows, width)])


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

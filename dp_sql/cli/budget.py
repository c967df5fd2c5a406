"""`dp-sql budget`: how much of a policy's budget is spent and left. It only reads the ledger."""

import shutil
from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import UTC, datetime
from pathlib import Path

import click

from dp_sql.budget.account import BudgetRow, owner_rows
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms
from dp_sql.cli.bars import bar_lines
from dp_sql.cli.budget_plot import curves, draw
from dp_sql.cli.rows import format_options, print_rows
from dp_sql.errors import PolicyError
from dp_sql.policy.model import read_policy
from dp_sql.sql.formatting import literal

_HELP = """\
Show how much of the budget of POLICY is spent and left: a bar for all analysts together, then one
for each analyst who has spent something or has a cap. With refresh = "monthly" the figures are
those of this month (UTC).

\b
Examples:
  dp-sql budget policy.toml
  dp-sql budget policy.toml --csv > spent.csv     # exact decimals, as in FROM dp_budget()
  dp-sql budget policy.toml --plot burn.png       # spending over time; needs matplotlib

The ledger is read and stays as it is. docs/budget.md explains the numbers.
"""


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
            f"{path} has no [budget]: analysts may spend without limit. For all analysts together, "
            'write budget = { dataset = "shop", epsilon = 3 } (docs/budget.md).'
        )
    return terms


def bars(rows: Sequence[BudgetRow], terms: Terms, width: int) -> str:
    """A heading, and a bar for each row; all analysts together come first."""
    refresh = "refresh monthly: figures of this month (UTC)" if terms.monthly else "no refresh"
    epsilon = terms.release_epsilon
    charged = "" if epsilon is None else f", each release as epsilon {literal(epsilon)}"
    heading = f"Budget of {terms.dataset} (accountant {terms.accountant}{charged}; {refresh})"
    return "\n".join([heading, "", *bar_lines(rows, width)])

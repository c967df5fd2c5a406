"""`dp-sql ledger`: the events of a ledger, whether it is whole, and its checkpoint file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms
from dp_sql.budget.verify import adopt, verify
from dp_sql.cli.budget import read_terms
from dp_sql.cli.budget_bars import visible
from dp_sql.cli.main import DefaultGroup
from dp_sql.cli.rows import Value, format_options, print_rows, text
from dp_sql.errors import PolicyError

_HELP = """\
List the events of a ledger, verify it, or restore its checkpoint file (its witness).

LEDGER is a ledger file, or a policy (its name ends in .toml) whose [budget] names the files.
Without COMMAND this lists the events.

\b
Examples:
  dp-sql ledger policy.toml
  dp-sql ledger policy.toml --csv > events.csv
  dp-sql ledger verify policy.toml
  dp-sql ledger verify shop.ledger.sqlite --witness /mnt/other-disk/shop.witness
  dp-sql ledger witness LEDGER

A ledger file named list, verify or witness is opened as ./list, ./verify or ./witness.
"""
_LIST = """\
List every event, oldest first: its number, time (UTC), kind, ticket, analyst, and the epsilon,
delta and rho that it moved.
"""
_VERIFY = """\
Read every event, recompute the chain of hashes, and compare the checkpoint file. The exit code
is 1 if the ledger was changed or is not the newest.
"""
_WITNESS = """\
Recreate a lost checkpoint file, after verifying every event. Do this only if you know that the
ledger is the newest copy.
"""
_F = TypeVar("_F", bound=Callable[..., Any])
_COLUMNS = ("number", "time", "kind", "ticket", "analyst", "epsilon", "delta", "rho")
_LINE = "{:>6}  {:20}  {:9}  {:32}  {:16}  {:>12}  {:>12}  {}"


@click.group("ledger", cls=DefaultGroup, help=_HELP, subcommand_metavar="[COMMAND] LEDGER")
def command() -> None:
    """Run one of the commands below."""


def _ledger_options(function: _F) -> _F:
    """Add the argument LEDGER and the option --witness to a command."""
    option = click.option(
        "--witness", metavar="FILE",
        help="The checkpoint file (default: LEDGER.witness); a policy names its own.",
    )  # fmt: skip
    return click.argument("ledger", metavar="LEDGER")(option(function))


@command.command("list", help=_LIST, short_help="List every event, oldest first.")
@_ledger_options
@format_options
def _list(ledger: str, witness: str | None, form: str | None) -> None:
    with _open(*_files(ledger, witness)) as opened:
        rows = map(_event_row, opened.events())
        if form is not None:
            print_rows(_COLUMNS, rows, form)
            return
        print(_LINE.format(*_COLUMNS).rstrip())
        for row in rows:
            print(_LINE.format(*(visible(text(value)) for value in row)).rstrip())


@command.command("verify", help=_VERIFY, short_help="Verify every event and the checkpoint.")
@_ledger_options
def _verify(ledger: str, witness: str | None) -> None:
    path, checkpoint, terms = _files(ledger, witness)
    n = verify(path, checkpoint)
    with _open(path, checkpoint, terms) as opened:  # a policy's ledger is of its dataset, too
        print(f"{path} is whole: {n} events of {opened.dataset}, and its checkpoint agrees.")


@command.command("witness", help=_WITNESS, short_help="Recreate a lost checkpoint file.")
@_ledger_options
def _witness(ledger: str, witness: str | None) -> None:
    path, checkpoint, terms = _files(ledger, witness)
    n = adopt(path, checkpoint)
    with _open(path, checkpoint, terms) as opened:
        print(f"{checkpoint} is now the checkpoint of {path} ({n} events of {opened.dataset}).")


def _files(ledger: str, witness: str | None) -> tuple[Path, Path, Terms | None]:
    """A ledger, its checkpoint file, and the terms of the policy that names them."""
    if not ledger.lower().endswith(".toml"):
        return Path(ledger), Path(f"{ledger}.witness" if witness is None else witness), None
    if witness is not None:
        raise PolicyError(f"--witness is for a ledger file; the policy {ledger} names its own.")
    terms = read_terms(ledger)
    return terms.ledger, terms.checkpoint, terms


def _open(path: Path, checkpoint: Path, terms: Terms | None) -> Ledger:
    if terms is None:
        return Ledger(path, checkpoint, read_only=True)
    return Ledger(path, checkpoint, terms.dataset, monthly=terms.monthly, read_only=True)


def _event_row(event: Event) -> tuple[Value, ...]:
    head = (event.number, event.time, event.kind, event.ticket, event.analyst)
    amount = event.amount
    if amount is None:
        return (*head, None, None, None)
    rho = None if amount.rho is None else Fraction(amount.rho, PICO)
    return (*head, Fraction(amount.epsilon, NANO), Fraction(amount.delta, ATTO), rho)

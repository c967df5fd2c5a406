"""`dp-sql ledger`: the events of a ledger, whether it is whole, and its checkpoint file."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import click

from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
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
Write a lost checkpoint file anew, after verifying every event. Do this only if you know that the
ledger is the newest copy.
"""
_COLUMNS = ("number", "time", "kind", "ticket", "analyst", "epsilon", "delta", "rho")
_LINE = "{:>6}  {:20}  {:9}  {:32}  {:16}  {:>12}  {:>12}  {}"


@dataclass(frozen=True)
class _Files:
    """A ledger and its checkpoint file; the dataset that it must be of, where a policy says so."""

    ledger: Path
    witness: Path
    dataset: str | None = None
    monthly: bool = False

    def open(self) -> Ledger:
        return Ledger(self.ledger, self.witness, self.dataset, monthly=self.monthly, read_only=True)


@click.group("ledger", cls=DefaultGroup, help=_HELP, subcommand_metavar="[COMMAND] LEDGER")
def command() -> None:
    """Run one of the commands below."""


_ledger = click.argument("ledger", metavar="LEDGER")
_witness_file = click.option(
    "--witness", metavar="FILE",
    help="The ledger's checkpoint file (default: LEDGER.witness); a policy names its own.",
)  # fmt: skip


@command.command("list", help=_LIST)
@_ledger
@_witness_file
@format_options
def _list(ledger: str, witness: str | None, form: str | None) -> None:
    with _files(ledger, witness).open() as opened:
        rows = map(_event_row, opened.events())
        if form is not None:
            print_rows(_COLUMNS, rows, form)
            return
        print(_LINE.format(*_COLUMNS).rstrip())
        for row in rows:
            print(_LINE.format(*(visible(text(value)) for value in row)).rstrip())


@command.command("verify", help=_VERIFY)
@_ledger
@_witness_file
def _verify(ledger: str, witness: str | None) -> None:
    files = _files(ledger, witness)
    n = verify(files.ledger, files.witness)
    with files.open() as opened:  # a policy's ledger must also be of its dataset
        dataset = opened.dataset
    print(f"{files.ledger} is whole: {n} events of {dataset}, and its witness agrees.")


@command.command("witness", help=_WITNESS)
@_ledger
@_witness_file
def _witness(ledger: str, witness: str | None) -> None:
    files = _files(ledger, witness)
    n = adopt(files.ledger, files.witness)
    with files.open() as opened:
        dataset = opened.dataset
    print(f"{files.witness} is now the witness of {files.ledger} ({n} events of {dataset}).")


def _files(ledger: str, witness: str | None) -> _Files:
    if not ledger.lower().endswith(".toml"):
        return _Files(Path(ledger), Path(f"{ledger}.witness" if witness is None else witness))
    if witness is not None:
        raise PolicyError(f"--witness is for a ledger file; the policy {ledger} names its own.")
    terms = read_terms(ledger)
    return _Files(terms.ledger, terms.witness, terms.dataset, terms.monthly)


def _event_row(event: Event) -> tuple[Value, ...]:
    head = (event.number, event.time, event.kind, event.ticket, event.analyst)
    amount = event.amount
    if amount is None:
        return (*head, None, None, None)
    rho = None if amount.rho is None else Fraction(amount.rho, PICO)
    return (*head, Fraction(amount.epsilon, NANO), Fraction(amount.delta, ATTO), rho)

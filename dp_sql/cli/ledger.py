"""`dp-sql ledger`: the events of a ledger, whether it is intact, and its checkpoint file."""

import copy
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.budget.checkpoint import default_checkpoint
from dp_sql.budget.events import Event
from dp_sql.budget.integrity import adopt, verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms
from dp_sql.cli.bars import visible
from dp_sql.cli.budget import read_terms
from dp_sql.cli.main import DefaultGroup
from dp_sql.cli.rows import Cell, cell_text, format_options, print_rows
from dp_sql.errors import PolicyError

_HELP = """\
List the events of a ledger, verify it, or restore its checkpoint file.

LEDGER is a ledger file, or a policy (its name ends in .toml) whose [budget] names the files.
Without COMMAND this lists the events.

\b
Examples:
  dp-sql ledger policy.toml
  dp-sql ledger policy.toml --csv > events.csv
  dp-sql ledger verify policy.toml
  dp-sql ledger verify shop.ledger.sqlite --checkpoint /mnt/other-disk/shop.checkpoint
  dp-sql ledger checkpoint LEDGER

The checkpoint of a ledger file is LEDGER.witness unless --checkpoint names another file. A ledger
file named list, verify or checkpoint is opened as ./list, ./verify or ./checkpoint.
"""
_F = TypeVar("_F", bound=Callable[..., Any])
_COLUMNS = ("number", "time", "kind", "ticket", "analyst", "epsilon", "delta", "rho")
_LINE = "{:>6}  {:20}  {:9}  {:32}  {:16}  {:>12}  {:>12}  {}"


@click.group("ledger", cls=DefaultGroup, help=_HELP, subcommand_metavar="[COMMAND] LEDGER")
def command() -> None:
    """Run one of the commands below."""


def _ledger_options(function: _F) -> _F:
    """Add LEDGER and --checkpoint; --witness is the option's older name."""
    about = "The checkpoint file (default: LEDGER.witness); a policy names its own."
    option = click.option("--checkpoint", metavar="FILE", help=about)
    older = click.option("--witness", "checkpoint", hidden=True)
    return click.argument("ledger", metavar="LEDGER")(option(older(function)))


@command.command("list")
@_ledger_options
@format_options
def _list(ledger: str, checkpoint: str | None, form: str | None) -> None:
    """List every event, oldest first.

    Of each: its number, time (UTC), kind, ticket, analyst, and the epsilon, delta and rho that it
    moved.
    """
    with _open(*_files(ledger, checkpoint)) as opened:
        rows = map(_event_row, opened.events())
        if form is not None:
            print_rows(_COLUMNS, rows, form)
            return
        print(_LINE.format(*_COLUMNS).rstrip())
        for row in rows:
            print(_LINE.format(*(visible(cell_text(value)) for value in row)).rstrip())


@command.command("verify")
@_ledger_options
def _verify(ledger: str, checkpoint: str | None) -> None:
    """Verify every event and the checkpoint.

    This reads every event, recomputes the chain of hashes, and compares the checkpoint file. The
    exit code is 1 if the ledger was changed or is not the newest.
    """
    path, file, terms = _files(ledger, checkpoint)
    n = verify(path, file)
    with _open(path, file, terms) as opened:  # a policy's ledger is of its dataset, too
        print(f"{path} is intact: {n} events of {opened.dataset}, and its checkpoint agrees.")


@command.command("checkpoint")
@_ledger_options
def _checkpoint(ledger: str, checkpoint: str | None) -> None:
    """Recreate a lost checkpoint file.

    This verifies every event first. Do this only if you know that the ledger is the newest copy.
    """
    path, file, terms = _files(ledger, checkpoint)
    n = adopt(path, file)
    with _open(path, file, terms) as opened:
        print(f"{file} is now the checkpoint of {path} ({n} events of {opened.dataset}).")


_older_name = copy.copy(_checkpoint)
_older_name.hidden = True
command.add_command(_older_name, "witness")


def _files(ledger: str, checkpoint: str | None) -> tuple[Path, Path, Terms | None]:
    """A ledger, its checkpoint file, and the terms of the policy that names them."""
    if not ledger.lower().endswith(".toml"):
        path = Path(ledger)
        return path, default_checkpoint(path) if checkpoint is None else Path(checkpoint), None
    if checkpoint is not None:
        raise PolicyError(f"--checkpoint is for a ledger file; the policy {ledger} names its own.")
    terms = read_terms(ledger)
    return terms.ledger, terms.checkpoint, terms


def _open(path: Path, checkpoint: Path, terms: Terms | None) -> Ledger:
    dataset, monthly = (terms.dataset, terms.monthly) if terms else (None, False)
    return Ledger(path, checkpoint, dataset, monthly=monthly, read_only=True)


def _event_row(event: Event) -> list[Cell]:
    losses = zip(event.amount or (None,) * 3, (NANO, ATTO, PICO), strict=False)
    exact = (None if loss is None else Fraction(loss, unit) for loss, unit in losses)
    return [event.number, event.time, event.kind, event.ticket, event.analyst, *exact]

"""The command line's `dp-sql budget` and `dp-sql ledger`: what is spent, and the book of it.

For the owner. A ledger is only read, and never made; what is asked for goes to standard output,
what is wrong to standard error; the exit code is 0 or 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dp_sql.budget.account import BudgetRow, owner_rows
from dp_sql.budget.amounts import ATTO, NANO, PICO
from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms
from dp_sql.budget.verify import adopt, verify
from dp_sql.cli.bars import bars, decimal, visible
from dp_sql.cli.burn_down import curves, draw
from dp_sql.errors import DpSqlError, PolicyError
from dp_sql.policy.model import read_policy

_BUDGET = """\
Shows how much of the budget of POLICY is spent and left: one bar for all analysts together, then
one for each who has asked or has a cap of its own. With refresh = "monthly": of this month (UTC).
"""
_BUDGET_EPILOG = """\
examples:
  dp-sql budget policy.toml
  dp-sql budget policy.toml --csv > spent.csv     (exact decimals, as FROM dp_budget() has them)
  dp-sql budget policy.toml --plot burn.png       (what was spent over time; needs matplotlib)

It opens the ledger that the policy names, reads it, and leaves it as it is.
docs/budget.md says what the numbers mean.
"""
_LEDGER = """\
Lists the events of a ledger, oldest first, or looks after the book itself. LEDGER is a ledger, or a
policy (its name ends in .toml) whose [budget] says where the ledger and its witness are.

  dp-sql ledger LEDGER            every event: its number, time (UTC), kind, ticket, analyst, and
                                  the epsilon, delta and rho that it moved
  dp-sql ledger verify LEDGER     reads every event, recomputes the chain, and compares the
                                  witness
  dp-sql ledger witness LEDGER    writes a lost witness anew, once every event is checked; only
                                  for a ledger of which you know that it is the newest
"""
_LEDGER_EPILOG = """\
examples:
  dp-sql ledger policy.toml --csv > events.csv
  dp-sql ledger verify policy.toml
  dp-sql ledger verify shop.ledger.sqlite --witness /mnt/other-disk/shop.witness

A ledger that is called verify or witness is opened as ./verify or ./witness.
"""
_ACTIONS = ("verify", "witness")
_COLUMNS = ("number", "time", "kind", "ticket", "analyst", "epsilon", "delta", "rho")
_LINE = "{:>6}  {:20}  {:9}  {:32}  {:16}  {:>12}  {:>12}  {}"

_Value = str | int | Fraction | None


@dataclass(frozen=True)
class _Book:
    """A ledger and its witness; the dataset that it must be of, where a policy says so."""

    ledger: Path
    witness: Path
    dataset: str | None = None
    monthly: bool = False


def main_budget(arguments: Sequence[str]) -> int:
    """Run `dp-sql budget` with what follows these words; returns the exit code."""
    options = _budget_parser().parse_args(arguments)
    return _guarded(lambda: _budget(options))


def main_ledger(arguments: Sequence[str]) -> int:
    """Run `dp-sql ledger` with what follows these words; returns the exit code."""
    parser = _ledger_parser()
    options = parser.parse_args(arguments)
    *action, options.ledger = options.words
    if len(action) > 1 or (action and action[0] not in _ACTIONS):
        parser.error("say LEDGER, verify LEDGER or witness LEDGER")
    if not action and options.ledger in _ACTIONS:
        parser.error(f"say of which ledger; one that is called so is opened as ./{options.ledger}")
    if action and (options.csv or options.json):
        parser.error(f"{action[0]} answers in a sentence; --csv and --json are for the events")
    run = {(): _list, ("verify",): _verify, ("witness",): _witness}[tuple(action)]
    return _guarded(lambda: run(_book(options), options))


def _guarded(run: Callable[[], int]) -> int:
    try:
        return run()
    except BrokenPipeError:  # of `dp-sql ledger … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except DpSqlError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except (Exception, KeyboardInterrupt) as error:
        print(str(error) or "Interrupted.", file=sys.stderr)
    return 1


def _budget_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dp-sql budget",
        description=_BUDGET,
        epilog=_BUDGET_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("policy", metavar="POLICY", help="a policy file with a [budget]")
    _add_forms(parser, "rows")
    parser.add_argument(
        "--plot", metavar="FILE",
        help="draw what was spent over time, too: a .png, .svg or .pdf, written anew",
    )  # fmt: skip
    return parser


def _ledger_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dp-sql ledger",
        usage="dp-sql ledger [verify | witness] LEDGER [--witness FILE] [--csv | --json]",
        description=_LEDGER,
        epilog=_LEDGER_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words", nargs="+", metavar="LEDGER", help="a ledger, or a policy whose name ends in .toml"
    )
    parser.add_argument(
        "--witness", metavar="FILE",
        help="the witness of a ledger (default: beside it, LEDGER.witness); a policy says its own",
    )  # fmt: skip
    _add_forms(parser, "events")
    return parser


def _add_forms(parser: argparse.ArgumentParser, what: str) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help=f"print the {what} as CSV with a header")
    form.add_argument("--json", action="store_true", help=f"print the {what} as a JSON array")


def _budget(options: argparse.Namespace) -> int:
    terms = _terms(options.policy)
    book = _Book(terms.ledger, terms.checkpoint, terms.dataset, terms.monthly)
    with _opened(book) as ledger:
        rows = owner_rows(ledger, terms)
        if options.plot is not None:
            draw(curves(ledger, terms, datetime.now(UTC)), terms, Path(options.plot))
    if options.csv or options.json:
        names = [field.name for field in fields(BudgetRow)]
        _print_rows(names, map(astuple, rows), options)
        return 0
    print(bars(rows, terms, shutil.get_terminal_size().columns))
    if options.plot is not None:
        print(f"\n{options.plot} is written.")
    return 0


def _terms(path: str) -> Terms:
    terms = read_policy(path).budget
    if terms is None:
        raise PolicyError(
            f"{path} has no [budget]: analysts may ask without end. docs/budget.md says how to "
            "choose one."
        )
    return terms


def _book(options: argparse.Namespace) -> _Book:
    if not options.ledger.lower().endswith(".toml"):
        witness = f"{options.ledger}.witness" if options.witness is None else options.witness
        return _Book(Path(options.ledger), Path(witness))
    if options.witness is not None:
        raise PolicyError(f"--witness is for a ledger; {options.ledger} says itself where it is.")
    terms = _terms(options.ledger)
    return _Book(terms.ledger, terms.checkpoint, terms.dataset, terms.monthly)


def _opened(book: _Book) -> Ledger:
    return Ledger(book.ledger, book.witness, book.dataset, monthly=book.monthly, read_only=True)


def _list(book: _Book, options: argparse.Namespace) -> int:
    with _opened(book) as ledger:
        rows = map(_event_row, ledger.events())
        if options.csv or options.json:
            _print_rows(_COLUMNS, rows, options)
            return 0
        print(_LINE.format(*_COLUMNS).rstrip())
        for row in rows:
            print(_LINE.format(*(visible(_text(value)) for value in row)).rstrip())
    return 0


def _event_row(event: Event) -> tuple[_Value, ...]:
    head = (event.number, event.time, event.kind, event.ticket, event.analyst)
    amount = event.amount
    if amount is None:
        return (*head, None, None, None)
    rho = None if amount.rho is None else Fraction(amount.rho, PICO)
    return (*head, Fraction(amount.epsilon, NANO), Fraction(amount.delta, ATTO), rho)


def _verify(book: _Book, options: argparse.Namespace) -> int:
    n = verify(book.ledger, book.witness)
    with _opened(book) as ledger:  # a policy's ledger must be of its dataset, too
        dataset = ledger.dataset
    print(f"{book.ledger} is whole: {n} events of {dataset}, and its witness agrees.")
    return 0


def _witness(book: _Book, options: argparse.Namespace) -> int:
    n = adopt(book.ledger, book.witness)
    with _opened(book) as ledger:
        dataset = ledger.dataset
    print(f"{book.witness} is the witness of {book.ledger} from now on ({n} events of {dataset}).")
    return 0


def _print_rows(
    names: Sequence[str], rows: Iterable[Sequence[_Value]], options: argparse.Namespace
) -> None:
    if options.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(map(_text, row) for row in rows)
        return
    start = "["
    for row in rows:
        pairs = (f"{json.dumps(name)}: {_json(v)}" for name, v in zip(names, row, strict=True))
        print(start + "{" + ", ".join(pairs) + "}", end="")
        start = ",\n"
    print("]" if start != "[" else "[]")


def _text(value: _Value) -> str:
    if value is None:
        return ""
    return decimal(value) if isinstance(value, Fraction) else str(value)


def _json(value: _Value) -> str:
    """JSON of a value; numbers are written out, so no float rounds them."""
    if isinstance(value, Fraction):
        return decimal(value)
    return json.dumps(value, ensure_ascii=False)

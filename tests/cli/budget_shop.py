"""A shop with a ledger, and the commands that show it."""

from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from dp_sql.budget.amounts import amount_of
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Cap, Terms
from dp_sql.cli.main import main
from dp_sql.policy.model import read_policy
from dp_sql.udfs.mechanism import PrivacyLoss


def run(command: str, arguments: list[str]) -> int:
    return main([command, *arguments])


main_budget = partial(run, "budget")


main_ledger = partial(run, "ledger")


POLICY = """\
[budget]
dataset = "shop"
epsilon = 2
{more}
[budget.analysts.reporting]
epsilon = 0.5
"""


START = datetime(2026, 11, 21, 19, 30, 5, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


class Shop:
    """A policy, its ledger, and a clock that a test moves."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.policy = str(folder / "policy.toml")
        Path(self.policy).write_text(POLICY.format(more=more))
        terms = read_policy(self.policy).budget
        assert terms is not None
        self.terms, self.clock = terms, Clock()

    def open(self) -> Ledger:
        t = self.terms
        return Ledger(t.ledger, t.checkpoint, t.dataset, monthly=t.monthly, clock=self.clock)

    def spend(self, analyst: str, epsilon: str, outcome: str = "answered") -> str:
        with self.open() as ledger:
            amount = amount_of(PrivacyLoss(Fraction(epsilon)))
            (ticket,) = ledger.reserve(analyst, [amount], lambda of_all, own: None)
            if outcome == "cancelled":
                ledger.cancel(ticket)
            elif outcome in {"answered", "failed"}:
                ledger.settle({ticket: outcome})  # type: ignore[arg-type]
        return ticket


def output(capsys: pytest.CaptureFixture[str], wrong: bool = False) -> str:
    shown = capsys.readouterr()
    assert (shown.out if wrong else shown.err) == ""
    return shown.err if wrong else shown.out


TERMS = Terms("shop", Cap(Fraction(1), Fraction(1, 10**6)), Path("l"), Path("w"))

"""A ledger and its checkpoint in files, asked or changed by hand."""

import sqlite3
from pathlib import Path

from dp_sql.budget.ledger import Ledger
from tests.budget.ledger_checks import TENTH, admit_all


def ask(ledger: Ledger, outcome: str = "answered") -> None:
    (ticket,) = ledger.reserve("ann", [TENTH], admit_all)
    if outcome == "cancelled":
        ledger.cancel(ticket)
    else:
        ledger.settle({ticket: outcome})  # type: ignore[arg-type]


def by_hand(path: Path, *statements: str) -> None:
    """Another program at the file, as SQLite lets it."""
    con = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in statements:
            con.execute(statement)
    finally:
        con.close()

"""What a statement spent and what is left, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_sql.budget.account import BudgetRow
from dp_sql.cli.budget import visible
from dp_sql.errors import ParseError
from dp_sql.releases import Receipt
from dp_sql.session.base import Session
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import called, tokenize
from dp_sql.udfs.mechanism import in_words

_RELEASE_NOTHING = {"EXPLAIN", "DESCRIBE", "DESC", "SHOW", "PREPARE"}


def releases(statement: str) -> bool:
    """Whether a statement has DP calls that it runs.

    >>> releases("SELECT DP_TOPK(a) FROM t"), releases("EXPLAIN SELECT DP_TOPK(a) FROM t")
    (True, False)
    """
    try:
        tokens = tokenize(statement)
    except ParseError:
        return False
    names = {name.upper() for name in called(tokens)}
    return bool(names & {*FUNCTIONS, "DP"}) and tokens[0].upper not in _RELEASE_NOTHING


def cost_note(
    session: Session, n_receipts: int, budget: Sequence[BudgetRow], statement: str, answered: bool
) -> str | None:
    """A line on what a statement spent and what is left; None if it releases nothing.

    `n_receipts` and `budget` are the session's before the statement.
    """
    new = session.receipts[n_receipts:]
    if not new and not releases(statement):
        return None
    rows = session.budget()
    if answered:
        return f"spent {_loss(new) if new else 'nothing'}; {_left(session, rows)}"
    if [row.epsilon_spent for row in rows[-1:]] != [row.epsilon_spent for row in budget[-1:]]:
        return f"spent, although there is no answer; {_left(session, rows)}"
    return None


def _loss(receipts: Sequence[Receipt]) -> str:
    epsilon = sum((receipt.loss.epsilon for receipt in receipts), Fraction(0))
    delta = sum((receipt.loss.delta for receipt in receipts), Fraction(0))
    return f"epsilon = {in_words(epsilon)}" + (f", delta = {in_words(delta)}" if delta else "")


def _left(session: Session, rows: Sequence[BudgetRow]) -> str:
    capped = [row for row in rows if row.epsilon_left is not None]
    if capped:
        return "left: " + ", ".join(_left_of(row) for row in reversed(capped))
    if rows:
        return f"in this ledger: epsilon {in_words(rows[0].epsilon_spent)}"
    return f"in this session: {_loss(session.receipts)}"


def _left_of(row: BudgetRow) -> str:
    left, total = row.epsilon_left or Fraction(0), row.epsilon_total or Fraction(0)
    words = f"epsilon {in_words(left)} of {in_words(total)}"
    if row.delta_total:
        words += f" and delta {in_words(row.delta_left or Fraction(0))}"
    return f"{words} for {'all together' if row.analyst is None else visible(row.analyst)}"

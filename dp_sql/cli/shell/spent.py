"""What an answer cost and what is left, in one line, and a budget in bars. Prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.budget.account import BudgetRow
from dp_sql.cli.bars import bar, decimal, visible
from dp_sql.errors import ParseError
from dp_sql.releases import Receipt
from dp_sql.session.base import Session
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import called, tokenize
from dp_sql.udfs.mechanism import in_words

_BAR = 20
_SHOWS = {"EXPLAIN", "DESCRIBE", "DESC", "SHOW", "PREPARE"}


@dataclass(frozen=True)
class Standing:
    """Where a session stood: how many receipts it had, and its budget."""

    n_receipts: int
    rows: tuple[BudgetRow, ...]


def standing(session: Session, statement: str) -> Standing:
    """Where a session stands before a statement."""
    return Standing(len(session.receipts), session.budget() if asks_dp(statement) else ())


def asks_dp(statement: str) -> bool:
    """Whether a statement releases by its own words: DP calls, and not behind EXPLAIN.

    >>> asks_dp("SELECT DP_TOPK(a) FROM t"), asks_dp("EXPLAIN SELECT DP_TOPK(a) FROM t")
    (True, False)
    """
    try:
        tokens = tokenize(statement)
    except ParseError:
        return False
    names = {name.upper() for name in called(tokens)}
    return bool(names & {*FUNCTIONS, "DP"}) and tokens[0].upper not in _SHOWS


def cost_note(session: Session, before: Standing, statement: str, answered: bool) -> str | None:
    """One line about what a statement spent and what is left; None where it is not about that."""
    new = session.receipts[before.n_receipts :]
    asks = asks_dp(statement)
    if not new and not asks:
        return None
    rows = session.budget()
    if answered and new:
        return f"spent {_loss(new)}; {_left(session, rows)}"
    if answered:
        return f"spent nothing; {_left(session, rows)}"
    if _own(rows) != _own(before.rows):
        return f"spent, though there is no answer; {_left(session, rows)}"
    return None


def _own(rows: Sequence[BudgetRow]) -> Fraction | None:
    return rows[-1].epsilon_spent if rows else None


def _loss(receipts: Sequence[Receipt]) -> str:
    epsilon = sum((receipt.loss.epsilon for receipt in receipts), Fraction(0))
    delta = sum((receipt.loss.delta for receipt in receipts), Fraction(0))
    return f"epsilon = {in_words(epsilon)}" + (f", delta = {in_words(delta)}" if delta else "")


def _left(session: Session, rows: Sequence[BudgetRow]) -> str:
    capped = [row for row in rows if row.epsilon_left is not None]
    if capped:
        return "left: " + ", ".join(_left_of(row) for row in reversed(capped))
    if rows:
        return f"in this book: epsilon {in_words(rows[0].epsilon_spent)}"
    return f"in this session: {_loss(session.receipts)}"


def _left_of(row: BudgetRow) -> str:
    left, total = row.epsilon_left or Fraction(0), row.epsilon_total or Fraction(0)
    words = f"epsilon {in_words(left)} of {in_words(total)}"
    if row.delta_total:
        words += f" and delta {in_words(row.delta_left or Fraction(0))}"
    return f"{words} for {'all together' if row.analyst is None else visible(row.analyst)}"


def budget_text(rows: Sequence[BudgetRow]) -> str:
    """A budget as bars: all together first, then each name."""
    names = [visible(row.analyst or f"all of {row.dataset}") for row in rows]
    longest = max(map(len, names), default=0)
    lines = [f"{name:{longest}}  {_spent_of(row)}" for name, row in zip(names, rows, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def _spent_of(row: BudgetRow) -> str:
    delta = f", delta {in_words(row.delta_spent)} spent" if row.delta_spent else ""
    if row.epsilon_total is None or row.epsilon_left is None:
        return f"epsilon {decimal(row.epsilon_spent)} spent, no cap{delta}"
    share = row.epsilon_spent / row.epsilon_total
    spent, total, left = map(decimal, (row.epsilon_spent, row.epsilon_total, row.epsilon_left))
    return f"{bar(share, _BAR)}  epsilon {spent} of {total} spent, {left} left{delta}"

"""A few privacy losses, their sums, and how many of them an accountant admits."""

from fractions import Fraction
from pathlib import Path

from dp_sql.budget import accountants
from dp_sql.budget.accountants import Accountant
from dp_sql.budget.amounts import Spent, amount_of
from dp_sql.budget.model import Cap
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.budget.adversary import Flip, log_between

TENTH = Fraction(1, 10)


MILLIONTH = Fraction(1, 10**6)


CAP = Cap(Fraction(1), MILLIONTH)


NOTES = Path(accountants.__file__).with_suffix(".md").read_text(encoding="utf-8")


TOPK = PrivacyLoss(TENTH, rho=TENTH**2 / 8, bounded_range=TENTH)


COUNT = PrivacyLoss(TENTH)


def sum_of(*losses: PrivacyLoss) -> Spent:
    spent = Spent()
    for loss in losses:
        spent = spent.plus(amount_of(loss))
    return spent


def how_many(judge: Accountant, loss: PrivacyLoss) -> int:
    spent, n = sum_of(loss), 0
    while judge.fits(spent):
        spent, n = spent.plus(amount_of(loss)), n + 1
    return n


def price(flip: Flip) -> PrivacyLoss:
    """What a mechanism with these two outcomes states of itself."""
    up, down = log_between(flip.up)[1], log_between(1 / flip.down)[1]
    if up == down:
        return PrivacyLoss(up)
    return PrivacyLoss(up + down, rho=(up + down) ** 2 / 8, bounded_range=up + down)

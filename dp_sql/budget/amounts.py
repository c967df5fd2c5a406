"""Losses as whole numbers, each rounded up: what a ledger stores and adds. Pure.

A sum of integers is exact in any order and on any machine: 0.1 three times is 0.3.
"""

from fractions import Fraction
from functools import reduce
from typing import NamedTuple

from dp_sql.udfs.mechanism import PrivacyLoss

NANO = 10**9  # epsilon and a bounded range are counted in 1e-9
PICO = 10**12  # rho is counted in 1e-12
ATTO = 10**18  # delta is counted in 1e-18
LARGEST = 2**63 - 1  # the largest number in a ledger


class Amount(NamedTuple):
    """One loss in whole units, each rounded up.

    epsilon: in 1e-9; 0 in the second amount of an approximate rho (`amounts_of`), which has only a
        delta. delta: in 1e-18. rho: of zCDP in 1e-12; None where it is unknown.
    bounded_range: the length of the interval in which the privacy loss of each pair of neighbours
        lies except with probability delta, in 1e-9; None where it is unknown. For a release that
        first draws groups or samples it is the length given the draws of all other people
        (accountants.md).
    """

    epsilon: int
    delta: int = 0
    rho: int | None = None
    bounded_range: int | None = None

    @property
    def is_slack(self) -> bool:
        """Whether this is the delta of an approximate rho: it has a rho of 0 beyond that."""
        return not self.epsilon and self.rho is None


class Spent(NamedTuple):
    """The sum of some losses, and what an accountant must know about each of them.

    A ledger hashes these numbers in this order.
    """

    n: int = 0  # their number
    epsilon: int = 0
    delta: int = 0
    rho: int = 0  # the sum over those with a known rho
    with_rho: int = 0  # the number of these, and of all slack
    with_range: int = 0
    widest: int = 0  # the widest bounded range
    slack: int = 0  # the part of delta outside which an approximate rho holds

    def merged(self, other: "Spent", sign: int = 1) -> "Spent":
        """The sum of two sums; with sign -1 their difference, except for `widest`."""
        added = [a + sign * b for a, b in zip(self, other, strict=True)]
        return Spent._make(added)._replace(widest=max(self.widest, other.widest))

    def plus(self, *amounts: Amount) -> "Spent":
        """The sum with these losses added."""
        return reduce(Spent.merged, map(_one, amounts), self)


def _one(a: Amount) -> Spent:
    with_rho, with_range = a.rho is not None or a.is_slack, a.bounded_range is not None
    return Spent(
        1, a.epsilon, a.delta, a.rho or 0, int(with_rho), int(with_range), a.bounded_range or 0,
        a.delta if a.is_slack else 0,
    )  # fmt: skip


def amount_of(loss: PrivacyLoss) -> Amount:
    """A loss in whole units, rounded up; a rho or range too large for a ledger is unknown."""
    epsilon, delta = rounded_up(loss.epsilon * NANO), rounded_up(loss.delta * ATTO)
    if epsilon > LARGEST:  # no mechanism uses as much
        raise OverflowError("epsilon does not fit into a ledger")
    return Amount(epsilon, delta, _known(loss.rho, PICO), _known(loss.bounded_range, NANO))


def amounts_of(loss: PrivacyLoss) -> tuple[Amount, ...]:
    """A loss as a ledger writes it: an approximate rho with the rest of delta, then its slack."""
    whole = amount_of(loss)
    if loss.approximate is None:
        return (whole,)
    rho, slack = loss.approximate[0], rounded_up(loss.approximate[1] * ATTO)
    rest = whole._replace(delta=whole.delta - slack, rho=_known(rho, PICO))
    return rest, Amount(0, slack, bounded_range=0)


def _known(x: Fraction | None, unit: int) -> int | None:
    whole = None if x is None else rounded_up(x * unit)
    return whole if whole is None or whole <= LARGEST else None


def rounded_up(x: Fraction) -> int:
    """The least integer that is not below x."""
    return -(-x.numerator // x.denominator)

"""Losses as whole numbers, each rounded up: what a ledger writes and adds. Pure.

A sum of integers is exact in any order and on any machine: 0.1 three times is 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dp_sql.udfs.mechanism import PrivacyLoss

NANO = 10**9
"""Epsilon and a bounded range are counted in 1e-9."""
PICO = 10**12
"""Rho is counted in 1e-12."""
ATTO = 10**18
"""Delta is counted in 1e-18."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Amount:
    """One loss in whole units, each rounded up.

    epsilon: in 1e-9. delta: in 1e-18. rho: of zCDP in 1e-12; None where it is unknown.
    bounded_range: the length of the interval in which the privacy loss of each pair of neighbours
        lies, in 1e-9; None where it is unknown. For a release that first draws groups or samples it
        is the length given the draws of all other people (accountants.md).
    """

    epsilon: int
    delta: int = 0
    rho: int | None = None
    bounded_range: int | None = None


@dataclass(frozen=True)
class Spent:
    """The sum of some losses, and what an accountant must know of them one by one.

    n: how many there are. with_rho, with_range: of how many of them rho, or a bounded range, is
    known; rho adds up those. widest: the widest bounded range of one.
    """

    n: int = 0
    epsilon: int = 0
    delta: int = 0
    rho: int = 0
    with_rho: int = 0
    with_range: int = 0
    widest: int = 0

    def and_also(self, other: Spent) -> Spent:
        """The sum of two sums."""
        return Spent(
            n=self.n + other.n,
            epsilon=self.epsilon + other.epsilon,
            delta=self.delta + other.delta,
            rho=self.rho + other.rho,
            with_rho=self.with_rho + other.with_rho,
            with_range=self.with_range + other.with_range,
            widest=max(self.widest, other.widest),
        )

    def plus(self, amount: Amount) -> Spent:
        """The sum with one loss more."""
        return Spent(
            n=self.n + 1,
            epsilon=self.epsilon + amount.epsilon,
            delta=self.delta + amount.delta,
            rho=self.rho + (amount.rho or 0),
            with_rho=self.with_rho + (amount.rho is not None),
            with_range=self.with_range + (amount.bounded_range is not None),
            widest=max(self.widest, amount.bounded_range or 0),
        )


def amount_of(loss: PrivacyLoss) -> Amount:
    """A loss in whole units, rounded up; what is too large for a ledger counts as unknown.

    Raises:
        OverflowError: epsilon itself is too large; no mechanism asks for as much.
    """
    epsilon, delta = _up(loss.epsilon * NANO), _up(loss.delta * ATTO)
    if epsilon > _LARGEST:
        raise OverflowError("epsilon does not fit into a ledger")
    return Amount(epsilon, delta, _known(loss.rho, PICO), _known(loss.bounded_range, NANO))


def _known(x: Fraction | None, unit: int) -> int | None:
    whole = None if x is None else _up(x * unit)
    return whole if whole is None or whole <= _LARGEST else None


def _up(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)

"""What reservations add up to, for each analyst and for all. Knows no file and no time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dp_sql.budget.amounts import Amount, Spent


@dataclass(frozen=True)
class Lot:
    """Some reservations of one analyst that share their bounded range, added up.

    n: how many; rho: the sum over the with_rho of them of which it is known.
    """

    analyst: str
    n: int
    epsilon: int
    delta: int
    rho: int
    with_rho: int
    bounded_range: int | None


def lot_of(analyst: str, amount: Amount) -> Lot:
    """A single reservation."""
    known = amount.rho is not None
    return Lot(
        analyst, 1, amount.epsilon, amount.delta, amount.rho or 0, known, amount.bounded_range
    )


@dataclass
class _Sum:
    n: int = 0
    epsilon: int = 0
    delta: int = 0
    rho: int = 0
    with_rho: int = 0
    with_range: int = 0
    widest: int = 0
    ranges: Counter[int] = field(default_factory=Counter)

    def change(self, lot: Lot, sign: int) -> None:
        self.n += sign * lot.n
        self.epsilon += sign * lot.epsilon
        self.delta += sign * lot.delta
        self.rho += sign * lot.rho
        self.with_rho += sign * lot.with_rho
        if lot.bounded_range is not None:
            self.with_range += sign * lot.n
            self._count(lot.bounded_range, sign * lot.n)

    def _count(self, width: int, n: int) -> None:
        # All widths are kept, since the widest may be cancelled and the next one counts again.
        self.ranges[width] += n
        if self.ranges[width]:
            self.widest = max(self.widest, width)
        else:
            del self.ranges[width]
            if width == self.widest:
                self.widest = max(self.ranges, default=0)

    def spent(self) -> Spent:
        return Spent(
            self.n, self.epsilon, self.delta, self.rho, self.with_rho, self.with_range, self.widest
        )


class Tally:
    """The sums of one period."""

    def __init__(self, period: str) -> None:
        self.period = period
        self._all = _Sum()
        self._by_analyst: dict[str, _Sum] = {}

    def add(self, lot: Lot) -> None:
        """Count reservations."""
        self._change(lot, 1)

    def take_off(self, lot: Lot) -> None:
        """Count reservations no longer: they were cancelled."""
        self._change(lot, -1)

    def spent(self, analyst: str | None = None) -> Spent:
        """The sum for one analyst, or for all together."""
        if analyst is None:
            return self._all.spent()
        return self._by_analyst.get(analyst, _Sum()).spent()

    def _change(self, lot: Lot, sign: int) -> None:
        self._all.change(lot, sign)
        self._by_analyst.setdefault(lot.analyst, _Sum()).change(lot, sign)

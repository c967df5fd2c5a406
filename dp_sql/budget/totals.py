"""What reservations add up to, ever and in the newest month. Knows no file and no clock."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.model import normal_name


@dataclass(frozen=True)
class Lot:
    """Some reservations of one analyst that share their bounded range, added up.

    n: how many; rho: the sum over the with_rho of them of which it is known. newest: the number
    of the newest event among them, be it a reservation or what took one back.
    """

    analyst: str
    n: int
    epsilon: int
    delta: int
    rho: int
    with_rho: int
    bounded_range: int | None
    newest: int = 0


def lot_of(analyst: str, a: Amount | None) -> Lot | None:
    """A single reservation; None where nothing is reserved."""
    if a is None:
        return None
    return Lot(analyst, 1, a.epsilon, a.delta, a.rho or 0, a.rho is not None, a.bounded_range)


def month_of(time: str) -> str:
    """The calendar month in which a time of an event lies."""
    return time[: len("2026-11")]


@dataclass
class _Sum:
    n: int = 0
    epsilon: int = 0
    delta: int = 0
    rho: int = 0
    with_rho: int = 0
    with_range: int = 0
    widest: int = 0
    width: int = 0  # all ranges together, so that none can change unseen beside a wider one
    ranges: Counter[int] = field(default_factory=Counter)

    def change(self, lot: Lot, sign: int) -> None:
        self.n += sign * lot.n
        self.epsilon += sign * lot.epsilon
        self.delta += sign * lot.delta
        self.rho += sign * lot.rho
        self.with_rho += sign * lot.with_rho
        if lot.bounded_range is not None:
            self.with_range += sign * lot.n
            self.width += sign * lot.n * lot.bounded_range
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

    def text(self) -> str:
        return (
            f"{self.n} {self.epsilon} {self.delta} {self.rho} "
            f"{self.with_rho} {self.with_range} {self.widest} {self.width}"
        )


_NOTHING = _Sum()


class _Sums:
    """Of all together, and of each analyst."""

    def __init__(self) -> None:
        self.everybody = _Sum()
        self.by_analyst: dict[str, _Sum] = {}
        self.spellings: dict[str, list[str]] = {}

    def change(self, lot: Lot, sign: int) -> None:
        self.everybody.change(lot, sign)
        if lot.analyst not in self.by_analyst:
            self.by_analyst[lot.analyst] = _Sum()
            self.spellings.setdefault(_normal(lot.analyst), []).append(lot.analyst)
        self.by_analyst[lot.analyst].change(lot, sign)

    def of(self, analyst: str) -> _Sum:
        """The sum of one name exactly as it is written."""
        return self.by_analyst.get(analyst, _NOTHING)

    def spent(self, analyst: str) -> Spent:
        """The sum of an analyst, under all names that normalise to this one.

        Names are normalised before they are written; an older ledger may hold several spellings
        of one name.
        """
        spellings = self.spellings.get(_normal(analyst), [])
        return reduce(Spent.and_also, (self.of(name).spent() for name in spellings), Spent())


class Tally:
    """The sums of all reservations, and of those in the month of the newest event.

    Args:
        time: of the newest event.
    """

    def __init__(self, time: str) -> None:
        self.month = month_of(time)
        self._ever, self._in_month = _Sums(), _Sums()

    def fill(self, ever: Iterable[Lot], in_month: Iterable[Lot], sign: int = 1) -> None:
        """Count lots that were added up elsewhere; with sign -1: count them no longer."""
        for lot in ever:
            self._ever.change(lot, sign)
        for lot in in_month:
            self._in_month.change(lot, sign)

    def reach(self, time: str) -> None:
        """Go on to the time of the next event: a month may begin."""
        if month_of(time) != self.month:
            self.month, self._in_month = month_of(time), _Sums()

    def add(self, lot: Lot) -> None:
        """Count what is reserved now."""
        self._ever.change(lot, 1)
        self._in_month.change(lot, 1)

    def take_off(self, lot: Lot, reserved: str) -> None:
        """Count something no longer: it was cancelled; `reserved` is when it was reserved."""
        self._ever.change(lot, -1)
        if month_of(reserved) == self.month:
            self._in_month.change(lot, -1)

    def spent(self, analyst: str | None = None, month: str | None = None) -> Spent:
        """The sum for one analyst, or for all together: ever, or in a month not yet over."""
        if month not in {None, self.month}:
            return Spent()
        sums = self._ever if month is None else self._in_month
        return sums.everybody.spent() if analyst is None else sums.spent(analyst)

    def analysts(self) -> list[str]:
        """The normalised name of each analyst who ever reserved something, in order."""
        return sorted(self._ever.spellings)

    def spellings(self, analyst: str) -> list[str]:
        """The spellings of this analyst's name in the ledger."""
        return sorted({analyst, *self._ever.spellings.get(_normal(analyst), [])})

    def sums(self, analyst: str) -> str:
        """Three short hashes of what counts: of all, of the analyst ever, and in the month."""
        ever, month = self._ever, self._in_month
        of_all = f"{self.month} {ever.everybody.text()} {month.everybody.text()}"
        of_own = f"{self.month} {month.of(analyst).text()}"
        return " ".join(map(_short, (of_all, ever.of(analyst).text(), of_own)))


def _normal(name: object) -> str:
    return normal_name(str(name))  # any other type is refused when the event is written


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]

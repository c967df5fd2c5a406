"""What reservations add up to, ever and in the newest month. Knows no file and no clock."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.model import normal_name


class Subtotal(NamedTuple):
    """The sum of some reservations of one analyst that share their bounded range.

    newest: the number of the newest event among them: a reservation, or what cancelled one.
    """

    analyst: str
    spent: Spent
    newest: int = 0


def month_of(time: str) -> str:
    """The calendar month of an event's time."""
    return time[: len("2026-11")]


@dataclass
class _Sum:
    """The sum for one analyst, or for all; can be reduced again.

    width: all ranges together, so that none can change unnoticed next to a wider one. ranges: how
    many reservations have each range, since the widest may be cancelled.
    """

    spent: Spent = field(default_factory=Spent)
    width: int = 0
    ranges: Counter[int] = field(default_factory=Counter)

    def change(self, part: Spent, sign: int) -> None:
        self.spent = self.spent.merged(part, sign)
        if part.with_range:
            n, width = sign * part.n, part.widest
            self.width += n * width
            self.ranges[width] += n
            if not self.ranges[width]:
                del self.ranges[width]
                self.spent = replace(self.spent, widest=max(self.ranges, default=0))

    def __str__(self) -> str:
        s = self.spent
        return (
            f"{s.n} {s.epsilon} {s.delta} {s.rho} {s.with_rho} {s.with_range} {s.widest} "
            f"{self.width}"
        )


_NOTHING = _Sum()
_Sums = Mapping[str | None, _Sum]
"""The sum of each analyst, by the name as it is written; None: of all together."""


class Totals:
    """The sums of all reservations, and of those in the month of the newest event.

    Args:
        time: of the newest event.
    """

    def __init__(self, time: str) -> None:
        self.month = month_of(time)
        self._ever: _Sums = defaultdict(_Sum)
        self._in_month: _Sums = defaultdict(_Sum)
        self._spellings: dict[str, set[str]] = {}

    def fill(self, ever: Iterable[Subtotal], in_month: Iterable[Subtotal], sign: int = 1) -> None:
        """Add subtotals; with sign -1, subtract them."""
        for sums, parts in ((self._ever, ever), (self._in_month, in_month)):
            for part in parts:
                self._spellings.setdefault(_normal(part.analyst), set()).add(part.analyst)
                for name in (None, part.analyst):
                    sums[name].change(part.spent, sign)

    def reach(self, time: str) -> None:
        """Go on to the time of the next event: a month may begin."""
        if month_of(time) != self.month:
            self.month, self._in_month = month_of(time), defaultdict(_Sum)

    def add(self, analyst: str, amount: Amount) -> None:
        """Count what is reserved now."""
        part = Subtotal(analyst, Spent().plus(amount))
        self.fill([part], [part])

    def take_off(self, analyst: str, amount: Amount, reserved: str) -> None:
        """Count something no longer, as it was cancelled; `reserved` is when it was reserved."""
        part = Subtotal(analyst, Spent().plus(amount))
        self.fill([part], [part] if month_of(reserved) == self.month else [], -1)

    def spent(self, analyst: str | None = None, month: str | None = None) -> Spent:
        """The sum for one analyst, or for all together: ever, or in a month that is not yet over.

        An analyst's sum covers all names that normalise to this one: names are normalised before
        they are written, but an older ledger may hold several spellings of one.
        """
        if month not in {None, self.month}:
            return Spent()
        sums = self._ever if month is None else self._in_month
        names = [None] if analyst is None else self._spellings.get(_normal(analyst), ())
        return reduce(Spent.merged, (sums.get(name, _NOTHING).spent for name in names), Spent())

    def analysts(self) -> list[str]:
        """The normalised name of each analyst who ever reserved something, in order."""
        return sorted(self._spellings)

    def spellings(self, analyst: str) -> list[str]:
        """The spellings of this analyst's name in the ledger."""
        return sorted({analyst, *self._spellings.get(_normal(analyst), ())})

    def sums(self, analyst: str) -> str:
        """Three short hashes of what counts: of all, of the analyst ever, and in the month."""
        ever, month = self._ever, self._in_month
        texts = (
            f"{self.month} {ever.get(None, _NOTHING)} {month.get(None, _NOTHING)}",
            f"{ever.get(analyst, _NOTHING)}",
            f"{self.month} {month.get(analyst, _NOTHING)}",
        )
        return " ".join(hashlib.sha256(text.encode("ascii")).hexdigest()[:32] for text in texts)


def _normal(name: object) -> str:
    return normal_name(str(name))  # any other type is refused when the event is written

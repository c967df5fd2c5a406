"""What reservations add up to, ever and in the newest month. Knows no file and no clock."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.model import normal_name


@dataclass(frozen=True)
class Subtotal:
    """The sum of some reservations of one analyst that share their bounded range.

    n: how many; rho: the sum over the with_rho of them whose rho is known. newest: the number of
    the newest event among them: a reservation, or what cancelled one.
    """

    analyst: str
    n: int
    epsilon: int
    delta: int
    rho: int
    with_rho: int
    bounded_range: int | None
    newest: int = 0


def subtotal_of(analyst: str, a: Amount) -> Subtotal:
    """A single reservation."""
    return Subtotal(analyst, 1, a.epsilon, a.delta, a.rho or 0, a.rho is not None, a.bounded_range)


def month_of(time: str) -> str:
    """The calendar month of an event's time."""
    return time[: len("2026-11")]


@dataclass
class _Sum:
    """The sum for one analyst, or for all; can be reduced again.

    width: all ranges together, so that none can change unseen beside a wider one. ranges: how
    many reservations have each range, since the widest may be cancelled.
    """

    spent: Spent = field(default_factory=Spent)
    width: int = 0
    ranges: Counter[int] = field(default_factory=Counter)

    def change(self, part: Subtotal, sign: int) -> None:
        old, n, width = self.spent, sign * part.n, part.bounded_range
        widest = old.widest
        if width is not None:
            self.width += n * width
            self.ranges[width] += n
            widest = max(widest, width)
            if not self.ranges[width]:
                del self.ranges[width]
                widest = max(self.ranges, default=0) if width == widest else widest
        self.spent = Spent(
            n=old.n + n,
            epsilon=old.epsilon + sign * part.epsilon,
            delta=old.delta + sign * part.delta,
            rho=old.rho + sign * part.rho,
            with_rho=old.with_rho + sign * part.with_rho,
            with_range=old.with_range + (0 if width is None else n),
            widest=widest,
        )

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
                    sums[name].change(part, sign)

    def reach(self, time: str) -> None:
        """Go on to the time of the next event: a month may begin."""
        if month_of(time) != self.month:
            self.month, self._in_month = month_of(time), defaultdict(_Sum)

    def add(self, part: Subtotal) -> None:
        """Count what is reserved now."""
        self.fill([part], [part])

    def take_off(self, part: Subtotal, reserved: str) -> None:
        """Count something no longer, as it was cancelled; `reserved` is when it was reserved."""
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

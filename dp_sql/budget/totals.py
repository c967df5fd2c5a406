"""What the events of a ledger add up to: ever, and in the current month. Knows no file."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.events import Event
from dp_sql.budget.model import normal_name


class Subtotal(NamedTuple):
    """The sum of some reservations of an analyst with one bounded range, and their newest event."""

    analyst: str
    spent: Spent
    newest: int = 0


def month_of(time: str) -> str:
    """The calendar month of an event's time."""
    return time[: len("2026-11")]


@dataclass
class _Sum:
    """The sum for one analyst, or for all; can be reduced again."""

    spent: Spent = field(default_factory=Spent)
    width: int = 0  # all ranges together, so that none can change unseen beside a wider one
    ranges: Counter[int] = field(default_factory=Counter)  # since the widest may be cancelled

    def change(self, part: Spent, sign: int) -> None:
        self.spent = self.spent.merged(part, sign)
        if part.with_range:
            n, width = sign * part.n, part.widest
            self.width += n * width
            self.ranges[width] += n
            if not self.ranges[width]:
                del self.ranges[width]
                self.spent = self.spent._replace(widest=max(self.ranges, default=0))

    def __str__(self) -> str:
        *spent, slack = self.spent  # which older ledgers have none of, and do not write
        return " ".join(map(str, (*spent, self.width, *([slack] if slack else []))))


_NOTHING = _Sum()
# The sum of each analyst, by the name as it is written; None: of all together.
_Sums = Mapping[str | None, _Sum]


class Totals:
    """The sums of all reservations, and of those in the month of the newest event, at `time`."""

    def __init__(self, time: str) -> None:
        self.month = month_of(time)
        self._ever: _Sums = defaultdict(_Sum)
        self._in_month: _Sums = defaultdict(_Sum)
        self._spellings: dict[str, set[str]] = {}

    def fill(self, ever: Iterable[Subtotal], in_month: Iterable[Subtotal], sign: int = 1) -> None:
        """Add subtotals; with sign -1, subtract them."""
        for sums, parts in ((self._ever, ever), (self._in_month, in_month)):
            for part in parts:
                # What is not a string is refused when the event is written.
                self._spellings.setdefault(normal_name(str(part.analyst)), set()).add(part.analyst)
                for name in (None, part.analyst):
                    sums[name].change(part.spent, sign)

    def count(
        self, time: str, analyst: str, amount: Amount | None, cancelled: Event | None
    ) -> None:
        """Count the next event: what it reserves, or no longer what it cancels."""
        if month_of(time) != self.month:
            self.month, self._in_month = month_of(time), defaultdict(_Sum)
        if amount is not None:
            part = [Subtotal(analyst, Spent().plus(amount))]
            self.fill(part, part)
        if cancelled is not None and cancelled.amount is not None:
            part = [Subtotal(cancelled.analyst, Spent().plus(cancelled.amount))]
            self.fill(part, part if month_of(cancelled.time) == self.month else [], -1)

    def spent(self, analyst: str | None = None, month: str | None = None) -> Spent:
        """The sum for an analyst, or all together: ever, or in a month that is not yet over."""
        # Names are normalised before they are written; an older ledger may hold other spellings.
        if month not in {None, self.month}:
            return Spent()
        sums = self._ever if month is None else self._in_month
        names = [None] if analyst is None else self._spellings.get(normal_name(str(analyst)), ())
        return reduce(Spent.merged, (sums.get(name, _NOTHING).spent for name in names), Spent())

    def analysts(self) -> list[str]:
        """The normalised name of each analyst who ever reserved something, in order."""
        return sorted(self._spellings)

    def spellings(self, analyst: str) -> list[str]:
        """The spellings of this analyst's name in the ledger."""
        return sorted({analyst, *self._spellings.get(normal_name(str(analyst)), ())})

    def sums(self, analyst: str) -> str:
        """Three short hashes of what counts: of all, of the analyst ever, and in the month."""
        ever, month = self._ever, self._in_month
        of_all = f"{ever.get(None, _NOTHING)} {month.get(None, _NOTHING)}"
        own = f"{ever.get(analyst, _NOTHING)}", f"{self.month} {month.get(analyst, _NOTHING)}"
        texts = (f"{self.month} {of_all}", *own)
        return " ".join(hashlib.sha256(text.encode("ascii")).hexdigest()[:32] for text in texts)

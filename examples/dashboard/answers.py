"""What a released value says: a number, and the interval around it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Number:
    """A released number.

    Args:
        low: with the confidence of the answer, the true number is not below.
        high: the same for above. With `is_open` nothing bounds the true number from above: then
            `high` says only as much of the noise.
        is_count: whether the true number cannot be negative.
        bound: for how much one person counts at most, if the answer says it.
    """

    value: Any
    low: Any = None
    high: Any = None
    is_open: bool = False
    is_count: bool = False
    bound: Any = None


def number(value: Any, within: Any = None) -> Number | None:
    """Read a value: a bare number, or a report; None for NULL.

    within: how far all numbers of the answer are from the true ones, if EXPLAIN says it.

    >>> number({"estimate": 50, "lower_bound": 40, "contribution_bound": 2})
    Number(value=50, low=40, high=60, is_open=True, is_count=True, bound=2)
    >>> number(50, within=5)
    Number(value=50, low=45, high=55, is_open=False, is_count=True, bound=None)
    """
    report = value if isinstance(value, dict) else {"estimate": value}
    estimate, low = report.get("estimate"), report.get("lower_bound")
    bound, noise = report.get("contribution_bound"), report.get("noise")
    if estimate is None:
        return None
    if not isinstance(estimate, int | float | Decimal):
        return Number(estimate)
    if within is not None:
        return Number(estimate, estimate - within, estimate + within, False, True, bound)
    if low is not None:
        high = estimate + (estimate - low if noise is None else noise)
        return Number(estimate, low, high, True, True, bound)
    if noise is not None:
        return Number(estimate, estimate - noise, estimate + noise, bound=bound)
    return Number(estimate, bound=bound)


def named(rows: Rows, within: Any = None) -> list[tuple[Any, Number | None]] | None:
    """The numbers of an answer by their names: items or keys; None: it is not a list of numbers.

    >>> named([([{"item": "Emma", "count": 7}],)])
    [('Emma', Number(value=7, low=None, high=None, is_open=False, is_count=False, bound=None))]
    >>> named([(["Emma", "Kim"],)]) is None
    True
    """
    match rows:
        case [([{"item": _, "count": _}, *_] as items,)]:
            return [(one["item"], number(one["count"], within)) for one in items]
    found = [(row[0], number(row[-1], within)) for row in rows]
    numeric = [isinstance(one.value, int | float | Decimal) for _, one in found if one]
    return found if numeric and all(numeric) else None


def shown(value: Any) -> str:
    """A value for people.

    >>> shown(1234567), shown(-3.14159), shown(Decimal("1234.50")), shown(None)
    ('1,234,567', '-3.14', '1,234.50', '–')
    """
    match value:
        case None:
            return "–"
        case {"item": item, "count": count}:
            return f"{shown(item)} ({shown(count)})"
        case {"estimate": estimate}:
            return shown(estimate)
        case list():
            return ", ".join(map(shown, value))
        case datetime.datetime() if value.time() == datetime.time():
            return str(value.date())
    if isinstance(value, float):
        value = round(value, 2 if abs(value) < 1000 else None)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return f"{value:,}" if is_number else str(value)

"""The pictures of the page: what was released with its uncertainty, and the budget.

A solid line ends where the true number lies with the confidence of the answer. A dotted line has
no such end: it is as long as the noise may be, and the true number may be above it.
"""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Sequence
from typing import Any

import altair as alt
from answers import Number, shown

# Altair uses pandas where it is loaded, and of two browsers that come first one would find it
# half loaded. The import here waits.
importlib.import_module("pandas")

GREEN = "#2f8a80"
DOTS = [2, 4]
ROW, BELOW = 38, 8  # pixels of a bar with its name, and how far the bar is below the middle of them
LONG = 280  # pixels of a name; the rest is in its tooltip

Named = Sequence[tuple[str, Number | None]]


def bars(named: Named, unit: str, ink: str) -> Any:
    """A bar for each name, with its number and its interval; a name without a number has no bar."""
    rows = [
        {**_row(number), "name": name, "place": f"{place:06}"}
        for place, (name, number) in enumerate(named, 1)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("place:N", axis=None, scale=alt.Scale(padding=0)),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("words:N", title=unit)],
    )
    text: dict[str, Any] = {"color": ink, "fontSize": 14, "dy": -BELOW, "limit": LONG}
    name = base.mark_text(align="left", **text).encode(x=alt.value(0), text="name:N")
    number = base.mark_text(align="right", **text).encode(x=alt.value("width"), text="number:N")
    bar = base.mark_bar(color=GREEN, opacity=0.45, size=11, cornerRadius=3, yOffset=BELOW)
    x = alt.X("value:Q", axis=_axis(unit), scale=alt.Scale(nice=False))
    return _plain(
        alt.layer(bar.encode(x=x, x2=alt.datum(0)), *_whiskers(base, BELOW), name, number),
        height=alt.Step(ROW),
    )


def over_time(points: Sequence[tuple[datetime.date, Number | None]], unit: str) -> Any:
    """A line over time in a band; a time without a number is a gap."""
    rows = [{**_row(number), "time": f"{time:%Y-%m-%d}T00:00:00Z"} for time, number in points]
    time = alt.X(
        "time:T",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(title=None, grid=False, tickCount=6, labelOverlap=True),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=time,
        tooltip=[alt.Tooltip("time:T", format="%d %b %Y"), alt.Tooltip("words:N", title=unit)],
    )
    y = alt.Y("value:Q", axis=_axis(unit, grid=True))
    return _plain(
        alt.layer(
            base.mark_area(color=GREEN, opacity=0.28).encode(y="low:Q", y2="solid:Q"),
            base.mark_area(color=GREEN, opacity=0.12).encode(y="solid:Q", y2="high:Q"),
            base.mark_line(color=GREEN, strokeWidth=2.5).encode(y=y),
            base.mark_point(color=GREEN, filled=True, size=45, opacity=1).encode(y=y),
        ),
        height=260,
    )


def on_a_line(number: Number, unit: str) -> Any:
    """One number on an axis, with its interval."""
    base = alt.Chart(alt.InlineData(values=[_row(number)]))
    x = alt.X("value:Q", axis=_axis(unit), scale=alt.Scale(zero=False, nice=False, padding=24))
    ends = [base.mark_tick(color=GREEN, thickness=3, size=24).encode(x="low:Q")]
    if not number.is_open:
        ends.append(base.mark_tick(color=GREEN, thickness=3, size=24).encode(x="high:Q"))
    dot = base.mark_point(color=GREEN, filled=True, size=190, opacity=1)
    return _plain(alt.layer(*_whiskers(base), *ends, dot.encode(x=x)), height=96)


def budget_left(left: Sequence[float], total: float) -> Any:
    """The budget after each question."""
    rows = [{"n": float(n), "left": amount} for n, amount in enumerate(left)]
    rows.append({"n": len(left) - 0.6, "left": left[-1]})  # so that the last stretch is seen
    every = len(left) // 10 + 1
    below = alt.Axis(
        title="questions paid for", values=list(range(0, len(left), every)), format="d", grid=False,
        titlePadding=6,
    )  # fmt: skip
    x = alt.X("n:Q", axis=below, scale=alt.Scale(nice=False))
    y = alt.Y(
        "left:Q",
        scale=alt.Scale(domain=[0, total]),
        axis=alt.Axis(title="ε left", tickCount=4, domain=False),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    area = base.mark_area(interpolate="step-after", color=GREEN, opacity=0.1)
    line = base.mark_line(interpolate="step-after", color=GREEN, strokeWidth=2.5)
    return _plain(alt.layer(area, line), height=170)


def _row(number: Number | None) -> dict[str, Any]:
    """What is drawn of a number."""
    if number is None:
        return {"number": "no answer", "words": "no answer"}
    value, low, high = number.value, number.low, number.high
    words = shown(value)
    if low is not None:
        words += (
            f", at least {shown(max(low, 0))}" if number.is_open else f" ± {shown(high - value)}"
        )
    solid = value if number.is_open else high
    drawn = {"value": value, "low": low, "solid": solid, "high": high}
    if number.is_count:  # only its noise can be below zero
        drawn = {k: None if v is None else max(v, 0) for k, v in drawn.items()}
    numbers = {k: None if v is None else float(v) for k, v in drawn.items()}
    return {**numbers, "number": shown(value), "words": words}


def _whiskers(base: Any, below: int = 0) -> list[Any]:
    """The interval: a line to where it ends, and dots beyond."""
    line = base.mark_rule(color=GREEN, strokeWidth=2.5, yOffset=below)
    dots = base.mark_rule(color=GREEN, strokeWidth=2.5, strokeDash=DOTS, yOffset=below)
    return [line.encode(x="low:Q", x2="solid:Q"), dots.encode(x="solid:Q", x2="high:Q")]


def _axis(unit: str, grid: bool = False) -> Any:
    short = "format(datum.value, '~s')"  # 12k; of zero, 0
    return alt.Axis(title=unit, tickCount=4, labelExpr=short, grid=grid, domain=False)


def _plain(chart: Any, height: Any) -> Any:
    return chart.properties(height=height).configure_view(stroke=None)

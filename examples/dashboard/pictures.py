"""The pictures of the page: of what was released, and of the budget. Each shows only what is known.

A list without counts has no numbers in it, so its bars are equally long.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import altair as alt

# Altair uses pandas where it is loaded, and of two browsers that come first one would find it
# half loaded. The import here waits.
importlib.import_module("pandas")

INK, PALE, GREEN = "#24302f", "#b9c9c4", "#2f6b66"
FAINT = (0.34, 0.10)


def ranking(items: Sequence[str]) -> Any:
    """Items in the order of their rank: equal bars that fade, with the rank in them."""
    rows = [
        {"rank": i, "title": item, "weight": _faded(i, len(items))}
        for i, item in enumerate(items, 1)
    ]
    bars = _ranked(rows).encode(
        x=alt.datum(0, type="quantitative", axis=None, scale=alt.Scale(domain=[0, 1])),
        x2=alt.datum(1),
        opacity=alt.Opacity("weight:Q", scale=None, legend=None),
    )
    return _titled(rows, bars.mark_bar(color=GREEN, cornerRadius=5))


def counted(items: Sequence[tuple[str, int]], within: int) -> Any:
    """Items with their noisy counts as bars, and the interval around each that all of them keep."""
    rows = [
        {
            "rank": i, "title": title, "count": count, "bar": max(count, 0),
            "from": max(count - within, 0), "to": max(count + within, 0),
        }
        for i, (title, count) in enumerate(items, 1)
    ]  # fmt: skip
    axis = alt.Axis(title="people", tickCount=5, format=",d", grid=False, domainColor=PALE)
    bars = _ranked(rows).mark_bar(color=GREEN, cornerRadius=5, opacity=FAINT[0])
    whiskers = _ranked(rows).mark_rule(color=GREEN, strokeWidth=2)
    return _titled(
        rows,
        bars.encode(x=alt.X("bar:Q", axis=axis), tooltip=["title:N", "count:Q"]),
        whiskers.encode(x=alt.X("from:Q"), x2="to:Q"),
    )


def _ranked(rows: Sequence[dict[str, Any]]) -> Any:
    """A chart with a line for each rank."""
    return alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("rank:O", axis=None, scale=alt.Scale(paddingInner=0.22, paddingOuter=0.1)),
        tooltip=[alt.Tooltip("rank:O", title="rank"), alt.Tooltip("title:N", title="title")],
    )


def _titled(rows: Sequence[dict[str, Any]], *layers: Any) -> Any:
    """Layers of a ranking, and on them ranks and titles."""
    left = alt.datum(0, type="quantitative")
    base = _ranked(rows)
    rank = base.mark_text(align="right", color=GREEN, fontSize=14, fontWeight="bold", dx=32)
    name = base.mark_text(align="left", color=INK, fontSize=15, dx=46)
    texts = rank.encode(x=left, text="rank:O"), name.encode(x=left, text="title:N")
    return _plain(alt.layer(*layers, *texts), height=34 * len(rows) + 8)


def at_least(estimate: int, lower_bound: int) -> Any:
    """An estimate on a line that begins at the lower bound; nothing is said about its other end."""
    end = estimate + max(estimate - lower_bound, 1)
    rows = [{"from": max(lower_bound, 0), "estimate": estimate, "to": end}]
    base = alt.Chart(alt.InlineData(values=rows))
    axis = alt.Axis(title=None, tickCount=5, format=",d", grid=False, domainColor=PALE)
    x = alt.X("from:Q", axis=axis, scale=alt.Scale(zero=False, nice=False, padding=24))
    tail = base.mark_rule(color=GREEN, strokeWidth=3, strokeDash=[2, 5], opacity=0.45)
    line = base.mark_rule(color=GREEN, strokeWidth=3)
    bound = base.mark_tick(color=GREEN, thickness=3, size=26)
    dot = base.mark_point(color=GREEN, filled=True, size=190, opacity=1)
    return _plain(
        alt.layer(
            tail.encode(x=alt.X("estimate:Q"), x2="to:Q"),
            line.encode(x=x, x2="estimate:Q"),
            bound.encode(x="from:Q"),
            dot.encode(x="estimate:Q", tooltip=["estimate:Q"]),
        ),
        height=84,
    )


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
        axis=alt.Axis(title="ε left", tickCount=4, gridColor="#ebe7dd", domain=False),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    area = base.mark_area(interpolate="step-after", color=GREEN, opacity=0.1)
    line = base.mark_line(interpolate="step-after", color=GREEN, strokeWidth=2.5)
    return _plain(alt.layer(area, line), height=190)


def _faded(rank: int, n: int) -> float:
    """How strong the bar of a rank is: in even steps, whatever the counts were."""
    strong, weak = FAINT
    return strong - (strong - weak) * (rank - 1) / max(n - 1, 1)


def _plain(chart: Any, height: int) -> Any:
    return (
        chart.properties(height=height)
        .configure_view(stroke=None)
        .configure_axis(labelColor=INK, titleColor=INK, tickColor=PALE, titleFontWeight="normal")
    )

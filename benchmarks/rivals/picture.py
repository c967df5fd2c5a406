"""docs/comparison.svg: the errors of each library, and what a worse guess of the bound costs."""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.rivals.page import PAGE
from benchmarks.rivals.texts import NAMES, OURS

PICTURE = Path(PAGE).with_suffix(".svg")
FLOOR, CEILING = 1e-5, 2.0
"""The axis of errors; what is outside is drawn at its end."""
COLOURS = dict(
    zip(NAMES, ("#c2410c", "#2563eb", "#0f766e", "#7c3aed", "#64748b", "#a16207"), strict=True)
)
MARKS = dict(zip(NAMES, ("o", "s", "^", "D", "v", "x"), strict=True))


def _clipped(error: float) -> float:
    return min(max(error, FLOOR), CEILING)


def _draw_errors(axes: Any, results: dict[str, Any]) -> None:
    titles = results["questions"]
    for at, key in enumerate(titles):
        for name in NAMES:
            one = results["libraries"].get(name, {}).get("questions", {}).get(key, {})
            if "error" not in one or one.get("wrong"):
                continue
            ends = [_clipped(one["error"]), _clipped(one["error_95"])]
            line = {"color": COLOURS[name], "zorder": 3 if name == OURS else 2}
            axes.plot(ends, [at, at], linewidth=1, alpha=0.5, **line)
            axes.plot(ends[:1], [at], marker=MARKS[name], markersize=6, **line)
    axes.set_yticks(range(len(titles)), list(titles.values()))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(FLOOR * 0.8, CEILING * 1.2)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("relative error: median (mark) to 95 % (line); no error is at the left edge")
    for name in NAMES:
        axes.plot([], [], linestyle="", marker=MARKS[name], color=COLOURS[name], label=NAMES[name])
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.07), ncol=6, frameon=False)


def _draw_guesses(axes: Any, results: dict[str, Any], key: str) -> None:
    for name in NAMES:
        one = results["libraries"].get(name, {}).get("questions", {}).get(key, {})
        style = {"color": COLOURS[name], "marker": MARKS[name]}
        if name == OURS and "error" in one:
            axes.plot([0, 1, 2], [one["error"]] * 3, linestyle="--", **style)
        elif all("error" in one.get("guesses", {}).get(factor, {}) for factor in ("0.2", "5.0")):
            errors = [one["guesses"]["0.2"], one, one["guesses"]["5.0"]]
            axes.plot([0, 1, 2], [each["error"] for each in errors], **style)
    axes.set_xticks([0, 1, 2], ["a fifth", "the 95 %\nquantile", "five times"])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.grid(axis="y", alpha=0.3)
    axes.set_title(textwrap.fill(results["questions"][key], 30), fontsize=9)


def draw(results: dict[str, Any]) -> None:
    """Write the picture."""
    mpl.rcParams.update({"svg.hashsalt": "comparison", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(11, 7.5), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(3, 2, width_ratios=[2.4, 1])
    _draw_errors(figure.add_subplot(grid[:, 0]), results)
    for row, key in enumerate(("distinct", "rows", "sum")):
        if key in results["questions"]:
            _draw_guesses(figure.add_subplot(grid[row, 1]), results, key)
    figure.suptitle(
        "Error of private answers (ε = 1), and the same with other guesses of the bound"
    )
    figure.savefig(PICTURE, format="svg", metadata={"Date": None})

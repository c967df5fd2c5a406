"""Counting distinct elements under person-level differential privacy (Knop and Steinke 2023).

Tables 4 and 7 (how the bound is found, times how the items are counted), figure 1 (the count under
every bound), the exact distribution of the bound, and table 2 (TPC-H).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from examples.papers.distinct import tpch
from examples.papers.distinct.covers import CURVE, ONE_PASS, Study
from examples.papers.distinct.distribution import write_distribution
from examples.papers.distinct.judged import judge_table, write_note
from examples.papers.distinct.printed import (
    BEST,
    GREEDY,
    LEVELS,
    MATCHING,
    N_TRIALS,
    SAMPLING,
    TABLES,
    Spread,
)
from examples.papers.distinct.readings import write_readings
from examples.papers.distinct.rows import (
    EACH,
    IN_ALL,
    N_ORDERS,
    PAPER,
    READINGS,
    Tried,
    Values,
    try_all,
)
from examples.papers.frame.command import Setting, command
from examples.papers.frame.figures import COLOURS, panels, save
from examples.papers.frame.report import write_table, write_verdicts
from examples.papers.frame.sources import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOUR_OF = {MATCHING: "blue", GREEDY: "green", ONE_PASS: "teal", SAMPLING: "orange"}


def run(setting: Setting) -> None:
    """Write the tables, the figures and the verdicts of this paper."""
    studies, tried, verdicts = [], [], []
    if setting.quick:
        setting.note(
            f"Quick: rows of fewer than {N_TRIALS} trials, or {N_ORDERS} orders, are not judged."
        )
    for name, table in TABLES.items():
        source = _with_people(name, setting)
        if source is None:
            continue
        study = Study(source, table)
        of_study = try_all(study, setting)
        studies.append(study)
        tried.append(of_study)
        verdicts += judge_table(study, of_study)
        _write_rows(study, of_study, setting)
    if studies:
        verdicts += write_readings(studies, tried, setting)
        verdicts += write_distribution(studies, tried, setting)
        _draw_covers(studies, tried, setting)
    of_tpch = tpch.write_errors(setting)
    verdicts += of_tpch
    if verdicts:
        write_verdicts(setting.out, PAPER, verdicts, note=write_note(studies, tried, of_tpch))


def _with_people(name: str, setting: Setting) -> Source | None:
    """Find a set whose items are people's; say what is wrong where there is none."""
    source = setting.sources.get(name)
    if source is None:
        setting.note(f"{name}: missing, left out; docs/data.md says where to get it.")
    elif not source.has_people:
        setting.note(f"{name}: a histogram, left out; who holds what is wanted: user_id and item.")
    elif not len(source.graph[1]):
        setting.note(f"{name}: has no row with both user_id and item, left out.")
    else:
        return source
    return None


def _write_rows(study: Study, tried: Tried, setting: Setting) -> None:
    """Write one of tables 4 and 7 next to the paper's."""
    lines = []
    for row in study.table.rows:
        for way in (ONE_PASS, GREEDY) if row.counting == GREEDY else (row.counting,):
            ours = [tried.rows[row.selection, way, reading] for reading in READINGS]
            spreads = [_shown(row.bound), *(_shown(_spread(bounds)) for bounds, _ in ours)]
            spreads += [_shown(row.count), *(_shown(_spread(counts)) for _, counts in ours)]
            lines.append([row.selection, way, *spreads, ours[0][1].n_trials])
    whose = ("paper", *(f"ours, {reading.name}" for reading in READINGS))
    columns = [f"{what}: {who}" for what in ("bound", "count") for who in whose]
    heads = ["selection", "counting", *columns, "trials"]
    name = f"distinct_table{study.table.number}"
    write_table(setting.out, name, heads, lines, _note(study, tried))


def _note(study: Study, tried: Tried) -> str:
    return (
        f"{study.title}: 10 / 50 / 90 %, or the one value there is. {EACH.name}, with beta "
        f"{float(EACH.beta):g}, is fitted to the paper's values; {IN_ALL.name} is what it says, "
        f"and our beta, {float(IN_ALL.beta):g}. A given bound has epsilon = 1 for noise. "
        f"True number {study.n_items:,} (the paper's: {study.table.n_items:,}). The last column "
        f"has our trials, no seed; the paper's are {N_TRIALS}. {GREEDY} is Algorithm 2 of the "
        f"paper; {ONE_PASS}, is what its greedy rows agree with, found by trying, here on "
        f"{len(tried.passes)} order(s) of the people: the trials are shared among these. {BEST} by "
        f"{SAMPLING} has its counts under the paper's bound."
    )


def _spread(values: Values) -> Spread:
    low, middle, high = (values.at(level) for level in LEVELS)
    return (low, middle, high) if low < high else (None, middle, None)


def _shown(spread: Spread) -> str:
    """Write a spread as the paper's columns would be side by side.

    >>> _shown((6.9, 9.0, 13.1)), _shown((None, 1428, None))
    ('6.9 / 9 / 13.1', '1428')
    """
    return " / ".join(f"{value:.1f}".removesuffix(".0") for value in spread if value is not None)


def _draw_covers(studies: Sequence[Study], tried: Sequence[Tried], setting: Setting) -> None:
    """Draw figure 1 of the paper: the count under every bound."""
    figure, axes = panels(1, len(studies), height=3.0)
    for panel, study, of_study in zip(axes[0], studies, tried, strict=True):
        _draw_cover(panel, study, of_study)
    axes[0, 0].set_ylabel("distinct items counted, F(l)")
    axes[0, 0].legend(loc="lower right", fontsize=7)
    n_samples = ", ".join(
        f"{len(t.sampled)} ({s.title})" for s, t in zip(studies, tried, strict=True)
    )
    note = f"No noise. Sampling: median and 10–90 % of samples drawn without a seed: {n_samples}."
    save(figure, setting.out, "distinct_covers", note)


def _draw_cover(axes: Axes, study: Study, tried: Tried) -> None:
    x = range(1, CURVE + 1)
    curves = {way: study.covers[way] for way in (MATCHING, GREEDY)} | {ONE_PASS: tried.passes[0]}
    for way, cover in curves.items():
        style = "--" if way == ONE_PASS else "-"
        axes.plot(
            study.bounds[:CURVE], cover[:CURVE], style, color=COLOURS[_COLOUR_OF[way]], label=way
        )
    sampled = np.array(tried.sampled)[:, :CURVE]
    low, middle, high = np.quantile(sampled, [p / 100 for p in LEVELS], axis=0)
    colour = COLOURS[_COLOUR_OF[SAMPLING]]
    axes.plot(x, middle, color=colour, label=SAMPLING)
    axes.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
    axes.axhline(study.n_items, color=COLOURS["grey"], linestyle=":", label="true number")
    axes.set(xscale="log", xlabel="contribution bound l", ylim=(0, None))
    axes.set_xticks([1, 2, 5, 10, 20, 50, 99], ["1", "2", "5", "10", "20", "50", "99"])
    axes.minorticks_off()
    axes.set_title(study.title, fontsize=9)


if __name__ == "__main__":
    command({"distinct_count": run})

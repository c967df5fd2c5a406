"""Counting distinct elements under person-level differential privacy (Knop and Steinke 2023).

Tables 4 and 7 (how the bound is found, times how the items are counted), figure 1 (the count under
every bound), the exact law of the bound, and table 2 (TPC-H).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from examples.papers.distinct import tpch
from examples.papers.distinct.covers import CURVE, ONE_PASS, Study
from examples.papers.distinct.law import write_law
from examples.papers.distinct.printed import (
    BEST,
    CHOSEN,
    GREEDY,
    LEVELS,
    MATCHING,
    N_TRIALS,
    PRIVATE,
    SAMPLING,
    TABLES,
    Row,
    Spread,
)
from examples.papers.distinct.rows import (
    EACH,
    IN_ALL,
    PAPER,
    READINGS,
    Reading,
    Tried,
    Values,
    try_all,
)
from examples.papers.frame.command import Setting, command
from examples.papers.frame.figures import COLOURS, panels, save
from examples.papers.frame.report import write_table, write_verdicts
from examples.papers.frame.verdicts import Verdict, judge

_COLOUR_OF = {MATCHING: "blue", GREEDY: "green", ONE_PASS: "teal", SAMPLING: "orange"}


def run(setting: Setting) -> None:
    """Write the tables, the figures and the verdicts of this paper."""
    studies, tried, verdicts = [], [], []
    if setting.quick:
        setting.note(f"Quick: rows of fewer than {N_TRIALS} trials are shown, and not judged.")
    for name, table in TABLES.items():
        source = setting.sources.get(name)
        if source is None:
            setting.note(f"{name}: not there, left out; docs/data.md says where it is had.")
            continue
        study = Study(source, table)
        of_study = try_all(study, setting)
        studies.append(study)
        tried.append(of_study)
        verdicts += _write_rows(study, of_study, setting)
    if studies:
        verdicts += write_law(studies, tried, setting)
        _draw_covers(studies, tried, setting)
    verdicts += tpch.write_errors(setting)
    if verdicts:
        write_verdicts(setting.out, PAPER, verdicts)


def _write_rows(study: Study, tried: Tried, setting: Setting) -> list[Verdict]:
    """Write one of tables 4 and 7 beside the paper's, and judge what it prints."""
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
    return [
        *_judge_rows(study, tried, EACH, ONE_PASS),
        _judge_reading(study, tried, IN_ALL, ONE_PASS, _SPENDS_MORE),
        _judge_reading(study, tried, EACH, GREEDY, _ONE_PASS_THERE),
    ]


_SPENDS_MORE = "The values come out when the choice alone has epsilon = 1, and beta is 0.001."
_ONE_PASS_THERE = f"The values come out when greedy is one pass over the people: see {ONE_PASS}."


def _note(study: Study, tried: Tried) -> str:
    return (
        f"{study.title}: 10 / 50 / 90 %, or the one value there is. beta is {float(EACH.beta):g} "
        f"with {EACH.name}, {float(IN_ALL.beta):g} with {IN_ALL.name}; a given bound has epsilon = "
        f"1 for its noise. True number {study.n_items:,} (the paper's: {study.table.n_items:,}). "
        f"The last column has our trials, no seed; the paper's are {N_TRIALS}. {GREEDY} is "
        f"Algorithm 2 of the paper; {ONE_PASS}, is what its greedy rows agree with, here on "
        f"{len(tried.passes)} order(s) of the people. {BEST} by {SAMPLING} has its counts under "
        "the paper's bound."
    )


def _spread(values: Values) -> Spread:
    low, middle, high = (values.at(level) for level in LEVELS)
    return (low, middle, high) if low < high else (None, middle, None)


def _shown(spread: Spread) -> str:
    """Write a spread as the paper's columns would stand side by side.

    >>> _shown((6.9, 9.0, 13.1)), _shown((None, 1428, None))
    ('6.9 / 9 / 13.1', '1428')
    """
    return " / ".join(f"{value:.1f}".removesuffix(".0") for value in spread if value is not None)


def _judge_rows(study: Study, tried: Tried, reading: Reading, greedy: str) -> list[Verdict]:
    """Judge every printed value, with greedy's counted one way or the other."""
    return [
        verdict
        for row in study.table.rows
        for verdict in _judge_row(
            study, row, tried, reading, greedy if row.counting == GREEDY else row.counting
        )
    ]


def _judge_row(study: Study, row: Row, tried: Tried, reading: Reading, way: str) -> list[Verdict]:
    bounds, counts = tried.rows[row.selection, way, reading]
    return [
        judge(
            f"{study.title}, {row.selection} × {way}: {what}, {level} %",
            printed,
            values.at(level),
            values.range_at(level),
            f"{values.n_trials:,} / {values.n_printed if values.n_trials > 1 else 1}",
            _why(study, row, values),
        )
        for what, spread, values in (("bound", row.bound, bounds), ("count", row.count, counts))
        for level, printed in _given(spread)
        if values.can_tell
    ]


def _judge_reading(study: Study, tried: Tried, reading: Reading, greedy: str, why: str) -> Verdict:
    """Judge the values that hang on a reading, all at once: is this what the paper did?"""
    verdicts = [
        verdict
        for row in study.table.rows
        if (row.counting == GREEDY if greedy == GREEDY else row.selection in (CHOSEN, PRIVATE))
        for verdict in _judge_row(
            study, row, tried, reading, greedy if row.counting == GREEDY else row.counting
        )
    ]
    inside = sum(verdict.inside for verdict in verdicts)
    rows = f"the rows of {GREEDY}, by Algorithm 2" if greedy == GREEDY else "DP Max Utility"
    return Verdict(
        f"{study.title}, {rows}, {reading.name}",
        "all printed values inside",
        f"{inside} of {len(verdicts)} inside",
        None,
        inside == len(verdicts),
        f"as above / {N_TRIALS}",
        "" if inside == len(verdicts) else why,
    )


def _given(spread: Spread) -> list[tuple[int, float]]:
    return [(p, x) for p, x in zip(LEVELS, spread, strict=True) if x is not None]


def _why(study: Study, row: Row, values: Values) -> str:
    """Say why a printed value may lie outside; the reader sees it where one does."""
    more = study.n_items - study.table.n_items
    if more and (row.selection, row.counting) == (BEST, MATCHING):
        return f"Our file has {more} words more than the paper's, and so has our count."
    if more and (row.selection, row.counting) == (BEST, GREEDY):
        return f"The order of the people is not the paper's, and there are {more} words more."
    return "One value in a hundred lies outside by chance alone."


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

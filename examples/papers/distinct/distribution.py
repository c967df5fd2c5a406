"""The exact distribution of the bound that is chosen privately, computed without trials.

The paper prints the 10th, 50th and 90th percentile of the bound over 100 trials, and no beta. Here
is the whole distribution for each beta that comes into question, by enclosures in rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from dp_sql.udfs.count_distinct import bounded
from examples.papers.distinct.covers import ONE_PASS, Study
from examples.papers.distinct.printed import MATCHING, PRIVATE, Spread
from examples.papers.distinct.rows import EACH, IN_ALL, Reading, Tried, best_bound
from examples.papers.frame.command import Setting
from examples.papers.frame.figures import COLOURS, panels, save
from examples.papers.frame.report import write_table
from examples.papers.frame.verdicts import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IN_ALL = [Reading(IN_ALL.name, IN_ALL.epsilon, Fraction(n, 1000)) for n in range(10, 51, 5)]
_SMALL = Reading(IN_ALL.name, IN_ALL.epsilon, EACH.beta)
_READINGS = [EACH, _SMALL, *_IN_ALL]
_POINTS = (10, 40, 50, 60, 90)

Distribution = list[tuple[Fraction, Fraction]]
Quantiles = dict[tuple[str, Reading], list[int]]


def write_distribution(
    studies: Sequence[Study], tried: Sequence[Tried], setting: Setting
) -> list[Verdict]:
    """Write the table and the figure, and judge the paper's medians by the distribution."""
    quantiles = {
        (study.source.name, reading): [quantile(_law(study, reading), p) for p in _POINTS]
        for study in studies
        for reading in _READINGS
    }
    rows = [
        (
            study.title,
            reading.name,
            float(reading.beta),
            best_bound(study.covers[MATCHING][: study.table.most], reading),
            best_bound(of_study.passes[0][: study.table.most], reading),
            *quantiles[study.source.name, reading],
        )
        for study, of_study in zip(studies, tried, strict=True)
        for reading in _READINGS
    ]
    best = [f"best bound, {way}" for way in (MATCHING, ONE_PASS)]
    columns = [
        "set",
        "reading",
        "beta",
        *best,
        *(f"bound chosen by matching: {p} %" for p in _POINTS),
    ]
    note = (
        f"Exact distributions: no trials. {EACH.name} is fitted. The paper, over 100 trials: "
        + "; ".join(
            f"{study.title} {' / '.join(str(x) for x in _printed(study))}" for study in studies
        )
    )
    write_table(setting.out, "distinct_distribution", columns, rows, note + " (10, 50, 90 %).")
    _draw(studies, quantiles, setting)
    return [
        judge_median(study.title, _printed(study)[1], _spans(study, quantiles)) for study in studies
    ]


def _spans(study: Study, quantiles: Quantiles) -> dict[float, tuple[int, int]]:
    """Return the 40 % and the 60 % point for each beta, at epsilon = 1 in all."""
    found = {}
    for reading in _IN_ALL:
        _, low, _, high, _ = quantiles[study.source.name, reading]
        found[float(reading.beta)] = low, high
    return found


def judge_median(title: str, median: float | None, spans: dict[float, tuple[int, int]]) -> Verdict:
    """Say whether a printed median is between the 40 % and 60 % points for some beta."""
    if median is None:
        raise ValueError("the paper prints no median")
    held = [f"{b:g}" for b, (low, high) in spans.items() if low <= median <= high]
    what = f"{title}, exact distribution of the bound by matching, {IN_ALL.name}, "
    return Verdict(
        what + f"beta of {min(spans):g} to {max(spans):g}",
        f"median {median:g} (here: within 40–60 % of the distribution for some beta)",
        f"for beta = {', '.join(held)}" if held else "for none",
        None,
        bool(held),
        "exact distribution / 100",
    )


def _law(study: Study, reading: Reading) -> Distribution:
    cover = study.covers[MATCHING][: study.table.most]
    return bounded.distribution_of_bound(cover, reading.epsilon, reading.beta, "gem")


def quantile(distribution: Distribution, percent: int) -> int:
    """Find the least bound up to which the distribution has so many percent of itself.

    >>> quantile([(Fraction(1, 4), Fraction(1, 4)), (Fraction(3, 4), Fraction(3, 4))], 50)
    2

    Raises:
        ValueError: if the enclosures are too wide to decide.
    """
    sums = [list(accumulate(ends)) for ends in zip(*distribution, strict=True)]
    least, most = (
        next(i for i, total in enumerate(of, 1) if 100 * total >= percent) for of in sums
    )
    if least != most:
        raise ValueError("the enclosure of the distribution is too wide")
    return least


def _printed(study: Study) -> Spread:
    rows = {(row.selection, row.counting): row for row in study.table.rows}
    return rows[PRIVATE, MATCHING].bound


def _draw(studies: Sequence[Study], quantiles: Quantiles, setting: Setting) -> None:
    figure, axes = panels(2, len(studies))
    for column, study in enumerate(studies):
        _draw_law(axes[0, column], study)
        _draw_over_beta(axes[1, column], study, quantiles)
    axes[0, 0].set_ylabel("probability of the bound")
    axes[0, 0].legend(loc="upper right", fontsize=7)
    axes[1, 0].set_ylabel("bound, ε = 1 in all")
    axes[1, 0].legend(loc="upper left", fontsize=7, ncols=2)
    note = "Exact distributions of the bound by matching: no trials. The paper's: 100 trials."
    save(figure, setting.out, "distinct_distribution", note)


def _draw_law(axes: Axes, study: Study) -> None:
    each, in_all = (
        [float(low + high) / 2 for low, high in _law(study, reading)] for reading in (EACH, IN_ALL)
    )
    x = range(1, len(each) + 1)
    axes.bar(x, each, color=COLOURS["blue"], alpha=0.8, label="ε = 1 each (fitted)")
    label = f"ε = 1 in all, β = {float(IN_ALL.beta):g}"
    axes.step(x, in_all, where="mid", color=COLOURS["violet"], label=label)
    _mark_printed(axes.axvline, study)
    axes.set_axisbelow(True)
    axes.set(xlim=(0, 38), xlabel="contribution bound l")
    axes.set_title(study.title, fontsize=9)


def _mark_printed(line: Callable[..., object], study: Study) -> None:
    for place, printed in enumerate(_printed(study)):
        label = "the paper's 10, 50, 90 %" if place == 0 else None
        line(printed, color=COLOURS["pink"], linestyle="--", linewidth=1, label=label)


def _draw_over_beta(axes: Axes, study: Study, quantiles: Quantiles) -> None:
    ten, forty, middle, sixty, ninety = zip(
        *(quantiles[study.source.name, reading] for reading in _IN_ALL), strict=True
    )
    x, blue = [float(reading.beta) for reading in _IN_ALL], COLOURS["blue"]
    axes.fill_between(x, ten, ninety, color=blue, alpha=0.12, linewidth=0, label="10–90 %")
    axes.fill_between(x, forty, sixty, color=blue, alpha=0.3, linewidth=0, label="40–60 %")
    axes.plot(x, middle, color=blue, label="median")
    _mark_printed(axes.axhline, study)
    axes.set(xlabel="β", ylim=(0, 33))

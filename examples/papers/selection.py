"""Private selection with heterogeneous sensitivities (Antonova et al. 2025): the synthetic part.

Which mechanism errs least where scores go with sensitivities, against them, or neither? Needs no
data. `python -m examples.papers.selection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from examples.papers.frame.command import Setting, command
from examples.papers.frame.figures import COLOURS, panels, save
from examples.papers.frame.report import shown, write_table, write_verdicts
from examples.papers.frame.trials import Trials
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.claims import RATIO_AT, RATIOS, claims_of
from examples.papers.selecting.comparing import judged, note_on
from examples.papers.selecting.errors import Errors, Wanted, counts, mean_of, n_trials, try_all
from examples.papers.selecting.scenarios import (
    BIMODAL,
    PARAMETERS,
    POLARISED,
    SPREAD,
    UNIT,
    Scenario,
    scenario_3,
    spearman,
)
from examples.papers.selecting.sweep import sweep
from examples.papers.selecting.times import write_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILONS = tuple(Fraction(e) for e in ("1/100", "1/10", "1/2", "1", "2", "4", "8", "16"))
QUICK_EPSILONS = tuple(Fraction(e) for e in ("1/10", "1", "4", "16"))
N_RATIO_TRIALS, QUICK_RATIO_TRIALS = 4000, 40


def run(setting: Setting) -> None:
    """Reproduce the scenarios and the sweep, and measure the time of a choice."""
    trials = setting.trials("selection")
    errors = _try(setting, trials)
    _write(setting, errors)
    _draw(setting, errors, BIMODAL, "selection_1_to_3")
    _draw(setting, errors, SPREAD, "selection_4_to_6")
    _draw(setting, errors, POLARISED, "selection_7_and_8")
    swept, measured = sweep(setting, trials)
    write_times(setting, trials)
    verdicts, left_out = judged(claims_of(errors, swept, measured))
    write_verdicts(setting.out, "selection", verdicts, note=note_on(left_out))
    if left_out:
        setting.note(f"selection: {left_out}")


def _epsilons(setting: Setting) -> Sequence[Fraction]:
    return QUICK_EPSILONS if setting.quick else EPSILONS


def _names_for(scenario: Scenario) -> Sequence[str]:
    """Tell which mechanisms are tried: the slowest not where combined GEM is what matters."""
    return [n for n in CHOICES if n != "random_stopping_tnb" or scenario not in POLARISED]


def _try(setting: Setting, trials: Trials) -> Errors:
    """Run every mechanism in every scenario, and more of scenario 3."""
    wanted = [
        Wanted(scenario, name, epsilon, n_trials(name, setting.quick))
        for scenario in (*BIMODAL, *SPREAD, *POLARISED)
        for name in _names_for(scenario)
        for epsilon in _epsilons(setting)
    ]
    n_ratio_trials = QUICK_RATIO_TRIALS if setting.quick else N_RATIO_TRIALS
    wanted += [
        Wanted(scenario_3(robust), name, RATIO_AT, n_ratio_trials)
        for robust in RATIOS
        for name in ("rnm", "gem", "mgem")
    ]
    return try_all(trials, "the scenarios", wanted)


def _write(setting: Setting, errors: Errors) -> None:
    """Write a row for each mechanism in each scenario, with a column for each epsilon."""
    epsilons = sorted({epsilon for _, _, epsilon in errors})
    rows = []
    for scenario, name in dict.fromkeys((scenario, name) for scenario, name, _ in errors):
        found = [errors.get((scenario, name, epsilon)) for epsilon in epsilons]
        cells = [one if one is None else " ± ".join(map(shown, mean_of(one))) for one in found]
        n = max(len(one) for one in found if one is not None)
        rows.append((scenario, CHOICES[name].label, *cells, n))
    columns = ("scenario", "mechanism", *(f"ε = {float(e):g}" for e in epsilons), "trials")
    note = (
        "Mean squared errors, ± their standard errors. "
        f"{counts(CHOICES, setting.quick)} The paper's parameters are lost, these are ours: "
        f"{PARAMETERS} '3, x' is scenario 3 with x as the small sensitivity."
    )
    write_table(setting.out, "selection_errors", columns, rows, note)


def _draw(setting: Setting, errors: Errors, shown: Sequence[Scenario], name: str) -> None:
    """Draw errors against epsilon, and below them what candidates look like."""
    figure, axes = panels(2, len(shown), height=2.8)
    for column, scenario in enumerate(shown):
        _draw_errors(axes[0, column], errors, scenario, _epsilons(setting))
        _draw_candidates(axes[1, column], scenario)
    axes[0, 0].set_ylabel("mean squared error")
    axes[1, 0].set_ylabel("sensitivity")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    told = counts(_names_for(shown[0]), setting.quick)
    note = f"{told} Bands: two standard errors. Errors near 0 are at the foot."
    save(figure, setting.out, name, note)


def _draw_errors(
    axes: Axes, errors: Errors, scenario: Scenario, epsilons: Sequence[Fraction]
) -> None:
    x = [float(epsilon) for epsilon in epsilons]
    found = {
        name: np.array([mean_of(errors[scenario.name, name, epsilon]) for epsilon in epsilons])
        for name in _names_for(scenario)
    }
    top = max(float(of_name[:, 0].max()) for of_name in found.values())
    foot = top / 300
    for name, of_name in found.items():
        means, spreads = of_name.T
        colour = COLOURS[CHOICES[name].colour]
        style = ":" if CHOICES[name].name is None else "-"
        axes.plot(x, np.maximum(means, foot), style, color=colour, label=CHOICES[name].label)
        low, high = (np.maximum(means + side * spreads, foot) for side in (-2, 2))
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylim=(foot, top * 1.6))
    axes.set_title(scenario.title, fontsize=10)


def _draw_candidates(axes: Axes, scenario: Scenario) -> None:
    """Draw one data set of each group; a dot's area shows how many candidates it represents."""
    told = []
    for group, colour in zip(scenario.groups, ("blue", "orange"), strict=False):
        candidates = group()
        dots, times = np.unique(np.array(candidates) / UNIT, axis=1, return_counts=True)
        axes.scatter(
            dots[0], dots[1], s=8 + 3 * (times - 1), color=COLOURS[colour], alpha=0.7, linewidth=0
        )
        told.append(f"{spearman(*candidates):.2f}")
    axes.set_title("Spearman " + " and ".join(told), fontsize=9)
    axes.set_xlabel("score")
    axes.margins(0.15)
    axes.set_axisbelow(True)
    axes.set_ylim(bottom=0)


if __name__ == "__main__":
    command({"selection": run})

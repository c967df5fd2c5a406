"""The selection paper's sweep: what is gained as scores and sensitivities go together?"""

from fractions import Fraction
from functools import partial

import numpy as np

from examples.papers.frame.command import Setting
from examples.papers.frame.figures import COLOURS, panels, save
from examples.papers.frame.report import shown, write_table
from examples.papers.frame.trials import Point, Trials
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.errors import (
    N_TRIALS,
    QUICK_TRIALS,
    Errors,
    Wanted,
    counts,
    n_trials,
    ratio_of,
    try_all,
)
from examples.papers.selecting.scenarios import PARAMETERS, SWEEPS, spearman, sweep_at

EPSILONS = (Fraction(1), Fraction(4))
STRENGTHS = tuple(i / 4 for i in range(-4, 5))
QUICK_STRENGTHS = (-1.0, 0.0, 1.0)
NAMES = ("gem", "mgem", "random_stopping")
"""Compared with RNM."""

Measured = dict[tuple[str, float], float]
"""Spearman's correlation by width and strength: the mean over data sets."""


def sweep(setting: Setting, trials: Trials) -> tuple[Errors, Measured]:
    """Try it, write the table and draw the figure."""
    errors = _try(setting, trials)
    measured = _measure(setting, trials)
    _write(setting, errors, measured)
    _draw(setting, errors, measured)
    return errors, measured


def _strengths(setting: Setting) -> tuple[float, ...]:
    return QUICK_STRENGTHS if setting.quick else STRENGTHS


def _try(setting: Setting, trials: Trials) -> Errors:
    wanted = [
        Wanted(sweep_at(strength, width), name, epsilon, n_trials(name, setting.quick))
        for width in SWEEPS
        for strength in _strengths(setting)
        for name in ("rnm", *NAMES)
        for epsilon in EPSILONS
    ]
    return try_all(trials, "the sweep", wanted)


def _correlation(strength: float, width: str) -> float:
    return spearman(*sweep_at(strength, width).draw())


def _measure(setting: Setting, trials: Trials) -> Measured:
    steps = [(width, strength) for width in SWEEPS for strength in _strengths(setting)]
    points = [
        Point(
            ("correlation", PARAMETERS, width, str(strength)),
            QUICK_TRIALS if setting.quick else N_TRIALS,
            partial(_correlation, strength, width),
        )
        for width, strength in steps
    ]
    found = trials.run("correlations", points)
    return {step: float(np.mean(results)) for step, results in zip(steps, found, strict=True)}


def _ratio(
    errors: Errors, width: str, strength: float, name: str, epsilon: Fraction
) -> tuple[float, float]:
    scenario = sweep_at(strength, width).name
    return ratio_of(errors[scenario, name, epsilon], errors[scenario, "rnm", epsilon])


def best(
    errors: Errors, width: str, strength: float, epsilon: Fraction
) -> tuple[float, float, str]:
    """Find the heterogeneous mechanism with the least error.

    Returns:
        Its error over RNM's, the standard error of that, and its name.
    """
    return min((*_ratio(errors, width, strength, name, epsilon), name) for name in NAMES)


def _write(setting: Setting, errors: Errors, measured: Measured) -> None:
    rows = [
        (width, strength, spearman, float(epsilon), *(
            " ± ".join(map(shown, _ratio(errors, width, strength, name, epsilon))) for name in NAMES
        ))
        for (width, strength), spearman in measured.items()
        for epsilon in EPSILONS
    ]  # fmt: skip
    columns = ("sweep", "strength", "Spearman", "epsilon", *(CHOICES[name].label for name in NAMES))
    note = (
        "Errors divided by that of RNM, ± their standard errors. "
        f"{counts(NAMES, setting.quick)} The parameters are ours: {PARAMETERS}"
    )
    write_table(setting.out, "selection_sweep", columns, rows, note)


def _draw(setting: Setting, errors: Errors, measured: Measured) -> None:
    figure, axes = panels(len(SWEEPS), len(EPSILONS), height=2.7)
    for row, width in zip(axes, SWEEPS, strict=True):
        strengths = [strength for of_width, strength in measured if of_width == width]
        x = [measured[width, strength] for strength in strengths]
        for at, epsilon in zip(row, EPSILONS, strict=True):
            for name in NAMES:
                ratios = [_ratio(errors, width, s, name, epsilon) for s in strengths]
                at.errorbar(
                    x,
                    [ratio for ratio, _ in ratios],
                    yerr=[2 * error for _, error in ratios],
                    color=COLOURS[CHOICES[name].colour],
                    label=CHOICES[name].label,
                )
            at.axhline(1, color=COLOURS["blue"], label="RNM")
            low, high = SWEEPS[width]
            at.set_title(f"spreads {low:g} to {high:g}, epsilon {epsilon}", fontsize=9)
            at.set(yscale="log", ylim=(0.02, 10))
    for at in axes[-1]:
        at.set_xlabel("Spearman's correlation")
    for at in axes[:, 0]:
        at.set_ylabel("mean squared error / RNM's")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    note = f"{counts(NAMES, setting.quick)} Bars: two standard errors."
    save(figure, setting.out, "selection_sweep", note)

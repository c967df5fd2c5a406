"""How long one choice takes, by each mechanism."""

import time
from fractions import Fraction
from functools import partial

import numpy as np

from examples.papers.frame.command import Setting
from examples.papers.frame.report import write_table
from examples.papers.frame.trials import Point, Trials
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.errors import Wanted
from examples.papers.selecting.scenarios import N_CANDIDATES, SPREAD

_SCENARIO = SPREAD[2]
_EPSILONS = (1, 4)
_N_RUNS = 50


def write_times(setting: Setting, trials: Trials) -> None:
    """Measure what is missing and write the medians, in milliseconds and over mGEM's."""
    wanted = [
        Wanted(_SCENARIO, name, Fraction(epsilon), _N_RUNS)
        for epsilon in _EPSILONS
        for name in CHOICES
    ]
    points = [Point(("time", *one.key), one.n_trials, partial(_seconds, one)) for one in wanted]
    found = trials.run("times", points)
    medians = {
        (one.name, one.epsilon): float(np.median(seconds))
        for one, seconds in zip(wanted, found, strict=True)
    }
    rows = [
        (CHOICES[name].label, float(epsilon), 1000 * median, median / medians["mgem", epsilon])
        for (name, epsilon), median in medians.items()
    ]
    columns = ("mechanism", "epsilon", "ms a choice", "over mGEM's")
    note = (
        f"{N_CANDIDATES} candidates of scenario 6; medians of {_N_RUNS} choices, no seed. The time "
        "is this machine's."
    )
    write_table(setting.out, "selection_times", columns, rows, note)


def _seconds(wanted: Wanted) -> float:
    """Time one choice on candidates drawn before."""
    scores, sensitivities = wanted.scenario.draw()
    start = time.perf_counter()
    CHOICES[wanted.name].of(scores, sensitivities, wanted.epsilon)
    return time.perf_counter() - start

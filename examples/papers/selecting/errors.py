"""Errors of choices: tried, averaged, compared. Knows no figure, table or claim."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from examples.papers.frame.trials import Point, Trials
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.comparing import sign_of
from examples.papers.selecting.scenarios import PARAMETERS, UNIT, Scenario

N_TRIALS, QUICK_TRIALS = 1000, 40
_N_SLOW = {"random_stopping": (300, 20), "random_stopping_tnb": (150, 8)}
"""Trials, full and quick, of the mechanisms that take 5 and 10 ms a run."""

Floats = NDArray[np.float64]
Errors = dict[tuple[str, str, Fraction], Floats]
"""By scenario, mechanism and epsilon: shape (trials, 2), the squared error and the best
candidate's sensitivity over the largest."""


@dataclass(frozen=True)
class Wanted:
    """One point: a mechanism in a scenario at an epsilon, and how often."""

    scenario: Scenario
    name: str
    epsilon: Fraction
    n_trials: int

    @property
    def key(self) -> tuple[str, ...]:
        """All that a trial depends on."""
        parameters = CHOICES[self.name].parameters
        return (self.scenario.name, PARAMETERS, self.name, str(self.epsilon), *parameters)

    def point(self) -> Point:
        """Return what the trials need to know."""
        return Point(self.key, self.n_trials, self.once)

    def once(self) -> tuple[float, float]:
        """Choose once: the squared error, and the best one's sensitivity over the largest."""
        scores, sensitivities = self.scenario.draw()
        best = max(range(len(scores)), key=scores.__getitem__)
        chosen = CHOICES[self.name].of(scores, sensitivities, self.epsilon)
        error = (scores[best] - scores[chosen]) / UNIT
        return error**2, sensitivities[best] / max(sensitivities)


def n_trials(name: str, quick: bool) -> int:
    """Tell how often a mechanism is tried at each point."""
    many, few = _N_SLOW.get(name, (N_TRIALS, QUICK_TRIALS))
    return few if quick else many


def counts(names: Iterable[str], quick: bool) -> str:
    """Say how many trials there are of these mechanisms."""
    slow = [
        f", {n_trials(name, quick)} for {CHOICES[name].label}" for name in names if name in _N_SLOW
    ]
    return f"{n_trials('rnm', quick)} trials a point{''.join(slow)}; no seed."


def try_all(trials: Trials, what: str, wanted: Sequence[Wanted]) -> Errors:
    """Run what is missing and return all errors."""
    found = trials.run(what, [one.point() for one in wanted])
    return {
        (one.scenario.name, one.name, one.epsilon): np.array(results)
        for one, results in zip(wanted, found, strict=True)
    }


def mean_of(squares: Floats) -> tuple[float, float]:
    """Return the mean squared error and its standard error, of trials as in Errors."""
    return float(squares[:, 0].mean()), float(squares[:, 0].std() / math.sqrt(len(squares)))


def ratio_of(squares: Floats, to: Floats) -> tuple[float, float]:
    """Return one mean squared error over another, and the standard error of that."""
    (mean, error), (unit, unit_error) = mean_of(squares), mean_of(to)
    ratio = mean / unit
    return ratio, math.hypot(error / unit, ratio * unit_error / unit)


def compared(first: Floats, second: Floats) -> int:
    """Tell whether the first errs less: 1, or more: -1; 0 within 99 % sampling error."""
    (mean, error), (other, other_error) = mean_of(first), mean_of(second)
    return sign_of(other - mean, math.hypot(error, other_error))

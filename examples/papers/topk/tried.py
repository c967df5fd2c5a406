"""What is tried for the joint top-k, and what came of it. Draws no figure, judges nothing."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import joint_matrix
from dp_sql.udfs import REGISTRY
from examples.papers.frame.sources import Source
from examples.papers.frame.trials import Point, Trials
from examples.papers.topk.errors import KINDS, errors

EPSILON = Fraction(1)
DELTA = Fraction(1, 10**6)
FAILURE = Fraction(1, 2**10)
"""The published FastJoint's probability of a list beyond its threshold."""
PEELED = ("joint", "pnf_peel", "cdp_peel")
REFERENCES = ("matrix", "matrix, pruned")
"""The published algorithms, in benchmarks/joint_matrix.py."""


@dataclass(frozen=True)
class Measured:
    """Errors of lists.

    found: by set, mechanism and k, all trials, each as errors.errors returns it.
    """

    sources: Sequence[Source]
    mechanisms: Sequence[str]
    grid: Sequence[int]
    n_trials: int
    found: Mapping[tuple[str, str, int], list[list[int]]]

    def at(self, source: str, mechanism: str, k: int, kind: str) -> list[int]:
        """Return one error of every trial of a point, shape (trials,)."""
        place = KINDS.index(kind)
        return [trial[place] for trial in self.found[source, mechanism, k]]

    def of(self, source: str, mechanism: str, kind: str) -> NDArray[np.int64]:
        """Return one error of every trial, shape (points of the grid, trials)."""
        return np.array([self.at(source, mechanism, k, kind) for k in self.grid])

    def medians(self, source: str, mechanism: str, kind: str) -> NDArray[np.float64]:
        """Return the median over the trials, shape (points of the grid,)."""
        middle: NDArray[np.float64] = np.median(self.of(source, mechanism, kind), axis=1)
        return middle


@dataclass(frozen=True)
class Timed:
    """Seconds that a list takes on one set: by label, shape (points of the grid, runs)."""

    source: Source
    grid: Sequence[int]
    n_runs: int
    seconds: Mapping[str, NDArray[np.float64]]

    def medians(self, label: str) -> NDArray[np.float64]:
        """Return the median over the runs, shape (points of the grid,)."""
        middle: NDArray[np.float64] = np.median(self.seconds[label], axis=1)
        return middle


def measure(
    trials: Trials,
    what: str,
    sources: Sequence[Source],
    mechanisms: Sequence[str],
    grid: Sequence[int],
    n_trials: int,
    epsilon: Fraction = EPSILON,
) -> Measured:
    """Try all mechanisms at all points of the grid on all sets."""
    names = [(s, m, k) for s in sources for m in mechanisms for k in grid]
    found = trials.run(what, [_errors_point(*name, epsilon, n_trials) for name in names])
    by_name = {(s.name, m, k): results for (s, m, k), results in zip(names, found, strict=True)}
    return Measured(sources, mechanisms, grid, n_trials, by_name)


def clock(trials: Trials, source: Source, grid: Sequence[int], n_runs: int) -> Timed:
    """Time the mechanisms and the published algorithms, from counts in no order to a list."""
    counts = np.random.default_rng().permutation(source.counts)
    labels = (*PEELED, *REFERENCES)
    names = [(label, k) for label in labels for k in grid]
    points = [
        Point(
            ("seconds", label, str(EPSILON), _extra(label), k, source.digest),
            n_runs,
            partial(_seconds, partial(_draw(label), counts, k=k, epsilon=EPSILON)),
        )
        for label, k in names
    ]
    found = iter(trials.run(f"time {source.name}", points))
    seconds = {label: np.array([next(found) for _ in grid]) for label in labels}
    return Timed(source, grid, n_runs, seconds)


def _errors_point(
    source: Source, mechanism: str, k: int, epsilon: Fraction, n_trials: int
) -> Point:
    """Make a point; "five" in its key: older trials lack the error of the first five."""
    draw = partial(_draw(mechanism), source.counts, k=k, epsilon=epsilon)
    key = ("errors", mechanism, str(epsilon), _extra(mechanism), k, source.digest, "five")
    return Point(key, n_trials, lambda: errors(source.counts, draw()))


def _draw(label: str) -> Callable[..., list[int]]:
    if label in REFERENCES:
        pruned = FAILURE if label == "matrix, pruned" else None
        return partial(joint_matrix.topk, failure_probability=pruned)
    run = REGISTRY["topk"][label].run
    return partial(run, delta=DELTA) if label == "cdp_peel" else run


def _extra(label: str) -> str:
    """Name the public number, besides k and epsilon, that a draw depends on."""
    return {"cdp_peel": str(DELTA), "matrix, pruned": str(FAILURE)}.get(label, "")


def _seconds(draw: Callable[[], list[int]]) -> float:
    start = time.perf_counter()
    draw()
    return time.perf_counter() - start

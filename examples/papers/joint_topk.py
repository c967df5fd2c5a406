"""The joint top-k (Gillenwater et al. 2022) and its pruning (Wu and Zhang 2024), tried again.

Errors of joint, pnf_peel, cdp_peel and subset against k; where a list errs most, and how far its
first five are off; permute-and-flip over whole lists; and how long a list takes, next to the
published algorithms.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from examples.papers.frame.command import Setting, command
from examples.papers.frame.report import write_table, write_verdicts
from examples.papers.frame.sources import Source
from examples.papers.frame.trials import Trials
from examples.papers.frame.verdicts import Verdict
from examples.papers.topk import claims, figures
from examples.papers.topk import known as known_values
from examples.papers.topk.errors import KINDS, typical_gap
from examples.papers.topk.exact import write_exact
from examples.papers.topk.speed import of_times, write_times
from examples.papers.topk.tried import EPSILON, PEELED, Measured, clock, measure

_SETS = (
    "goodreads_books_hist", "gowalla", "retail_baskets", "amazon_book_kgat", "imdb_words",
)  # fmt: skip
_GRID = tuple(range(5, 200, 10))
_GRID_QUICK = (5, 45, 95, 145, 195)
_LOW = tuple(range(1, 41, 3))
_LOW_QUICK = (1, 10, 40)
_ITEMS_PER_RANK = 10
"""A set is too small where the longest lists would hold more than a tenth of its items."""
_N_SETS_QUICK = 2
_N_SCALED = 50
_MOST_CELLS = 40_000_000
"""Of the published algorithm's matrix: about 80 bytes each."""


def run(setting: Setting) -> None:
    """Try everything; write tables, figures and verdicts."""
    trials = setting.trials("joint_topk")
    write_exact(setting, trials)
    sets = _sets(setting)
    if not sets:
        return
    quick, n_trials = setting.quick, 10 if setting.quick else 50
    grid, low = (_GRID_QUICK, _LOW_QUICK) if quick else (_GRID, _LOW)
    errors = measure(trials, "errors", sets, (*PEELED, "subset"), grid, n_trials)
    write_errors(setting.out, "joint_errors", errors)
    figures.errors_against_k(setting.out, errors)
    peeled = replace(errors, mechanisms=PEELED)  # the order of a set has no error
    figures.positions(setting.out, peeled)
    figures.first_five(setting.out, peeled)
    flipped = measure(trials, "pnf_joint", sets, ("joint", "pnf_joint"), low, n_trials)
    write_errors(setting.out, "joint_pnf", flipped)
    figures.flipped(setting.out, flipped)
    timed = _time(setting, trials, sets, grid)
    known, of_known = _known(trials, sets, quick)
    verdicts = [*known, *claims.of_errors(peeled), *claims.of_flipped(flipped), *timed]
    write_verdicts(setting.out, "joint_topk", verdicts, note=f"{of_known}{claims.NOTE}")


def _known(trials: Trials, sets: list[Source], quick: bool) -> tuple[list[Verdict], str]:
    """Judge the values of the published programs, and say what they can show."""
    known = [source for source in sets if source.name in known_values.SETS]
    if not known:
        return [], ""
    values = measure(trials, "values", known, PEELED, known_values.GRID, 20 if quick else 200)
    scaled = {
        ratio: measure(
            trials, f"values, ε × {float(ratio):g}", known, PEELED, known_values.GRID,
            _N_SCALED, ratio * EPSILON,
        )
        for ratio in ([] if quick else known_values.SCALES)
    }  # fmt: skip
    return known_values.verdicts(values), known_values.note(values, scaled) + " "


def _time(
    setting: Setting, trials: Trials, sets: list[Source], grid: tuple[int, ...]
) -> list[Verdict]:
    """Time lists on the largest set for which the published algorithm has the memory.

    The largest k once more on the set with the smallest gaps, where pruning leaves the most.
    """
    fit = [source for source in sets if len(source.counts) * grid[-1] <= _MOST_CELLS]
    if not fit:
        setting.note("All sets are too large for the published algorithm's matrix: not timed.")
        return []
    n_runs = 3 if setting.quick else 5
    timed = clock(trials, max(fit, key=lambda source: len(source.counts)), grid, n_runs)
    write_times(setting.out, "joint_times", timed)
    figures.times(setting.out, timed)
    small_gaps = min(fit, key=lambda source: typical_gap(source.counts))
    write_times(setting.out, "joint_times_small_gaps", clock(trials, small_gaps, grid[-1:], n_runs))
    return of_times(timed)


def _sets(setting: Setting) -> list[Source]:
    """Return the sets that are large enough, small files first; the first two where quick."""
    for name in _SETS:
        if setting.sources.get(name) is None:
            setting.note(f"{name} is missing and left out. docs/data.md says where to get it.")
    found = []
    for source in sorted(setting.sources.files.values(), key=lambda s: s.file.stat().st_size):
        if len(source.counts) < _ITEMS_PER_RANK * max(_GRID):
            setting.note(f"{source.name} has only {len(source.counts):,} items: left out.")
        else:
            found.append(source)
        if setting.quick and len(found) == _N_SETS_QUICK:
            break
    return found


def write_errors(folder: Path, name: str, measured: Measured) -> None:
    """Write the quartiles of every error at every point, but not of the ranks."""
    rows = []
    for source in measured.sources:
        for mechanism in measured.mechanisms:
            for place, k in enumerate(measured.grid):
                row: list[object] = [source.name, mechanism, k]
                for kind in KINDS[:-1]:
                    of_kind = measured.of(source.name, mechanism, kind)[place]
                    row += [float(np.quantile(of_kind, p)) for p in (0.25, 0.5, 0.75)]
                rows.append(row)
    columns = ["set", "mechanism", "k"]
    columns += [f"{kind}, {which}" for kind in KINDS[:-1] for which in ("25 %", "50 %", "75 %")]
    write_table(folder, name, columns, rows, f"{measured.n_trials} trials a point, no seed.")


if __name__ == "__main__":
    command({"joint_topk": run})

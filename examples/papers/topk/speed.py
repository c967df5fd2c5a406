"""How long a list takes: its table, and what the papers say about it (section 4.3.3; FastJoint)."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.papers.frame.report import shown, write_table
from examples.papers.frame.verdicts import Verdict
from examples.papers.topk.errors import typical_gap
from examples.papers.topk.tried import REFERENCES, Timed

_N_PAPER = 5
_N_FOODS = 166_000
_LONG = 60.0
_NEARLY_ALWAYS = 0.9


def write_times(folder: Path, name: str, timed: Timed) -> None:
    """Write the medians in milliseconds, and the published algorithms' over joint's."""
    medians = {label: timed.medians(label) for label in timed.seconds}
    rows = [
        (
            k,
            *(1000 * float(of_label[i]) for of_label in medians.values()),
            *(float(medians[label][i] / medians["joint"][i]) for label in REFERENCES),
        )
        for i, k in enumerate(timed.grid)
    ]
    columns = ["k", *(f"{label}, ms" for label in medians)]
    columns += [f"{label} / joint" for label in REFERENCES]
    note = (
        f"{timed.source.name}, {len(timed.source.counts):,} items; the median of the first "
        f"200 gaps is {typical_gap(timed.source.counts):.0f}. Medians of {timed.n_runs} runs a "
        "point, no seed. matrix: the published algorithms in numpy (benchmarks/joint_matrix.py)."
    )
    write_table(folder, name, columns, rows, note)


def of_times(timed: Timed) -> list[Verdict]:
    """Judge what the papers say about time. Their Foods, the largest set, is not at hand."""
    matrix, pruned = (timed.medians(label) for label in REFERENCES)
    joint, pnf, cdp = (timed.medians(label) for label in ("joint", "pnf_peel", "cdp_peel"))
    by_layers = "the package draws lists by layers, without a matrix"
    at_small_k = "at the smallest k both take a millisecond or two"
    no_cut = "where h(k) is below the threshold, no item is cut off"
    elsewhere = " on the largest set (joint_times_small_gaps has the one with the smallest gaps)"
    said = partial(_slower, timed)
    return [
        said("section 4.3.3", "Joint, as published, is slower than PNF-Peel", matrix, pnf, ""),
        said("section 4.3.3", "PNF-Peel is slower than CDP-Peel", pnf, cdp, at_small_k),
        said(
            "section 4.3.3", "Joint, the package's, is slower than PNF-Peel", joint, pnf, by_layers
        ),
        _minute(timed, float(matrix[-1]), float(joint[-1])),
        said("FastJoint", f"pruning makes Joint faster{elsewhere}", matrix, pruned, no_cut),
    ]


def _slower(
    timed: Timed,
    where: str,
    text: str,
    slower: NDArray[np.float64],
    faster: NDArray[np.float64],
    why: str,
) -> Verdict:
    """Judge whether the one is slower at nine k in ten or more."""
    ratios = slower / faster
    seen = (
        f"{timed.source.name}: {shown(float(ratios[-1]))} times the time at k = {timed.grid[-1]}, "
        f"{shown(float(np.median(ratios)))} times in the median; more at {(ratios > 1).sum()} of "
        f"{len(ratios)} k"
    )
    inside = bool((ratios > 1).mean() >= _NEARLY_ALWAYS)
    text += f" (here: at {_NEARLY_ALWAYS:.0%} of the k or more)"
    return Verdict(where, text, seen, None, inside, _trials(timed), "" if inside else why)


def _minute(timed: Timed, as_published: float, ours: float) -> Verdict:
    """Judge the minute, by the time for a cell of the matrix."""
    foods = as_published * _N_FOODS / len(timed.source.counts)
    seen = (
        f"{timed.source.name}, k = {timed.grid[-1]}: as published {as_published:.1f} s, which the "
        f"number of items makes {foods:.1f} s for theirs; the package's {1000 * ours:.1f} ms"
    )
    why = "another machine, and numpy sorts the whole matrix at once; their Foods is not at hand"
    text = f"Joint takes seconds, at the largest k over a minute (Foods, {_N_FOODS:,} items)"
    inside = foods > _LONG
    trials = _trials(timed)
    return Verdict("section 4.3.3", text, seen, None, inside, trials, "" if inside else why)


def _trials(timed: Timed) -> str:
    return f"{timed.n_runs} / {_N_PAPER} runs a point"

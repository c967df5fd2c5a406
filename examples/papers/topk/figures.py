"""The figures of the joint top-k. Knows what was measured; judges nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from examples.papers.frame.figures import COLOURS, band, panels, save
from examples.papers.frame.sources import Source
from examples.papers.topk.errors import gaps, mean_positions
from examples.papers.topk.tried import EPSILON, Measured, Timed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    "joint": "blue", "pnf_peel": "green", "cdp_peel": "orange", "pnf_joint": "pink",
    "subset": "violet", "matrix": "grey", "matrix, pruned": "violet",
}  # fmt: skip
_WIDTHS = {"joint": 2.8, "pnf_joint": 1.4, "pnf_peel": 2.0, "cdp_peel": 1.2, "subset": 1.6}
"""Lines that coincide stay visible."""
_TITLES = {
    "l_inf": "l-infinity: max of h(i) − h[s_i]",
    "l_1": "l1: sum of |h(i) − h[s_i]|",
    "k_relative": "k-relative: max of h(k) − h[s_i]",
}
_N_GAPS = 200
_IN_A_ROW = 3


def errors_against_k(folder: Path, measured: Measured) -> None:
    """Draw the gaps between the counts, and the three errors, one row of panels per set."""
    figure, axes = panels(len(measured.sources), 1 + len(_TITLES))
    for row, source in zip(axes, measured.sources, strict=True):
        _draw_gaps(row[0], source)
        for of_kind, kind in zip(row[1:], _TITLES, strict=True):
            _draw_errors(of_kind, measured, source, kind)
            of_kind.set_ylabel("error + 1")
    for top, title in zip(axes[0], ("gaps of the counts", *_TITLES.values()), strict=True):
        top.set_title(title, fontsize=10)
    for bottom, label in zip(axes[-1], ("i", *["k"] * len(_TITLES)), strict=True):
        bottom.set_xlabel(label)
    axes[0, 1].legend(loc="upper left")
    note = f"Medians and quartiles of {_trials(measured.n_trials)}. ε = {EPSILON}, "
    note += "cdp_peel with δ = 1e-6. A set (subset) is compared in the order of its counts. "
    save(figure, folder, "joint_errors", note + "Padded by 1.")


def positions(folder: Path, measured: Measured) -> None:
    """Draw at which rank a list errs most, on average over the trials that err."""
    figure, axes = _one_per_set(measured)
    for one, source in zip(axes, measured.sources, strict=True):
        one.plot(measured.grid, measured.grid, ":", color=COLOURS["grey"], label="the last rank")
        for mechanism in measured.mechanisms:
            means = mean_positions(measured.of(source.name, mechanism, "position"))
            colour = COLOURS[_COLOURS[mechanism]]
            one.plot(measured.grid, means, ".-", color=colour, label=mechanism)
        one.set_ylabel("rank of the largest error, mean")
    axes[0].legend(loc="upper left")
    note = f"{_trials(measured.n_trials)}; left out where fewer than half of them err. "
    save(figure, folder, "joint_positions", note + f"ε = {EPSILON}, cdp_peel with δ = 1e-6.")


def first_five(folder: Path, measured: Measured) -> None:
    """Draw how far the first five of a list are off, which the largest error does not show."""
    figure, axes = _one_per_set(measured)
    for one, source in zip(axes, measured.sources, strict=True):
        _draw_errors(one, measured, source, "first_five")
        one.set_ylabel("l1 of the first five + 1")
    highest = max(one.get_ylim()[1] for one in axes)
    for one in axes:
        one.set_ylim(top=highest)
    axes[0].legend(loc="upper left")
    note = f"Medians and quartiles of {_trials(measured.n_trials)}. ε = {EPSILON}, "
    save(figure, folder, "joint_first_five", note + "cdp_peel with δ = 1e-6. Padded by 1.")


def flipped(folder: Path, measured: Measured) -> None:
    """Draw permute-and-flip over lists next to joint, for small k."""
    figure, axes = _one_per_set(measured)
    for one, source in zip(axes, measured.sources, strict=True):
        _draw_errors(one, measured, source, "l_inf")
        one.set_ylabel("l-infinity + 1")
    axes[0].legend(loc="upper left")
    note = f"Medians and quartiles of {_trials(measured.n_trials)}. ε = {EPSILON}."
    save(figure, folder, "joint_pnf", note)


def times(folder: Path, timed: Timed) -> None:
    """Draw how long a list takes, next to the published algorithms."""
    figure, axes = panels(1, 1, 4.2)
    figure.set_size_inches(6.4, 4.7)
    (one,) = axes[0]
    for label, seconds in timed.seconds.items():
        band(one, timed.grid, (1000 * seconds).tolist(), label, _COLOURS[label])
    one.set(yscale="log", xlabel="k", ylabel="milliseconds a list")
    one.set_title(f"{timed.source.name}: {len(timed.source.counts):,} items", fontsize=10)
    one.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    note = f"Medians and quartiles of {timed.n_runs} runs a point, ε = {EPSILON}. "
    save(figure, folder, "joint_times", note + "matrix: the published algorithms in numpy.")


def _one_per_set(measured: Measured) -> tuple[Figure, list[Axes]]:
    n = len(measured.sources)
    n_columns = min(n, _IN_A_ROW)
    figure, axes = panels(-(-n // n_columns), n_columns, 2.8)
    for spare in axes.flat[n:]:
        spare.set_visible(False)
    for one, source in zip(axes.flat, measured.sources, strict=False):
        one.set_title(source.name, fontsize=10)
        one.set_xlabel("k")
    return figure, list(axes.flat[:n])


def _draw_gaps(axes: Axes, source: Source) -> None:
    of_source = gaps(source.counts, _N_GAPS)
    axes.plot(np.arange(1, len(of_source) + 1), of_source + 1, ".", ms=3, color=COLOURS["grey"])
    axes.set(yscale="log", ylabel=f"{source.name}\nh(i) − h(i + 1), plus 1")


def _draw_errors(axes: Axes, measured: Measured, source: Source, kind: str) -> None:
    for mechanism in measured.mechanisms:
        padded = measured.of(source.name, mechanism, kind) + 1
        band(axes, measured.grid, padded.tolist(), mechanism, _COLOURS[mechanism])
        axes.lines[-1].set_linewidth(_WIDTHS[mechanism])
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 12))


def _trials(n: int) -> str:
    return f"{n} trials a point, no seed"

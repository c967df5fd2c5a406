"""How all figures look. Knows matplotlib; never what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "blue": "#0969da", "pink": "#bf3989", "green": "#1a7f37", "orange": "#bc4c00",
    "violet": "#8250df", "teal": "#0f766e", "ochre": "#9a6700", "grey": "#57606a",
}  # fmt: skip
_STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#d8dee4", "grid.linewidth": 0.6, "legend.frameon": False, "lines.linewidth": 1.5,
    "figure.dpi": 120, "savefig.dpi": 150,
}  # fmt: skip


def panels(n_rows: int, n_columns: int, height: float = 2.6) -> tuple[Figure, np.ndarray]:
    """Make a figure with n_rows × n_columns panels, each `height` inches high.

    Returns:
        The figure, and its axes, shape (n_rows, n_columns).
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(_STYLE)
    figure = Figure(figsize=(3.4 * n_columns, height * n_rows + 0.5), layout="constrained")
    return figure, np.atleast_2d(figure.subplots(n_rows, n_columns, squeeze=False))


def band(
    axes: Axes, x: Sequence[float], trials: Sequence[Sequence[float]], label: str, colour: str
) -> None:
    """Draw the median over x, and the quartiles as a band.

    Args:
        axes: where.
        x: shape (points,).
        trials: for each x its trials, shape (points, trials).
        label: for the legend.
        colour: one of COLOURS.
    """
    low, middle, high = (
        [float(np.quantile(of_x, p)) for of_x in trials] for p in (0.25, 0.5, 0.75)
    )
    axes.plot(x, middle, color=COLOURS[colour], label=label)
    axes.fill_between(x, low, high, color=COLOURS[colour], alpha=0.15, linewidth=0)


def save(figure: Figure, folder: Path, name: str, note: str) -> None:
    """Write NAME.png, with a note at its foot that says how many trials it shows."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.supxlabel(note, fontsize=8, color=COLOURS["grey"])
    figure.savefig(folder / f"{name}.png")

"""Errors that the published programs made, next to ours. The paper prints none of them in a table.

They are medians over a few lists of the published joint, PNF-Peel and CDP-Peel (the l-infinity
error at epsilon = 1, delta = 1e-6), run once on the same files; where those runs gave a range, it
stands. Neither the programs nor the lists are part of this repository.
"""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from examples.papers.frame.verdicts import LEVEL, Verdict, range_of_quantile
from examples.papers.topk.tried import Measured

GRID = (10, 50, 100)
_N_RUNS = 5
"""The few runs that the ranges are for."""
KNOWN: dict[str, dict[str, tuple[int | tuple[int, int], ...]]] = {
    "goodreads_books_hist": {"joint": (0, 0, 0), "pnf_peel": (0, 0, 0), "cdp_peel": (0, 0, 0)},
    "gowalla": {
        "joint": (0, (575, 590), (582, 588)), "pnf_peel": (0, 519, 891), "cdp_peel": (12, 73, 151),
    },
    "retail_baskets": {
        "joint": (0, (50, 56), (909, 924)), "pnf_peel": (0, 187, 877), "cdp_peel": (0, 50, 133),
    },
    "imdb_words": {"joint": (0, 0, (0, 6)), "pnf_peel": (0, 52, 291), "cdp_peel": (0, 31, 101)},
}  # fmt: skip
"""By set and mechanism, for each k of GRID: a median, or the range of some."""
SETS = tuple(KNOWN)
SCALES = (Fraction(1, 2), Fraction(7, 10), Fraction(13, 10), Fraction(2))
"""Our epsilon over theirs, to see what the known values could show."""


def verdicts(measured: Measured) -> list[Verdict]:
    """Judge each known value by the range of a median over a few of our trials."""
    return [
        _verdict(measured, source.name, mechanism, k, known)
        for source in measured.sources
        for mechanism, of_mechanism in KNOWN[source.name].items()
        for k, known in zip(GRID, of_mechanism, strict=True)
    ]


def note(values: Measured, scaled: Mapping[Fraction, Measured]) -> str:
    """Say where the values come from and how little they can show.

    Args:
        values: tried at the epsilon of the published programs.
        scaled: tried at other epsilons, by their ratio to it; may be empty.
    """
    judged = verdicts(values)
    single = sum(v.range is not None and v.range[0] == v.range[1] for v in judged)
    text = (
        f"The {len(judged)} values of published code are medians of a few lists of the published "
        "programs, run once on the same files; the paper does not print them, and their table is "
        f"not in this repository. They show little: {single} of the ranges are a single count, "
        f"the others those of a median of {_N_RUNS}."
    )
    if not scaled:
        return text
    inside = ", ".join(
        f"{sum(v.inside for v in verdicts(other))} at {float(ratio):g} times"
        for ratio, other in scaled.items()
    )
    n_trials = next(iter(scaled.values())).n_trials
    return f"{text} With our ε off, so many would be inside: {inside} ({n_trials} trials a point)."


def _verdict(
    measured: Measured, name: str, mechanism: str, k: int, known: int | tuple[int, int]
) -> Verdict:
    lowest, highest = known if isinstance(known, tuple) else (known, known)
    ours = measured.at(name, mechanism, k, "l_inf")
    low, high = range_of_quantile(ours, 1 / 2, _N_RUNS)
    inside = low <= highest and lowest <= high
    why = f"not where a median of {_N_RUNS} of our runs lies {100 * LEVEL:.0f} times in 100"
    return Verdict(
        f"published code, l-infinity: {name}, k = {k}, {mechanism}",
        f"{lowest} to {highest}" if lowest < highest else float(lowest),
        float(np.median(ours)),
        (low, high),
        inside,
        f"{len(ours)} / a few",
        "" if inside else why,
    )

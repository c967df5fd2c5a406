"""Errors that the published programs made, beside ours. The paper prints none of them in a table.

They are medians over a few lists of the published joint, PNF-Peel and CDP-Peel (the l-infinity
error at epsilon = 1, delta = 1e-6), run once on the same files; where those runs gave a range, it
stands.
"""

from __future__ import annotations

import numpy as np

from examples.papers.frame.verdicts import LEVEL, Verdict, range_of_quantile
from examples.papers.topk.tried import Measured

GRID = (10, 50, 100)
_N_RUNS = 5
"""The few runs that the ranges are for."""
_KNOWN: dict[str, dict[str, tuple[int | tuple[int, int], ...]]] = {
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
SETS = tuple(_KNOWN)


def verdicts(measured: Measured) -> list[Verdict]:
    """Judge each known value by the range of a median over a few of our trials."""
    return [
        _verdict(measured, source.name, mechanism, k, known)
        for source in measured.sources
        for mechanism, of_mechanism in _KNOWN[source.name].items()
        for k, known in zip(GRID, of_mechanism, strict=True)
    ]


def _verdict(
    measured: Measured, name: str, mechanism: str, k: int, known: int | tuple[int, int]
) -> Verdict:
    lowest, highest = known if isinstance(known, tuple) else (known, known)
    ours = measured.at(name, mechanism, k, "l_inf")
    low, high = range_of_quantile(ours, 1 / 2, _N_RUNS)
    inside = low <= highest and lowest <= high
    why = f"not where a median of {_N_RUNS} of ours lies {100 * LEVEL:.0f} times in 100"
    return Verdict(
        f"published code, l-infinity: {name}, k = {k}, {mechanism}",
        f"{lowest} to {highest}" if lowest < highest else float(lowest),
        float(np.median(ours)),
        (low, high),
        inside,
        f"{len(ours)} / a few",
        "" if inside else why,
    )

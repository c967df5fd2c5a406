"""How far is a list off? Knows sorted counts and a list; never who made it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

KINDS = ("l_inf", "l_1", "k_relative", "first_five", "position")
"""What `errors` returns, in this order."""
_FIRST = 5
_N_GAPS = 200


def errors(counts: NDArray[np.int64], listed: Sequence[int]) -> list[int]:
    """Measure a list of k items as the paper does (its definition 2.2).

    Args:
        counts: people per item, largest first, shape (d,).
        listed: positions in counts, shape (k,); those of a set increase, so that it is measured in
            the order of its counts.

    Returns:
        l_inf, the largest h(i) - h[s_i]; l_1, the sum of their sizes; k_relative, by how much
        the k-th largest count exceeds the smallest one listed; first_five, the part of l_1 of
        the first five ranks, or of all k where there are fewer; position, the first rank i at
        which the largest lies, from 1, or 0 where the list has no error.

    >>> errors(np.array([9, 8, 5, 1]), [1, 3])
    [7, 8, 7, 8, 2]
    """
    k = len(listed)
    of_listed = counts[np.asarray(listed)]
    behind = counts[:k] - of_listed
    largest = int(behind.max())
    position = int(behind.argmax()) + 1 if largest else 0
    return [
        largest,
        int(np.abs(behind).sum()),
        max(0, int(counts[k - 1] - of_listed.min())),
        int(np.abs(behind[:_FIRST]).sum()),
        position,
    ]


def gaps(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return h(i) - h(i + 1) for i = 1, ..., n, or as many as there are."""
    return -np.diff(counts[: n + 1])


def typical_gap(counts: NDArray[np.int64]) -> float:
    """Return the median of the first 200 gaps.

    >>> typical_gap(np.array([9, 8, 5, 1]))
    3.0
    """
    return float(np.median(gaps(counts, _N_GAPS)))


def mean_positions(positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average the ranks of the largest error over the trials that err.

    Args:
        positions: as `errors` returns them, shape (points, trials).

    Returns:
        Shape (points,), NaN where fewer than half of the trials err.
    """
    errs = positions > 0
    means = positions.sum(axis=1) / np.maximum(1, errs.sum(axis=1))
    shown: NDArray[np.float64] = np.where(errs.mean(axis=1) >= 1 / 2, means, np.nan)
    return shown

"""Histograms of sizes in buckets that double, from values in memory."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
_ENDS = 1 << np.arange(63)  # the largest size of each bucket


def by_bucket(
    groups: Int64s, sides: Int64s | int, sizes: Int64s, amounts: Int64s, n_groups: int
) -> list[Sequence[Any]]:
    """Count people and add up their amounts, by group, side (0 to 3) and bucket of their size.

    Bucket 0 is of size 1, 1 of 2, 2 of 3 and 4, 3 of 5 to 8, and so on. Sizes are at least 1, and
    amounts at least 0. Returns the sides, buckets, people, and totals (strings) of each group.
    """
    buckets = np.searchsorted(_ENDS, sizes)
    coded = (groups.astype(np.int64) * 4 + sides) * 64 + buckets
    codes, places, people = np.unique(coded, return_inverse=True, return_counts=True)
    halves = np.zeros((2, codes.size), np.int64)
    np.add.at(halves[0], places, amounts >> 32)
    np.add.at(halves[1], places, amounts & 0xFFFFFFFF)
    totals = [str((high << 32) + low) for high, low in halves.T.tolist()]
    ends = np.searchsorted(codes, 256 * np.arange(n_groups + 1)).tolist()
    listed = codes >> 6 & 3, codes & 63, people, totals
    return [[one[start:stop] for start, stop in pairwise(ends)] for one in listed]

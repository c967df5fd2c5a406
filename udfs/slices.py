"""Groups are worked on in parts, so that arrays stay small. Only the speed varies."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def slices(sizes: Sequence[int], most: int, together: int) -> Iterator[slice]:
    """Yield slices of up to `most` groups, each closed once its sizes add up to `together`.

    >>> [(part.start, part.stop) for part in slices([1, 1, 1, 9, 1], 2, 9)]
    [(0, 2), (2, 4), (4, 5)]
    """
    start = total = 0
    for i, size in enumerate(sizes, start=1):
        total += size
        if i - start == most or total >= together or i == len(sizes):
            yield slice(start, i)
            start, total = i, 0


def in_rectangles(
    widths: NDArray[np.integer[Any]], most: int, together: int
) -> Iterator[NDArray[np.intp]]:
    """Yield groups, up to `most` at a time, that fit arrays of `together` cells, widest first.

    Each group takes as many cells as the widest one beside it. One wider than `together` is alone.

    >>> [part.tolist() for part in in_rectangles(np.array([1, 1, 9, 1, 4]), 3, 9)]
    [[2], [4, 0], [1, 3]]
    """
    order, start = np.argsort(-widths, kind="stable"), 0
    while start < order.size:
        end = start + max(1, min(most, together // max(1, int(widths[order[start]]))))
        yield order[start:end]
        start = end

"""Slices of groups that are worked on at once, so that arrays stay small. Only the speed varies."""

from collections.abc import Iterator, Sequence


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

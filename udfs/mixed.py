"""Several data sets in columns that they share. Knows integers, and nothing of their meaning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.checks import check_int

Ints = NDArray[np.int64]
Numbers = NDArray[Any]
"""int64, or Python's integers of any size as objects."""


@dataclass(frozen=True)
class Mixed(Sequence[Any]):
    """Data sets 0, 1, ..., n - 1: entry i, of all columns, is of the data set owners[i], ascending.

    As a sequence, each is the tuple of its columns.
    """

    n: int
    owners: Ints
    columns: tuple[Any, ...]

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        ends = np.searchsorted(self.owners, np.arange(self.n + 1)).tolist()
        return (tuple(one[i:j] for one in self.columns) for i, j in pairwise(ends))

    def __getitem__(self, which: Any) -> Any:
        own = range(self.n)[which]
        if isinstance(own, int):
            return self._part(own, own + 1).columns
        return self._part(own.start, own.stop)

    def where(self, kept: NDArray[np.bool_]) -> "Mixed":
        """Take some of the entries."""
        columns = (
            one[kept] if isinstance(one, np.ndarray) else [*compress(one, kept.tolist())]
            for one in self.columns
        )
        return Mixed(self.n, self.owners[kept], tuple(columns))

    def _part(self, start: int, stop: int) -> "Mixed":
        first, last = np.searchsorted(self.owners, (start, stop)).tolist()
        columns = tuple(column[first:last] for column in self.columns)
        return Mixed(stop - start, self.owners[first:last] - start, columns)


class Singles(Sequence[Any]):
    """The same data sets, each as a tuple of it alone."""

    def __init__(self, data: Mixed) -> None:
        self.data = data

    def __len__(self) -> int:
        return self.data.n

    def __iter__(self) -> Iterator[Any]:
        return ((one,) for one in self.data)

    def __getitem__(self, which: Any) -> Any:
        own = self.data[which]
        return Singles(own) if isinstance(own, Mixed) else (own,)


def mixed(data: Sequence[Sequence[Any]], *names: str) -> Mixed:
    """Put data sets into common columns of these names, unless they are in such."""
    if isinstance(data, Mixed):
        return data
    if any(len({*map(len, one)}) > 1 for one in data):
        raise ValueError(f"{', '.join(names)} must have the same length")
    owners = np.repeat(np.arange(len(data)), [len(one[0]) for one in data])
    columns = zip(*data, strict=True) if data else ((),) * len(names)
    return Mixed(len(data), owners, tuple(map(_joined, columns)))


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [*chain.from_iterable(parts)]


def exact(name: str, values: Any) -> Numbers:
    """Refuse what are not integers; as int64 if they fit, and else as objects."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return values
    numbers = [*values]
    if not {*map(type, numbers)} <= {int}:
        for number in numbers:
            check_int(name, number)
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return np.array(numbers, object)

"""What people contribute, in buckets that double. Knows integers; nothing about rows or money."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.mixed import Ints, Numbers, exact, mixed

_NAMES = ("buckets", "people", "sums", "negative")
_MOST_SHIFTED = 61  # so that 1 << bucket fits 64 bits


@dataclass(frozen=True)
class Histograms:
    """People by what they contribute, for each of n data sets: entry i is of data set owners[i].

    Those of an entry contribute more than 2**(bucket-1), at most 2**bucket. A data set may have
    several entries of one bucket. Totals fit 64 bits, or `sums` has objects.
    """

    n: int
    owners: Ints
    buckets: Ints
    people: Ints
    sums: Numbers  # of the contributions of each entry's people
    negative: NDArray[np.bool_]  # the entries whose sums count below 0

    def totals(self) -> Numbers:
        """Add up the contributions of each data set."""
        return self._added(self.sums)

    def clipped(self, places: Ints) -> Numbers:
        """Add up the contributions of each data set, each counted up to 2**places of it."""
        at, sizes = places[self.owners], self.sums.copy()
        cut, kind = np.flatnonzero(self.buckets > at), self.sums.dtype
        # This is less than what they contribute, so it fits.
        sizes[cut] = self.people[cut].astype(kind) << at[cut].astype(kind)
        return self._added(sizes)

    def tops(self) -> Ints:
        """Find the largest bucket of each data set; 0 if it is empty."""
        found = np.zeros(self.n, np.int64)
        np.maximum.at(found, self.owners, self.buckets)
        return found

    def of(self, some: Ints) -> "Histograms":
        """Take some of the data sets."""
        numbers = np.full(self.n, -1)
        numbers[some] = np.arange(some.size)
        owners = numbers[self.owners]
        return replace(self, n=some.size, owners=owners).where(owners >= 0)

    def where(self, kept: Any) -> "Histograms":
        """Take some of the entries."""
        own = (self.owners, self.buckets, self.people, self.sums, self.negative)
        return Histograms(self.n, *(one[kept] for one in own))

    def _added(self, sizes: Numbers) -> Numbers:
        found = np.zeros(self.n, sizes.dtype)
        np.add.at(found, self.owners, np.where(self.negative, -sizes, sizes))
        return found


def above_each(these: Histograms, n: int) -> Ints:
    """Count the people of each who contribute more than 1, 2, 4, ..., 2**(n-1): a row for each."""
    found = np.zeros((these.n, n + 1), np.int64)
    np.add.at(found, (these.owners, np.minimum(these.buckets, n)), these.people)
    return np.ascontiguousarray(found[:, :0:-1].cumsum(axis=1)[:, ::-1])


def read_histograms(data: Sequence[Sequence[Any]], in_part: bool = False) -> Histograms:
    """Check data sets of buckets, people and sums; with a fourth column, which sums are below 0.

    in_part: whether sums may leave out some of what people contribute.
    """
    of = mixed(data, *_NAMES)
    buckets, people, sums, *signs = map(exact, _NAMES, of.columns)
    if min(buckets.min(initial=0), people.min(initial=1) - 1) < 0:
        raise ValueError("buckets must not be negative, and people must be positive")
    if buckets.dtype == object or not fits(people):
        raise ValueError("buckets or people are too many for 64 bits")
    if not fits(sums) or buckets.max(initial=0) > _MOST_SHIFTED:
        sums = sums.astype(object)
    most = np.ones(sums.size, sums.dtype) << buckets.astype(sums.dtype)
    least = 0 if in_part else most >> 1
    if not ((sums // people > least) & (-(-sums // people) <= most)).all():
        raise ValueError("sums must fit the buckets and people")
    (below,) = signs or [np.zeros(sums.size, np.int64)]
    if not ((below == 0) | (below == 1)).all():
        raise ValueError("negative must be 0 or 1")
    return Histograms(of.n, of.owners, buckets, people, sums, below == 1)


def fits(numbers: Numbers, times: int = 1) -> bool:
    """Whether numbers >= 0, each multiplied by `times`, add up to something that fits 64 bits."""
    if numbers.dtype == object:
        return False
    return int(numbers.max(initial=0)) * numbers.size * times < 1 << 63

"""What people contribute, in buckets that double. Knows integers; nothing about rows or money."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.checks import check_int

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Histogram:
    """People by what they contribute: those of bucket j more than 2**(j-1), at most 2**j."""

    people: dict[int, int]
    sums: dict[int, int]  # of the contributions of each bucket's people

    @property
    def total(self) -> int:
        """The sum of all contributions."""
        return sum(self.sums.values())

    def clipped(self, i: int) -> int:
        """Add up the contributions, each counted up to 2**i."""
        return sum(self.people[at] << i if at > i else its for at, its in self.sums.items())


def together(one: Histogram, other: Histogram) -> Histogram:
    """Add two histograms up."""
    found = Histogram(defaultdict(int, one.people), defaultdict(int, one.sums))
    for at, n in other.people.items():
        found.people[at] += n
        found.sums[at] += other.sums[at]
    return found


def above_each(these: Sequence[Histogram], n: int) -> Ints:
    """Count the people of each who contribute more than 1, 2, 4, ..., 2**(n-1): a row for each."""
    found = np.zeros((len(these), n), np.int64)
    entries = [(i, at, k) for i, one in enumerate(these) for at, k in one.people.items() if at]
    if n and entries:
        rows, buckets, people = np.array(entries, np.int64).T
        np.add.at(found, (rows, np.minimum(buckets, n) - 1), people)
    return np.ascontiguousarray(found[:, ::-1].cumsum(axis=1)[:, ::-1])


def check_lengths(buckets: Sequence[int], people: Sequence[int], sums: Sequence[int]) -> None:
    """Refuse columns that do not have an entry each."""
    if not len(buckets) == len(people) == len(sums):
        raise ValueError("buckets, people and sums must have the same length")


def read_histogram(buckets: Sequence[int], people: Sequence[int], sums: Sequence[int]) -> Histogram:
    """Check and add up entries; a bucket may occur several times."""
    check_lengths(buckets, people, sums)
    found = Histogram(defaultdict(int), defaultdict(int))
    for at, n, its in zip(buckets, people, sums, strict=True):
        if not type(at) is type(n) is type(its) is int:
            for name, number in (("buckets", at), ("people", n), ("sums", its)):
                check_int(name, number)
        if at < 0 or n < 1:
            raise ValueError("buckets must not be negative, and people must be positive")
        if not n * ((1 << at >> 1) + 1) <= its <= n << at:
            raise ValueError("sums must fit the buckets and people")
        found.people[at] += n
        found.sums[at] += its
    return found

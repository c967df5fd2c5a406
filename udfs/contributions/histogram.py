"""What people contribute, in buckets that double. Knows integers; nothing about rows or money."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.udfs.checks import check_int


@dataclass(frozen=True)
class Histogram:
    """People by what they contribute: those of bucket j more than 2**(j-1), at most 2**j."""

    people: dict[int, int]
    sums: dict[int, int]  # of the contributions of each bucket's people

    @property
    def total(self) -> int:
        """The sum of all contributions."""
        return sum(self.sums.values())

    def above(self, n: int) -> list[int]:
        """Count the people who contribute more than 1, 2, 4, ..., 2**(n-1)."""
        left = sum(self.people.values())
        return [left := left - self.people.get(i, 0) for i in range(n)]

    def clipped(self, i: int) -> int:
        """Add up the contributions, each counted up to 2**i."""
        return sum(self.people[at] << i if at > i else its for at, its in self.sums.items())


def read_histogram(buckets: Sequence[int], people: Sequence[int], sums: Sequence[int]) -> Histogram:
    """Check and add up entries; a bucket may occur several times."""
    if not len(buckets) == len(people) == len(sums):
        raise ValueError("buckets, people and sums must have the same length")
    found = Histogram(defaultdict(int), defaultdict(int))
    for at, n, its in zip(buckets, people, sums, strict=True):
        for name, number in (("buckets", at), ("people", n), ("sums", its)):
            check_int(name, number)
        if at < 0 or n < 1:
            raise ValueError("buckets must not be negative, and people must be positive")
        if not n * ((1 << at >> 1) + 1) <= its <= n << at:
            raise ValueError("sums must fit the buckets and people")
        found.people[at] += n
        found.sums[at] += its
    return found

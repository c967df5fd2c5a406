"""The items that a list can hold, best first, and the lists within an error. Never draws."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# These decide the speed, never the numbers.
_CHUNK = 64
_MANY = 16


class Ranking(NamedTuple):
    """The items that a list with err < cut can hold, best first, ties by position."""

    gaps: Ints  # largest count minus the item's count, nondecreasing, shape (m,)
    places: Ints  # the items' positions in the domain, shape (m,)
    n_items: int
    k: int
    cut: int

    def n_choices(self, layers: Sequence[int]) -> Ints:
        """Count the items left for each rank at err <= layer, shape (len(layers), k)."""
        # Nothing in the ranking is further off than its last item, so that layer is enough.
        furthest = int(self.gaps[-1])
        within = np.array([min(layer, furthest) for layer in layers], dtype=np.int64)
        eligible = self.gaps.searchsorted(within[:, np.newaxis] + self.gaps[: self.k], "right")
        return (eligible - np.arange(self.k)).astype(np.int64, copy=False)

    def n_lists(self, layers: Sequence[int]) -> list[int]:
        """Count the lists with err <= layer, for layers before the cut."""
        # As many factors as fit a 64-bit integer are multiplied by numpy, the rest by Python.
        group = min(62 // self.n_items.bit_length(), self.k)
        lists = []
        for start in range(0, len(layers), _CHUNK):
            choices = self.n_choices(layers[start : start + _CHUNK])
            filler = np.ones((len(choices), -self.k % group), dtype=np.int64)
            factors = np.hstack([choices, filler]).reshape(len(choices), -1, group).prod(axis=2)
            lists += [_product(row) for row in factors.tolist()]
        return lists

    def all_lists(self) -> int:
        """Count all lists of the domain."""
        return math.perm(self.n_items, self.k)


def _product(factors: list[int]) -> int:
    """Multiply, halves first, so that large numbers meet large numbers."""
    if len(factors) <= _CHUNK:
        return math.prod(factors)
    middle = len(factors) >> 1
    return _product(factors[:middle]) * _product(factors[middle:])


def rank(counts: Ints, k: int, cut: int) -> Ranking:
    """Sort the items that matter."""
    d, top = len(counts), int(counts.max())
    gaps, limit, places = top - counts, top, np.arange(d)
    if cut <= top:  # else a list can hold every item
        # The k-th largest of the maxima of disjoint parts is at most the k-th largest count.
        n_parts = min(max(4 * k, 256), d)
        maxima = np.sort(counts[: d - d % n_parts].reshape(-1, n_parts).max(axis=0))
        limit = min(top - int(maxima[-k]) + cut - 1, top)
        if limit < top:
            places = np.flatnonzero(gaps <= limit)
            gaps = gaps[places]
        if len(gaps) > _MANY * k:  # the parts give a loose bound: take the k-th largest
            nearer = min(int(np.partition(gaps, k - 1)[k - 1]) + cut - 1, limit)
            if nearer < limit:
                limit, near = nearer, gaps <= nearer
                gaps, places = gaps[near], places[near]
    # Most items of a large domain belong to no one: they come last, by position, unsorted.
    order, last = np.flatnonzero(gaps < limit), places[gaps == limit]
    order = order[np.argsort(gaps[order].astype(np.uint16), kind="stable")]  # numpy: by digits
    for shift in range(16, limit.bit_length(), 16):
        order = order[np.argsort((gaps[order] >> shift).astype(np.uint16), kind="stable")]
    gaps = np.concatenate([gaps[order], np.full(len(last), limit)])
    return Ranking(gaps, np.concatenate([places[order], last]), d, k, cut)

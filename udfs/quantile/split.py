"""One quantile of the votes between two points, by the exponential mechanism. Knows no budget.

A point x counts parts of steps from the start of the grid, `parts` of them in each step. A vote is
spread evenly over the parts of its step, so ranks count parts of votes. All numbers are integers.

The outcomes are the intervals of `size` parts that the stretch meets. An outcome's error is the
distance from the wanted rank to the ranks in it. The proofs are in recursive.md.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.exact_sampling import Draws, Odds
from dp_sql.udfs.permute_and_flip import Rejection, block_width, by_weight, is_discarded

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ranks:
    """The votes, as positions on the grid in ascending order."""

    votes: Ints
    parts: int

    def at(self, x: int) -> int:
        """Return the rank of a point: how many parts of votes lie below it."""
        step, part = divmod(x, self.parts)
        before, here = self._of_step(step)
        return self.parts * before + part * here

    def last_up_to(self, rank: int, high: int) -> int:
        """Find the last point up to `high` with at most this rank, >= 0."""
        i = rank // self.parts
        if i >= self.votes.size:
            return high
        step = self._view[i]
        before, here = self._of_step(step)
        return min(step * self.parts + (rank - before * self.parts) // here, high)

    def first_from(self, rank: int) -> int:
        """Find the first point with at least this rank, which is positive and some point has."""
        step = self._view[-(-rank // self.parts) - 1]
        before, here = self._of_step(step)
        return step * self.parts - (before * self.parts - rank) // here

    def _of_step(self, step: int) -> tuple[int, int]:
        """Count the votes before a step, and those in it."""
        before = bisect_left(self._view, step)
        return before, bisect_right(self._view, step, before) - before

    @cached_property
    def _view(self) -> memoryview:
        """The votes as Python reads them one by one, which takes longer from an array."""
        return self.votes.data


@dataclass(frozen=True)
class Stretch:
    """The outcomes between two points, and the rank that is wanted there."""

    ranks: Ranks
    low: int  # points, low <= high
    high: int
    size: int
    share: Fraction  # the wanted rank, from 0 at `low` to 1 at `high`

    @cached_property
    def first(self) -> int:
        """The first outcome: outcome i holds the points from i * size to (i + 1) * size."""
        return self.low // self.size

    @cached_property
    def last(self) -> int:
        """The last outcome, which begins before `high`."""
        return max(-(-self.high // self.size) - 1, self.first)

    def error(self, outcome: int) -> int:
        """Return an outcome's error, in parts of votes over the share's denominator."""
        b = self.share.denominator
        over = b * self.ranks.at(max(outcome * self.size, self.low)) - self._wanted
        under = self._wanted - b * self.ranks.at(min((outcome + 1) * self.size, self.high))
        return max(over, under, 0)

    def within(self, error: int) -> tuple[int, int]:
        """Return the first and the last outcome with at most this error."""
        b = self.share.denominator
        end = self.ranks.last_up_to((self._wanted + error) // b, self.high)
        rank = -((error - self._wanted) // b)
        start = self.low if rank <= self._low_rank else self.ranks.first_from(rank)
        first = max(-(-start // self.size) - 1, self.first)
        return first, min(end // self.size, self.last)

    @cached_property
    def _low_rank(self) -> int:
        return self.ranks.at(self.low)

    @cached_property
    def _wanted(self) -> int:
        a, b = self.share.numerator, self.share.denominator
        return (b - a) * self._low_rank + a * self.ranks.at(self.high)


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of a stretch in blocks of similar error, as `Proposals`."""

    stretch: Stretch
    ends: list[tuple[int, int]]  # the first and last outcome of each block and those before it
    starts: list[int]  # the least error that a block may have
    odds: Odds  # the blocks, each with weight (its outcomes) * q**start

    def shortfall(self, outcome: int) -> int:
        """Return an outcome's error."""
        return self.stretch.error(outcome)

    def attempt(self, draws: Draws, rejections: object = ()) -> int | Rejection | None:
        """Propose an outcome, or None: then the attempt is repeated."""
        j = draws.choose(self.odds)
        first, last = self.ends[j]
        inner = self.ends[j - 1] if j else (first, first - 1)
        outcome = first + draws.below(_width((first, last)) - _width(inner))
        if outcome >= inner[0]:
            outcome += _width(inner)
        excess = self.stretch.error(outcome) - self.starts[j]
        return None if is_discarded(excess, self.odds, draws) else outcome


def choose(stretch: Stretch, rate: Fraction, draws: Draws) -> int:
    """Draw an outcome with probability proportional to q**error, q = exp(-rate)."""
    return by_weight(into_blocks(stretch, rate), draws)


def into_blocks(stretch: Stretch, rate: Fraction) -> Outcomes:
    """Sort the outcomes by error; the last block has no upper end."""
    width, everything = block_width(rate), (stretch.first, stretch.last)
    # Beyond so many blocks, all outcomes together weigh less than one without error (ln 2 < 7/10).
    n_blocks = 7 * _width(everything).bit_length() // 10 + 2
    ends = [stretch.within((j + 1) * width - 1) for j in range(n_blocks)] + [everything]
    starts = [j * width for j in range(n_blocks + 1)]
    sizes = [_width(ends[0])]
    sizes += [_width(end) - _width(before) for before, end in pairwise(ends)]
    odds = Odds([((n, start),) for n, start in zip(sizes, starts, strict=True)], rate)
    return Outcomes(stretch, ends, starts, odds)


def _width(interval: tuple[int, int]) -> int:
    first, last = interval
    return last - first + 1

"""One quantile of the votes between two points, by the exponential mechanism. Knows no budget.

It is drawn for several groups at once, each with votes and two points of its own. A point x counts
parts of steps from the start of the grid, `parts` of them in each step. A vote is spread evenly
over the parts of its step, so ranks count parts of votes. All numbers are integers: of 64 bits,
or where these may not do, Python's as objects.

The outcomes are the intervals of `size` parts that the stretch meets. An outcome's error is the
distance from the wanted rank to the ranks in it. The proofs are in recursive.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.permute_and_flip import block_width

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
"""Of 64 bits, or objects."""

_FITS = 1 << 62  # points and twice the largest error are at most as large, or else objects
_FEW = 8  # where more than one in so many votes is asked for, all are counted at once


@dataclass(frozen=True)
class Ranks:
    """The votes of each group, as positions on the grid in ascending order."""

    votes: Ints  # group after group; then one more, which is no vote
    starts: Ints  # where each group's votes start, and where the last one's end
    parts: int
    kind: type  # of points and ranks

    @cached_property
    def n_votes(self) -> Numbers:
        """How many votes each group has."""
        return np.diff(self.starts)

    def at(self, groups: Ints, x: Numbers) -> Numbers:
        """Return the rank of a point of each group: how many parts of votes lie below it."""
        before, here = self._of_step(groups, x // self.parts)
        rank: Numbers = self.parts * before + x % self.parts * here
        return rank

    def last_up_to(self, groups: Ints, rank: Numbers, high: Numbers) -> Numbers:
        """Find the last point up to `high` with at most this rank, >= 0."""
        n = self.n_votes[groups]
        i = np.minimum(rank // self.parts, n).astype(np.int64)
        step, before, here = self._of_vote(groups, i)
        x = step * self.parts + (rank - before * self.parts) // here
        return np.where(i < n, np.minimum(x, high), high)

    def first_from(self, groups: Ints, rank: Numbers) -> Numbers:
        """Find the first point with at least this rank; a rank that no point has is allowed."""
        i = np.clip(-(-rank // self.parts) - 1, 0, self.n_votes[groups]).astype(np.int64)
        step, before, here = self._of_vote(groups, i)
        point: Numbers = step * self.parts - (before * self.parts - rank) // here
        return point

    def _of_vote(self, groups: Ints, i: Ints) -> tuple[Numbers, Numbers, Numbers]:
        """Return the step of each group's i-th vote, the votes before it, and those in it, >= 1."""
        at = self.starts[groups] + i
        step = self.votes[at]
        if self.starts.size == 2 or _FEW * i.size < self.votes.size:
            before, here = self._of_step(groups, step)
        else:
            before, here = (numbers[at].astype(self.kind) for numbers in self._runs)
        return step.astype(self.kind), before, np.maximum(here, 1)

    @cached_property
    def _runs(self) -> tuple[Ints, Ints]:
        """Count, for each vote, those of its group before its step, and those in it."""
        begins = np.append(True, self.votes[1:] != self.votes[:-1])
        begins[self.starts] = True
        first, run = np.flatnonzero(begins), np.cumsum(begins) - 1
        before, here = first[run], np.diff(np.append(first, begins.size))[run]
        before[:-1] -= np.repeat(self.starts[:-1], self.n_votes)
        return before, here

    def _of_step(self, groups: Ints, step: Numbers) -> tuple[Numbers, Numbers]:
        """Count the votes of each group before a step, and those in it."""
        start, stop = self.starts[groups], self.starts[groups + 1]
        first = self._first_from(step, start, stop)
        here = self._first_from(step + 1, first, stop) - first
        return (first - start).astype(self.kind), here.astype(self.kind)

    def _first_from(self, step: Numbers, low: Ints, high: Ints) -> Ints:
        """Find, from `low` to before `high`, the first vote that is at least a step, or `high`."""
        if self.starts.size == 2:  # one group, which numpy searches at once
            found = self.votes[:-1].searchsorted(step.astype(np.int64))
            return np.minimum(np.maximum(found, low), high)
        low, high = low + np.zeros(step.shape, np.int64), high + np.zeros(step.shape, np.int64)
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = low + high >> 1
            is_below = (self.votes[middle] < step) & (low < high)
            low, high = np.where(is_below, middle + 1, low), np.where(is_below, high, middle)
        return low


@dataclass(frozen=True)
class Stretch:
    """The outcomes between two points of each group, and the rank that is wanted there."""

    ranks: Ranks
    low: Numbers  # points, low <= high
    high: Numbers
    size: int
    share: Fraction  # the wanted rank, from 0 at `low` to 1 at `high`

    @cached_property
    def groups(self) -> Ints:
        """The number of each group."""
        return np.arange(self.low.size)

    @cached_property
    def first(self) -> Numbers:
        """The first outcome: outcome i holds the points from i * size to (i + 1) * size."""
        first: Numbers = self.low // self.size
        return first

    @cached_property
    def last(self) -> Numbers:
        """The last outcome, which begins before `high`."""
        last: Numbers = np.maximum(-(-self.high // self.size) - 1, self.first)
        return last

    def error(self, groups: Ints, outcome: Numbers) -> Numbers:
        """Return the error of an outcome of each group, in parts of votes over the share's b."""
        b, wanted = self.share.denominator, self._wanted[groups]
        x = np.maximum(outcome * self.size, self.low[groups])
        y = np.minimum((outcome + 1) * self.size, self.high[groups])
        over, under = b * self.ranks.at(groups, x) - wanted, wanted - b * self.ranks.at(groups, y)
        error: Numbers = np.maximum(np.maximum(over, under), 0)
        return error

    def within(self, errors: Numbers) -> tuple[Numbers, Numbers]:
        """Return in each group, for each error, the first and the last outcome with at most this.

        Shape (errors,) in, (groups, errors) out.
        """
        b, groups, wanted = self.share.denominator, self.groups[:, None], self._wanted[:, None]
        low, high, least = self.low[:, None], self.high[:, None], self._low_rank[:, None]
        end = self.ranks.last_up_to(groups, (wanted + errors) // b, high)
        rank = -((errors - wanted) // b)
        start = np.where(rank <= least, low, self.ranks.first_from(groups, rank))
        first = np.maximum(-(-start // self.size) - 1, self.first[:, None])
        return first, np.minimum(end // self.size, self.last[:, None])

    @cached_property
    def most(self) -> int:
        """At least the error of any outcome."""
        return self.ranks.parts * self.share.denominator * int(self.ranks.n_votes.max(initial=0))

    @cached_property
    def _low_rank(self) -> Numbers:
        return self.ranks.at(self.groups, self.low)

    @cached_property
    def _wanted(self) -> Numbers:
        a, b = self.share.numerator, self.share.denominator
        wanted: Numbers = (b - a) * self._low_rank + a * self.ranks.at(self.groups, self.high)
        return wanted


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of each group's stretch in blocks of similar error."""

    stretch: Stretch
    rate: Fraction
    starts: Numbers  # the least error that a block may have, shape (blocks,)
    first: Numbers  # the first outcome of each block and those before it, shape (groups, blocks)
    widths: Numbers  # how many outcomes these blocks have together

    @cached_property
    def sizes(self) -> Numbers:
        """How many outcomes each block has."""
        return np.diff(self.widths, axis=1, prepend=0)

    def attempt(self, groups: Ints, draws: Draws) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Propose an outcome for each of some groups; the second array says which are kept."""
        j = draws.choose_powers(self.starts[None, :], self.rate, self.sizes[groups])
        outcome = self.first[groups, j] + draws.places(self.sizes[groups, j])
        inner = np.maximum(j - 1, 0)
        beyond = (j > 0) & (outcome >= self.first[groups, inner])
        outcome = outcome + np.where(beyond, self.widths[groups, inner], 0)
        excess = self.stretch.error(groups, outcome) - self.starts[j]
        return outcome, draws.flip_powers(excess, self.rate)


def ranks_of(votes: Sequence[Ints], n_steps: int, parts: int, denominator: int) -> Ranks:
    """Sort each group's votes; `denominator` is at least that of any share.

    numpy sorts more quickly where a position needs 16 bits or fewer.
    """
    sizes = [one.size for one in votes]
    starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
    ordered = np.zeros(int(starts[-1]) + 1, np.uint16 if n_steps < 1 << 16 else np.int64)
    if votes:
        np.concatenate(votes, out=ordered[:-1], casting="unsafe")
    for start, stop in pairwise(starts.tolist()):
        ordered[start:stop].sort(kind="stable")
    most = max((n_steps + 1) * parts - 1, 2 * parts * denominator * max([1, *sizes]))
    return Ranks(ordered.astype(np.int64), starts, parts, np.int64 if most <= _FITS else object)


def choose(stretch: Stretch, rate: Fraction, draws: Draws) -> Numbers:
    """Draw in each group, independently, an outcome in proportion to exp(-rate * its error)."""
    outcomes = into_blocks(stretch, rate)
    drawn, missing = stretch.low.copy(), stretch.groups
    while missing.size:
        found, is_kept = outcomes.attempt(missing, draws)
        drawn[missing[is_kept]] = found[is_kept]
        missing = missing[~is_kept]
    return drawn


def into_blocks(stretch: Stretch, rate: Fraction) -> Outcomes:
    """Sort the outcomes by error; the last block has no upper end."""
    width, most, kind = block_width(rate), stretch.most, stretch.ranks.kind
    # Beyond so many blocks, all outcomes together weigh less than one without error (ln 2 < 7/10).
    n_outcomes = int((stretch.last - stretch.first).max(initial=0)) + 1
    n_blocks = min(7 * n_outcomes.bit_length() // 10 + 2, most // width + 1)
    starts = [min(j * width, most) for j in range(n_blocks + 1)]
    errors = [min(j * width + width - 1, most) for j in range(n_blocks)]
    first, last = stretch.within(np.array(errors, kind))
    first = np.concatenate([first, stretch.first[:, None]], axis=1)
    last = np.concatenate([last, stretch.last[:, None]], axis=1)
    return Outcomes(stretch, rate, np.array(starts, kind), first, last - first + 1)

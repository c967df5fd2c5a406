"""Sorted votes as a rank that rises evenly along each step of the grid. Never draws.

A point x counts parts of steps from the start of the grid, `parts` of them in each step. A vote is
spread evenly over the parts of its step, so ranks count parts of votes. All numbers are integers.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
        step = int(self.votes[i])
        before, here = self._of_step(step)
        return min(step * self.parts + (rank - before * self.parts) // here, high)

    def first_from(self, rank: int, low: int) -> int:
        """Find the first point from `low` on with at least this rank, which some point has."""
        if rank <= self.at(low):
            return low
        step = int(self.votes[-(-rank // self.parts) - 1])
        before, here = self._of_step(step)
        return step * self.parts - (before * self.parts - rank) // here

    def _of_step(self, step: int) -> tuple[int, int]:
        """Count the votes before a step, and those in it."""
        before = int(self.votes.searchsorted(step, "left"))
        return before, int(self.votes.searchsorted(step, "right")) - before

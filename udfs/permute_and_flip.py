"""The exponential mechanism and permute-and-flip, from proposals. Knows levels; never counts.

Outcome x is at level(x) >= 0 and weighs q**level(x). The exponential mechanism draws an outcome
in proportion to its weight. Permute-and-flip visits the outcomes in random order and returns the
first that it accepts, outcome x with probability q**level(x). Both look at about one outcome,
however many there are; permute-and-flip by a race of exponential clocks. The proof is in
permute_and_flip.md.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from dp_sql.udfs.exact_sampling import Draws, Odds

Outcome = TypeVar("Outcome", bound=Hashable)


@dataclass(frozen=True)
class Clock:
    """What a race returns when a clock that was started beside it rang first."""

    index: int


class Proposals(Protocol[Outcome]):
    """Outcomes of which one can be proposed at a time."""

    def level(self, outcome: Outcome, /) -> int:
        """Return the level of an outcome, >= 0; 0 for at least one."""

    def attempt(self, draws: Draws, clocks: Sequence[int] = ()) -> Outcome | Clock | None:
        """Let every outcome x, with weight q**level(x), race against clocks.

        Args:
            draws: where the randomness comes from.
            clocks: levels; a clock of level e has weight 1 - q**e.

        Returns:
            The outcome or the clock that came first, or None when this attempt is rejected.
        """


def with_clocks(odds: Odds, clocks: Sequence[int]) -> Odds:
    """Add clocks to the odds that an attempt begins with, one outcome each."""
    if not clocks:
        return odds
    return Odds([*odds.weights, *(((1, 0), (-1, e)) for e in clocks)], odds.rate)


def is_rejected(excess: int, odds: Odds, draws: Draws) -> bool:
    """Reject a proposal with probability 1 - q**excess, where its block weighs it too heavily."""
    return bool(excess and draws.choose(Odds((((1, excess),), ((1, 0), (-1, excess))), odds.rate)))


def by_weight(this: Proposals[Outcome], draws: Draws) -> Outcome:
    """Draw an outcome with probability proportional to q**level: the exponential mechanism."""
    while (hit := this.attempt(draws)) is None or isinstance(hit, Clock):
        pass
    return hit


def by_flips(this: Proposals[Outcome], draws: Draws) -> Outcome:
    """Draw an outcome with the distribution of permute-and-flip."""
    return first_accepted(partial(_race, this, draws), this.level)


def _race(
    this: Proposals[Outcome], draws: Draws, gone: frozenset[Outcome], clocks: Sequence[int]
) -> Outcome | Clock:
    """Let the outcomes that are not gone race against clocks, by attempts until one counts."""
    while (hit := this.attempt(draws, clocks)) is None or hit in gone:
        pass
    return hit


def first_accepted(
    race: Callable[[frozenset[Outcome], Sequence[int]], Outcome | Clock],
    level: Callable[[Outcome], int],
) -> Outcome:
    """Draw an outcome with the distribution of permute-and-flip.

    Args:
        race: race(gone, clocks) draws an outcome x that is not gone with weight q**level(x), or
            Clock(i) with weight 1 - q**clocks[i].
        level: >= 0; 0 for at least one outcome.
    """
    gone: frozenset[Outcome] = frozenset()
    pieces: list[tuple[frozenset[Outcome], list[int]]] = []
    while True:
        pieces.append((gone, []))
        hit = race(gone, ())
        if isinstance(hit, Clock):
            raise TypeError("a race without clocks was won by a clock")
        if level(hit) == 0 or _came_first(race, pieces, level(hit)):
            return hit
        gone |= {hit}


def _came_first(
    race: Callable[[frozenset[Outcome], Sequence[int]], Outcome | Clock],
    pieces: list[tuple[frozenset[Outcome], list[int]]],
    level: int,
) -> bool:
    """Decide whether no failing arrival of this level fell into the time so far.

    Where one did, the time is split there, and what is now known of it is noted in the pieces.
    """
    for i, (gone, clocks) in enumerate(pieces):
        if race(gone, [*clocks, level]) == Clock(len(clocks)):
            pieces.insert(i, (gone, list(clocks)))
            for _, earlier in pieces[: i + 1]:
                earlier.append(level)
            return False
    return True

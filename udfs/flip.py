"""Permute-and-flip, by a race of clocks. Knows levels; never counts, floats or how to propose.

Permute-and-flip visits the outcomes in random order and returns the first that it accepts,
outcome x with probability q**level(x). `first_accepted` has that law and looks at about one
outcome, however many there are. The proof is in flip.md.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Outcome = TypeVar("Outcome", bound=Hashable)


@dataclass(frozen=True)
class Clock:
    """What a race returns when a clock that was started beside it rang first."""

    index: int


def first_accepted(
    race: Callable[[frozenset[Outcome], Sequence[int]], Outcome | Clock],
    level: Callable[[Outcome], int],
) -> Outcome:
    """Draw an outcome with the law of permute-and-flip.

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

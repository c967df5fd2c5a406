"""The exponential mechanism and permute-and-flip, from proposals. Knows shortfalls; never counts.

Outcome x weighs q**shortfall(x). The exponential mechanism draws an outcome in proportion to its
weight. Permute-and-flip visits the outcomes in random order and accepts x with this probability;
it is drawn by comparing the times of acceptance and rejection, each the first arrival of a Poisson
process. The proof is in permute_and_flip.md.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeVar

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.odds import Odds

Outcome = TypeVar("Outcome", bound=Hashable)


@dataclass(frozen=True)
class Rejection:
    """What a race returns when the rejection with this index came before any acceptance."""

    index: int


Race = Callable[[frozenset[Outcome], Sequence[int]], Outcome | Rejection]
"""race(gone, rejections) draws an outcome x that is not gone with weight q**shortfall(x), or
Rejection(i) with weight 1 - q**rejections[i]."""


class Proposals(Protocol[Outcome]):
    """Outcomes of which one can be proposed at a time."""

    def shortfall(self, outcome: Outcome, /) -> int:
        """Return the shortfall of an outcome, >= 0; 0 for at least one."""

    def attempt(self, draws: Draws, rejections: Sequence[int] = ()) -> Outcome | Rejection | None:
        """Let the acceptance of every outcome x, with weight q**shortfall(x), race rejections.

        The rejection of an outcome with shortfall e weighs 1 - q**e. Returns the outcome or the
        rejection that came first, or None when this attempt must be repeated.
        """


def with_rejections(odds: Odds, rejections: Sequence[int]) -> Odds:
    """Add rejections, by their shortfalls, to the odds that an attempt begins with."""
    if not rejections:
        return odds
    return Odds([*odds.weights, *(((1, 0), (-1, e)) for e in rejections)], odds.rate)


def is_discarded(excess: int, odds: Odds, draws: Draws) -> bool:
    """Discard a proposal with probability 1 - q**excess, where its block weighs it too heavily."""
    return bool(excess and draws.choose(Odds((((1, excess),), ((1, 0), (-1, excess))), odds.rate)))


def block_width(rate: Fraction) -> int:
    """Choose how many shortfalls share a block. Decides the speed, never the distribution."""
    return max(1, rate.denominator // rate.numerator)


def by_weight(this: Proposals[Outcome], draws: Draws) -> Outcome:
    """Draw an outcome with probability proportional to its weight: the exponential mechanism."""
    while (hit := this.attempt(draws)) is None or isinstance(hit, Rejection):
        pass
    return hit


def by_permute_and_flip(this: Proposals[Outcome], draws: Draws) -> Outcome:
    """Draw an outcome with the distribution of permute-and-flip."""
    return first_accepted(partial(_race, this, draws), this.shortfall)


def _race(
    this: Proposals[Outcome], draws: Draws, gone: frozenset[Outcome], rejections: Sequence[int]
) -> Outcome | Rejection:
    """Let the outcomes that are not gone race rejections, by attempts until one counts."""
    while (hit := this.attempt(draws, rejections)) is None or hit in gone:
        pass
    return hit


def first_accepted(race: Race[Outcome], shortfall: Callable[[Outcome], int]) -> Outcome:
    """Draw an outcome with the distribution of permute-and-flip."""
    gone: frozenset[Outcome] = frozenset()
    pieces: list[tuple[frozenset[Outcome], list[int]]] = []
    while True:
        pieces.append((gone, []))
        hit = race(gone, ())
        if isinstance(hit, Rejection):
            raise TypeError("a race without rejections was won by a rejection")
        if shortfall(hit) == 0 or _came_first(race, pieces, shortfall(hit)):
            return hit
        gone |= {hit}


def _came_first(
    race: Race[Outcome], pieces: list[tuple[frozenset[Outcome], list[int]]], shortfall: int
) -> bool:
    """Decide whether this shortfall was not rejected so far; if it was, split the time there."""
    for i, (gone, rejections) in enumerate(pieces):
        if race(gone, [*rejections, shortfall]) == Rejection(len(rejections)):
            pieces.insert(i, (gone, list(rejections)))
            for _, earlier in pieces[: i + 1]:
                earlier.append(shortfall)
            return False
    return True

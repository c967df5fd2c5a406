"""Choices among candidates that are so far behind. Knows levels; never scores or epsilon.

With q = exp(-rate) a candidate at level e has weight q**e in the exponential mechanism
(`by_weight` of permute_and_flip.py), or is accepted with probability q**e in permute-and-flip
(`by_flips`). Both look at few candidates, however many there are. Proofs are in levels.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dp_sql.udfs.exact_sampling import Draws, Odds
from dp_sql.udfs.permute_and_flip import Clock, is_rejected, with_clocks

_N_BLOCKS = 64


@dataclass(frozen=True)
class Levels:
    """Candidates sorted into blocks of similar level; the last block has no upper end.

    Args:
        levels: how far each candidate is behind, 0 for at least one; None: never chosen.
        blocks: (start, the positions of its candidates), every level in it >= start.
        odds: the blocks, each with weight (its candidates) * q**start.
    """

    levels: Sequence[int | None]
    blocks: Sequence[tuple[int, Sequence[int]]]
    odds: Odds = field(repr=False)

    def level(self, position: int) -> int:
        """Return the level of a candidate that may be chosen."""
        level = self.levels[position]
        if level is None:
            raise ValueError("a candidate that is never chosen has no level")
        return level

    def attempt(self, draws: Draws, clocks: Sequence[int] = ()) -> int | Clock | None:
        """Propose a candidate, or a clock, as `Proposals` says."""
        j = draws.choose(with_clocks(self.odds, clocks))
        if j >= len(self.blocks):
            return Clock(j - len(self.blocks))
        start, members = self.blocks[j]
        hit = members[draws.below(len(members))]
        return None if is_rejected(self.level(hit) - start, self.odds, draws) else hit


def sort_into_levels(behind: Sequence[int | None], rate: Fraction) -> Levels:
    """Sort candidates by how far they are behind.

    Args:
        behind: counted from anywhere; None is infinitely far, and not all may be None.
        rate: positive; q = exp(-rate).
    """
    least = min(b for b in behind if b is not None)
    levels = [None if b is None else b - least for b in behind]
    width = _width(rate)
    members: dict[int, list[int]] = {}
    for position, level in enumerate(levels):
        if level is not None:
            members.setdefault(min(level // width, _N_BLOCKS), []).append(position)
    blocks = [(j * width, members[j]) for j in sorted(members)]
    odds = Odds([((len(inside), start),) for start, inside in blocks], rate)
    return Levels(levels, blocks, odds)


def law_by_weight(levels: Levels, bits: int) -> list[tuple[Fraction, Fraction]]:
    """Enclose the probability with which `by_weight` draws each candidate: (at least, at most)."""
    rate = levels.odds.rate
    return Odds([((0 if e is None else 1, e or 0),) for e in levels.levels], rate).law(bits)


def _width(rate: Fraction) -> int:
    """Choose how many levels share a block. Decides the speed, never the distribution."""
    return max(1, rate.denominator // rate.numerator)

"""Candidates in blocks of similar shortfall, so that few are looked at. Proofs are in blocks.md."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.permute_and_flip import Rejection, block_width, is_discarded, with_rejections

_N_BLOCKS = 64


@dataclass(frozen=True)
class Blocks:
    """Candidates in blocks of similar shortfall; the last block has no upper end."""

    shortfalls: Sequence[int | None]  # of each candidate; None: it is never chosen
    blocks: Sequence[tuple[int, Sequence[int]]]  # (start, positions), shortfalls >= start
    odds: Odds = field(repr=False)  # the blocks, each with weight (its candidates) * q**start

    def shortfall(self, position: int) -> int:
        """Return the shortfall of a candidate that may be chosen."""
        shortfall = self.shortfalls[position]
        if shortfall is None:
            raise ValueError("a candidate that is never chosen has no shortfall")
        return shortfall

    def attempt(self, draws: Draws, rejections: Sequence[int] = ()) -> int | Rejection | None:
        """Propose a candidate or a rejection, as `Proposals` says."""
        j = draws.choose(with_rejections(self.odds, rejections))
        if j >= len(self.blocks):
            return Rejection(j - len(self.blocks))
        start, members = self.blocks[j]
        hit = members[draws.below(len(members))]
        return None if is_discarded(self.shortfall(hit) - start, self.odds, draws) else hit


def into_blocks(behind: Sequence[int | None], rate: Fraction) -> Blocks:
    """Sort candidates by how far they are behind; None is infinitely far, not all may be None."""
    least = min(b for b in behind if b is not None)
    shortfalls = [None if b is None else b - least for b in behind]
    width = block_width(rate)
    members: dict[int, list[int]] = {}
    for position, shortfall in enumerate(shortfalls):
        if shortfall is not None:
            members.setdefault(min(shortfall // width, _N_BLOCKS), []).append(position)
    blocks = [(j * width, members[j]) for j in sorted(members)]
    odds = Odds([((len(inside), start),) for start, inside in blocks], rate)
    return Blocks(shortfalls, blocks, odds)


def distribution_by_weight(this: Blocks, bits: int) -> list[tuple[Fraction, Fraction]]:
    """Enclose the probability with which `by_weight` draws each candidate: (at least, at most)."""
    weights = [((0 if e is None else 1, e or 0),) for e in this.shortfalls]
    return Odds(weights, this.odds.rate).distribution(bits)

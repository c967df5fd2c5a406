"""Proposals of whole lists, by layers of err, under a staircase: see joint.md and pnf_joint.md."""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from typing import NamedTuple, Protocol

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.geometric import geometric
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.permute_and_flip import Rejection, with_rejections
from dp_sql.udfs.topk.ranking import Ints, Ranking, rank

# These decide the speed, never the distribution (joint.md, "Any staircase will do").
_STEP_BITS = 4
_FORGET_BITS = 6
_FAN = 4
_BITS_PER_NAT = 26613026195688644984  # 2**64 / ln 2

Positions = tuple[int, ...]  # of k different items, best first


class Layers(Protocol):
    """Outcomes by layers, up to a cut from which all layers have all outcomes."""

    @property
    def cut(self) -> int:
        """The last layer, at least 1."""

    def n_lists(self, layers: Sequence[int]) -> list[int]:
        """Count the outcomes at or below each layer before the cut, or bound them from above."""

    def all_lists(self) -> int:
        """Count all outcomes."""


class Staircase(NamedTuple):
    """A step function of the layer that is nowhere below the number of lists."""

    starts: list[int]  # first layer of each step; the last step starts at the cut
    heights: list[int]  # value on each step, increasing; the last is the number of all lists
    odds: Odds  # the steps, each with weight rise * q**start

    def height(self, layer: int) -> int:
        """Return the value at a layer."""
        return self.heights[bisect_right(self.starts, layer) - 1]


class Lists(NamedTuple):
    """All lists of k items, as `Proposals`; `best` are the k largest counts, descending."""

    counts: Ints
    best: Ints
    ranking: Ranking
    stairs: Staircase

    def shortfall(self, picks: Positions) -> int:
        """Return min(err, cut) of a list."""
        return min(int((self.best - self.counts[list(picks)]).max()), self.ranking.cut)

    def attempt(self, draws: Draws, rejections: Sequence[int] = ()) -> Positions | Rejection | None:
        """Propose a list or a rejection, as `Proposals` says."""
        step = draws.choose(with_rejections(self.stairs.odds, rejections))
        if step >= len(self.stairs.starts):
            return Rejection(step - len(self.stairs.starts))
        ranking, start = self.ranking, self.stairs.starts[step]
        layer = start + geometric(draws, self.stairs.odds.rate, ranking.cut - start)
        if layer == ranking.cut:
            return sequence(range(ranking.n_items, ranking.n_items - ranking.k, -1), draws)
        (n_lists,) = ranking.n_lists([layer])
        spare = self.stairs.height(layer) - n_lists
        if spare and draws.choose(Odds((((n_lists, 0),), ((spare, 0),)), self.stairs.odds.rate)):
            return None
        choices: list[int] = ranking.n_choices([layer])[0].tolist()
        return tuple(ranking.places[list(sequence(choices, draws))].tolist())


def propose_lists(counts: Ints, k: int, rate: Fraction, cut: int) -> Lists:
    """Prepare the proposals, with q = exp(-rate) and the cut given."""
    ranking = rank(counts, k, cut)
    return Lists(counts, counts[ranking.places[:k]], ranking, fit_staircase(ranking, rate))


def sequence(choices: Sequence[int], draws: Draws) -> Positions:
    """Draw different ranks, the i-th uniform among those of 0, ..., choices[i] + i - 1 left."""
    moved: dict[int, int] = {}  # of a shuffle of 0, 1, 2, ... only the entries that moved
    picks = []
    for i, n in enumerate(choices):
        j = i + draws.below(n)
        picks.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return tuple(picks)


_Piece = tuple[int, int, int, int]
"""(start, end, low, high): layers start, ..., end - 1; low is the number of lists at start - 1,
high that at end - 1."""


def fit_staircase(ranking: Layers, rate: Fraction) -> Staircase:
    """Fit a staircase to the number of lists: finely wherever the distribution has weight."""
    steps = [*sorted(_fit(ranking, rate)), (ranking.cut, ranking.all_lists())]
    starts, heights, weights = [], [0], []
    for start, height in steps:
        if height > heights[-1]:
            weights.append(((height - heights[-1], start),))
            starts.append(start)
            heights.append(height)
    return Staircase(starts, heights[1:], Odds(weights, rate))


def _fit(ranking: Layers, rate: Fraction) -> list[tuple[int, int]]:
    """Choose the steps before the cut, as (start, height).

    A piece is split while it may carry a noticeable part of the weight and the number of lists
    changes much along it. Weights are known by their binary logs, to a bit or two.
    """
    scale = ranking.cut.bit_length()
    slope = (rate.numerator * _BITS_PER_NAT << scale) // rate.denominator

    def log_weight(start: int, end: int, n_lists: int) -> int:
        """Estimate the log of n_lists * (q**start - q**end)."""
        width = ((end - start) * slope).bit_length() - 64 - scale
        return n_lists.bit_length() + min(width, 0) - (start * slope >> 64 + scale)

    first, last = ranking.n_lists([0, ranking.cut - 1])
    steps = [(0, first)]
    pieces = [(1, ranking.cut, first, last)] if ranking.cut > 1 else []
    best = log_weight(0, 1, first)
    while pieces:
        best = max(best, *(log_weight(start, end, low) for start, end, low, _ in pieces))
        coarse = []
        for piece in pieces:
            start, end, low, high = piece
            flat = end - start == 1 or high.bit_length() - low.bit_length() <= _STEP_BITS
            if flat or log_weight(start, end, high) < best - _FORGET_BITS:
                steps.append((start, high))
            else:
                coarse.append(piece)
        pieces = _split(coarse, ranking)
    return steps


def _split(pieces: list[_Piece], ranking: Layers) -> list[_Piece]:
    """Cut each piece into up to _FAN parts."""
    marks = [
        sorted({start + (end - start) * i // _FAN for i in range(1, _FAN)} - {start})
        for start, end, _, _ in pieces
    ]
    lists = iter(ranking.n_lists([mark - 1 for inner in marks for mark in inner]))
    parts: list[_Piece] = []
    for (start, end, low, high), inner in zip(pieces, marks, strict=True):
        ends = [start, *inner, end]
        heights = [low, *islice(lists, len(inner)), high]
        parts += zip(ends[:-1], ends[1:], heights[:-1], heights[1:], strict=True)
    return parts

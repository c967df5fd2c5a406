"""Joint exponential mechanism for the top k. Knows counts; never items, SQL or budgets.

Draws a whole list at once, P(list) proportional to q**min(err(list), cut), where err is the
largest shortfall of a listed count against the count that belongs at its rank. The proofs of
the distribution and of the privacy are in joint.md.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from dp_sql.udfs.exact_sampling import Draws, Odds, geometric, secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words
from dp_sql.udfs.topk.ranking import Ints, Ranking, check_counts, check_public, rank

_TAIL_BITS = 40
_TAIL = Fraction(1, 1 << _TAIL_BITS)
"""The cut is so far out that all lists beyond it weigh at most 2**-40 together."""

# These decide the speed, never the distribution (joint.md, "Any staircase will do").
_STEP_BITS = 4
_FORGET_BITS = 6
_FAN = 4
_BITS_PER_NAT = 26613026195688644984  # 2**64 / ln 2


def topk(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items
            that nobody has are in it, as zeros.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.

    Returns:
        Their positions: k different integers in 0, ..., d - 1.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: Gillenwater et al. 2022, section 3; sampled by layers, see joint.md.
    """
    check_counts(counts)
    check_public(len(counts), k, epsilon)
    rate = _rate(k, epsilon)
    cut = _cut(len(counts), k, rate)
    return _topk(counts.astype(np.int64, copy=False), k, rate, cut, secret_draws())


def error_bound(d: int, k: int, epsilon: Fraction, beta: Fraction) -> int:
    """Bound err as joint.md proves it for every data set.

    Args:
        d: items in the public domain.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.
        beta: probability with which the bound may fail, in [2**-40, 1).

    Returns:
        b >= 0 such that err <= b with probability at least 1 - beta.
    """
    check_public(d, k, epsilon)
    if not isinstance(beta, Fraction):
        raise TypeError("beta must be a Fraction")
    if not _TAIL <= beta < 1:
        raise ValueError("beta must lie between 2**-40 and 1")
    _, high = ln_enclosure(Fraction(math.perm(d, k), beta), 64)
    return max(0, -(-high // _rate(k, epsilon)) - 1)


def accuracy(d: int, k: int, epsilon: Fraction, beta: Fraction) -> str:
    """Say what a list is worth, from public numbers only.

    A beta below 2**-40 is read as 2**-40: lists beyond the cut are all equally likely.
    """
    beta = max(beta, _TAIL)
    bound = error_bound(d, k, epsilon, beta)
    return (
        f"with probability at least {in_words(1 - beta)} no item is listed whose count is more "
        f"than {bound} below the count that belongs at its rank "
        f"(d = {d}, k = {k}, epsilon = {in_words(epsilon)})"
    )


def loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Price one run: an exponential mechanism of range epsilon, see joint.md."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8), bounded_range=epsilon)


def _rate(k: int, epsilon: Fraction) -> Fraction:
    """Price one unit of err: q = exp(-rate). Only for k = 1 is the score monotone."""
    return epsilon if k == 1 else epsilon * Fraction(1, 2)


def _cut(d: int, k: int, rate: Fraction) -> int:
    """Choose a public cut with q**cut * d!/(d - k)! <= 2**-40, by bit lengths (ln 2 < 7/10)."""
    bits = math.perm(d, k).bit_length() + _TAIL_BITS
    return -(-7 * bits // (10 * rate))


def _topk(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> list[int]:
    """Draw the list, with q = exp(-rate), the cut and the draws given."""
    ranking = rank(counts, k, cut)
    stairs = _staircase(ranking, rate)
    while (picks := _attempt(ranking, stairs, draws)) is None:
        pass
    return picks


@dataclass(frozen=True)
class _Staircase:
    """A step function of the layer that is nowhere below the number of lists.

    starts: first layer of each step; the last step starts at the cut.
    heights: value on each step, increasing; the last is the number of all lists.
    odds: the steps, each with weight rise * q**start.
    """

    starts: list[int]
    heights: list[int]
    odds: Odds

    def height(self, layer: int) -> int:
        """Return the value at a layer."""
        return self.heights[bisect_right(self.starts, layer) - 1]


def _attempt(ranking: Ranking, stairs: _Staircase, draws: Draws) -> list[int] | None:
    """Draw a list with the distribution of joint.md, or None when this attempt is rejected."""
    return _attempt_from(draws.choose(stairs.odds), ranking, stairs, draws)


def _attempt_from(
    step: int, ranking: Ranking, stairs: _Staircase, draws: Draws
) -> list[int] | None:
    """Finish an attempt whose step of the staircase is drawn."""
    start = stairs.starts[step]
    layer = start + geometric(draws, stairs.odds.rate, ranking.cut - start)
    if layer == ranking.cut:
        return _sequence(range(ranking.n_items, ranking.n_items - ranking.k, -1), draws)
    (n_lists,) = ranking.n_lists([layer])
    spare = stairs.height(layer) - n_lists
    if spare and draws.choose(Odds((((n_lists, 0),), ((spare, 0),)), stairs.odds.rate)):
        return None
    choices: list[int] = ranking.n_choices([layer])[0].tolist()
    places: list[int] = ranking.places[_sequence(choices, draws)].tolist()
    return places


def _sequence(choices: Sequence[int], draws: Draws) -> list[int]:
    """Draw different ranks, the i-th uniform among those of 0, ..., choices[i] + i - 1 left.

    This is a shuffle of 0, 1, 2, ... of which only the entries that moved are stored.
    """
    moved: dict[int, int] = {}
    picks = []
    for i, n in enumerate(choices):
        j = i + draws.below(n)
        picks.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return picks


_Piece = tuple[int, int, int, int]
"""(start, end, low, high): layers start, ..., end - 1, where high is the number of lists at the
last of them and low the number just before the first."""


def _staircase(ranking: Ranking, rate: Fraction) -> _Staircase:
    """Fit a staircase to the number of lists: finely wherever the distribution has weight."""
    steps = [*sorted(_fit(ranking, rate)), (ranking.cut, ranking.all_lists())]
    starts, heights, weights = [], [0], []
    for start, height in steps:
        if height > heights[-1]:
            weights.append(((height - heights[-1], start),))
            starts.append(start)
            heights.append(height)
    return _Staircase(starts, heights[1:], Odds(weights, rate))


def _fit(ranking: Ranking, rate: Fraction) -> list[tuple[int, int]]:
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


def _split(pieces: list[_Piece], ranking: Ranking) -> list[_Piece]:
    """Cut each piece into up to _FAN parts."""
    marks = [
        sorted({start + (end - start) * i // _FAN for i in range(1, _FAN)} - {start})
        for start, end, _, _ in pieces
    ]
    lists = iter(ranking.n_lists([mark - 1 for inner in marks for mark in inner]))
    parts: list[_Piece] = []
    for (start, end, low, high), inner in zip(pieces, marks, strict=True):
        ends = [start, *inner, end]
        levels = [low, *islice(lists, len(inner)), high]
        parts += zip(ends[:-1], ends[1:], levels[:-1], levels[1:], strict=True)
    return parts


JOINT = Mechanism(
    name="joint",
    function="topk",
    samples="a list of k items, by the exponential mechanism over whole lists",
    parameters=("k", "epsilon"),
    loss=loss,
    run=topk,
    accuracy=accuracy,
)

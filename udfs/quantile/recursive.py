"""Quantiles by bisection: the middle one first, then those below it and those above it.

Each quantile is drawn by the exponential mechanism among the votes between the quantiles drawn
before. A person's vote lies on one side of each, or is divided between both, so each level of the
bisection costs one part of epsilon. One quantile is the exponential mechanism itself. The proofs
are in recursive.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_int, check_probability, check_vector
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import (
    MAX_STEPS,
    Mechanism,
    PrivacyLoss,
    exponential_loss,
    in_words,
    on_one,
    with_probability,
)
from dp_sql.udfs.mixed import Mixed
from dp_sql.udfs.quantile.split import Ints, Numbers, Stretch, choose, ranks_of
from dp_sql.udfs.slices import slices

PARTS = 1 << 32
"""How finely a step is divided where the votes in it may belong to both sides."""

_GROUPS, _VOTES = 1 << 12, 1 << 20  # so many are drawn at once

Quantiles = tuple[Fraction, ...]


@dataclass(frozen=True)
class Split:
    """A quantile, and those between which it is drawn, by their places; -1 and m are the ends."""

    low: int
    middle: int
    high: int
    share: Fraction  # where the quantile lies between the two

    @property
    def is_last(self) -> bool:
        """Whether no other quantile is drawn on either side."""
        return self.high - self.low == 2


def recursive(
    votes: Sequence[Ints], quantiles: Quantiles, n_steps: int, epsilon: Fraction, draws: Draws
) -> list[list[int]]:
    """Return for each group a position of the grid 0, ..., n_steps for each quantile.

    All groups are independent; positions are in the order of the quantiles as given.

    Privacy: for each group, epsilon-DP under adding or removing one vote, and so under adding or
        removing one person whose vote is drawn from their own rows.
    Source: Smith 2011 for one quantile; Kaplan, Schnapp and Stemmer 2022 for several; see
        recursive.md.
    """
    ordered = tuple(sorted(set(quantiles)))
    m, drawn = len(ordered), splits(ordered)
    parts = PARTS if m > 1 else 1
    ranks = ranks_of(votes, n_steps, parts, max(split.share.denominator for split in drawn))
    least: Numbers = np.zeros(len(votes), ranks.kind)
    points = {-1: least, m: least + (n_steps + 1) * parts}
    steps = {}
    for split in drawn:
        size = parts if split.is_last else 1
        stretch = Stretch(ranks, points[split.low], points[split.high], size, split.share)
        outcome = choose(stretch, _rate(split.share, m, epsilon) * Fraction(1, parts), draws)
        points[split.middle] = outcome * size
        steps[ordered[split.middle]] = (outcome * size // parts).tolist()
    return [[*each] for each in zip(*(steps[q] for q in quantiles), strict=True)]


@lru_cache(maxsize=64)
def splits(ordered: Quantiles) -> tuple[Split, ...]:
    """List the quantiles in the order in which they are drawn."""
    found = []
    marks = [*ordered, Fraction(1), Fraction(0)]  # those at m and at -1 are the ends
    waiting = [(-1, len(ordered))]
    while waiting:
        low, high = waiting.pop()
        if high - low > 1:
            middle = (low + high) // 2
            share = Fraction(marks[middle] - marks[low], marks[high] - marks[low])
            found.append(Split(low, middle, high, share))
            waiting += [(middle, high), (low, middle)]
    return tuple(found)


def n_levels(m: int) -> int:
    """Return how many quantiles are drawn one after the other, of m."""
    return m.bit_length()


def _rate(share: Fraction, m: int, epsilon: Fraction) -> Fraction:
    """Return the rate of a unit of a split's error: one vote, times the share's denominator."""
    a, b = share.numerator, share.denominator
    return epsilon * Fraction(1, 2 * n_levels(m) * max(a, b - a))


def loss(quantiles: Quantiles, n_steps: int, epsilon: Fraction) -> PrivacyLoss:
    """Return the loss of all levels: exponential mechanisms that depend on earlier answers."""
    levels = n_levels(len(set(quantiles)))
    if levels == 1:
        return exponential_loss(epsilon)
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8 * levels))


def error_bound(quantiles: Quantiles, n_steps: int, epsilon: Fraction, beta: Fraction) -> int:
    """Bound how many votes lie between any answer and its quantile, of up to PARTS votes."""
    ordered = sorted(set(quantiles))
    m = len(ordered)
    points, worst = {-1: Fraction(0), m: Fraction(0)}, Fraction(0)
    for split in splits(tuple(ordered)):
        n_outcomes = (n_steps + 1) * (1 if split.is_last else PARTS)
        _, log = ln_enclosure(Fraction(n_outcomes * m, beta), 64)
        own = Fraction(log, _rate(split.share, m, epsilon) * split.share.denominator)
        moved = (1 - split.share) * points[split.low] + split.share * points[split.high]
        worst = max(worst, own + moved)
        points[split.middle] = own + moved + 1  # the votes within one part of a step
    return -(-worst // 1)


@lru_cache(maxsize=64, typed=True)
def accuracy(quantiles: Quantiles, n_steps: int, epsilon: Fraction, beta: Fraction) -> str:
    """State the error bound."""
    _check_public(quantiles, n_steps, epsilon)
    check_probability("beta", beta)
    which = "the answer and the exact quantile"
    if len(quantiles) > 1:
        which = "any answer and its exact quantile"
    bound = error_bound(quantiles, n_steps, epsilon, beta)
    given = f"(one row of each person, grid of {n_steps + 1} values, epsilon = {in_words(epsilon)})"
    return f"{with_probability(1 - beta)} at most {bound} people lie between {which} {given}"


def run_each(
    data: Sequence[tuple[Ints]], quantiles: Quantiles, n_steps: int, epsilon: Fraction
) -> list[list[int]]:
    """Draw the quantiles of the votes of each data set, from 0 to n_steps, in the order given.

    Privacy: for each, epsilon-DP under adding or removing one vote, and so under adding or removing
        one person whose vote is drawn from their own rows.
    Source: Smith 2011 for one quantile; Kaplan, Schnapp and Stemmer 2022 for several; see
        recursive.md.
    """
    _check_public(quantiles, n_steps, epsilon)
    each = [votes for (votes,) in data]
    for votes in data.columns if isinstance(data, Mixed) else each:
        check_vector("votes", votes, n_steps, "n_steps")
    found = list[list[int]]()
    for part in slices([votes.size for votes in each], _GROUPS, _VOTES):
        found += recursive(each[part], quantiles, n_steps, epsilon, secret_draws())
    return found


run = on_one(run_each, "votes")


def _check_public(quantiles: Quantiles, n_steps: int, epsilon: Fraction) -> None:
    """Refuse numbers of another type or out of their range."""
    if not isinstance(quantiles, tuple) or not quantiles:
        raise TypeError("quantiles must be a tuple of Fractions")
    for q in quantiles:
        check_probability("quantiles", q)
    check_int("n_steps", n_steps)
    if not 0 <= n_steps <= MAX_STEPS:
        raise ValueError("n_steps must lie between 0 and 2**62")
    check_epsilon(epsilon)


RECURSIVE = Mechanism(
    "recursive", "quantile", "the quantiles, the middle one first, by the exponential mechanism",
    loss, run, accuracy, run_each=run_each,
)  # fmt: skip

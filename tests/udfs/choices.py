"""Exact distributions of the shipped selections, and the neighbours they are compared on.

The loops that end with probability 1 (attempts until one counts) are replaced by the distribution of one
shipped attempt given that it counts; everything else runs as it is shipped.
"""

from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.select import blocks, normalized
from tests.udfs.distributions import accepted, distribution_of
from tests.udfs.test_permute_and_flip import drawn_from, permute_and_flip

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
MOVES = (-1, Fraction(-1, 3), 0, 1)
"""How far a neighbour's score may be off, in sensitivities."""


class PowersOf:
    """The value of exp(-rate) for all rates that are multiples of `unit`."""

    def __init__(self, q, unit):
        self.q, self.unit = q, unit

    def __getitem__(self, rate):
        exponent = rate / self.unit
        assert exponent.denominator == 1, "a rate that these tests do not expect"
        return self.q**exponent.numerator


def attempt_distribution(this, q, rejections=()):
    """The distribution of one shipped attempt; whatever does not count is None."""
    distribution, unfinished = distribution_of(
        lambda path: _attempt(this, path, rejections), {this.odds.rate: q}
    )
    assert unfinished == 0
    return distribution


_attempt = blocks.Blocks.attempt


@cache
def weight_distribution(behind, rate, q):
    return accepted(attempt_distribution(blocks.into_blocks(behind, rate), q))


_first_accepted = flip.first_accepted


@cache
def permute_and_flip_distribution(behind, rate, q):
    """The distribution of the shipped race; of more than four candidates, for speed, of its definition."""
    this = blocks.into_blocks(behind, rate)
    if len(behind) > 4:
        return permute_and_flip({i: q**level for i, level in enumerate(this.shortfalls)})

    @cache
    def race_distribution(gone, rejections):
        distribution = attempt_distribution(this, q, rejections)
        return {hit: p for hit, p in distribution.items() if hit is not None and hit not in gone}

    def run(path):
        def race(gone, rejections):
            return drawn_from(race_distribution(gone, tuple(rejections)), rejections, path)

        return _first_accepted(race, this.shortfall)

    distribution, unfinished = distribution_of(run, {})
    assert unfinished == 0
    return distribution


def _draw(distribution, path):
    return list(distribution)[path._step(list(distribution.values()))]


@contextmanager
def exact_loops(q_of):
    """Draw from the distributions of the loops in one step each."""

    def attempt(this, path, rejections=()):
        assert not rejections
        rate = this.odds.rate
        return _draw(weight_distribution(tuple(this.shortfalls), rate, q_of[rate]), path)

    def first_accepted(race, level):
        this, path = race.args
        rate = this.odds.rate
        return _draw(permute_and_flip_distribution(tuple(this.shortfalls), rate, q_of[rate]), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks.Blocks, "attempt", attempt)
        patch.setattr(flip, "first_accepted", first_accepted)
        yield


def distribution_of_choice(run, q_of):
    """The exact distribution of run(draws)."""
    with exact_loops(q_of):
        distribution, unfinished = distribution_of(run, q_of)
    assert unfinished == 0
    return distribution


def distribution_on_grid(run, grid, share=1):
    """The exact distribution of run(draws) on a coarse grid, one step of `share` of EPSILON being 1/2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalized, "grid_of", lambda epsilon: grid)
        return distribution_of_choice(run, PowersOf(Fraction(1, 2), share * EPSILON / (2 * grid)))


def neighbours(tables, sizes, moves=MOVES):
    """Each table with each one where every score has moved by at most its sensitivity."""
    for scores in tables:
        for steps in product(moves, repeat=len(sizes)):
            moved = zip(scores, steps, sizes, strict=True)
            yield scores, tuple(score + step * size for score, step, size in moved)


def without_impossible(distribution):
    return {i: p for i, p in distribution.items() if p}

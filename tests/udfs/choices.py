"""Exact laws of the shipped selections, and the neighbours they are compared on.

The loops that end with probability 1 (attempts until one counts) are replaced by the law of one
shipped attempt given that it counts; everything else runs as it is shipped.
"""

from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.select import levels, normalized
from tests.udfs.laws import accepted, law_of
from tests.udfs.test_flip import drawn_from, permute_and_flip

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


def attempt_law(this, q, clocks=()):
    """The law of one shipped attempt; whatever does not count is None."""
    law, unfinished = law_of(lambda path: _attempt(this, path, clocks), {this.odds.rate: q})
    assert unfinished == 0
    return law


_attempt = levels.Levels.attempt


@cache
def weight_law(behind, rate, q):
    return accepted(attempt_law(levels.sort_into_levels(behind, rate), q))


_first_accepted = flip.first_accepted


@cache
def flip_law(behind, rate, q):
    """The law of the shipped race; of more than four candidates, for speed, of its definition."""
    this = levels.sort_into_levels(behind, rate)
    if len(behind) > 4:
        return permute_and_flip({i: q**level for i, level in enumerate(this.levels)})

    @cache
    def race_law(gone, clocks):
        law = attempt_law(this, q, clocks)
        return {hit: p for hit, p in law.items() if hit is not None and hit not in gone}

    def run(path):
        def race(gone, clocks):
            return drawn_from(race_law(gone, tuple(clocks)), clocks, path)

        return _first_accepted(race, this.level)

    law, unfinished = law_of(run, {})
    assert unfinished == 0
    return law


def _draw(law, path):
    return list(law)[path._step(list(law.values()))]


@contextmanager
def exact_loops(q_of):
    """Draw from the laws of the loops in one step each."""

    def attempt(this, path, clocks=()):
        assert not clocks
        rate = this.odds.rate
        return _draw(weight_law(tuple(this.levels), rate, q_of[rate]), path)

    def first_accepted(race, level):
        this, path = race.args
        rate = this.odds.rate
        return _draw(flip_law(tuple(this.levels), rate, q_of[rate]), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels.Levels, "attempt", attempt)
        patch.setattr(flip, "first_accepted", first_accepted)
        yield


def law_of_choice(run, q_of):
    """The exact law of run(draws)."""
    with exact_loops(q_of):
        law, unfinished = law_of(run, q_of)
    assert unfinished == 0
    return law


def law_on_grid(run, grid, share=1):
    """The exact law of run(draws) on a coarse grid, one step of `share` of EPSILON being 1/2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalized, "grid_of", lambda epsilon: grid)
        return law_of_choice(run, PowersOf(Fraction(1, 2), share * EPSILON / (2 * grid)))


def neighbours(tables, sizes, moves=MOVES):
    """Each table with each one where every score has moved by at most its sensitivity."""
    for scores in tables:
        for steps in product(moves, repeat=len(sizes)):
            moved = zip(scores, steps, sizes, strict=True)
            yield scores, tuple(score + step * size for score, step, size in moved)


def without_impossible(law):
    return {i: p for i, p in law.items() if p}

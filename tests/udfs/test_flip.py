from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.permute_and_flip import Clock
from tests.udfs.laws import law_of, normalized

HALF = Fraction(1, 2)


def permute_and_flip(weights):
    """Permute-and-flip, by its definition."""
    law = dict.fromkeys(weights, Fraction(0))

    def visit(left, reached):
        for x in left:
            here = reached / len(left)
            law[x] += here * weights[x]
            if weights[x] < 1:
                visit([y for y in left if y != x], here * (1 - weights[x]))

    visit(list(weights), Fraction(1))
    return law


def ideal_race(levels, q, path):
    def race(gone, clocks):
        weights = {x: q**e for x, e in enumerate(levels) if x not in gone}
        weights |= {Clock(i): 1 - q**e for i, e in enumerate(clocks)}
        return drawn_from(weights, clocks, path)

    return race


def drawn_from(weights, clocks, path):
    """What came first; whatever is not the last clock is one outcome, to keep the paths few."""
    weights = normalized(weights)
    if clocks:
        last = Clock(len(clocks) - 1)
        p = weights.get(last, Fraction(0))
        return ("something else", last)[path._step([1 - p, p])]
    return list(weights)[path._step(list(weights.values()))]


def shipped_law(levels, q=HALF):
    def run(path):
        return flip.first_accepted(ideal_race(levels, q, path), lambda x: levels[x])

    law, unfinished = law_of(run, {})
    assert unfinished == 0
    return {x: law.get(x, Fraction(0)) for x in range(len(levels))}


def defined_law(levels, q=HALF):
    return permute_and_flip({x: q**e for x, e in enumerate(levels)})


@pytest.mark.parametrize("q", [HALF, Fraction(9, 10), Fraction(1, 7)])
def test_the_law_is_permute_and_flip(q):
    for size in (0, 1, 2):
        for others in combinations_with_replacement(range(4), size):
            assert shipped_law((0, *others), q) == defined_law((0, *others), q)


@pytest.mark.parametrize("levels", [(1, 2, 3, 0), (2, 2, 2, 0), (1, 1, 5, 0), (3, 0, 0, 1)])
def test_the_law_is_permute_and_flip_after_several_failures(levels):
    assert shipped_law(levels) == defined_law(levels)


def test_failures_that_are_not_looked_for_are_not_the_law(monkeypatch):
    monkeypatch.setattr(flip, "_came_first", lambda race, pieces, level: True)
    assert shipped_law((0, 1, 2)) != defined_law((0, 1, 2))


def test_pieces_that_forget_are_not_the_law(monkeypatch):
    right = flip._came_first

    def forgets(race, pieces, level):
        return right(race, [(gone, []) for gone, _ in pieces], level)

    monkeypatch.setattr(flip, "_came_first", forgets)
    assert shipped_law((0, 1, 2, 3)) != defined_law((0, 1, 2, 3))

from collections import defaultdict
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.permute_and_flip import Rejection
from tests.udfs.distributions import distribution_of, normalized

pytestmark = pytest.mark.pure

HALF = Fraction(1, 2)


def permute_and_flip(weights):
    """Permute-and-flip, by its definition."""
    distribution = dict.fromkeys(weights, Fraction(0))
    reached = {frozenset(weights): Fraction(1)}  # what is left after so many rejections
    while reached:
        after = defaultdict(Fraction)
        for left, probability in reached.items():
            for x in left:
                here = probability / len(left)
                distribution[x] += here * weights[x]
                if weights[x] < 1:
                    after[left - {x}] += here * (1 - weights[x])
        reached = after
    return distribution


def ideal_race(shortfalls, q, path):
    def race(gone, rejections):
        weights = {x: q**e for x, e in enumerate(shortfalls) if x not in gone}
        weights |= {Rejection(i): 1 - q**e for i, e in enumerate(rejections)}
        return drawn_from(weights, rejections, path)

    return race


def drawn_from(weights, rejections, path):
    """What came first; whatever is not the last rejection is one outcome, to keep the paths few."""
    weights = normalized(weights)
    if rejections:
        last = Rejection(len(rejections) - 1)
        p = weights.get(last, Fraction(0))
        return ("something else", last)[path._step([1 - p, p])]
    return list(weights)[path._step(list(weights.values()))]


def shipped_distribution(shortfalls, q=HALF):
    def run(path):
        return flip.first_accepted(ideal_race(shortfalls, q, path), lambda x: shortfalls[x])

    distribution, unfinished = distribution_of(run, {})
    assert unfinished == 0
    return {x: distribution.get(x, Fraction(0)) for x in range(len(shortfalls))}


def defined_distribution(shortfalls, q=HALF):
    return permute_and_flip({x: q**e for x, e in enumerate(shortfalls)})


@pytest.mark.parametrize("q", [HALF, Fraction(9, 10), Fraction(1, 7)])
def test_the_distribution_is_permute_and_flip(q):
    for size in (0, 1, 2):
        for others in combinations_with_replacement(range(4), size):
            assert shipped_distribution((0, *others), q) == defined_distribution((0, *others), q)


@pytest.mark.parametrize("shortfalls", [(1, 2, 3, 0), (2, 2, 2, 0), (1, 1, 5, 0), (3, 0, 0, 1)])
def test_the_distribution_is_permute_and_flip_after_several_failures(shortfalls):
    assert shipped_distribution(shortfalls) == defined_distribution(shortfalls)


def test_failures_that_are_not_looked_for_are_not_the_distribution(monkeypatch):
    monkeypatch.setattr(flip, "_came_first", lambda race, pieces, level: True)
    assert shipped_distribution((0, 1, 2)) != defined_distribution((0, 1, 2))


def test_pieces_that_forget_are_not_the_distribution(monkeypatch):
    right = flip._came_first

    def forgets(race, pieces, level):
        return right(race, [(gone, []) for gone, _ in pieces], level)

    monkeypatch.setattr(flip, "_came_first", forgets)
    assert shipped_distribution((0, 1, 2, 3)) != defined_distribution((0, 1, 2, 3))

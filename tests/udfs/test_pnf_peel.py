from fractions import Fraction
from functools import cache, partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from tests.udfs import test_em_peel as peeling
from tests.udfs.laws import NotPrivateError, added_people, check_neighbours, law_of
from tests.udfs.test_flip import drawn_from, permute_and_flip
from udfs import flip
from udfs.flip import Clock
from udfs.topk import em_peel, pnf_peel


def flip_law(this):
    """The law of the shipped race, its loop replaced by the law of the attempt that counts."""

    @cache
    def race_law(gone, clocks):
        law, unfinished = law_of(partial(this.attempt, clocks=clocks), peeling.Q_OF_RATE)
        assert unfinished == 0
        return {hit: p for hit, p in law.items() if hit is not None and hit not in gone}

    def first_accepted(inner):
        def race(gone, clocks):
            return drawn_from(race_law(gone, tuple(clocks)), clocks, inner)

        return flip.first_accepted(race, this.level)

    law, unfinished = law_of(first_accepted, {})
    assert unfinished == 0
    return law


exact_take = peeling.OncePerRound(flip_law)


def shipped_law(counts, k, cut):
    return peeling.shipped_law(counts, k, cut, exact_take)


def defined_law(counts, k, cut):
    return peeling.defined_law(counts, k, cut, permute_and_flip)


def without_impossible(law):
    return {picks: p for picks, p in law.items() if p}


@pytest.mark.parametrize("cut", [1, 2, 9])
def test_the_law_is_the_definition_for_every_small_histogram(cut):
    for counts, k in peeling.small_cases():
        assert shipped_law(counts, k, cut) == without_impossible(defined_law(counts, k, cut))


def check_privacy(law, d):
    check_neighbours(law, added_people(product(range(3), repeat=d)), peeling.LOSS)


@pytest.mark.parametrize("cut", [1, 2, 6])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_no_neighbours_can_be_told_apart(d, k, cut):
    check_privacy(lambda counts: shipped_law(counts, k, cut), d)


def test_all_of_epsilon_in_each_round_is_not_private(monkeypatch):
    monkeypatch.setattr(em_peel, "_rate", lambda k, epsilon: epsilon)
    with pytest.raises(NotPrivateError):
        check_privacy(lambda counts: shipped_law(counts, 2, 6), 3)


def test_a_factor_two_that_monotone_counts_do_not_need_is_not_the_law(monkeypatch):
    monkeypatch.setattr(em_peel, "_rate", lambda k, epsilon: epsilon / (2 * k))
    assert shipped_law((3, 2, 0), 3, 6) != defined_law((3, 2, 0), 3, 6)


def test_items_that_are_not_removed_are_not_the_law(monkeypatch):
    monkeypatch.setattr(em_peel, "insort", lambda taken, rank: None)
    assert shipped_law((3, 2, 0), 2, 6) != defined_law((3, 2, 0), 2, 6)


def test_the_exponential_mechanism_is_not_the_law():
    assert peeling.shipped_law((3, 2, 0), 1, 6) != defined_law((3, 2, 0), 1, 6)


def test_the_race_tries_again_after_a_rejection_and_after_a_gone_item():
    script = [None, 7, 7, 3, Clock(0)]
    scripted = SimpleNamespace(attempt=lambda draws, clocks: script.pop(0))
    assert pnf_peel._race(scripted, None, frozenset({7}), []) == 3
    assert pnf_peel._race(scripted, None, frozenset({7}), [1]) == Clock(0)


def test_the_accuracy_sentence_is_that_of_peeling():
    public = (1000, 10, Fraction(1), Fraction(1, 20))
    assert pnf_peel.accuracy(*public) == em_peel.accuracy(*public)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (300, 1), (300, 7), (300, 300), (20_000, 100)])
@pytest.mark.parametrize("shape", peeling.SHAPES)
def test_any_histogram_gives_a_list_of_different_items(shape, d, k, epsilon):
    counts = np.random.default_rng(d).permutation(peeling.SHAPES[shape](d)).astype(np.int64)
    picks = pnf_peel.topk(counts, k, epsilon)
    assert len(set(picks)) == k
    assert all(type(x) is int and 0 <= x < d for x in picks)


def test_far_apart_counts_are_listed_in_order():
    counts = np.array([5, 90, 20, 70, 0]) * 10**6
    assert pnf_peel.topk(counts, 4, Fraction(1)) == [1, 3, 2, 0]

import math
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from tests.udfs.laws import (
    NotPrivateError,
    accepted,
    added_people,
    check_neighbours,
    law_of,
    normalized,
)
from udfs.topk import em_peel, ranking

EPSILON = Fraction(1)
LOSS = Fraction(64)
"""In exact laws exp(epsilon) is the rational 64, so q is 1/64, 1/8, 1/4 for k = 1, 2, 3."""

Q_OF_RATE = {
    EPSILON: Fraction(1, 64),
    EPSILON / 2: Fraction(1, 8),
    EPSILON / 3: Fraction(1, 4),
    EPSILON / 6: Fraction(1, 2),
}


class OncePerRound:
    """`take`, its loop replaced by a law of the whole round, which is worked out once per round."""

    def __init__(self, law_of_round):
        self.law_of_round, self.known = law_of_round, {}

    def __call__(self, this, path):
        rate = this.odds.rate
        key = (*this.gaps.tolist(), this.first, this.cut, *this.taken, rate, Q_OF_RATE[rate])
        key = (key, tuple(this.blocks), em_peel.Round.level)
        if key not in self.known:
            self.known[key] = self.law_of_round(this)
        ranks, probabilities = zip(*self.known[key].items(), strict=True)
        return ranks[path._step(list(probabilities))]


def weight_law(this):
    """The law of the shipped attempt given that it is accepted."""
    law, unfinished = law_of(this.attempt, Q_OF_RATE)
    assert unfinished == 0
    return accepted(law)


exact_take = OncePerRound(weight_law)


def shipped_law(counts, k, cut, take=exact_take):
    """The exact law of the shipped sampler."""
    counts = np.array(counts, dtype=np.int64)
    few, places = ranking.rank(counts, k, cut), ranking.rank(counts, k, 2**62).places
    rate = em_peel._rate(k, EPSILON)

    def run(path):
        ranks = em_peel._peel(few.gaps, len(counts), k, rate, cut, take, path)
        return tuple(places[ranks].tolist())

    law, unfinished = law_of(run, Q_OF_RATE)
    assert unfinished == 0
    return law


def exponential(weights):
    return normalized(weights)


def defined_law(counts, k, cut, one_round=exponential):
    """Peeling by its definition, with a law for one round out of the q**e of the free items."""
    q = Q_OF_RATE[EPSILON / k]
    law = {}
    for picks in permutations(range(len(counts)), k):
        probability = Fraction(1)
        for i, pick in enumerate(picks):
            free = [x for x in range(len(counts)) if x not in picks[:i]]
            most = max(counts[x] for x in free)
            weights = {x: q ** min(most - counts[x], cut) for x in free}
            probability *= one_round(weights)[pick]
        law[picks] = probability
    return law


def small_cases():
    for d in (1, 2, 3):
        for counts in combinations_with_replacement(range(5), d):
            yield from ((counts, k) for k in range(1, d + 1))
    for counts in combinations_with_replacement((0, 1, 2, 4), 4):
        yield from ((counts, k) for k in (1, 2))


@pytest.mark.parametrize("width", [None, 1, 2, 5])
@pytest.mark.parametrize("cut", [1, 2, 9])
def test_the_law_is_the_definition_for_every_small_histogram(monkeypatch, cut, width):
    if width:
        monkeypatch.setattr(em_peel, "_width", lambda rate: width)
    for counts, k in small_cases():
        assert shipped_law(counts, k, cut) == defined_law(counts, k, cut), counts


def check_privacy(law, d):
    check_neighbours(law, added_people(product(range(3), repeat=d)), LOSS)


@pytest.mark.parametrize("cut", [1, 2, 6])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_no_neighbours_can_be_told_apart(d, k, cut):
    check_privacy(lambda counts: shipped_law(counts, k, cut), d)


def widest_range(d, k, cut):
    """The largest quotient of two outputs' ratios, over all small neighbours: exp of the range."""
    widest = Fraction(1)
    for counts, other in added_people(product(range(3), repeat=d)):
        before, after = shipped_law(counts, k, cut), shipped_law(other, k, cut)
        ratios = [after[picks] / before[picks] for picks in before]
        widest = max(widest, max(ratios) / min(ratios))
    return widest


@pytest.mark.parametrize("cut", [1, 6])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 1), (2, 2), (3, 2), (3, 3)])
def test_the_losses_lie_within_the_range_that_is_stated(d, k, cut):
    stated = em_peel.loss(k, EPSILON).bounded_range / EPSILON
    (q,) = (Q_OF_RATE[rate] for rate in [EPSILON / k])
    assert widest_range(d, k, cut) <= (1 / q) ** int(stated * k)


def test_a_range_that_forgets_a_round_is_found_out():
    one_round = 1 / Q_OF_RATE[EPSILON / 2]
    assert widest_range(3, 2, 6) > one_round


def test_all_of_epsilon_in_each_round_is_not_private(monkeypatch):
    monkeypatch.setattr(em_peel, "_rate", lambda k, epsilon: epsilon)
    with pytest.raises(NotPrivateError):
        check_privacy(lambda counts: shipped_law(counts, 2, 6), 3)


def test_a_cut_taken_from_the_data_is_not_private():
    def law(counts):
        return shipped_law(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)

    with pytest.raises(NotPrivateError):
        check_neighbours(law, added_people([(5, 0, 0)]), LOSS)


def test_a_factor_two_that_monotone_counts_do_not_need_is_not_the_law(monkeypatch):
    monkeypatch.setattr(em_peel, "_rate", lambda k, epsilon: epsilon / (2 * k))
    assert shipped_law((3, 2, 0), 3, 6) != defined_law((3, 2, 0), 3, 6)


def test_items_that_are_not_removed_are_not_the_law(monkeypatch):
    monkeypatch.setattr(em_peel, "insort", lambda taken, rank: None)
    assert shipped_law((3, 2, 0), 2, 6) != defined_law((3, 2, 0), 2, 6)


def test_shortfalls_against_a_taken_count_are_not_the_law(monkeypatch):
    monkeypatch.setattr(em_peel.Round, "level", lambda this, rank: min((0, 1, 3)[rank], this.cut))
    assert shipped_law((3, 2, 0), 2, 2) != defined_law((3, 2, 0), 2, 2)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(400)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (10, 10), (10**6, 100)])
def test_the_cut_makes_the_tail_lighter_than_two_to_the_minus_forty(d, k, epsilon):
    rate = em_peel._rate(k, epsilon)
    cut = em_peel._cut(d, k, rate)
    assert float(cut * rate) >= math.log(d * k) + 40 * math.log(2)
    assert em_peel.error_bound(d, k, epsilon, Fraction(1, 2**40)) < cut


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2), (3, 3)])
def test_the_error_bound_holds_for_every_small_histogram(d, k):
    # At exp(epsilon) = 64 the bound is the least b with d k q**(b + 1) <= beta.
    q, beta = Q_OF_RATE[EPSILON / k], Fraction(1, 10)
    bound = next(b for b in range(100) if d * k * q ** (b + 1) <= beta)
    epsilon = Fraction(4158883, 10**6)  # just below ln 64
    assert em_peel.error_bound(d, k, epsilon, beta) == bound
    for counts in combinations_with_replacement(range(bound + 3), d):
        best = sorted(counts, reverse=True)
        law = defined_law(counts, k, 10**6)
        wrong = [
            p
            for picks, p in law.items()
            if any(best[i] - counts[x] > bound for i, x in enumerate(picks))
        ]
        assert sum(wrong) <= beta


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert em_peel.accuracy(1000, 10, Fraction(1), Fraction(1, 20)) == (
        "with probability at least 0.95 no item is listed whose count is more than 122 below the "
        "count that belongs at its rank (d = 1000, k = 10, epsilon = 1)"
    )


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1), Fraction(1, 2**41)])
def test_an_error_bound_for_an_impossible_beta_is_refused(beta):
    with pytest.raises(ValueError, match="beta"):
        em_peel.error_bound(10, 2, Fraction(1), beta)


SHAPES = {
    "zipf": lambda d: 10**5 // np.arange(1, d + 1),
    "equal": lambda d: np.full(d, 7),
    "two levels": lambda d: np.repeat([3000, 0], [d // 9, d - d // 9]),
    "large gaps": lambda d: np.arange(d) * 10**9,
}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (300, 1), (300, 7), (300, 300), (20_000, 100)])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_histogram_gives_a_list_of_different_items(shape, d, k, epsilon):
    counts = np.random.default_rng(d).permutation(SHAPES[shape](d)).astype(np.int64)
    picks = em_peel.topk(counts, k, epsilon)
    assert len(set(picks)) == k
    assert all(type(x) is int and 0 <= x < d for x in picks)


def test_far_apart_counts_are_listed_in_order():
    counts = np.array([5, 90, 20, 70, 0]) * 10**6
    assert em_peel.topk(counts, 4, Fraction(1)) == [1, 3, 2, 0]


def test_a_rank_from_the_tail_is_looked_up_in_a_full_sort():
    counts = np.array([10**6, 1, 0, 2])
    picks = em_peel.peel(counts, 1, Fraction(1), lambda this, draws: 3, None)
    assert picks == [2]


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="counts"):
        em_peel.topk([3, 2, 1], 1, Fraction(1))
    with pytest.raises(ValueError, match="k must lie"):
        em_peel.topk(np.array([3, 2, 1]), 4, Fraction(1))

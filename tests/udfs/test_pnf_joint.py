import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product
from types import SimpleNamespace

import numpy as np
import pytest

from tests.udfs import test_joint as joint_laws
from tests.udfs.laws import (
    NotPrivateError,
    PathTooLongError,
    accepted,
    added_people,
    check_neighbours,
    fits,
    law_of,
    normalized,
)
from tests.udfs.test_flip import permute_and_flip
from udfs import flip
from udfs.exact import Odds
from udfs.flip import Clock
from udfs.spec import Loss
from udfs.topk import joint, pnf_joint

EPSILON = Fraction(1)
LOSS = Fraction(4)
"""In exact laws exp(epsilon) is the rational 4, so q is 1/2 for lists and 1/4 for one item."""

Q_OF_RATE = {EPSILON * i / 2: Fraction(1, 2) ** i for i in (1, 2, 4)}
HALF = Fraction(1, 2)


def shipped_lists(counts, k, cut):
    rate = joint._rate(k, EPSILON)
    return pnf_joint._lists(np.array(counts, dtype=np.int64), k, rate, cut), Q_OF_RATE[rate]


def attempt_law(lists, q, clocks=()):
    """The exact law of one shipped attempt that was not rejected."""
    law, unfinished = law_of(partial(lists.attempt, clocks=clocks), {lists.stairs.odds.rate: q})
    assert unfinished == 0
    return accepted(law)


def defined_weights(counts, k, cut, q):
    """The probability with which each list is accepted when it is visited."""
    every = permutations(range(len(counts)), k)
    return {picks: q ** min(joint_laws.err(counts, picks), cut) for picks in every}


def flips(weights):
    """Permute-and-flip: x arrives at a uniform time u, and nothing accepted arrived before u."""
    classes, law = Counter(weights.values()), {}
    for own in classes:
        product_of_others = [Fraction(1)]
        for p in (classes - Counter([own])).elements():
            shifted = zip([*product_of_others, 0], [0, *product_of_others], strict=True)
            product_of_others = [a - p * b for a, b in shifted]
        law[own] = own * sum(a / (i + 1) for i, a in enumerate(product_of_others))
    return {x: law[p] for x, p in weights.items()}


def defined_law(counts, k, cut, q):
    return flips(defined_weights(counts, k, cut, q))


def shipped_law(counts, k, cut, q=None, most_failures=99):
    """The exact law of the shipped sampler, and the probability of more failures than that.

    Its races are settled by the exact law of the shipped attempt. Lists of one level are
    equally likely at every step, so one of them is followed for all.
    """
    lists, usual_q = shipped_lists(counts, k, cut)
    q = q or usual_q
    weights = attempt_law(lists, q)
    most = max(weights.values())
    weights = {picks: p / most for picks, p in weights.items()}
    level = {picks: lists.level(picks) for picks in weights}
    n_of_level = Counter(level.values())

    @cache
    def rings(gone, clocks):
        others = sum(p for picks, p in weights.items() if picks not in gone)
        ring = 1 - q ** clocks[-1]
        others += sum(1 - q**c for c in clocks[:-1])
        return [others / (others + ring), ring / (others + ring)]

    @cache
    def hits(gone):
        left = [picks for picks in weights if picks not in gone]
        total = sum(weights[picks] for picks in left)
        firsts = {level[picks]: picks for picks in reversed(left)}
        n_left = Counter(level[picks] for picks in left)
        shares = [n_left[e] * weights[picks] / total for e, picks in firsts.items()]
        return list(firsts.values()), shares

    def run(path):
        def race(gone, clocks):
            if len(gone) > most_failures:
                raise PathTooLongError
            if clocks:
                last = Clock(len(clocks) - 1)
                return ("something else", last)[path._step(rings(gone, tuple(clocks)))]
            firsts, shares = hits(gone)
            return firsts[path._step(shares)]

        return level[flip.first_accepted(race, level.__getitem__)]

    law, unfinished = law_of(run, {})
    return {x: law.get(e, 0) / n_of_level[e] for x, e in level.items()}, unfinished


def histograms(largest_count, *sizes):
    for d in sizes:
        yield from combinations_with_replacement(range(largest_count + 1), d)


# The law.


def test_uniform_arrivals_are_permute_and_flip():
    for levels in product(range(3), repeat=3):
        weights = {i: HALF**e for i, e in enumerate((0, 1, *levels))}
        assert flips(weights) == permute_and_flip(weights)


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_an_attempt_is_a_race_of_all_lists_and_clocks_for_every_small_histogram(cut):
    clocks = (1, 3)
    for counts in (*histograms(3, 1, 2, 3), *histograms(2, 4)):
        for k in range(1, min(len(counts), 3) + 1):
            lists, q = shipped_lists(counts, k, cut)
            expected = defined_weights(counts, k, cut, q)
            assert all(q ** lists.level(picks) == p for picks, p in expected.items())
            ringing = {Clock(i): 1 - q**e for i, e in enumerate(clocks)}
            assert attempt_law(lists, q, clocks) == normalized(expected | ringing), counts


def check_law(counts, k, cut, most_failures):
    """Check the law up to some failures: what is left over must be what the definition has."""
    law, unfinished = shipped_law(counts, k, cut, HALF, most_failures)
    expected = defined_law(counts, k, cut, HALF)
    assert law.keys() == expected.keys()
    assert all(law[x] <= expected[x] <= law[x] + unfinished for x in law), counts
    assert unfinished < Fraction(1, 60)


@pytest.mark.parametrize("cut", [1, 2, 4])
@pytest.mark.parametrize(("d", "most_failures"), [(2, 1), (3, 2), (4, 2)])
def test_the_law_is_permute_and_flip_for_every_small_histogram(d, most_failures, cut):
    for others in histograms(3 if d < 4 else 2, d - 1):
        for k in range(1, min(d, 3) + 1):
            check_law((0, *others), k, cut, most_failures)


@pytest.mark.parametrize("counts", [(1, 1, 0), (2, 2, 0), (2, 0, 0)])
def test_the_law_is_permute_and_flip_to_the_last_failure(counts):
    law, unfinished = shipped_law(counts, 2, 4, HALF)
    assert unfinished == 0
    assert law == defined_law(counts, 2, 4, HALF)


def test_the_exponential_mechanism_is_not_the_law(monkeypatch):
    monkeypatch.setattr(flip, "_came_first", lambda race, pieces, level: True)
    law, _ = shipped_law((2, 1, 0), 2, 4, HALF)
    assert law == joint_laws.shipped_law((2, 1, 0), 2, 4)
    with pytest.raises(AssertionError):
        check_law((2, 1, 0), 2, 4, 3)


def test_pieces_that_forget_their_clocks_are_not_the_law(monkeypatch):
    right = flip._came_first

    def forgets(race, pieces, level):
        return right(race, [(gone, []) for gone, _ in pieces], level)

    monkeypatch.setattr(flip, "_came_first", forgets)
    with pytest.raises(AssertionError):
        check_law((2, 1, 0), 2, 4, 3)


def test_clocks_of_the_wrong_weight_are_not_the_race(monkeypatch):
    def of_weight_q_to_the_level(weights, rate):
        return Odds([((1, w[1][1]),) if len(w) > 1 else w for w in weights], rate)

    lists, q = shipped_lists((2, 1, 0), 2, 4)
    monkeypatch.setattr(pnf_joint, "Odds", of_weight_q_to_the_level)
    ringing = {Clock(0): 1 - q**2}
    assert attempt_law(lists, q, (2,)) != normalized(defined_weights((2, 1, 0), 2, 4, q) | ringing)


def test_levels_that_ignore_the_cut_are_not_the_law(monkeypatch):
    monkeypatch.setattr(
        pnf_joint._Lists,
        "level",
        lambda lists, picks: joint_laws.err(lists.counts.tolist(), picks),
    )
    with pytest.raises(AssertionError):
        check_law((0, 1, 3), 2, 1, 3)


def test_the_race_tries_again_after_a_rejection_and_after_a_list_that_is_gone():
    script = [None, (0, 1), (0, 1), (1, 0), Clock(0)]
    scripted = SimpleNamespace(attempt=lambda draws, clocks: script.pop(0))
    assert pnf_joint._race(scripted, None, frozenset({(0, 1)}), []) == (1, 0)
    assert pnf_joint._race(scripted, None, frozenset({(0, 1)}), [1]) == Clock(0)


# Privacy, over all small histograms and all people that can be added or removed.


def law_by_attempts(counts, k, cut):
    """Permute-and-flip on the weights that the shipped attempt gives to the lists."""
    lists, q = shipped_lists(counts, k, cut)
    weights = attempt_law(lists, q)
    most = max(weights.values())
    return flips({picks: p / most for picks, p in weights.items()})


def check_privacy(law, d, largest_count=2):
    histograms = product(range(largest_count + 1), repeat=d)
    check_neighbours(law, added_people(histograms), LOSS)


@pytest.mark.parametrize("cut", [1, 2, 6])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_no_neighbours_can_be_told_apart(d, k, cut):
    check_privacy(lambda counts: shipped_law(counts, k, cut)[0], d)


@pytest.mark.parametrize("cut", [1, 4])
@pytest.mark.parametrize("k", [2, 3])
def test_no_neighbours_can_be_told_apart_by_their_attempts(k, cut):
    check_privacy(lambda counts: law_by_attempts(counts, k, cut), 3)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_neighbours_can_be_told_apart_by_the_definition_on_more_items(k):
    q = Fraction(1, 4) if k == 1 else HALF
    check_privacy(lambda counts: defined_law(counts, k, 2, q), 4, 1)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_rate_twice_as_large_is_not_private(monkeypatch, k):
    right = joint._rate
    monkeypatch.setattr(joint, "_rate", lambda k, epsilon: 2 * right(k, epsilon))
    monkeypatch.setitem(Q_OF_RATE, 2 * EPSILON, HALF**4)
    with pytest.raises(NotPrivateError):
        check_privacy(lambda counts: law_by_attempts(counts, k, 6), 3)


def test_a_factor_two_that_one_item_does_not_need_is_not_the_law(monkeypatch):
    right = law_by_attempts((2, 1, 0), 1, 6)
    monkeypatch.setattr(joint, "_rate", lambda k, epsilon: epsilon / 2)
    assert law_by_attempts((2, 1, 0), 1, 6) != right


def test_a_cut_taken_from_the_data_is_not_private():
    def law(counts):
        return law_by_attempts(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)

    with pytest.raises(NotPrivateError):
        check_neighbours(law, added_people([(5, 0, 0)]), LOSS)


# Against the exponential mechanism over lists.


def laws_of_both(counts, k, q, most_failures=99):
    law, unfinished = shipped_law(counts, k, 9, q, most_failures)
    q_of = {joint._rate(k, EPSILON): q}
    return law, unfinished, joint_laws.shipped_law(counts, k, 9, q_of)


EXAMPLES = [
    ((2, 1, 0), 2, (1, 4), (318299, 491520), (8, 15), 99),
    ((3, 1, 0), 3, (1, 3), (771047, 1062882), (27, 44), 3),
    ((2, 1, 0, 0), 2, (1, 6), (9695139429880867, 15640233326936064), (1, 2), 3),
]
"""Histogram, k, q, P(top list) here and in joint, and how many failures are followed: all of
them in the first, so its law is known exactly, the others up to what is left over."""


@pytest.mark.parametrize(("counts", "k", "q", "here", "there", "most_failures"), EXAMPLES)
def test_the_top_list_is_missed_less_often_than_by_the_exponential_mechanism(
    counts, k, q, here, there, most_failures
):
    q, here, there, top = Fraction(*q), Fraction(*here), Fraction(*there), tuple(range(k))
    law, unfinished, exponential = laws_of_both(counts, k, q, most_failures)
    assert defined_law(counts, k, 9, q)[top] == here
    assert law[top] <= here <= law[top] + unfinished <= law[top] + Fraction(1, 200)
    assert exponential[top] == there
    assert here > Fraction(118, 100) * there
    assert 1 - there > Fraction(13, 10) * (1 - here)


def test_the_top_list_is_likelier_and_never_by_three_tenths():
    for counts in histograms(3, 3, 4):
        for k, q in product((1, 2), (HALF, Fraction(1, 5), Fraction(5, 6))):
            weights = defined_weights(counts, k, 9, q)
            top = max(weights, key=weights.get)
            ratio = flips(weights)[top] / normalized(weights)[top]
            assert 1 <= ratio < Fraction(13, 10)


# The public numbers.


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2), (4, 2)])
def test_the_error_bound_of_joint_holds_for_every_small_histogram(d, k):
    epsilon, beta = Fraction(3), Fraction(1, 10)
    q = Fraction(round(math.exp(-joint._rate(k, epsilon)) * 1000), 1000)
    bound = joint.error_bound(d, k, epsilon, beta)
    for counts in histograms(bound + 2, d):
        law = defined_law(counts, k, 10**6, q)
        assert sum(p for x, p in law.items() if joint_laws.err(counts, x) > bound) <= beta


def test_the_accuracy_sentence_is_that_of_joint():
    public = (1000, 10, Fraction(1), Fraction(1, 20))
    assert pnf_joint.accuracy(*public) == joint.accuracy(*public)


def test_the_loss_is_pure():
    assert pnf_joint.loss(3, Fraction(1, 3)) == Loss(Fraction(1, 3), rho=Fraction(1, 18))


# Larger inputs, and the public call.


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(100)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (300, 1), (300, 7), (300, 300), (20_000, 100)])
@pytest.mark.parametrize("shape", joint_laws.SHAPES)
def test_any_histogram_gives_a_list_of_different_items(shape, d, k, epsilon):
    rng = np.random.default_rng(d)
    counts = rng.permutation(joint_laws.SHAPES[shape](rng, d)).astype(np.int64)
    picks = pnf_joint.topk(counts, k, epsilon)
    assert len(picks) == len(set(picks)) == k
    assert all(type(x) is int and 0 <= x < d for x in picks)


def test_far_apart_counts_are_listed_in_order():
    counts = np.array([5, 90, 20, 70, 0]) * 10**6
    assert pnf_joint.topk(counts, 4, Fraction(1)) == [1, 3, 2, 0]


SAMPLED, N_SAMPLES = (6, 4, 1, 0), 3_000


def sampled(epsilon):
    counts = np.array(SAMPLED)
    return Counter(tuple(pnf_joint.topk(counts, 2, epsilon)) for _ in range(N_SAMPLES))


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_lists_drawn_with_the_right_epsilon_fit(tenths, passes):
    law = defined_law(SAMPLED, 2, 10**6, Fraction(math.exp(-0.5)))
    observed = sampled(Fraction(tenths, 10))
    assert fits(observed, {x: float(p) for x, p in law.items()}) is passes


def test_arguments_are_checked():
    counts = np.array([3, 2, 1])
    with pytest.raises(TypeError, match="counts"):
        pnf_joint.topk([3, 2, 1], 1, Fraction(1))
    with pytest.raises(ValueError, match="k must lie"):
        pnf_joint.topk(counts, 4, Fraction(1))
    with pytest.raises(TypeError, match="epsilon"):
        pnf_joint.topk(counts, 1, 1.0)
    with pytest.raises(ValueError, match="epsilon"):
        pnf_joint.topk(counts, 1, Fraction(0))

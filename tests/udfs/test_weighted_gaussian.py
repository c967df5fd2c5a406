"""Weighted Gaussian: what the constants promise, who is counted in what, and large inputs."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import chain, product
from math import isqrt

import numpy as np
import pytest

from dp_sql.udfs.concentrated import largest_rho
from dp_sql.udfs.discrete_gaussian import tails
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.groups import chosen_selection, partition_selection
from dp_sql.udfs.intervals import exp_enclosure
from dp_sql.udfs.topk import weighted_gaussian
from tests.udfs.cases_weighted_gaussian import defined_distribution
from tests.udfs.distributions import fits

PUBLIC = list(
    product(
        (1, 10, 100_000),
        (Fraction(1, 1000), Fraction(1), Fraction(100)),
        (Fraction(1, 10**18), Fraction(1, 3)),
        (1, 3, 10_000),
    )
)


def keeps_what_the_proof_asks(constants, k, epsilon, delta):
    most, slack = weighted_gaussian.loss(k, epsilon, delta, 1).approximate
    assert (most, slack) == (largest_rho(epsilon, delta / 2), delta / 2)
    weights, scale = constants.weights, constants.scale
    norm = max(t * w**2 for t, w in enumerate(weights, 1))
    rho = Fraction(norm, 2 * scale**2) + k * constants.rate**2 / 8
    _, highs = tails(scale, 128)

    def tail(x):
        return Fraction(highs[min(x, len(highs) - 1)], 1 << 128)

    return rho <= most and all(
        t * tail(constants.threshold - w) <= slack for t, w in enumerate(weights, 1)
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("k", "epsilon", "delta", "cap"), PUBLIC)
def test_the_constants_keep_what_the_proof_asks_of_them(k, epsilon, delta, cap):
    constants = weighted_gaussian._public_constants(k, epsilon, delta, cap)
    if constants is None:
        assert epsilon == Fraction(1, 1000)
        return
    assert len(constants.weights) <= cap
    assert min(constants.weights) >= 1
    assert constants.scale <= 1 << 13
    assert keeps_what_the_proof_asks(constants, k, epsilon, delta)


def is_approximately_zcdp(people, own, constants, rho, slack):
    """Whether lists without an item that `own` alone has are rho-zCDP, and others rare, exactly.

    All found items are listed, and all items of one person are kept.
    """
    without = defined_distribution(people, 3, constants)
    with_own = defined_distribution((*people, own), 3, constants)
    shared = set(chain(*people))
    usual = {picks: p for picks, p in with_own.items() if shared.issuperset(picks)}
    likely = sum(usual.values())
    usual = {picks: p / likely for picks, p in usual.items()}
    pairs = ((usual, without), (without, usual))
    return 1 - likely <= slack and all(
        sum(x**a / q[picks] ** (a - 1) for picks, x in p.items())
        <= 1 / exp_enclosure(a * (a - 1) * rho, 64)[0]
        for p, q in pairs
        for a in (2, 3, 8)
    )


def test_the_loss_is_a_rho_outside_its_slack():
    public = (3, Fraction(1), Fraction(3, 20), 3)
    constants = weighted_gaussian._public_constants(*public)
    rho, slack = weighted_gaussian.loss(*public).approximate
    enough = -(-constants.threshold // constants.weights[0])
    for n, own in product((0, 1, enough), ((0,), (1,), (0, 1), (0, 1, 2))):
        assert is_approximately_zcdp(((0,),) * n, own, constants, rho, slack)
    assert not is_approximately_zcdp((), (0, 1, 2), constants, rho, slack / 4)
    assert not is_approximately_zcdp(((0,),) * enough, (0,), constants, rho / 4, slack)


def test_weights_that_are_not_rounded_down_are_noticed():
    public = (10, Fraction(1), Fraction(1, 10**6))
    right = weighted_gaussian._public_constants(*public, 100)
    norm = 256 * 100
    nearest = tuple((isqrt(4 * norm // t) + 1) // 2 for t in range(1, 101))
    upwards = tuple(isqrt((norm - 1) // t) + 1 for t in range(1, 101))
    for weights in (nearest, upwards):
        assert not keeps_what_the_proof_asks(replace(right, weights=weights), *public)
    lower = replace(right, threshold=right.threshold - 1)
    assert not keeps_what_the_proof_asks(lower, *public)


def test_the_threshold_is_that_of_the_worst_number_of_items():
    """Many items where the noise is large beside the weights, one where it is small."""
    for epsilon, t in ((Fraction(1, 10), 50), (Fraction(1000), 1)):
        one = weighted_gaussian._public_constants(1, epsilon, Fraction(1, 10**6), 50)
        w = one.weights[t - 1]
        _, highs = tails(one.scale, 128)
        assert t * Fraction(highs[one.threshold - 1 - w], 1 << 128) > Fraction(1, 2 * 10**6)


def test_an_epsilon_too_small_for_the_noise_finds_nothing_and_says_so():
    public = (3, Fraction(1, 10**6), Fraction(1, 10**6), 10)
    pairs = np.zeros(10**5, np.int32), np.arange(10**5)
    assert weighted_gaussian.topk(*pairs, *public) == []
    assert "no item is found" in weighted_gaussian.accuracy(0, *public, Fraction(1, 20))
    assert weighted_gaussian.topk_each([pairs, pairs], *public) == [[], []]
    assert partition_selection.partition_selection(*pairs, *public[1:]) == []
    assert "no group is found" in partition_selection.accuracy(*public[1:], Fraction(1, 20))
    tiny = Fraction(1, 10**30), *public[2:]
    assert chosen_selection.chosen_selection(*pairs, *tiny) == []
    assert "a group is found if it has" in chosen_selection.accuracy(*tiny, Fraction(1, 20))
    # Gaussian noise is for two groups of a person here, of which Laplace noise takes three.
    small = Fraction(6, 10**4), Fraction(1, 10**6), 30, Fraction(1, 20)
    assert "who are in up to 2 groups each" in chosen_selection.accuracy(*small)


def weight_sums(pairs, weights):
    """Of pairs of a person and an item."""
    people, items = np.array(pairs).T
    pairs = weighted_gaussian.items_of_people(items, people)
    return weighted_gaussian._weight_sums(*pairs, weights, secret_draws()).tolist()


def test_a_person_beyond_the_cap_counts_in_some_items_drawn_evenly():
    kept = Counter()
    for _ in range(3_000):
        sums = weight_sums([(7, i) for i in range(5)] + [(-3, 0)], (9, 4))
        own = [sums[0] - 9, *sums[1:]]
        assert sorted(own) == [0, 0, 0, 4, 4]
        kept[tuple(np.flatnonzero(own).tolist())] += 1
    assert fits(kept, {(i, j): 1 / 10 for i in range(5) for j in range(i + 1, 5)})


def test_people_and_items_may_come_in_any_order_and_twice():
    pairs = [(2, 0), (0, 1), (2, 1), (2, 0), (1, 1), (0, 1)]
    assert weight_sums(pairs, (10, 7)) == [7, 7 + 10 + 10]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(10**4)])
@pytest.mark.parametrize("k", [1, 7, 300])
def test_any_lists_give_a_list_of_different_items(k, epsilon):
    g = np.random.default_rng(k)
    for n_people, n_items, mean in [
        (1, 1, 1),
        (500, 20, 3),
        (3000, 400, 150),
        (0, 0, 1),
        (0, 3, 1),
    ]:
        sizes = np.minimum(g.geometric(1 / mean, n_people), n_items)
        people = np.repeat(np.arange(n_people), sizes)
        items = g.integers(0, max(n_items, 1), people.size) ** 2 // max(n_items, 1)
        listed = weighted_gaussian.topk(items, people, k, epsilon, Fraction(1, 10**6), 100)
        assert len(listed) == len(set(listed)) <= k
        assert all(type(x) is int and 0 <= x < n_items for x in listed)


def test_items_of_many_are_listed_in_order_and_those_of_few_are_not():
    sizes = (5000, 3, 9000, 1, 7000)
    items = np.repeat(np.arange(5), sizes)
    people = np.concatenate([np.arange(n) for n in sizes])
    public = (5, Fraction(10), Fraction(1, 10**12), 10)
    assert weighted_gaussian.topk(items, people, *public) == [2, 4, 0]

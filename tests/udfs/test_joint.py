import math
import operator
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest

from dp_sql.udfs.topk import joint, lists, ranking, template
from tests.udfs.cases_joint import EPSILON, JOINT_SAMPLED, err, joint_definition, joint_distribution
from tests.udfs.distributions import fits


def error_bound(d, k, epsilon, beta):
    return template.error_bound(math.perm(d, k), joint.rate_of(k, epsilon), beta)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 30), Fraction(1), Fraction(50)])
@pytest.mark.parametrize("settings", [(0, 0, 2), (4, 6, 4), (60, 0, 3), (0, 60, 2)])
def test_no_staircase_changes_the_distribution(monkeypatch, rate, settings):
    names = ("_STEP_BITS", "_FORGET_BITS", "_FAN")
    for name, value in zip(names, settings, strict=True):
        monkeypatch.setattr(lists, name, value)
    q = Fraction(1, 2)
    for counts in ((9, 6, 2, 0), (3, 3, 3, 3), (12, 12, 0, 0), (5, 4, 3, 2)):
        distribution = joint_distribution(counts, 2, 11, fitted_at=rate)
        assert distribution == joint_definition(counts, 2, 11, q)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_distribution_follows_the_items_when_they_change_places(k):
    for counts in ((4, 4, 1), (0, 3, 2), (1, 1, 1), (0, 0, 5)):
        first = joint_distribution(counts, k, 3)
        for order in permutations(range(3)):
            moved = joint_distribution([counts[x] for x in order], k, 3)
            assert {tuple(order[x] for x in picks): p for picks, p in moved.items()} == first


def test_counts_too_large_to_sort_with_their_places_have_the_same_distribution():
    counts = np.array([2**61, 5, 2**61 - 1, 2**61 - 1, 0])
    few = ranking.rank(counts, 2, 5)
    many = ranking.rank(counts, 2, 2**62)
    assert few.places.tolist() == [0, 2, 3]
    assert many.places.tolist() == [0, 2, 3, 1, 4]
    assert many.gaps.tolist() == [0, 1, 1, 2**61 - 5, 2**61]
    for layer in (0, 1, 4):
        assert many.n_choices([layer]).tolist() == few.n_choices([layer]).tolist()
    assert many.n_lists([2**61 - 6, 2**61 - 5, 2**61 - 1, 2**61, 2**62 - 1]) == [9, 12, 16, 20, 20]


# The public numbers.


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(40)])
@pytest.mark.parametrize("n_outcomes", [math.perm, operator.mul], ids=["lists", "items"])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (10, 1), (10, 10), (1000, 20), (10**5, 100)])
def test_the_cut_makes_the_tail_lighter_than_two_to_the_minus_forty(d, k, n_outcomes, epsilon):
    n, rate = n_outcomes(d, k), epsilon / k
    cut = template.cut_of(n, rate)
    lightest = float(cut * rate)
    assert lightest >= math.log(n) + 40 * math.log(2)
    assert lightest <= 1.02 * (math.log(n) + 41 * math.log(2)) + float(rate)
    assert template.error_bound(n, rate, Fraction(1, 2**40)) < cut


@pytest.mark.parametrize(("d", "k"), [(1, 1), (10, 1), (50, 10), (10**4, 100)])
def test_the_error_bound_is_the_union_bound(d, k):
    beta, epsilon = Fraction(1, 20), Fraction(1, 2)
    rate = float(joint.rate_of(k, epsilon))
    bound = error_bound(d, k, epsilon, beta)
    log_lists = sum(math.log(d - i) for i in range(k)) - math.log(beta)
    assert log_lists <= rate * (bound + 1)
    assert bound == 0 or log_lists > rate * bound


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2), (4, 2), (4, 4)])
def test_the_error_bound_holds_for_every_small_histogram(d, k):
    epsilon, beta = Fraction(3), Fraction(1, 10)
    q = Fraction(math.exp(-joint.rate_of(k, epsilon)))
    bound = error_bound(d, k, epsilon, beta)
    for counts in combinations_with_replacement(range(bound + 3), d):
        distribution = joint_definition(counts, k, 10**6, q)
        assert sum(p for picks, p in distribution.items() if err(counts, picks) > bound) <= beta


def test_the_accuracy_sentence_does_not_promise_more_than_the_cut_allows():
    promised = joint.JOINT.accuracy(10, 2, Fraction(1), Fraction(1, 2**60))
    assert promised == joint.JOINT.accuracy(10, 2, Fraction(1), Fraction(1, 2**40))


# Larger inputs: the answers are lists of the right shape, and obvious where they are obvious.


def test_the_number_of_lists_is_counted_in_any_grouping():
    rng = np.random.default_rng(1)
    for d, k in ((500, 1), (500, 5), (500, 130), (500, 500)):
        counts = rng.integers(0, 60, d)
        ranked = ranking.rank(counts, k, 10**6)
        layers = [0, 1, 7, 59, 10**5]
        best = np.sort(counts)[::-1]
        expected = [
            math.prod(int((counts >= best[i] - t).sum()) - i for i in range(k)) for t in layers
        ]
        assert ranked.n_lists(layers) == expected


def test_many_layers_are_counted_like_few():
    ranked = ranking.rank(np.arange(300) % 97, 40, 10**6)
    layers = list(range(150))
    assert ranked.n_lists(layers) == [ranked.n_lists([layer])[0] for layer in layers]


@pytest.mark.parametrize("many", [1, 10**9])
def test_the_ranking_keeps_what_the_cut_allows_whatever_the_order(many, monkeypatch):
    """The parts' bound on the k-th largest count is loose here: two large ones share a part."""
    monkeypatch.setattr(ranking, "_MANY", many)
    counts = np.arange(1000, dtype=np.int64) % 300
    counts[[5, 261, 517]] = 900, 901, 902  # 256 parts: all in one
    ranked = ranking.rank(counts, 3, 100)
    assert ranked.places[:3].tolist() == [517, 261, 5]
    exact = np.flatnonzero(counts > 900 - 100)
    assert set(exact) <= set(ranked.places)
    assert (len(ranked.places) == len(exact)) == (many == 1)


def test_the_ranking_is_a_sort_by_count_and_then_by_position():
    rng = np.random.default_rng(2)
    for d in (1, 2, 7, 300, 1000):
        for top in (0, 1, 5, 2**17, 2**40):
            for cut in (1, 3, 10**5, 2**62):
                k = int(rng.integers(1, d + 1))
                counts = rng.integers(0, top + 1, d) * rng.integers(0, 2, d)
                ranked = ranking.rank(counts, k, cut)
                by_count = np.lexsort((np.arange(d), -counts))[: len(ranked.places)]
                assert ranked.places.tolist() == by_count.tolist()
                assert ranked.gaps.tolist() == (counts.max() - counts[by_count]).tolist()
                assert len(by_count) >= (counts > np.sort(counts)[-k] - cut).sum() >= k


# Sampling.


@pytest.mark.thorough
@pytest.mark.pure
def test_the_fit_rejects_a_planted_ascending_order():
    counts = np.array(JOINT_SAMPLED)
    lists = (joint.JOINT.run(counts, 2, EPSILON)[::-1] for _ in range(1_000))
    distribution = joint_definition(JOINT_SAMPLED, 2, 10**6, Fraction(math.exp(-0.5)))
    assert not fits(
        Counter(map(tuple, lists)), {picks: float(p) for picks, p in distribution.items()}
    )


# Misuse.


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1), Fraction(1, 2**41)])
def test_an_error_bound_for_an_impossible_beta_is_refused(beta):
    with pytest.raises(ValueError, match="beta"):
        error_bound(10, 2, Fraction(1), beta)


def test_an_error_bound_for_a_float_is_refused():
    with pytest.raises(TypeError, match="beta"):
        error_bound(10, 2, Fraction(1), 0.05)

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from tests.udfs.laws import (
    NotPrivateError,
    accepted,
    added_people,
    check_neighbours,
    fits,
    law_of,
    normalized,
)
from udfs.exact import Odds, secret_draws
from udfs.topk import joint, ranking

EPSILON = Fraction(1)
LOSS = Fraction(4)
"""In exact laws exp(epsilon) is the rational 4, so q is 1/2 for lists and 1/4 for one item."""


Q_OF_RATE = {EPSILON * i / 2: Fraction(1, 2) ** i for i in (1, 2, 4)}


def shipped_law(counts, k, cut, q_of=None, fitted_at=None):
    """The exact law of the shipped sampler, out of the law of one attempt.

    `fitted_at` is the rate that the staircase is fitted for, where it is not the sampler's.
    """
    rate = joint._rate(k, EPSILON)
    ranked = ranking.rank(np.array(counts, dtype=np.int64), k, cut)
    stairs = joint._staircase(ranked, fitted_at or rate)
    stairs = replace(stairs, odds=Odds(stairs.odds.weights, rate))

    def attempt(draws):
        picks = joint._attempt(ranked, stairs, draws)
        return None if picks is None else tuple(picks)

    law, unfinished = law_of(attempt, q_of or Q_OF_RATE)
    assert unfinished == 0
    return accepted(law)


def err(counts, picks):
    best = sorted(counts, reverse=True)
    return max(best[i] - counts[x] for i, x in enumerate(picks))


def defined_law(counts, k, cut, q):
    lists = permutations(range(len(counts)), k)
    return normalized({picks: q ** min(err(counts, picks), cut) for picks in lists})


def sizes_and_counts(largest_domain, largest_count):
    for d in range(1, largest_domain + 1):
        for counts in combinations_with_replacement(range(largest_count + 1), d):
            yield from ((counts, k) for k in range(1, d + 1))


@pytest.mark.parametrize(("cut", "q"), [(1, (1, 2)), (2, (2, 3)), (9, (1, 3))])
@pytest.mark.parametrize(
    ("largest_domain", "largest_count"),
    [(3, 3), (4, 2), *(pytest.param(*size, marks=pytest.mark.slow) for size in [(3, 4), (4, 3)])],
)
def test_the_law_is_the_definition_for_every_small_histogram(cut, q, largest_domain, largest_count):
    q = Fraction(*q)
    for counts, k in sizes_and_counts(largest_domain, largest_count):
        rate = joint._rate(k, EPSILON)
        assert shipped_law(counts, k, cut, {rate: q}) == defined_law(counts, k, cut, q), counts


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 30), Fraction(1), Fraction(50)])
@pytest.mark.parametrize("settings", [(0, 0, 2), (4, 6, 4), (60, 0, 3), (0, 60, 2)])
def test_no_staircase_changes_the_law(monkeypatch, rate, settings):
    names = ("_STEP_BITS", "_FORGET_BITS", "_FAN")
    for name, value in zip(names, settings, strict=True):
        monkeypatch.setattr(joint, name, value)
    q = Fraction(1, 2)
    for counts in ((9, 6, 2, 0), (3, 3, 3, 3), (12, 12, 0, 0), (5, 4, 3, 2)):
        law = shipped_law(counts, 2, 11, fitted_at=rate)
        assert law == defined_law(counts, 2, 11, q)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_law_follows_the_items_when_they_change_places(k):
    for counts in ((4, 4, 1), (0, 3, 2), (1, 1, 1), (0, 0, 5)):
        first = shipped_law(counts, k, 3)
        for order in permutations(range(3)):
            moved = shipped_law([counts[x] for x in order], k, 3)
            assert {tuple(order[x] for x in picks): p for picks, p in moved.items()} == first


def test_counts_too_large_to_sort_with_their_places_have_the_same_law():
    counts = np.array([2**61, 5, 2**61 - 1, 2**61 - 1, 0])
    few = ranking.rank(counts, 2, 5)
    many = ranking.rank(counts, 2, 2**62)
    assert few.places.tolist() == [0, 2, 3]
    assert many.places.tolist() == [0, 2, 3, 1, 4]
    assert many.gaps.tolist() == [0, 1, 1, 2**61 - 5, 2**61]
    for layer in (0, 1, 4):
        assert many.n_choices([layer]).tolist() == few.n_choices([layer]).tolist()
    assert many.n_lists([2**61 - 6, 2**61 - 5, 2**61 - 1, 2**61, 2**62 - 1]) == [9, 12, 16, 20, 20]


# Privacy, over all small histograms and all people that can be added or removed.


def small_histograms(d):
    return list(product(range(3), repeat=d))


def check_privacy(law, d):
    check_neighbours(law, added_people(small_histograms(d)), LOSS)


@pytest.mark.parametrize("cut", [1, 2, 6])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_no_neighbours_can_be_told_apart(d, k, cut):
    check_privacy(lambda counts: shipped_law(counts, k, cut), d)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_no_neighbours_can_be_told_apart_by_the_definition_on_more_items(k):
    q = Fraction(1, 4) if k == 1 else Fraction(1, 2)
    check_privacy(lambda counts: defined_law(counts, k, 2, q), 4)


@pytest.mark.parametrize("k", [1, 2])
def test_a_rate_twice_as_large_is_not_private(monkeypatch, k):
    right = joint._rate
    monkeypatch.setattr(joint, "_rate", lambda k, epsilon: 2 * right(k, epsilon))
    with pytest.raises(NotPrivateError):
        check_privacy(lambda counts: shipped_law(counts, k, 6), 3)


def test_a_cut_taken_from_the_data_is_not_private():
    def law(counts):
        return shipped_law(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)

    with pytest.raises(NotPrivateError):
        check_neighbours(law, added_people([(5, 0, 0)]), LOSS)


def test_a_cut_that_is_public_is_private_there():
    for cut in (1, 6):
        law = partial(shipped_law, k=2, cut=cut)
        check_neighbours(law, added_people([(5, 0, 0)]), LOSS)


def test_a_domain_taken_from_the_data_is_not_private():
    def law(counts):
        present = [x for x, count in enumerate(counts) if count]
        if len(present) < 2:
            return {None: Fraction(1)}
        inner = shipped_law([counts[x] for x in present], 2, 6)
        return {tuple(present[x] for x in picks): p for picks, p in inner.items()}

    with pytest.raises(NotPrivateError):
        check_privacy(law, 3)


def test_a_tail_of_kept_items_only_is_not_the_law(monkeypatch):
    monkeypatch.setattr(ranking.Ranking, "all_lists", lambda r: math.perm(len(r.gaps), r.k))
    assert shipped_law((5, 5, 0), 2, 2) != defined_law((5, 5, 0), 2, 2, Fraction(1, 2))


def test_a_tail_with_a_wrong_weight_is_not_the_law(monkeypatch):
    right = ranking.Ranking.all_lists
    monkeypatch.setattr(ranking.Ranking, "all_lists", lambda r: 2 * right(r))
    assert shipped_law((5, 5, 0), 2, 2) != defined_law((5, 5, 0), 2, 2, Fraction(1, 2))


@pytest.mark.parametrize("k", [1, 2])
def test_a_choice_that_reaches_one_layer_too_far_is_not_the_law(monkeypatch, k):
    right = ranking.Ranking.n_choices
    further = lambda r, layers: right(r, [layer + 1 for layer in layers])  # noqa: E731
    monkeypatch.setattr(ranking.Ranking, "n_choices", further)
    q = Q_OF_RATE[joint._rate(k, EPSILON)]
    assert shipped_law((3, 2, 0), k, 4) != defined_law((3, 2, 0), k, 4, q)


def test_a_staircase_below_the_number_of_lists_is_caught(monkeypatch):
    right = joint._Staircase.height
    monkeypatch.setattr(joint._Staircase, "height", lambda s, layer: right(s, layer) >> 1)
    with pytest.raises(AssertionError):
        shipped_law((3, 2, 0), 2, 4)


# The public numbers.


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(40)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (10, 1), (10, 10), (1000, 20), (10**5, 100)])
def test_the_cut_makes_the_tail_lighter_than_two_to_the_minus_forty(d, k, epsilon):
    rate = joint._rate(k, epsilon)
    log_lists = sum(math.log(d - i) for i in range(k))
    lightest = float(joint._cut(d, k, rate) * rate)
    assert lightest >= log_lists + 40 * math.log(2)
    assert lightest <= 1.02 * (log_lists + 41 * math.log(2)) + float(rate)


@pytest.mark.parametrize(("d", "k"), [(1, 1), (10, 1), (50, 10), (10**4, 100)])
def test_the_error_bound_is_the_union_bound(d, k):
    beta, epsilon = Fraction(1, 20), Fraction(1, 2)
    rate = float(joint._rate(k, epsilon))
    bound = joint.error_bound(d, k, epsilon, beta)
    log_lists = sum(math.log(d - i) for i in range(k)) - math.log(beta)
    assert log_lists <= rate * (bound + 1)
    assert bound == 0 or log_lists > rate * bound


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2), (4, 2), (4, 4)])
def test_the_error_bound_holds_for_every_small_histogram(d, k):
    epsilon, beta = Fraction(3), Fraction(1, 10)
    q = Fraction(math.exp(-joint._rate(k, epsilon)))
    bound = joint.error_bound(d, k, epsilon, beta)
    for counts in combinations_with_replacement(range(bound + 3), d):
        law = defined_law(counts, k, 10**6, q)
        assert sum(p for picks, p in law.items() if err(counts, picks) > bound) <= beta


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert joint.accuracy(1000, 10, Fraction(1), Fraction(1, 20)) == (
        "with probability at least 0.95 no item is listed whose count is more than 144 below the "
        "count that belongs at its rank (d = 1000, k = 10, epsilon = 1)"
    )


def test_the_accuracy_sentence_does_not_promise_more_than_the_cut_allows():
    promised = joint.accuracy(10, 2, Fraction(1), Fraction(1, 2**60))
    assert promised == joint.accuracy(10, 2, Fraction(1), Fraction(1, 2**40))


# Larger inputs: the answers are lists of the right shape, and obvious where they are obvious.

SHAPES = {
    "zipf": lambda rng, d: 10**5 // np.arange(1, d + 1),
    "equal": lambda rng, d: np.full(d, 7),
    "zero": lambda rng, d: np.zeros(d, dtype=np.int64),
    "two levels": lambda rng, d: np.repeat([3000, 0], [d // 9, d - d // 9]),
    "uniform": lambda rng, d: rng.integers(0, 3000, d),
    "large gaps": lambda rng, d: np.arange(d) * 10**9,
}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(100)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (300, 1), (300, 7), (300, 300), (20_000, 100)])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_histogram_gives_a_list_of_different_items(shape, d, k, epsilon):
    rng = np.random.default_rng(d)
    counts = rng.permutation(SHAPES[shape](rng, d)).astype(np.int64)
    picks = joint.topk(counts, k, epsilon)
    assert len(picks) == k
    assert len(set(picks)) == k
    assert all(type(x) is int and 0 <= x < d for x in picks)


def test_far_apart_counts_are_listed_in_order():
    counts = np.array([5, 90, 20, 70, 0]) * 10**6
    assert joint.topk(counts, 4, Fraction(1)) == [1, 3, 2, 0]


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


# Sampling.

SAMPLED, SAMPLED_K = (6, 5, 3, 3), 2
N_SAMPLES = 12_000


def real_law(epsilon: float):
    q = math.exp(-epsilon / 2)
    lists = {
        picks: q ** err(SAMPLED, picks) for picks in permutations(range(len(SAMPLED)), SAMPLED_K)
    }
    return {picks: weight / sum(lists.values()) for picks, weight in lists.items()}


def sampled(epsilon: Fraction):
    counts = np.array(SAMPLED)
    return Counter(tuple(joint.topk(counts, SAMPLED_K, epsilon)) for _ in range(N_SAMPLES))


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_lists_drawn_with_the_right_epsilon_fit(tenths, passes):
    assert fits(sampled(Fraction(tenths, 10)), real_law(1.0)) is passes


def test_the_fit_rejects_a_planted_ascending_order():
    observed = Counter({picks[::-1]: n for picks, n in sampled(Fraction(1)).items()})
    assert not fits(observed, real_law(1.0))


# Misuse.

COUNTS = np.array([3, 2, 1])


@pytest.mark.parametrize(
    "counts",
    [
        [3, 2, 1],
        COUNTS.astype(np.float64),
        COUNTS > 1,
        COUNTS.astype(np.uint64),
        COUNTS.astype(object),
        COUNTS.astype(str),
        None,
    ],
)
def test_counts_of_another_type_are_refused(counts):
    with pytest.raises(TypeError, match="counts"):
        joint.topk(counts, 1, Fraction(1))


@pytest.mark.parametrize(
    "counts", [COUNTS[:, np.newaxis], np.array(3), COUNTS - 2, COUNTS + 2**62, COUNTS - 2**62]
)
def test_counts_out_of_range_are_refused(counts):
    with pytest.raises(ValueError, match="counts"):
        joint.topk(counts, 1, Fraction(1))


@pytest.mark.parametrize("k", [0, -1, 4])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match="k must lie"):
        joint.topk(COUNTS, k, Fraction(1))


def test_an_empty_domain_is_refused():
    with pytest.raises(ValueError, match="k must lie"):
        joint.topk(COUNTS[:0], 1, Fraction(1))


@pytest.mark.parametrize("k", [1.0, True, "1", None, Fraction(1), np.int64(1)])
def test_k_of_another_type_is_refused(k):
    with pytest.raises(TypeError, match="k must be"):
        joint.topk(COUNTS, k, Fraction(1))


@pytest.mark.parametrize("epsilon", [1.0, 1, True, "1", None, float("nan")])
def test_an_epsilon_of_another_type_is_refused(epsilon):
    with pytest.raises(TypeError, match="epsilon"):
        joint.topk(COUNTS, 1, epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        joint.topk(COUNTS, 1, epsilon)


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1), Fraction(1, 2**41)])
def test_an_error_bound_for_an_impossible_beta_is_refused(beta):
    with pytest.raises(ValueError, match="beta"):
        joint.error_bound(10, 2, Fraction(1), beta)


def test_an_error_bound_for_a_float_is_refused():
    with pytest.raises(TypeError, match="beta"):
        joint.error_bound(10, 2, Fraction(1), 0.05)


def test_smaller_integer_types_are_taken():
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.dtype(">i8")):
        assert joint.topk((COUNTS * 40).astype(dtype), 1, Fraction(100)) == [0]


def test_draws_come_from_the_operating_system_only(monkeypatch):
    def refuse(*args):
        raise AssertionError("another source of randomness")

    for name in ("random", "randint", "default_rng", "bytes", "permutation", "shuffle"):
        monkeypatch.setattr(np.random, name, refuse)
    for name in ("random", "randrange", "shuffle", "getrandbits"):
        monkeypatch.setattr(f"random.{name}", refuse)
    assert sorted(joint.topk(COUNTS, 3, Fraction(1))) == [0, 1, 2]
    assert secret_draws().below(1) == 0

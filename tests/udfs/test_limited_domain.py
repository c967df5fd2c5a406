import math
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from tests.udfs.laws import NotPrivateError, accepted, added_people, fits, law_of
from udfs.exact import exp_enclosure, ln_enclosure, secret_draws
from udfs.topk import limited_domain
from udfs.topk.limited_domain import Constants

HALVING = ln_enclosure(Fraction(2), 64)[0]
"""The rate at which q stands for 1/2."""


def q_of(rate):
    """q to 64 bits; a law made of it is off by far less than SLACK."""
    return Fraction(1, 2) if rate == HALVING else exp_enclosure(rate, 64)[0]


SLACK = Fraction(1, 2**40)


def exact_take(this, path):
    """`take`, its loop replaced by the law of the shipped attempt given that it is accepted."""
    rate = this.odds.rate
    law, unfinished = law_of(this.attempt, {rate: q_of(rate)})
    assert unfinished == 0
    ranks, probabilities = zip(*accepted(law).items(), strict=True)
    return ranks[path._step(list(probabilities))]


def shipped_law(largest, k, constants):
    """The exact law of the shipped sampler over positions in the largest counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limited_domain, "take", exact_take)
        counts = np.array(largest, dtype=np.int64)
        law, unfinished = law_of(
            lambda path: tuple(limited_domain._topk(counts, k, constants, path)), {}
        )
    assert unfinished == 0
    return law


def defined_law(largest, k, constants, after_stop=False):
    """Peeling by its definition; a mutant goes on after stop."""
    q = q_of(constants.rate)
    kbar = constants.kbar
    scores = dict(enumerate(largest[:kbar]))
    next_count = largest[kbar] if len(largest) > kbar else 0
    scores["stop"] = next_count + 1 + constants.threshold
    top = max(scores.values())
    law = Counter()

    def take(picks, free, probability):
        picked = tuple(x for x in picks if x != "stop")
        stopped = "stop" in picks and not after_stop
        if len(picked) == k or stopped or not free:
            law[picked] += probability
            return
        weights = {x: q ** (top - scores[x]) for x in free}
        total = sum(weights.values())
        for x, weight in weights.items():
            take((*picks, x), free - {x}, probability * weight / total)

    take((), frozenset(scores), Fraction(1))
    return dict(law)


def small_largest(kbar, highest):
    for n in range(kbar + 2):
        yield from combinations_with_replacement(range(highest, 0, -1), n)


@pytest.mark.parametrize(("width", "reach"), [(None, None), (1, 2), (2, 1)])
@pytest.mark.parametrize(
    ("kbar", "k", "highest"), [(1, 1, 6), (1, 2, 6), (2, 1, 5), (2, 2, 4), (3, 2, 3)]
)
def test_the_law_is_the_definition_for_all_small_counts(
    monkeypatch, kbar, k, highest, width, reach
):
    if width:
        monkeypatch.setattr(limited_domain.em_peel, "_width", lambda rate: width)
    if reach:
        monkeypatch.setattr(limited_domain, "_reach", lambda n, rate: reach)
    for largest in small_largest(kbar, highest):
        for threshold in (0, 2):
            constants = Constants(kbar, HALVING, threshold)
            assert shipped_law(largest, k, constants) == defined_law(largest, k, constants)


def by_value(histogram, item):
    return item


def as_the_data_will(histogram, item):
    """An order of ties that one person may turn round."""
    return item if sum(histogram) % 2 else -item


class Releases:
    """Exact laws over lists of items, for histograms of a universe that nobody is told."""

    def __init__(self, k, constants, law=shipped_law, ties=by_value):
        self.k, self.constants, self.ties = k, constants, ties
        self.of_largest = cache(lambda largest: law(largest, k, constants))

    def of(self, histogram):
        present = [x for x in range(len(histogram)) if histogram[x]]
        present.sort(key=lambda x: (-histogram[x], self.ties(histogram, x)))
        present = present[: self.constants.kbar + 1]
        law = self.of_largest(tuple(histogram[x] for x in present))
        return {tuple(present[i] for i in picks): p for picks, p in law.items()}


def check(releases, histograms, epsilon, delta):
    """Raise unless the hockey-stick divergence is at most delta, both ways, for all pairs.

    e**epsilon is rounded down, which makes the check stricter.
    """
    factor = 1 / exp_enclosure(epsilon, 64)[1]
    for pair in added_people(histograms):
        one, other = (releases.of(histogram) for histogram in pair)
        for p, p_other in ((one, other), (other, one)):
            excess = sum(max(0, p[o] - factor * p_other.get(o, 0)) for o in p)
            if excess > delta - SLACK:
                raise NotPrivateError(f"{pair}: {float(excess)} instead of {float(delta)}")


DELTA = Fraction(3, 20)
"""With epsilon = 1 it lies where a threshold lower by 1 breaks it, for kbar = 1 and kbar = 2."""

EPSILON = Fraction(1)

SPENT = [
    (1, EPSILON, DELTA),
    (1, Fraction(1, 3), Fraction(1, 3)),
    (2, EPSILON, Fraction(1, 1000)),
    (2, EPSILON, DELTA),
    (2, Fraction(3), Fraction(1, 4)),
]


@pytest.mark.parametrize(("k", "epsilon", "delta"), SPENT)
@pytest.mark.parametrize(("d", "highest", "kbar"), [(3, 3, 1), (4, 2, 1), (3, 3, 2), (4, 2, 2)])
def test_no_neighbours_can_be_told_apart(d, highest, kbar, k, epsilon, delta):
    releases = Releases(k, limited_domain._constants(k, kbar, epsilon, delta))
    check(releases, product(range(highest + 1), repeat=d), epsilon, delta)


def test_four_items_with_up_to_three_people_cannot_be_told_apart():
    releases = Releases(2, limited_domain._constants(2, 2, EPSILON, DELTA))
    check(releases, product(range(4), repeat=4), EPSILON, DELTA)


@pytest.mark.parametrize(("k", "epsilon", "delta"), SPENT)
def test_no_neighbours_with_counts_around_the_threshold_can_be_told_apart(k, epsilon, delta):
    constants = limited_domain._constants(k, 2, epsilon, delta)
    around = (1, constants.threshold + 1, constants.threshold + 2, constants.threshold + 4)
    check(Releases(k, constants), product(around, repeat=3), epsilon, delta)


@pytest.mark.parametrize("kbar", [1, 2])
def test_privacy_does_not_rest_on_the_order_of_ties(kbar):
    constants = limited_domain._constants(2, kbar, EPSILON, DELTA)
    releases = Releases(2, constants, ties=as_the_data_will)
    check(releases, product(range(3), repeat=4), EPSILON, DELTA)


@pytest.mark.parametrize("kbar", [1, 2])
def test_nearly_all_of_delta_is_needed_when_all_candidates_are_new(kbar):
    constants = limited_domain._constants(1, kbar, EPSILON, DELTA)
    releases = Releases(1, constants)
    bad = kbar * q_of(constants.rate) ** constants.threshold
    everybody_once = [(0,) * kbar + (1,) * kbar]
    check(releases, everybody_once, EPSILON, bad / (1 + bad) + 2 * SLACK)
    with pytest.raises(NotPrivateError):
        check(releases, everybody_once, EPSILON, bad / (1 + bad) - 2 * SLACK)


def rejects(releases, delta=DELTA):
    with pytest.raises(NotPrivateError):
        check(releases, product(range(4), repeat=4), EPSILON, delta)


def with_threshold(kbar, threshold):
    return replace(limited_domain._constants(1, kbar, EPSILON, DELTA), threshold=threshold)


@pytest.mark.parametrize("kbar", [1, 2])
@pytest.mark.parametrize("threshold", [-1, 0], ids=["none", "one"])
def test_a_threshold_without_its_logarithm_is_not_private(threshold, kbar):
    rejects(Releases(1, with_threshold(kbar, threshold)))


@pytest.mark.parametrize("kbar", [1, 2])
def test_a_threshold_without_the_one_is_not_private(kbar):
    threshold = limited_domain._constants(1, kbar, EPSILON, DELTA).threshold
    rejects(Releases(1, with_threshold(kbar, threshold - 1)))


def test_a_threshold_without_the_number_of_candidates_is_not_private():
    rejects(Releases(1, with_threshold(2, limited_domain._distance(1, EPSILON, DELTA))))


def test_a_threshold_from_twice_delta_is_not_private():
    rejects(Releases(1, with_threshold(2, limited_domain._distance(2, EPSILON, 2 * DELTA))))


def test_going_on_after_stop_is_not_private():
    def goes_on(largest, k, constants):
        return defined_law(largest, k, constants, after_stop=True)

    rejects(Releases(1, with_threshold(1, 3), goes_on))


def test_all_of_epsilon_for_each_pick_is_not_private():
    delta, equal = Fraction(1, 1000), [(40,) * 4]
    constants = limited_domain._constants(2, 4, EPSILON, delta)
    check(Releases(2, constants), equal, EPSILON, delta)
    with pytest.raises(NotPrivateError):
        check(Releases(2, replace(constants, rate=EPSILON)), equal, EPSILON, delta)


def test_a_threshold_above_the_least_count_that_exists_is_not_private(monkeypatch):
    def above_the_last(counts, constants):
        return (int(counts[-1]) if counts.size else 0) + 1 + constants.threshold

    monkeypatch.setattr(limited_domain, "_stop_score", above_the_last)
    rejects(Releases(1, with_threshold(2, 3)))


PUBLIC = [
    (k, epsilon, delta)
    for k in (1, 2, 7, 8, 30, 1000)
    for epsilon in (Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(20))
    for delta in (Fraction(1, 10**12), Fraction(1, 10**6), Fraction(1, 3), Fraction(99, 100))
]


def stays_below_delta(constants, share):
    low, _ = exp_enclosure(constants.rate * constants.threshold, 512)
    return constants.kbar * low <= share


@pytest.mark.parametrize(("k", "epsilon", "delta"), PUBLIC)
def test_the_constants_keep_what_the_proof_asks_of_them(k, epsilon, delta):
    constants = limited_domain._public_constants(k, epsilon, delta)
    rate = constants.rate
    if rate == epsilon / k:
        assert stays_below_delta(constants, delta)
        return
    assert rate > epsilon / k
    assert stays_below_delta(constants, delta / 2)
    rho = k * rate**2 / 8
    _, log = ln_enclosure(2 / delta, 512)
    assert rho <= epsilon
    assert 4 * rho * log <= (epsilon - rho) ** 2, "rho + 2 sqrt(rho log) <= epsilon"
    assert 4 * rho * log * (1 + Fraction(1, 10**6)) > (epsilon - rho) ** 2, "nothing is wasted"


def test_both_ways_to_compose_are_taken():
    few, many = (limited_domain._constants(k, 1000, EPSILON, Fraction(1, 10**6)) for k in (3, 30))
    assert few.rate == EPSILON / 3
    assert many.rate > EPSILON / 30


def divergence(k, width, epsilon, share):
    """Of k rounds with two outcomes, the logarithms of whose ratios are `width` apart."""
    low, high = (share - 1) * width, share * width
    other = (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
    one = math.exp(high) * other
    return sum(
        math.comb(k, j)
        * max(
            one**j * (1 - one) ** (k - j) - math.exp(epsilon) * other**j * (1 - other) ** (k - j), 0
        )
        for j in range(k + 1)
    )


@pytest.mark.parametrize(("tenths", "private"), [(10, True), (13, False)])
@pytest.mark.parametrize(
    ("k", "epsilon", "delta"),
    [(50, Fraction(1), Fraction(1, 10**6)), (100, Fraction(2), Fraction(1, 10**8))],
)
def test_rounds_of_the_composed_rate_are_private_together(k, epsilon, delta, tenths, private):
    width = float(limited_domain._composed_rate(k, epsilon, delta)) * tenths / 10
    worst = max(divergence(k, width, epsilon, i / 20) for i in range(1, 20))
    assert (worst <= delta) is private


def failing(largest, k, constants, bounds):
    """The probability that what error_bounds promises does not hold."""
    too_short, too_high = bounds
    next_count = largest[constants.kbar] if len(largest) > constants.kbar else 0
    total = Fraction(0)
    for picks, p in defined_law(largest, k, constants).items():
        left_out = [c for x, c in enumerate(largest) if x not in picks]
        early = any(largest[i] - largest[x] > too_short for i, x in enumerate(picks))
        stopped = len(picks) < k and any(c - next_count > too_high for c in left_out)
        total += p if early or stopped else 0
    return total


@pytest.mark.parametrize(("kbar", "k"), [(1, 1), (2, 1), (2, 2)])
def test_the_error_bounds_hold_for_all_small_counts(kbar, k):
    constants, beta = Constants(kbar, HALVING, 1), Fraction(1, 3)
    bounds = limited_domain._error_bounds(k, constants, beta)
    assert bounds[0] < bounds[1] < 8
    for largest in small_largest(kbar, 11):
        assert failing(largest, k, constants, bounds) <= beta, largest


def test_error_bounds_of_nothing_do_not_hold():
    constants, beta = Constants(2, HALVING, 1), Fraction(1, 4)
    cases = list(small_largest(2, 6))
    assert max(failing(c, 2, constants, (0, 10**6)) for c in cases) > beta
    assert max(failing(c, 2, constants, (10**6, 1 + 1)) for c in cases) > beta


@pytest.mark.parametrize("n", [1, 2, 40, 10**5])
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1), Fraction(7)])
def test_distances_are_the_least_that_keep_a_mass(rate, n):
    mass = Fraction(1, 7)
    t = limited_domain._distance(n, rate, mass)
    assert n * exp_enclosure(rate * t, 64)[1] <= mass < n * exp_enclosure(rate * (t - 1), 64)[0]
    assert limited_domain._unlikely(n, rate, mass) == t - 1


def test_the_accuracy_sentence_is_made_of_public_numbers():
    public = (10, Fraction(1), Fraction(1, 10**6), Fraction(1, 20))
    assert limited_domain.accuracy(3, *public) == limited_domain.accuracy(10**6, *public)
    assert limited_domain.accuracy(3, *public) == (
        "with probability at least 0.95 no item is listed whose count is more than 111 below the "
        "count that belongs at its rank, and only a full list leaves out an item whose count is "
        "more than 238 above the count at rank 1001 (k = 10, epsilon = 1, delta = 0.000001)"
    )


@pytest.mark.parametrize(("k", "n"), [(1, 1001), (50, 1001), (51, 1021), (1000, 20001)])
def test_the_number_of_counts_needed_is_known_from_k(k, n):
    assert limited_domain.n_largest(k) == n


def test_a_run_costs_what_it_is_given():
    loss = limited_domain.loss(3, Fraction(1, 3), Fraction(1, 10**6))
    assert (loss.epsilon, loss.delta, loss.rho) == (Fraction(1, 3), Fraction(1, 10**6), None)


SHAPES = {
    "zipf": lambda n: 10**6 // np.arange(1, n + 1),
    "equal": lambda n: np.full(n, 7),
    "one above many": lambda n: np.repeat([10**6, 1], [1, n - 1]),
    "large gaps": lambda n: np.arange(n, 0, -1) * 10**14,
    "largest": lambda n: np.repeat([2**62 - 1, 1], [n // 3 + 1, n - n // 3 - 1]),
}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 5), (20, 30), (1001, 1), (1001, 40), (2001, 100)])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_counts_give_a_list_of_different_items(shape, n, k, epsilon):
    counts = SHAPES[shape](n).astype(np.int64)
    picks = limited_domain.topk(counts, k, epsilon, Fraction(1, 10**6))
    assert len(set(picks)) == len(picks) <= k
    assert all(type(x) is int and 0 <= x < min(n, limited_domain.n_largest(k) - 1) for x in picks)


def test_far_apart_counts_are_listed_in_order_and_small_ones_are_not():
    counts = np.array([90, 70, 20, 5]) * 10**6
    few = np.append(counts, [3, 2, 1])
    assert limited_domain.topk(few, 10, EPSILON, Fraction(1, 10**9)) == [0, 1, 2, 3]
    assert limited_domain.topk(counts, 2, EPSILON, Fraction(1, 10**9)) == [0, 1]


def test_where_nothing_exists_nothing_is_listed():
    assert limited_domain.topk(np.array([], dtype=np.int64), 5, EPSILON, DELTA) == []


def test_an_item_far_beyond_the_reach_is_refused_by_its_own_weight():
    gaps = np.array([0, 2**63 - 2])
    this = limited_domain._round(gaps, [], Fraction(400))

    class LastBlock:
        def __init__(self):
            self.choices, self.secret = [len(this.blocks) - 1], secret_draws()

        def below(self, n):
            return self.secret.below(n)

        def choose(self, odds):
            return self.choices.pop() if self.choices else self.secret.choose(odds)

    assert this.attempt(LastBlock()) is None


@pytest.mark.parametrize(("k", "seconds"), [(100, 0.1), (1000, 3)])
def test_a_long_list_is_quick(k, seconds):
    counts = np.arange(limited_domain.n_largest(k), 0, -1) * 40
    best = math.inf
    for _ in range(2):
        start = time.perf_counter()
        limited_domain.topk(counts, k, EPSILON, Fraction(1, 10**6))
        best = min(best, time.perf_counter() - start)
    assert best < seconds, "ten times the goal, for slow machines"


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_lists_of_the_right_rate_fit(tenths, passes, monkeypatch):
    constants = limited_domain._public_constants(2, EPSILON, Fraction(1, 10**3))
    next_count = constants.threshold + 1
    counts = np.array([next_count + 3, next_count + 2, next_count - 2])
    law = defined_law(tuple(counts.tolist()), 2, constants)
    wrong = replace(constants, rate=constants.rate * Fraction(tenths, 10))
    monkeypatch.setattr(limited_domain, "_constants", lambda *public: wrong)
    observed = Counter(
        tuple(limited_domain.topk(counts, 2, EPSILON, Fraction(1, 10**3))) for _ in range(5000)
    )
    assert fits(observed, {picks: float(p) for picks, p in law.items()}) is passes


@pytest.mark.parametrize("bad", [[3, 2], np.array([3.0]), np.array([3], dtype=np.uint64), None])
def test_counts_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="counts"):
        limited_domain.topk(bad, 1, EPSILON, DELTA)


@pytest.mark.parametrize("bad", [[[3]], [-1], [2**62], [1, 2], [2, 0], [1] * 1002])
def test_counts_that_are_not_the_largest_ones_are_refused(bad):
    with pytest.raises(ValueError, match="counts must"):
        limited_domain.topk(np.array(bad, dtype=np.int64), 1, EPSILON, DELTA)


CALLS = {
    "topk": lambda *public: limited_domain.topk(np.array([3, 2]), *public),
    "loss": limited_domain.loss,
    "bounds": lambda *public: limited_domain.error_bounds(*public, Fraction(1, 20)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_public_numbers_of_another_type_are_refused(call, bad):
    with pytest.raises(TypeError, match="k must"):
        CALLS[call](bad, EPSILON, DELTA)
    with pytest.raises(TypeError, match="epsilon"):
        CALLS[call](1, bad, DELTA)
    with pytest.raises(TypeError, match="delta"):
        CALLS[call](1, EPSILON, bad)


@pytest.mark.parametrize("call", CALLS)
def test_public_numbers_out_of_range_are_refused(call):
    with pytest.raises(ValueError, match="k must"):
        CALLS[call](0, EPSILON, DELTA)
    for bad in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="epsilon must"):
            CALLS[call](1, bad, DELTA)
    for bad in (Fraction(0), Fraction(1), Fraction(-1)):
        with pytest.raises(ValueError, match="delta must"):
            CALLS[call](1, EPSILON, bad)
    with pytest.raises(ValueError, match="too small"):
        CALLS[call](1, Fraction(1, 10**30), DELTA)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta must"):
        limited_domain.accuracy(1, 1, EPSILON, DELTA, bad)


def test_a_beta_of_another_type_is_refused():
    with pytest.raises(TypeError, match="beta must"):
        limited_domain.accuracy(1, 1, EPSILON, DELTA, 0.05)

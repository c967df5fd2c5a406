import math
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from dp_sql.udfs.topk import limited_domain, peeling
from dp_sql.udfs.topk.limited_domain import Constants
from dp_sql.udfs.topk.template import union_bound
from tests.udfs.cases_limited_domain import (
    DELTA,
    EPSILON,
    HALVING,
    defined_distribution,
    small_largest,
)

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
    width = float(peeling.concentrated_rate(k, epsilon, delta)) * tenths / 10
    worst = max(divergence(k, width, epsilon, i / 20) for i in range(1, 20))
    assert (worst <= delta) is private


def failing(largest, k, constants, bounds):
    """The probability that what error_bounds promises does not hold."""
    too_short, too_high = bounds
    next_count = largest[constants.kbar] if len(largest) > constants.kbar else 0
    total = Fraction(0)
    for picks, p in defined_distribution(largest, k, constants).items():
        left_out = [c for x, c in enumerate(largest) if x not in picks]
        early = any(largest[i] - largest[x] > too_short for i, x in enumerate(picks))
        stopped = len(picks) < k and any(c - next_count > too_high for c in left_out)
        total += p if early or stopped else 0
    return total


@pytest.mark.parametrize(("kbar", "k"), [(1, 1), (2, 1), (2, 2)])
def test_the_error_bounds_hold_for_all_small_counts(kbar, k):
    constants, beta = Constants(kbar, HALVING, 1), Fraction(1, 3)
    bounds = limited_domain.error_bounds(k, constants, beta)
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
    t = union_bound(n, rate, mass)
    assert n * exp_enclosure(rate * t, 64)[1] <= mass < n * exp_enclosure(rate * (t - 1), 64)[0]


@pytest.mark.parametrize(("k", "n"), [(1, 1001), (50, 1001), (51, 1021), (1000, 20001)])
def test_the_number_of_counts_needed_is_known_from_k(k, n):
    assert limited_domain.n_largest(k) == n


def test_far_apart_counts_are_listed_in_order_and_small_ones_are_not():
    counts = np.array([90, 70, 20, 5]) * 10**6
    few = np.append(counts, [3, 2, 1])
    assert limited_domain.topk(few, 10, EPSILON, Fraction(1, 10**9)) == [0, 1, 2, 3]
    assert limited_domain.topk(counts, 2, EPSILON, Fraction(1, 10**9)) == [0, 1]


def test_where_nothing_exists_nothing_is_listed():
    assert limited_domain.topk(np.array([], dtype=np.int64), 5, EPSILON, DELTA) == []


def test_an_item_far_into_the_last_block_is_refused_by_its_own_weight():
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


@pytest.mark.parametrize("bad", [[[3]], [-1], [2**62], [1, 2], [2, 0], [1] * 1002])
def test_counts_that_are_not_the_largest_ones_are_refused(bad):
    with pytest.raises(ValueError, match="counts must"):
        limited_domain.topk(np.array(bad, dtype=np.int64), 1, EPSILON, DELTA)


CALLS = {
    "topk": lambda *public: limited_domain.topk(np.array([3, 2]), *public),
    "loss": limited_domain.loss,
    "bounds": lambda *public: limited_domain.accuracy(1, *public, Fraction(1, 20)),
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

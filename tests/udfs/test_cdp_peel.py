import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from unittest.mock import patch

import numpy as np
import pytest

from tests.udfs import test_em_peel as peeling
from tests.udfs import test_pnf_peel as flipping
from tests.udfs.laws import NotPrivateError, added_people, fits
from udfs.exact import exp_enclosure, ln_enclosure
from udfs.topk import cdp_peel, em_peel

BITS = 200


@dataclass(frozen=True)
class Setting:
    """Public numbers for which exp(-rate) is a rational q, but for the rounding of the rate."""

    k: int
    delta: Fraction
    q: Fraction

    @property
    def range(self):
        """At most ln(1/q), the range of one round."""
        return ln_enclosure(1 / self.q, BITS)[0]

    @property
    def epsilon(self):
        """At most what k rounds of this range cost: k range, or rho + 2 sqrt(rho ln(1/delta))."""
        rho, log = self.k * self.range**2 / 8, ln_enclosure(1 / self.delta, BITS)[0]
        root = Fraction(math.isqrt(math.floor(rho * log * 4**BITS)), 2**BITS)
        epsilon = min(self.k * self.range, rho + 2 * root)
        return Fraction(math.floor(epsilon * 2**64), 2**64)

    @property
    def rate(self):
        return cdp_peel._rate(self.k, self.epsilon, self.delta)


PURE = [Setting(1, Fraction(1, 1000), Fraction(1, 4)), Setting(2, Fraction(1, 50), Fraction(1, 9))]
CONCENTRATED = [
    Setting(1, Fraction(1, 2), Fraction(1, 20)),
    Setting(2, Fraction(1, 10), Fraction(1, 5)),
    Setting(3, Fraction(3, 100), Fraction(1, 5)),
    Setting(4, Fraction(1, 100), Fraction(1, 3)),
]
SETTINGS = [*PURE, *CONCENTRATED]


def shipped_law(counts, this, cut=None, take=peeling.exact_take, factor=Fraction(1), q=None):
    """The exact law of the shipped sampler, with q in place of exp(-rate).

    A wrong `factor` multiplies the rate; q is then what exp(-rate) becomes.
    """
    right_rate, right_cut = cdp_peel._rate, em_peel._cut

    def run(path):
        public = (this.k, this.epsilon, this.delta)
        return tuple(cdp_peel._topk(np.array(counts), *public, take, path))

    with (
        patch.dict(peeling.Q_OF_RATE, {factor * this.rate: q or this.q}),
        patch.object(em_peel, "_cut", lambda *public: cut or right_cut(*public)),
        patch.object(cdp_peel, "_rate", lambda *public: factor * right_rate(*public)),
    ):
        law, unfinished = peeling.law_of(run, {})
    assert unfinished == 0
    return law


def people(d, largest_count):
    """Neighbours, up to the names of the items."""
    return list(added_people(combinations_with_replacement(range(largest_count + 1), d)))


@pytest.mark.parametrize("this", SETTINGS)
def test_the_rational_q_is_that_of_the_rate(this):
    assert this.range * (1 - Fraction(1, 2**30)) <= this.rate <= this.range
    assert (this.rate == this.epsilon / this.k) is (this in PURE)


# The law of a run.


@pytest.mark.parametrize("cut", [1, 2, 9])
def test_the_law_is_peeling_at_the_rate_for_every_small_histogram(cut):
    for counts, k in peeling.small_cases():
        this = CONCENTRATED[k - 1]
        with patch.dict(peeling.Q_OF_RATE, {peeling.EPSILON / k: this.q}):
            expected = peeling.defined_law(counts, k, cut)
        assert shipped_law(counts, this, cut) == expected, counts


def test_permute_and_flip_is_not_the_law():
    this = CONCENTRATED[1]
    assert shipped_law((3, 2, 0), this, 9, flipping.exact_take) != shipped_law((3, 2, 0), this, 9)


# The range of a round.


def check_ranges(law, pairs, limit):
    """Raise where, in a round, likelihood ratios of two picks differ by more than `limit`."""
    for pair in pairs:
        left, right = (heads(law(counts)) for counts in pair)
        ratios = defaultdict(list)
        for picks in left:
            ratios[picks[:-1]].append(left[picks] / right[picks])
        for head, found in ratios.items():
            if max(found) > limit * min(found):
                raise NotPrivateError(f"{pair}: {head} is followed by {found}")


def heads(law):
    """The probability of each list, and of each of its beginnings."""
    probability = defaultdict(Fraction)
    for picks, p in law.items():
        for i in range(1, len(picks) + 1):
            probability[picks[:i]] += p
    return probability


@pytest.mark.parametrize("cut", [1, 2, None])
@pytest.mark.parametrize("this", CONCENTRATED[:3])
def test_each_round_has_the_range_of_its_rate(this, cut):
    check_ranges(lambda counts: shipped_law(counts, this, cut), people(3, 2), 1 / this.q)


def test_permute_and_flip_has_a_larger_range():
    this = CONCENTRATED[0]
    with pytest.raises(NotPrivateError):
        check_ranges(
            lambda counts: shipped_law(counts, this, None, flipping.exact_take),
            people(2, 1),
            1 / this.q,
        )


def test_a_cut_taken_from_the_data_has_a_larger_range():
    this = CONCENTRATED[1]

    def law(counts):
        return shipped_law(counts, this, 6 if sum(c > 0 for c in counts) > 1 else 1)

    with pytest.raises(NotPrivateError):
        check_ranges(law, added_people([(5, 0, 0)]), 1 / this.q)


# Concentrated privacy, and what follows from it.


def renyi(law, other, alpha):
    """Return exp((alpha - 1) D) for the divergence D of order alpha."""
    return sum(p**alpha / other[picks] ** (alpha - 1) for picks, p in law.items())


def check_concentrated(law, pairs, rho):
    """Raise unless the laws of neighbours are as rho-zCDP has them at some orders."""
    for (left, right), alpha in product(pairs, (2, 3, 6)):
        limit = 1 / exp_enclosure(alpha * (alpha - 1) * rho, BITS)[1]
        p, p_other = law(left), law(right)
        if max(renyi(p, p_other, alpha), renyi(p_other, p, alpha)) > limit:
            raise NotPrivateError(f"{left} and {right} at order {alpha}")


FINE = Fraction(19, 20)
"""Its tenth power is q, so that a rate may be wrong by a tenth."""


def check_tenths(k, tenths):
    this = Setting(k, Fraction(1, 2), FINE**10)
    wrong = {"factor": Fraction(tenths, 10), "q": FINE**tenths}
    pairs = [((0,) * d, (1,) * some + (0,) * (d - some)) for d in (2, 4) for some in range(1, d)]
    law = cache(lambda counts: shipped_law(counts, this, **wrong))
    check_concentrated(law, [pair for pair in pairs if len(pair[0]) > k], k * this.range**2 / 8)


@pytest.mark.parametrize("this", CONCENTRATED[:3])
def test_a_run_has_the_rho_that_its_loss_declares(this):
    rho = this.k * this.range**2 / 8
    declared = cdp_peel.loss(this.k, this.epsilon, this.delta).rho
    assert rho * (1 - Fraction(1, 2**28)) <= declared <= rho
    check_concentrated(cache(lambda counts: shipped_law(counts, this)), people(3, 1), rho)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_rho_holds_for_rates_that_use_nearly_all_of_it(k):
    check_tenths(k, 10)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_rate_larger_by_a_tenth_breaks_rho(k):
    with pytest.raises(NotPrivateError):
        check_tenths(k, 11)


def check_delta(law, pairs, epsilon, delta):
    """Raise unless the laws of neighbours are (epsilon, delta)-close in both directions."""
    factor = 1 / exp_enclosure(epsilon, BITS)[1]
    for left, right in pairs:
        p, p_other = law(left), law(right)
        here = sum(max(p[x] - factor * p_other[x], 0) for x in p)
        there = sum(max(p_other[x] - factor * p[x], 0) for x in p)
        if max(here, there) > delta:
            raise NotPrivateError(f"{left} and {right}: {max(here, there)}")


@pytest.mark.parametrize("this", SETTINGS)
def test_no_neighbours_can_be_told_apart_but_for_delta(this):
    law = cache(lambda counts: shipped_law(counts, this))
    check_delta(law, people(4, 1), this.epsilon, this.delta)


@pytest.mark.parametrize("this", SETTINGS)
def test_a_rate_twice_as_large_needs_more_than_delta(this):
    law = cache(lambda counts: shipped_law(counts, this, factor=Fraction(2), q=this.q**2))
    with pytest.raises(NotPrivateError):
        check_delta(law, people(4, 1), this.epsilon, this.delta)


# The public numbers.

EPSILONS = [Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(9), Fraction(10**4)]
DELTAS = [Fraction(1, 10**12), Fraction(1, 10**5), Fraction(1, 20), Fraction(1, 2)]


def uses_up(k, rate, epsilon, delta, end):
    """Tell whether rho + 2 sqrt(rho ln(1/delta)) > epsilon, with ln at an end of an enclosure."""
    rho, log = k * rate**2 / 8, ln_enclosure(1 / delta, BITS)[end]
    return rho > epsilon or 4 * rho * log > (epsilon - rho) ** 2


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [*DELTAS, 1 - Fraction(1, 10**9)])
def test_the_rate_is_the_largest_allowed_and_never_above_it(epsilon, delta):
    for k in (1, 2, 10, 100, 1000):
        rate = cdp_peel._rate(k, epsilon, delta)
        concentrated = cdp_peel._concentrated_rate(k, epsilon, delta)
        assert rate == max(epsilon / k, concentrated)
        assert not uses_up(k, concentrated, epsilon, delta, 1)
        assert uses_up(k, concentrated * (1 + Fraction(1, 2**31)), epsilon, delta, 0)


@pytest.mark.parametrize("bits", [2, 5, 12])
def test_coarse_logarithms_and_roots_lower_the_rate(monkeypatch, bits):
    public = list(product((1, 2, 10, 100), EPSILONS, DELTAS))
    fine = [cdp_peel._concentrated_rate(*numbers) for numbers in public]
    monkeypatch.setattr(cdp_peel, "_BITS", bits)
    coarse = [cdp_peel._concentrated_rate(*numbers) for numbers in public]
    assert coarse != fine
    assert all(rate <= best for rate, best in zip(coarse, fine, strict=True))


@pytest.mark.parametrize("x", [4, 4 + Fraction(1, 10**70), 2, Fraction(1, 3), Fraction(1, 10**40)])
def test_a_root_is_the_least_on_its_grid_that_is_not_too_small(x):
    root, unit = cdp_peel._root_up(Fraction(x)), Fraction(1, 2**96)
    assert (root - unit) ** 2 < x <= root**2


def test_a_rate_one_unit_larger_is_too_large():
    rate = cdp_peel._concentrated_rate(100, Fraction(1), Fraction(1, 10**6))
    assert rate.denominator < 2**40
    assert uses_up(100, rate + Fraction(1, rate.denominator), Fraction(1), Fraction(1, 10**6), 0)


def test_a_hundred_items_are_drawn_at_nearly_four_times_the_rate_of_pure_privacy():
    rate = cdp_peel._rate(100, Fraction(1), Fraction(1, 10**6))
    assert Fraction(373, 10**4) < rate < Fraction(374, 10**4)


def test_few_items_are_drawn_at_the_rate_of_pure_privacy():
    assert cdp_peel._rate(3, Fraction(1), Fraction(1, 10**6)) == Fraction(1, 3)


def test_the_loss_is_what_was_asked_for():
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    for k in (3, 100):
        loss = cdp_peel.loss(k, epsilon, delta)
        assert (loss.epsilon, loss.delta) == (epsilon, delta)
        assert loss.rho == k * cdp_peel._rate(k, epsilon, delta) ** 2 / 8


@pytest.mark.parametrize("this", CONCENTRATED[:3])
def test_the_error_bound_holds_for_every_small_histogram(this):
    d, k, beta = 3, this.k, Fraction(1, 10)
    bound = next(b for b in range(100) if d * k * this.q ** (b + 1) <= beta)
    says = cdp_peel.accuracy(d, k, this.epsilon, this.delta, beta)
    assert f"more than {bound} below" in says
    for counts in combinations_with_replacement(range(bound + 3), d):
        best = sorted(counts, reverse=True)
        wrong = [
            p
            for picks, p in shipped_law(counts, this).items()
            if any(best[i] - counts[x] > bound for i, x in enumerate(picks))
        ]
        assert sum(wrong) <= beta


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert cdp_peel.accuracy(1000, 100, Fraction(1), Fraction(1, 10**6), Fraction(1, 20)) == (
        "with probability at least 0.95 no item is listed whose count is more than 388 below the "
        "count that belongs at its rank (d = 1000, k = 100, epsilon = 1, delta = 0.000001)"
    )


# Larger inputs, and the public call.


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (300, 1), (300, 7), (300, 300), (20_000, 100)])
@pytest.mark.parametrize("shape", peeling.SHAPES)
def test_any_histogram_gives_a_list_of_different_items(shape, d, k, epsilon):
    counts = np.random.default_rng(d).permutation(peeling.SHAPES[shape](d)).astype(np.int64)
    picks = cdp_peel.topk(counts, k, epsilon, Fraction(1, 10**6))
    assert len(picks) == len(set(picks)) == k
    assert all(type(x) is int and 0 <= x < d for x in picks)


def test_far_apart_counts_are_listed_in_order():
    counts = np.array([5, 90, 20, 70, 0]) * 10**6
    assert cdp_peel.topk(counts, 4, Fraction(1), Fraction(1, 10**6)) == [1, 3, 2, 0]


SAMPLED, N_SAMPLES = (6, 4, 1, 0), 4_000


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_lists_drawn_at_the_right_rate_fit(monkeypatch, tenths, passes):
    public = (2, Fraction(1), Fraction(1, 3))
    right = cdp_peel._rate(*public)
    q = Fraction(math.exp(-right)).limit_denominator(10**6)
    with patch.dict(peeling.Q_OF_RATE, {peeling.EPSILON / 2: q}):
        law = peeling.defined_law(SAMPLED, 2, 10**6)
    monkeypatch.setattr(cdp_peel, "_rate", lambda *public: right * Fraction(tenths, 10))
    counts = np.array(SAMPLED)
    observed = Counter(tuple(cdp_peel.topk(counts, *public)) for _ in range(N_SAMPLES))
    assert fits(observed, {picks: float(p) for picks, p in law.items()}) is passes


def test_arguments_are_checked():
    counts, delta = np.array([3, 2, 1]), Fraction(1, 10)
    with pytest.raises(TypeError, match="counts"):
        cdp_peel.topk([3, 2, 1], 1, Fraction(1), delta)
    with pytest.raises(ValueError, match="k must lie"):
        cdp_peel.topk(counts, 4, Fraction(1), delta)
    with pytest.raises(ValueError, match="epsilon"):
        cdp_peel.topk(counts, 1, Fraction(0), delta)


@pytest.mark.parametrize("bad", [0.1, 0, True, "0.1", None])
def test_a_delta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="delta"):
        cdp_peel.topk(np.array([3, 2, 1]), 1, Fraction(1), bad)
    with pytest.raises(TypeError, match="delta"):
        cdp_peel.loss(1, Fraction(1), bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1), Fraction(-1, 10)])
def test_a_delta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="delta"):
        cdp_peel.topk(np.array([3, 2, 1]), 1, Fraction(1), bad)
    with pytest.raises(ValueError, match="delta"):
        cdp_peel.accuracy(3, 1, Fraction(1), bad, Fraction(1, 10))

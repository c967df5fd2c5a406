"""What is special to peeling; the rest is test_conformance.py."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from dp_sql.udfs.intervals import ln_enclosure, root_up
from dp_sql.udfs.topk import peeling, template
from tests.udfs.cases_cdp_peel import BITS, CONCENTRATED, PURE, SETTINGS, cdp_distribution
from tests.udfs.cases_peeling import EPSILON, Q_OF_RATE, defined_distribution


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2), (3, 3)])
def test_the_error_bound_holds_for_every_small_histogram(d, k):
    # At exp(epsilon) = 64 the bound is the least b with d k q**(b + 1) <= beta.
    q, beta = Q_OF_RATE[EPSILON / k], Fraction(1, 10)
    bound = next(b for b in range(100) if d * k * q ** (b + 1) <= beta)
    epsilon = Fraction(4158883, 10**6)  # just below ln 64
    assert template.error_bound(d * k, peeling.pure_rate(k, epsilon), beta) == bound
    for counts in combinations_with_replacement(range(bound + 3), d):
        best = sorted(counts, reverse=True)
        distribution = defined_distribution(counts, k, 10**6)
        wrong = [
            p
            for picks, p in distribution.items()
            if any(best[i] - counts[x] > bound for i, x in enumerate(picks))
        ]
        assert sum(wrong) <= beta


def test_a_rank_from_the_tail_is_looked_up_in_a_full_sort():
    counts = np.array([10**6, 1, 0, 2])
    picks = peeling.peel(counts, 1, Fraction(1), 32, lambda this, draws: 3, None)
    assert picks == [2]


@pytest.mark.parametrize("this", SETTINGS)
def test_the_rational_q_is_that_of_the_rate(this):
    assert this.range * (1 - Fraction(1, 2**30)) <= this.rate <= this.range
    assert (this.rate == this.epsilon / this.k) is (this in PURE)


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
        rate = peeling.cdp_rate(k, epsilon, delta)
        concentrated = peeling.concentrated_rate(k, epsilon, delta)
        assert rate == max(epsilon / k, concentrated)
        assert not uses_up(k, concentrated, epsilon, delta, 1)
        assert uses_up(k, concentrated * (1 + Fraction(1, 2**31)), epsilon, delta, 0)


@pytest.mark.parametrize("bits", [2, 5, 12])
def test_coarse_logarithms_and_roots_lower_the_rate(monkeypatch, bits):
    public = list(product((1, 2, 10, 100), EPSILONS, DELTAS))
    fine = [peeling.concentrated_rate(*numbers) for numbers in public]
    monkeypatch.setattr(peeling, "_BITS", bits)
    coarse = [peeling.concentrated_rate(*numbers) for numbers in public]
    assert coarse != fine
    assert all(rate <= best for rate, best in zip(coarse, fine, strict=True))


@pytest.mark.parametrize("x", [4, 4 + Fraction(1, 10**70), 2, Fraction(1, 3), Fraction(1, 10**40)])
def test_a_root_is_the_least_on_its_grid_that_is_not_too_small(x):
    root, unit = root_up(Fraction(x), 96), Fraction(1, 2**96)
    assert (root - unit) ** 2 < x <= root**2


def test_a_rate_one_unit_larger_is_too_large():
    rate = peeling.concentrated_rate(100, Fraction(1), Fraction(1, 10**6))
    assert rate.denominator < 2**40
    assert uses_up(100, rate + Fraction(1, rate.denominator), Fraction(1), Fraction(1, 10**6), 0)


def test_a_hundred_items_are_drawn_at_nearly_four_times_the_rate_of_pure_privacy():
    rate = peeling.cdp_rate(100, Fraction(1), Fraction(1, 10**6))
    assert Fraction(373, 10**4) < rate < Fraction(374, 10**4)


def test_few_items_are_drawn_at_the_rate_of_pure_privacy():
    assert peeling.cdp_rate(3, Fraction(1), Fraction(1, 10**6)) == Fraction(1, 3)


def test_the_loss_is_what_was_asked_for():
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    for k in (3, 100):
        loss = peeling.cdp_loss(k, epsilon, delta)
        assert (loss.epsilon, loss.delta) == (epsilon, delta)
        assert loss.rho == k * peeling.cdp_rate(k, epsilon, delta) ** 2 / 8


@pytest.mark.parametrize("this", CONCENTRATED[:3])
def test_the_error_bound_of_a_rate_holds_for_every_small_histogram(this):
    d, k, beta = 3, this.k, Fraction(1, 10)
    bound = next(b for b in range(100) if d * k * this.q ** (b + 1) <= beta)
    says = peeling.cdp_accuracy(d, k, this.epsilon, this.delta, beta)
    assert f"at most {bound} pe" in says  # person or people
    for counts in combinations_with_replacement(range(bound + 3), d):
        best = sorted(counts, reverse=True)
        wrong = [
            p
            for picks, p in cdp_distribution(counts, this).items()
            if any(best[i] - counts[x] > bound for i, x in enumerate(picks))
        ]
        assert sum(wrong) <= beta

"""The lower bound on trials: against exact tails, for all small numbers; mutants must fall."""

from fractions import Fraction
from functools import cache
from math import comb
from statistics import NormalDist

import pytest

from dp_sql.udfs import binomial
from dp_sql.udfs.binomial import least_trials, normal_quantile

pytestmark = pytest.mark.pure

RATES = [Fraction(1, 100), Fraction(1, 7), Fraction(1, 2), Fraction(4, 5), Fraction(99, 100)]
BETAS = [Fraction(1, 4), Fraction(1, 10), Fraction(1, 40), Fraction(1, 10**6)]
TRIALS = range(1, 41)


@cache
def tails(trials, rate):
    """P(at least h hits) for h = 0, 1, ..., trials + 1, exactly."""
    found = [Fraction(0)]
    for hits in range(trials, -1, -1):
        chance = comb(trials, hits) * rate**hits * (1 - rate) ** (trials - hits)
        found.append(found[-1] + chance)
    return found[::-1]


def check_bound(bound, rates=RATES):
    """Raise unless the bound exceeds the true number with probability at most beta, for all of TRIALS."""
    for rate in rates:
        for beta in BETAS:
            at = [bound(hits, rate, beta) for hits in range(TRIALS[-1] + 1)]
            for trials in TRIALS:
                wrong = next((h for h in range(trials + 1) if at[h] > trials), trials + 1)
                assert tails(trials, rate)[wrong] <= beta, (trials, rate, beta, wrong)


def test_the_bound_is_too_large_with_probability_at_most_beta():
    check_bound(least_trials)


def from_one_hit_less(hits, rate, beta):
    return least_trials(hits + 1, rate, beta) if hits else 0


def expected(hits, rate, beta):
    return round(hits / rate)


def from_a_normal_distribution(hits, rate, beta):
    """Hits less so many standard deviations, divided by the rate."""
    off = NormalDist().inv_cdf(1 - float(beta)) * float(hits * (1 - rate)) ** 0.5
    return max(0, round((hits - off) / float(rate)))


def with_twice_beta(hits, rate, beta):
    return least_trials(hits, rate, min(2 * beta, Fraction(49, 100)))


@pytest.mark.parametrize(
    "wrong", [from_one_hit_less, expected, from_a_normal_distribution, with_twice_beta]
)
def test_a_bound_that_is_too_large_is_rejected(wrong):
    with pytest.raises(AssertionError):
        check_bound(wrong)


def exact(hits, rate, beta):
    """Clopper and Pearson's: the least number of trials with which so many hits are not rare."""
    return next((n for n in TRIALS if tails(n, rate)[min(hits, n + 1)] > beta), None)


def test_at_most_one_hit_is_lost_against_the_exact_bound():
    for rate in RATES:
        for beta in BETAS:
            for hits in range(2, TRIALS[-1] + 1):
                found, fewer = least_trials(hits, rate, beta), exact(hits - 1, rate, beta)
                if fewer is not None:
                    assert fewer <= found <= hits / rate
                else:
                    assert found > TRIALS[-1]


def test_bounds_of_large_numbers_are_close_to_a_normal_distribution():
    for hits, rate in (
        (10**8, Fraction(1, 100)),
        (10**10, Fraction(1, 2)),
        (10**16, Fraction(1, 9)),
    ):
        bound = least_trials(hits, rate, Fraction(1, 40))
        deviations = float((hits / rate - bound) * rate) / float(hits * (1 - rate)) ** 0.5
        assert 1.959 < deviations < 1.963


@pytest.mark.parametrize("hits", [-(10**20), -1, 0, 1])
def test_one_hit_and_fewer_say_no_more_than_themselves(hits):
    assert least_trials(hits, Fraction(1, 100), Fraction(1, 40)) == max(hits, 0)


def check_quantile(quantile):
    for beta in (*BETAS, Fraction(1, 10**12), Fraction(1, 5 * 10**13)):
        exact = -NormalDist().inv_cdf(float(beta))
        assert exact < quantile(beta) < exact + 1 / 500


def test_quantiles_are_rounded_up_and_close():
    check_quantile(normal_quantile)


@pytest.mark.parametrize("depth", [0, 2, 3])
def test_a_fraction_of_other_depth_is_rejected(monkeypatch, depth):
    """Too early, or after an odd number of terms and so below the tail."""
    monkeypatch.setattr(binomial, "_DEPTH", depth)
    with pytest.raises(AssertionError):
        check_quantile(normal_quantile.__wrapped__)


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1, 2), Fraction(-1, 10)])
def test_a_beta_out_of_range_is_refused(beta):
    with pytest.raises(ValueError, match="beta"):
        normal_quantile(beta)

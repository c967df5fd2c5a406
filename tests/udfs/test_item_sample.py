"""Counts of a sample of the items: exact distributions for every sample, neighbours, mutants, coverage."""

from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import comb

import pytest

from dp_sql.udfs.binomial import least_trials
from dp_sql.udfs.count_distinct import bounded, item_sample
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.count_distinct.item_sample import of_all_items, threshold
from dp_sql.udfs.discrete_laplace import laplace_quantile
from dp_sql.udfs.intervals import exp_enclosure
from tests.udfs.cases_bounded import (
    BETA,
    HALF,
    QUARTER,
    complete,
    covered,
    data_sets,
    given_distribution,
    neighbours,
    release_distribution,
    shipped_cover,
)
from tests.udfs.conformance import (
    Domain,
    Mutant,
    changed,
    check_distribution,
    check_privacy,
    within,
)

SAMPLES = [frozenset(kept) for n in range(4) for kept in combinations("abc", n)]
"""All that may be kept of three items; at a rate of 1/2 each is equally likely."""


def rows_of(data, kept):
    return tuple(held & kept for held in data)


def scaled(distribution):
    return {of_all_items(one, HALF, BETA): p for one, p in distribution.items()}


# Privacy, for every sample.


def every_sample(bound, restrict=rows_of):
    """The release beside the sample that it was made from: as if the key were published."""

    def distribution(data):
        return {
            (kept, release): p
            for kept in SAMPLES
            for release, p in scaled(
                given_distribution(shipped_cover(restrict(data, kept), bound), bound)
            ).items()
        }

    return Domain(
        distribution,
        lambda: neighbours(2),
        within(HALF**-bound),
        inputs=lambda: data_sets(2),
        defined=partial(by_definition, bound),
    )


@cache
def under_a_chosen_bound(cover):
    return scaled(complete(release_distribution(cover, "difference")))


def every_sample_under_a_chosen_bound():
    def distribution(data):
        return {
            (kept, release): p
            for kept in SAMPLES
            for release, p in under_a_chosen_bound(shipped_cover(rows_of(data, kept), 2)).items()
        }

    return Domain(distribution, lambda: neighbours(2), within(QUARTER**-4))


def by_definition(bound, data):
    """The mechanism on the items that are kept, and then twice its estimate."""
    found = {}
    for kept in SAMPLES:
        held_and_kept = tuple(frozenset(x for x in held if x in kept) for held in data)
        counts = tuple(covered(held_and_kept, at) for at in range(1, bound + 1))
        for release, p in given_distribution(counts, bound).items():
            low, at = release.lower_bound, release.contribution_bound
            lower = least_trials(low, HALF, BETA / 2) if low > 0 else 2 * low
            found[kept, CountRelease(2 * release.estimate, lower, at)] = p
    return found


def all_if_odd(data, kept):
    """Wrong: how many items there are says whether all are kept."""
    items = frozenset().union(*data)
    return rows_of(data, items if len(items) % 2 else kept)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bound", [1, 2])
def test_every_sample_is_private_and_has_the_distribution_of_its_rows(bound):
    domain = every_sample(bound)
    check_privacy(domain)
    check_distribution(domain)


def test_every_sample_is_private_under_a_bound_chosen_by_differences():
    check_privacy(every_sample_under_a_chosen_bound())


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize(
    "mutant",
    [
        Mutant(every_sample(1), distribution=every_sample(1, all_if_odd).distribution),
        Mutant(
            every_sample(2),
            changed(item_sample, "_times", lambda x, _: Fraction(x)),
            check=check_distribution,
        ),
    ],
    ids=["a sample that depends on the rows", "no scale"],
)
def test_wrong_samples_are_rejected(mutant):
    mutant.is_rejected()


# The estimate is right on average.


def pairs_of(data, kept):
    """Wrong: pairs are kept, of the j-th person with the items of another sample."""
    where = SAMPLES.index(kept)
    return tuple(
        held & SAMPLES[(where * (3 + 2 * j) + j) % len(SAMPLES)] for j, held in enumerate(data)
    )


def mean_of_estimates(data, restrict=rows_of):
    """Over all samples and, by symmetry, the noise: each count in place of its noisy estimate."""
    scaled = (
        of_all_items(CountRelease(shipped_cover(restrict(data, kept), 3)[-1], 0, 3), HALF, BETA)
        for kept in SAMPLES
    )
    return Fraction(sum(one.estimate for one in scaled), len(SAMPLES))


def check_mean(mean):
    for data in data_sets(3):
        assert mean(data) == len(frozenset().union(*data)), data


def test_the_mean_of_the_estimates_is_the_number_of_items():
    check_mean(mean_of_estimates)


@pytest.mark.pure
def test_pairs_in_place_of_items_are_rejected():
    with pytest.raises(AssertionError):
        check_mean(partial(mean_of_estimates, restrict=pairs_of))


@pytest.mark.pure
def test_an_estimate_that_is_not_scaled_is_rejected(monkeypatch):
    monkeypatch.setattr(item_sample, "_times", lambda x, part: Fraction(x))
    with pytest.raises(AssertionError):
        check_mean(mean_of_estimates)


# The lower bound holds with the confidence that it claims.

REACH = 60  # noise beyond it is counted as a failure


@cache
def noise(epsilon):
    """At least P(X = x) for x = -REACH, ..., REACH, and at least P(|X| > REACH)."""
    low, high = exp_enclosure(epsilon, 64)
    of = {x: (1 - low) / (1 + low) * high ** abs(x) for x in range(-REACH, REACH + 1)}
    return of, 2 * high**REACH


def failure(n_items, rate, beta, epsilon, scale):
    """At least the probability that the lower bound exceeds n_items, where all that is kept counts."""
    chances, far = noise(epsilon)
    off = laplace_quantile(epsilon, item_sample.for_each(beta)) - 1
    fails = {
        k: scale(CountRelease(k, k, 1), rate, beta).lower_bound > n_items
        for k in range(-REACH - off, n_items + REACH - off + 1)
    }
    part = Fraction(threshold(rate), 1 << 64)
    total = far
    for kept in range(n_items + 1):
        chance = comb(n_items, kept) * part**kept * (1 - part) ** (n_items - kept)
        total += chance * sum(p for x, p in chances.items() if fails[kept + x - off])
    return total


def check_coverage(scale=of_all_items):
    for rate in (Fraction(1, 10), HALF, Fraction(9, 10)):
        for beta in (Fraction(1, 5), Fraction(1, 20)):
            for n_items in (0, 1, 2, 3, 5, 8, 13, 21, 34):
                failed = failure(n_items, rate, beta, Fraction(1), scale)
                assert failed <= beta, (rate, beta, n_items, float(failed))


@pytest.mark.thorough
def test_the_lower_bound_fails_with_probability_at_most_beta():
    check_coverage()


def of_the_noise_alone(found, rate, beta):
    part = Fraction(threshold(rate), 1 << 64)
    return CountRelease(0, round(found.lower_bound / part), None)


def of_four_times_beta(found, rate, beta):
    return of_all_items(found, rate, min(4 * beta, Fraction(49, 50)))


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("wrong", [of_the_noise_alone, of_four_times_beta])
def test_lower_bounds_that_fail_more_often_are_rejected(wrong):
    with pytest.raises(AssertionError):
        check_coverage(wrong)


def test_the_noise_has_its_whole_half_of_beta(monkeypatch):
    """Twice its half makes the lower bound fail too often where almost all items are kept."""
    rate, n_items = 1 - Fraction(1, 10**9), 34
    assert failure(n_items, rate, BETA, Fraction(1), of_all_items) <= BETA / 2
    monkeypatch.setattr(item_sample, "for_each", lambda beta: 2 * beta)
    assert failure(n_items, rate, BETA, Fraction(1), of_all_items) > BETA


def test_a_lower_bound_is_never_above_its_estimate():
    for rate in (Fraction(1, 100), Fraction(1, 3), Fraction(99, 100)):
        for k in range(-50, 200):
            found = of_all_items(CountRelease(k, k, None), rate, BETA)
            assert found.lower_bound <= found.estimate
            assert (found.lower_bound > 0) == (k > 0)


# Thresholds, and what is said.


def test_the_threshold_is_the_rate_rounded_down():
    assert threshold(HALF) == 1 << 63
    assert threshold(Fraction(1, 100)) == (1 << 64) // 100
    assert threshold(Fraction(1, 1 << 64)) == 1


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(1, 1 << 65)])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(ValueError, match="rate"):
        threshold(rate)


@pytest.mark.parametrize("rate", [1, 0.5, "0.5", None])
def test_a_rate_of_another_type_is_refused(rate):
    with pytest.raises(TypeError, match="rate"):
        threshold(rate)


def test_estimates_are_divided_by_the_rounded_rate():
    found = of_all_items(CountRelease(10**12, 10**12, 7), Fraction(1, 100), BETA)
    assert found.estimate == round(Fraction(10**12 << 64, threshold(Fraction(1, 100))))
    assert found.contribution_bound == 7


def test_the_accuracy_names_the_sample_and_its_error():
    says = bounded.accuracy(Fraction(1), item_sample.for_each(BETA), 100, 4)
    assert item_sample.accuracy(says, Fraction(1, 100)) == (
        "in a sample of 0.01 of the items, with probability 97.5 %, the estimate exceeds the true "
        "number of distinct items by at most 12 (contribution bound 4, epsilon = 1); the answer is "
        "that estimate divided by 0.01, and sampling adds a standard error of 0.99 % at 1,000,000 "
        "items, 0.099 % at 100,000,000"
    )


def test_the_error_of_a_sample_is_rounded_to_two_digits():
    def percent(rate, n_items):
        return item_sample._percent(rate, n_items)

    assert percent(Fraction(1, 2), 10**6) == "0.1 %"
    assert percent(Fraction(1, 10**6), 10**6) == "100 %"
    assert percent(Fraction(1, 10**9), 10**6) == "3162 %"
    assert percent(Fraction(999, 1000), 10**8) == "0.00032 %"

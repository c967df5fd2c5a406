"""A contribution bound chosen by differences: its real constants. Its privacy is in cases_difference."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from dp_sql.udfs.count_distinct import bounded, difference, greedy, matching
from dp_sql.udfs.exact_sampling import secret_draws
from tests.udfs.cases_bounded import GRAPH
from tests.udfs.cases_difference import BETA

pytestmark = pytest.mark.pure

COVER = [40, 75, 120, 170, 190, 192, 192, 195, 203, 203]
"""Under the bounds 1, 2, ..., 256 and 300."""
BOUNDS = difference.bounds_up_to(300)


def distribution_in_floats(cover, bounds, epsilon):
    """The distribution by difference.md, when epsilon is spent on the choice; no grid."""
    weights = []
    for low, n in zip(bounds, cover, strict=True):
        behind = max(
            (3 * (low - other) / epsilon - (n - its)) / max(min(low, other), abs(low - other))
            for other, its in zip(bounds, cover, strict=True)
        )
        prior = min(low, 128) ** -2 * (2 ** -math.ceil(math.log2(max(low / 128, 1)))) ** 3
        weights.append(prior * math.exp(-epsilon * behind / 2))
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_the_choice_has_the_stated_distribution(epsilon):
    enclosed = bounded.distribution_of_bound(COVER, 2 * epsilon, BETA, "difference", bounds=BOUNDS)
    expected = distribution_in_floats(COVER, BOUNDS, float(epsilon))
    for (low, high), p in zip(enclosed, expected, strict=True):
        assert 0 <= low <= high <= 1
        assert math.isclose(low, p, rel_tol=1e-2, abs_tol=1e-12)


@pytest.mark.parametrize("most", [1, 2, 3, 64, 65, 100_000])
def test_the_candidates_are_doublings_up_to_the_largest(most):
    bounds = difference.bounds_up_to(most)
    assert bounds[0] == 1 and bounds[-1] == most
    assert all(low < high <= 2 * low for low, high in pairwise(bounds))
    assert len(bounds) <= 18


def test_a_release_is_counted_under_a_candidate():
    for epsilon in (Fraction(1, 50), Fraction(3)):
        release = bounded.release(COVER, epsilon, BETA, "difference", secret_draws(), BOUNDS)
        assert release.contribution_bound in BOUNDS
        distance = bounded.noise_bound(release.contribution_bound, epsilon, BETA, "difference")
        assert release.estimate - release.lower_bound == distance


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(200)])
@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(49, 100), Fraction(1, 10**9)])
def test_no_bound_has_more_noise_than_the_accuracy_says(epsilon, beta):
    says = bounded.accuracy(epsilon, beta, 100_000, "difference")
    times = Fraction(says.split("at most ")[1].split(" times")[0])
    for bound in difference.bounds_up_to(100_000):
        assert bounded.noise_bound(bound, epsilon, beta, "difference") <= times * bound
    assert times <= bounded.noise_bound(100_000, epsilon, beta, "difference") / 10**5 + 1


def test_it_costs_what_gem_costs():
    for most in (1, 100, 100_000):
        loss = bounded.loss(Fraction(3), BETA, most, "difference")
        assert loss == bounded.loss(Fraction(3), BETA, most, "gem")
        assert (loss.rho, loss.bounded_range) == (Fraction(45, 32), Fraction(9, 2))


def test_only_maximum_flows_are_chosen_by_differences():
    assert matching.MATCHING.bound_selections[0] == "difference"
    assert greedy.GREEDY.bound_selections == bounded.BOUND_SELECTIONS
    with pytest.raises(ValueError, match="one of gem, mgem, combined_gem, rnm"):
        greedy.GREEDY.run(*GRAPH, Fraction(1), BETA, 5, "difference")


def test_candidates_up_to_100000_are_rarely_chosen_where_small_bounds_suffice():
    """Where one item each counts all, a bound beyond 128 is hardly ever chosen."""
    bounds = difference.bounds_up_to(100_000)
    enclosed = bounded.distribution_of_bound(
        [1000] * len(bounds), Fraction(1), BETA, "difference", bounds=bounds
    )
    beyond = sum(high for (_, high), bound in zip(enclosed, bounds, strict=True) if bound > 128)
    assert beyond < Fraction(1, 10**4)
    assert enclosed[0][0] > Fraction(9, 10)

import math
from fractions import Fraction
from itertools import product

import pytest

from dp_sql.udfs.topk import joint, template
from tests.udfs.cases_joint import EPSILON, err, joint_distribution
from tests.udfs.cases_pnf_joint import (
    HALF,
    defined_weights,
    flips,
    flips_of_lists,
    histograms,
    pnf_distribution,
)
from tests.udfs.distributions import normalized
from tests.udfs.test_permute_and_flip import permute_and_flip

# The distribution.


def test_uniform_arrivals_are_permute_and_flip():
    for shortfalls in product(range(3), repeat=3):
        weights = {i: HALF**e for i, e in enumerate((0, 1, *shortfalls))}
        assert flips(weights) == permute_and_flip(weights)


# Against the exponential mechanism over lists.


def distributions_of_both(counts, k, q, most_failures=99):
    distribution, unfinished = pnf_distribution(counts, k, 9, q, most_failures)
    q_of = {joint.rate_of(k, EPSILON): q}
    return distribution, unfinished, joint_distribution(counts, k, 9, q_of)


EXAMPLES = [
    ((2, 1, 0), 2, (1, 4), (318299, 491520), (8, 15), 99),
    ((3, 1, 0), 3, (1, 3), (771047, 1062882), (27, 44), 3),
    ((2, 1, 0, 0), 2, (1, 6), (9695139429880867, 15640233326936064), (1, 2), 3),
]
"""Histogram, k, q, P(top list) here and in joint, and how many failures are followed: all of
them in the first, so its distribution is known exactly, the others up to what is left over."""


@pytest.mark.thorough
@pytest.mark.parametrize(("counts", "k", "q", "here", "there", "most_failures"), EXAMPLES)
def test_the_top_list_is_missed_less_often_than_by_the_exponential_mechanism(
    counts, k, q, here, there, most_failures
):
    q, here, there, top = Fraction(*q), Fraction(*here), Fraction(*there), tuple(range(k))
    distribution, unfinished, exponential = distributions_of_both(counts, k, q, most_failures)
    assert flips_of_lists(counts, k, 9, q)[top] == here
    assert (
        distribution[top]
        <= here
        <= distribution[top] + unfinished
        <= distribution[top] + Fraction(1, 200)
    )
    assert exponential[top] == there
    assert here > Fraction(118, 100) * there
    assert 1 - there > Fraction(13, 10) * (1 - here)


def test_the_top_list_is_likelier_and_never_by_three_tenths():
    for counts in histograms(3, 3, 4):
        for k, q in product((1, 2), (HALF, Fraction(1, 5), Fraction(5, 6))):
            weights = defined_weights(counts, k, 9, q)
            top = max(weights, key=weights.get)
            ratio = flips(weights)[top] / normalized(weights)[top]
            assert 1 <= ratio < Fraction(13, 10)


# The public numbers.


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2), (4, 2)])
def test_the_error_bound_of_joint_holds_for_every_small_histogram(d, k):
    epsilon, beta = Fraction(3), Fraction(1, 10)
    q = Fraction(round(math.exp(-joint.rate_of(k, epsilon)) * 1000), 1000)
    bound = template.error_bound(math.perm(d, k), joint.rate_of(k, epsilon), beta)
    for counts in histograms(bound + 2, d):
        distribution = flips_of_lists(counts, k, 10**6, q)
        assert sum(p for x, p in distribution.items() if err(counts, x) > bound) <= beta

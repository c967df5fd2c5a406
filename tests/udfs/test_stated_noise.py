"""Where the bound is stated, what is said about the noise is its exact quantile."""

import re
from fractions import Fraction
from math import exp

import pytest

from dp_sql.udfs.contributions import bounded_count, bounded_sum, laplace

BETA = Fraction(1, 20)


def beyond(x: int, rate: Fraction) -> float:
    """The probability that discrete Laplace noise is at least x, for x >= 0."""
    return exp(-rate * x) / (1 + exp(-rate))


@pytest.mark.parametrize("bound", [1, 3, 100])
def test_a_count_within_a_stated_bound_says_how_far_it_may_be_too_large(bound: int) -> None:
    epsilon = Fraction(1, 2)
    says = bounded_count.accuracy(epsilon, BETA, 10, bound)
    found = re.search(r"exceeds the true number of rows by at most (-?\d+);", says)
    assert found is not None
    most, rate = int(found[1]), epsilon / bound
    assert beyond(most + 1, rate) <= BETA < beyond(most, rate)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3)])
def test_a_count_of_people_says_how_far_it_may_be_off(epsilon: Fraction) -> None:
    off = laplace.within(epsilon, BETA)
    assert 2 * beyond(off + 1, epsilon) <= BETA < 2 * beyond(off, epsilon)
    assert f"within {off} of" in laplace.accuracy(epsilon, BETA)


@pytest.mark.parametrize(("one_sided", "sides", "words"), [
    (True, 1, "estimate exceeds the true sum by"), (False, 2, "noise is"),
])  # fmt: skip
@pytest.mark.parametrize("bound", [None, 10**6])
def test_a_sum_says_how_large_its_noise_may_be(
    bound: int | None, one_sided: bool, sides: int, words: str
) -> None:
    epsilon = Fraction(1, 2)
    says = bounded_sum.accuracy(epsilon, BETA, 10, bound, one_sided)
    found = re.search(rf"the {words} at most ([\d.]+) times the contribution bound", says)
    assert found is not None
    rate = epsilon if bound is not None else epsilon / 2  # of one contribution bound
    times = float(found[1]) - 0.5  # which is for the steps of the noise
    assert sides * exp(-rate * times) / 2 <= BETA < sides * exp(-rate * times * 0.999) / 2

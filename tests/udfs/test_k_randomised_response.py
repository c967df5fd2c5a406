"""What is special to randomised response; the rest is test_conformance.py."""

import math
from fractions import Fraction

import pytest

from dp_sql.udfs.select import k_randomised_response as response
from tests.udfs.cases_select import Q, defined_response
from tests.udfs.choices import BETA, EPSILON, PowersOf
from tests.udfs.distributions import distribution_of


def test_sensitivities_do_not_matter():
    for sizes in ((0, 0), (0, 5), (Fraction(1, 3), 2)):
        distribution, _ = distribution_of(
            lambda path, at=sizes: response.k_randomised_response((1, 2), at, EPSILON, path),
            PowersOf(Q, EPSILON),
        )
        assert distribution == defined_response((1, 2))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_the_accuracy_sentence_holds_and_is_sharp(n, epsilon):
    says = response.K_RANDOMISED_RESPONSE.accuracy([1] * n, epsilon, BETA)
    stated = Fraction(says.removeprefix("with probability ").split(" %, no")[0]) / 100
    p = 1 / (1 + (n - 1) * Fraction(math.exp(-epsilon)))
    assert p - Fraction(2, 10**9) < stated <= p + Fraction(1, 10**15)

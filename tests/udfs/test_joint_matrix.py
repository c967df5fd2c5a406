"""The reference for comparisons has the distribution of the paper, and lists no item twice."""

from collections import Counter
from fractions import Fraction
from itertools import permutations
from math import ceil, exp, log

import numpy as np
import pytest

from benchmarks import joint_matrix
from tests.udfs.distributions import fits

N_DRAWS = 3000
HALF = Fraction(1, 2)


def defined_distribution(counts, k, epsilon, failure_probability=None):
    """The distribution by its definition, list by list."""
    best = sorted(counts, reverse=True)
    errors = {
        picks: max(best[i] - counts[x] for i, x in enumerate(picks))
        for picks in permutations(range(len(counts)), k)
    }
    if failure_probability:
        tau = ceil(2 / epsilon * log(len(errors) / failure_probability))
        assert tau < max(errors.values()), "the cut is to be seen"
        errors = {picks: min(error, tau) for picks, error in errors.items()}
    total = sum(exp(-epsilon / 2 * error) for error in errors.values())
    return {picks: exp(-epsilon / 2 * error) / total for picks, error in errors.items()}


def drawn(counts, k, epsilon, failure_probability=None):
    counts = np.array(counts, dtype=np.int64)
    return Counter(
        tuple(joint_matrix.topk(counts, k, epsilon, failure_probability)) for _ in range(N_DRAWS)
    )


CASES = [
    ((5, 3, 3, 0), 1, Fraction(1), None),
    ((2, 6, 4, 4), 2, Fraction(1), None),
    ((3, 3, 3), 3, Fraction(1), None),
    ((4, 1, 2, 2, 0), 3, Fraction(2), None),
    ((7,), 1, Fraction(1), None),
    ((9, 6, 6, 1), 2, Fraction(2), HALF),
    ((0, 8, 8, 2, 7), 2, Fraction(2), HALF),
    ((12, 0, 11, 11), 3, Fraction(1), HALF),
    ((12, 0, 0, 0, 0, 0), 1, Fraction(1), HALF),
]


@pytest.mark.one_in(12)
@pytest.mark.pure
@pytest.mark.parametrize("case", CASES)
def test_the_reference_has_the_distribution_of_the_definition(case):
    assert fits(drawn(*case), defined_distribution(*case))


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("case", CASES[1:2] + CASES[3:4] + CASES[6:8])
def test_a_reference_without_the_half_is_rejected(case, monkeypatch):
    monkeypatch.setattr(joint_matrix, "_rate", float)
    assert not fits(drawn(*case), defined_distribution(*case))


@pytest.mark.thorough
@pytest.mark.pure
def test_a_reference_that_counts_the_own_row_as_a_choice_is_rejected(monkeypatch):
    counted = joint_matrix._log_counts

    def with_its_own_row(cells):
        return counted(cells) + np.log(cells.columns - cells.rows + 1)

    monkeypatch.setattr(joint_matrix, "_log_counts", with_its_own_row)
    assert not fits(drawn(*CASES[1]), defined_distribution(*CASES[1]))


@pytest.mark.thorough
@pytest.mark.pure
def test_a_pruned_reference_that_does_not_cap_is_rejected():
    counts, k, epsilon, failure_probability = CASES[8]
    assert not fits(
        drawn(counts, k, epsilon), defined_distribution(counts, k, epsilon, failure_probability)
    )


@pytest.mark.parametrize("pruned", [None, Fraction(1, 1024), HALF])
@pytest.mark.parametrize("largest", [0, 1, 3, 40])
def test_no_item_is_listed_twice_whatever_is_tied(pruned, largest):
    rng = np.random.default_rng()
    for _ in range(100):
        d = int(rng.integers(1, 40))
        k = int(rng.integers(1, d + 1))
        counts = rng.integers(0, largest + 1, d)
        listed = joint_matrix.topk(counts, k, Fraction(1), pruned)
        assert len(set(listed)) == k
        assert set(listed) <= set(range(d))

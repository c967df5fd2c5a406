"""Uniform subsets: exact for words of few values, by fit for the system's."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from dp_sql.udfs import exact_sampling as exact
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from tests.udfs.distributions import distribution_of, fits

CASES = [
    ((3,), 1, 4, 5),
    ((3,), 2, 5, 4),
    ((4,), 2, 4, 7),
    ((0, 3, 1, 2), 1, 4, 5),
    ((1, 2), 0, 4, 1),
]
"""Sizes, how many are drawn at most, the number of words, and the length of the paths followed."""


def distribution_of_subsets(sizes, most, n_words, limit, *, shared=False):
    """The distribution of the shipped draw from words below n_words, and what is unfinished."""

    def run(path):
        def half_words(n):
            drawn = [path.below(n_words) for _ in range(1 if shared else n)]
            return np.resize(np.array(drawn, np.int64), n)

        draws = Draws(path)
        draws._half_words = half_words
        return tuple(draws.subsets(np.array(sizes), most).tolist())

    return distribution_of(run, {}, limit)


def all_subsets(sizes, most):
    every = product(*(combinations(range(n), min(n, most)) for n in sizes))
    return {
        tuple(i in own for n, own in zip(sizes, sets, strict=True) for i in range(n))
        for sets in every
    }


def is_uniform(sizes, most, distribution):
    return distribution.keys() == all_subsets(sizes, most) and len(set(distribution.values())) == 1


@pytest.mark.parametrize(("sizes", "most", "n_words", "limit"), CASES)
def test_all_subsets_are_equally_likely(monkeypatch, sizes, most, n_words, limit):
    monkeypatch.setattr(exact, "_SPACE", n_words)
    distribution, unfinished = distribution_of_subsets(sizes, most, n_words, limit)
    assert is_uniform(sizes, most, distribution)
    assert unfinished < Fraction(1, 2)


@pytest.mark.parametrize("space", [6, 9])
def test_words_that_should_be_rejected_favour_some_members(monkeypatch, space):
    """Four words, all taken modulo 3."""
    monkeypatch.setattr(exact, "_SPACE", space)
    assert not is_uniform((3,), 1, distribution_of_subsets((3,), 1, 4, 5)[0])


def test_groups_that_share_their_words_are_not_independent(monkeypatch):
    monkeypatch.setattr(exact, "_SPACE", 4)
    assert is_uniform((2, 2), 1, distribution_of_subsets((2, 2), 1, 4, 4)[0])
    assert not is_uniform((2, 2), 1, distribution_of_subsets((2, 2), 1, 4, 4, shared=True)[0])


@pytest.mark.parametrize(("sizes", "most"), [case[:2] for case in CASES])
def test_the_distributions_of_these_tests_know_uniform_subsets(sizes, most):
    distribution, unfinished = distribution_of(
        lambda path: tuple(path.subsets(sizes, most).tolist()), {}
    )
    assert unfinished == 0
    assert is_uniform(sizes, most, distribution)


@pytest.mark.parametrize("most", [0, 1, 40, 60, 1000])
@pytest.mark.parametrize("dtype", [np.int8, np.uint64])
def test_each_group_has_as_many_members_as_are_asked_for(most, dtype):
    sizes = np.array([3, 0, 1, 100, 0, 2], dtype)
    drawn = np.split(secret_draws().subsets(sizes, most), np.cumsum(sizes.astype(int)))
    assert [own.sum() for own in drawn] == [min(n, most) for n in (3, 0, 1, 100, 0, 2, 0)]


UNIFORM = dict.fromkeys(combinations(range(4), 2), 1 / 6)


def pairs_drawn(draws):
    drawn = draws.subsets(np.full(6_000, 4), 2).reshape(-1, 4)
    return Counter(tuple(np.flatnonzero(own).tolist()) for own in drawn)


def test_subsets_from_the_system_fit_the_uniform_distribution():
    assert fits(pairs_drawn(secret_draws()), UNIFORM)


@pytest.mark.pure
def test_the_fit_rejects_subsets_that_favour_a_member(monkeypatch):
    draws = secret_draws()
    right = draws._half_words
    monkeypatch.setattr(draws, "_half_words", lambda n: right(n) & right(n))
    assert not fits(pairs_drawn(draws), UNIFORM)


def test_sizes_that_are_not_whole_or_negative_are_refused():
    with pytest.raises(TypeError, match="integers"):
        secret_draws().subsets(np.array([1.0]), 1)
    with pytest.raises(ValueError, match="not be negative"):
        secret_draws().subsets(np.array([2, -1]), 1)

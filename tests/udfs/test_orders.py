"""Uniform orders: exact for words of few bits, by fit for the system's."""

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import pytest

from dp_sql.udfs import exact_sampling as exact
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from tests.udfs.distributions import distribution_of, fits
from tests.udfs.test_exact_sampling import ROOT

# Orders. Words of one or two bits make ties common; all their values are tried.

SIZES = [(), (0,), (1,), (2,), (3,), (0, 2, 1), (2, 2)]


def distribution_of_orders(sizes, bits, limit):
    """The distribution of the shipped orders from words of so many fair bits, and what is unfinished."""

    def run(draws):
        def words(n):
            drawn = [draws.below(1 << bits) << 64 - bits for _ in range(n)]
            return np.array(drawn, dtype=np.uint64)

        return tuple(exact._orders(np.array(sizes, dtype=np.int64), words).tolist())

    return distribution_of(run, {}, limit)


def all_orders(sizes):
    every = product(*(permutations(range(n)) for n in sizes))
    return {sum(orders, ()) for orders in every}


def is_uniform(sizes, distribution):
    return distribution.keys() == all_orders(sizes) and len(set(distribution.values())) == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("bits", "limit"), [(1, 12), (2, 7)])
def test_all_orders_are_equally_likely_whatever_ties(sizes, bits, limit):
    distribution, unfinished = distribution_of_orders(sizes, bits, limit)
    assert is_uniform(sizes, distribution)
    assert unfinished < Fraction(1, 4)


def test_ties_left_as_the_sort_leaves_them_are_not_uniform(monkeypatch):
    monkeypatch.setattr(exact, "_settle_ties", lambda order, tied, words: None)
    distribution, unfinished = distribution_of_orders((3,), 2, 12)
    assert unfinished == 0
    assert not is_uniform((3,), distribution), "64 words are no multiple of 6 orders"


def test_ties_settled_by_words_already_used_are_not_uniform(monkeypatch):
    right = exact._settle_ties

    def settle_once(order, tied, words):
        right(order, tied, lambda n: np.arange(n, dtype=np.uint64) << np.uint64(50))

    monkeypatch.setattr(exact, "_settle_ties", settle_once)
    assert not is_uniform((3,), distribution_of_orders((3,), 1, 12)[0])


def test_groups_that_share_their_words_are_not_independent():
    def run(draws):
        def words(n):
            pair = [draws.below(4) << 62 for _ in range(2)]
            return np.array(pair * (n // 2), dtype=np.uint64)

        return tuple(exact._orders(np.array([2, 2]), words).tolist())

    assert not is_uniform((2, 2), distribution_of(run, {}, 4)[0])


def test_words_are_the_digits_of_the_bits():
    digits = [5, 2**64 - 1, 0, 7 << 60]
    asked = []

    def bits(n):
        asked.append(n)
        return sum(digit << 64 * place for place, digit in enumerate(digits))

    assert Draws(bits)._words(4).tolist() == digits
    assert asked == [256]


@pytest.mark.parametrize("sizes", SIZES)
def test_the_distributions_of_these_tests_know_uniform_orders(sizes):
    distribution, unfinished = distribution_of(
        lambda draws: tuple(draws.orders(sizes).tolist()), {}
    )
    assert unfinished == 0
    assert is_uniform(sizes, distribution)
    assert len(distribution) == prod(map(factorial, sizes))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_orders_of_many_groups_stand_in_a_row(dtype):
    sizes = np.array([3, 0, 1, 100, 0, 2], dtype=dtype)
    orders = secret_draws().orders(sizes)
    assert orders.dtype == np.int64
    rows = np.split(orders, np.cumsum(sizes.astype(np.int64))[:-1])
    assert [sorted(row.tolist()) for row in rows] == [list(range(n)) for n in sizes]


UNIFORM = dict.fromkeys(permutations(range(3)), 1 / 6)


def order_counts(draws):
    return Counter(map(tuple, draws.orders(np.full(6_000, 3)).reshape(-1, 3).tolist()))


def test_orders_from_the_system_fit_the_uniform_distribution():
    assert fits(order_counts(secret_draws()), UNIFORM)


@pytest.mark.pure
def test_the_fit_rejects_orders_that_favour_the_first_member(monkeypatch):
    draws = secret_draws()
    right = draws._words
    favoured = np.resize([np.uint64(1), np.uint64(0), np.uint64(0)], 3 * 6_000)
    monkeypatch.setattr(draws, "_words", lambda n: right(n) >> favoured)
    assert not fits(order_counts(draws), UNIFORM)


def test_sizes_that_are_not_whole_are_refused():
    with pytest.raises(TypeError, match="integers"):
        secret_draws().orders(np.array([1.0]))


def test_negative_sizes_are_refused():
    with pytest.raises(ValueError, match="not be negative"):
        secret_draws().orders(np.array([2, -1]))


def test_forked_processes_draw_different_numbers():
    program = (
        "import os\n"
        "from udfs.exact_sampling import secret_draws\n"
        "draws = secret_draws()\n"
        "draws.below(2**200)\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0)\n"
        "print(draws.below(2**200), flush=True)\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert len(set(run.stdout.split())) == 2

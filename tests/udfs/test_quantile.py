"""Quantiles: what holds for every set of votes, and one vote drawn from a person's rows."""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.udfs.quantile import recursive
from dp_sql.udfs.quantile.split import Ranks, Stretch, into_blocks
from tests.udfs import cases_quantile as cases
from tests.udfs.conformance import within
from tests.udfs.distributions import NotPrivateError

HALF = Fraction(1, 2)
MANY = tuple(Fraction(i, 21) for i in range(1, 21))


def run(votes, quantiles, n_steps, epsilon):
    return recursive.RECURSIVE.run(np.array(votes, np.int64), quantiles, n_steps, epsilon)


def rank_error(votes, answer, q):
    n = len(votes)
    return max(sum(v < answer for v in votes) - q * n, q * n - sum(v <= answer for v in votes), 0)


VOTES = {
    "none": [],
    "one": [3],
    "equal": [5] * 1000,
    "ends": [0] * 500 + [7] * 500,
    "spread": list(range(8)) * 100,
}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1), Fraction(10**4)])
@pytest.mark.parametrize("n_steps", [7, 2**62])
@pytest.mark.parametrize("shape", VOTES)
def test_any_votes_give_steps_of_the_grid_in_order(shape, n_steps, epsilon):
    for quantiles in [(HALF,), (Fraction(1, 10**6), HALF), MANY]:
        answers = run(VOTES[shape], quantiles, n_steps, epsilon)
        assert answers == sorted(answers)
        assert all(type(x) is int and 0 <= x <= n_steps for x in answers)


@pytest.mark.parametrize("shape", ["equal", "ends", "spread"])
def test_a_very_large_epsilon_gives_exact_quantiles(shape):
    votes = VOTES[shape]
    for quantiles in [(HALF,), MANY]:
        for q, x in zip(quantiles, run(votes, quantiles, 7, Fraction(10**4)), strict=True):
            assert rank_error(votes, x, q) == 0


def test_answers_are_in_the_order_of_the_quantiles():
    asked = (Fraction(3, 4), Fraction(1, 8), Fraction(3, 4), HALF)
    answers = run(VOTES["spread"], asked, 7, Fraction(10**4))
    assert answers[0] == answers[2]
    assert sorted(zip(asked, answers, strict=True)) == sorted(
        zip(sorted(asked), sorted(answers), strict=True)
    )


def test_errors_keep_to_the_stated_bound():
    votes, beta = [i * i % 997 for i in range(400)], Fraction(1, 20)
    for quantiles in [(HALF,), MANY]:
        bound = recursive.error_bound(quantiles, 996, Fraction(1), beta)
        worst = [
            max(
                rank_error(votes, x, q)
                for q, x in zip(quantiles, run(votes, quantiles, 996, Fraction(1)), strict=True)
            )
            for _ in range(40)
        ]
        # More than 14 of 40 have probability below 1e-9 if each has at most 1/20.
        assert sum(error > bound for error in worst) <= 14


STRETCHES = st.tuples(
    st.lists(st.integers(0, 4), max_size=8), st.integers(0, 15), st.integers(0, 15),
    st.sampled_from([1, 3]), st.fractions(0, 1, max_denominator=6).filter(lambda q: 0 < q < 1),
)  # fmt: skip


@given(STRETCHES)
def test_blocks_hold_each_outcome_once_and_no_error_is_below_its_block(drawn):
    votes, a, b, size, share = drawn
    low, high = sorted((a, b))
    if low == high == 15:
        return
    stretch = Stretch(Ranks(np.sort(np.array(votes, np.int64)), 3), low, high, size, share)
    for t in range(0, 60, 7):
        first, last = stretch.within(t)
        inside = [i for i in range(stretch.first, stretch.last + 1) if stretch.error(i) <= t]
        assert inside == list(range(first, last + 1))
        assert inside
    outcomes = into_blocks(stretch, Fraction(1, 5))
    sizes = [n for ((n, _),) in outcomes.odds.weights]
    assert min(sizes) >= 0
    assert sum(sizes) == stretch.last - stretch.first + 1


# One vote from each person's own rows.


def with_drawn_votes(people, quantiles, n_steps):
    """The exact distribution for people with these rows, one of which is drawn for each."""
    mixed = defaultdict(Fraction)
    n_draws = prod(map(len, people))
    for votes in product(*people):
        for answers, p in shipped(tuple(sorted(votes)), quantiles, n_steps).items():
            mixed[answers] += p / n_draws
    return mixed


shipped = cache(cases.shipped)
OTHERS = [((0, 2), (1,)), ((0, 0, 1), (2, 2)), ((1,),), ()]
ROWS = [(0,), (0, 2), (1, 1, 2), (2, 2, 2, 2)]


@pytest.mark.parametrize("quantiles", [cases.MEDIAN, cases.THIRD])
def test_one_person_with_all_rows_cannot_be_told(quantiles):
    pairs = [(others, (*others, rows)) for others in OTHERS for rows in ROWS]
    within(cases.LOSS)(lambda people: with_drawn_votes(people, quantiles, 2), pairs)


def test_a_vote_for_each_row_would_cost_more():
    def of_all_rows(people):
        votes = tuple(sorted(row for rows in people for row in rows))
        return cases.defined(votes, cases.MEDIAN, 40)

    far = tuple((vote,) for vote in cases.FAR)
    with pytest.raises(NotPrivateError):
        within(cases.LOSS)(of_all_rows, [(far, (*far, (40, 40)))])

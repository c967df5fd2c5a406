"""Quantiles: what holds for every set of votes, and one vote drawn from a person's rows."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.udfs.mixed import mixed
from dp_sql.udfs.quantile import recursive, split
from dp_sql.udfs.quantile.split import Stretch, into_blocks, ranks_of
from tests.udfs import cases_quantile as cases
from tests.udfs.conformance import within
from tests.udfs.distributions import NotPrivateError, accepted, distribution_of

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


VOTES_OF_ONE = st.tuples(
    st.lists(st.integers(0, 4), max_size=8), st.integers(0, 15), st.integers(0, 15)
)
SHARES = st.fractions(0, 1, max_denominator=6).filter(lambda q: 0 < q < 1)


@given(st.lists(VOTES_OF_ONE, min_size=1, max_size=3), st.sampled_from([1, 3]), SHARES,
       st.booleans())  # fmt: skip
def test_blocks_hold_each_outcome_once_and_no_error_is_below_its_block(
    groups, size, share, in_objects
):
    groups = [(votes, *sorted(points)) for votes, *points in groups if points != [15, 15]]
    if not groups:
        return
    ranks = ranks_of([np.array(votes, np.int64) for votes, _, _ in groups], 4, 3, 6)
    assert ranks.kind is np.int64
    if in_objects:
        ranks = replace(ranks, kind=object)
    low, high = (np.array([one[i] for one in groups], ranks.kind) for i in (1, 2))
    stretch = Stretch(ranks, low, high, size, share)
    errors = np.array([*range(0, 60, 7)], ranks.kind)
    firsts, lasts = stretch.within(errors)
    for g, (votes, at, to) in enumerate(groups):
        outcomes = range(at // size, max(-(-to // size), at // size + 1))
        assert [stretch.first[g], stretch.last[g]] == [outcomes[0], outcomes[-1]]
        each = [error_of(votes, i, at, to, size, share) for i in outcomes]
        same = np.full(len(outcomes), g), np.array(outcomes, ranks.kind)
        assert stretch.error(*same).tolist() == each
        assert max(each) <= stretch.most
        for i, t in enumerate(errors.tolist()):
            inside = [x for x, error in zip(outcomes, each, strict=True) if error <= t]
            assert inside == [*range(firsts[g, i], lasts[g, i] + 1)]
            assert inside
    found = into_blocks(stretch, Fraction(1, 5))
    assert found.sizes.min() >= 0
    assert (found.sizes.sum(axis=1) == stretch.last - stretch.first + 1).all()


def error_of(votes, i, low, high, size, share):
    """By the definition, of a grid with steps of three parts."""

    def rank(x):
        return sum(min(max(x - 3 * v, 0), 3) for v in votes)

    a, b = share.numerator, share.denominator
    wanted = (b - a) * rank(low) + a * rank(high)
    x, y = max(i * size, low), min((i + 1) * size, high)
    return max(b * rank(x) - wanted, wanted - b * rank(y), 0)


# Several groups at once.

GROUPS = [(0, 1, 1), (), (2,)]
"""Votes on a grid of three steps."""


def law_of_groups(quantiles, *given):
    return cases.shipped_of_groups(GROUPS, quantiles, 2, *given)


def is_product(found, each):
    return found == {
        tuple(answer for answer, _ in both): prod(p for _, p in both)
        for both in product(*(one.items() for one in each))
    }


@pytest.mark.parametrize("fits", [1 << 62, -1])
@pytest.mark.parametrize("quantiles", [cases.THIRD, cases.MEDIAN])
def test_groups_have_the_product_of_their_distributions(quantiles, fits):
    each = [cases.defined(votes, quantiles, 2) for votes in GROUPS]
    assert is_product(law_of_groups(quantiles, 2, fits), each)


def test_two_groups_with_several_quantiles_have_the_product_of_their_distributions():
    groups = [(0,), (1, 1)]
    each = [cases.defined(votes, cases.BOTH, 1) for votes in groups]
    assert is_product(cases.shipped_of_groups(groups, cases.BOTH, 1), each)


def law_of_attempts(kind=np.int64):
    """The distribution of one shipped attempt for several groups: None is not kept."""
    ranks = replace(ranks_of([*map(np.array, ([0, 1, 1], [2]))], 2, 1, 3), kind=kind)
    ends = np.zeros(2, kind)
    stretch = Stretch(ranks, ends, ends + 3, 1, Fraction(1, 3))
    rate = Fraction(1, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "block_width", lambda rate: 1)
        outcomes = split.into_blocks(stretch, rate)
    of_rate = {rate: cases.PowersOf(cases.Q, cases.UNIT)[rate]}

    def attempted(groups):
        def run(path):
            found, is_kept = outcomes.attempt(np.array(groups), path)
            kept = zip(found.tolist(), is_kept.tolist(), strict=True)
            return tuple(x if is_one else None for x, is_one in kept)

        return distribution_of(run, of_rate)[0]

    return attempted((0, 1)), attempted((0,)), attempted((1,))


def attempts_are_independent(both, first, second):
    return both == {
        (a, b): p * q for ((a,), p), ((b,), q) in product(first.items(), second.items())
    }


@pytest.mark.parametrize("kind", [np.int64, object])
def test_attempts_for_several_groups_are_independent(kind):
    both, first, second = law_of_attempts(kind)
    assert attempts_are_independent(both, first, second)
    assert accepted({x: p for (x,), p in first.items()}) != accepted(
        {x: p for (x,), p in second.items()}
    )


@pytest.mark.pure
@pytest.mark.parametrize("part", ["error", "sizes", "first"])
def test_what_is_taken_of_another_group_would_be_noticed(part, monkeypatch):
    if part == "error":
        right = Stretch.error
        wrong = lambda s, groups, x: right(s, groups[::-1], x)  # noqa: E731
        monkeypatch.setattr(Stretch, "error", wrong)
    elif part == "sizes":
        wrong = property(lambda s: np.diff(s.widths[::-1], axis=1, prepend=0))
        monkeypatch.setattr(split.Outcomes, "sizes", wrong)
    else:
        right = split.into_blocks
        wrong = lambda *given: replace(found := right(*given), first=found.first[::-1])  # noqa: E731
        monkeypatch.setattr(split, "into_blocks", wrong)
    with pytest.raises(AssertionError):  # or a probability would be negative
        assert is_right(*law_of_attempts())


def is_right(both, first, second):
    """Whether both groups have the distribution of the definition, of what is kept."""
    whole = {x: p for x, p in both.items() if None not in x}
    each = [cases.defined(votes, cases.THIRD, 2) for votes in ((0, 1, 1), (2,))]
    total = sum(whole.values())
    return is_product({tuple((x,) for x in one): p / total for one, p in whole.items()}, each)


def test_attempts_that_are_kept_have_the_distribution_of_the_definition():
    assert is_right(*law_of_attempts())


def test_only_groups_whose_attempt_is_not_kept_try_again(monkeypatch):
    asked = []

    def attempt(outcomes, groups, draws):
        asked.append(groups.tolist())
        return groups + 10 * len(asked), np.array([(g + len(asked)) % 2 == 0 for g in groups])

    monkeypatch.setattr(split.Outcomes, "attempt", attempt)
    ranks = ranks_of([np.array([1])] * 4, 2, 1, 2)
    ends = np.zeros(4, np.int64)
    drawn = split.choose(Stretch(ranks, ends, ends + 3, 1, HALF), Fraction(1), None)
    assert asked == [[0, 1, 2, 3], [0, 2]]
    assert drawn.tolist() == [20, 11, 22, 13]


@pytest.mark.parametrize(("groups", "votes"), [(2, 10**6), (10**6, 3), (1, 1)])
def test_groups_are_drawn_in_slices(groups, votes, monkeypatch):
    monkeypatch.setattr(recursive, "_GROUPS", groups)
    monkeypatch.setattr(recursive, "_VOTES", votes)
    sizes, right = [], recursive.recursive
    monkeypatch.setattr(
        recursive, "recursive", lambda own, *given: (sizes.append(len(own)), right(own, *given))[1]
    )
    data = [(np.full(n, n),) for n in (1, 2, 0, 3, 1)]
    answers = recursive.run_each(data, (HALF,), 7, Fraction(10**4))
    assert [x for (x,) in answers][:2] + [x for (x,) in answers][3:] == [1, 2, 3, 1]
    assert sizes == {10**6: [2, 2, 1], 3: [2, 2, 1], 1: [1] * 5}[votes]
    assert recursive.run_each([], (HALF,), 7, Fraction(1)) == []


@pytest.mark.parametrize("kind", [np.int64, object])
def test_outcomes_of_several_groups_are_those_of_each_alone(kind):
    """Also where one group ends with the vote with which the next one begins."""
    groups = [[1, 1], [1], [], [1, 3, 3], [3]]
    errors = np.array([0, 2, 5, 11, 40], kind)

    def within(some):
        ranks = replace(ranks_of([np.array(one, np.int64) for one in some], 4, 3, 6), kind=kind)
        ends = np.zeros(len(some), kind)
        stretch = Stretch(ranks, ends, ends + 15, 1, Fraction(1, 6))
        return [bound.tolist() for bound in stretch.within(errors)]

    first, last = within(groups)
    alone = [within([one]) for one in groups]
    assert [[first[g]] for g in range(5)] == [own for own, _ in alone]
    assert [[last[g]] for g in range(5)] == [own for _, own in alone]


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_vote_out_of_the_grid_is_refused_in_any_group(is_mixed):
    data = [(np.array([0, 7]),), (np.array([8]),)]
    given = mixed(data, "votes") if is_mixed else data
    with pytest.raises(ValueError, match="votes must lie between 0 and n_steps"):
        recursive.run_each(given, (HALF,), 7, Fraction(1))
    assert len(recursive.run_each(given, (HALF,), 8, Fraction(1))) == 2


@pytest.mark.parametrize("n_steps", [2**29, 2**31, 2**40])
def test_large_numbers_are_drawn_as_small_ones_are(n_steps):
    """With 64 bits or more: the same votes at another scale, at a sure epsilon."""
    votes = np.array([0, n_steps // 2, n_steps], np.int64)
    quantiles = (Fraction(1, 6), HALF, Fraction(5, 6))
    answers = recursive.run_each([(votes,), (votes,)], quantiles, n_steps, Fraction(10**6))
    assert answers == [votes.tolist()] * 2


@pytest.mark.parametrize("shape", VOTES)
def test_fractions_of_any_size_are_quantiles(shape):
    quantiles = tuple(Fraction(p, 2**89 - 1) for p in (3**50, 10**25, 2**88))
    answers = run(VOTES[shape], quantiles, 7, Fraction(1))
    assert answers == sorted(answers)


def test_one_share_with_a_large_denominator_is_enough_for_large_numbers():
    quantiles = (HALF, HALF + Fraction(1, 2**80))
    assert run(VOTES["spread"], quantiles, 7, Fraction(10**4))[0] in {3, 4}


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

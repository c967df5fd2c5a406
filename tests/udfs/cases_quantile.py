"""Quantiles of small sets of votes: distributions, neighbours and mutants."""

import math
from collections import defaultdict
from contextlib import contextmanager
from fractions import Fraction
from functools import cache, partial
from itertools import product

import numpy as np
import pytest

from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.quantile import recursive, split
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    times_two,
    within,
)
from tests.udfs.distributions import (
    accepted,
    data_sets,
    distribution_of,
    draws_fit,
    normalized,
    one_more,
)

EPSILON = Fraction(1)
UNIT = Fraction(1, 48)
"""All rates here are multiples of it."""
Q = Fraction(31, 32)
LOSS = Q**-48
"""In exact distributions exp(epsilon) is this rational, about 4.6."""
PARTS = 2

MEDIAN = (Fraction(1, 2),)
THIRD = (Fraction(1, 3),)
QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
BOTH = (Fraction(1, 3), Fraction(2, 3))


@cache
def _accepted(votes, parts, kind, low, high, size, share, rate, width):
    """The distribution of one shipped attempt, given that it is not repeated."""
    outcomes = split.into_blocks(
        split.Stretch(
            split.Ranks(np.array([*votes, 0]), np.array([0, len(votes)]), parts, kind),
            np.array([low], kind), np.array([high], kind), size, share,
        ), rate,
    )  # fmt: skip
    found, unfinished = distribution_of(
        lambda path: _first(*outcomes.attempt(np.array([0]), path)),
        {rate: PowersOf(Q, UNIT)[rate]},
    )
    assert unfinished == 0
    return accepted(found)


def _first(outcome, is_kept):
    return outcome.tolist()[0] if is_kept[0] else None


def _drawn(stretch, rate, path, attempts):
    """One outcome of each group, drawn from the distribution of the shipped attempts."""
    ranks, ends = stretch.ranks, stretch.ranks.starts.tolist()
    drawn = []
    for g, (low, high) in enumerate(zip(stretch.low.tolist(), stretch.high.tolist(), strict=True)):
        votes = tuple(ranks.votes[ends[g] : ends[g + 1]].tolist())
        given = (low, high, stretch.size, stretch.share, rate, split.block_width(rate))
        found = attempts(votes, ranks.parts, ranks.kind, *given)
        drawn.append([*found][path._step([*found.values()])])
    return np.array(drawn, ranks.kind)


@contextmanager
def _small(width, fits):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recursive, "PARTS", PARTS)
        patch.setattr(split, "_FITS", fits)
        patch.setattr(split, "block_width", lambda rate: width)
        # A mutant must not find the distributions of the right code.
        attempts = cache(_accepted.__wrapped__)
        patch.setattr(recursive, "choose", lambda *given: _drawn(*given, attempts))
        yield


def shipped_of_groups(groups, quantiles, n_steps, width=2, fits=1 << 62):
    """The exact distribution of the shipped mechanism for several groups at once."""
    votes = [np.array(one, np.int64) for one in groups]
    with _small(width, fits):
        found, unfinished = distribution_of(
            lambda draws: tuple(
                map(tuple, recursive.recursive(votes, quantiles, n_steps, EPSILON, draws))
            ),
            {},
        )
    assert unfinished == 0
    return found


def shipped(votes, *given):
    """The same for one group."""
    return {only: p for (only,), p in shipped_of_groups([votes], *given).items()}


def defined(votes, quantiles, n_steps, faster=1):
    """The same by the definition, with ranks as fractions and every outcome looked at."""
    m, parts = len(quantiles), PARTS
    levels = math.floor(math.log2(m)) + 1

    def rank(x):
        return sum(min(max(Fraction(x, parts) - v, 0), 1) for v in votes)

    def answers(low, high, wanted):
        """Pairs of a tuple of points and its probability; low and high are (q, point)."""
        if not wanted:
            return [((), Fraction(1))]
        middle = (len(wanted) - 1) // 2 if len(wanted) % 2 else len(wanted) // 2 - 1
        target = wanted[middle]
        share = (target - low[0]) / (high[0] - low[0])
        size = parts if m_of[target] else 1
        goal = rank(low[1]) + share * (rank(high[1]) - rank(low[1]))
        weights = {}
        for i in range(low[1] // size, high[1] // size + 1):
            x, y = max(i * size, low[1]), min((i + 1) * size, high[1])
            if x < y or (low[1] == high[1] and i == low[1] // size):
                error = max(0, rank(x) - goal, goal - rank(y))
                rate = faster * EPSILON / (2 * levels * max(share, 1 - share))
                exponent = error * rate / UNIT
                assert exponent.denominator == 1
                weights[i * size] = Q**exponent.numerator
        found = []
        for x, p in normalized(weights).items():
            left = answers(low, (target, x), wanted[:middle])
            right = answers((target, x), high, wanted[middle + 1 :])
            found += [((*a, x, *b), p * p_a * p_b) for (a, p_a), (b, p_b) in product(left, right)]
        return found

    def is_last(wanted):
        """Which quantiles have none on either side when they are drawn."""
        if not wanted:
            return {}
        middle = (len(wanted) - 1) // 2 if len(wanted) % 2 else len(wanted) // 2 - 1
        rest = is_last(wanted[:middle]) | is_last(wanted[middle + 1 :])
        return {wanted[middle]: len(wanted) == 1, **rest}

    m_of = is_last(sorted(quantiles))
    distribution = defaultdict(Fraction)
    end = (n_steps + 1) * parts
    for points, p in answers((Fraction(0), 0), (Fraction(1), end), sorted(quantiles)):
        distribution[tuple(x // parts for x in points)] += p
    return dict(distribution)


def multisets(n_steps, most):
    return data_sets(range(n_steps + 1), most)


def one_vote_more(sets, n_steps):
    for votes, more in one_more(sets, range(n_steps + 1)):
        yield votes, tuple(sorted(more))


def same_as_defined(quantiles, n_steps, most, width, *fits):
    return Domain(
        lambda votes: shipped(votes, quantiles, n_steps, width, *fits),
        inputs=lambda: multisets(n_steps, most),
        defined=lambda votes: defined(votes, quantiles, n_steps),
    )


def privacy_of_votes(quantiles, n_steps, sets):
    return Domain(
        lambda votes: shipped(votes, quantiles, n_steps),
        lambda: one_vote_more(sets(), n_steps),
        within(LOSS),
    )


def private_by_definition(quantiles, n_steps, sets, factor=LOSS):
    return Domain(
        lambda votes: defined(votes, quantiles, n_steps),
        lambda: one_vote_more(sets(), n_steps),
        within(factor),
    )


# Equal votes, far apart votes: where a person moves the answers most.
MANY = [(0,) * 8, (0,) * 5 + (1,) * 4 + (2,) * 4, (0,) * 4 + (2,) * 4, (1,) * 9]
# Most answers lie in a gap beside the quantile, and one more vote at 40 (at 0) moves them away.
FAR = (0,) * 2 + (30,) * 3
FAR_QUARTER = (10,) * 2 + (40,) * 5
FAR_BOTH = (0, 6, 6, 8, 8, 14), (0, 6, 6, 7, 8, 8, 14)
QUARTER = (Fraction(1, 4),)


def domains():
    for name, quantiles in [("median", MEDIAN), ("third", THIRD), ("thirds", BOTH)]:
        for width in (1, 5):
            yield (
                f"{name}, blocks of {width}",
                same_as_defined(quantiles, 3 if quantiles != BOTH else 1, 3, width),
            )
        n_steps = 2 if quantiles != BOTH else 1
        yield (
            f"{name}, all neighbours",
            privacy_of_votes(quantiles, n_steps, partial(multisets, n_steps, 3)),
        )
    yield "third, in objects", same_as_defined(THIRD, 2, 3, 2, -1)
    yield "quartiles, in objects", same_as_defined(QUARTILES, 1, 2, 2, -1)
    yield "quartiles", same_as_defined(QUARTILES, 1, 3, 4)
    yield "slow: quartiles of four steps", same_as_defined(QUARTILES, 3, 3, 4)
    yield "quartiles, all neighbours", privacy_of_votes(QUARTILES, 1, partial(multisets, 1, 4))
    yield "quartiles, equal votes", privacy_of_votes(QUARTILES, 2, lambda: MANY)
    yield "the definition", private_by_definition(QUARTILES, 2, lambda: MANY)


def whole_steps(patch):
    """Wrong: the votes of a step are not divided, and count on both sides of it."""
    right = recursive.Stretch

    def stretch(ranks, low, high, size, share):
        return right(ranks, low // PARTS * PARTS, -(-high // PARTS) * PARTS, size, share)

    patch.setattr(recursive, "Stretch", stretch)


def grid_of_the_data(votes):
    """Wrong: the answer is a value that someone has."""
    whole = defined(votes, MEDIAN, 2)
    return normalized({o: p for o, p in whole.items() if o[0] in votes} or {(0,): Fraction(1)})


def without_discarding(patch):
    right = split.Outcomes.attempt

    def attempt(outcomes, groups, draws):
        outcome, is_kept = right(outcomes, groups, draws)
        return outcome, is_kept | True

    patch.setattr(split.Outcomes, "attempt", attempt)


def errors_on_one_side(patch):
    def error(s, groups, i):
        return np.maximum(3 * s.ranks.at(groups, i * s.size) - s._wanted[groups], 0)

    patch.setattr(split.Stretch, "error", error)


def equal_votes_once(patch):
    right = split.Ranks._of_step

    def of_step(ranks, *given):
        before, here = right(ranks, *given)
        return before, np.minimum(here, 1)

    patch.setattr(split.Ranks, "_of_step", of_step)


_FEW = tuple(np.repeat([0, 2, 3, 5, 6], [6, 5, 4, 2, 3]).tolist())


def quantiles_fit(tenths, _):
    """The mechanism as it is drawn, at the probabilities of a median."""
    error = [
        max(sum(v < x for v in _FEW) - 10, 10 - sum(v <= x for v in _FEW), 0) for x in range(7)
    ]
    expected = normalized({x: math.exp(-0.5 * e) for x, e in enumerate(error)})
    votes = np.array(_FEW)
    run = partial(recursive.RECURSIVE.run, votes, MEDIAN, 6, Fraction(tenths, 20))
    return draws_fit(lambda: run()[0], 6_000, expected)


SMALL = partial(multisets, 2, 3)
TIES = privacy_of_votes(QUARTILES, 2, lambda: MANY)
AS_DEFINED = same_as_defined(THIRD, 3, 3, 1)

RECURSIVE = Case(
    mechanism=recursive.RECURSIVE,
    domains=dict(domains()),
    mutants={
        "twice the rate": Mutant(TIES, times_two(recursive, "_rate")),
        "one level for all": Mutant(TIES, changed(recursive, "n_levels", lambda m: 1)),
        "a quartile at the rate of a median": Mutant(
            private_by_definition(QUARTER, 40, lambda: [FAR_QUARTER]),
            distribution=lambda votes: defined(votes, QUARTER, 40, Fraction(3, 2)),
        ),
        "votes of a step on both sides": Mutant(
            Domain(lambda votes: shipped(votes, QUARTILES, 14), lambda: [FAR_BOTH], within(LOSS)),
            whole_steps,
        ),
        "a grid taken from the data": Mutant(
            private_by_definition(MEDIAN, 2, SMALL), distribution=grid_of_the_data
        ),
        "excess without a price": Mutant(
            same_as_defined(MEDIAN, 3, 3, 5), without_discarding, check=check_distribution
        ),
        "errors on one side": Mutant(AS_DEFINED, errors_on_one_side, check=check_distribution),
        "equal votes counted once": Mutant(
            same_as_defined(BOTH, 1, 3, 1), equal_votes_once, check=check_distribution
        ),
    },
    loss=PrivacyLoss(EPSILON, rho=Fraction(1, 16)),
    says="with probability 95 %, at most 67 people lie between any answer and its exact quantile "
    "(one row of each person, grid of 1001 values, epsilon = 1)",
    fits=quantiles_fit,
    tight={
        "less than epsilon": private_by_definition(
            MEDIAN, 40, lambda: [FAR], LOSS * Fraction(9, 10)
        ),
        "less than epsilon, a quartile": private_by_definition(
            QUARTER, 40, lambda: [FAR_QUARTER], LOSS * Fraction(9, 10)
        ),
    },
)

CASES = [RECURSIVE]

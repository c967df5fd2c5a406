"""Rows clipped at a bound, and people: distributions, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import chain, combinations_with_replacement

from dp_sql.udfs.contributions import clipping, laplace
from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs.cases_bounded import given_the_bound, release_distribution
from tests.udfs.cases_difference import check_differences
from tests.udfs.conformance import Case, Domain, Mutant, changed, times_two, within
from tests.udfs.distributions import NotPrivateError, distribution_of, fits, samples

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
HALF = Fraction(1, 2)
MOST = 6
BOUNDS = [1, 2, 4, MOST]


def histogram_of(contributions, most=MOST):
    """People and sums by buckets, 1, 2, 3 to 4, 5 to 8, of contributions up to `most`."""
    people, sums = [0] * 5, [0] * 5
    for contribution in contributions:
        kept = min(contribution, most)
        bucket = next(j for j in range(5) if kept <= 2**j)
        people[bucket] += 1
        sums[bucket] += kept
    return people, sums


def data_sets(n_people, most=9):
    return combinations_with_replacement(range(1, most + 1), n_people)


def neighbours(n_people, most=9):
    for data in chain.from_iterable(data_sets(n, most) for n in range(n_people)):
        for contribution in range(1, most + 1):
            yield data, tuple(sorted((*data, contribution)))


def shipped_sums(data, bounds=BOUNDS, most=MOST):
    return tuple(clipping.clipped_sums(*histogram_of(data, most), bounds))


def at_every_bound(data):
    """F at 1, 2, 3, …, 6: each as the largest bound, or a power of 2 below it."""
    return tuple(shipped_sums(data, [at], max(at, MOST if at in BOUNDS else at))[0]
                 for at in range(1, MOST + 1))  # fmt: skip


def check_moves(distribution, pairs):
    """Raise unless one person more moves F(l) by 0 to l, and differences as difference.md says."""
    pairs = list(pairs)
    for smaller, data in pairs:
        moves = [a - b for a, b in zip(distribution(data), distribution(smaller), strict=True)]
        if not all(0 <= move <= at for at, move in enumerate(moves, start=1)):
            raise NotPrivateError(f"{data} against {smaller}: {moves}")
    check_differences(distribution, pairs)


SUMS = Domain(
    at_every_bound,
    lambda: neighbours(3),
    check_moves,
    inputs=lambda: chain.from_iterable(data_sets(n) for n in range(4)),
    defined=lambda data: tuple(
        sum(min(at, one) for one in data) for at in range(1, MOST + 1)
    ),
)  # fmt: skip
INSIDE = Domain(  # a bound inside a bucket of contributions that were not clipped at it
    lambda data: (0, 0, shipped_sums(data, [3], 9)[0]), SUMS.pairs, check_moves
)


def released(after, factor):
    def pairs():
        found = neighbours(3, 3)
        return {tuple(shipped_sums(one, [1, 2], 2) for one in pair) for pair in found}

    def distribution(cover):
        found = after(release_distribution(cover, "difference"))
        return {release: p for release, p in found.items() if abs(release.estimate) <= 6}

    return Domain(distribution, pairs, within(factor))


RELEASE = released(lambda distribution: distribution, 16)
GIVEN = released(given_the_bound, 4 * Fraction(11, 10))


def fits_noise(run, expected, tenths, _):
    """Noise on a number that is the same in every run, at exp(-epsilon/4)."""
    q = math.exp(-1 / 4)
    drawn = Counter(run(Fraction(tenths, 10)) - expected for _ in samples(6_000))
    return fits(drawn, {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)})


CLIPPING = Case(
    mechanism=clipping.CLIPPING,
    domains={
        "contributions clipped": SUMS, "a release": RELEASE, "a release given its bound": GIVEN,
    },
    mutants={
        "a bound inside a bucket": Mutant(SUMS, distribution=INSIDE.distribution),
        "people above the bound count with their rows": Mutant(
            SUMS,
            distribution=lambda data: tuple(sum(histogram_of(data)[1]) for _ in range(MOST)),
        ),
        "noise for the whole of epsilon": Mutant(GIVEN, times_two(bounded, "_noise_rate")),
        "noise that forgets the bound": Mutant(
            GIVEN, changed(bounded, "_noise_rate", lambda share, at: 2 * share)
        ),
    },
    loss=PrivacyLoss(EPSILON, rho=Fraction(5, 32), bounded_range=Fraction(3, 2)),
    says="with probability 95 %, the estimate exceeds the true number of rows by at most 5.106 "
    "times the contribution bound, which is chosen from 1, 2, 4, ... up to 100 (bound selection "
    "difference, epsilon = 1)",
    fits=partial(
        fits_noise,
        lambda part: clipping.run([0, 2], [0, 4], part * HALF, BETA, 5, 2).estimate,
        4,
    ),
)  # fmt: skip


def people_distribution(people):
    found, unfinished = distribution_of(
        lambda draws: laplace.release(people, EPSILON, BETA, draws), {EPSILON: HALF}, limit=14
    )
    assert unfinished < Fraction(1, 100)
    return {release: p for release, p in found.items() if abs(release.estimate) <= 6}


PEOPLE = Domain(
    people_distribution, lambda: ((n, n + 1) for n in range(4)), within(2),
    inputs=lambda: range(3),
    defined=lambda n: {
        bounded.CountRelease(x, x - 2, 1): HALF ** abs(x - n) * Fraction(1, 3)
        for x in range(-6, 7)
    },
)  # fmt: skip

LAPLACE = Case(
    mechanism=laplace.LAPLACE,
    domains={"people": PEOPLE},
    mutants={
        "noise for twice epsilon": Mutant(
            Domain(PEOPLE.distribution, PEOPLE.pairs, within(2)),
            distribution=lambda n: {x: HALF ** (2 * abs(x - n)) for x in range(-6, 7)},
        ),
    },
    loss=PrivacyLoss(EPSILON),
    says="with probability 95 %, the estimate is within 3 of the number of people (epsilon = 1)",
    fits=partial(fits_noise, lambda part: laplace.run(7, part * Fraction(1, 4), BETA).estimate, 7),
    tight={
        "the noise uses all of epsilon": Domain(
            PEOPLE.distribution, PEOPLE.pairs, within(Fraction(19, 10))
        )
    },
)

CASES = [CLIPPING, LAPLACE]

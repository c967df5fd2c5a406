"""The mean under two bounds: small data, all neighbours, mutants. A person is a list of values."""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import chain, product

import pytest

from dp_sql.udfs.contributions import bound, bounded_mean, histogram, pair_noise, release
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from tests.udfs.cases_bound import BETA, EPSILON, HALF
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
from tests.udfs.distributions import data_sets, distribution_of, draws_fit, normalized, one_more

ENDS = (0, 3)
# By the range of values; with the parts of epsilon that make its draws powers of 1/2.
PEOPLE = {
    None: ((1,), (-2,), (3, 2), (2, -3), (1, 1, 3)),
    ENDS: ((0,), (3,), (1, 2), (3, 3), (0, 0, 1)),
}
PARTS = {None: (1, 1, 2), ENDS: (1, 2, 4)}


def bucket(n):
    return (n - 1).bit_length()


def scaled(values, most, unit=1):
    """A person's sum if they have `most` rows at most, in 1/unit, rounded towards 0."""
    exact = Fraction(sum(values) * unit * min(most, len(values)), len(values))
    return math.trunc(exact)


def from_middle(data, ends):
    """The values of a range, in halves from its middle; without a range as they are."""
    return [one if ends is None else [2 * x - sum(ends) for x in one] for one in data]


def tables(data, n_places=3, unit=1):
    """What SQL hands over: the columns of the rows, and the entries, one for each person and place."""
    rows = [[bucket(len(one)) for one in data], [1] * len(data), [len(one) for one in data]]
    entries = []
    for one in data:
        for place in range(min(n_places, bucket(len(one)) + 1)):
            total = scaled(one, 2**place, unit)
            whole = int(place == bucket(len(one)))
            if total:
                entries.append((place, whole, bucket(abs(total)), 1, abs(total), int(total < 0)))
    return [*rows, entries]


def neighbours(n_people, ends):
    return one_more(data_sets(PEOPLE[ends], n_people - 1), PEOPLE[ends])


# Sum and count with their noise, before the quotient. exp(-epsilon/(twice the parts)) is 1/2, two
# candidates a bound.

NEAR = [*product((-1, 0, 1), repeat=2)]
"""The sums and counts that are compared."""


def pair_probability(q, point):
    return (1 - q) ** 2 / (1 + 6 * q + q**2) * q ** max(map(abs, point))


def noisy(data, ends):
    """The distribution of (bound on rows, that on sums, noisy sum, noisy count).

    The noise, drawn step by step, has a domain of its own; here it is put on at the rate asked for.
    """
    rates, q_of = {}, PowersOf(HALF, EPSILON / (2 * sum(PARTS[ends])))

    def no_noise(of, draws):
        (rates["last"],) = of
        return [(0, 0)]

    def run(draws):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bounded_mean, "secret_draws", lambda: draws)
            total, count, _, most, limit, *_ = bounded_mean.run(
                *tables(from_middle(data, ends)), EPSILON, BETA, 2, None, 1, ends
            )
        return most, limit, total, count, rates["last"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_mean, "_PARTS", PARTS[ends])
        patch.setattr(bounded_mean, "_N_SUM_BOUNDS", 2)
        patch.setattr(bounded_mean, "FRACTION_BITS", 0)
        patch.setattr(bounded_mean, "_quotient", lambda *given: given)
        patch.setattr(bounded_mean, "pair_noise", no_noise)
        patch.setattr(bound, "_SUPPORT", Fraction(1, 7))
        exact, unfinished = distribution_of(run, q_of)
    assert unfinished == 0
    return {
        (most, limit, x, y): p * pair_probability(q_of[rate], (x - total, y - count))
        for (most, limit, total, count, rate), p in exact.items()
        for x, y in NEAR
    }


def choice(sizes):
    """Which of the bounds 1 and 2, with a support of one person, by bound.md."""
    above = sum(n > 1 for n in sizes)
    return normalized({0: HALF ** max(0, above - 1), 1: HALF ** max(0, 1 - above)})


def defined_noisy(data, ends):
    """The same, written down from bounded_mean.md."""
    distribution = {}
    for i, p_rows in choice([len(one) for one in data]).items():
        sums = [scaled(one, 2**i) for one in from_middle(data, ends)]
        n_rows = sum(min(2**i, len(one)) for one in data)
        limits = {2**i * 3: 1} if ends else {2**j: p for j, p in choice([*map(abs, sums)]).items()}
        for limit, p_sums in limits.items():
            clipped = sum(max(-limit, min(limit, v)) for v in sums)
            for total, count in NEAR:
                off = total - clipped * 2**i, count - n_rows * limit
                rate = Fraction(12 if ends else 4, limit << i)
                p = p_rows * p_sums * pair_probability(HALF ** int(rate), off)
                distribution[2**i, limit, total, count] = p
    return distribution


def whole(ends, remember=True):
    distribution = partial(noisy, ends=ends)
    return Domain(
        cache(distribution) if remember else distribution,
        lambda: neighbours(2, ends),
        within(HALF ** (-2 * sum(PARTS[ends]))),
        inputs=lambda: dict.fromkeys(chain.from_iterable(neighbours(2, ends))),
        defined=partial(defined_noisy, ends=ends),
    )


# The largest entry of the noise: what short geometric numbers lead to.

MOST = 5
RIGHT_PAIR = pair_noise.pair_noise


def short_geometrics(draws, rate, n):
    """Geometric numbers up to MOST, or far too large."""
    odds = Odds([*(((1, g), (-1, g + 1)) for g in range(MOST + 1)), ((1, MOST + 1),)], rate)
    return [[*range(MOST + 1), 10**6][draws.choose(odds)] for _ in range(n)]


def radius(rate):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_noise, "geometrics", short_geometrics)
        distribution, unfinished = distribution_of(
            lambda draws: pair_noise._radii(Fraction(rate), 1, draws)[0], {rate: HALF**rate}
        )
    assert unfinished == 0
    return {r: distribution[r] for r in range(MOST + 1)}


def defined_radius(rate):
    q = HALF**rate
    return {r: (2 * r + 1) ** 2 * q**r * (1 - q) ** 3 / (1 + 6 * q + q**2) for r in range(MOST + 1)}


RADIUS = Domain(radius, inputs=lambda: [1, 2], defined=defined_radius)


def pair_within(r):
    """Both entries of the noise, where neither is larger than r."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_noise, "_radii", lambda rate, n, draws: [r] * n)
        distribution, _ = distribution_of(
            lambda draws: pair_noise.pair_noise([Fraction(1)], draws)[0], {}
        )
    return distribution


def defined_pair(r):
    return dict.fromkeys(product(range(-r, r + 1), repeat=2), Fraction(1, (2 * r + 1) ** 2))


PAIR = Domain(pair_within, inputs=lambda: [0, 1, 2], defined=defined_pair)


def equal_entries(rates, draws):
    return [(x, x) for x, _ in RIGHT_PAIR(rates, draws)]


def crowd_fits(tenths, patch):
    """Means of 40 people with a row of 1 each, under the bound 1 on both, at `tenths` of the rate."""
    right = bounded_mean._rate
    patch.setattr(bounded_mean, "_rate", lambda *given: right(*given) * Fraction(tenths, 10))
    patch.setattr(bounded_mean, "_N_SUM_BOUNDS", 1)
    patch.setattr(bounded_mean, "FRACTION_BITS", 0)
    data = tables([(1,)] * 40)
    q = math.exp(-13 / 19)
    expected = Counter()
    for x, y in product(range(-45, 46), repeat=2):
        mean = Fraction(40 + x, 40 + y) if 40 + y >= 1 else None
        expected[mean] += pair_probability(q, (x, y))
    run = partial(bounded_mean.run, *data, EPSILON, BETA, 100, 1, 1, None)
    return draws_fit(lambda: run().estimate, 6_000, expected)


AFRESH, AFRESH_IN_RANGE = (whole(ends, remember=False) for ends in PEOPLE)


def smaller_step(shares, most, limit):
    return release.noise_rate(shares[2], most)


def one_row_each(shares, most, limit):
    return release.noise_rate(shares[2], limit)


def only_whole(places, entries, right=bounded_mean._sums_at):
    return right(places + 9, entries)


def no_shift(rate, n, draws):
    parts = [pair_noise.geometrics(draws, rate, n) for _ in range(3)]
    return [*map(sum, zip(*parts, strict=True))]


CASES = [
    Case(
        mechanism=bounded_mean.BOUNDED_MEAN,
        domains={
            "sum and count": whole(None),
            "sum and count, in a range": whole(ENDS),
            "the largest entry of the noise": RADIUS,
            "both entries of the noise": PAIR,
        },
        mutants={
            "noise that forgets the bound on sums": Mutant(
                AFRESH, changed(bounded_mean, "_rate", smaller_step)
            ),
            "noise at twice its rate": Mutant(
                AFRESH, times_two(bounded_mean, "_rate"), check=check_distribution
            ),
            "sums of all rows over a count of some": Mutant(
                AFRESH, changed(bounded_mean, "_sums_at", only_whole), check=check_distribution
            ),
            "noise for the range of one row": Mutant(
                AFRESH_IN_RANGE, changed(bounded_mean, "_rate", one_row_each)
            ),
            "sums that are not clipped": Mutant(
                AFRESH, changed(histogram.Histograms, "clipped", lambda these, _: these.totals())
            ),
            "noise without its shift": Mutant(
                RADIUS, changed(pair_noise, "_radii", no_shift), check=check_distribution
            ),
            "noise that is the same on both": Mutant(
                PAIR, changed(pair_noise, "pair_noise", equal_entries), check=check_distribution
            ),
        },
        loss=PrivacyLoss(
            EPSILON, rho=Fraction(1 + 36 + 4 * 169, 3200), bounded_range=Fraction(39, 20)
        ),
        says="with probability 95 %, the noise in the sum and in the row count is at most 7.299 "
        "times what one person may add to each; a person with more rows than the contribution "
        "bound counts as that many rows; with fewer than 150 people the estimate may be far too "
        "close to 0 unless you state lower and upper (epsilon = 1)",
        fits=crowd_fits,
    )
]

"""Distinct counts from below, r2t and shifted_inverse: distributions, neighbours and mutants."""

import math
from collections import defaultdict
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import r2t, shifted_inverse
from dp_sql.udfs.discrete_laplace import laplace_quantile
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs.cases_bounded import SUBSETS as ITEMS
from tests.udfs.cases_bounded import covered, data_sets
from tests.udfs.conformance import Case, Domain, Mutant, changed, times_two, within
from tests.udfs.distributions import distribution_of, draws_fit, normalized

BETA = Fraction(1, 20)


def cover_of(people):
    return tuple(covered(people, bound) for bound in (1, 2, 3))


def of_three_people():
    return {(cover_of(data), cover_of((*data, one))) for data in data_sets(2) for one in ITEMS}


# r2t.

UNIT = Fraction(7, 10)
Q = Fraction(1, 2)
"""Stands for exp(-UNIT) in exact distributions, and EPSILON for 12 such units: 3 per item at the first of
the two bounds 2 and 3, and 2 per item at the other."""
EPSILON = 12 * UNIT
LOSS = Q**-12
FAR = "more than anybody asks for"


def race_neighbours():
    """Two and three people over three items; and up to ten who have three items each, all their own."""
    yield from of_three_people()
    for n in range(10):
        yield (n, 2 * n, 3 * n), (n + 1, 2 * n + 2, 3 * n + 3)


def at_least(q, x):
    """P(X >= x) of the noise."""
    return q**x / (1 + q) if x >= 0 else 1 - q ** (1 - x) / (1 + q)


def exactly(q, x):
    return (1 - q) / (1 + q) * q ** abs(x)


class Preset:
    """Noise that was decided before, at the rates that were asked for."""

    def __init__(self, noise):
        self.noise, self.rates = list(noise), []

    def draw(self, rate):
        self.rates.append(rate)
        return self.noise[len(self.rates) - 1]


def draw_all(rates, draws):
    return [draws.draw(rate) for rate in rates]


def with_preset_noise(distribution):
    """Let noise be decided before it is drawn."""

    def run(*given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(r2t, "discrete_laplaces", draw_all)
            return distribution(*given)

    return run


def one_race(cover, epsilon, beta, draws):
    """What r2t releases of one graph, from what is counted under 1, 2, 3, ...."""
    counts = [cover[bound - 1] for bound in r2t.bounds(len(cover))]
    (release,) = r2t.release_each([counts], epsilon, beta, len(cover), draws)
    return release


def rates_and_penalties(cover):
    """What the shipped code asks for on these data."""
    draws = Preset([0] * len(cover))
    one_race(cover, EPSILON, BETA, draws)
    n = len(draws.rates)
    return draws.rates, [r2t._penalty(rate, BETA, n) for rate in draws.rates]


@with_preset_noise
def race_distribution(cover, most=6):
    """The exact distribution of (estimate, bound), all that exceeds `most` being one outcome.

    Noise so low that 0 wins, and so high that `most` is exceeded, is put in one point each.
    """
    rates, penalties = rates_and_penalties(cover)
    noises = []
    for bound, rate, penalty in zip(r2t.bounds(len(cover)), rates, penalties, strict=True):
        units = rate / UNIT
        assert units.denominator == 1
        low = penalty - cover[bound - 1]
        high, q = low + most + 1, Q ** int(units)
        points = {x: exactly(q, x) for x in range(low + 1, high)}
        noises.append({low: 1 - at_least(q, low + 1), **points, high: at_least(q, high)})
    distribution = defaultdict(Fraction)
    for drawn in product(*(noise.items() for noise in noises)):
        release = one_race(cover, EPSILON, BETA, Preset([x for x, _ in drawn]))
        outcome = (release.estimate, release.contribution_bound)
        distribution[outcome if release.estimate <= most else FAR] += math.prod(p for _, p in drawn)
    assert sum(distribution.values()) == 1
    return dict(distribution)


def race_definition(cover, most=6):
    """The definition for the bounds 2 and 3, from the distribution of one noisy number each."""

    def worth(i, at):
        q = (Q**3, Q**2)[i]
        return q, at - cover[i + 1] + laplace_quantile(UNIT * (3, 2)[i], BETA / 2) - 1

    def is_worth(i, at):
        return exactly(*worth(i, at))

    def is_below(i, at):
        return 1 - at_least(*worth(i, at))

    distribution = {(0, None): is_below(0, 1) * is_below(1, 1)}
    for value in range(1, most + 1):
        distribution[value, 2] = is_worth(0, value) * is_below(1, value + 1)
        distribution[value, 3] = is_worth(1, value) * is_below(0, value)
    return {**distribution, FAR: 1 - sum(distribution.values())}


def race(factor=LOSS):
    covers = {cover_of(data) for data in data_sets(2)} | {(0, 9, 9), (3, 6, 9), (5, 5, 5)}
    return Domain(
        race_distribution, race_neighbours, within(factor), lambda: covers, race_definition
    )


def a_penalty_from_data(cover):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(r2t, "_penalty", lambda rate, beta, n: 3 * cover[-1])
        return race_distribution(cover)


def bounds_from_data(cover):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(r2t, "bounds", lambda m: [2, 3] if cover[2] > cover[1] else [2])
        return race_distribution(cover)


def cut_to_the_truth(cover):
    cut = defaultdict(Fraction)
    for outcome, p in race_distribution(cover).items():
        cut[cover[-1] if outcome is FAR else min(outcome[0], cover[-1])] += p
    return dict(cut)


def race_fits(tenths, _):
    count, epsilon, q = 10**6, Fraction(tenths, 20), math.exp(-Fraction(1, 4))
    penalty, draws = r2t._penalty(epsilon / 2, BETA, 1), secret_draws()
    run = partial(one_race, [0, count], epsilon, BETA, draws)
    distribution = {x: exactly(q, x) for x in range(-200, 201)}
    return draws_fit(lambda: run().estimate - count + penalty, 6_000, distribution)


R2T = Case(
    mechanism=r2t.R2T,
    domains={"a race of two bounds": race()},
    mutants={
        "noise for the whole of epsilon": Mutant(
            race(), changed(r2t, "_noise_rate", lambda epsilon, bound, n: epsilon / bound)
        ),
        "noise that forgets the bound": Mutant(
            race(), changed(r2t, "_noise_rate", lambda epsilon, bound, n: epsilon / n)
        ),
        "a penalty that depends on data": Mutant(race(), distribution=a_penalty_from_data),
        "bounds that depend on data": Mutant(race(), distribution=bounds_from_data),
        "an estimate cut to the truth": Mutant(race(), distribution=cut_to_the_truth),
    },
    loss=PrivacyLoss(Fraction(1), rho=Fraction(1, 14)),
    says="with probability 95 %, the estimate is at most the true number of distinct "
    "items; with the same probability it is at most 118 below it if no one has over 2 "
    "items, rising to 5948 if no one has over 100 (epsilon = 1)",
    fits=race_fits,
    tight={"a sixth less": race(LOSS * Q**2)},
)


# The shifted inverse.

INVERSE_EPSILON = Fraction(4)
RATE = INVERSE_EPSILON / 4
INVERSE_Q = Fraction(1, 2)
"""Stands for exp(-RATE) in exact distributions."""
INVERSE_LOSS = INVERSE_Q**-4

SCALE = (0, 1, 2, 3, 4, 6, 8, 12, 16)
PRIOR = (4, 4, 4, 4, 2, 2, 1, 1)
"""Few values, the limit, and what they weigh before any data, so that exact distributions are small."""
AIMS = [(1, 9), (2, 9), (2, 3), (3, 4)]
"""People wanted out, and the cut."""


def concave_covers():
    """Everything that F(1), F(2), F(3) can be while F(1) <= 4."""
    for gains in product(range(5), repeat=3):
        if list(gains) == sorted(gains, reverse=True):
            yield tuple(int(n) for n in np.cumsum(gains))


def inverse_neighbours():
    """Two and three people over three items; and all that the properties of F allow for."""
    yield from of_three_people()
    for one, other in product(concave_covers(), repeat=2):
        if all(0 <= b - a <= bound for a, b, bound in zip(one, other, (1, 2, 3), strict=True)):
            yield one, other


def left(cover, gone):
    """The least number of items that may be left when so many people go."""
    return max(0, *(n - gone * bound for bound, n in enumerate(cover, 1)))


def gone_until_below(cover, value):
    return next(j for j in range(10**6) if left(cover, j) < value) if value else math.inf


def defined_costs(cover, wanted, cut):
    until = [gone_until_below(cover, value) for value in SCALE]
    return [
        max(0, min(until[r + 1], cut) - wanted) + 3 * max(0, wanted - until[r])
        for r in range(len(SCALE) - 1)
    ]


def inverse_definition(cover, wanted, cut):
    costs = defined_costs(cover, wanted, cut)
    weights = (n * INVERSE_Q**cost for n, cost in zip(PRIOR, costs, strict=True))
    return normalized(dict(zip(SCALE[:-1], weights, strict=True)))


def inverse_distribution(cover, wanted, cut, scale=SCALE):
    values = np.array(scale)
    removals = shifted_inverse._removals(np.array(cover), values)
    costs = shifted_inverse._costs(removals, wanted, cut)
    prior, rate = shifted_inverse._prior(values), shifted_inverse._rate(INVERSE_EPSILON)
    distribution, unfinished = distribution_of(
        lambda draws: int(values[shifted_inverse._pick(costs, prior, rate, draws)]),
        {RATE * i: INVERSE_Q**i for i in (1, 2, 4)},
    )
    assert unfinished == 0
    return distribution


def inverse(wanted, cut, distribution=inverse_distribution):
    return Domain(
        lambda cover: distribution(cover, wanted, cut),
        inverse_neighbours,
        within(INVERSE_LOSS),
        concave_covers,
        lambda cover: inverse_definition(cover, wanted, cut),
    )


def one_item_each(cover, values):
    return np.maximum(cover[-1] - values + 1, 0)


def steeper(patch):
    patch.setattr(shifted_inverse, "_ABOVE", 7)
    patch.setattr(shifted_inverse, "_rate", lambda epsilon: RATE)


def up_to_the_count(cover, wanted, cut):
    return inverse_distribution(cover, wanted, cut, (*range(cover[-1] + 1), 16))


def wanted_by_the_data(cover, wanted, cut):
    return inverse_distribution(cover, cover[-1], cut)


def all_aims(distribution):
    """One distribution for all aims: a mutant is found out by one of them."""
    return lambda cover: {
        (aim, value): p for aim in AIMS for value, p in distribution(cover, *aim).items()
    }


ALL_AIMS = Domain(all_aims(inverse_distribution), inverse_neighbours, within(INVERSE_LOSS))


def inverse_fits(tenths, _):
    values = np.array([*range(1000), *range(1000, 1100, 2)])
    removals = shifted_inverse._removals(np.array([368, 643, 855, 1014]), values)
    costs, prior = shifted_inverse._costs(removals, 19, 90), shifted_inverse._prior(values)
    distribution = defaultdict(float)
    for cost, n in zip(costs.tolist(), prior.tolist(), strict=True):
        distribution[cost] += n * math.exp(-cost / 4)
    total, draws = sum(distribution.values()), secret_draws()
    rate = shifted_inverse._rate(Fraction(tenths, 10))
    return draws_fit(
        lambda: int(costs[shifted_inverse._pick(costs, prior, rate, draws)]),
        5_000,
        {cost: weight / total for cost, weight in distribution.items()},
    )


def four_times(epsilon):
    return epsilon


SHIFTED_INVERSE = Case(
    mechanism=shifted_inverse.SHIFTED_INVERSE,
    domains={f"{wanted} wanted, cut {cut}": inverse(wanted, cut) for wanted, cut in AIMS},
    mutants={
        "twice the rate": Mutant(ALL_AIMS, times_two(shifted_inverse, "_rate")),
        "four times the rate": Mutant(ALL_AIMS, changed(shifted_inverse, "_rate", four_times)),
        "removals that forget the bound": Mutant(
            ALL_AIMS, changed(shifted_inverse, "_removals", one_item_each)
        ),
        "removals at half the bound": Mutant(ALL_AIMS, times_two(shifted_inverse, "_removals")),
        "a steeper side that is not paid for": Mutant(ALL_AIMS, steeper),
        "a scale that ends at the count": Mutant(ALL_AIMS, distribution=all_aims(up_to_the_count)),
        "people wanted out in proportion to data": Mutant(
            ALL_AIMS, distribution=all_aims(wanted_by_the_data)
        ),
    },
    loss=PrivacyLoss(Fraction(1), rho=Fraction(1, 8), bounded_range=Fraction(1)),
    says="with probability 95 %, the estimate is at most the true number of distinct "
    "items; with the same probability it is at most 115 l and one part in 2048 below it "
    "if no one has over l items, for each l up to 100 (epsilon = 1)",
    fits=inverse_fits,
    tight={
        "a quarter less": Domain(ALL_AIMS.distribution, inverse_neighbours, within(INVERSE_Q**-3)),
    },
)

CASES = [R2T, SHIFTED_INVERSE]

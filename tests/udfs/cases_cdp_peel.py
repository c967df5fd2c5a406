"""Peeling by concentrated privacy: distributions, neighbours and mutants."""

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, product
from unittest.mock import patch

import numpy as np

from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import peeling, template
from tests.udfs.cases_peeling import (
    EPSILON,
    Q_OF_RATE,
    defined_distribution,
    distribution_at,
    lists_fit,
    peeled,
    small_cases,
    take_by_permute_and_flip,
    take_by_weight,
)
from tests.udfs.conformance import Case, Domain, Mutant, check_distribution, slow_if
from tests.udfs.distributions import NotPrivateError, added_people

# Peeling by concentrated privacy.

BITS = 200


@dataclass(frozen=True)
class Setting:
    """Public numbers for which exp(-rate) is a rational q, up to the rounding of the rate."""

    k: int
    delta: Fraction
    q: Fraction

    @property
    def range(self):
        """At most ln(1/q), the range of one round."""
        return ln_enclosure(1 / self.q, BITS)[0]

    @property
    def epsilon(self):
        """At most what k rounds of this range cost: k range, or rho + 2 sqrt(rho ln(1/delta))."""
        rho, log = self.k * self.range**2 / 8, ln_enclosure(1 / self.delta, BITS)[0]
        root = Fraction(math.isqrt(math.floor(rho * log * 4**BITS)), 2**BITS)
        epsilon = min(self.k * self.range, rho + 2 * root)
        return Fraction(math.floor(epsilon * 2**64), 2**64)

    @property
    def rate(self):
        return peeling.cdp_rate(self.k, self.epsilon, self.delta)


PURE = [Setting(1, Fraction(1, 1000), Fraction(1, 4)), Setting(2, Fraction(1, 50), Fraction(1, 9))]
CONCENTRATED = [
    Setting(1, Fraction(1, 2), Fraction(1, 20)),
    Setting(2, Fraction(1, 10), Fraction(1, 5)),
    Setting(3, Fraction(3, 100), Fraction(1, 5)),
    Setting(4, Fraction(1, 100), Fraction(1, 3)),
]
SETTINGS = [*PURE, *CONCENTRATED]


def cdp_distribution(counts, this, cut=None, take=take_by_weight, factor=Fraction(1), q=None):
    """The exact distribution of the shipped sampler, with q in place of exp(-rate).

    A wrong `factor` multiplies the rate; q is then what exp(-rate) becomes.
    """
    rate, counts = factor * this.rate, np.array(counts)
    cut = cut or template.cut_of(len(counts) * this.k, rate)
    with patch.dict(Q_OF_RATE, {rate: q or this.q}):
        return peeled(counts, this.k, rate, cut, take)


def people(d, largest_count):
    """Neighbours, up to the names of the items."""
    return list(added_people(combinations_with_replacement(range(largest_count + 1), d)))


def check_ranges(distribution, pairs, limit):
    """Raise where, in a round, likelihood ratios of two picks differ by more than `limit`."""
    for pair in pairs:
        left, right = (heads(distribution(counts)) for counts in pair)
        ratios = defaultdict(list)
        for picks in left:
            ratios[picks[:-1]].append(left[picks] / right[picks])
        for head, found in ratios.items():
            if max(found) > limit * min(found):
                raise NotPrivateError(f"{pair}: {head} is followed by {found}")


def heads(distribution):
    """The probability of each list, and of each of its beginnings."""
    probability = defaultdict(Fraction)
    for picks, p in distribution.items():
        for i in range(1, len(picks) + 1):
            probability[picks[:i]] += p
    return probability


def renyi(distribution, other, alpha):
    """Return exp((alpha - 1) D) for the divergence D of order alpha."""
    return sum(p**alpha / other[picks] ** (alpha - 1) for picks, p in distribution.items())


def check_concentrated(distribution, pairs, rho):
    """Raise unless the distributions of neighbours are as rho-zCDP has them at some orders."""
    for (left, right), alpha in product(pairs, (2, 3, 6)):
        limit = 1 / exp_enclosure(alpha * (alpha - 1) * rho, BITS)[1]
        p, p_other = distribution(left), distribution(right)
        if max(renyi(p, p_other, alpha), renyi(p_other, p, alpha)) > limit:
            raise NotPrivateError(f"{left} and {right} at order {alpha}")


FINE = Fraction(19, 20)
"""Its tenth power is q, so that a rate may be wrong by a tenth."""


def check_delta(distribution, pairs, epsilon, delta):
    """Raise unless the distributions of neighbours are (epsilon, delta)-close in both directions."""
    factor = 1 / exp_enclosure(epsilon, BITS)[1]
    for left, right in pairs:
        p, p_other = distribution(left), distribution(right)
        here = sum(max(p[x] - factor * p_other[x], 0) for x in p)
        there = sum(max(p_other[x] - factor * p[x], 0) for x in p)
        if max(here, there) > delta:
            raise NotPrivateError(f"{left} and {right}: {max(here, there)}")


def histograms_of_setting(this, cut):
    """The distribution of a run against the definition, for every small histogram."""

    def definition(counts):
        with patch.dict(Q_OF_RATE, {EPSILON / this.k: this.q}):
            return defined_distribution(counts, this.k, cut)

    return Domain(
        lambda counts: cdp_distribution(counts, this, cut),
        inputs=lambda: [counts for counts, k in small_cases() if k == this.k],
        defined=definition,
    )


def ranges_of(this, cut, pairs, take=take_by_weight):
    """In each round the losses lie within the range of its rate."""
    return Domain(
        lambda counts: cdp_distribution(counts, this, cut, take),
        pairs,
        partial(check_ranges, limit=1 / this.q),
    )


def rho_of(this):
    return Domain(
        cache(lambda counts: cdp_distribution(counts, this)),
        lambda: people(3, 1),
        partial(check_concentrated, rho=this.k * this.range**2 / 8),
    )


def delta_of(this):
    return Domain(
        lambda counts: cdp_distribution(counts, this),
        lambda: people(4, 1),
        partial(check_delta, epsilon=this.epsilon, delta=this.delta),
    )


def fine_rho(k, tenths=10):
    """Rates that use nearly all of rho, off by some tenths."""
    this = Setting(k, Fraction(1, 2), FINE**10)
    wrong = {"factor": Fraction(tenths, 10), "q": FINE**tenths}
    pairs = [((0,) * d, (1,) * some + (0,) * (d - some)) for d in (2, 4) for some in range(1, d)]
    return Domain(
        cache(lambda counts: cdp_distribution(counts, this, **wrong)),
        lambda: [pair for pair in pairs if len(pair[0]) > k],
        partial(check_concentrated, rho=k * this.range**2 / 8),
    )


def range_from_the_data(counts):
    return cdp_distribution(counts, CONCENTRATED[1], 6 if sum(c > 0 for c in counts) > 1 else 1)


def twice_the_rate(this):
    return lambda counts: cdp_distribution(counts, this, factor=Fraction(2), q=this.q**2)


def fit_cdp(tenths, patch):
    public = (2, Fraction(1), Fraction(1, 3))
    right = peeling.cdp_rate(*public)
    patch.setattr(peeling, "cdp_rate", lambda *public: right * Fraction(tenths, 10))
    return lists_fit(
        lambda counts: peeling.cdp_peel(counts, *public), distribution_at(right), 6_000
    )


def all_concentrated():
    for this, cut in product(CONCENTRATED, (1, 2, 9)):
        if this.k < 4:
            yield f"{this.k} items, cut {cut}", histograms_of_setting(this, cut)
    for this, cut in product(CONCENTRATED[:3], (1, 2, None)):
        yield f"the range of {this.k} rounds, cut {cut}", ranges_of(this, cut, lambda: people(3, 2))
    for this in CONCENTRATED[:3]:
        yield f"rho of {this.k} rounds", rho_of(this)
    for k in (1, 2, 3):
        yield f"nearly all of rho, {k} rounds", fine_rho(k)
    for this in SETTINGS:
        yield f"delta of {this.k} rounds, {'pure' if this in PURE else 'not'}", delta_of(this)


CDP_PEEL = Case(
    mechanism=peeling.CDP_PEEL,
    domains=dict(all_concentrated()),
    mutants={
        "permute-and-flip, by its distribution": Mutant(
            histograms_of_setting(CONCENTRATED[1], 9),
            distribution=lambda counts: cdp_distribution(
                counts, CONCENTRATED[1], 9, take_by_permute_and_flip
            ),
            check=check_distribution,
        ),
        "permute-and-flip, by its range": Mutant(
            ranges_of(CONCENTRATED[0], None, lambda: people(2, 1)),
            distribution=lambda counts: cdp_distribution(
                counts, CONCENTRATED[0], None, take_by_permute_and_flip
            ),
        ),
        "a cut taken from the data": Mutant(
            ranges_of(CONCENTRATED[1], 6, lambda: added_people([(5, 0, 0)])),
            distribution=range_from_the_data,
        ),
        **{
            f"a rate larger by a tenth, {k} rounds": Mutant(
                fine_rho(k), distribution=fine_rho(k, 11).distribution
            )
            for k in (1, 2, 3)
        },
        **{
            slow_if(
                this.k > 2, f"twice the rate, {this.k} rounds, {'pure' if this in PURE else 'not'}"
            ): Mutant(delta_of(this), distribution=twice_the_rate(this))
            for this in SETTINGS
        },
    },
    loss=PrivacyLoss(
        EPSILON,
        Fraction(1, 10**6),
        rho=10 * peeling.cdp_rate(10, EPSILON, Fraction(1, 10**6)) ** 2 / 8,
    ),
    says="with probability 95 %, each listed item has at most 103 people fewer than the item that "
    "belongs at its rank (domain of 1000 items, k = 10, epsilon = 1, delta = 0.000001)",
    fits=fit_cdp,
)

CASES = [CDP_PEEL]

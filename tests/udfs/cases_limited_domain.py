"""Top k of an unknown domain: distributions, neighbours and mutants."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import limited_domain, rounds
from dp_sql.udfs.topk.limited_domain import Constants
from dp_sql.udfs.topk.template import union_bound
from tests.udfs.conformance import Case, Domain, Mutant, changed, slow_if
from tests.udfs.distributions import (
    NotPrivateError,
    accepted,
    added_people,
    distribution_of,
    draws_fit,
)

HALVING = ln_enclosure(Fraction(2), 64)[0]
"""The rate at which q stands for 1/2."""


def q_of(rate):
    """q to 64 bits; a distribution made of it is off by far less than SLACK."""
    return Fraction(1, 2) if rate == HALVING else exp_enclosure(rate, 64)[0]


SLACK = Fraction(1, 2**40)


def exact_take(this, path):
    """`take`, its loop replaced by the distribution of the shipped attempt given that it is accepted."""
    rate = this.odds.rate
    distribution, unfinished = distribution_of(this.attempt, {rate: q_of(rate)})
    assert unfinished == 0
    ranks, probabilities = zip(*accepted(distribution).items(), strict=True)
    return ranks[path._step(list(probabilities))]


def shipped_distribution(largest, k, constants):
    """The exact distribution of the shipped sampler over positions in the largest counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limited_domain, "by_weight", exact_take)
        counts = np.array(largest, dtype=np.int64)
        distribution, unfinished = distribution_of(
            lambda path: tuple(limited_domain._topk(counts, k, constants, path)), {}
        )
    assert unfinished == 0
    return distribution


def defined_distribution(largest, k, constants, after_stop=False):
    """Peeling by its definition; a mutant goes on after stop."""
    q = q_of(constants.rate)
    kbar = constants.kbar
    scores = dict(enumerate(largest[:kbar]))
    next_count = largest[kbar] if len(largest) > kbar else 0
    scores["stop"] = next_count + 1 + constants.threshold
    top = max(scores.values())
    distribution = Counter()

    def take(picks, free, probability):
        picked = tuple(x for x in picks if x != "stop")
        stopped = "stop" in picks and not after_stop
        if len(picked) == k or stopped or not free:
            distribution[picked] += probability
            return
        weights = {x: q ** (top - scores[x]) for x in free}
        total = sum(weights.values())
        for x, weight in weights.items():
            take((*picks, x), free - {x}, probability * weight / total)

    take((), frozenset(scores), Fraction(1))
    return dict(distribution)


def small_largest(kbar, highest):
    for n in range(kbar + 2):
        yield from combinations_with_replacement(range(highest, 0, -1), n)


def by_value(histogram, item):
    return item


def as_the_data_will(histogram, item):
    """An order of ties that one person may turn round."""
    return item if sum(histogram) % 2 else -item


class Releases:
    """Exact distributions over lists of items, for histograms of a universe that is not public."""

    def __init__(self, k, constants, distribution=shipped_distribution, ties=by_value):
        self.k, self.constants, self.ties = k, constants, ties
        self.of_largest = cache(lambda largest: distribution(largest, k, constants))

    def of(self, histogram):
        present = [x for x in range(len(histogram)) if histogram[x]]
        present.sort(key=lambda x: (-histogram[x], self.ties(histogram, x)))
        present = present[: self.constants.kbar + 1]
        distribution = self.of_largest(tuple(histogram[x] for x in present))
        return {tuple(present[i] for i in picks): p for picks, p in distribution.items()}


def check(distribution, pairs, epsilon, delta):
    """Raise unless the hockey-stick divergence is at most delta, both ways, for all pairs.

    e**epsilon is rounded down, which makes the check stricter.
    """
    factor = 1 / exp_enclosure(epsilon, 64)[1]
    assert factor >= 1
    for pair in pairs:
        one, other = map(distribution, pair)
        for p, p_other in ((one, other), (other, one)):
            above = ((p[o], p_other.get(o, 0)) for o in p if p[o] > p_other.get(o, 0))
            excess = sum(max(0, mine - factor * theirs) for mine, theirs in above)
            if excess > delta - SLACK:
                raise NotPrivateError(f"{pair}: {float(excess)} instead of {float(delta)}")


DELTA = Fraction(3, 20)
"""With epsilon = 1 it lies where a threshold lower by 1 breaks it, for kbar = 1 and kbar = 2."""

EPSILON = Fraction(1)

SPENT = [
    (1, EPSILON, DELTA),
    (1, Fraction(1, 3), Fraction(1, 3)),
    (2, EPSILON, Fraction(1, 1000)),
    (2, EPSILON, DELTA),
    (2, Fraction(3), Fraction(1, 4)),
]


def every_count(kbar, k, highest, width, reach):
    """The distribution for all small counts, whatever the blocks."""

    def distribution(data):
        with pytest.MonkeyPatch.context() as patch:
            if width:
                patch.setattr(rounds, "block_width", lambda rate: width)
                patch.setattr(limited_domain, "_last_block", lambda n, rate: reach)
            largest, threshold = data
            return shipped_distribution(largest, k, Constants(kbar, HALVING, threshold))

    return Domain(
        distribution,
        inputs=lambda: product(small_largest(kbar, highest), (0, 2)),
        defined=lambda data: defined_distribution(data[0], k, Constants(kbar, HALVING, data[1])),
    )


def released(releases, histograms, epsilon, delta):
    return Domain(
        distribution=releases.of,
        pairs=lambda: added_people(histograms()),
        check=partial(check, epsilon=epsilon, delta=delta),
    )


@cache
def small(k, kbar, epsilon, delta, d, highest, ties=by_value):
    constants = limited_domain._constants(k, kbar, epsilon, delta)
    histograms = partial(product, range(highest + 1), repeat=d)
    return released(Releases(k, constants, ties=ties), histograms, epsilon, delta)


def around_the_threshold(k, epsilon, delta):
    constants = limited_domain._constants(k, 2, epsilon, delta)
    around = (1, constants.threshold + 1, constants.threshold + 2, constants.threshold + 4)
    return released(Releases(k, constants), partial(product, around, repeat=3), epsilon, delta)


def everybody_once(kbar, slack):
    """All candidates are new: nearly all of delta is needed."""
    constants = limited_domain._constants(1, kbar, EPSILON, DELTA)
    bad = kbar * q_of(constants.rate) ** constants.threshold
    histograms = [(0,) * kbar + (1,) * kbar]
    delta = bad / (1 + bad) + slack * SLACK
    return released(Releases(1, constants), lambda: histograms, EPSILON, delta)


def forty_each(rate):
    delta = Fraction(1, 1000)
    constants = limited_domain._constants(2, 4, EPSILON, delta)
    releases = Releases(2, replace(constants, rate=rate or constants.rate))
    return released(releases, lambda: [(40,) * 4], EPSILON, delta)


def with_threshold(kbar, threshold, distribution=shipped_distribution):
    right = limited_domain._constants(1, kbar, EPSILON, DELTA)
    return Releases(1, replace(right, threshold=threshold), distribution).of


def goes_on(largest, k, constants):
    return defined_distribution(largest, k, constants, after_stop=True)


def above_the_last(counts, constants):
    return (int(counts[-1]) if counts.size else 0) + 1 + constants.threshold


def all_domains():
    sizes = [(1, 1, 6), (1, 2, 6), (2, 1, 5), (2, 2, 4), (3, 2, 3)]
    for size, (width, reach) in product(sizes, [(None, None), (1, 2), (2, 1)]):
        yield f"{size}, blocks of {width} to {reach}", every_count(*size, width, reach)
    for (k, epsilon, delta), kbar in product(SPENT, (1, 2)):
        for d, highest in [(3, 3), (4, 2)]:
            name = f"{k} of {kbar}, epsilon {epsilon}, delta {delta}, {d} items up to {highest}"
            slow = d == 4 and (k, kbar) != (2, 2)
            yield slow_if(slow, name), small(k, kbar, epsilon, delta, d, highest)
    yield "slow: four items up to 3", small(2, 2, EPSILON, DELTA, 4, 3)
    for k, epsilon, delta in SPENT:
        name = f"around the threshold, {k}, epsilon {epsilon}, delta {delta}"
        yield name, around_the_threshold(k, epsilon, delta)
    for kbar in (1, 2):
        yield (
            f"ties as the data will, {kbar}",
            small(2, kbar, EPSILON, DELTA, 4, 2, as_the_data_will),
        )
        yield f"all candidates are new, {kbar}", everybody_once(kbar, 2)
    yield "four items that forty have", forty_each(None)


def all_mutants():
    def found(kbar, distribution):
        return Mutant(small(1, kbar, EPSILON, DELTA, 4, 3), distribution=distribution)

    for kbar in (1, 2):
        right = limited_domain._constants(1, kbar, EPSILON, DELTA).threshold
        yield f"no threshold, {kbar}", found(kbar, with_threshold(kbar, -1))
        yield f"a threshold of one, {kbar}", found(kbar, with_threshold(kbar, 0))
        yield f"a threshold without the one, {kbar}", found(kbar, with_threshold(kbar, right - 1))
    yield (
        "a threshold without the number of candidates",
        found(2, with_threshold(2, union_bound(1, EPSILON, DELTA))),
    )
    yield (
        "a threshold from twice delta",
        found(2, with_threshold(2, union_bound(2, EPSILON, 2 * DELTA))),
    )
    yield "going on after stop", found(1, with_threshold(1, 3, goes_on))
    yield (
        "all of epsilon for each pick",
        Mutant(forty_each(None), distribution=forty_each(EPSILON).distribution),
    )


def uncached(releases):
    """Distributions of tampered code, which no cache may know."""
    return lambda histogram: Releases(releases.k, releases.constants).of(histogram)


RIGHT = limited_domain._constants(1, 2, EPSILON, DELTA)


def fit(tenths, patch):
    constants = limited_domain._public_constants(2, EPSILON, Fraction(1, 10**3))
    next_count = constants.threshold + 1
    counts = np.array([next_count + 3, next_count + 2, next_count - 2])
    distribution = defined_distribution(tuple(counts.tolist()), 2, constants)
    wrong = replace(constants, rate=constants.rate * Fraction(tenths, 10))
    patch.setattr(limited_domain, "_constants", lambda *public: wrong)
    run = partial(limited_domain.topk, counts, 2, EPSILON, Fraction(1, 10**3))
    return draws_fit(lambda: tuple(run()), 5_000, distribution)


LIMITED_DOMAIN = Case(
    mechanism=limited_domain.LIMITED_DOMAIN,
    domains=dict(all_domains()),
    mutants={
        **dict(all_mutants()),
        "a threshold above the least count that exists": Mutant(
            released(Releases(1, RIGHT), partial(product, range(4), repeat=4), EPSILON, DELTA),
            changed(limited_domain, "_stop_score", above_the_last),
            distribution=uncached(Releases(1, replace(RIGHT, threshold=3))),
        ),
    },
    loss=PrivacyLoss(EPSILON, Fraction(1, 10**6)),
    says="with probability 95 %, each listed item has at most 111 people fewer than the item that "
    "belongs at its rank, and a list that is not full has every item with over 238 people more "
    "than the item at rank 1001 (k = 10, epsilon = 1, delta = 0.000001)",
    fits=fit,
    tight={
        f"less than delta for {kbar} new candidates": everybody_once(kbar, -2) for kbar in (1, 2)
    },
)

CASES = [LIMITED_DOMAIN]

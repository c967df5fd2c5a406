"""Top k of an unknown domain by weights: distributions, neighbours and mutants.

A data set is a sorted tuple of people, each the sorted tuple of their items.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import chain, combinations, product
from math import comb

import numpy as np
import pytest

from dp_sql.udfs.concentrated import largest_rho
from dp_sql.udfs.intervals import exp_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import weighted_gaussian
from dp_sql.udfs.topk.weighted_gaussian import Constants
from tests.udfs.cases_limited_domain import check, exact_take, q_of
from tests.udfs.conformance import Case, Domain, Mutant, changed, check_distribution
from tests.udfs.distributions import CHANCE_BITS, data_sets, distribution_of, draws_fit, one_more

EPSILON = Fraction(1)
DELTA = Fraction(3, 20)
N_ITEMS = 3

PEOPLE = [own for n in range(1, N_ITEMS + 1) for own in combinations(range(N_ITEMS), n)]
"""Everything that one person can have."""


def one_person_more(data_sets):
    for people, more in one_more(data_sets, PEOPLE):
        yield people, tuple(sorted(more))


def as_pairs(people):
    """Codes of items and of people, each pair twice where the number of the person is even."""
    pairs = [(item, p) for p, own in enumerate(people) for item in own for _ in range(2 - p % 2)]
    items, codes = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return items, codes


def shipped_distribution(people, k, constants):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted_gaussian, "by_weight", exact_take)
        pairs = weighted_gaussian.items_of_people(*as_pairs(people))
        distribution, unfinished = distribution_of(
            lambda path: tuple(weighted_gaussian._topk(*pairs, k, constants, path)), {}
        )
    assert unfinished == 0
    return distribution


@cache
def reaches(level, scale):
    """P(N >= level) by its definition, rounded as distributions.py rounds it."""
    if level <= 0:
        return 1 - reaches(1 - level, scale)
    bell = [exp_enclosure(Fraction(x * x, 2 * scale**2), 300)[0] for x in range(16 * scale + 40)]
    p = sum(bell[level:]) / (2 * sum(bell) - 1)
    return Fraction(int(p * 2**CHANCE_BITS), 2**CHANCE_BITS)


def listed(counts, k, rate, picks=(), probability=Fraction(1)):
    """Peeling by its definition."""
    free = [x for x in counts if x not in picks]
    if len(picks) == k or not free:
        yield picks, probability
        return
    q, top = q_of(rate), max(counts.values())
    weights = {x: q ** (top - counts[x]) for x in free}
    for x, weight in weights.items():
        p = probability * weight / sum(weights.values())
        yield from listed(counts, k, rate, (*picks, x), p)


def defined_distribution(people, k, constants):
    """Pseudocode of the note: all that people may keep, all that may be found, all lists."""
    cap, distribution = len(constants.weights), Counter()
    counts = Counter(chain(*people))
    choices = [[*combinations(own, min(len(own), cap))] for own in people]
    share = Fraction(1)
    for own in people:
        share /= comb(len(own), min(len(own), cap))
    for kept in product(*choices):
        sums = Counter()
        for own in kept:
            for item in own:
                sums[item] += constants.weights[len(own) - 1]
        chances = {x: reaches(constants.threshold - h, constants.scale) for x, h in sums.items()}
        for which in product((True, False), repeat=len(chances)):
            p, found = share, {}
            for (item, chance), hit in zip(chances.items(), which, strict=True):
                p *= chance if hit else 1 - chance
                if hit:
                    found[item] = counts[item]
            for picks, q in listed(found, k, constants.rate):
                distribution[picks] += p * q
    return {picks: p for picks, p in distribution.items() if p}


def without_zeros(distribution):
    return {picks: p for picks, p in distribution.items() if p}


def constants_of(k, epsilon, delta, cap):
    return weighted_gaussian._constants.__wrapped__(k, epsilon, delta, cap)


def same(constants, k, most, sets=None):
    return Domain(
        lambda people: without_zeros(shipped_distribution(people, k, constants)),
        inputs=lambda: sets or data_sets(PEOPLE, most),
        defined=lambda people: defined_distribution(people, k, constants),
    )


SMALL = Constants(weights=(3, 2), scale=2, threshold=6, rate=Fraction(1, 2))


def released(k, epsilon, delta, cap, sets, pairs=None):
    """The constants are computed when the distribution is, so that mutants of them are seen."""
    return Domain(
        lambda people: shipped_distribution(people, k, constants_of(k, epsilon, delta, cap)),
        pairs=pairs or (lambda: one_person_more(sets)),
        check=partial(check, epsilon=epsilon, delta=delta),
    )


def new_items(epsilon, cap):
    """One person, alone, with one, two or three items."""
    return released(1, epsilon, DELTA, cap, [()])


N_CROWD = 200


def crowd(own, cap=2):
    """So many people hold these items that one of these is surely found; one person more."""
    everybody = ((0, 1),) * N_CROWD
    pairs = [(everybody, (*everybody, own))]
    return released(1, Fraction(1, 2), Fraction(1, 10**4), cap, None, lambda: pairs)


AT = (1, Fraction(1, 2), Fraction(1, 10**4), 2)


def with_less_noise(factor):
    right = constants_of(*AT)
    return replace(right, scale=right.scale // factor)


def at_the_threshold():
    constants = constants_of(*AT)
    everybody = ((0, 1),) * (constants.threshold // constants.weights[1])
    return [(everybody, (*everybody, own)) for own in PEOPLE[:2]]


AT_THE_THRESHOLD = released(*AT, None, at_the_threshold)


def with_repetitions(items, people):
    order = np.argsort(people, kind="stable")
    return np.bincount(people), items[order]


def kept_by_nobody(patch):
    """Items that someone has are looked at even if no one keeps them."""
    right = weighted_gaussian._weight_sums

    def sums(sizes, items, weights, draws):
        kept = right(sizes, items, weights, draws)
        return np.maximum(kept, (np.bincount(items, minlength=kept.size) > 0).astype(np.int64))

    patch.setattr(weighted_gaussian, "_weight_sums", sums)


def without_cap(patch):
    right = weighted_gaussian._weight_sums

    def sums(sizes, items, weights, draws):
        longer = weights + (weights[-1],) * N_ITEMS
        return right(sizes, items, longer, draws)

    patch.setattr(weighted_gaussian, "_weight_sums", sums)


def for_one_item(weights, scale, delta):
    return weights[0] + weighted_gaussian.upper_quantile(scale, delta)


def for_most_items(weights, scale, delta):
    return weights[-1] + weighted_gaussian.upper_quantile(scale, delta / len(weights))


def from_more(factor):
    right = weighted_gaussian._threshold
    return lambda weights, scale, delta: right(weights, scale, factor * delta)


LOW = Fraction(1, 4)
"""An epsilon at which the noise is large beside the weights."""
HIGH = Fraction(12)
"""An epsilon at which the weights are large beside the noise."""

DOMAINS = {
    "two people": same(SMALL, 2, 2),
    "two people, one pick": same(SMALL, 1, 2),
    "three people who keep one": same(
        replace(SMALL, weights=(3,)), 3, 3, [((0, 1), (1, 2), (0, 1, 2))]
    ),
    **{
        f"neighbours, k = {k}, epsilon {epsilon}, cap {cap}": released(
            k, epsilon, DELTA, cap, [*data_sets(PEOPLE, 1)]
        )
        for k, epsilon, cap in [(1, EPSILON, 1), (2, EPSILON, 2), (2, LOW, 3), (2, HIGH, 2)]
    },
    **{f"new items, epsilon {e}, cap {c}": new_items(e, c) for e in (LOW, HIGH) for c in (1, 3)},
    "a crowd": crowd((0,)),
    "at the threshold": AT_THE_THRESHOLD,
}


def fit(tenths, patch):
    k, delta, cap = 2, Fraction(1, 10), 2
    people = ((0, 1),) * 40 + ((1, 2),) * 35 + ((0, 2),) * 30
    constants = constants_of(k, EPSILON, delta, cap)
    distribution = {}
    for picks, p in defined_distribution_of_few(people, k, constants):
        distribution[picks] = distribution.get(picks, 0) + float(p)
    wrong = replace(constants, rate=constants.rate * Fraction(tenths, 10))
    patch.setattr(weighted_gaussian, "_constants", lambda *public: wrong)
    pairs = as_pairs(people)
    run = partial(weighted_gaussian.topk, *pairs, k, EPSILON, delta, cap)
    return draws_fit(lambda: tuple(run()), 8_000, distribution)


def defined_distribution_of_few(people, k, constants):
    """Where no one has more items than are kept."""
    counts, sums = Counter(chain(*people)), Counter()
    for own in people:
        for item in own:
            sums[item] += constants.weights[len(own) - 1]
    for which in product((True, False), repeat=len(sums)):
        p, found = Fraction(1), {}
        for item, hit in zip(sums, which, strict=True):
            chance = reaches(constants.threshold - sums[item], constants.scale)
            p *= chance if hit else 1 - chance
            if hit:
                found[item] = counts[item]
        for picks, q in listed(found, k, constants.rate):
            yield picks, p * q


WEIGHTED = Case(
    mechanism=weighted_gaussian.WEIGHTED_GAUSSIAN,
    domains=DOMAINS,
    mutants={
        "a threshold for one item": Mutant(
            new_items(LOW, 3), changed(weighted_gaussian, "_threshold", for_one_item)
        ),
        "a threshold for the most items": Mutant(
            new_items(HIGH, 3), changed(weighted_gaussian, "_threshold", for_most_items)
        ),
        "a threshold from three times its delta": Mutant(
            new_items(LOW, 1), changed(weighted_gaussian, "_threshold", from_more(3))
        ),
        "no cap": Mutant(new_items(LOW, 1), without_cap),
        "items that no one keeps": Mutant(new_items(LOW, 1), kept_by_nobody),
        "rounds at a rate of epsilon and more": Mutant(
            crowd((0,)), changed(weighted_gaussian, "_rate", lambda k, rho: Fraction(3, 2))
        ),
        "noise of a tenth": Mutant(
            AT_THE_THRESHOLD,
            distribution=lambda people: shipped_distribution(people, 1, with_less_noise(10)),
        ),
        "repetitions counted": Mutant(
            DOMAINS["two people"],
            changed(weighted_gaussian, "items_of_people", with_repetitions),
            check=check_distribution,
        ),
    },
    loss=PrivacyLoss(
        EPSILON,
        Fraction(1, 10**6),
        approximate=(largest_rho(EPSILON, Fraction(1, 2 * 10**6)), Fraction(1, 2 * 10**6)),
    ),
    says="with probability 95 %, an item is found if 399 people have it, each with at most 100 items; "
    "if at most 1000000 items are found, with probability 95 %, each listed item has at most 282 people "
    "fewer than the item that belongs at its rank among them (k = 10, epsilon = 1, delta = 0.000001)",
    fits=fit,
)

CASES = [WEIGHTED]

"""Permute-and-flip over whole lists: distributions, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product

import numpy as np

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.permute_and_flip import Rejection
from dp_sql.udfs.topk import joint, lists
from tests.udfs.cases_joint import (
    EPSILON,
    JOINT,
    Q_OF_RATE,
    err,
    lists_fit,
    people_of,
    small_histograms,
)
from tests.udfs.conformance import Case, Domain, Mutant, changed, check_distribution, times_two
from tests.udfs.distributions import PathTooLongError, accepted, distribution_of, normalized

# Permute-and-flip over whole lists.

HALF = Fraction(1, 2)


def shipped_lists(counts, k, cut):
    rate = joint.rate_of(k, EPSILON)
    return lists.propose_lists(np.array(counts, dtype=np.int64), k, rate, cut), Q_OF_RATE[rate]


def attempt_distribution(lists, q, rejections=()):
    """The exact distribution of one shipped attempt that was not rejected."""
    distribution, unfinished = distribution_of(
        partial(lists.attempt, rejections=rejections), {lists.stairs.odds.rate: q}
    )
    assert unfinished == 0
    return accepted(distribution)


def defined_weights(counts, k, cut, q):
    """The probability with which each list is accepted when it is visited."""
    every = permutations(range(len(counts)), k)
    return {picks: q ** min(err(counts, picks), cut) for picks in every}


def flips(weights):
    """Permute-and-flip: x arrives at a uniform time u, and nothing accepted arrived before u."""
    classes, distribution = Counter(weights.values()), {}
    for own in classes:
        product_of_others = [Fraction(1)]
        for p in (classes - Counter([own])).elements():
            shifted = zip([*product_of_others, 0], [0, *product_of_others], strict=True)
            product_of_others = [a - p * b for a, b in shifted]
        distribution[own] = own * sum(a / (i + 1) for i, a in enumerate(product_of_others))
    return {x: distribution[p] for x, p in weights.items()}


def flips_of_lists(counts, k, cut, q):
    return flips(defined_weights(counts, k, cut, q))


def pnf_distribution(counts, k, cut, q=None, most_failures=99):
    """The exact distribution of the shipped sampler, and the probability of more failures than that.

    Its races are settled by the exact distribution of the shipped attempt. Lists of one level are
    equally likely at every step, so one of them is followed for all.
    """
    lists, usual_q = shipped_lists(counts, k, cut)
    q = q or usual_q
    weights = attempt_distribution(lists, q)
    most = max(weights.values())
    weights = {picks: p / most for picks, p in weights.items()}
    level = {picks: lists.shortfall(picks) for picks in weights}
    n_of_level = Counter(level.values())

    @cache
    def rings(gone, rejections):
        others = sum(p for picks, p in weights.items() if picks not in gone)
        ring = 1 - q ** rejections[-1]
        others += sum(1 - q**c for c in rejections[:-1])
        return [others / (others + ring), ring / (others + ring)]

    @cache
    def hits(gone):
        left = [picks for picks in weights if picks not in gone]
        total = sum(weights[picks] for picks in left)
        firsts = {level[picks]: picks for picks in reversed(left)}
        n_left = Counter(level[picks] for picks in left)
        shares = [n_left[e] * weights[picks] / total for e, picks in firsts.items()]
        return list(firsts.values()), shares

    def run(path):
        def race(gone, rejections):
            if len(gone) > most_failures:
                raise PathTooLongError
            if rejections:
                last = Rejection(len(rejections) - 1)
                return ("something else", last)[path._step(rings(gone, tuple(rejections)))]
            firsts, shares = hits(gone)
            return firsts[path._step(shares)]

        return level[flip.first_accepted(race, level.__getitem__)]

    distribution, unfinished = distribution_of(run, {})
    return {x: distribution.get(e, 0) / n_of_level[e] for x, e in level.items()}, unfinished


def histograms(largest_count, *sizes):
    for d in sizes:
        yield from combinations_with_replacement(range(largest_count + 1), d)


def distribution_by_attempts(counts, k, cut):
    """Permute-and-flip on the weights that the shipped attempt gives to the lists."""
    lists, q = shipped_lists(counts, k, cut)
    weights = attempt_distribution(lists, q)
    most = max(weights.values())
    return flips({picks: p / most for picks, p in weights.items()})


def race_of_all(cut, counts_of):
    """One attempt is a race of all lists and of rejections."""
    rejections = (1, 3)

    def distribution(data):
        lists, q = shipped_lists(*data, cut)
        return attempt_distribution(lists, q, rejections)

    def definition(data):
        q = Q_OF_RATE[joint.rate_of(data[1], EPSILON)]
        ringing = {Rejection(i): 1 - q**e for i, e in enumerate(rejections)}
        return normalized(defined_weights(*data, cut, q) | ringing)

    return Domain(distribution, inputs=counts_of, defined=definition)


def small_lists():
    for counts in (*histograms(3, 1, 2, 3), *histograms(2, 4)):
        yield from ((counts, k) for k in range(1, min(len(counts), 3) + 1))


def astray(counts, k, cut, most_failures):
    """Outcomes whose probability the distribution up to some failures does not enclose; few are left over."""
    distribution, unfinished = pnf_distribution(counts, k, cut, HALF, most_failures)
    expected = flips_of_lists(counts, k, cut, HALF)
    assert distribution.keys() == expected.keys()
    wrong = [
        x
        for x in distribution
        if not distribution[x] <= expected[x] <= distribution[x] + unfinished
    ]
    return wrong if unfinished < Fraction(1, 60) else list(distribution)


def up_to_some_failures(cut, most_failures, inputs):
    return Domain(
        lambda data: astray(*data, cut, most_failures), inputs=lambda: inputs, defined=lambda _: []
    )


def small_data(d):
    return [
        ((0, *others), k)
        for others in histograms(3 if d < 4 else 2, d - 1)
        for k in range(1, min(d, 3) + 1)
    ]


def to_the_last_failure(data):
    distribution, unfinished = pnf_distribution(*data, 4, HALF)
    assert unfinished == 0
    return distribution


def privacy_of_attempts(k, cut):
    return people_of(
        lambda counts: distribution_by_attempts(counts, k, cut), lambda: small_histograms(3)
    )


def pnf_domains():
    for cut in (1, 2, 4):
        yield f"an attempt is a race, cut {cut}", race_of_all(cut, small_lists)
        for d, most_failures in [(2, 1), (3, 2), (4, 2)]:
            name = f"up to {most_failures} failures, {d} items, cut {cut}"
            yield name, up_to_some_failures(cut, most_failures, small_data(d))
    yield (
        "to the last failure",
        Domain(
            to_the_last_failure,
            inputs=lambda: [((1, 1, 0), 2), ((2, 2, 0), 2), ((2, 0, 0), 2)],
            defined=lambda data: flips_of_lists(*data, 4, HALF),
        ),
    )
    for (d, k), cut in product([(1, 1), (2, 1), (2, 2), (3, 1)], (1, 2, 6)):
        yield (
            f"{k} of {d}, cut {cut}",
            people_of(
                lambda counts, k=k, cut=cut: pnf_distribution(counts, k, cut)[0],
                lambda d=d: small_histograms(d),
            ),
        )
    for k, cut in product((2, 3), (1, 4)):
        yield f"by attempts, {k} of 3, cut {cut}", privacy_of_attempts(k, cut)
    for k in (1, 2, 3):
        distribution = partial(flips_of_lists, k=k, cut=2, q=Fraction(1, 4) if k == 1 else HALF)
        yield (
            f"the definition, {k} of 4",
            people_of(distribution, lambda: product(range(2), repeat=4)),
        )


def twice_the_rate(patch):
    times_two(joint, "rate_of")(patch)
    patch.setitem(Q_OF_RATE, 2 * EPSILON, HALF**4)


def pnf_with_a_cut_from_the_data(counts):
    return distribution_by_attempts(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)


def pieces_that_forget(patch):
    right = flip._came_first

    def forgets(race, pieces, level):
        return right(race, [(gone, []) for gone, _ in pieces], level)

    patch.setattr(flip, "_came_first", forgets)


def rejections_of_weight_q_to_the_level(odds, rejections):
    return Odds([*odds.weights, *(((1, e),) for e in rejections)], odds.rate)


FOLLOWED = up_to_some_failures(4, 3, [((2, 1, 0), 2)])
PNF_SAMPLED = (6, 4, 1, 0)


def pnf_fits(tenths, _):
    distribution = flips_of_lists(PNF_SAMPLED, 2, 10**6, Fraction(math.exp(-0.5)))
    run = partial(joint.PNF_JOINT.run, epsilon=Fraction(tenths, 10))
    return lists_fit(run, distribution, PNF_SAMPLED, 3_000)


PNF_JOINT = Case(
    mechanism=joint.PNF_JOINT,
    domains=dict(pnf_domains()),
    mutants={
        "the exponential mechanism": Mutant(
            FOLLOWED,
            changed(flip, "_came_first", lambda race, pieces, level: True),
            check=check_distribution,
        ),
        "pieces that forget their rejections": Mutant(
            FOLLOWED, pieces_that_forget, check=check_distribution
        ),
        "rejections of the wrong weight": Mutant(
            race_of_all(4, lambda: [((2, 1, 0), 2)]),
            changed(lists, "with_rejections", rejections_of_weight_q_to_the_level),
            check=check_distribution,
        ),
        "shortfalls that ignore the cut": Mutant(
            up_to_some_failures(1, 3, [((0, 1, 3), 2)]),
            changed(
                lists.Lists, "shortfall", lambda lists, picks: err(lists.counts.tolist(), picks)
            ),
            check=check_distribution,
        ),
        "a factor two that one item does not need": Mutant(
            Domain(
                lambda data: distribution_by_attempts(*data, 6),
                inputs=lambda: [((2, 1, 0), 1)],
                defined=lambda data: flips_of_lists(*data, 6, Fraction(1, 4)),
            ),
            changed(joint, "rate_of", lambda k, epsilon: epsilon / 2),
            check=check_distribution,
        ),
        "a cut taken from the data": Mutant(
            people_of(lambda counts: distribution_by_attempts(counts, 2, 6), lambda: [(5, 0, 0)]),
            distribution=pnf_with_a_cut_from_the_data,
        ),
        **{
            f"twice the rate, {k} items": Mutant(privacy_of_attempts(k, 6), twice_the_rate)
            for k in (1, 2, 3)
        },
    },
    loss=PrivacyLoss(EPSILON),
    says=JOINT.says,
    fits=pnf_fits,
)

CASES = [PNF_JOINT]

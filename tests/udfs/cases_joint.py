"""Whole lists at once: distributions of joint and pnf_joint, their neighbours and mutants."""

import math
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, permutations, product

import numpy as np

from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.topk import joint, lists, ranking
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    times_two,
    within,
)
from tests.udfs.distributions import accepted, added_people, distribution_of, draws_fit, normalized

EPSILON = Fraction(1)
LOSS = Fraction(4)
"""In exact distributions exp(epsilon) is the rational 4, so q is 1/2 for lists and 1/4 for one item."""


Q_OF_RATE = {EPSILON * i / 2: Fraction(1, 2) ** i for i in (1, 2, 4)}


def joint_distribution(counts, k, cut, q_of=None, fitted_at=None):
    """The exact distribution of the shipped sampler, out of the distribution of one attempt.

    `fitted_at` is the rate that the staircase is fitted for, where it is not the sampler's.
    """
    rate = joint.rate_of(k, EPSILON)
    ranked = ranking.rank(np.array(counts, dtype=np.int64), k, cut)
    stairs = lists.fit_staircase(ranked, fitted_at or rate)
    stairs = stairs._replace(odds=Odds(stairs.odds.weights, rate))
    proposals = lists.Lists(ranked.gaps, ranked.gaps[:k], ranked, stairs)
    distribution, unfinished = distribution_of(proposals.attempt, q_of or Q_OF_RATE)
    assert unfinished == 0
    return accepted(distribution)


def err(counts, picks):
    best = sorted(counts, reverse=True)
    return max(best[i] - counts[x] for i, x in enumerate(picks))


def joint_definition(counts, k, cut, q):
    lists = permutations(range(len(counts)), k)
    return normalized({picks: q ** min(err(counts, picks), cut) for picks in lists})


def sizes_and_counts(largest_domain, largest_count):
    for d in range(1, largest_domain + 1):
        for counts in combinations_with_replacement(range(largest_count + 1), d):
            yield from ((counts, k) for k in range(1, d + 1))


def every_histogram(cut, q, *sizes):
    return Domain(
        lambda data: joint_distribution(*data, cut, {joint.rate_of(data[1], EPSILON): q}),
        inputs=lambda: (data for size in sizes for data in sizes_and_counts(*size)),
        defined=lambda data: joint_definition(*data, cut, q),
    )


def one_histogram(counts, k, cut):
    return Domain(
        lambda data: joint_distribution(*data, cut),
        inputs=lambda: [(counts, k)],
        defined=lambda data: joint_definition(*data, cut, Q_OF_RATE[joint.rate_of(k, EPSILON)]),
    )


def small_histograms(d):
    return product(range(3), repeat=d)


def people_of(distribution, histograms):
    return Domain(distribution, lambda: added_people(histograms()), within(LOSS))


def privacy_of_joint(d, k, cut):
    return people_of(lambda counts: joint_distribution(counts, k, cut), lambda: small_histograms(d))


def joint_with_a_cut_from_the_data(counts):
    return joint_distribution(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)


def joint_on_items_that_are_there(counts):
    present = [x for x, count in enumerate(counts) if count]
    if len(present) < 2:
        return {None: Fraction(1)}
    inner = joint_distribution([counts[x] for x in present], 2, 6)
    return {tuple(present[x] for x in picks): p for picks, p in inner.items()}


def one_layer_too_far(patch):
    right = ranking.Ranking.n_choices
    further = lambda r, layers: right(r, [layer + 1 for layer in layers])  # noqa: E731
    patch.setattr(ranking.Ranking, "n_choices", further)


def half_the_staircase(patch):
    right = lists.Staircase.height
    patch.setattr(lists.Staircase, "height", lambda s, layer: right(s, layer) >> 1)


def lists_fit(run, distribution, counts, n):
    return draws_fit(lambda: tuple(run(np.array(counts), 2)), n, distribution)


JOINT_SAMPLED = (6, 5, 3, 3)


def joint_fits(tenths, _):
    distribution = joint_definition(JOINT_SAMPLED, 2, 10**6, Fraction(math.exp(-0.5)))
    run = partial(joint.JOINT.run, epsilon=Fraction(tenths, 10))
    return lists_fit(run, distribution, JOINT_SAMPLED, 12_000)


def joint_domains():
    for cut, q in [(1, Fraction(1, 2)), (2, Fraction(2, 3)), (9, Fraction(1, 3))]:
        yield f"small histograms, cut {cut}", every_histogram(cut, q, (3, 3), (4, 1))
        yield f"slow: larger histograms, cut {cut}", every_histogram(cut, q, (3, 4), (4, 3))
    for (d, k), cut in product([(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)], (1, 2, 6)):
        yield f"{k} of {d}, cut {cut}", privacy_of_joint(d, k, cut)
    for k in (1, 2, 3, 4):
        q = Fraction(1, 4) if k == 1 else Fraction(1, 2)
        distribution = partial(joint_definition, k=k, cut=2, q=q)
        yield f"the definition, {k} of 4", people_of(distribution, lambda: small_histograms(4))


JOINT = Case(
    mechanism=joint.JOINT,
    domains=dict(joint_domains()),
    mutants={
        "twice the rate, one item": Mutant(privacy_of_joint(3, 1, 6), times_two(joint, "rate_of")),
        "twice the rate, two items": Mutant(privacy_of_joint(3, 2, 6), times_two(joint, "rate_of")),
        "a cut taken from the data": Mutant(
            people_of(lambda counts: joint_distribution(counts, 2, 6), lambda: [(5, 0, 0)]),
            distribution=joint_with_a_cut_from_the_data,
        ),
        "a domain taken from the data": Mutant(
            privacy_of_joint(3, 2, 6), distribution=joint_on_items_that_are_there
        ),
        "a tail of kept items only": Mutant(
            one_histogram((5, 5, 0), 2, 2),
            changed(ranking.Ranking, "all_lists", lambda r: math.perm(len(r.gaps), r.k)),
            check=check_distribution,
        ),
        "a tail with a wrong weight": Mutant(
            one_histogram((5, 5, 0), 2, 2),
            times_two(ranking.Ranking, "all_lists"),
            check=check_distribution,
        ),
        "one layer too far, one item": Mutant(
            one_histogram((3, 2, 0), 1, 4), one_layer_too_far, check=check_distribution
        ),
        "one layer too far, two items": Mutant(
            one_histogram((3, 2, 0), 2, 4), one_layer_too_far, check=check_distribution
        ),
        "a staircase below the number of lists": Mutant(
            one_histogram((3, 2, 0), 2, 4), half_the_staircase, check=check_distribution
        ),
    },
    loss=PrivacyLoss(EPSILON, rho=Fraction(1, 8), bounded_range=EPSILON),
    says="with probability 95 %, each listed item has at most 144 people fewer than the item that "
    "belongs at its rank (domain of 1000 items, k = 10, epsilon = 1)",
    fits=joint_fits,
)

CASES = [JOINT]

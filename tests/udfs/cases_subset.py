"""Sets of k items: distributions of subset, their neighbours and mutants."""

import math
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, product

import numpy as np

from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.topk import joint, lists, ranking, subset
from tests.udfs.cases_joint import LOSS, Q_OF_RATE, people_of, small_histograms
from tests.udfs.conformance import Case, Domain, Mutant, check_distribution, times_two, within
from tests.udfs.distributions import accepted, added_people, distribution_of, draws_fit, normalized

EPSILON = Fraction(1)
"""In exact distributions exp(epsilon) is the rational 4, so q is 1/2 for sets, as in cases_joint."""
HALF = Fraction(1, 2)


def subset_distribution(counts, k, cut, q=HALF, rate_of=None):
    """The exact distribution of the shipped sampler, out of the distribution of one attempt."""
    rate = (rate_of or joint.rate_of)(k, EPSILON)
    proposals = subset.propose_sets(np.array(counts, dtype=np.int64), k, rate, cut)
    distribution, unfinished = distribution_of(proposals.attempt, {**Q_OF_RATE, EPSILON / 2: q})
    assert unfinished == 0
    return accepted(distribution)


def gap(counts, picks):
    out = [count for x, count in enumerate(counts) if x not in picks]
    return max(out) - min(counts[x] for x in picks)


def sets_of(counts, k):
    return map(frozenset, combinations(range(len(counts)), k))


def subset_definition(counts, k, cut, q=HALF):
    weights = {picks: q ** min(gap(counts, picks), cut) for picks in sets_of(counts, k)}
    return normalized(weights)


def clipped(counts, k, cut, q=HALF):
    """The published score: a set that is right by a margin weighs no more than one that is right."""
    return normalized(
        {picks: q ** min(max(gap(counts, picks), 0), cut) for picks in sets_of(counts, k)}
    )


def shapes(largest_domain, largest_count):
    for d in range(3, largest_domain + 1):
        for counts in combinations_with_replacement(range(largest_count + 1), d):
            # Not in the order of the counts, so that ranks are no positions.
            yield from (((*counts[1::2], *counts[::2]), k) for k in range(2, d))


def every_histogram(cut, q, *size):
    return Domain(
        lambda data: subset_distribution(*data, cut, q),
        inputs=lambda: shapes(*size),
        defined=lambda data: subset_definition(*data, cut, q),
    )


def one_histogram(counts, k, cut):
    return Domain(
        lambda data: subset_distribution(*data, cut),
        inputs=lambda: [(counts, k)],
        defined=lambda data: subset_definition(*data, cut),
    )


def privacy_of_subset(d, k, cut):
    return people_of(
        lambda counts: subset_distribution(counts, k, cut), lambda: small_histograms(d)
    )


def private_by_definition(d, k, most):
    """All histograms up to the names of the items, whose order the definition does not know."""
    return Domain(
        lambda counts: subset_definition(counts, k, 12),
        lambda: added_people(combinations_with_replacement(range(most + 1), d)),
        within(LOSS),
    )


def with_a_domain_from_the_data(counts):
    present = [x for x, count in enumerate(counts) if count]
    if len(present) < 3:
        return {None: Fraction(1)}
    inner = subset_definition([counts[x] for x in present], 2, 6)
    return {frozenset(present[x] for x in picks): p for picks, p in inner.items()}


def with_a_cut_from_the_data(counts):
    return subset_definition(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)


def without_the_lead(patch):
    patch.setattr(subset.Sets, "lead", 0)


def ranks_by_position(patch):
    """Ties, and all else, in the order of the domain."""

    def rank(counts, k, cut):
        gaps = int(counts.max()) - counts
        return ranking.Ranking(np.sort(gaps), np.arange(len(counts)), len(counts), k, cut)

    patch.setattr(subset, "rank", rank)


def families_without_their_ties(patch):
    right = subset.Sets.n_free
    patch.setattr(
        subset.Sets, "n_free", lambda s, layers: right(s, [max(t - 1, 0) for t in layers])
    )


def bounds_below(patch):
    patch.setattr(subset, "log_comb_above", lambda n, r, bits: np.zeros_like(n))


def the_k_best_in_the_tail_too(patch):
    right = subset.SetProposals.attempt

    def attempt(this, draws):
        picks = right(this, draws)
        return picks if picks is not None else this._items(range(this.sets.k))

    patch.setattr(subset.SetProposals, "attempt", attempt)


def half_the_staircase(patch):
    right = lists.fit_staircase

    def fit(layers, rate):
        stairs = right(layers, rate)
        weights = [((max(n // 2, 1), a),) for ((n, a),) in stairs.odds.weights]
        return lists.Staircase(stairs.starts, stairs.heights, Odds(weights, rate))

    patch.setattr(subset, "fit_staircase", fit)


SAMPLED = (6, 5, 3, 3, 0)


def subset_fits(tenths, _):
    definition = subset_definition(SAMPLED, 2, 10**6, Fraction(math.exp(-0.5)))
    run = partial(subset.SUBSET.run, np.array(SAMPLED), 2, Fraction(tenths, 10))
    return draws_fit(lambda: frozenset(run()), 4_000, definition)


def subset_domains():
    for cut, q in [(1, HALF), (2, Fraction(2, 3)), (9, Fraction(1, 3))]:
        yield f"small histograms, cut {cut}", every_histogram(cut, q, 4, 2)
        yield f"slow: larger histograms, cut {cut}", every_histogram(cut, q, 5, 3)
    for (d, k), cut in product([(3, 2), (4, 2), (4, 3)], (1, 2, 6)):
        slow = "slow: " if d == 4 else ""
        yield f"{slow}{k} of {d}, cut {cut}", privacy_of_subset(d, k, cut)
    for d, k in [(3, 2), (4, 2), (4, 3)]:
        yield f"the definition, {k} of {d}", private_by_definition(d, k, 3)
    for k in (2, 3, 4):
        yield f"slow: the definition, {k} of 5", private_by_definition(5, k, 3)


WRONG = one_histogram((0, 3, 2, 1), 2, 4)
TIED = one_histogram((1, 2, 1, 1), 2, 4)

SUBSET = Case(
    mechanism=subset.SUBSET,
    domains=dict(subset_domains()),
    mutants={
        "twice the rate": Mutant(
            private_by_definition(4, 2, 3),
            distribution=lambda counts: subset_definition(counts, 2, 12, HALF**2),
        ),
        "twice the rate, as it is drawn": Mutant(
            privacy_of_subset(3, 2, 2), times_two(joint, "rate_of")
        ),
        "a cut taken from the data": Mutant(
            people_of(lambda counts: subset_definition(counts, 2, 6), lambda: [(5, 0, 0)]),
            distribution=with_a_cut_from_the_data,
        ),
        "a domain taken from the data": Mutant(
            people_of(lambda counts: subset_definition(counts, 2, 6), partial(small_histograms, 3)),
            distribution=with_a_domain_from_the_data,
        ),
        "gaps cut off at 0": Mutant(
            WRONG, distribution=lambda data: clipped(*data, 4), check=check_distribution
        ),
        "the k best with no more than the weight of a tie": Mutant(
            WRONG, without_the_lead, check=check_distribution
        ),
        "ranks that are positions": Mutant(WRONG, ranks_by_position, check=check_distribution),
        "ties left out of the families": Mutant(
            TIED, families_without_their_ties, check=check_distribution
        ),
        "bounds below the number of sets": Mutant(TIED, bounds_below, check=check_distribution),
        "the k best instead of another attempt": Mutant(
            WRONG, the_k_best_in_the_tail_too, check=check_distribution
        ),
        "half the staircase": Mutant(WRONG, half_the_staircase, check=check_distribution),
        "a tail with a wrong weight": Mutant(
            WRONG, times_two(subset.Sets, "all_lists"), check=check_distribution
        ),
    },
    loss=PrivacyLoss(EPSILON, rho=Fraction(1, 8), bounded_range=EPSILON),
    says="with probability 95 %, each listed item has at most 113 people fewer than any item left out "
    "(domain of 1000 items, k = 10, epsilon = 1)",
    fits=subset_fits,
    tight={
        "less than epsilon": Domain(
            lambda counts: subset_definition(counts, 2, 12),
            lambda: [((9, 9, 0), (10, 10, 0))],
            within(Fraction(399, 100)),
        )
    },
)

CASES = [SUBSET]

"""Counts of sampled items: distributions, neighbours and mutants."""

from collections import defaultdict
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, permutations, product

from dp_sql.udfs.count_distinct import sampling
from tests.udfs.cases_bounded import (
    HALF,
    case_of_bounded,
    data_sets,
    given_distribution,
    graph_of,
    neighbours,
)
from tests.udfs.conformance import Domain, Mutant, within
from tests.udfs.distributions import distribution_of

# Sampling: some items of each person, at random. The distribution of the counts enters the release.


@cache
def distribution_of_counts(data, n_bounds):
    """The shipped distribution of (F(1), F(2), ...)."""
    distribution, unfinished = distribution_of(
        lambda draws: tuple(sampling.sampled_counts(*graph_of(data), n_bounds, draws)), {}
    )
    assert unfinished == 0
    return distribution


def uniform(outcomes):
    """The distribution of an outcome when each in a list is equally likely."""
    outcomes = list(outcomes)
    distribution = defaultdict(Fraction)
    for outcome in outcomes:
        distribution[outcome] += Fraction(1, len(outcomes))
    return distribution


def size_of_union(samples):
    return len(set().union(*samples))


def mixed(counts_distribution, release_distribution):
    distribution = defaultdict(Fraction)
    for counts, p in counts_distribution.items():
        for release, p_release in release_distribution(counts).items():
            distribution[release] += p * p_release
    return distribution


def given_to_one(data):
    """Wrong: each item is given to the first who holds it, before anything is sampled."""
    given = []
    for held in data:
        given.append(frozenset(held).difference(*given))
    return tuple(given)


def noise(x, q):
    return (1 - q) / (1 + q) * q ** abs(x)


@cache
def both_noisy(counts):
    near = range(-2, 6)
    return {
        shown: noise(shown[0] - counts[0], HALF**2) * noise(shown[1] - counts[1], HALF)
        for shown in product(near, repeat=2)
    }


def marginal(bound, data):
    distribution = defaultdict(Fraction)
    for counts, p in distribution_of_counts(data, 4).items():
        distribution[counts[bound - 1]] += p
    return distribution


def samples_of(bound):
    """Each count is that of uniform samples without replacement."""

    def definition(data):
        return uniform(
            map(
                size_of_union,
                product(*(combinations(held, min(bound, len(held))) for held in data)),
            )
        )

    return Domain(partial(marginal, bound), inputs=lambda: data_sets(3), defined=definition)


def one_order(data):
    orders = product(*(permutations(held) for held in data))
    return uniform(
        tuple(size_of_union(order[:bound] for order in each) for bound in (1, 2, 3))
        for each in orders
    )


def first_counts(data):
    cut = defaultdict(Fraction)
    for counts, p in distribution_of_counts(data, 4).items():
        cut[counts[:2]] += p
    return cut


def sampled_release(counts_distribution, bound, pairs=None):
    return Domain(
        lambda data: mixed(counts_distribution(data), partial(given_distribution, bound=bound)),
        lambda: pairs or neighbours(3),
        within(HALF**-bound),
    )


def given_samples(bound):
    return sampled_release(lambda data: distribution_of_counts(data, bound), bound)


def without_the_first(data, n_bounds):
    return {counts[1:]: p for counts, p in distribution_of_counts(data, n_bounds).items()}


SINGLES = tuple(map(frozenset, "abc"))
LEFT_OVER = sampled_release(
    lambda data: distribution_of_counts(data, 1), 1, [(SINGLES, (frozenset("abc"), *SINGLES))]
)
BOTH = Domain(
    lambda data: mixed(distribution_of_counts(data, 2), both_noisy),
    lambda: neighbours(3),
    within(HALF**-4),
)

SAMPLING = case_of_bounded(
    sampling.SAMPLING,
    domains={
        **{f"samples of {bound}": samples_of(bound) for bound in (1, 2, 3, 4)},
        "one order for all bounds": Domain(
            lambda data: distribution_of_counts(data, 3),
            inputs=lambda: data_sets(3),
            defined=one_order,
        ),
        "fewer bounds": Domain(
            lambda data: distribution_of_counts(data, 2),
            inputs=lambda: data_sets(2),
            defined=first_counts,
        ),
        "a release under 1": given_samples(1),
        "a release under 2": given_samples(2),
        "what is left over": LEFT_OVER,
        "all counts at once": BOTH,
    },
    mutants={
        "two items of each with noise for one": Mutant(
            given_samples(1),
            distribution=sampled_release(lambda data: without_the_first(data, 2), 1).distribution,
        ),
        "samples of what others left over": Mutant(
            LEFT_OVER,
            distribution=sampled_release(
                lambda data: distribution_of_counts(given_to_one(data), 1), 1
            ).distribution,
        ),
        "all counts of one item more": Mutant(
            BOTH, distribution=lambda data: mixed(without_the_first(data, 3), both_noisy)
        ),
    },
)

CASES = [SAMPLING]

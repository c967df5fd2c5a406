"""Counts of sampled items: laws, neighbours and mutants."""

from collections import defaultdict
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, permutations, product

from dp_sql.udfs.count_distinct import sampling
from tests.udfs.cases_bounded import (
    HALF,
    case_of_bounded,
    data_sets,
    given_law,
    graph_of,
    neighbours,
)
from tests.udfs.conformance import Domain, Mutant, within
from tests.udfs.laws import law_of

# Sampling: some items of each person, at random. The law of the counts enters the release.


@cache
def law_of_counts(data, n_bounds):
    """The shipped law of (F(1), F(2), ...)."""
    law, unfinished = law_of(
        lambda draws: tuple(sampling._sampled_counts(*graph_of(data), n_bounds, draws)), {}
    )
    assert unfinished == 0
    return law


def uniform(outcomes):
    """The law of an outcome when each in a list is equally likely."""
    outcomes = list(outcomes)
    law = defaultdict(Fraction)
    for outcome in outcomes:
        law[outcome] += Fraction(1, len(outcomes))
    return law


def size_of_union(samples):
    return len(set().union(*samples))


def mixed(counts_law, release_law):
    law = defaultdict(Fraction)
    for counts, p in counts_law.items():
        for release, p_release in release_law(counts).items():
            law[release] += p * p_release
    return law


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
    law = defaultdict(Fraction)
    for counts, p in law_of_counts(data, 4).items():
        law[counts[bound - 1]] += p
    return law


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
    for counts, p in law_of_counts(data, 4).items():
        cut[counts[:2]] += p
    return cut


def sampled_release(counts_law, bound, pairs=None):
    return Domain(
        lambda data: mixed(counts_law(data), partial(given_law, bound=bound)),
        lambda: pairs or neighbours(3),
        within(HALF**-bound),
    )


def given_samples(bound):
    return sampled_release(lambda data: law_of_counts(data, bound), bound)


def without_the_first(data, n_bounds):
    return {counts[1:]: p for counts, p in law_of_counts(data, n_bounds).items()}


SINGLES = tuple(map(frozenset, "abc"))
LEFT_OVER = sampled_release(
    lambda data: law_of_counts(data, 1), 1, [(SINGLES, (frozenset("abc"), *SINGLES))]
)
BOTH = Domain(
    lambda data: mixed(law_of_counts(data, 2), both_noisy),
    lambda: neighbours(3),
    within(HALF**-4),
)

SAMPLING = case_of_bounded(
    sampling.SAMPLING,
    domains={
        **{f"samples of {bound}": samples_of(bound) for bound in (1, 2, 3, 4)},
        "one order for all bounds": Domain(
            lambda data: law_of_counts(data, 3), inputs=lambda: data_sets(3), defined=one_order
        ),
        "fewer bounds": Domain(
            lambda data: law_of_counts(data, 2), inputs=lambda: data_sets(2), defined=first_counts
        ),
        "a release under 1": given_samples(1),
        "a release under 2": given_samples(2),
        "what is left over": LEFT_OVER,
        "all counts at once": BOTH,
    },
    mutants={
        "two items of each with noise for one": Mutant(
            given_samples(1),
            law=sampled_release(lambda data: without_the_first(data, 2), 1).law,
        ),
        "samples of what others left over": Mutant(
            LEFT_OVER, law=sampled_release(lambda data: law_of_counts(given_to_one(data), 1), 1).law
        ),
        "all counts of one item more": Mutant(
            BOTH, law=lambda data: mixed(without_the_first(data, 3), both_noisy)
        ),
    },
)

CASES = [SAMPLING]

"""Selections by weight, by flips and by response: their distributions, neighbours and mutants."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.select import exponential
from dp_sql.udfs.select import k_randomised_response as response
from tests.udfs.choices import (
    EPSILON,
    PowersOf,
    distribution_of_choice,
    neighbours,
    without_impossible,
)
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    slow_if,
    times_two,
    within,
    within_range,
)
from tests.udfs.distributions import distribution_of, draws_fit, normalized
from tests.udfs.test_permute_and_flip import permute_and_flip

HALF = Fraction(1, 2)
PURE = PrivacyLoss(EPSILON)
N_SAMPLES = 8_000


def choices_fit(choose, scores, sizes, public, distribution, n=N_SAMPLES):
    return draws_fit(partial(choose, scores, sizes, *public, secret_draws()), n, distribution)


# The exponential mechanism and permute-and-flip, at the largest sensitivity.

STEPS = 36
"""How many steps of q = 1/2 make up half of epsilon; all sensitivities in use divide it."""

LOSS = HALF ** (-2 * STEPS)
Q_OF = PowersOf(HALF, EPSILON / 2 / STEPS)
SIZES = [(0, 0), (0, 1), (1, 1), (2, 1), (Fraction(1, 2), 0), (0, 3, 1), (1, 1, 1)]
CROWD = ((0, *[6] * 30), (3, *[3] * 30))
"""Neighbours that use nearly all of epsilon: one candidate rises while thirty fall."""


def tables(n):
    return product((0, 2, 9) if n < 3 else (0, 9), repeat=n)


def distribution_at_largest(choose, sizes, scores):
    return distribution_of_choice(lambda draws: choose(scores, sizes, EPSILON, draws), Q_OF)


def weights(scores, sizes):
    """The weights of the definition, the best one being 1."""
    behind = [max(scores) - score for score in scores]
    if not max(sizes):
        return {i: Fraction(b == 0) for i, b in enumerate(behind)}
    steps = [Fraction(STEPS * b) / max(sizes) for b in behind]
    assert all(n.denominator == 1 for n in steps)
    return {i: HALF ** int(n) for i, n in enumerate(steps)}


def at_largest(choose, one_choice, sizes, pairs=None):
    small = list(tables(len(sizes))) if not pairs else pairs[0]

    def all_pairs():
        return pairs or neighbours(small, sizes)

    def inputs():
        return (
            {data for pair in all_pairs() for data in pair} if one_choice is normalized else small
        )

    return Domain(
        distribution=partial(distribution_at_largest, choose, sizes),
        pairs=all_pairs,
        check=within(LOSS),
        inputs=inputs,
        defined=lambda scores: without_impossible(one_choice(weights(scores, sizes))),
    )


def mean(sizes):
    return sum(sizes) // len(sizes)


def case_at_largest(mechanism, choose, one_choice, loss):
    right = partial(at_largest, choose, one_choice)
    crowd = right((3,) * 31, [CROWD])
    ranges = {
        f"the range at {sizes}": replace(right(sizes), check=within_range(LOSS), defined=None)
        for sizes in SIZES
    }
    at_one = ranges["the range at (1, 1)"]
    has_range = loss is RANGE
    other = {normalized: permute_and_flip, permute_and_flip: normalized}[one_choice]

    def fit(tenths, patch):
        distribution = one_choice(
            {i: math.exp((score - 9) / 4) for i, score in enumerate((3, 6, 9, 2))}
        )
        epsilon = Fraction(tenths, 10)
        return choices_fit(choose, (3, 6, 9, 2), (1, 2, 0, 1), (epsilon,), distribution)

    return Case(
        mechanism=mechanism,
        domains={slow_if(sizes == (1, 1, 1), str(sizes)): right(sizes) for sizes in SIZES}
        | {"a crowd that falls": crowd}
        | (ranges if has_range else {}),
        mutants=(
            {"a lost factor two, by the range": Mutant(at_one, times_two(exponential, "_rate"))}
            if has_range
            else {}
        )
        | {
            "a lost factor two": Mutant(right((1, 1)), times_two(exponential, "_rate")),
            "a lost factor two before a crowd": Mutant(crowd, times_two(exponential, "_rate")),
            "the other mechanism": Mutant(
                right((2, 1)),
                distribution=at_largest(choose, other, (2, 1)).defined,
                check=check_distribution,
            ),
            **{
                f"{name} sensitivity": Mutant(right(sizes), changed(exponential, "_size", wrong))
                for name, sizes, wrong in [
                    ("the least", (1, 3), min),
                    ("the mean", (1, 3, 3), mean),
                    ("no", (1, 3), lambda sizes: 1),
                ]
            },
        },
        loss=loss,
        says="with probability 95 %, the chosen score is at most 16.38 below the largest "
        "(3 candidates, epsilon = 1)",
        fits=fit,
        tight={} if has_range else {"a range of epsilon": at_one},
    )


RANGE = PrivacyLoss(EPSILON, rho=EPSILON**2 / 8, bounded_range=EPSILON)
AT_LARGEST = [
    case_at_largest(exponential.EXPONENTIAL, exponential.exponential, normalized, RANGE),
    case_at_largest(exponential.RNM_GUMBEL, exponential.exponential, normalized, RANGE),
    case_at_largest(exponential.PNF, exponential.pnf, permute_and_flip, PURE),
]


# Randomised response: any table may be the neighbour of any other.

Q = Fraction(1, 3)


def response_distribution(scores):
    distribution, unfinished = distribution_of(
        lambda path: response.k_randomised_response(scores, (1,) * len(scores), EPSILON, path),
        PowersOf(Q, EPSILON),
    )
    assert unfinished == 0
    return distribution


def defined_response(scores):
    """Each of the best in turn, with odds exp(epsilon) : 1 against each of the others."""
    n, best = len(scores), [i for i, score in enumerate(scores) if score == max(scores)]
    distribution = Counter()
    for true, i in product(best, range(n)):
        distribution[i] += (1 / Q if i == true else 1) / (1 / Q + n - 1) / len(best)
    return distribution


def responses_of(n):
    every = list(product((0, 1, Fraction(3, 2)), repeat=n))
    return Domain(
        response_distribution,
        lambda: product(every, repeat=2),
        within(1 / Q),
        lambda: every,
        defined_response,
    )


def fit_responses(tenths, patch):
    p = 1 / (math.e**2 + 3)
    distribution = {0: p, 1: math.e**2 * p, 2: p, 3: p}
    choose = response.k_randomised_response
    return choices_fit(choose, (1, 5, 2, 4), (1,) * 4, (Fraction(tenths, 5),), distribution)


RESPONSE = Case(
    mechanism=response.K_RANDOMISED_RESPONSE,
    domains={f"{n} candidates": responses_of(n) for n in (1, 2, 3, 4)},
    mutants={
        "twice the rate": Mutant(
            responses_of(3),
            changed(response, "_odds", lambda n, e: Odds((((1, 0),), ((n - 1, 1),)), 2 * e)),
        ),
        "a forgotten number of candidates": Mutant(
            responses_of(3),
            changed(response, "_odds", lambda n, e: Odds((((1, 0),), ((1, 1),)), e)),
        ),
    },
    loss=PURE,
    says="with probability 57.6116884 %, no score is larger than the chosen one "
    "(3 candidates, epsilon = 1)",
    fits=fit_responses,
)

CASES = [*AT_LARGEST, RESPONSE]

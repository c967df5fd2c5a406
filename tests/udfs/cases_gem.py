"""Choices by normalised scores: distributions, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product

from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.select import gem
from dp_sql.udfs.select import normalized as scaling
from tests.udfs.cases_select import HALF, PURE, choices_fit
from tests.udfs.choices import (
    BETA,
    EPSILON,
    PowersOf,
    distribution_on_grid,
    neighbours,
    without_impossible,
)
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    check_distribution,
    slow_if,
    times_two,
    within,
)
from tests.udfs.test_normalized import defined
from tests.udfs.test_permute_and_flip import permute_and_flip

# Normalised scores: gem, mgem, and combined_gem, which is one of the two as a coin falls.

GEM_SIZES = [(1, 1), (1, 3), (0, 1), (0, 0), (0, 2, 3), (Fraction(1, 2), 2, Fraction(7, 3))]
BETAS = [Fraction(1, 20), Fraction(99, 100)]
"""A large shift and a small one."""
GRIDS = [1, 3]
"""Coarse grids, so that exp(epsilon) = 2**(2 * grid) is a small number."""
CHOOSE = {gem.LOW: gem.gem, gem.HIGH: gem.mgem}


def shift(n, beta, grid, epsilon=EPSILON):
    return Fraction(math.ceil(grid * 2 / epsilon * math.log(n / beta)), grid)


def weights_on_grid(scores, sizes, at, grid, q=HALF):
    """The weights of the definition, the best one being 1."""
    behind = defined(scores, sizes, at, grid)
    least = min(b for b in behind if b is not None)
    return {i: q ** (b - least) for i, b in enumerate(behind) if b is not None}


def shipped_gem(side, scores, sizes, beta, grid):
    return distribution_on_grid(
        lambda draws: CHOOSE[side](scores, sizes, EPSILON, beta, draws), grid
    )


def gem_tables(n):
    return product((0, 1, 3, 8) if n < 3 else (0, 2, 7), repeat=n)


def gem_neighbours(sizes):
    moves = (-1, Fraction(-1, 3), 0, 1) if len(sizes) < 3 else (-1, Fraction(1, 3), 1)
    return neighbours(gem_tables(len(sizes)), sizes, moves)


def on_grid(side, sizes, beta, grid, seen=None):
    """A domain; the mechanism may see other sensitivities than those that neighbours have."""

    def defined_distribution(scores):
        at = side * shift(len(sizes), beta, grid)
        return without_impossible(permute_and_flip(weights_on_grid(scores, sizes, at, grid)))

    return Domain(
        distribution=lambda scores: shipped_gem(side, scores, seen or sizes, beta, grid),
        pairs=lambda: gem_neighbours(sizes),
        check=within(HALF ** (-2 * grid)),
        inputs=lambda: gem_tables(len(sizes)),
        defined=defined_distribution,
    )


CLOSE_SIZES = (1, 4, 1, 4, 4, 4, 4)
CLOSE_TABLES = ((14, 31, -5, 23, 23, 23, 23), (15, 27, -6, 27, 27, 27, 27))
"""Neighbours that use six sevenths of epsilon: two leaders, and a crowd near one of them."""


def close_pair(side):
    """The pair, with scores that make up for what the shift does to them."""
    moved = side * shift(len(CLOSE_SIZES), BETA, 1)
    pair = [
        tuple(score + moved * size for score, size in zip(table, CLOSE_SIZES, strict=True))
        for table in CLOSE_TABLES
    ]
    return Domain(
        lambda table: shipped_gem(side, table, CLOSE_SIZES, BETA, 1),
        lambda: [tuple(pair)],
        within(HALF**-2),
    )


lose_the_factor_two = times_two(scaling, "_rate")


def alone(table):
    """Wrong: a candidate judged by its shortfall, in sensitivities, without the others."""
    behind = [2 * (max(table) - u) // size for u, size in zip(table, (1, 3), strict=True)]
    return permute_and_flip({i: HALF ** int(b) for i, b in enumerate(behind)})


def real_gem(side, scores, sizes, epsilon):
    """The distribution on the grid that is shipped, in floating point."""
    at = side * shift(len(sizes), BETA, 1024, epsilon)
    q = math.exp(-float(epsilon) / 2048)
    return permute_and_flip(weights_on_grid(scores, sizes, at, 1024, q))


def at_tenths(tenths, patch):
    right = scaling._rate
    patch.setattr(scaling, "_rate", lambda *given: right(*given) * Fraction(tenths, 10))


def gem_case(mechanism, side, scores, unit):
    def fit(tenths, patch):
        at_tenths(tenths, patch)
        distribution = real_gem(side, scores, (1, 2, 4), HALF)
        return choices_fit(CHOOSE[side], scores, (1, 2, 4), (HALF, BETA), distribution, 14_000)

    one = Fraction(1, 5)
    ignored = [(sizes, grid) for sizes in [(1, 9), (2, 1, 8), (0, 1)] for grid in GRIDS]
    return Case(
        mechanism=mechanism,
        domains={
            slow_if(
                (len(sizes) > 2 or beta != BETA) and grid > 1, f"{sizes}, beta {beta}, grid {grid}"
            ): on_grid(side, sizes, beta, grid)
            for sizes, beta, grid in product(GEM_SIZES, BETAS, GRIDS)
        }
        | {"the close pair": close_pair(side)},
        mutants={
            "a lost factor two": Mutant(close_pair(side), lose_the_factor_two),
            "each candidate alone": Mutant(on_grid(side, (1, 3), BETA, 2), distribution=alone),
            "the other side": Mutant(
                on_grid(side, (1, 3), BETA, 1),
                distribution=on_grid(-side, (1, 3), BETA, 1).distribution,
                check=check_distribution,
            ),
            **{
                f"ignored sensitivities {sizes}, grid {grid}": Mutant(
                    on_grid(side, sizes, BETAS[1], grid),
                    distribution=on_grid(
                        side, sizes, BETAS[1], grid, seen=(one,) * len(sizes)
                    ).distribution,
                )
                for sizes, grid in ignored
            },
        },
        loss=PURE,
        says="with probability 95 %, no other score exceeds the chosen one by more than "
        f"16.38 times {unit} (3 candidates, epsilon = 1)",
        fits=fit,
    )


GEM = gem_case(gem.GEM, gem.LOW, (4, 6, 7), "that other candidate's sensitivity")
MGEM = gem_case(gem.MGEM, gem.HIGH, (24, 22, 7), "the chosen candidate's sensitivity")

COMBINED_LOSS = HALF**-4
"""exp(epsilon) on a grid of 1, so that one step of the choice at epsilon/2 is q = 1/2."""
COMBINED_Q_OF = PowersOf(HALF, EPSILON / 4)
COMBINED_SIZES = [*GEM_SIZES[:-1], (Fraction(1, 2), 2, 1)]


def shipped_combined(scores, sizes, beta):
    return distribution_on_grid(
        lambda draws: gem.combined_gem(scores, sizes, EPSILON, beta, draws), 1, HALF
    )


def is_positive(scores, sizes):
    """Spearman's correlation by its definition: the covariance of mean ranks."""

    def ranks(values):
        return [
            Fraction(sum(v < u for v in values) + sum(v <= u for v in values), 2) for u in values
        ]

    x, y = ranks(scores), ranks(sizes)
    return sum(a * b for a, b in zip(x, y, strict=True)) > sum(x) * sum(y) / len(x)


def defined_combined(scores, sizes, beta):
    positive, q, distribution = is_positive(scores, sizes), COMBINED_Q_OF[EPSILON / 2], Counter()
    for says, choose in ((True, gem.mgem), (False, gem.gem)):
        here = (1 if says == positive else q) / (1 + q)
        one_side = distribution_on_grid(
            lambda draws, choose=choose: choose(scores, sizes, EPSILON / 2, beta, draws), 1, HALF
        )
        for i, p in one_side.items():
            distribution[i] += here * p
    return distribution


def combined(sizes, beta, pairs=None):
    return Domain(
        distribution=partial(shipped_combined, sizes=sizes, beta=beta),
        pairs=pairs or (lambda: gem_neighbours(sizes)),
        check=within(COMBINED_LOSS),
        inputs=(lambda: gem_tables(len(sizes))) if pairs is None else tuple,
        defined=partial(defined_combined, sizes=sizes, beta=beta),
    )


COMBINED_PAIR = combined((1, 0, 4, 2), BETAS[1], lambda: [((16, 28, 28, 26), (15, 28, 24, 26))])
"""Neighbours that use three quarters of epsilon: both steps tell them apart."""


def break_the_response(patch):
    right = gem._respond
    patch.setattr(gem, "_respond", lambda truth, epsilon, draws: right(truth, 2 * epsilon, draws))


def skip_the_response(patch):
    patch.setattr(gem, "_respond", lambda truth, epsilon, draws: truth)


def give_the_choice_all(patch):
    right = gem.blocks_of
    patch.setattr(gem, "blocks_of", lambda q, at, _, beta, side: right(q, at, EPSILON, beta, side))


def fit_combined(tenths, patch):
    right = gem._respond
    at_tenths(tenths, patch)
    patch.setattr(gem, "_respond", lambda x, e, draws: right(x, e * Fraction(tenths, 10), draws))
    scores, sizes, q, distribution = (10, 30, 7, 40), (1, 2, 3, 4), math.exp(-0.5), Counter()
    for here, side in ((1, gem.HIGH), (q, gem.LOW)):
        for i, p in real_gem(side, scores, sizes, HALF).items():
            distribution[i] += here / (1 + q) * p
    return choices_fit(gem.combined_gem, scores, sizes, (EPSILON, BETA), distribution, 14_000)


COMBINED = Case(
    mechanism=gem.COMBINED_GEM,
    domains={
        slow_if(len(sizes) > 2 and beta != BETA, f"{sizes}, beta {beta}"): combined(sizes, beta)
        for sizes, beta in product(COMBINED_SIZES, BETAS)
    }
    | {"the close pair": COMBINED_PAIR},
    mutants={
        "a response at twice its rate": Mutant(COMBINED_PAIR, break_the_response),
        "no response": Mutant(COMBINED_PAIR, skip_the_response),
        "a choice that takes all of epsilon": Mutant(COMBINED_PAIR, give_the_choice_all),
    },
    loss=PrivacyLoss(HALF) + PrivacyLoss(HALF),
    says="with probability 95 %, no other score exceeds the chosen one by more than 32.76 "
    "times the larger of the two candidates' sensitivities (3 candidates, epsilon = 1)",
    fits=fit_combined,
)

CASES = [GEM, MGEM, COMBINED]

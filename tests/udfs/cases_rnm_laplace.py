"""Selections by noise: their distributions in closed form, neighbours and mutants."""

import math
from fractions import Fraction
from functools import cache, partial
from itertools import product

import pytest

from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.select import rnm_laplace
from tests.udfs.choices import neighbours
from tests.udfs.conformance import Case, Domain, Mutant, changed, slow_if, times_two, within
from tests.udfs.distributions import draws_fit

EPSILON = Fraction(1)
BETA = Fraction(1, 20)

# The noise, by its definition.


def noise_is(x, q):
    return (1 - q) / (1 + q) * q ** abs(x)


@cache
def noise_is_at_most(x, q):
    return q**-x / (1 + q) if x <= 0 else 1 - q ** (x + 1) / (1 + q)


# Report noisy max. exp(-EPSILON / (2 * grid)) is a third: whatever the rate is, a distribution that is
# private for it is a theorem.

Q = Fraction(1, 3)


class Compared(Exception):
    """What a selection handed on to `noisy_best`, in its arguments."""


def compared(module, choose, scores, sizes, grid, draws):
    """What the shipped mechanism compares on a coarse grid."""

    def compare(tries, *rest):
        raise Compared(tries, *rest[:-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "grid_of", lambda epsilon: grid)
        patch.setattr(module, "noisy_best", compare)
        with pytest.raises(Compared) as caught:
            choose(scores, sizes, EPSILON, draws)
    return caught.value.args


def distribution_of_starts(starts, q):
    """P(i has the largest start plus noise, first among equals), summed exactly.

    From the largest start on, every factor is linear in q**value; up to the least, each is a
    power; in between there are finitely many values.
    """
    low, high, m = min(starts), max(starts), len(starts)
    distribution = {}
    for i, start in enumerate(starts):
        # The others have to stay at or below value - late[j].
        late = [int(j < i) for j in range(m)]

        def wins(value, i=i, start=start, late=late):
            others = (noise_is_at_most(value - late[j] - starts[j], q) for j in range(m) if j != i)
            return noise_is(value - start, q) * math.prod(others)

        total = wins(low) / (1 - q**m)
        total += sum(wins(value) for value in range(low + 1, high + 1))
        coefficients = [Fraction(0), (1 - q) / (1 + q) * q**-start]
        for j in range(m):
            if j != i:
                slope = -(q ** (1 - late[j] - starts[j])) / (1 + q)
                shifted = [Fraction(0), *(slope * c for c in coefficients)]
                coefficients = [
                    c + s for c, s in zip([*coefficients, Fraction(0)], shifted, strict=True)
                ]
        total += sum(
            c * q ** ((high + 1) * k) / (1 - q**k) for k, c in enumerate(coefficients) if k
        )
        distribution[i] = total
    assert sum(distribution.values()) == 1
    return distribution


def choice_distribution(sizes, grid, scores):
    """The distribution of what the shipped mechanism compares; Q is exp(-EPSILON / (2 * grid))."""
    choose = rnm_laplace.rnm_laplace
    tries, starts, steps, rate = compared(rnm_laplace, choose, scores, sizes, grid, None)
    assert list(tries) == list(range(len(scores)))
    assert steps == [1] * len(scores)
    power = rate / (EPSILON / (2 * grid))
    assert power.denominator == 1
    return distribution_of_starts(starts, Q**power.numerator)


def tables(sizes):
    return product(range(3), repeat=len(sizes))


def noisy_max(sizes, grid, pairs=None):
    return Domain(
        distribution=partial(choice_distribution, sizes, grid),
        pairs=lambda: pairs or neighbours(tables(sizes), sizes),
        check=within(Q ** (-2 * grid)),
        inputs=lambda: pairs[0] if pairs else tables(sizes),
        defined=lambda scores: distribution_of_starts(
            [math.floor(grid * Fraction(score) / max(sizes)) for score in scores], Q
        ),
    )


def crowd_of(n):
    """Neighbours that use much of epsilon: one candidate rises while all others fall."""
    return (0, *[2] * n), (1, *[1] * n)


SIZES = [(1, 1), (1, 3), (0, 2), (2, 1, 0), (Fraction(1, 2), 2, Fraction(7, 3))]
GRIDS = [1, 2]


def fit_noisy_max(tenths, patch):
    right = rnm_laplace._rate
    patch.setattr(rnm_laplace, "grid_of", lambda epsilon: 8)
    patch.setattr(rnm_laplace, "_rate", lambda *given: right(*given) * Fraction(tenths, 10))
    scores = 4, 3, 0
    choose = partial(rnm_laplace.rnm_laplace, scores, (1,) * 3, EPSILON, secret_draws())
    distribution = distribution_of_starts([8 * s for s in scores], Fraction(math.exp(-1 / 16)))
    return draws_fit(choose, 20_000, distribution)


RNM_LAPLACE = Case(
    mechanism=rnm_laplace.RNM_LAPLACE,
    domains={
        slow_if(len(sizes) > 2 and grid > 1, f"{sizes}, grid {grid}"): noisy_max(sizes, grid)
        for sizes, grid in product(SIZES, GRIDS)
    }
    | {f"a crowd, grid {grid}": noisy_max((1,) * 31, grid, [crowd_of(30)]) for grid in GRIDS},
    mutants={
        f"{name}, grid {grid}": Mutant(domain, tamper)
        for grid in GRIDS
        for name, domain, tamper in [
            ("the least sensitivity", noisy_max((1, 9), grid), changed(rnm_laplace, "_scale", min)),
            (
                "the mean sensitivity",
                noisy_max((1, 9), grid),
                changed(rnm_laplace, "_scale", lambda sizes: -(-sum(sizes) // len(sizes))),
            ),
            (
                "a lost factor two",
                noisy_max((1,) * 31, grid, [crowd_of(30)]),
                times_two(rnm_laplace, "_rate"),
            ),
        ]
    },
    loss=PrivacyLoss(EPSILON),
    says="with probability 95 %, the chosen score is at most 28.37 below "
    "the largest (3 candidates, epsilon = 1)",
    fits=fit_noisy_max,
)

CASES = [RNM_LAPLACE]

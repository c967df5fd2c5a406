"""Report noisy max with noise for each candidate's own sensitivity (RNM_H) is NOT private.

It exists in this file only. Antonova et al. 2025, section IV-A and appendix A, give the
counterexamples; here the noise is discrete, with q**(1/l) per step for sensitivity l, and the
distributions are enclosed between fractions, so that a rejection is a proof.
"""

from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from dp_sql.udfs.select.exponential import exponential, pnf
from dp_sql.udfs.select.gem import combined_gem, gem, mgem
from dp_sql.udfs.select.k_randomised_response import k_randomised_response
from tests.udfs.choices import BETA, EPSILON, PowersOf, distribution_of_choice, distribution_on_grid
from tests.udfs.distributions import NotPrivateError, check_neighbours

pytestmark = pytest.mark.pure

ROOT, STEPS = Fraction(1, 4), 2
"""exp(-epsilon / (2 l)) is ROOT**(STEPS / l): rational for the sensitivities 1 and 2."""

Q = ROOT**STEPS
LOSS = Q**-2
FAR = 40
"""Noise beyond this is left out, and bounded."""


def geometric(q):
    """One-sided noise, the discrete exponential."""
    return {x: (1 - q) * q**x for x in range(FAR)}


def laplace(q):
    return {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-FAR + 1, FAR)}


@cache
def noise(kind, size):
    return kind(ROOT ** (STEPS // size)) if size else {0: Fraction(1)}


@cache
def rnm_h(kind, scores, sizes):
    """P(i) at least, ties broken uniformly; and the probability of noise that is left out."""
    noisy = [
        {score + x: p for x, p in noise(kind, size).items()}
        for score, size in zip(scores, sizes, strict=True)
    ]
    distribution = {i: Fraction(0) for i in range(len(scores))}
    for i, own in enumerate(noisy):
        others = [distribution for j, distribution in enumerate(noisy) if j != i]
        for at, p in own.items():
            ties = [Fraction(1)]  # ties[k]: k others are equal, and none is ahead
            for other in others:
                below = sum((p for x, p in other.items() if x < at), Fraction(0))
                equal = other.get(at, Fraction(0))
                ties = [a * below + b * equal for a, b in zip([*ties, 0], [0, *ties], strict=True)]
            distribution[i] += p * sum((t / (k + 1) for k, t in enumerate(ties)), Fraction(0))
    return distribution, 1 - sum(distribution.values())


def check_enclosed(distribution, pairs, factor):
    """Raise only if the true distributions, which lie within the enclosures, break the bound."""
    for pair in pairs:
        for (low, _), (other, missing) in (
            map(distribution, pair),
            map(distribution, reversed(pair)),
        ):
            for i, p in low.items():
                if p > factor * (other[i] + missing):
                    raise NotPrivateError(f"{pair}: {i}")


def check_rnm_h(kind, sizes, pair):
    check_enclosed(lambda scores: rnm_h(kind, scores, sizes), [pair], LOSS)


TWO = (0, 1), ((0, 1), (0, 0))
"""One candidate that depends on no one, and one that is just ahead, or level with it."""

CROWD = (0, 1, 1, 1, 1), ((0, 1, 1, 1, 1), (0, 0, 0, 0, 0))
"""The same with a crowd: all of them rise at once, and no noise of the first makes up for it."""

POSITIVE = (1, 2, 2, 2, 2), ((2, 6, 6, 6, 6), (3, 4, 4, 4, 4))
"""Nobody is public here."""


def test_one_sided_noise_for_each_sensitivity_is_private_for_no_epsilon():
    sizes, (ahead, level) = TWO
    (low, missing), (level_low, _) = rnm_h(geometric, ahead, sizes), rnm_h(geometric, level, sizes)
    assert low[0] == 0, "the noise is never negative"
    assert low[0] + low[1] + missing == 1
    assert level_low[0] > Fraction(1, 10)
    for epsilons in (1, 5):
        with pytest.raises(NotPrivateError):
            check_enclosed(lambda s: rnm_h(geometric, s, sizes), [TWO[1]], LOSS**epsilons)


@pytest.mark.thorough
def test_two_sided_noise_for_each_sensitivity_is_not_private():
    for sizes, pair in (CROWD, POSITIVE):
        with pytest.raises(NotPrivateError):
            check_rnm_h(laplace, sizes, pair)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_loss_of_two_sided_noise_grows_with_the_crowd(n):
    """It is epsilon/2 for each of the crowd, as the appendix says."""
    sizes = (0,) + (1,) * (n - 1)
    (ahead, missing), (level, _) = (
        rnm_h(laplace, (0,) + (rise,) * (n - 1), sizes) for rise in (2, 1)
    )
    assert missing < Q**FAR * 2 * n
    ratio = level[0] / ahead[0]
    assert ratio > Q ** -(n - 1) / 2


def right_distributions():
    """Each selection that is private, as a distribution of (scores, sizes)."""
    steps = PowersOf(ROOT, EPSILON / 4)

    def on_scores(choose):
        return lambda scores, sizes: distribution_of_choice(
            lambda path: choose(scores, sizes, EPSILON, path), steps
        )

    def on_a_grid(choose, share):
        return lambda scores, sizes: distribution_on_grid(
            lambda path: choose(scores, sizes, EPSILON, BETA, path), 1, share
        )

    for choose in (exponential, pnf, k_randomised_response):
        yield choose.__name__, on_scores(choose), LOSS
    for choose in (gem, mgem):
        yield choose.__name__, on_a_grid(choose, 1), Fraction(1, 2) ** -2
    yield "combined_gem", on_a_grid(combined_gem, Fraction(1, 2)), Fraction(1, 2) ** -4


RIGHT = [
    pytest.param(distribution, loss, id=name) for name, distribution, loss in right_distributions()
]


@pytest.mark.parametrize(("distribution", "loss"), RIGHT)
def test_the_same_neighbours_cannot_be_told_apart_by_what_is_shipped(distribution, loss):
    for sizes, pair in (TWO, CROWD, POSITIVE):
        check_neighbours(lambda scores, at=sizes: distribution(scores, at), [pair], loss)


@pytest.mark.thorough
def test_the_same_noise_for_all_is_private_here():
    """The enclosed distributions are not what fails: with the largest sensitivity for all they pass."""
    for kind, (sizes, pair) in product((geometric, laplace), (TWO, CROWD, POSITIVE)):
        check_rnm_h(kind, (max(sizes),) * len(sizes), pair)

"""Counts and sums under a bound that is chosen or given: small data, all neighbours, mutants."""

import math
from fractions import Fraction
from functools import cache, partial
from itertools import chain

import pytest

from dp_sql.udfs.contributions import bound, bounded_count, bounded_sum, histogram, release
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.udfs.cases_bound import (
    BETA,
    CHOICES,
    EPSILON,
    HALF,
    ROWS,
    SUMS,
    TIGHT,
    WRONG_CHOICES,
    added,
    columns,
    defined_choice,
)
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    times_two,
    within,
)
from tests.udfs.distributions import distribution_of, draws_fit

# A whole release under the bounds 1 and 2: exp(-epsilon/4) is 1/2.


NEAR = range(-5, 6)
"""The estimates that are compared."""


def laplace_probability(q, x):
    return (1 - q) / (1 + q) * q ** abs(x)


def released(mechanism, data, given=None):
    """The distribution of (estimate, bound).

    The noise, drawn step by step, is tested with discrete_laplace; here it is put on at its rate.
    """
    numbers = [EPSILON, BETA, 2, given]
    module, called_with = {
        "count": (bounded_count, [*columns(data, 3), *numbers]),
        "sum": (bounded_sum, [*columns(data), *numbers, False]),
    }[mechanism]
    rates = {}

    def no_noise(of, draws):
        (rates["last"],) = of
        return [0]

    def run(draws):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(release, "secret_draws", lambda: draws)
            found = module.run(*called_with)
        return found.estimate, found.contribution_bound, rates["last"]

    q_of = PowersOf(HALF, EPSILON / 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "_SUPPORT", HALF)
        patch.setattr(release, "discrete_laplaces", no_noise)
        exact, unfinished = distribution_of(run, q_of)
    assert unfinished == 0
    return {
        (x, at): p * laplace_probability(q_of[rate], x - kept)
        for (kept, at, rate), p in exact.items()
        for x in NEAR
    }


def defined_release(data):
    """The same, written down from the proof notes."""
    weights = defined_choice(data, 1, 16, 2)
    distribution = {}
    for place, weight in weights.items():
        at = 2**place
        kept = sum(max(-at, min(at, v)) for v in data)
        for x in NEAR:
            p = weight * laplace_probability(HALF ** (2 - place), x - kept)
            distribution[x, at] = p
    return distribution


def whole(mechanism, contributions, n_people=3, remember=True):
    distribution = cache(partial(released, mechanism)) if remember else partial(released, mechanism)
    return Domain(
        distribution,
        lambda: added(contributions, n_people),
        within(HALF**-4),
        inputs=lambda: chain.from_iterable(added(contributions, 2)),
        defined=defined_release,
    )


def under(mechanism, contributions, at):
    """A release under a bound that is given, and that all contributions keep to."""
    return Domain(
        lambda data: released(mechanism, data, at),
        lambda: added([v for v in contributions if abs(v) <= at], 3),
        within(HALF**-4),
    )


def unclipped(these, _):
    return these.totals()


def wrong_releases(mechanism, contributions):
    afresh = whole(mechanism, contributions, 2, remember=False)
    given = under(mechanism, contributions, 2)
    return {
        "contributions that are not clipped": Mutant(
            afresh, changed(histogram.Histograms, "clipped", unclipped)
        ),
        "contributions that are clipped at twice the bound": Mutant(
            afresh,
            changed(
                histogram.Histograms,
                "clipped",
                lambda these, i, right=histogram.Histograms.clipped: right(these, i + 1),
            ),
        ),
        "noise that forgets the bound": Mutant(
            given, changed(release, "noise_rate", lambda share, at: share)
        ),
        "noise for the whole of epsilon": Mutant(
            afresh, times_two(release, "noise_rate"), check=check_distribution
        ),
    }


# Draws.

CROWD = (1,) * 40 + (2,) * 9 + (3,) * 2
"""Whose bound may be 1, 2 or 4."""


def crowd_distribution():
    weights = dict.fromkeys(range(3), 0.0)
    above = [sum(v > 2**i for v in CROWD) for i in range(3)]
    for i in range(3):
        behind = [9 * (i - j) - above[j] for j in range(i)]
        weights[i] = math.exp(-max(0, above[i] - 9, *behind) / 4)
    distribution = {}
    for i, weight in weights.items():
        q, kept = math.exp(-1 / 2 ** (i + 1)), sum(min(2**i, v) for v in CROWD)
        p = weight / sum(weights.values())
        distribution |= {(kept + x, 2**i): p * laplace_probability(q, x) for x in range(-300, 301)}
    return distribution


def crowd_fits(name, tenths, patch):
    """The bound and the estimate of a crowd, at `tenths` of the rates."""
    for module, rate in ((bound, "_rate"), (release, "noise_rate")):
        right = getattr(module, rate)
        patch.setattr(
            module, rate, lambda *given, right=right: right(*given) * Fraction(tenths, 10)
        )
    given = [EPSILON, BETA, 4, None]
    drawn = {
        "count": lambda: bounded_count.run(*columns(CROWD, 3), *given),
        "sum": lambda: bounded_sum.run(*columns(CROWD), *given, True),
    }[name]

    def draw():
        release = drawn()
        return release.estimate, release.contribution_bound

    return draws_fit(draw, 6_000, crowd_distribution())


def case(mechanism, contributions, says):
    name = mechanism.function
    return Case(
        mechanism=mechanism,
        domains={
            **CHOICES,
            "a release": whole(name, contributions),
            "a release under 1": under(name, contributions, 1),
            "a release under 2": under(name, contributions, 2),
        },
        mutants={**WRONG_CHOICES, **wrong_releases(name, contributions)},
        loss=PrivacyLoss(EPSILON, rho=Fraction(5, 32), bounded_range=Fraction(3, 2)),
        says=says,
        fits=partial(crowd_fits, name),
        tight=TIGHT,
    )


CASES = [
    case(
        bounded_count.BOUNDED_COUNT,
        ROWS,
        "with probability 95 %, the estimate exceeds the true number of rows by at most 5.106 times "
        "the contribution bound, chosen from 1, 2, 4, … up to 64; a person's rows beyond the "
        "bound are not counted (epsilon = 1)",
    ),
    case(
        bounded_sum.BOUNDED_SUM,
        SUMS,
        "with probability 95 %, the noise is at most 6.492 times the contribution bound; the part "
        "of a person's net sum beyond the bound is not counted; with fewer than 90 people that "
        "part may be most of the sum unless you state contribution_bound (epsilon = 1)",
    ),
]

import math
from fractions import Fraction

import pytest

from dp_sql.udfs.count_distinct import r2t
from dp_sql.udfs.discrete_laplace import laplace_quantile
from tests.udfs.cases_bounded import GRAPH
from tests.udfs.cases_from_below import (
    BETA,
    EPSILON,
    UNIT,
    Preset,
    Q,
    at_least,
    draw_all,
    exactly,
    one_race,
)
from tests.udfs.distributions import distribution_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("cover", [(1, 2), (3, 3), (5, 7)])
def test_the_distribution_with_real_noise_is_the_definition(cover):
    """One bound, at three units per item. Outcomes above 0 need few draws, so none is left out."""
    distribution, unfinished = distribution_of(
        lambda draws: one_race(cover, 6 * UNIT, BETA, draws), {3 * UNIT: Q**3}, limit=30
    )
    assert unfinished < Q**50
    penalty = laplace_quantile(3 * UNIT, BETA) - 1
    got = {release.estimate: p for release, p in distribution.items() if 0 < release.estimate <= 10}
    assert got == {v: exactly(Q**3, v - cover[1] + penalty) for v in range(1, 11)}
    assert {release.contribution_bound for release in distribution} == {2, None}


@pytest.mark.parametrize("m", [*range(1, 40), 100, 1023, 1024, 1025])
def test_every_allowed_number_of_items_has_a_bound_at_most_twice_as_large(m):
    tried = r2t.bounds(m)
    assert tried == sorted(set(tried))
    assert tried[-1] == m
    assert len(tried) == max(1, math.ceil(math.log2(m)))
    assert all(any(items <= bound <= 2 * items for bound in tried) for items in range(1, m + 1))


def test_the_bounds_of_a_power_of_two_are_those_of_the_paper():
    assert r2t.bounds(64) == [2, 4, 8, 16, 32, 64]


@pytest.fixture
def preset(monkeypatch):
    monkeypatch.setattr(r2t, "discrete_laplaces", draw_all)


def test_each_bound_gets_its_part_of_epsilon_and_of_beta(preset):
    draws = Preset([0] * 7)
    one_race([50] * 100, Fraction(1), BETA, draws)
    assert draws.rates == [Fraction(1, 7 * bound) for bound in (2, 4, 8, 16, 32, 64, 100)]
    for rate in draws.rates:
        q, fails_above = math.exp(-rate), r2t._penalty(rate, BETA, 7)
        assert at_least(q, fails_above + 1) <= BETA / 7 < at_least(q, fails_above)


@pytest.mark.parametrize("noise", [[0, 0, 0, 0], [9, 2, 30, 4], [1, 20, 3, 4]])
def test_each_of_several_counts_has_noise_of_its_own(preset, noise):
    covers, both = [(2, 3, 5), (2, 3, 7)], Preset(noise)
    counts = [[cover[bound - 1] for bound in (2, 3)] for cover in covers]
    alone = [Preset(noise[:2]), Preset(noise[2:])]
    found = r2t.release_each(counts, EPSILON, BETA, 3, both)
    assert found == [
        one_race(cover, EPSILON, BETA, draws) for cover, draws in zip(covers, alone, strict=True)
    ]
    assert both.rates == alone[0].rates + alone[1].rates


@pytest.mark.parametrize("beta", [Fraction(1, 3), BETA, Fraction(1, 10**6)])
@pytest.mark.parametrize("m", [1, 2, 3, 16, 100])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
def test_the_penalty_is_below_that_of_the_paper(epsilon, m, beta):
    n = len(r2t.bounds(m))
    for bound in r2t.bounds(m):
        penalty = r2t._penalty(epsilon / (n * bound), beta, n)
        assert 0 <= penalty < n * bound / epsilon * Fraction(math.log(n / beta))


@pytest.mark.parametrize("beta", [Fraction(2, 5), BETA])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("cover", [[9], [0, 0], [30, 40, 41], [100] * 100, list(range(1, 101))])
def test_the_estimate_exceeds_the_truth_as_rarely_as_beta_says(cover, epsilon, beta):
    tried, truth = r2t.bounds(len(cover)), cover[-1]
    safe = 1.0
    for bound in tried:
        rate = epsilon / (len(tried) * bound)
        excess = truth + r2t._penalty(rate, beta, len(tried)) - cover[bound - 1]
        safe *= 1 - at_least(math.exp(-rate), excess + 1)
    assert 1 - safe <= beta
    if cover[0] == truth:  # then nothing is given away but the integers
        least = math.exp(-epsilon / len(tried)) * beta
        assert 1 - safe >= 1 - (1 - least / len(tried)) ** len(tried)


@pytest.mark.parametrize("noise", [0, 1])
def test_the_estimate_falls_no_further_than_the_shortfall_says(preset, noise):
    cover = [1000 + at for at in range(1, 101)]
    tried = r2t.bounds(100)
    lowest = [r2t._penalty(Fraction(1, 7 * bound), BETA, 7) + noise for bound in tried]
    release = one_race(cover, Fraction(1), BETA, Preset([-x for x in lowest]))
    short = [r2t.shortfall(bound, Fraction(1), BETA, 100) for bound in tried]
    promised = max(cover[bound - 1] - x for bound, x in zip(tried, short, strict=True))
    assert release.estimate == promised - noise
    assert release.lower_bound == release.estimate
    assert release.contribution_bound == 2


def test_the_loss_is_that_of_all_bounds_together():
    loss = r2t.loss(Fraction(1, 3), BETA, 100)
    assert (loss.epsilon, loss.delta, loss.rho) == (Fraction(1, 3), 0, Fraction(1, 126))
    assert r2t.loss(Fraction(1), BETA, 1).rho == Fraction(1, 2)


def test_one_bound_has_one_shortfall():
    says = r2t.accuracy(Fraction(1), BETA, 2)
    assert f"at most {r2t.shortfall(2, Fraction(1), BETA, 2)} below it" in says
    assert "rising" not in says
    assert "rising" in r2t.accuracy(Fraction(1), BETA, 3)


# With the flow.


@pytest.mark.parametrize(("m", "bound"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_a_very_large_epsilon_gives_the_count_under_the_best_bound(m, bound):
    release = r2t.R2T.run(*GRAPH, Fraction(10**4), BETA, m)
    assert (release.estimate, release.lower_bound) == ((3, 3) if m == 1 else (4, 4))
    assert release.contribution_bound == bound


@pytest.mark.parametrize("bad", [0, 1, 3, 101])
def test_a_shortfall_under_a_bound_that_does_not_run_is_refused(bad):
    with pytest.raises(ValueError, match="bound must be one of"):
        r2t.shortfall(bad, EPSILON, BETA, 100)

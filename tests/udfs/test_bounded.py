"""The choice of a contribution bound, by each of BOUND_SELECTIONS, and what a release costs."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import PrivacyLoss, exponential_loss
from dp_sql.udfs.select import exponential
from dp_sql.udfs.select.normalized import grid_of
from tests.udfs.cases_gem import (
    break_the_response,
    give_the_choice_all,
    is_positive,
    lose_the_factor_two,
    shift,
    skip_the_response,
)
from tests.udfs.cases_gem import weights_on_grid as weights
from tests.udfs.choices import EPSILON, PowersOf, distribution_of_choice, distribution_on_grid
from tests.udfs.distributions import NotPrivateError, check_neighbours, normalized

pytestmark = pytest.mark.pure

HALF = Fraction(1, 2)
BETAS = [Fraction(1, 20), Fraction(49, 100)]
SIDES = {"gem": 1, "mgem": -1}
SELECTIONS = ["gem", "mgem", "combined_gem"]
"""All but rnm, which does not look at normalised scores; it is tested at the end."""

each = pytest.mark.parametrize("selection", SELECTIONS)


def share_of(selection):
    """The part of the choice's epsilon that the exponential mechanism has."""
    return HALF if selection == "combined_gem" else Fraction(1)


def shipped_distribution(cover, selection, beta, grid=1):
    """The distribution of the bound when EPSILON is spent on it and the noise is left out."""

    def run(path):
        return bounded.release(cover, 2 * EPSILON, beta, selection, path).contribution_bound

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "discrete_laplaces", lambda rates, draws: [0] * len(rates))
        return distribution_on_grid(run, grid, share_of(selection))


def defined_distribution(cover, selection, beta, grid):
    fine = grid_of(2 * EPSILON)
    cost = Fraction(math.ceil(fine * math.log(1 / (2 * beta))), fine)
    bounds = range(1, len(cover) + 1)
    worth = [n - cost * at for n, at in zip(cover, bounds, strict=True)]
    sides = (
        {SIDES[selection]: Fraction(1)} if selection in SIDES else responses(worth, bounds, grid)
    )
    distribution = Counter()
    for side, here in sides.items():
        at = side * shift(len(bounds), beta, grid, EPSILON * share_of(selection))
        for i, p in normalized(weights(worth, bounds, at, grid)).items():
            distribution[bounds[i]] += here * p
    return distribution


def responses(worth, bounds, grid):
    """The distribution of the side that combined_gem takes: mgem, -1, if the correlation is positive."""
    side, q = -1 if is_positive(worth, bounds) else 1, HALF ** (2 * grid)
    return {side: 1 / (1 + q), -side: q / (1 + q)}


COVERS = [*product((0, 2, 3), (2, 6)), (4, 4, 5), (1, 6, 7), (0, 0, 0), (9, 3, 9)]


@pytest.mark.parametrize("beta", BETAS)
@each
def test_the_choice_is_the_exponential_mechanism_on_the_scores_of_its_name(selection, beta):
    for cover, grid in product(COVERS, (1, 3)):
        distribution = shipped_distribution(cover, selection, beta, grid)
        assert distribution == defined_distribution(cover, selection, beta, grid)


def neighbours(cover):
    """Counts that one person may lead to: bound l moves by at most l, either way."""
    return product(*(sorted({n - at, n, n + at}) for at, n in enumerate(cover, start=1)))


def loss_of(selection):
    """exp(EPSILON) on a grid of 1."""
    return HALF ** (-2 / share_of(selection)).numerator


def check_choice(selection, pairs):
    for beta in BETAS:
        check_neighbours(
            lambda cover, at=beta: shipped_distribution(cover, selection, at),
            pairs,
            loss_of(selection),
        )


@pytest.mark.one_in(3)
@each
def test_the_choice_does_not_distinguish_neighbours(selection):
    check_choice(selection, [(cover, near) for cover in COVERS for near in neighbours(cover)])


CLOSE = {
    "gem": ((36, 5, 52, 42, 60, 55), (35, 7, 55, 38, 55, 55)),
    "mgem": ((0, 55, 55, 43, 42, 41), (1, 53, 52, 47, 37, 47)),
    "combined_gem": ((3, 53, 0, 41, 45, 9), (3, 53, 3, 41, 40, 3)),
}
"""Neighbours that need much of epsilon."""


def test_neighbours_that_need_much_of_epsilon_have_it():
    for selection, pair in CLOSE.items():
        check_choice(selection, [pair])


@pytest.mark.parametrize(
    ("selection", "wrong"),
    [
        ("gem", lose_the_factor_two),
        ("mgem", lose_the_factor_two),
        ("combined_gem", break_the_response),
        ("combined_gem", skip_the_response),
        ("combined_gem", give_the_choice_all),
    ],
)
def test_a_choice_that_takes_more_than_its_share_is_not_private(selection, wrong, monkeypatch):
    wrong(monkeypatch)
    with pytest.raises(NotPrivateError):
        check_choice(selection, [CLOSE[selection]])


@pytest.mark.parametrize("selection", SIDES)
def test_the_losses_of_a_choice_lie_within_a_range_of_its_epsilon(selection):
    """So that the choice costs an eighth of epsilon squared."""
    for cover in COVERS:
        p = shipped_distribution(cover, selection, BETAS[0])
        for near in neighbours(cover):
            other = shipped_distribution(near, selection, BETAS[0])
            ratios = [p[i] / other[i] for i in p]
            assert max(ratios) <= loss_of(selection) * min(ratios)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3)])
def test_each_selection_has_its_price(epsilon):
    half, quarter = epsilon / 2, epsilon / 4
    noise, weighed = PrivacyLoss(half), exponential_loss(half)
    price = {selection: bounded.loss(epsilon, BETAS[0], 5, selection) for selection in SELECTIONS}
    assert price["gem"] == price["mgem"] == replace(noise + weighed, bounded_range=3 * half)
    assert bounded.loss(epsilon, BETAS[0], 5, "rnm") == price["gem"]
    assert price["combined_gem"] == noise + PrivacyLoss(quarter) + exponential_loss(quarter)
    assert bounded.loss(epsilon, BETAS[0], 5, 3) == PrivacyLoss(epsilon)
    assert {loss.epsilon for loss in price.values()} == {epsilon}


def test_the_choice_gets_what_the_noise_leaves(monkeypatch):
    spent = []
    right = bounded._blocks

    def blocks(worth, epsilon, *rest):
        spent.append(epsilon)
        return right(worth, epsilon, *rest)

    monkeypatch.setattr(bounded, "_blocks", blocks)
    for selection in SELECTIONS:
        distribution = shipped_distribution((3, 4, 5), selection, BETAS[0])
        assert set(distribution) == {1, 2, 3}
    assert set(spent) == {2 * EPSILON - bounded.noise_share(2 * EPSILON, "gem")} == {EPSILON}


@each
def test_a_release_is_well_formed(selection):
    cover = [1000 * at // (at + 3) for at in range(1, 301)]
    for epsilon in (Fraction(1, 50), Fraction(3)):
        release = bounded.release(cover, epsilon, BETAS[0], selection, secret_draws())
        assert isinstance(release, CountRelease)
        assert 1 <= release.contribution_bound <= 300
        assert release.lower_bound <= release.estimate


def test_all_selections_are_offered():
    assert (*SELECTIONS, "rnm") == bounded.BOUND_SELECTIONS
    for selection in bounded.BOUND_SELECTIONS:
        bounded.check_public(EPSILON, BETAS[0], 5, selection)


def test_an_unknown_selection_is_refused():
    with pytest.raises(ValueError, match="gem, mgem, combined_gem, rnm"):
        bounded.check_public(EPSILON, BETAS[0], 5, "em")


# rnm: the exponential mechanism for the largest bound; one unit of count is a factor 1/2 here.

COST = 3


def rnm_distribution(cover):
    def run(path):
        return bounded.release(cover, 2 * EPSILON, BETAS[0], "rnm", path).contribution_bound

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "discrete_laplaces", lambda rates, draws: [0] * len(rates))
        patch.setattr(bounded, "round_up", lambda cost, grid: Fraction(COST))
        return distribution_of_choice(run, PowersOf(HALF, EPSILON / (2 * len(cover))))


def check_rnm():
    for cover in COVERS:
        factor = HALF ** (-2 * len(cover))
        check_neighbours(rnm_distribution, [(cover, near) for near in neighbours(cover)], factor)


def test_rnm_is_the_exponential_mechanism_for_the_largest_bound():
    for cover in COVERS:
        worth = [n - COST * at for at, n in enumerate(cover, start=1)]
        defined = {at: HALF ** (max(worth) - w) for at, w in enumerate(worth, start=1)}
        assert rnm_distribution(cover) == normalized(defined)


def test_rnm_does_not_distinguish_neighbours():
    check_rnm()


def test_rnm_for_the_smallest_bound_is_not_private(monkeypatch):
    monkeypatch.setattr(exponential, "_size", min)
    with pytest.raises(NotPrivateError):
        check_rnm()


@pytest.mark.parametrize("selection", ["gem", "mgem", "rnm"])
def test_the_distribution_of_the_bound_encloses_what_releases_choose(selection):
    epsilon, beta, cover = 2 * EPSILON, BETAS[0], [3, 9, 9, 11]
    distribution = bounded.distribution_of_bound(cover, epsilon, beta, selection)
    assert all(
        0 <= low <= high <= 1 and high - low < Fraction(1, 1 << 60) for low, high in distribution
    )
    assert sum(low for low, _ in distribution) <= 1 <= sum(high for _, high in distribution)
    for (low, _), p in zip(
        distribution, distribution_in_floats(cover, float(beta), selection), strict=True
    ):
        assert math.isclose(low, p, rel_tol=1e-3)


def distribution_in_floats(cover, beta, selection):
    """The distribution by its definition, when EPSILON (1) is spent on the choice."""
    bounds = range(1, len(cover) + 1)
    worth = [n - at * math.log(1 / (2 * beta)) for at, n in zip(bounds, cover, strict=True)]
    if selection == "rnm":
        weights = [math.exp(u / (2 * len(cover))) for u in worth]
    else:
        t = SIDES[selection] * 2 * math.log(len(cover) / beta)
        a = [at * t - u for at, u in zip(bounds, worth, strict=True)]
        scores = [max((a[i] - a[j]) / (i + j + 2) for j in range(len(a))) for i in range(len(a))]
        weights = [math.exp(-s / 2) for s in scores]
    return [w / sum(weights) for w in weights]


@pytest.mark.parametrize("selection", bounded.BOUND_SELECTIONS)
def test_the_accuracy_names_the_noise_of_the_least_and_of_the_largest_bound(selection):
    low, high = (bounded.noise_bound(at, EPSILON, BETAS[0], selection) for at in (1, 7))
    says = bounded.accuracy(EPSILON, BETAS[0], 7, selection)
    assert f"at most {low} when the contribution bound is 1, rising to {high} when it is 7" in says
    assert low < high


def test_a_bound_that_is_given_has_no_distribution():
    with pytest.raises(TypeError, match="has no distribution"):
        bounded.distribution_of_bound([3, 4], EPSILON, BETAS[0], 2)


def test_the_distribution_of_the_bound_is_refused_where_a_coin_comes_first():
    with pytest.raises(ValueError, match="ask for the distribution of either"):
        bounded.distribution_of_bound([3, 4], EPSILON, BETAS[0], "combined_gem")

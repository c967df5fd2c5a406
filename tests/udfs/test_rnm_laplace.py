"""What is special to report noisy max with Laplace noise; the rest is test_conformance.py."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import pytest

from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.select import rnm_laplace
from tests.udfs.cases_rnm_laplace import BETA, EPSILON, Q, distribution_of_starts, noise_is
from tests.udfs.distributions import PathTooLongError, distribution_of

pytestmark = pytest.mark.pure


def capped_geometric(cap):
    """The geometric number, exact below the cap; longer ones are given up as unfinished."""

    def geometric(draws, rate):
        weights = [((1, g), (-1, g + 1)) for g in range(cap)]
        drawn = draws.choose(Odds([*weights, ((1, cap),)], rate))
        if drawn == cap:
            raise PathTooLongError
        return drawn

    return geometric


CAP = 8


@pytest.fixture
def small_blocks(monkeypatch):
    """Two blocks of two, so that every kind of block matters in small distributions."""
    monkeypatch.setattr(rnm_laplace, "_N_BLOCKS", 2)
    monkeypatch.setattr(rnm_laplace, "_width", lambda rate: 2)
    monkeypatch.setattr(rnm_laplace, "_blocks", rnm_laplace._blocks.__wrapped__)
    monkeypatch.setattr(rnm_laplace, "geometric", capped_geometric(CAP))


def shipped_best(tries, starts, steps):
    """The distribution of the shipped comparison, and what is left beyond the cap."""
    return distribution_of(
        lambda draws: rnm_laplace.noisy_best(tries, starts, steps, EPSILON, draws), {EPSILON: Q}
    )


def defined_best(tries, starts, steps):
    """The definition, for noise that is not beyond the cap, and what is left."""
    distribution = defaultdict(Fraction)
    for noise in product(range(-CAP, CAP + 1), repeat=len(tries)):
        values = [(starts[i] + steps[i] * x, -i) for i, x in zip(tries, noise, strict=True)]
        distribution[-max(values)[1]] += math.prod(noise_is(x, Q) for x in noise)
    return distribution, 1 - sum(distribution.values())


def check_comparison(tries, starts, steps):
    shipped, unfinished = shipped_best(tries, starts, steps)
    defined, left = defined_best(tries, starts, steps)
    assert max(unfinished, left) < Fraction(1, 1000)
    for i in set(tries):
        difference = shipped.get(i, Fraction(0)) - defined[i]
        assert -unfinished <= difference <= left


COMPARISONS = [
    ((0,), (5,), (1,)),
    *(((0, 1), (0, gap), (1, 1)) for gap in range(-6, 7)),
    *(((0, 1), (0, gap), (1, 3)) for gap in (-4, -1, 0, 2, 5)),
    *(((1, 0, 1), (0, gap), (2, 0)) for gap in (-3, 0, 1, 6)),
    ((0, 1), (3, 3), (0, 0)),
    ((1, 1), (9, 0), (1, 1)),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("tries", "starts", "steps"), COMPARISONS)
def test_the_comparison_has_the_distribution_of_noise_drawn_in_full(
    small_blocks, tries, starts, steps
):
    check_comparison(tries, starts, steps)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_may_reach", lambda gap, step, block, width: block < 3 and step * block * width >= gap),
        ("_may_reach", lambda gap, step, block, width: block == 2 or step * (2 * block) >= gap),
        ("_times_noise", lambda step, block, width, rate, draws: step * block * width),
        ("_times_noise", lambda step, block, *rest: step * 3 - 9 * (block == 3)),
    ],
)
def test_a_comparison_that_drops_or_rounds_noise_is_not_that_distribution(
    small_blocks, monkeypatch, name, wrong
):
    monkeypatch.setattr(rnm_laplace, name, wrong)
    with pytest.raises(AssertionError):
        for case in COMPARISONS:
            check_comparison(*case)


def test_equal_values_go_to_the_first_candidate():
    assert rnm_laplace.noisy_best([2, 1, 3], [9, 4, 4, 4], [0] * 4, EPSILON, Always()) == 1


class Always:
    """Draws that always take the first outcome."""

    def choose(self, odds):
        return 0

    def below(self, n):
        return 0


def test_blocks_are_shorter_than_the_noise_and_reach_beyond_it():
    for rate in (Fraction(1, 10**6), Fraction(3, 10**4), Fraction(1), Fraction(5)):
        width = rnm_laplace._width(rate)
        assert width == 1 or Fraction(1, 16) < width * rate <= Fraction(1, 8)
        assert rnm_laplace._N_BLOCKS * width * rate >= 8


# The choice: what `_select` compares, and the distribution of that in closed form.


def test_the_closed_form_is_the_distribution_of_noise_drawn_in_full():
    for starts in [(0, 0), (2, 0, 1), (0, 1), (1, 5)]:
        closed = distribution_of_starts(starts, Q)
        defined, left = defined_best(range(len(starts)), starts, [1] * len(starts))
        assert left < Fraction(1, 1000)
        assert all(0 <= closed[i] - defined[i] <= left for i in closed)


def test_scores_that_are_not_sensitive_need_no_noise():
    assert rnm_laplace.rnm_laplace([1, 5, 5, 2], [0, 0, 0, 0], EPSILON, None) == 1


def test_what_is_compared_is_made_of_public_constants(monkeypatch):
    handed_on = []
    monkeypatch.setattr(rnm_laplace, "noisy_best", lambda *given: handed_on.extend(given))
    scores = [7, Fraction(1, 3), -1]
    rnm_laplace.rnm_laplace(scores, [1, 2, Fraction(3, 2)], Fraction(5, 2), None)
    assert handed_on == [
        range(3),
        [math.floor(4096 * Fraction(s, 2)) for s in scores],
        [1, 1, 1],
        Fraction(5, 2) / (2 * 4096),
        None,
    ]


def failing(sizes, gap):
    """P(another is chosen than the first, which is ahead by a gap), exp(-EPSILON / 4) rounded."""
    starts = [2 * gap // max(sizes), *[0] * (len(sizes) - 1)]
    return 1 - distribution_of_starts(starts, Fraction(7788, 10_000))[0]


@pytest.mark.parametrize("beta", [Fraction(1, 5), Fraction(1, 20)])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 1, 2), (1,) * 8])
def test_the_accuracy_bound_holds_and_a_quarter_of_it_would_not(monkeypatch, sizes, beta):
    monkeypatch.setattr(rnm_laplace, "grid_of", lambda epsilon: 2)
    bound = rnm_laplace.error_bound(sizes, EPSILON, beta)
    assert failing(sizes, math.floor(bound) + 1) <= beta
    assert failing(sizes, math.floor(bound / 4)) > beta


def test_the_accuracy_bound_is_that_of_continuous_noise_within_a_percent():
    bound = rnm_laplace.error_bound([1, 3, 2], Fraction(1, 2), BETA)
    continuous = 3 * 4 * (math.log(3 / BETA) + math.log(1 / BETA))
    assert abs(bound / continuous - 1) < 0.01


def test_far_ahead_is_chosen():
    assert rnm_laplace.rnm_laplace([5, 10**9, 7], [1, 2, 3], EPSILON, secret_draws()) == 1

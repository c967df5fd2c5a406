"""What is special to gem, mgem and combined_gem; the rest is test_conformance.py."""

import math
from fractions import Fraction

import pytest

from dp_sql.udfs.select import gem, normalized
from dp_sql.udfs.select.gem import GEM, HIGH, LOW, MGEM
from tests.udfs.cases_gem import COMBINED_Q_OF, GRIDS, shift, shipped_gem
from tests.udfs.choices import BETA, EPSILON, distribution_of_choice
from tests.udfs.test_normalized import defined

each_grid = pytest.mark.parametrize("grid", GRIDS)
each_side = pytest.mark.parametrize("side", [LOW, HIGH])


@each_grid
@each_side
def test_a_public_candidate_behind_another_public_one_is_never_chosen(side, grid):
    distribution = shipped_gem(side, (1, 2, 2, 0), (0, 0, 0, 5), BETA, grid)
    assert 0 not in distribution
    assert distribution[1] == distribution[2] > 0


@each_grid
def test_gem_favours_low_sensitivity_and_mgem_high(grid):
    low, high = (shipped_gem(side, (5, 5), (1, 4), BETA, grid) for side in (LOW, HIGH))
    assert low[0] > low[1]
    assert high[1] > high[0]


@each_side
def test_the_public_call_uses_the_public_constants(side):
    scores, sizes = [5, 40, 41], [1, 2, 3]
    found = gem.blocks_of(scores, sizes, EPSILON, BETA, side)
    grid = normalized.grid_of(EPSILON)
    assert found.odds.rate == EPSILON / (2 * grid)
    behind = defined(scores, sizes, side * shift(3, BETA, grid), grid)
    assert found.shortfalls == [b - min(behind) for b in behind]


def falls_short(side, scores, sizes, times):
    """The candidates that the accuracy sentence does not allow."""
    pairs = list(zip(scores, sizes, strict=True))
    if side == HIGH:
        return [i for i, (score, size) in enumerate(pairs) if max(scores) - score > times * size]
    needed = max(score - times * size for score, size in pairs)
    return [i for i, score in enumerate(scores) if score < needed]


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(8)])
@pytest.mark.parametrize(("side", "mechanism"), [(LOW, GEM), (HIGH, MGEM)])
def test_the_accuracy_sentence_holds(side, mechanism, epsilon, beta):
    """A candidate is chosen only if it is accepted, so it is enough to add the chances of that."""
    sizes = range(30)
    says = mechanism.accuracy(sizes, epsilon, beta)
    times = Fraction(says.split("more than ")[1].split(" times")[0])
    for steep in (-60, -9, 2, 9, 60):
        scores = [2000 * size // (size + 4) - steep * size for size in sizes]
        found = gem.blocks_of(scores, sizes, epsilon, beta, side)
        failing = falls_short(side, scores, sizes, times)
        assert sum(math.exp(-found.odds.rate * found.shortfall(i)) for i in failing) <= beta


@pytest.mark.parametrize("truth", [False, True])
def test_the_response_is_true_with_odds_of_its_share(truth):
    distribution = distribution_of_choice(
        lambda path: gem._respond(truth, EPSILON / 2, path), COMBINED_Q_OF
    )
    assert distribution == {truth: Fraction(4, 5), not truth: Fraction(1, 5)}


def test_the_steps_share_epsilon():
    assert 0 < gem.sign_share(EPSILON) < EPSILON

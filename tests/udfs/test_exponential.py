"""What is special to the mechanisms at the largest sensitivity; the rest is test_conformance.py."""

import math
from fractions import Fraction

import pytest

from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.select import exponential, gem
from dp_sql.udfs.select.exponential import EXPONENTIAL, PNF, RNM_GUMBEL
from tests.udfs.cases_select import HALF, distribution_at_largest, tables
from tests.udfs.choices import BETA, EPSILON, PowersOf, distribution_of_choice

pytestmark = pytest.mark.pure

BOTH = [exponential.exponential, exponential.pnf]


@pytest.mark.parametrize("choose", BOTH)
def test_only_the_best_are_left_where_no_score_is_sensitive(choose):
    distribution = distribution_at_largest(choose, (0, 0, 0, 0), (3, 7, 7, -1))
    assert distribution == {1: HALF, 2: HALF}


@pytest.mark.parametrize("choose", BOTH)
@pytest.mark.parametrize("scale", [6, Fraction(1, 30)])
def test_the_unit_does_not_matter(choose, scale):
    scores, sizes = (3, 5, 1), (2, 0, 1)
    scaled = [[x * scale for x in row] for row in (scores, sizes)]
    q_of = PowersOf(HALF, EPSILON / 8640)
    distribution = distribution_of_choice(lambda path: choose(*scaled, EPSILON, path), q_of)
    assert distribution == distribution_of_choice(
        lambda path: choose(scores, sizes, EPSILON, path), q_of
    )


def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism():
    for scores in tables(3):
        weighed, flips = (distribution_at_largest(choose, (2, 2, 2), scores) for choose in BOTH)
        for limit in set(scores):
            worse = [i for i in range(3) if scores[i] <= limit < max(scores)]
            assert sum(flips.get(i, 0) for i in worse) <= sum(weighed[i] for i in worse)


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("size", [1, Fraction(5, 3)])
def test_the_accuracy_sentence_holds(size, beta):
    """The worst table: all but one candidate just beyond what the sentence allows."""
    n, epsilon = 20, Fraction(1, 2)
    says = EXPONENTIAL.accuracy([size] * n, epsilon, beta)
    allowed = Fraction(says.split("at most ")[1].split(" below")[0])
    beyond = math.exp(-float(epsilon * allowed / (2 * size)))
    assert (n - 1) * beyond / (1 + (n - 1) * beyond) <= beta
    assert (n - 1) * beyond > beta * 0.9, "the sentence is not needlessly weak"


def test_one_candidate_is_written_in_the_singular():
    assert "(1 candidate, epsilon" in EXPONENTIAL.accuracy([1], Fraction(1), Fraction(1, 20))


def test_all_three_say_the_same_of_their_accuracy():
    public = ([1, 2, Fraction(1, 2)], EPSILON, BETA)
    assert PNF.accuracy(*public) == RNM_GUMBEL.accuracy(*public) == EXPONENTIAL.accuracy(*public)


def cdf(x, scale):
    return math.exp(-math.exp(-x / scale))


def integrated(scores, scale):
    """P(i has the largest score plus Gumbel noise), by a sum over narrow cells."""
    low, high, n = min(scores) - 8 * scale, max(scores) + 25 * scale, 20_000
    width = (high - low) / n
    distribution = []
    for i, score in enumerate(scores):
        others = [s for j, s in enumerate(scores) if j != i]
        total, before = 0.0, 0.0
        for cell in range(n):
            end = low + (cell + 1) * width
            here = cdf(end - score, scale)
            total += (here - before) * math.prod(
                cdf(end - width / 2 - other, scale) for other in others
            )
            before = here
        distribution.append(total)
    return distribution


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scores", [(0, 0), (0, 1, 5), (3, 0, -2)])
def test_gumbel_noise_has_the_distribution_that_is_drawn(scores):
    scale = 2 * 3 / 0.5
    weights = [math.exp(score / scale) for score in scores]
    for p, weight in zip(integrated(scores, scale), weights, strict=True):
        assert p == pytest.approx(weight / sum(weights), abs=1e-5)


def test_gumbel_noise_is_another_name_for_the_exponential_mechanism():
    assert RNM_GUMBEL.run is EXPONENTIAL.run
    assert RNM_GUMBEL.loss is EXPONENTIAL.loss


CROWDS = {
    "spread": lambda i: 7919 * i % 10**6,
    "equal": lambda i: 5,
    "one leader": lambda i: 40 * (i == 77),
    "near": lambda i: i % 3,
}


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("choose", [*BOTH, lambda *given: gem.gem(*given[:3], BETA, given[3])])
def test_few_of_many_candidates_are_looked_at(choose, crowd):
    asked = []
    system = secret_draws()

    def bits(n):
        asked.append(n)
        return system._bits(n)

    scores = [CROWDS[crowd](i) for i in range(20_000)]
    assert choose(scores, [1] * len(scores), EPSILON, Draws(bits)) in range(20_000)
    assert len(asked) < 2_000

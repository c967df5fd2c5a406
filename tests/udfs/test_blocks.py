import math
from collections import Counter
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.permute_and_flip import Rejection, by_permute_and_flip, by_weight
from dp_sql.udfs.select import blocks
from dp_sql.udfs.select.blocks import into_blocks
from tests.udfs.choices import (
    attempt_distribution,
    permute_and_flip_distribution,
    weight_distribution,
)
from tests.udfs.distributions import accepted, distribution_of, fits, normalized
from tests.udfs.test_permute_and_flip import permute_and_flip

pytestmark = pytest.mark.pure

HALF = Fraction(1, 2)
RATE = Fraction(2, 5)
"""Two shortfalls share a block."""


def small_shortfalls():
    for size in (1, 2, 3):
        for behind in product((0, 1, 3, 4, None), repeat=size):
            if any(b is not None for b in behind):
                yield behind


def weights(behind, q=HALF):
    least = min(b for b in behind if b is not None)
    return {i: q ** (b - least) for i, b in enumerate(behind) if b is not None}


@pytest.fixture(params=[1, 2, 3], ids=lambda n: f"{n} blocks and a tail")
def few_blocks(request, monkeypatch):
    monkeypatch.setattr(blocks, "_N_BLOCKS", request.param)
    weight_distribution.cache_clear()
    permute_and_flip_distribution.cache_clear()
    yield
    weight_distribution.cache_clear()
    permute_and_flip_distribution.cache_clear()


def test_the_first_that_counts_is_drawn_by_weight(few_blocks):
    for behind in small_shortfalls():
        assert weight_distribution(behind, RATE, HALF) == normalized(weights(behind))


@pytest.mark.one_in(3)
def test_flips_are_permute_and_flip(few_blocks):
    for behind in small_shortfalls():
        assert permute_and_flip_distribution(behind, RATE, HALF) == permute_and_flip(
            weights(behind)
        )


@pytest.mark.parametrize("width", [1, 2, 3, 50])
def test_the_width_of_blocks_does_not_matter(monkeypatch, width):
    monkeypatch.setattr(blocks, "block_width", lambda rate: width)
    for behind in small_shortfalls():
        distribution = accepted(attempt_distribution(into_blocks(behind, RATE), HALF))
        assert distribution == normalized(weights(behind))


def test_rejections_race_with_the_complement_of_their_weight():
    behind, rejections = (3, None, 1, 4, 1), (2, 0, 5)
    distribution = accepted(attempt_distribution(into_blocks(behind, RATE), HALF, rejections))
    bad = {Rejection(i): 1 - HALF**e for i, e in enumerate(rejections)}
    expected = normalized(weights(behind) | bad)
    assert distribution == {hit: p for hit, p in expected.items() if p}


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 7), Fraction(1), Fraction(50)])
def test_one_attempt_in_three_counts(rate):
    q = Fraction(math.exp(-rate)).limit_denominator(100)
    distribution = attempt_distribution(into_blocks(range(0, 200, 10), rate), q)
    assert distribution.get(None, 0) < 1 - Fraction(1, 3)


def test_the_loop_tries_again_after_a_rejection():
    script = [None, None, 3]
    scripted = SimpleNamespace(attempt=lambda draws: script.pop(0))
    assert by_weight(scripted, None) == 3


def test_the_race_tries_again_after_a_rejection_and_after_one_that_is_gone():
    script = [None, 7, 7, 3, Rejection(0)]
    scripted = SimpleNamespace(attempt=lambda draws, rejections: script.pop(0))
    assert flip._race(scripted, None, frozenset({7}), []) == 3
    assert flip._race(scripted, None, frozenset({7}), [1]) == Rejection(0)


def test_blocks_that_forget_the_excess_are_not_the_distribution(monkeypatch):
    monkeypatch.setattr(blocks.Blocks, "shortfall", lambda this, i: this.shortfalls[i] // 2 * 2)
    distribution = accepted(attempt_distribution(into_blocks((0, 1, 4), RATE), HALF))
    assert distribution != normalized(weights((0, 1, 4)))


def test_candidates_that_are_never_chosen_have_no_level():
    with pytest.raises(ValueError, match="never chosen"):
        into_blocks((0, None), RATE).shortfall(1)


def test_a_small_run_of_the_shipped_loops_ends():
    def run(path):
        return by_permute_and_flip(into_blocks((0, 3), RATE), path)

    distribution, unfinished = distribution_of(run, {RATE: HALF}, limit=14)
    exact = permute_and_flip(weights((0, 3)))
    assert all(0 <= exact[i] - distribution[i] <= unfinished < Fraction(1, 8) for i in exact)


REAL = (0, 30, 55, 60, None, 200)
REAL_RATE = Fraction(1, 40)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
@pytest.mark.parametrize(
    ("draw", "distribution"), [(by_weight, normalized), (by_permute_and_flip, permute_and_flip)]
)
def test_only_draws_at_the_right_rate_fit(draw, distribution, tenths, passes):
    this, draws = into_blocks(REAL, REAL_RATE * Fraction(tenths, 10)), secret_draws()
    observed = Counter(draw(this, draws) for _ in range(8000))
    expected = distribution(weights(REAL, 2.718281828459045 ** float(-REAL_RATE)))
    assert fits(observed, expected) is passes

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.permute_and_flip import Clock, by_flips, by_weight
from dp_sql.udfs.select import levels
from dp_sql.udfs.select.levels import sort_into_levels
from tests.udfs.choices import attempt_law, flip_law, weight_law
from tests.udfs.laws import accepted, fits, law_of, normalized
from tests.udfs.test_flip import permute_and_flip

HALF = Fraction(1, 2)
RATE = Fraction(2, 5)
"""Two levels share a block."""


def small_levels():
    for size in (1, 2, 3):
        for behind in product((0, 1, 3, 4, None), repeat=size):
            if any(b is not None for b in behind):
                yield behind


def weights(behind, q=HALF):
    least = min(b for b in behind if b is not None)
    return {i: q ** (b - least) for i, b in enumerate(behind) if b is not None}


@pytest.fixture(params=[1, 2, 3], ids=lambda n: f"{n} blocks and a tail")
def few_blocks(request, monkeypatch):
    monkeypatch.setattr(levels, "_N_BLOCKS", request.param)
    weight_law.cache_clear()
    flip_law.cache_clear()
    yield
    weight_law.cache_clear()
    flip_law.cache_clear()


def test_the_first_that_counts_is_drawn_by_weight(few_blocks):
    for behind in small_levels():
        assert weight_law(behind, RATE, HALF) == normalized(weights(behind))


def test_flips_are_permute_and_flip(few_blocks):
    for behind in small_levels():
        assert flip_law(behind, RATE, HALF) == permute_and_flip(weights(behind))


@pytest.mark.parametrize("width", [1, 2, 3, 50])
def test_the_width_of_blocks_does_not_matter(monkeypatch, width):
    monkeypatch.setattr(levels, "_width", lambda rate: width)
    for behind in small_levels():
        law = accepted(attempt_law(sort_into_levels(behind, RATE), HALF))
        assert law == normalized(weights(behind))


def test_clocks_race_with_the_complement_of_their_weight():
    behind, clocks = (3, None, 1, 4, 1), (2, 0, 5)
    law = accepted(attempt_law(sort_into_levels(behind, RATE), HALF, clocks))
    bad = {Clock(i): 1 - HALF**e for i, e in enumerate(clocks)}
    expected = normalized(weights(behind) | bad)
    assert law == {hit: p for hit, p in expected.items() if p}


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 7), Fraction(1), Fraction(50)])
def test_one_attempt_in_three_counts(rate):
    q = Fraction(math.exp(-rate)).limit_denominator(100)
    law = attempt_law(sort_into_levels(range(0, 200, 10), rate), q)
    assert law.get(None, 0) < 1 - Fraction(1, 3)


def test_the_loop_tries_again_after_a_rejection():
    script = [None, None, 3]
    scripted = SimpleNamespace(attempt=lambda draws: script.pop(0))
    assert by_weight(scripted, None) == 3


def test_the_race_tries_again_after_a_rejection_and_after_one_that_is_gone():
    script = [None, 7, 7, 3, Clock(0)]
    scripted = SimpleNamespace(attempt=lambda draws, clocks: script.pop(0))
    assert flip._race(scripted, None, frozenset({7}), []) == 3
    assert flip._race(scripted, None, frozenset({7}), [1]) == Clock(0)


def test_blocks_that_forget_the_excess_are_not_the_law(monkeypatch):
    monkeypatch.setattr(levels.Levels, "level", lambda this, i: this.levels[i] // 2 * 2)
    law = accepted(attempt_law(sort_into_levels((0, 1, 4), RATE), HALF))
    assert law != normalized(weights((0, 1, 4)))


def test_candidates_that_are_never_chosen_have_no_level():
    with pytest.raises(ValueError, match="never chosen"):
        sort_into_levels((0, None), RATE).level(1)


def test_a_small_run_of_the_shipped_loops_ends():
    def run(path):
        return by_flips(sort_into_levels((0, 3), RATE), path)

    law, unfinished = law_of(run, {RATE: HALF}, limit=14)
    exact = permute_and_flip(weights((0, 3)))
    assert all(0 <= exact[i] - law[i] <= unfinished < Fraction(1, 8) for i in exact)


REAL = (0, 30, 55, 60, None, 200)
REAL_RATE = Fraction(1, 40)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
@pytest.mark.parametrize(("draw", "law"), [(by_weight, normalized), (by_flips, permute_and_flip)])
def test_only_draws_at_the_right_rate_fit(draw, law, tenths, passes):
    this, draws = sort_into_levels(REAL, REAL_RATE * Fraction(tenths, 10)), secret_draws()
    observed = Counter(draw(this, draws) for _ in range(8000))
    expected = law(weights(REAL, 2.718281828459045 ** float(-REAL_RATE)))
    assert fits(observed, expected) is passes

"""The tails of discrete Gaussian noise, and what its rho means."""

import math
from fractions import Fraction
from functools import cache
from itertools import accumulate

import numpy as np
import pytest

from dp_sql.udfs import discrete_gaussian
from dp_sql.udfs.concentrated import largest_rho
from dp_sql.udfs.discrete_gaussian import reaches, tails, upper_quantile
from dp_sql.udfs.exact_sampling import Draws
from tests.udfs.test_exact_sampling import real_exp, tape

SCALES = [1, 2, 3, 7, 40]


@cache
def real_tails(scale):
    """P(N >= x) for x = 0, 1, ..., far beyond what the shipped table has, to nearly 400 digits."""
    bell = [real_exp(Fraction(x * x, 2 * scale**2)) for x in range(30 * scale + 10)]
    sums = [*accumulate(reversed(bell))][::-1]
    return [total / (2 * sums[0] - 1) for total in sums]


def are_enclosed(scale, bits):
    lows, highs = tails.__wrapped__(scale, bits)
    true = [p * 2**bits for p in real_tails(scale)]
    inside = all(low <= p <= high for low, high, p in zip(lows, highs, true, strict=False))
    return inside and lows[-1] == 0 <= true[len(lows)] <= highs[-1]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("bits", [8, 64, 128, 192])
@pytest.mark.parametrize("scale", SCALES)
def test_tails_are_enclosed_tightly(scale, bits):
    assert are_enclosed(scale, bits)
    lows, highs = tails(scale, bits)
    assert all(high - low <= 2 for low, high in zip(lows[:-1], highs[:-1], strict=True))
    assert highs[-1] <= 2


@pytest.mark.pure
@pytest.mark.parametrize("wrong", [lambda s, w: bell_of(s, w, 1), lambda s, w: bell_of(s, w, -1)])
def test_a_bell_rounded_the_wrong_way_would_be_noticed(wrong, monkeypatch):
    monkeypatch.setattr(discrete_gaussian, "_bell", wrong)
    assert not all(are_enclosed(scale, 160) for scale in SCALES)


right_bell = discrete_gaussian._bell


def bell_of(scale, width, side):
    lows, highs = right_bell(scale, width)
    off = 1 << width // 2
    if side > 0:
        return [low + off if x else low for x, low in enumerate(lows)], highs
    return lows, [max(0, high - off) if x else high for x, high in enumerate(highs)]


def levels(scale):
    return [-9 * scale, -scale, -1, 0, 1, 2, scale, 5 * scale, 9 * scale]


def chance(level, scale):
    true = real_tails(scale)
    return true[level] if level > 0 else 1 - true[1 - level]


@pytest.mark.parametrize("scale", SCALES)
def test_a_word_is_decided_as_the_true_tail_says(scale):
    """U < P decides (for a level of at most 0: U >= 1 - P), where U begins with the word."""
    for level in levels(scale):
        p = chance(level, scale) if level > 0 else 1 - chance(level, scale)
        edge = int(p * 2**64)
        for word in (edge - 1, edge + 1):
            if not 0 <= word < 2**64:
                continue
            draws = Draws(lambda n, word=word: word)
            (hit,) = reaches(np.array([level]), scale, draws)
            assert hit == ((word < edge) == (level > 0)), level


@pytest.mark.parametrize("scale", SCALES)
def test_a_word_on_the_edge_is_read_on_until_it_leaves_it(scale):
    for level in levels(scale):
        p = chance(level, scale) if level > 0 else 1 - chance(level, scale)
        for off in (-3, 3):
            at = int(p * 2**512) + off
            word, rest = at >> 448, f"{at & (1 << 448) - 1:0448b}"
            if word >> 64:
                continue
            unread = tape(rest, "0")
            first = [True]

            def bits(n, word=word, unread=unread, first=first):
                if first.pop() if first else False:
                    # The words come as one little-endian integer, of one word here.
                    return word
                return unread._bits(n)

            (hit,) = reaches(np.array([level]), scale, Draws(bits))
            assert hit == ((off < 0) == (level > 0)), level


@pytest.mark.parametrize("mass", [Fraction(1, 3), Fraction(1, 10**6), Fraction(1, 10**25)])
@pytest.mark.parametrize("scale", SCALES)
def test_the_quantile_is_the_least_number_with_a_small_tail(scale, mass):
    x = upper_quantile(scale, mass)
    assert real_tails(scale)[x] <= mass < real_tails(scale)[x - 1]


def test_a_mass_beyond_the_table_is_refused():
    with pytest.raises(ValueError, match="too small"):
        upper_quantile(3, Fraction(1, 2**130))


# What rho means: the delta of the noise on one integer that moves by 1, for sigma = scale.


def delta_of(scale, epsilon):
    """The exact divergence of N and N + 1 at epsilon, in floats: sum of (p - e^epsilon q)+."""
    xs = np.arange(-40 * scale - 40, 40 * scale + 41)
    bell = np.exp(-(xs**2) / (2 * scale**2))
    p = bell / bell.sum()
    return float(np.maximum(p[:-1] - math.exp(epsilon) * p[1:], 0).sum())


def continuous_delta(scale, epsilon):
    def phi(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    a, b = 1 / (2 * scale), epsilon * scale
    return phi(a - b) - math.exp(epsilon) * phi(-a - b)


EPSILONS = [Fraction(i, 8) for i in range(1, 40)]


def never_too_small(delta_at):
    """Whether a conversion's delta is never below the exact one."""
    return all(
        delta_at(scale, float(epsilon)) >= delta_of(scale, float(epsilon)) * (1 - 1e-9)
        for scale in SCALES
        for epsilon in EPSILONS
        if delta_of(scale, float(epsilon)) > 1e-12
    )


def by_rho(scale, epsilon):
    """The least delta at which the shipped conversion admits the rho of this noise."""
    low, high = -60.0, -0.001
    rho = Fraction(1, 2 * scale**2)
    for _ in range(24):
        middle = (low + high) / 2
        fits = largest_rho(Fraction(epsilon), Fraction(math.exp(middle))) >= rho
        low, high = (low, middle) if fits else (middle, high)
    return math.exp(high)


@pytest.mark.thorough
@pytest.mark.pure
def test_the_conversion_covers_discrete_noise_and_the_continuous_formula_does_not():
    assert never_too_small(by_rho)
    assert not never_too_small(continuous_delta)

from bisect import bisect_right
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from dp_sql.udfs import exact_sampling as exact
from dp_sql.udfs import intervals
from dp_sql.udfs.discrete_laplace import discrete_laplace, discrete_laplaces, laplace_quantile
from dp_sql.udfs.exact_sampling import (
    Draws,
    Odds,
    geometric,
    secret_draws,
)
from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from tests.udfs.distributions import distribution_of, fits

ROOT = Path(__file__).parents[2]
DIGITS = 400

ODDS = [
    Odds([((1, 0),), ((1, 1),)], Fraction(1, 3)),
    Odds([((3, 2),), ((0, 0),), ((5, 0),), ((1, 9),)], Fraction(2, 7)),
    Odds([((1, 0), (-1, 4)), ((1, 4),)], Fraction(1, 50)),
    Odds([((10**30, 100),), ((7, 3),), ((1, 0), (2, 1), (-1, 2))], Fraction(1)),
    Odds([((1, 0),), ((2**70, 70),)], Fraction(7, 10)),
    Odds([((1, 5),), ((1, 10**6),)], Fraction(1, 10**6)),
    Odds([((4, 0),)], Fraction(1)),
]


def real_exp(x: Fraction) -> Fraction:
    """exp(-x) to DIGITS digits, by the decimal module."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())


def boundaries(odds: Odds) -> list[Fraction]:
    """Where on [0, 1] one outcome ends and the next begins, to nearly DIGITS digits."""
    weights = [sum(n * real_exp(a * odds.rate) for n, a in weight) for weight in odds.weights]
    total = sum(weights)
    return [sum(weights[: j + 1]) / total for j in range(len(weights) - 1)]


def sums_are_enclosed(odds: Odds, bits: int) -> bool:
    lows, highs = exact._cumulative_sums(odds, bits)
    ends = [*boundaries(odds), Fraction(1)]
    if not lows[-1]:
        return all(low == 0 for low in lows)
    pairs = zip(lows, highs, ends, strict=True)
    return all(
        Fraction(low, highs[-1]) <= end <= Fraction(high, lows[-1]) for low, high, end in pairs
    )


def tape(prefix: str, then: str) -> Draws:
    """Draws from a tape of bits that goes on for ever with the same bit."""
    unread = iter(prefix)
    return Draws(lambda n: int("".join(next(unread, then) for _ in range(n)) or "0", 2))


@pytest.mark.pure
@pytest.mark.parametrize("odds", ODDS)
@pytest.mark.parametrize("width", range(1, 11))
def test_every_short_tape_is_decided_as_the_true_boundaries_say(odds, width):
    edges = boundaries(odds)
    for prefix in range(1 << width):
        low, high = Fraction(prefix, 1 << width), Fraction(prefix + 1, 1 << width)
        outcome = odds.decide(prefix, width)
        if outcome is None:
            assert any(low <= edge <= high for edge in edges)
        else:
            assert all(edge <= low for edge in edges[:outcome])
            assert all(high <= edge for edge in edges[outcome:])


@pytest.fixture
def fresh_powers():
    intervals._powers.cache_clear()
    yield
    intervals._powers.cache_clear()


@pytest.mark.parametrize("odds", ODDS)
@pytest.mark.parametrize("bits", [2, 3, 5, 8, 13, 21, 34, 89, 233])
def test_running_sums_are_enclosed_at_every_precision(odds, bits):
    assert sums_are_enclosed(odds, bits)


@pytest.mark.pure
def test_a_product_rounded_the_wrong_way_would_be_noticed(monkeypatch, fresh_powers):
    def rounded_down(a, b, bits):
        low, high, e = a[0] * b[0], a[1] * b[1], a[2] + b[2]
        excess = max(0, high.bit_length() - bits)
        return low >> excess, high >> excess, e + excess

    for module in (exact, intervals):
        monkeypatch.setattr(module, "times", rounded_down)
    assert not all(sums_are_enclosed(odds, bits) for odds in ODDS for bits in range(8, 40))


@pytest.mark.parametrize("odds", ODDS)
def test_a_decision_holds_when_more_bits_are_read(odds):
    for prefix, more in product(range(1 << 6), range(1 << 4)):
        decided = odds.decide(prefix, 6)
        if decided is not None:
            assert odds.decide(prefix << 4 | more, 10) == decided


@pytest.mark.parametrize("odds", ODDS)
@pytest.mark.parametrize("bits", range(9))
def test_the_draw_is_a_function_of_the_tape(odds, bits):
    edges = boundaries(odds)
    for number in range(1 << bits):
        prefix = f"{number:0{bits}b}" if bits else ""
        drawn = tape(prefix, "0").choose(odds)
        assert drawn == tape(prefix, "0").choose(odds)
        assert drawn == bisect_right(edges, Fraction(number, 1 << bits))


@pytest.mark.parametrize("odds", ODDS[:-1])
def test_a_tape_that_follows_a_boundary_is_read_until_it_leaves_it(odds):
    for j, edge in enumerate(boundaries(odds)):
        if 0 < edge < 1:
            prefix = f"{int(edge * 2**1000):01000b}"
            nearest = [k for k, other in enumerate(boundaries(odds)) if other == edge]
            assert tape(prefix, "0").choose(odds) == nearest[0]
            above = f"{int(edge * 2**1000) + 2:01000b}"
            assert tape(above, "0").choose(odds) == nearest[-1] + 1, j


def test_more_bits_are_drawn_only_when_the_first_straddle_a_boundary():
    (edge,) = boundaries(ODDS[0])
    for shift, expected in ((0, [64, 64]), (5, [64]), (-5, [64])):
        numbers = [int(edge * 2**64) + shift, 0]
        asked = []

        def bits(n, numbers=numbers, asked=asked):
            asked.append(n)
            return numbers[len(asked) - 1]

        Draws(bits).choose(ODDS[0])
        assert asked == expected


EXPONENTS = [
    ([0, 1], Fraction(1, 3)),
    ([2, 0, 0, 9, 300], Fraction(2, 7)),
    ([70_000, 5], Fraction(1, 10**5)),
    ([2**40, 2**40 + 3, 2**62], Fraction(1)),
    ([7], Fraction(1)),
    ([*range(40, 0, -1)], Fraction(1, 50)),
]


def powers_follow_the_tape(exponents, rate, bits, then):
    """Whether all tapes of so many bits that go on with zeros or ones lead where they should."""

    class Every(Draws):
        def _half_words(self, n):
            return np.arange(n, dtype=np.int64)

    n = 1 << bits
    draws = Every(lambda width: (1 << width) - 1 if then and width < 300 else 0)
    chosen = draws.choose_powers(np.tile(np.array(exponents, np.int64), (n, 1)), rate)
    edges = boundaries(Odds([((1, a - min(exponents)),) for a in exponents], rate))
    tiny = Fraction(then, 2**300)
    places = [Fraction(word + then, n) - tiny for word in range(n)]
    return chosen.tolist() == [bisect_right(edges, place) for place in places]


@pytest.fixture
def short_words(monkeypatch):
    monkeypatch.setattr(exact, "_HALF_BITS", 12)


@pytest.mark.parametrize("then", [0, 1])
@pytest.mark.parametrize(("exponents", "rate"), EXPONENTS)
def test_a_choice_among_powers_is_a_function_of_the_tape(exponents, rate, then, short_words):
    assert powers_follow_the_tape(exponents, rate, 12, then)


@pytest.mark.pure
def test_powers_that_are_too_small_would_be_noticed(short_words, monkeypatch):
    right = exact._table

    def halved(rate, place):
        one, *others = right(rate, place)[0]
        return [np.array([one, *(other // 2 for other in others)], np.int64)] * 2

    monkeypatch.setattr(exact, "_table", halved)
    assert not all(powers_follow_the_tape(*one, 12, 0) for one in EXPONENTS)


def test_rows_are_chosen_by_words_of_their_own():
    tape = iter([0x_0000_0000_FFFF_FFFF_0000_0000])  # the least word comes first
    rows = np.array([[0, 1], [0, 1], [0, 1]])
    assert Draws(lambda _: next(tape)).choose_powers(rows, Fraction(1)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("places", [1, 2, 4])
def test_tables_of_powers_are_enclosures(places):
    for place in range(places):
        lows, highs = (table.tolist() for table in exact._table(Fraction(1, 1000), place))
        for digit in (0, 1, 7, 255):
            power = 2**30 * real_exp(Fraction(digit << 8 * place, 1000))
            assert lows[digit] <= power <= highs[digit] <= lows[digit] + 1


TOSSES = [odds for odds in ODDS if len(odds.weights) == 2]


def heads_follow_the_tape():
    """Whether coins fall as the true boundaries say, for words near those."""
    for odds in TOSSES:
        (edge,) = boundaries(odds)
        near = min(int(edge * 2**64), 2**64 - 3)
        for word, then in product({0, 2**64 - 1, *range(near - 2, near + 3)} - {-1, -2}, (0, 1)):
            bits = iter([word])
            draws = Draws(lambda n, bits=bits, then=then: next(bits, ((1 << n) - 1) * then))
            place = Fraction(word + then, 2**64) - Fraction(then, 2**300)
            if draws.flip_each(exact.Coins([odds]), 1)[0, 0] != (edge <= place):
                return False
    return True


def test_a_flip_is_a_function_of_the_tape():
    assert heads_follow_the_tape()


@pytest.mark.pure
@pytest.mark.parametrize("side", [0, 1])
def test_edges_on_the_wrong_side_would_be_noticed(side, monkeypatch):
    right = exact.Coins.edges.func

    def wrong(coins):
        edges = [*right(coins)]
        edges[side] = edges[1] + np.uint64(1) if side == 0 else edges[0] - np.uint64(1)
        return edges

    monkeypatch.setattr(exact.Coins, "edges", property(wrong))
    assert not heads_follow_the_tape()


def test_flips_have_words_of_their_own():
    coins = exact.Coins([ODDS[0], ODDS[0]])
    words = sum(word << 64 * i for i, word in enumerate([0, 2**64 - 1, 2**64 - 1, 0]))
    heads = Draws(lambda _: words).flip_each(coins, 2)
    assert heads.tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_below_draws_each_number_from_equally_many_tapes(n):
    width = (n - 1).bit_length()
    drawn = Counter()
    for first in range(1 << width):
        answers = iter([first, 0])
        value = Draws(lambda _, answers=answers: next(answers)).below(n)
        if first < n:
            assert value == first
            drawn[value] += 1
        else:
            assert next(answers, None) is None, "a number out of range is drawn again"
    assert drawn == Counter(range(n))


def test_below_zero_is_refused():
    with pytest.raises(ValueError, match="n >= 1"):
        secret_draws().below(0)


def test_a_choice_without_a_positive_weight_is_refused():
    with pytest.raises(ValueError, match="positive weight"):
        secret_draws().choose(Odds([((0, 0),), ((0, 3),)], Fraction(1)))


@pytest.mark.parametrize("weight", [((-1, 0),), ((1, 3), (-1, 2)), ((3, 0), (-4, 0))])
def test_a_choice_with_a_negative_weight_is_refused(weight):
    with pytest.raises(ValueError, match="negative"):
        secret_draws().choose(Odds([((1, 0),), weight], Fraction(1, 3)))


@pytest.mark.parametrize("bits", [8, 64, 300])
@pytest.mark.parametrize(
    "x",
    [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(700)],
)
def test_exp_is_enclosed(x, bits):
    low, high = exp_enclosure(x, bits)
    assert low <= real_exp(x) <= high
    assert high - low <= high / 2 ** (bits - 4)


@pytest.mark.parametrize("bits", [8, 64, 300])
@pytest.mark.parametrize(
    "x", [Fraction(1), Fraction(2), Fraction(1, 3), Fraction(10**30, 7), Fraction(1, 10**30)]
)
def test_ln_is_enclosed(x, bits):
    with localcontext() as context:
        context.prec = DIGITS
        true = Fraction((Decimal(x.numerator) / Decimal(x.denominator)).ln())
    low, high = ln_enclosure(x, bits)
    assert low <= true <= high
    assert high - low <= Fraction(2**16, 2**bits)


def test_ln_of_zero_is_refused():
    with pytest.raises(ValueError, match="positive"):
        ln_enclosure(Fraction(0), 64)


RATES = [Fraction(5), Fraction(1), Fraction(2, 3), Fraction(1, 3), Fraction(1, 20)]


@pytest.mark.parametrize("cap", [0, 1, 2, 3, 7, 20])
@pytest.mark.parametrize("rate", RATES)
def test_the_capped_geometric_distribution_is_exact(rate, cap):
    q = Fraction(2, 3)
    distribution, unfinished = distribution_of(lambda draws: geometric(draws, rate, cap), {rate: q})
    assert unfinished == 0
    assert distribution == {g: (1 - q) * q**g for g in range(cap)} | {cap: q**cap}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("rate", RATES)
def test_the_noise_distribution_is_exact(rate):
    q = Fraction(1, 2)
    distribution, unfinished = distribution_of(
        lambda draws: discrete_laplace(rate, draws), {rate: q}, limit=12
    )
    assert unfinished <= Fraction(1, 32)
    assert len(distribution) > 8
    for x, p in distribution.items():
        assert p == (1 - q) / (1 + q) * q ** abs(x)


def test_numbers_at_several_rates_are_independent():
    """Two at once have the product of their distributions, each at its own rate, in this order."""
    q_of = {Fraction(2): Fraction(1, 4), Fraction(3): Fraction(1, 8)}
    distribution, unfinished = distribution_of(
        lambda draws: tuple(discrete_laplaces([Fraction(3), Fraction(2), Fraction(3)], draws)),
        q_of,
        limit=9,
    )
    assert unfinished <= Fraction(1, 8)
    assert len(distribution) > 20
    for pair, p in distribution.items():
        each = [
            (1 - q) / (1 + q) * q ** abs(x)
            for q, x in zip((q_of[3], q_of[2], q_of[3]), pair, strict=True)
        ]
        assert p == prod(each)


@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(49, 100), Fraction(1, 10**12)])
@pytest.mark.parametrize("rate", [*RATES, Fraction(1, 10**6), Fraction(100)])
def test_the_quantile_is_the_least_integer_with_a_small_tail(rate, beta):
    x = laplace_quantile(rate, beta)
    allowed = beta * (1 + real_exp(rate))
    assert real_exp(x * rate) <= allowed < real_exp((x - 1) * rate)


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1, 2), Fraction(-1)])
def test_the_quantile_refuses_a_beta_out_of_range(beta):
    with pytest.raises(ValueError, match="beta"):
        laplace_quantile(Fraction(1), beta)


def test_the_quantile_refuses_a_rate_out_of_range():
    with pytest.raises(ValueError, match="rate"):
        laplace_quantile(Fraction(0), Fraction(1, 4))


def noise_distribution(rate: float) -> dict[int, float]:
    q = 2.718281828459045**-rate
    return {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("rate", "passes"),
    [(Fraction(7, 40), False), (Fraction(1, 4), True), (Fraction(13, 40), False)],
)
def test_only_noise_of_the_right_scale_fits(rate, passes):
    draws = secret_draws()
    observed = Counter(discrete_laplace(rate, draws) for _ in range(20_000))
    assert fits(observed, noise_distribution(0.25)) is passes


@pytest.mark.thorough
@pytest.mark.pure
def test_the_fit_rejects_a_planted_shift():
    draws = secret_draws()
    observed = Counter(discrete_laplace(Fraction(1, 4), draws) + 1 for _ in range(20_000))
    assert not fits(observed, noise_distribution(0.25))

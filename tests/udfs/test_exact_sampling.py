import math
import random
from bisect import bisect_right
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dp_sql.udfs import exact_sampling as exact
from dp_sql.udfs import geometric as geometric_numbers
from dp_sql.udfs import intervals, powers
from dp_sql.udfs import odds as odds_module
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.geometric import geometric, geometrics
from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from dp_sql.udfs.odds import Coins, Odds
from tests.udfs.distributions import distribution_of

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
    lows, highs = odds_module._cumulative_sums(odds, bits)
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

    for module in (odds_module, intervals):
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


TIMES = [
    ([1, 5, 0, 3], [4, 2, 0, 0], Fraction(1, 3)),
    ([3, 2**43], [0, 30], Fraction(1)),
    ([1, 2**62, 2**40, 0], [0, 2**9, 2**8, 0], Fraction(1, 12)),
    ([0, 0, 2**62 + 1, 1], [7, 0, 2**35, 2**35 - 600], Fraction(1, 14)),
    ([0, 6, 0], [1, 2, 3], Fraction(2)),
]


def of_all_tapes(bits, then):
    """Draws from all tapes of so many bits, one for each row, that go on with zeros or ones."""

    class Every(Draws):
        def _half_words(self, n):
            return np.arange(n, dtype=np.int64)

    return Every(lambda width: (1 << width) - 1 if then and width < 300 else 0)


def places_of_all_tapes(bits, then):
    """Where on [0, 1] these tapes are, to 300 bits."""
    return [Fraction(word + then, 1 << bits) - Fraction(then, 2**300) for word in range(1 << bits)]


def powers_follow_the_tape(exponents, rate, bits, then, times=None, more=()):
    """Whether all tapes of so many bits that go on with zeros or ones lead where they should."""
    given = [exponents, times, *more]
    rows = [np.tile(np.array(one, np.int64), (1 << bits, 1)) for one in given if one]
    chosen = of_all_tapes(bits, then).choose_powers(rows[0], rate, *rows[1:])
    numbers = [times or [1] * len(exponents), *more]
    pairs = [*zip(map(math.prod, zip(*numbers, strict=True)), exponents, strict=True)]
    least = min(a for n, a in pairs if n)
    edges = boundaries(Odds([((n, a - least if n else 0),) for n, a in pairs], rate))
    return chosen.tolist() == [bisect_right(edges, x) for x in places_of_all_tapes(bits, then)]


@pytest.fixture
def short_words(monkeypatch):
    monkeypatch.setattr(exact, "_HALF_BITS", 12)


@pytest.mark.parametrize("then", [0, 1])
@pytest.mark.parametrize(("exponents", "rate"), EXPONENTS)
def test_a_choice_among_powers_is_a_function_of_the_tape(exponents, rate, then, short_words):
    assert powers_follow_the_tape(exponents, rate, 12, then)


@pytest.mark.parametrize("then", [0, 1])
@pytest.mark.parametrize(("times", "exponents", "rate"), TIMES)
def test_a_choice_among_multiples_is_a_function_of_the_tape(
    times, exponents, rate, then, short_words
):
    assert powers_follow_the_tape(exponents, rate, 12, then, times)


@pytest.mark.parametrize("then", [0, 1])
@pytest.mark.parametrize(("times", "exponents", "rate"), TIMES)
def test_a_choice_among_products_is_a_function_of_the_tape(
    times, exponents, rate, then, short_words
):
    """The products have more than 64 bits."""
    more = [[3**39] * len(times), [7**20 >> i for i in range(len(times))]]
    assert powers_follow_the_tape(exponents, rate, 12, then, times, more)


def test_running_sums_of_products_are_enclosed():
    source, rate = random.Random(8), Fraction(1, 3)
    for n_factors in (1, 2, 5):
        numbers = [
            [source.getrandbits(source.randrange(1, 62)) | 1 for _ in range(6)]
            for _ in range(n_factors)
        ]
        exponents = [source.randrange(99) for _ in range(6)]
        rows = [np.array([one], np.int64) for one in (exponents, *numbers)]
        lows, highs = (
            sums[0].tolist() for sums in powers.running_sums(rows[0], rate, rows[1:], 31)
        )
        terms = zip(map(math.prod, zip(*numbers, strict=True)), exponents, strict=True)
        edges = boundaries(Odds([(term,) for term in terms], rate))
        for low, high, edge in zip(lows, highs, edges, strict=False):
            assert Fraction(low, highs[-1]) <= edge <= Fraction(high, lows[-1])
            assert high - low <= 8 * 6


def test_numbers_of_any_size_are_chosen_by_the_same_weights():
    """Those of 64 bits and objects, one row of exponents for all, and the odds of each row."""
    for times, exponents, rate in [*TIMES, ([2**90, 2**70, 1], [2**70, 2**70 - 9, 3], Fraction(9))]:
        one, other = (Draws(random.Random(5).getrandbits) for _ in range(2))
        odds = Odds([((n, a),) for n, a in zip(times, exponents, strict=True)], rate)
        rows = np.array([exponents], object), np.array([times] * 50, object)
        found = one.choose_powers(rows[0], rate, rows[1]).tolist()
        assert found == [other.choose(odds) for _ in range(50)]


@pytest.mark.pure
@pytest.mark.parametrize("part", ["low", "high", "times"])
def test_powers_on_the_wrong_side_would_be_noticed(part, short_words, monkeypatch):
    right, shortened = powers._table, powers._shortened

    def table(rate, place):
        lows, _, places = right(rate, place)
        wrong = np.minimum(lows + lows // 8 * (1 if part == "low" else -1), 2**31)
        wrong[0] = lows[0]
        return wrong, wrong, places

    def of_times(numbers):
        least, _, places = shortened(numbers)
        return least, least - least // 16, places

    if part == "times":
        monkeypatch.setattr(powers, "_shortened", of_times)
        cases = [(exponents, rate, times) for times, exponents, rate in TIMES]
    else:
        monkeypatch.setattr(powers, "_table", table)
        cases = [(*one, None) for one in EXPONENTS]
    follow = (
        powers_follow_the_tape(exponents, rate, 12, then, times)
        for exponents, rate, times in cases
        for then in (0, 1)
    )
    assert not all(follow)


def test_rows_are_chosen_by_words_of_their_own():
    tape = iter([0x_0000_0000_FFFF_FFFF_0000_0000])  # the least word comes first
    rows = np.array([[0, 1], [0, 1], [0, 1]])
    assert Draws(lambda _: next(tape)).choose_powers(rows, Fraction(1)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("places", [1, 2, 4])
def test_tables_of_powers_are_enclosures(places):
    for place in range(places):
        lows, highs, scales = (table.tolist() for table in powers._table(Fraction(1, 1000), place))
        for digit in (0, 1, 7, 255):
            assert 0 <= highs[digit] - lows[digit] <= 1
            if scales[digit] < 10**6:
                power = 2 ** scales[digit] * real_exp(Fraction(digit << 8 * place, 1000))
                assert lows[digit] <= power <= highs[digit]
            assert 2**30 < highs[digit] <= 2**31


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 10**9), Fraction(10**9), Fraction(1)])
def test_powers_are_enclosed(rate):
    exponents = [*range(300), 2**20, 2**40 + 1, 3 * 2**55 + 77, 2**62 - 1, 2**62]
    lows, highs, places = powers.powers(np.array(exponents, np.int64), rate)
    assert lows.min() >= 0 and highs.max() <= 2**31 and places.min() > 0
    for a, low, high, scale in zip(
        exponents, lows.tolist(), highs.tolist(), places.tolist(), strict=True
    ):
        assert high - low <= (low >> 20) + 2 or low == 0
        if a * rate < 10**5:
            assert low <= real_exp(a * rate) * 2**scale <= high
        elif low:
            assert scale == pytest.approx(a * rate / math.log(2) + math.log2(high), rel=1e-12)
        else:
            assert scale >= 2**40 and a * rate > 2**39


def flips_follow_the_tape(exponents, rate, bits, then):
    """Whether coins fall as they should for all tapes of so many bits."""
    for a in exponents:
        heads = of_all_tapes(bits, then).flip_powers(np.full(1 << bits, a, np.int64), rate)
        edge = real_exp(a * rate) if a * rate < 10**6 else Fraction(1, 2**400)
        if heads.tolist() != [x < edge for x in places_of_all_tapes(bits, then)]:
            return False
    return True


FLIPS = [
    ([0, 1, 2, 3, 300], Fraction(1, 3)), ([1, 2**16, 2**17 + 5], Fraction(1, 10**5)),
    ([1, 90], Fraction(2)),
]  # fmt: skip


def test_a_coin_of_a_tiny_power_falls_on_tails(short_words):
    assert flips_follow_the_tape([2**40, 2**62], Fraction(10**9), 12, 1)


@pytest.mark.parametrize("then", [0, 1])
@pytest.mark.parametrize(("exponents", "rate"), FLIPS)
def test_a_coin_of_a_power_falls_as_the_tape_says(exponents, rate, then, short_words):
    assert flips_follow_the_tape(exponents, rate, 12, then)


@pytest.mark.pure
@pytest.mark.parametrize("side", [0, 1])
def test_coins_of_powers_with_edges_on_the_wrong_side_would_be_noticed(
    side, short_words, monkeypatch
):
    right = exact.enclosed

    def wrong(*given):
        edges = [*right(*given)]
        edges[side] = edges[1] if side == 0 else edges[0]
        return edges

    monkeypatch.setattr(exact, "enclosed", wrong)
    assert not all(flips_follow_the_tape(*one, 12, then) for one in FLIPS for then in (0, 1))


@pytest.mark.parametrize("kind", [np.int64, object])
def test_coins_of_powers_have_words_of_their_own(kind):
    tape = iter([0x_0000_0000_FFFF_FFFF] if kind is np.int64 else [2**64 - 1, 0])
    exponents = np.array([1, 1], kind)
    assert Draws(lambda _: next(tape)).flip_powers(exponents, Fraction(1)).tolist() == [False, True]


TOSSES = [odds for odds in ODDS if len(odds.weights) == 2]


def tapes_near(edges):
    """Draws of tapes whose first word is near an edge, or at an end, and the place of each tape."""
    near = {min(int(edge * 2**64), 2**64 - 3) + i for edge in edges for i in range(-2, 3)}
    for word, then in product({0, 2**64 - 1, *near} - {-1, -2}, (0, 1)):
        bits = iter([word])
        place = Fraction(word + then, 2**64) - Fraction(then, 2**300)
        yield Draws(lambda n, bits=bits, then=then: next(bits, ((1 << n) - 1) * then)), place


def heads_follow_the_tape():
    """Whether coins fall as the true boundaries say, for words near those."""
    for odds in TOSSES:
        (edge,) = boundaries(odds)
        for draws, place in tapes_near([edge]):
            if draws.flip_each(Coins([odds]), 1)[0, 0] != (edge <= place):
                return False
    return True


def test_a_flip_is_a_function_of_the_tape():
    assert heads_follow_the_tape()


@pytest.mark.pure
@pytest.mark.parametrize("side", [0, 1])
def test_edges_on_the_wrong_side_would_be_noticed(side, monkeypatch):
    right = Coins.edges.func

    def wrong(coins):
        edges = [*right(coins)]
        edges[side] = edges[1] + np.uint64(1) if side == 0 else edges[0] - np.uint64(1)
        return edges

    monkeypatch.setattr(Coins, "edges", property(wrong))
    assert not heads_follow_the_tape()


CHOICES = [*ODDS, Odds([((0, 0),), ((1, 3), (-1, 3)), ((2, 1),), ((1, 0),)], Fraction(1, 2))]


def outcomes_follow_the_tape():
    """Whether outcomes are as the true boundaries say, for words near those."""
    for odds in CHOICES:
        edges = boundaries(odds)
        for draws, place in tapes_near(edges):
            # A tape that is a boundary, all bits of it, is never decided.
            if place not in edges and draws.choose_each(odds, 1)[0] != bisect_right(edges, place):
                return False
    return True


def test_each_outcome_is_a_function_of_the_tape():
    assert outcomes_follow_the_tape()


@pytest.mark.pure
@pytest.mark.parametrize("side", [0, 1])
def test_outcomes_by_edges_on_the_wrong_side_would_be_noticed(side, monkeypatch):
    right = Odds.edges.func

    def wrong(odds):
        edges = [*right(odds)]
        edges[side] = edges[1] + np.uint64(1) if side == 0 else edges[0] - np.uint64(1)
        return edges

    monkeypatch.setattr(Odds, "edges", property(wrong))
    assert not outcomes_follow_the_tape()


def test_outcomes_have_words_of_their_own():
    words = sum(word << 64 * i for i, word in enumerate([0, 2**64 - 1, 2**63]))
    third = Odds([((1, 0),)] * 3, Fraction(1))
    assert Draws(lambda _: words).choose_each(third, 3).tolist() == [0, 2, 1]


def test_a_last_outcome_without_weight_is_not_drawn():
    odds = Odds([((1, 0),), ((0, 0),)], Fraction(1))
    for largest in (2**64 - 1, 2**63):
        tape = iter([largest << 64, 0])
        assert Draws(lambda _, tape=tape: next(tape)).choose_each(odds, 2).tolist() == [0, 0]


def test_flips_have_words_of_their_own():
    coins = Coins([ODDS[0], ODDS[0]])
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


@pytest.mark.parametrize("bits", [0, 40, 200])
def test_geometric_numbers_are_the_same_in_any_form(bits, monkeypatch):
    rate, found = Fraction(1, 1 << bits), []
    for most in (62, 0):
        monkeypatch.setattr(geometric_numbers, "_INT_BITS", most)
        found.append(geometrics(Draws(random.Random(bits).getrandbits), rate, 300))
    assert found[0] == found[1]
    assert max(found[0]).bit_length() > bits
    assert all(type(n) is int for n in found[0])


@pytest.mark.parametrize("rounds", range(4))
@pytest.mark.parametrize("bits", range(55, 68))
def test_the_largest_geometric_numbers_of_so_many_digits_are_exact(bits, rounds):
    class Heads:
        left = rounds

        def flip_each(self, coins, n):
            heads = np.ones((n, len(coins.odds)), np.bool_)
            heads[:, -1] = self.left > 0
            self.left -= 1
            return heads

    found = geometrics(Heads(), Fraction(1, 1 << bits - 1), 2)
    assert found == 2 * [(rounds + 1 << bits) - 1]

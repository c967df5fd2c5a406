"""Enclosures of exp and ln between fractions, rounded outwards: see exact_sampling.md."""

import math
from fractions import Fraction
from functools import lru_cache

Interval = tuple[int, int, int]
"""(low, high, e): a real number in [low * 2**e, high * 2**e], 0 <= low <= high."""

ONE: Interval = (1, 1, 0)


def exp_enclosure(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Enclose: fractions low <= exp(-x) <= high for x >= 0; the gap shrinks to 0 as bits grow."""
    low, high, e = ONE if x == 0 else _exp(x, bits)
    scale = Fraction(1 << e) if e >= 0 else Fraction(1, 1 << -e)
    return low * scale, high * scale


def ln_enclosure(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Enclose: fractions low <= ln x <= high for x > 0; the gap shrinks to 0 as bits grow."""
    if x <= 0:
        raise ValueError("a logarithm needs a positive number")
    e = x.numerator.bit_length() - x.denominator.bit_length()
    top = x.numerator << max(0, -e)
    bottom = x.denominator << max(0, e)
    low, high = _ln_near_one(top, bottom, bits)
    two_low, two_high = _ln_two(bits)
    if e < 0:
        two_low, two_high = two_high, two_low
    unit = Fraction(1, 1 << bits)
    return (low + e * two_low) * unit, (high + e * two_high) * unit


@lru_cache(maxsize=64)
def _ln_two(bits: int) -> tuple[int, int]:
    return _ln_near_one(2, 1, bits)


def root_up(x: Fraction, bits: int) -> Fraction:
    """Round the square root of x > 0 up to a multiple of 2**-bits."""
    whole = -(-(x.numerator << 2 * bits) // x.denominator)
    return Fraction(math.isqrt(whole - 1) + 1, 1 << bits)


def _ln_near_one(top: int, bottom: int, bits: int) -> tuple[int, int]:
    """Enclose: low <= 2**bits * ln(top/bottom) <= high, for a ratio in [1/2, 2]."""
    if top < bottom:
        low, high = _ln_near_one(bottom, top, bits)
        return -high, -low
    # ln(top/bottom) = 2 (z + z^3/3 + z^5/5 + ...), z = (top - bottom)/(top + bottom) <= 1/3.
    z = ((top - bottom) << bits) // (top + bottom)
    power, total, i = z, 0, 1
    while power:
        total += power // i
        power = power * z * z >> 2 * bits
        i += 2
    return 2 * total, 2 * total + 3 * i + 6


def _exp(rate: Fraction, bits: int) -> Interval:
    """Enclose exp(-rate), rate > 0."""
    halvings = (rate.numerator // rate.denominator).bit_length() + 4
    width = bits + halvings + 16
    x = (rate.numerator << width) // (rate.denominator << halvings)
    term, total, i = 1 << width, 0, 0
    while term:
        total += -term if i & 1 else term
        i += 1
        term = (term * x >> width) // i
    interval = (max(0, total - 2 * i - 1), total + 2 * i, -width)
    for _ in range(halvings):
        interval = times(interval, interval, bits + halvings + 16)
    return interval


def times(a: Interval, b: Interval, bits: int) -> Interval:
    """Multiply, cut to about `bits` bits: low rounded down, high rounded up."""
    low, high, e = a[0] * b[0], a[1] * b[1], a[2] + b[2]
    excess = high.bit_length() - bits
    if excess > 0:
        return low >> excess, -(-high >> excess), e + excess
    return low, high, e


def power(number: Interval, a: int, bits: int) -> Interval:
    """Enclose one power of a number, a >= 0; of several, `Powers` is quicker."""
    product = ONE
    for digit in f"{a:b}":
        product = times(product, product, bits)
        if digit == "1":
            product = times(product, number, bits)
    return product


class Powers:
    """Intervals around the powers of one number, by the digits of the exponent in base 16."""

    def __init__(self, number: Interval, bits: int) -> None:
        self._bits = bits
        # For the i-th digit, the powers of the number's 16**i-th power. The tables are replaced,
        # never changed, so threads may share them.
        self._tables: tuple[tuple[Interval, ...], ...] = (self._table(number),)

    def of(self, a: int) -> Interval:
        """Enclose the number to the power of a, a >= 0."""
        tables = self._tables
        while 16 ** len(tables) <= a:
            eighth = tables[-1][8]
            tables += (self._table(times(eighth, eighth, self._bits)),)
            self._tables = tables
        product, i = ONE, 0
        while a:
            if a & 15:
                power = tables[i][a & 15]
                product = power if product is ONE else times(product, power, self._bits)
            a >>= 4
            i += 1
        return product

    def _table(self, number: Interval) -> tuple[Interval, ...]:
        powers = [ONE, number]
        while len(powers) < 16:
            powers.append(times(powers[-1], number, self._bits))
        return tuple(powers)


def powers_of(rate: Fraction, bits: int) -> Powers:
    """Return the powers of exp(-rate), to about `bits` bits; tables of recent rates are kept."""
    return _powers(rate.numerator, rate.denominator, bits)


@lru_cache(maxsize=64)
def _powers(numerator: int, denominator: int, bits: int) -> Powers:
    return Powers(_exp(Fraction(numerator, denominator), bits), bits)

"""Powers of one number in arrays, enclosed by integers of 64 bits: see exact_sampling.md.

An enclosure (lows, highs, places) means lows / 2**places <= exp(-rate * a) <= highs / 2**places
for each exponent a.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.intervals import powers_of

_Int64s = NDArray[np.int64]
Enclosure = tuple[_Int64s, _Int64s, _Int64s]

_BITS = 31  # of a low or a high, so that a product of two of them fits 64 bits
_POWER_BITS = 128  # of the powers that tables are made from; large exponents cost half of them
_DIGIT_BITS = 8
_FAR = 1 << 40  # more places than matter; eight digits' places add up to less than 2**63
_MOST_SHIFTED = 63
_TWOS = 1 << np.arange(_MOST_SHIFTED, dtype=np.int64)


def powers(exponents: _Int64s, rate: Fraction) -> Enclosure:
    """Enclose q**a for q = exp(-rate) and each exponent a >= 0; no high is above 2**31."""
    lows = np.full(exponents.shape, 1 << _BITS, np.int64)
    highs, places = lows.copy(), np.full(exponents.shape, _BITS, np.int64)
    left, i = exponents, 0
    while left.any():
        digits = left & (1 << _DIGIT_BITS) - 1
        of_digits = _table(rate, i)
        lows = lows * of_digits[0][digits] >> _BITS
        highs = -(-highs * of_digits[1][digits] >> _BITS)
        places = places + of_digits[2][digits] - _BITS
        left, i = left >> _DIGIT_BITS, i + 1
    return lows, highs, places


@lru_cache(maxsize=256)
def _table(rate: Fraction, i: int) -> Enclosure:
    """Enclose q**a for each a that has one digit, at place i; highs lie from 2**30 to 2**31."""
    kept = powers_of(rate, _POWER_BITS)
    found = []
    for digit in range(1 << _DIGIT_BITS):
        low, high, e = kept.of(digit << _DIGIT_BITS * i)
        by = (high - 1).bit_length() - _BITS
        low, high = (low << -by, high << -by) if by < 0 else (low >> by, -(-high >> by))
        found.append((low, high, -e - by) if -e - by < _FAR else (0, high, _FAR))
    lows, highs, places = np.ascontiguousarray(np.array(found, np.int64).T)
    return lows, highs, places


def enclosed(exponents: _Int64s, rate: Fraction, bits: int) -> tuple[_Int64s, _Int64s]:
    """Enclose 2**bits * q**a for each exponent a, with at most 32 bits."""
    lows, highs, places = powers(exponents, rate)
    by = np.minimum(places + (_BITS - bits), _MOST_SHIFTED)
    return lows << _BITS >> by, -(-(highs << _BITS) >> by)


def running_sums(
    exponents: _Int64s, rate: Fraction, times: Sequence[_Int64s], bits: int
) -> tuple[_Int64s, _Int64s]:
    """Enclose the running sums over each row of q**a, multiplied by each array of `times`.

    Each row has one binary scale, on which its sums stay below 2**bits. All arrays have a row for
    each sum or one for all, and as many columns or one for all.
    """
    lows, highs, places = powers(exponents - exponents.min(axis=1, keepdims=True), rate)
    for i, numbers in enumerate(times):
        if i:
            by = np.maximum(np.searchsorted(_TWOS, highs, "right") - _BITS, 0)
            lows, highs, places = lows >> by, -(-highs >> by), places - by
        least, most, more = _shortened(numbers)
        lows, highs, places = lows * least, highs * most, places + more
    first = np.where(highs > 0, places, 1 << _MOST_SHIFTED - 1).min(axis=1, keepdims=True)
    room = bits - 1 - lows.shape[1].bit_length()
    by = np.clip(places - first + (2 * _BITS - room), 0, _MOST_SHIFTED)
    return (lows >> by).cumsum(axis=1), (-(-highs >> by)).cumsum(axis=1)


def _shortened(numbers: _Int64s) -> Enclosure:
    """Enclose numbers >= 0 in the same way; no high is above 2**31."""
    places = _BITS - np.searchsorted(_TWOS, numbers, "right")
    moved, by = numbers << np.maximum(places, 0), np.maximum(-places, 0)
    return moved >> by, -(-moved >> by), places

"""Geometric numbers, exactly. Knows a rate. The proof is in exact_sampling.md."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mixed import Numbers
from dp_sql.udfs.odds import Coins, Odds

_INT_BITS = 62


def geometric(draws: Draws, rate: Fraction, cap: int | None = None) -> int:
    """Draw min(G, cap), where P(G = g) = (1 - q) q**g for g >= 0 and q = exp(-rate), rate > 0."""
    if cap == 0:
        return 0
    return geometrics(draws, rate, 1, cap)[0]


def geometrics(draws: Draws, rate: Fraction, n: int, cap: int | None = None) -> list[int]:
    """Draw n such numbers, independently, with a cap >= 1 if there is one."""
    coins, carry = _coins(rate)
    heads = draws.flip_each(coins, n)
    n_digits = heads.shape[1] - 1
    rounds, growing = np.zeros(n, np.int64), np.flatnonzero(heads[:, -1])
    values = _from_digits(heads[:, :-1])
    while growing.size:
        rounds[growing] += 1
        if cap is not None:
            goes_on = rounds[growing].astype(object) << n_digits
            growing = growing[values[growing] + goes_on < cap]
        growing = growing[draws.flip_each(carry, growing.size)[:, 0]]
    if n_digits + int(rounds.max(initial=0)).bit_length() > _INT_BITS:
        values, rounds = values.astype(object), rounds.astype(object)
    found: list[int] = (values + (rounds << n_digits)).tolist()
    return found if cap is None else [min(value, cap) for value in found]


def _from_digits(digits: NDArray[np.bool_]) -> Numbers:
    """Read the binary digits of numbers, the lowest first."""
    n, n_digits = digits.shape
    if n_digits > _INT_BITS:
        found = (int.from_bytes(one, "little") for one in np.packbits(digits, 1, "little"))
        return np.fromiter(found, object, n)
    return digits @ (1 << np.arange(n_digits, dtype=np.int64))


@lru_cache(maxsize=64)
def _coins(rate: Fraction) -> tuple[Coins, Coins]:
    """Return coins for binary digits of a geometric number and, the last, for going beyond them."""
    n_digits = (rate.denominator // rate.numerator).bit_length()
    digits = [Odds((((1, 0),), ((1, 1 << i),)), rate) for i in range(n_digits)]
    place = 1 << n_digits
    carry = Odds((((1, 0), (-1, place)), ((1, place),)), rate)
    return Coins([*digits, carry]), Coins([carry])

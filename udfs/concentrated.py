"""What a rho of zero-concentrated DP means in (epsilon, delta), and the other way round.

Every order of the Renyi divergence proves some number, and nearly the best order is taken.
Source: Canonne, Kamath and Steinke 2020; proved in dp_sql/budget/accountants.md, "zcdp".
"""

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.intervals import ln_enclosure

_BITS = 96
_STEPS = 1 << 30  # orders between one power of 2 and the next
_LEAST, _OCTAVES = 32, 100  # orders, less 1, from 2**-32 on


@lru_cache(maxsize=256)
def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho that implies (epsilon, delta)-DP, rounded down; at least 0."""
    log = _ln(delta)

    def is_enough(order: Fraction) -> bool:  # the derivative of what orders prove has this sign
        a = order + 1
        beyond = a**2 * _ln(a) + order**2 * (epsilon - _ln(order))
        return beyond + (a + order) * log >= 0

    order = _first(is_enough)
    best = max(Fraction(0), (epsilon + _surplus(order, delta)) * Fraction(1, order + 1))
    return Fraction((best.numerator << _BITS) // best.denominator, 1 << _BITS)


def least_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Find the least epsilon that a rho > 0 implies at this delta, rounded up; at least 0."""
    log = _ln(delta)
    order = _first(lambda order: order**2 * rho + log + _ln(order + 1) >= 0)
    return max(Fraction(0), (order + 1) * rho - _surplus(order, delta))


def _first(is_enough: Callable[[Fraction], bool]) -> Fraction:
    """Find the first order, less 1, for which something holds that holds for all later ones."""
    return _order(bisect_left(range(_OCTAVES * _STEPS), True, key=lambda i: is_enough(_order(i))))


def _order(i: int) -> Fraction:
    octave, step = divmod(i, _STEPS)
    return Fraction((_STEPS + step) << octave, _STEPS << _LEAST)


def _ln(x: Fraction) -> Fraction:
    return ln_enclosure(x, _BITS)[0]


def _surplus(order: Fraction, delta: Fraction) -> Fraction:
    """Round (ln delta + a ln a) / (a - 1) - ln (a - 1) down, at a = 1 + order."""
    a = order + 1
    logs = _ln(delta) + a * _ln(a)
    return logs * Fraction(1, order) - ln_enclosure(order, _BITS)[1]

"""What a rho of zero-concentrated DP means in (epsilon, delta). Proofs: budget/accountants.md."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

_DIGITS = Context(prec=60)
# Far more than the error of a dozen operations with 60 digits on numbers below 1e20.
_SAFE = Decimal("1e-30")


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho that is (epsilon, delta)-DP, rounded down to 1e-12."""
    with localcontext(_DIGITS):  # each order proves some rho: floats only choose the order
        log_delta = _log(delta)
        exact = Decimal(epsilon.numerator) / epsilon.denominator

        def rough(order: float) -> float:
            return -(float(exact) + _rough_surplus(order, float(log_delta))) / (1 + order)

        order = _least_at(rough)
        found = (exact + (_surplus(order, log_delta) - _SAFE)) / (order + 1)
        return Fraction(max(0, int(found.scaleb(12).to_integral_value(ROUND_FLOOR))), 10**12)


def epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """Find the epsilon, rounded up to 1e-9, that rho (a multiple of 1e-12) implies at a delta."""
    if not rho:
        return Fraction(0)
    with localcontext(_DIGITS):
        log_delta = _log(delta)

        def rough(order: float) -> float:
            return (1 + order) * float(rho) - _rough_surplus(order, float(log_delta))

        order = _least_at(rough)
        exact = Decimal(rho.numerator) / rho.denominator
        found = (order + 1) * exact - _surplus(order, log_delta) + _SAFE
        return Fraction(max(0, int(found.scaleb(9).to_integral_value(ROUND_CEILING))), 10**9)


def _surplus(order: Decimal, log_delta: Decimal) -> Decimal:
    """(ln delta + a ln a) / (a - 1) - ln (a - 1) at a = 1 + order: epsilon + this = a * rho."""
    a = order + 1
    return (log_delta + a * a.ln()) / order - order.ln()


def _rough_surplus(order: float, log_delta: float) -> float:
    return (log_delta + (1 + order) * math.log1p(order)) / order - math.log(order)


def _least_at(cost: Callable[[float], float]) -> Decimal:
    """About where a cost that falls and then rises is least; every result is sound."""
    low, high = -14.0, 46.0  # logarithms of the least and the largest order - 1
    while high - low > 1e-9:
        third = (high - low) / 3
        if cost(math.exp(low + third)) <= cost(math.exp(high - third)):
            high -= third
        else:
            low += third
    return Decimal(math.exp((low + high) / 2))


def _log(x: Fraction) -> Decimal:
    return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()

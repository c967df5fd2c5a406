"""What a rho of zero-concentrated DP means in (epsilon, delta)."""

from fractions import Fraction

from dp_sql.udfs.intervals import ln_enclosure

_BITS = 64
_PER_OCTAVE = 16  # orders that are tried; each proves some rho
_OCTAVES = 60


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find nearly the largest rho that implies (epsilon, delta)-DP, rounded down; at least 0.

    Source: Canonne, Kamath and Steinke 2020; proved in dp_sql/budget/accountants.md, "zcdp".
    """
    low, high = 0, _PER_OCTAVE * _OCTAVES
    while high > low:  # the rho that an order proves rises and then falls
        middle = (low + high) >> 1
        if _proved_by(_order(middle), epsilon, delta) < _proved_by(
            _order(middle + 1), epsilon, delta
        ):
            low = middle + 1
        else:
            high = middle
    best = max(Fraction(0), _proved_by(_order(low), epsilon, delta))
    return Fraction((best.numerator << _BITS) // best.denominator, 1 << _BITS)


def _order(i: int) -> Fraction:
    """Count orders of the Renyi divergence, less 1, from 2**-10 in steps of a sixteenth or less."""
    octave, step = divmod(i, _PER_OCTAVE)
    return Fraction((_PER_OCTAVE + step) << octave, _PER_OCTAVE << 10)


def _proved_by(order: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Round (epsilon + (ln delta + a ln a) / (a - 1) - ln (a - 1)) / a down, a = 1 + order."""
    a = order + 1
    log_delta, log_a = ln_enclosure(delta, _BITS)[0], ln_enclosure(a, _BITS)[0]
    log_order = ln_enclosure(order, _BITS)[1]
    return (epsilon + (log_delta + a * log_a) * Fraction(1, order) - log_order) * Fraction(1, a)

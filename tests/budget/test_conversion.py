"""From epsilon and delta to the largest rho: proved by some order, and one unit more by none."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dp_sql.budget.accountants import epsilon_of_rho, largest_rho
from dp_sql.budget.amounts import NANO, PICO
from dp_sql.budget.model import Cap
from tests.budget.adversary import Flip

pytestmark = pytest.mark.pure


GRID = [
    (Fraction(epsilon), Fraction(1, 10**places))
    for epsilon in ("0.01", "0.3", "1", "8", "100", "10000")
    for places in (3, 6, 12, 18, 21)
]


Conversion = Callable[[Cap], int]


def log_delta_at(a: Decimal, rho: Decimal, epsilon: Decimal) -> Decimal:
    """Logarithm of exp((a-1)(a rho - epsilon)) (1 - 1/a)^a / (a-1), with the context's digits."""
    return (a - 1) * (a * rho - epsilon) + a * (1 - 1 / a).ln() - (a - 1).ln()


def best_log_delta(rho: Decimal, epsilon: Decimal) -> Decimal:
    """Its least over a, by ever finer grids."""
    low, high = Decimal("1e-7"), Decimal("1e12")
    best = Decimal("Infinity")
    for _ in range(14):
        ratio = (high / low) ** (Decimal(1) / 16)
        places = [low * ratio**i for i in range(17)]
        values = [log_delta_at(1 + x, rho, epsilon) for x in places]
        best = min(best, *values)
        at = values.index(min(values))
        low, high = places[max(0, at - 1)], places[min(16, at + 1)]
    return best


def too_much(conversion: Conversion, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether the rho that a conversion allows is beyond what any order proves."""
    with localcontext(prec=40):
        rho = Decimal(conversion(Cap(epsilon, delta))) / PICO
        exact = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        allowed = Decimal(delta.numerator).ln() - Decimal(delta.denominator).ln()
        return rho > 0 and best_log_delta(rho, exact) > allowed


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_largest_rho_is_proved_by_some_order_and_one_unit_more_by_none(
    epsilon: Fraction, delta: Fraction
) -> None:
    assert not too_much(largest_rho, epsilon, delta)
    assert too_much(lambda cap: largest_rho(cap) + 2, epsilon, delta)


@pytest.mark.thorough
def test_a_conversion_rounded_the_wrong_way_is_found_out() -> None:
    def rounded_up(cap: Cap) -> int:
        return largest_rho(cap) + 1

    assert all(too_much(rounded_up, epsilon, delta) for epsilon, delta in GRID)


def test_the_conversion_is_better_than_the_simple_one() -> None:
    with localcontext(prec=40):
        for epsilon, delta in GRID:
            log = -Decimal(delta.numerator).ln() + Decimal(delta.denominator).ln()
            exact = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
            simple = ((log + exact).sqrt() - log.sqrt()) ** 2
            assert largest_rho(Cap(epsilon, delta)) > simple * PICO - 1


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_epsilon_shown_for_the_largest_rho_is_the_cap_s(
    epsilon: Fraction, delta: Fraction
) -> None:
    rho = largest_rho(Cap(epsilon, delta))
    assert epsilon_of_rho(rho, delta) <= epsilon * NANO + 1
    assert epsilon_of_rho(rho + 10**6, delta) > epsilon * NANO


def test_a_rho_so_small_that_delta_covers_it_shows_no_epsilon() -> None:
    assert epsilon_of_rho(1000, Fraction(1, 1000)) == 0


@pytest.mark.parametrize("t", range(1, 8))
def test_a_bounded_range_has_the_rho_that_is_charged_for_it(t: int) -> None:
    base, steps = Fraction(11, 10), 8
    flip = Flip(base**t, base ** (t - steps))
    with localcontext(prec=40):
        u = steps * (Decimal(11) / Decimal(10)).ln()
        for a in range(2, 60):
            moment = flip.p * flip.up ** (a - 1) + (1 - flip.p) * flip.down ** (a - 1)
            renyi = (Decimal(moment.numerator) / Decimal(moment.denominator)).ln() / (a - 1)
            assert renyi <= a * u * u / 8

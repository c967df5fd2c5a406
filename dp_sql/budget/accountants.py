"""How losses add up against a cap: basic, zcdp, pld. Integers decide. Never a book, never SQL.

Each accountant is a filter: releases that were each admitted by `fits` are together within the
cap, also where each was chosen after reading the answers before. Proofs are in accountants.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from dp_sql.budget import pld
from dp_sql.budget.amounts import ATTO, NANO, PICO, Amount, Spent
from dp_sql.budget.model import AccountantName, Cap
from dp_sql.errors import PolicyError
from dp_sql.udfs.mechanism import in_words


class Accountant(Protocol):
    """One way of adding up, with the cap that is not to be exceeded."""

    @property
    def name(self) -> AccountantName:
        """What the policy calls it."""

    def refuses(self, amount: Amount) -> str | None:
        """Say in a sentence why such a loss can never be counted; None: it can."""

    def fits(self, spent: Spent) -> bool:
        """Decide whether all this may be spent; `spent` includes the loss asked for."""

    def epsilon_spent(self, spent: Spent) -> int:
        """What the losses amount to at the cap's delta, in 1e-9, rounded up; for display."""

    def delta_spent(self, spent: Spent) -> int:
        """The delta that belongs to `epsilon_spent`, in 1e-18, rounded up."""


def accountant(name: AccountantName, cap: Cap, release_epsilon: Fraction | None) -> Accountant:
    """Make the accountant of a cap. With delta 0 there is only basic composition.

    Args:
        name: how losses add up.
        cap: what is not to be exceeded.
        release_epsilon: for "pld": the range that each release is charged as.

    Raises:
        PolicyError: "pld" without release_epsilon, or without the package that it needs.
    """
    if name == "pld":
        pld.require_package()
        if release_epsilon is None or release_epsilon <= 0:
            raise PolicyError(
                'accountant = "pld" needs release_epsilon, a positive number: what every release '
                "is charged as."
            )
    if name == "basic" or not cap.delta:
        return _Basic(name, cap)
    if name == "zcdp":
        return _Zcdp(cap, largest_rho(cap))
    unit = _up(Fraction(release_epsilon or 0) * NANO)
    return _Pld(cap, unit, _most_units(cap, Fraction(unit, NANO)))


@dataclass(frozen=True)
class _Basic:
    """Epsilons add, and deltas add (Rogers, Roth, Ullman and Vadhan 2016)."""

    name: AccountantName
    cap: Cap

    def refuses(self, amount: Amount) -> str | None:
        return None

    def fits(self, spent: Spent) -> bool:
        return _within(spent.epsilon, self.cap.epsilon, NANO) and _within(
            spent.delta, self.cap.delta, ATTO
        )

    def epsilon_spent(self, spent: Spent) -> int:
        return spent.epsilon

    def delta_spent(self, spent: Spent) -> int:
        return spent.delta


@dataclass(frozen=True)
class _Zcdp:
    """Either all losses are pure and within epsilon, or all have rho and these add to `most`."""

    cap: Cap
    most: int
    name: AccountantName = "zcdp"

    def refuses(self, amount: Amount) -> str | None:
        if not amount.delta or amount.rho is not None:
            return None
        return (
            "This release has a delta of its own and no rho that is known, so the budget's "
            'accountant "zcdp" cannot count it: its delta would come on top of the budget\'s. '
            "Choose a mechanism without delta, which it always counts."
        )

    def fits(self, spent: Spent) -> bool:
        return _pure(spent, self.cap) or self._rule(spent)

    def _rule(self, spent: Spent) -> bool:
        return spent.with_rho == spent.n and spent.rho <= self.most

    def epsilon_spent(self, spent: Spent) -> int:
        if spent.with_rho < spent.n:
            return spent.epsilon
        at_delta = [epsilon_of_rho(spent.rho, self.cap.delta)]
        return _least(spent, self.cap, at_delta, self._rule(spent))

    def delta_spent(self, spent: Spent) -> int:
        return _delta(spent, self.cap, self.epsilon_spent(spent), spent.with_rho == spent.n)


@dataclass(frozen=True)
class _Pld:
    """Either all losses are pure and within epsilon, or all have range `unit`: `most` of them."""

    cap: Cap
    unit: int
    most: int
    name: AccountantName = "pld"

    def refuses(self, amount: Amount) -> str | None:
        if amount.bounded_range is not None and amount.bounded_range <= self.unit:
            return None
        unit = in_words(Fraction(self.unit, NANO))
        return (
            f'The budget\'s accountant "pld" charges every release as epsilon = {unit}, and this '
            "one is not known to cost as little. An exponential mechanism (joint) may name up to "
            f"{unit}, others about half of it, all groups together."
        )

    def fits(self, spent: Spent) -> bool:
        return _pure(spent, self.cap) or (self._units(spent) and spent.n <= self.most)

    def _units(self, spent: Spent) -> bool:
        return spent.with_range == spent.n and spent.widest <= self.unit

    def epsilon_spent(self, spent: Spent) -> int:
        if not spent.n or not self._units(spent):
            return spent.epsilon
        u = Fraction(self.unit, NANO)
        at_delta = [
            _up(pld.epsilon_of(spent.n, self.cap.delta, u) * NANO),
            epsilon_of_rho(spent.n * _rho_of_range(u), self.cap.delta),
        ]
        return _least(spent, self.cap, at_delta, spent.n <= self.most)

    def delta_spent(self, spent: Spent) -> int:
        return _delta(spent, self.cap, self.epsilon_spent(spent), self._units(spent))


@lru_cache(maxsize=256)
def largest_rho(cap: Cap) -> int:
    """Find the rho, in 1e-12 and rounded down, up to which zCDP is within the cap.

    Each order gives such a rho; floats only choose the order, 60 digits say what it gives.
    """
    log_delta, epsilon = _log(cap.delta), _decimal(cap.epsilon)

    def rho(order: Decimal) -> Decimal:
        shift = _DIGITS.subtract(_surplus(order, log_delta), _SAFE)
        return _DIGITS.divide(_DIGITS.add(epsilon, shift), _plus(order, 1))

    def guess(order: float) -> float:
        return -(float(cap.epsilon) + _rough_surplus(order, float(log_delta))) / (1 + order)

    found = rho(_least_at(guess))
    return max(0, int(found.scaleb(12, _DIGITS).to_integral_value(ROUND_FLOOR)))


@lru_cache(maxsize=4096)
def epsilon_of_rho(rho: int, delta: Fraction) -> int:
    """Convert rho (in 1e-12) at a delta to the epsilon that it implies, in 1e-9, rounded up."""
    if not rho:
        return 0
    log_delta, exact = _log(delta), Decimal(rho).scaleb(-12, _DIGITS)

    def guess(order: float) -> float:
        return (1 + order) * rho / PICO - _rough_surplus(order, float(log_delta))

    order = _least_at(guess)
    first = _DIGITS.multiply(_plus(order, 1), exact)
    found = _DIGITS.add(_DIGITS.subtract(first, _surplus(order, log_delta)), _SAFE)
    return max(0, int(found.scaleb(9, _DIGITS).to_integral_value(ROUND_CEILING)))


_DIGITS = Context(prec=60)
_SAFE = Decimal("1e-30")
"""Far more than what a dozen operations with 60 digits can be wrong by, below 1e20."""
_ORDERS = (-14.0, 46.0)
"""Logarithms of the least and the largest order - 1 that are tried."""


def _surplus(order: Decimal, log_delta: Decimal) -> Decimal:
    """(ln delta + a ln a) / (a - 1) - ln (a - 1) at a = 1 + order: epsilon + this = a * rho."""
    a = _plus(order, 1)
    inner = _DIGITS.add(log_delta, _DIGITS.multiply(a, a.ln(_DIGITS)))
    return _DIGITS.subtract(_DIGITS.divide(inner, order), order.ln(_DIGITS))


def _rough_surplus(order: float, log_delta: float) -> float:
    return (log_delta + (1 + order) * math.log1p(order)) / order - math.log(order)


def _least_at(cost: Callable[[float], float]) -> Decimal:
    """Find about where a cost that falls and then rises is least; every answer is sound."""
    low, high = _ORDERS
    while high - low > 1e-9:
        third = (high - low) / 3
        if cost(math.exp(low + third)) <= cost(math.exp(high - third)):
            high -= third
        else:
            low += third
    return Decimal(math.exp((low + high) / 2))


def _plus(x: Decimal, n: int) -> Decimal:
    return _DIGITS.add(x, Decimal(n))


def _decimal(x: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


def _log(x: Fraction) -> Decimal:
    return _DIGITS.subtract(Decimal(x.numerator).ln(_DIGITS), Decimal(x.denominator).ln(_DIGITS))


def _most_units(cap: Cap, u: Fraction) -> int:
    """Count the releases of range u within the cap, by the better of the two proofs."""
    by_rho = largest_rho(cap) // _rho_of_range(u)
    return max(by_rho, pld.releases_that_fit(cap.epsilon, cap.delta, u))


def _rho_of_range(u: Fraction) -> int:
    return _up(u**2 / 8 * PICO)


def _pure(spent: Spent, cap: Cap) -> bool:
    """Decide by the basic alternative: no delta at all, and the epsilons within the cap."""
    return not spent.delta and _within(spent.epsilon, cap.epsilon, NANO)


def _least(spent: Spent, cap: Cap, at_delta: list[int], within: bool) -> int:
    """Choose the least of the epsilons that are proved for what is spent."""
    pure = [] if spent.delta else [spent.epsilon]
    return min(at_delta + pure + ([_up(cap.epsilon * NANO)] if within else []))


def _delta(spent: Spent, cap: Cap, epsilon_spent: int, counted: bool) -> int:
    """Name the delta of the proof that gave `epsilon_spent`: none where the loss is pure."""
    if not counted or (not spent.delta and epsilon_spent == spent.epsilon):
        return spent.delta
    return _up(cap.delta * ATTO)


def _within(units: int, cap: Fraction, unit: int) -> bool:
    return units * cap.denominator <= cap.numerator * unit


def _up(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)

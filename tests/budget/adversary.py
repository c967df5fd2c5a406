"""Analysts who choose each next release from the answers before, and their exact worst.

Independent of dp_sql: Fractions, or integers rounded so that a loss is never overstated.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import cache

SCALE = 1 << 160


@dataclass(frozen=True)
class Flip:
    """A release of two outcomes on two neighbours; pure, with the odds of its loss as e^loss.

    up: e^loss of the first outcome. down: e^loss of the second, below 1.
    """

    up: Fraction
    down: Fraction

    @property
    def p(self) -> Fraction:
        """The probability of the first outcome on the data where it is the likelier."""
        return self.up * (1 - self.down) / (self.up - self.down)


@dataclass(frozen=True)
class Reveal:
    """A release that shows, with probability p, on which of two neighbours it ran; else nothing."""

    p: Fraction


def coin(odds: Fraction) -> Flip:
    """Randomised response: truthful with odds : 1."""
    return Flip(odds, 1 / odds)


def delta_of(flips: Sequence[Flip], limit: Fraction) -> Fraction:
    """The exact delta at e^epsilon = limit of releases that are fixed beforehand."""
    masses = {Fraction(1): Fraction(1)}
    for flip in flips:
        after: dict[Fraction, Fraction] = defaultdict(Fraction)
        for odds, mass in masses.items():
            after[odds * flip.up] += mass * flip.p
            after[odds * flip.down] += mass * (1 - flip.p)
        masses = after
    return sum((m * (1 - limit / o) for o, m in masses.items() if o > limit), Fraction(0))


def worst(
    menu: Sequence[Flip | Reveal], admits: Callable[[tuple[int, ...]], bool], limit: Fraction
) -> Fraction:
    """The exact delta that the best adaptive choice from a menu reaches under a filter.

    admits: given how often each release of the menu would have run, the next one included.
    """

    @cache
    def value(counts: tuple[int, ...], odds: Fraction) -> Fraction:
        best = max(1 - limit / odds, Fraction(0))
        for i, flip in enumerate(menu):
            after = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
            if not admits(after):
                continue
            if isinstance(flip, Reveal):
                best = max(best, flip.p + (1 - flip.p) * value(after, odds))
            else:
                one = value(after, odds * flip.up)
                other = value(after, odds * flip.down)
                best = max(best, flip.p * one + (1 - flip.p) * other)
        return best

    return value((0,) * len(menu), Fraction(1))


class RangeGame:
    """n releases of one range, each with losses t and t - u, t chosen anew on a grid.

    Args:
        u: about what the range is to be; `self.u` is it, a little too high.
        steps: of the grid in one range.
    """

    def __init__(self, u: Fraction, steps: int) -> None:
        base = Fraction(round(math.exp(u / steps) * 10**6), 10**6)
        self.base, self.steps = base, steps
        self.u = steps * log_between(base)[1]
        self.rows: list[dict[int, int]] = [{}]
        top = base**steps
        self._chances = []
        for t in range(steps + 1):
            up, down = base**t, base**t / top
            p = up * (1 - down) / (up - down) if t else Fraction(1)
            self._chances.append((int(p * SCALE), int((1 - p) * SCALE)))
        self._fixed: dict[int, int] = {}

    def epsilon(self, at: int) -> Fraction:
        """The epsilon at a point of the grid, a little too low."""
        return at * log_between(self.base)[0]

    def _before(self, n: int, at: int) -> int:
        """The value of n releases at epsilon = at steps; never above the true one."""
        if at >= n * self.steps:
            return 0
        if at <= -n * self.steps or not n:
            if at not in self._fixed:
                self._fixed[at] = int((1 - self.base**at) * SCALE)
            return self._fixed[at]
        return self.rows[n][at]

    def delta(self, n: int, at: int) -> Fraction:
        """A delta that some adaptive choice of n releases surely reaches at epsilon = at steps."""
        while len(self.rows) <= n:
            k = len(self.rows)
            self.rows.append(
                {
                    j: max(
                        (
                            p * self._before(k - 1, j - t)
                            + q * self._before(k - 1, j - t + self.steps)
                        )
                        // SCALE
                        for t, (p, q) in enumerate(self._chances)
                    )
                    for j in range(-k * self.steps + 1, k * self.steps)
                }
            )
        return Fraction(self._before(n, at), SCALE)


def log_between(x: Fraction) -> tuple[Fraction, Fraction]:
    """Two numbers 1e-30 apart with ln x between them."""
    with localcontext(prec=60):
        log = Decimal(x.numerator).ln() - Decimal(x.denominator).ln()
        low = Fraction(int(log.scaleb(30).to_integral_value(ROUND_FLOOR)), 10**30)
    return low, low + Fraction(1, 10**30)

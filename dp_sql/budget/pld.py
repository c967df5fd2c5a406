"""How many releases of one bounded range fit into (epsilon, delta). Floats, rounded to be safe.

Knows one number about a release: the length u of the interval that contains its privacy losses,
given what was drawn for other people before it. Bounds are proved in accountants.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dp_sql.errors import PolicyError
from dp_sql.installation import install_command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Curve = NDArray[np.float64]

_STEPS = 32  # points of the grid in one range
_BLOCK = 32  # up to this many releases are bounded by recursion; more are composed of such blocks
_MOST = 2**20  # the search for the number of releases ends at about twice this
_WIDEST = 100  # for a wider range floats are useless, and epsilons add
_PER_RELEASE = 1e-10  # relative; over a thousand times the rounding error of one recursion step
_COMPOSED = 1e-10  # absolute; over a hundred times the rounding error of a composition
_TAIL = 1e-13  # the mass that a composition may move to an infinite loss


def require_package() -> None:
    """Check that Google's dp-accounting is installed."""
    if find_spec("dp_accounting") is None:
        raise PolicyError(
            'accountant = "pld" needs the package dp-accounting; install it with '
            f'`{install_command("pld")}`, or choose accountant = "zcdp".'
        )


@lru_cache(maxsize=256)
def releases_that_fit(epsilon: Fraction, delta: Fraction, u: Fraction) -> int:
    """Count how many releases of range u > 0 are together (epsilon, delta)-DP, however chosen."""
    surely = epsilon // u
    if u > _WIDEST:
        return surely
    target, allowed = _down(epsilon), _down(delta)

    def fit(n: int) -> bool:
        return _delta_of(n, target, u) <= allowed

    high = 1
    while high <= _MOST and fit(high):
        high *= 2
    first = bisect_left(range(high), True, high // 2 + 1, key=lambda n: not fit(n))
    return max(first - 1, surely)


@lru_cache(maxsize=256)
def epsilon_of(n: int, delta: Fraction, u: Fraction) -> Fraction:
    """Bound the epsilon of n releases of range u at this delta, from above; for display."""
    if u > _WIDEST:
        return n * u
    allowed = _down(delta)
    if _delta_of(n, 0.0, u) <= allowed:
        return Fraction(0)
    low, high = 0.0, n * _up(u)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _delta_of(n, middle, u) <= allowed else (middle, high)
    return Fraction(high)


def _delta_of(n: int, epsilon: float, u: Fraction) -> float:
    """Bound from above the delta that n releases have at epsilon."""
    safety = math.exp(_PER_RELEASE * n)
    if n <= _BLOCK:
        return safety * _blocks(u).delta(n, epsilon)
    return safety * float(_composed(n, u).get_delta_for_epsilon(epsilon)) + _COMPOSED


@dataclass(frozen=True)
class _Blocks:
    """curves[n][_BLOCK * _STEPS + j]: the delta of n releases at epsilon = j * step, n <= _BLOCK.

    All of it is bounded from above. Below the grid delta is 1 - exp(epsilon), above it 0.
    """

    step: float
    curves: list[Curve]

    def delta(self, n: int, epsilon: float) -> float:
        """Read the curve of n releases, between two points by a line in e^epsilon."""
        at = math.floor(epsilon / self.step) + 1
        if at > n * _STEPS:
            return 0.0
        weight = -math.expm1(epsilon - at * self.step) / -math.expm1(-self.step)
        left, right = self.curves[n][_BLOCK * _STEPS + at - 1 : _BLOCK * _STEPS + at + 1]
        return float(left) * min(weight, 1.0) + float(right) * (1 - min(weight, 1.0))


@lru_cache(maxsize=16)
def _blocks(u: Fraction) -> _Blocks:
    import numpy as np

    step = _up(u) / _STEPS
    grid = step * np.arange(-_BLOCK * _STEPS, _BLOCK * _STEPS + 1)
    curves = [np.maximum(0.0, -np.expm1(np.minimum(0.0, grid)))]
    for _ in range(_BLOCK):
        curves.append(_one_more(curves[-1], step))
    return _Blocks(step, curves)


def _one_more(curve: Curve, step: float) -> Curve:
    """Bound the curve with one release in front of those of `curve`.

    Its loss is t with probability p and else t - u; the worst t in [0, u] is sought in each cell
    of the grid, where both curves are lines in e^epsilon and the best t has a closed form.
    """
    import numpy as np

    half = len(curve) // 2
    below = step * np.arange(-half - _STEPS - 1, -half)
    wide = np.concatenate([-np.expm1(below), curve, np.zeros(_STEPS + 1)])
    best = curve.copy()
    for cell in range(_STEPS):
        # At t = cell * step + x, x in [0, step]: after the loss t the curve is read between a and
        # b, after the loss t - u between c and d.
        starts = (k * _STEPS - cell + i for k in (1, 2) for i in (0, 1))
        a, b, c, d = (wide[start : start + len(curve)] for start in starts)
        for x in (_best_place(a, b, c, d, cell, step), np.float64(step)):
            left = np.expm1(-x) / math.expm1(-step)
            right = np.expm1(step - x) / math.expm1(step)
            p = np.expm1(x - (_STEPS - cell) * step) / math.expm1(-_STEPS * step)
            q = np.expm1(x + cell * step) / math.expm1(_STEPS * step)
            best = np.maximum(best, p * (left * a + right * b) + q * (left * c + right * d))
    return np.minimum(best, 1.0)  # a delta is at most 1; rounding may exceed it


def _best_place(a: Curve, b: Curve, c: Curve, d: Curve, cell: int, step: float) -> Curve:
    """Find the x in [0, step] at which grows * exp(x) + falls * exp(-x) is largest, or one end."""
    import numpy as np

    p0 = -1 / math.expm1(-_STEPS * step)
    p1 = p0 * math.exp((cell - _STEPS) * step)
    slope, other = (a - b) / math.expm1(-step), (c - d) / math.expm1(-step)
    grows = p1 * ((d - other) - (b - slope))
    falls = p0 * slope + (1 - p0) * other
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log(falls / grows) / 2
    return np.where((grows < 0) & (falls < 0), np.clip(x, 0.0, step), 0.0)


@lru_cache(maxsize=64)
def _composed(n: int, u: Fraction) -> Any:
    """Compose n releases of whole blocks and the rest, by dp-accounting's pessimistic rounding."""
    whole, rest = divmod(n, _BLOCK)
    composed = _distribution(_BLOCK, u).self_compose(whole, _TAIL)
    return composed.compose(_distribution(rest, u)) if rest else composed


@lru_cache(maxsize=64)
def _distribution(n: int, u: Fraction) -> Any:
    """Connect the dots of one curve: a distribution of losses on the grid that dominates it."""
    import numpy as np
    from dp_accounting.pld import pld_pmf

    require_package()
    blocks = _blocks(u)
    grid = np.arange(-n * _STEPS, n * _STEPS + 1)
    deltas = blocks.curves[n][grid + _BLOCK * _STEPS]
    dots = pld_pmf.create_pmf_pessimistic_connect_dots(blocks.step, grid, deltas)
    return dots.to_dense_pmf()


def _down(x: Fraction) -> float:
    return math.nextafter(float(x), -math.inf)


def _up(x: Fraction) -> float:
    return math.nextafter(float(x), math.inf)

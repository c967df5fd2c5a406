"""The candidates of a selection as they arrive: types, ranges and one common unit."""

import math
from collections.abc import Sequence
from fractions import Fraction

Number = int | Fraction
Numbers = Sequence[Number]
"""Exact numbers, one for each candidate."""


def check_candidates(scores: Numbers, sensitivities: Numbers) -> None:
    """Refuse what is not one exact number per candidate, and as many sensitivities >= 0.

    Raises:
        TypeError: a value that is neither an int nor a Fraction; floats and bools among them.
        ValueError: no candidates, lists of different length, or a negative sensitivity.
    """
    if not len(scores) == len(sensitivities) > 0:
        raise ValueError("there must be one sensitivity for each of one or more scores")
    _check_exact("scores", scores)
    check_sensitivities(sensitivities)


def check_sensitivities(sensitivities: Numbers) -> None:
    """Refuse sensitivities of another type or range."""
    if not len(sensitivities):
        raise ValueError("there must be one sensitivity for each of one or more scores")
    _check_exact("sensitivities", sensitivities)
    if min(sensitivities) < 0:
        raise ValueError("sensitivities must be at least 0")


def in_units(scores: Numbers, sensitivities: Numbers) -> tuple[list[int], list[int]]:
    """Write all scores and sensitivities as integers, in one common unit.

    The unit is one over their least common denominator, so it depends on the data. Only a mechanism
    whose distribution is a function of ratios alone may use it, as each proof note says of its own.
    Any other use of the unit (a rate, a grid or a cut counted in units) would be a leak.

    The time grows with the common denominator. Round scores such as means over groups of many
    different sizes to a public grid first, and their sensitivities up to that grid.
    """
    values = [*scores, *sensitivities]
    unit = math.lcm(*{value.denominator for value in values})
    whole = [value.numerator * (unit // value.denominator) for value in values]
    return whole[: len(scores)], whole[len(scores) :]


def _check_exact(name: str, values: Numbers) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
            raise TypeError(f"{name} must be ints or Fractions")

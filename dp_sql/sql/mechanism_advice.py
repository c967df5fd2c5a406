"""Which of gem and mgem fits these scores? For the owner's eyes: knows no SQL and no budget."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from operator import index

from dp_sql.udfs.select import correlation as exact

Number = int | float | Decimal | Fraction


def correlation(
    scores: Iterable[Number], sensitivities: Iterable[Number], kind: str = "spearman"
) -> float:
    """How scores and sensitivities go together, from -1 to 1. NOT private by itself.

    Where it is negative, candidates that score well are little sensitive: choose
    `mechanism := 'gem'`. Where it is positive, choose `'mgem'`. Where you may not look, or do not
    know, `'combined_gem'` makes that choice privately.

    >>> import dp_sql
    >>> dp_sql.correlation([0.9, 0.5, 0.1], [1, 2, 3])
    -1.0

    Args:
        scores: how good each candidate is, at least one; lists, arrays, columns of numbers.
        sensitivities: how far one person moves each score, as many, >= 0.
        kind: "spearman", of the ranks; or "weighted", of the numbers, each candidate weighing as
            much as its sensitivity is of the largest one among similar scores.

    Returns:
        The correlation to the nearest millionth; 0 where either column is constant.

    Raises:
        ValueError: columns of different lengths, a negative sensitivity, an unknown kind, NaN.

    Privacy: none. It is a function of the scores, and tells about the people in them.
    Source: Private Selection with Heterogeneous Sensitivities, 2025.
    """
    x, y = ([_number(value) for value in column] for column in (scores, sensitivities))
    return float(exact.correlation(x, y, kind))


def _number(value: Number) -> Fraction:
    """The exact number; numpy's integers would stay 64 bits wide inside a Fraction."""
    if isinstance(value, Decimal | Fraction):
        return Fraction(value)
    try:
        return Fraction(index(value))  # type: ignore[arg-type]
    except TypeError:
        pass
    number = float(value)
    if not isfinite(number):
        raise ValueError("scores and sensitivities must be finite")
    return Fraction(number)

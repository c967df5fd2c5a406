"""The sign of Spearman's correlation of scores and sensitivities, exactly. NOT private by itself.

combined_gem releases it by randomised response. Knows scores and sensitivities; never randomness.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from dp_sql.udfs.select.candidates import Numbers, in_units


def sign_of_spearman(scores: Numbers, sensitivities: Numbers) -> int:
    """Decide whether Spearman's correlation is positive (1), negative (-1) or neither (0).

    It has the sign of the covariance of the ranks; a constant column has no correlation: 0.
    """
    x, y = (_ranks(values) for values in in_units(scores, sensitivities))
    covariance = len(x) * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)
    return (covariance > 0) - (covariance < 0)


def _ranks(values: Sequence[int]) -> list[int]:
    """Return twice the mean rank, which is an integer, of each value: 1 for a lowest single."""
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) for value in values]

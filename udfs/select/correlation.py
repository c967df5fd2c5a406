"""How scores and sensitivities go together, exactly. NOT private: for the owner's eyes.

Helps to choose between gem (negative: what scores well is not sensitive) and mgem (positive), on
data that may be seen. combined_gem makes that choice privately. Knows scores and sensitivities;
never randomness.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from dp_sql.udfs.select.candidates import Numbers, check_candidates, in_units

KINDS = ("spearman", "weighted")
"""spearman: of the ranks, equal values sharing their mean rank. weighted: of the numbers, each
candidate weighing as much as its sensitivity is of the largest one among similar scores."""

_N_BUCKETS = 10
_PLACES = 10**6


def correlation(scores: Numbers, sensitivities: Numbers, kind: str) -> Fraction:
    """Measure how scores and sensitivities go together. The result is not private.

    Args:
        scores: how good each candidate is on the data, exact numbers, at least one.
        sensitivities: public; the most that one person moves each score, >= 0.
        kind: one of KINDS.

    Returns:
        A number in [-1, 1]: the correlation to the nearest millionth, but never 0 unless it is
        0. Where either column is constant no correlation is defined, and 0 is returned.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: none at all. It is a function of the scores; show it to nobody who may not see them.
    Source: Spearman 1904; Antonova et al. 2025, appendix I, for the weighted kind.
    """
    check_candidates(scores, sensitivities)
    if not isinstance(kind, str):
        raise TypeError("kind must be a str")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}")
    x, y = in_units(scores, sensitivities)
    if kind == "spearman":
        return _quotient(*_moments(_ranks(x), _ranks(y), [1] * len(x)))
    return _quotient(*_moments(x, y, _weights(x, y)))


def sign_of_spearman(scores: Numbers, sensitivities: Numbers) -> int:
    """Decide whether Spearman's correlation is positive (1), negative (-1) or neither (0)."""
    x, y = in_units(scores, sensitivities)
    joint, _, _ = _moments(_ranks(x), _ranks(y), [1] * len(x))
    return (joint > 0) - (joint < 0)


def _ranks(values: Sequence[int]) -> list[int]:
    """Return twice the mean rank, which is an integer, of each value: 1 for a lowest single."""
    ranks: dict[int, int] = {}
    ordered = sorted(values)
    start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end] == ordered[start]:
            end += 1
        ranks[ordered[start]] = start + end
        start = end
    return [ranks[value] for value in values]


def _weights(scores: Sequence[int], sensitivities: Sequence[int]) -> list[int]:
    """Weigh each candidate by its sensitivity over the largest in its bucket of scores.

    Where all sensitivities of a bucket are 0 each of them is the largest and weighs 1. The
    weights are brought to one denominator, which a correlation does not depend on.
    """
    low, width = min(scores), max(scores) - min(scores)
    buckets = [min((score - low) * _N_BUCKETS // max(1, width), _N_BUCKETS - 1) for score in scores]
    largest = [0] * _N_BUCKETS
    for bucket, size in zip(buckets, sensitivities, strict=True):
        largest[bucket] = max(largest[bucket], size)
    unit = math.lcm(*(size for size in largest if size))
    return [
        size * (unit // largest[bucket]) if largest[bucket] else unit
        for bucket, size in zip(buckets, sensitivities, strict=True)
    ]


def _moments(x: Sequence[int], y: Sequence[int], weights: Sequence[int]) -> tuple[int, int, int]:
    """Return the weighted covariance and both variances, all times (sum of the weights)^2."""
    total = sum(weights)
    wx = [w * a for w, a in zip(weights, x, strict=True)]
    wy = [w * b for w, b in zip(weights, y, strict=True)]

    def about_the_means(u: Sequence[int], wu: Sequence[int], wv: Sequence[int]) -> int:
        return total * sum(a * b for a, b in zip(u, wv, strict=True)) - sum(wu) * sum(wv)

    return about_the_means(x, wx, wy), about_the_means(x, wx, wx), about_the_means(y, wy, wy)


def _quotient(joint: int, x_spread: int, y_spread: int) -> Fraction:
    """Return joint / sqrt(x_spread * y_spread) to the nearest millionth, its sign kept."""
    if not joint:
        return Fraction(0)
    # The floor of twice the size in millionths, then to the nearest.
    twice = math.isqrt((2 * _PLACES * joint) ** 2 // (x_spread * y_spread))
    size = max(1, (twice + 1) // 2)
    return Fraction(size if joint > 0 else -size, _PLACES)

"""Counts of many groups, released at once. The proof is in k_norm.md."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability
from dp_sql.udfs.range_norm import range_norm_noise, range_norm_quantile

_MOST = 2**63 - 1


def k_norm(counts: NDArray[np.integer], epsilon: Fraction, contribution_bound: int) -> list[int]:
    """Add noise to the counts of all groups.

    Args:
        counts: one for each group, shape (groups,).
        epsilon: privacy loss of all counts together, positive.
        contribution_bound: the most that one person adds to a count, >= 1.

    Returns:
        The noisy counts, kept within 64 bits.

    Raises TypeError for a public number of another type, floats among them, and ValueError for one
    out of range or counts that are no array of integers.

    Privacy: epsilon-DP under adding or removing one person, who adds 0 to contribution_bound to
        each count, to any number of them.
    Source: Hardt and Talwar 2010 (the K-norm mechanism), Joseph and Yu 2024 (this norm).
    """
    rate = _rate(epsilon, contribution_bound)
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise ValueError("counts must be a one-dimensional array of integers")
    noise = range_norm_noise(counts.size, rate, secret_draws())
    noisy = (count + added for count, added in zip(counts.tolist(), noise, strict=True))
    return [max(-_MOST, min(count, _MOST)) for count in noisy]


def loss(epsilon: Fraction, contribution_bound: int) -> PrivacyLoss:
    """Price one run, for any number of groups."""
    _rate(epsilon, contribution_bound)
    return PrivacyLoss(epsilon)


def within(n_groups: int, epsilon: Fraction, contribution_bound: int, beta: Fraction) -> int:
    """Bound how far all noisy counts are from the true ones, except with probability beta."""
    return range_norm_quantile(max(1, n_groups), _rate(epsilon, contribution_bound), beta)


def accuracy(size: int, epsilon: Fraction, contribution_bound: int, beta: Fraction) -> str:
    """State the same in a sentence; `size` is the number of groups."""
    check_probability("beta", beta)
    most = within(size, epsilon, contribution_bound, beta)
    return (
        f"{with_probability(1 - beta)} all {size} counts are within ± {most} of the true ones "
        f"(epsilon = {in_words(epsilon)})"
    )


def _rate(epsilon: Fraction, contribution_bound: int) -> Fraction:
    check_epsilon(epsilon)
    check_positive_int("contribution_bound", contribution_bound)
    return epsilon / contribution_bound


K_NORM = Mechanism(
    "k_norm",
    "histogram",
    "one vector of noise for the counts of all groups",
    ("epsilon", "contribution_bound"),
    loss,
    k_norm,
    accuracy,
)

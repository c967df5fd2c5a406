"""Counts of many groups, released at once. The proof is in k_norm.md."""

from collections.abc import Sequence
from fractions import Fraction

from dp_sql.udfs.checks import check_epsilon, check_int, check_positive_int, check_probability
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability
from dp_sql.udfs.range_norm import range_norm_noise, range_norm_quantile


def k_norm(counts: Sequence[int], epsilon: Fraction, bound: int) -> list[int]:
    """Add noise to the counts of all groups.

    Args:
        counts: one for each group.
        epsilon: privacy loss of all counts together, positive.
        bound: the most that one person adds to a count, >= 1.

    Returns:
        The noisy counts.

    Raises TypeError for a number of another type, floats among them, and ValueError for a public
    one out of range.

    Privacy: epsilon-DP under adding or removing one person, who adds 0 to bound to
        each count, to any number of them.
    Source: Hardt and Talwar 2010 (the K-norm mechanism), Joseph and Yu 2024 (this norm).
    """
    rate = _rate(epsilon, bound)
    for count in counts:
        check_int("counts", count)
    noise = range_norm_noise(len(counts), rate, secret_draws())
    return [count + added for count, added in zip(counts, noise, strict=True)]


def loss(epsilon: Fraction, bound: int) -> PrivacyLoss:
    """Return a run's loss, for any number of groups."""
    _rate(epsilon, bound)
    return PrivacyLoss(epsilon)


def within(n_groups: int, epsilon: Fraction, bound: int, beta: Fraction) -> int:
    """Bound how far all noisy counts are from the true ones, except with probability beta."""
    return range_norm_quantile(max(1, n_groups), _rate(epsilon, bound), beta)


def accuracy(size: int, epsilon: Fraction, bound: int, beta: Fraction) -> str:
    """State the same in a sentence; `size` is the number of groups."""
    check_probability("beta", beta)
    most = within(size, epsilon, bound, beta)
    return (
        f"{with_probability(1 - beta)} {counts_within(size, most)} without noise "
        f"(epsilon = {in_words(epsilon)})"
    )


def counts_within(size: int, most: int) -> str:
    """Say how far the counts of all groups are from others.

    >>> counts_within(1, 3), counts_within(2, 4)
    ('the count is within ± 3 of that', 'all 2 counts are within ± 4 of those')
    """
    if size == 1:
        return f"the count is within ± {most} of that"
    return f"all {size} counts are within ± {most} of those"


def _rate(epsilon: Fraction, bound: int) -> Fraction:
    check_epsilon(epsilon)
    check_positive_int("bound", bound)
    return epsilon * Fraction(1, bound)


K_NORM = Mechanism(
    "k_norm", "histogram", "one vector of noise for the counts of all groups",
    loss, k_norm, accuracy,
)  # fmt: skip

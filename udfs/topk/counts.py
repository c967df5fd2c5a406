"""A list of items with counts: the list first, then its counts. The proof is in counts.md."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from operator import add

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import PrivacyLoss, in_words, with_probability
from dp_sql.udfs.range_norm import range_norm_noises, range_norm_quantile

LIST_SHARE = Fraction(3, 5)  # of epsilon; chosen by measurement, see benchmarks/RESULTS.md
_MOST = 2**63 - 1


def counts_epsilon(epsilon: Fraction) -> Fraction:
    """Return what the counts get of the epsilon of a list with counts."""
    return epsilon * (1 - LIST_SHARE)


def with_counts(of_list: PrivacyLoss, epsilon: Fraction) -> PrivacyLoss:
    """Return the loss of a list, given its loss, and then of its counts, at an epsilon for both.

    The counts' losses lie between -e and e, e = counts_epsilon(epsilon), whatever the list is; so
    the lengths of their range and of the list's add.
    """
    of_counts = PrivacyLoss(counts_epsilon(epsilon))
    length = of_list.bounded_range + of_counts.bounded_range
    return replace(of_list + of_counts, bounded_range=length)


def noisy_counts(
    lists: Sequence[Sequence[int]], epsilon: Fraction, draws: Draws
) -> list[list[int]]:
    """Add noise to the counts of lists that are already released, at the epsilon for both.

    Privacy: counts_epsilon(epsilon)-DP for all counts of a list together, under adding or removing
        one person who adds at most 1 to each.
    """
    noise = range_norm_noises([*map(len, lists)], counts_epsilon(epsilon), draws)
    return [
        [max(-_MOST, min(count, _MOST)) for count in map(add, counts, added)]
        for counts, added in zip(lists, noise, strict=True)
    ]


def within(k: int, epsilon: Fraction, beta: Fraction) -> int:
    """Bound how far all of at most k counts are from the true ones, at the epsilon for both."""
    return range_norm_quantile(k, counts_epsilon(epsilon), beta)


def accuracy(k: int, epsilon: Fraction, beta: Fraction) -> str:
    """State the same in a sentence."""
    return (
        f"{with_probability(1 - beta)} all counts are within ± {within(k, epsilon, beta)} people "
        f"(k = {k}, epsilon = {in_words(counts_epsilon(epsilon))})"
    )

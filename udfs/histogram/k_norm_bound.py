"""Rows of many groups under one bound that is chosen for all of them. See k_norm_bound.md."""

from collections.abc import Sequence
from fractions import Fraction

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.bound import choose_bound
from dp_sql.udfs.contributions.histogram import read_histogram
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.histogram.k_norm import k_norm, within
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability

Columns = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Buckets, people and sums, as contributions/histogram.py reads them."""

_BETA = Fraction(1, 20)  # of no consequence for the loss
_EXAMPLE = 16  # a bound, in the sentence on accuracy


def k_norm_bound(
    groups: Sequence[Columns], most: Columns, epsilon: Fraction, max_contributions: int
) -> tuple[list[int], int]:
    """Choose a bound on a person's rows in a group, and count the rows of all groups under it.

    Args:
        groups: for each group, the people in it by their rows there.
        most: all people by their largest number of rows in a group.
        epsilon: privacy loss of all counts together, positive: half for the bound.
        max_contributions: the largest bound, >= 1.

    Returns:
        The noisy counts and the bound.

    Raises TypeError for a number of another type, floats among them, and ValueError for one out of
    range or columns that no set of people could have.

    Privacy: epsilon-DP under adding or removing one person with any rows, in any groups.
    Source: as in k_norm.py; the choice of the bound, see contributions/bound.md.
    """
    share = noise_share(epsilon, max_contributions)
    tables = [read_histogram(*columns) for columns in groups]
    above = read_histogram(*most).above(max_contributions.bit_length())
    place = choose_bound(above, epsilon - share, secret_draws())
    return k_norm([table.clipped(place) for table in tables], share, 1 << place), 1 << place


def noise_share(epsilon: Fraction, max_contributions: int) -> Fraction:
    """Return the part of epsilon that goes to the noise."""
    check_epsilon(epsilon)
    check_positive_int("max_contributions", max_contributions)
    return release.noise_share(epsilon, None)


def loss(epsilon: Fraction, max_contributions: int) -> PrivacyLoss:
    """Price one run, for any number of groups: the choice, then noise that does not see it."""
    noise_share(epsilon, max_contributions)
    return release.loss(epsilon, _BETA, max_contributions, None)


def accuracy(size: int, epsilon: Fraction, max_contributions: int, beta: Fraction) -> str:
    """State how far the counts are off under some of the bounds; `size` counts the groups."""
    check_probability("beta", beta)
    share = noise_share(epsilon, max_contributions)
    largest = release.largest_bound(max_contributions)
    some = min(largest, _EXAMPLE)
    one, more = (within(size, share, at, beta) for at in (1, some))
    return (
        f"{with_probability(1 - beta)} all {size} counts are within ± {one} of those without noise "
        f"if the bound is 1, ± {more} if it is {some}; it is chosen for all groups together, "
        f"from 1, 2, 4, ... up to {largest}, and a person's rows beyond it in a group are not "
        f"counted (epsilon = {in_words(epsilon)})"
    )


K_NORM_BOUND = Mechanism(
    "k_norm_bound", "group_rows",
    "a bound on a person's rows in a group, then one vector of noise for all groups",
    ("epsilon", "max_contributions"), loss, k_norm_bound, accuracy,
)  # fmt: skip

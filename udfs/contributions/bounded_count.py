"""DP_COUNT: rows, each person's up to a contribution bound. The proofs are in bounded_count.md."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.histogram import read_histograms
from dp_sql.udfs.contributions.release import Bound, Columns, Releases
from dp_sql.udfs.discrete_laplace import laplace_quantile, noise_rate
from dp_sql.udfs.mechanism import Mechanism, in_words, on_one, with_probability


def run_each(
    data: Sequence[Columns], epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound
) -> Releases:
    """Count the rows of each data set, nearly and independently.

    Entry i says how many people have more than 2**(buckets[i]-1) and at most 2**buckets[i] rows,
    and how many rows they have together. Where a bound is given, no one may have more rows.

    Raises TypeError for numbers of another type, ValueError for numbers out of their range.

    Privacy: for each, epsilon-DP under adding or removing one person with all their rows: epsilon/2
        for the bound, from 1, 2, 4, ... up to max_contributions, and epsilon/2 for the noise, or
        all for the noise where the bound is given.
    Source: contribution bounding, as in Wilson et al. 2020; the choice of the bound, see bound.md.
    """
    release.check_public(epsilon, beta, max_contributions, bound)
    return release.release_each(read_histograms(data), epsilon, beta, max_contributions, bound)


run = on_one(run_each, "buckets", "people", "sums")


@lru_cache(maxsize=64, typed=True)
def accuracy(epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound) -> str:
    """State how far a count may lie above the true number, from public numbers only."""
    release.check_public(epsilon, beta, max_contributions, bound)
    says = f"{with_probability(1 - beta)} the estimate exceeds the true number of rows by at most"
    price = f"epsilon = {in_words(epsilon)}"
    left_out = "a person's rows beyond the bound are not counted"
    if bound is not None:
        most = laplace_quantile(noise_rate(epsilon, bound), beta) - 1
        return f"{says} {most}; {left_out} (contribution bound {bound}, {price})"
    times = release.times_the_bound(epsilon, beta, bound)
    chosen = f"chosen from 1, 2, 4, … up to {release.largest_bound(max_contributions)}"
    return f"{says} {times} times the contribution bound, {chosen}; {left_out} ({price})"


BOUNDED_COUNT = Mechanism(
    "bounded_count", "count",
    "a contribution bound, then integer noise on the rows within it",
    release.loss, run, accuracy, run_each=run_each,
)  # fmt: skip

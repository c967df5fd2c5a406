"""DP_SUM: each person's net sum, up to a contribution bound. The proofs are in bounded_sum.md."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.bound import people_needed
from dp_sql.udfs.contributions.histogram import read_histograms
from dp_sql.udfs.contributions.release import Bound, Columns, Releases
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, on_one, with_probability


def run_each(
    data: Sequence[Columns],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: Bound,
    one_sided: bool,
) -> Releases:
    """Add up people's net sums of each data set, nearly and independently.

    Entry i says how many people have a net sum of a size of more than 2**(buckets[i]-1) and at
    most 2**buckets[i], and what these sizes add up to; negative[i] is 1 where the net sums are
    below 0, else 0. People whose net sum is 0 are in no entry. Where a bound is given, no size is
    larger. There is a lower bound if the sum is one-sided: if it is public that no net sum is
    below 0.

    Raises TypeError for numbers of another type, ValueError for numbers out of their range.

    Privacy: for each, epsilon-DP under adding or removing one person with all their rows: epsilon/2
        for the bound, from 1, 2, 4, ... up to max_contributions, and epsilon/2 for the noise, or
        all for the noise where the bound is given.
    Source: contribution bounding, as in Wilson et al. 2020; the choice of the bound, see bound.md.
    """
    check_public(epsilon, beta, max_contributions, bound, one_sided)
    nets = read_histograms(data)
    if one_sided and nets.negative.any():
        raise ValueError("negative must be 0 where the sum is one-sided")
    return release.release_each(nets, epsilon, beta, max_contributions, bound, one_sided)


run = on_one(run_each, "buckets", "people", "sums", "negative")


def loss(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound, one_sided: bool
) -> PrivacyLoss:
    """Return a run's loss: noise, and before it the choice of the bound where none is given."""
    return release.loss(epsilon, beta, max_contributions, bound)


@lru_cache(maxsize=64, typed=True)
def accuracy(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound, one_sided: bool
) -> str:
    """State how far a sum may lie from that of what is kept, from public numbers only."""
    check_public(epsilon, beta, max_contributions, bound, one_sided)
    within = beta if one_sided else beta * Fraction(1, 2)
    times = release.times_the_bound(epsilon, within, bound)
    says = with_probability(1 - beta)
    if one_sided:
        says += (
            f" the estimate exceeds the true sum by at most {times} times the contribution bound"
        )
    else:
        says += f" the noise is at most {times} times the contribution bound"
    says += "; the part of a person's net sum beyond the bound is not counted"
    if bound is None:
        enough = people_needed(epsilon - release.noise_share(epsilon, bound))
        says += f"; with fewer than {enough} people that part may be most of the sum unless you "
        says += "state contribution_bound"
    return f"{says} (epsilon = {in_words(epsilon)})"


def check_public(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound, one_sided: bool
) -> None:
    """Refuse numbers of another type or out of their range."""
    release.check_public(epsilon, beta, max_contributions, bound)
    if not isinstance(one_sided, bool):
        raise TypeError("one_sided must be True or False")


BOUNDED_SUM = Mechanism(
    "bounded_sum", "sum",
    "a contribution bound, then integer noise on the net sums within it",
    loss, run, accuracy, run_each=run_each,
)  # fmt: skip

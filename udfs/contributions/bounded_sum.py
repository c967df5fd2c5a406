"""DP_SUM: each person's net sum, up to a contribution bound. The proofs are in bounded_sum.md."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.bound import people_needed
from dp_sql.udfs.contributions.histogram import Histogram, check_lengths, read_histogram, together
from dp_sql.udfs.contributions.release import Bound, BoundedRelease, Columns
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, on_one, with_probability


def run_each(
    data: Sequence[Columns],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: Bound,
    one_sided: bool,
) -> list[BoundedRelease]:
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
    sides = [signed_histograms(*columns) for columns in data]
    if one_sided and any(down.people for _, down in sides):
        raise ValueError("negative must be 0 where the sum is one-sided")

    sizes = [together(*both) for both in sides]

    def kept(i: int, place: int | None) -> int:
        up, down = (one.total if place is None else one.clipped(place) for one in sides[i])
        return up - down

    found = release.release_each(sizes, kept, epsilon, beta, max_contributions, bound)
    return found if one_sided else [replace(one, lower_bound=None) for one in found]


run = on_one(run_each, "buckets", "people", "sums", "negative")


def signed_histograms(
    buckets: Sequence[int], people: Sequence[int], sums: Sequence[int], negative: Sequence[int]
) -> tuple[Histogram, Histogram]:
    """Part the entries into those of net sums above 0 and below 0."""
    if len(negative) != len(buckets) or not all(side in (0, 1) for side in negative):
        raise ValueError("negative must be 0 or 1, as often as there are buckets")
    check_lengths(buckets, people, sums)
    entries = [*zip(buckets, people, sums, negative, strict=True)]
    sides = ([[one[i] for one in entries if one[3] == side] for i in range(3)] for side in (0, 1))
    up, down = (read_histogram(*columns) for columns in sides)
    return up, down


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

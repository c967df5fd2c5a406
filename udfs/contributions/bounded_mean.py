"""DP_AVG: the mean of rows, each person's weighed down to a bound. See bounded_mean.md."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_sql.udfs.checks import check_positive_int
from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.bound import choose_bound, people_needed
from dp_sql.udfs.contributions.bounded_sum import signed_histograms
from dp_sql.udfs.contributions.histogram import Histogram, read_histogram
from dp_sql.udfs.contributions.pair_noise import pair_noise, pair_reach, scales_of
from dp_sql.udfs.discrete_laplace import noise_rate
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import (
    FRACTION_BITS,
    Mechanism,
    PrivacyLoss,
    exponential_loss,
    in_words,
    with_probability,
)
from dp_sql.udfs.select.selection import rounded_up

_PARTS = (1, 6, 13)  # of epsilon: the bound on rows, the bound on sums, the noise; measured
_N_SUM_BOUNDS = 127  # sums are below 2**127

Entry = tuple[int, int, int, int, int, int]
"""(place, whole, bucket, people, sum, negative), see `run`."""


@dataclass(frozen=True)
class MeanRelease:
    """All that a mean releases."""

    estimate: Fraction | None  # nearly the mean of the kept rows; None: noisily below one row
    noise: Fraction | None  # at least its distance to this mean, with probability >= 1 - beta
    contribution_bound: int  # rows per person


def run(
    buckets: Sequence[int],
    people: Sequence[int],
    sums: Sequence[int],
    entries: Sequence[Entry],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: int | None,
    unit: int,
) -> MeanRelease:
    """Average rows, nearly.

    buckets, people and sums say how many rows people have, as for bounded_count. An entry says
    what people's values add up to if each has 2**place rows at most: how many people have a sum in
    a bucket, and the sum of the sizes of these sums, whose sign is `negative`. Where whole is 0, it
    is about people with more than 2**place rows, whose sums are multiplied by 2**place / rows and
    rounded towards 0. Where it is 1, it is about people with at most 2**place and more than
    2**(place-1) rows; their sums serve all later places, too. Values are in 1/unit, and sums in
    2**-FRACTION_BITS of that. Where a bound is given, all is within it: places are 0, whole is 1.

    Raises TypeError for numbers of another type, ValueError for numbers out of their range.

    Privacy: epsilon-DP under adding or removing one person with all their rows: epsilon/20 for the
        bound on rows, from 1, 2, 4, ... up to max_contributions, 6 epsilon/20 for that on sums and
        13 epsilon/20 for the noise; 6/19 and 13/19 where the bound on rows is given.
    Source: sum and count with joint noise, see bounded_mean.md.
    """
    check_public(epsilon, beta, max_contributions, bound, unit)
    rows = read_histogram(buckets, people, sums)
    shares, draws = _shares(epsilon, bound), secret_draws()
    if bound is None:
        place = choose_bound(rows.above(max_contributions.bit_length()), shares[0], draws)
        most, n_rows, at = 1 << place, rows.clipped(place), place
    else:
        release.check_within(rows, bound)
        most, n_rows, at = bound, rows.total, 0
    sum_place, total, count = _noisy(entries, at, most, n_rows, shares, draws)
    reach = pair_reach(_rate(shares, most, sum_place), beta)
    return _quotient(total, count, reach, most, sum_place, unit)


def _noisy(
    entries: Sequence[Entry],
    at: int,
    most: int,
    n_rows: int,
    shares: Sequence[Fraction],
    draws: Draws,
) -> tuple[int, int, int]:
    """Choose the bound on sums; add noise to the sum, in 1/most, and to the rows, in 1/bound."""
    (up, down), sizes = _sums_at(at, entries)
    above = sizes.above(_N_SUM_BOUNDS)[FRACTION_BITS:]
    place = FRACTION_BITS + choose_bound(above, shares[1], draws)
    noise = pair_noise(_rate(shares, most, place), draws)
    total = (up.clipped(place) - down.clipped(place)) * most
    return place, total + noise[0], (n_rows << place) + noise[1]


def _rate(shares: Sequence[Fraction], most: int, place: int) -> Fraction:
    """Return the rate of the noise: one person moves either number by the product of the bounds."""
    return noise_rate(shares[2], most << place)


def _sums_at(place: int, entries: Sequence[Entry]) -> tuple[tuple[Histogram, Histogram], Histogram]:
    """Collect the sums, by their signs and by their sizes, if each person has 2**place rows."""
    used = [one for one in entries if (one[0] <= place if one[1] else one[0] == place)]
    columns = [[one[i] for one in used] for i in range(2, 6)]
    return signed_histograms(*columns), read_histogram(*columns[:3])


def _quotient(total: int, count: int, reach: int, most: int, place: int, unit: int) -> MeanRelease:
    """Divide; `reach` bounds the noise on both numbers."""
    scale = Fraction(1 << place, most * unit << FRACTION_BITS)
    if count < 1 << place:
        return MeanRelease(None, None, most)
    estimate = Fraction(total, count) * scale
    if count <= reach:
        return MeanRelease(estimate, None, most)
    corners = (
        Fraction(total + x, count + y) * scale for x in (-reach, reach) for y in (-reach, reach)
    )
    return MeanRelease(estimate, max(abs(one - estimate) for one in corners), most)


def _shares(epsilon: Fraction, bound: int | None) -> list[Fraction]:
    """Split epsilon over the bound on rows, unless it is given, that on sums, and the noise."""
    parts = _PARTS if bound is None else (0, *_PARTS[1:])
    return [epsilon * Fraction(part, sum(parts)) for part in parts]


def loss(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: int | None, unit: int
) -> PrivacyLoss:
    """Price one run: one choice or two, and the noise on both numbers."""
    rows, sums, noise = _shares(epsilon, bound)
    rest = exponential_loss(sums) + PrivacyLoss(noise)
    if bound is not None:
        return replace(rest, bounded_range=sums + 2 * noise)
    # The first choice may move the interval of the second.
    both = exponential_loss(rows) + rest
    return replace(both, bounded_range=rows + 2 * sums + 2 * noise)


def accuracy(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: int | None, unit: int
) -> str:
    """State how far the sum and the count may lie from what is kept, from public numbers only."""
    check_public(epsilon, beta, max_contributions, bound, unit)
    _, of_sums, of_noise = _shares(epsilon, bound)
    times = rounded_up(scales_of(beta) * Fraction(1, of_noise))
    return (
        f"{with_probability(1 - beta)} the noise in the sum and in the number of rows, whose "
        f"quotient is the estimate, is at most {times} times what one person may add to each; a "
        "person with more rows than the contribution bound counts as that many; with fewer than "
        f"{people_needed(of_sums)} people the estimate may be far too close to 0 (epsilon = "
        f"{in_words(epsilon)})"
    )


def check_public(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: int | None, unit: int
) -> None:
    """Refuse numbers of another type or out of their range."""
    release.check_public(epsilon, beta, max_contributions, bound)
    check_positive_int("unit", unit)


BOUNDED_MEAN = Mechanism(
    "bounded_mean",
    "avg",
    "a bound on rows, a bound on sums, then integer noise on sum and count together",
    ("epsilon", "beta", "max_contributions", "bound", "unit"),
    loss,
    run,
    accuracy,
)

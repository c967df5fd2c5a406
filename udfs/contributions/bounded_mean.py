"""DP_AVG: the mean of rows, with a limited weight for each person's. See bounded_mean.md."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.checks import check_int, check_positive_int
from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.bound import choose_bounds, people_needed
from dp_sql.udfs.contributions.bounded_sum import signed_histograms
from dp_sql.udfs.contributions.histogram import Histogram, above_each, read_histogram, together
from dp_sql.udfs.contributions.pair_noise import pair_noise, pair_reach, scales_of
from dp_sql.udfs.contributions.release import Bound
from dp_sql.udfs.discrete_laplace import noise_rate
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import (
    FRACTION_BITS,
    Mechanism,
    PrivacyLoss,
    exponential_loss,
    in_words,
    on_one,
    with_probability,
)
from dp_sql.udfs.select.selection import rounded_up

_PARTS = (1, 6, 13)  # of epsilon: the bound on rows, the bound on sums, the noise; measured
_N_SUM_BOUNDS = 127  # sums are below 2**127

Ends = tuple[int, int] | None
"""The public range of values, both ends in it; None: there is none."""

Entry = tuple[int, int, int, int, int, int]
"""(place, whole, bucket, people, sum, negative), see `run`."""


@dataclass(frozen=True)
class MeanRelease:
    """All that a mean releases."""

    estimate: Fraction | None  # nearly the mean of the kept rows; None: noisily below one row
    noise: Fraction | None  # at least its distance to this mean, with probability >= 1 - beta
    contribution_bound: int  # rows per person


def run_each(
    data: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[Entry]]],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: Bound,
    unit: int,
    ends: Ends,
) -> list[MeanRelease]:
    """Average the rows of each data set, nearly and independently.

    buckets, people and sums say how many rows people have, as for bounded_count. An entry says
    what people's values add up to if each has 2**place rows at most: how many people have a sum in
    a bucket, and the sum of the sizes of these sums, whose sign is `negative`. Where whole is 0, it
    is about people with more than 2**place rows, whose sums are multiplied by 2**place / rows and
    rounded towards 0. Where it is 1, it is about people with at most 2**place and more than
    2**(place-1) rows; their sums serve all later places, too. Values are in 1/unit, and sums in
    2**-FRACTION_BITS of that. Where a bound is given, all is within it: places are 0, whole is 1.
    Where ends are given, in 1/unit, all values x are within them, and sums are of 2 x - low - high.

    Raises TypeError for numbers of another type, ValueError for numbers out of their range.

    Privacy: for each, epsilon-DP under adding or removing one person with all their rows:
        epsilon/20 for the bound on rows, from 1, 2, 4, ... up to max_contributions, 6 epsilon/20
        for that on sums and 13 epsilon/20 for the noise. Where the bound on rows is given, or ends
        are, the choice that falls away leaves its part to the others.
    Source: sum and count with joint noise, see bounded_mean.md.
    """
    check_public(epsilon, beta, max_contributions, bound, unit, ends)
    rows = [read_histogram(*columns[:3]) for columns in data]
    shares, draws = _shares(epsilon, bound, ends), secret_draws()
    if bound is None:
        above = above_each(rows, max_contributions.bit_length())
        places = choose_bounds(above, shares[0], draws)
        n_rows = [one.clipped(place) for one, place in zip(rows, places, strict=True)]
    else:
        for one in rows:
            release.check_within(one, bound)
        places, n_rows = [0] * len(rows), [one.total for one in rows]
    mosts = [1 << place for place in places] if bound is None else [bound] * len(rows)
    sides = [_sums_at(place, one[3]) for place, one in zip(places, data, strict=True)]
    limited = _limited(sides, mosts, shares[1], ends, draws)
    limits = [(most, limit) for most, (limit, _) in zip(mosts, limited, strict=True)]
    rates = {both: _rate(shares, *both) for both in set(limits)}
    reaches = {both: pair_reach(rate, beta) for both, rate in rates.items()}
    noise = pair_noise([rates[both] for both in limits], draws)
    return [
        _quotient(total * both[0] + x, n * limit + y, reaches[both], *both, unit, ends)
        for both, n, (limit, total), (x, y) in zip(limits, n_rows, limited, noise, strict=True)
    ]


run = on_one(run_each, "buckets", "people", "sums", "entries")


def _limited(
    sides: Sequence[tuple[tuple[Histogram, Histogram], Histogram]],
    mosts: Sequence[int],
    share: Fraction,
    ends: Ends,
    draws: Draws,
) -> list[tuple[int, int]]:
    """Limit the sums of each data set: the limit, and what they add up to."""
    if ends is None:
        above = above_each([sizes for _, sizes in sides], _N_SUM_BOUNDS)[:, FRACTION_BITS:]
        places = [FRACTION_BITS + place for place in choose_bounds(above, share, draws)]
        return [
            (1 << place, up.clipped(place) - down.clipped(place))
            for place, ((up, down), _) in zip(places, sides, strict=True)
        ]
    limits = [most * (ends[1] - ends[0]) << FRACTION_BITS for most in mosts]
    for limit, (_, sizes) in zip(limits, sides, strict=True):
        release.check_within(sizes, limit)
    return [
        (limit, up.total - down.total) for limit, ((up, down), _) in zip(limits, sides, strict=True)
    ]


def _rate(shares: Sequence[Fraction], most: int, limit: int) -> Fraction:
    """Return the rate of the noise: one person moves either number by the product of the bounds."""
    return noise_rate(shares[2], most * limit)


def _sums_at(place: int, entries: Sequence[Entry]) -> tuple[tuple[Histogram, Histogram], Histogram]:
    """Collect the sums, by their signs and by their sizes, if each person has 2**place rows."""
    used = [one for one in entries if (one[0] <= place if one[1] else one[0] == place)]
    sides = signed_histograms(*([one[i] for one in used] for i in range(2, 6)))
    return sides, together(*sides)


def _quotient(
    total: int, count: int, reach: int, most: int, limit: int, unit: int, ends: Ends
) -> MeanRelease:
    """Divide; `reach` is how far the noise may move the quotient, as a square around it."""
    if count < limit:
        return MeanRelease(None, None, most)
    # A unit has so many parts in total * limit / count; with ends, sums are of twice the values.
    parts = most << FRACTION_BITS + (ends is not None)

    def mean(total: int, count: int) -> Fraction:
        value = total * limit
        if ends is not None:
            low, high = (end * parts * count for end in ends)
            value = max(low, min(high, value + (low + high) // 2))
        return Fraction(value, count * unit * parts)

    estimate = mean(total, count)
    if count > reach:  # the quotient is largest, and least, at a corner
        most_of, least_of = total + reach, total - reach
        high = mean(most_of, count + (-reach if most_of > 0 else reach))
        low = mean(least_of, count + (-reach if least_of < 0 else reach))
    elif ends is not None:
        low, high = (Fraction(end, unit) for end in ends)
    else:
        return MeanRelease(estimate, None, most)
    return MeanRelease(estimate, max(high - estimate, estimate - low), most)


def _shares(epsilon: Fraction, bound: Bound, ends: Ends) -> list[Fraction]:
    """Split epsilon over the bounds on rows and on sums, unless they are given, and the noise."""
    rows, sums, noise = _PARTS
    if ends is not None:
        sums, noise = 0, sums + noise
    parts = (rows if bound is None else 0, sums, noise)
    return [epsilon * Fraction(part, sum(parts)) for part in parts]


def loss(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound, unit: int, ends: Ends
) -> PrivacyLoss:
    """Return a run's loss: two choices, one or none, and the noise on both numbers."""
    *parts, noise = _shares(epsilon, bound, ends)
    choices = [part for part in parts if part]
    whole = sum(map(exponential_loss, choices), PrivacyLoss(noise))
    # The first choice may move the interval of the second.
    once = choices[0] if choices else Fraction(0)
    return replace(whole, bounded_range=2 * whole.epsilon - once)


@lru_cache(maxsize=64, typed=True)
def accuracy(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound, unit: int, ends: Ends
) -> str:
    """State how far the mean, or its parts, may lie from what is kept, from public numbers only."""
    check_public(epsilon, beta, max_contributions, bound, unit, ends)
    _, of_sums, of_noise = _shares(epsilon, bound, ends)
    scales, price = scales_of(beta) * Fraction(1, of_noise), f"(epsilon = {in_words(epsilon)})"
    likely, weighed = with_probability(1 - beta), "counts as that many rows"
    if ends is not None:
        low, high = (Fraction(end, unit) for end in ends)
        b = "times the contribution bound" if bound is None else f"(contribution_bound = {bound})"
        times = "" if high - low == 1 else f"{in_words(high - low)} × "
        return (
            f"{likely} the estimate is within {times}b / (n - b) of the mean of the n rows that "
            f"count, where b is {rounded_up(scales * (bound or 1))} {b}, if n > b; "
            f"a person with more rows than the contribution bound {weighed}; values below "
            f"{in_words(low)} count as {in_words(low)}, those above {in_words(high)} as "
            f"{in_words(high)} {price}"
        )
    return (
        f"{likely} the noise in the sum and in the row count is at most "
        f"{rounded_up(scales)} times what one person may add to each; a person with more rows than "
        f"the contribution bound {weighed}; with fewer than {people_needed(of_sums)} people the "
        f"estimate may be far too close to 0 unless you state lower and upper {price}"
    )


def check_public(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound, unit: int, ends: Ends
) -> None:
    """Refuse numbers of another type or out of their range."""
    release.check_public(epsilon, beta, max_contributions, bound)
    check_positive_int("unit", unit)
    if ends is not None:
        low, high = ends
        check_int("ends", low)
        check_int("ends", high)
        if low >= high:
            raise ValueError("the ends must be a lower and an upper number")


BOUNDED_MEAN = Mechanism(
    "bounded_mean", "avg",
    "a bound on rows, a bound on sums unless a range is given, then integer noise on sum and count "
    "together",
    loss, run, accuracy, run_each=run_each,
)  # fmt: skip

"""DP_AVG: the mean of rows, with a limited weight for each person's. See bounded_mean.md."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dp_sql.udfs.checks import check_int, check_positive_int
from dp_sql.udfs.contributions import release
from dp_sql.udfs.contributions.bound import choose_bounds, people_needed
from dp_sql.udfs.contributions.histogram import Histograms, read_histograms
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
from dp_sql.udfs.mixed import Ints, Mixed, Numbers, exact, mixed
from dp_sql.udfs.select.selection import rounded_up

_PARTS = (1, 6, 13)  # of epsilon: the bound on rows, the bound on sums, the noise; measured
_N_SUM_BOUNDS = 127  # sums are below 2**127
_NAMES = ("places", "wholes", "buckets", "people", "sums", "negative")  # of an Entry

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


@dataclass(frozen=True)
class Tables(Sequence[tuple[Any, ...]]):
    """What `run_each` takes of several data sets, in the columns of mixed.py."""

    rows: Mixed  # buckets, people, sums
    entries: Mixed  # the columns of an Entry

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Any) -> Any:
        return *self.rows[which], [*zip(*self.entries[which], strict=True)]


@dataclass(frozen=True)
class MeanReleases(Sequence[MeanRelease]):
    """The releases of several data sets, of which each is made when it is asked for.

    drawn: of each the first arguments of `_quotient`; the last ones are `public`.
    """

    drawn: list[tuple[int, int, int, int, int]]
    public: tuple[int, Ends]  # unit, ends

    def __len__(self) -> int:
        return len(self.drawn)

    def __getitem__(self, which: Any) -> Any:
        total, count, reach, most, limit = self.drawn[which]
        return _quotient(total, count, reach, most, limit, *self.public)

    def estimates(self) -> Iterator[tuple[int, int] | None]:
        """Yield the estimates alone, as numerators and denominators."""
        for total, count, _, most, limit in self.drawn:
            yield None if count < limit else _mean(total, count, most, limit, *self.public)


def run_each(
    data: Sequence[tuple[Any, ...]],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: Bound,
    unit: int,
    ends: Ends,
) -> MeanReleases:
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
    tables = _tables(data)
    rows = read_histograms(tables.rows)
    shares, draws = _shares(epsilon, bound, ends), secret_draws()
    if bound is None:
        places = choose_bounds(rows, max_contributions.bit_length(), shares[0], draws)
        n_rows, mosts = rows.clipped(places), [1 << place for place in places.tolist()]
    else:
        mosts = [bound] * rows.n
        release.check_within(rows, mosts)
        places, n_rows = np.zeros(rows.n, np.int64), rows.totals()
    sums = _sums_at(places, tables.entries)
    totals, limits = _limited(sums, mosts, shares[1], ends, draws)
    bounds = [*zip(mosts, limits, strict=True)]
    rates = {both: _rate(shares, *both) for both in set(bounds)}
    reaches = {both: pair_reach(rate, beta) for both, rate in rates.items()}
    noise = pair_noise([rates[both] for both in bounds], draws)
    numbers = zip(bounds, totals.tolist(), n_rows.tolist(), noise, strict=True)
    drawn = [
        (total * both[0] + x, n * both[1] + y, reaches[both], *both)
        for both, total, n, (x, y) in numbers
    ]
    return MeanReleases(drawn, (unit, ends))


run = on_one(run_each, "buckets", "people", "sums", "entries")


def _tables(data: Sequence[tuple[Any, ...]]) -> Tables:
    """Put the columns of data sets together, unless they are."""
    if isinstance(data, Tables):
        return data
    entries = [[*zip(*one[3], strict=True)] or [()] * len(_NAMES) for one in data]
    rows = [one[:3] for one in data]
    return Tables(mixed(rows, "buckets", "people", "sums"), mixed(entries, *_NAMES))


def _limited(
    sums: Histograms, mosts: Sequence[int], share: Fraction, ends: Ends, draws: Draws
) -> tuple[Numbers, list[int]]:
    """Limit the sums of each data set: what they add up to, and the limits."""
    if ends is not None:
        limits = [most * (ends[1] - ends[0]) << FRACTION_BITS for most in mosts]
        release.check_within(sums, limits)
        return sums.totals(), limits
    whole = replace(sums, buckets=np.maximum(sums.buckets - FRACTION_BITS, 0))
    places = choose_bounds(whole, _N_SUM_BOUNDS - FRACTION_BITS, share, draws) + FRACTION_BITS
    return sums.clipped(places), [1 << place for place in places.tolist()]


def _rate(shares: Sequence[Fraction], most: int, limit: int) -> Fraction:
    """Return the rate of the noise: one person moves either number by the product of the bounds."""
    return noise_rate(shares[2], most * limit)


def _sums_at(places: Ints, entries: Mixed) -> Histograms:
    """Collect the sums of each data set if each person has 2**place rows."""
    place, whole, *columns = map(exact, _NAMES, entries.columns)
    at = places[entries.owners]
    used = np.flatnonzero(np.where(whole == 1, place <= at, place == at))
    own = tuple(column[used] for column in columns)
    return read_histograms(Mixed(entries.n, entries.owners[used], own))


def _quotient(
    total: int, count: int, reach: int, most: int, limit: int, unit: int, ends: Ends
) -> MeanRelease:
    """Divide; `reach` is how far the noise may move the quotient, as a square around it."""
    if count < limit:
        return MeanRelease(None, None, most)

    def mean(total: int, count: int) -> Fraction:
        return Fraction(*_mean(total, count, most, limit, unit, ends))

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


def _mean(total: int, count: int, most: int, limit: int, unit: int, ends: Ends) -> tuple[int, int]:
    """Return the quotient in 1/unit, as a numerator and a denominator."""
    # A unit has so many parts in total * limit / count; with ends, sums are of twice the values.
    parts, value = most << FRACTION_BITS + (ends is not None), total * limit
    if ends is not None:
        low, high = (end * parts * count for end in ends)
        value = max(low, min(high, value + (low + high) // 2))
    return value, count * unit * parts


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
    most = of_noise * Fraction(1, 1 << FRACTION_BITS)  # one person moves a number by 2**16 or more
    scales = scales_of(beta, most) * Fraction(1, of_noise)
    price = f"(epsilon = {in_words(epsilon)})"
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

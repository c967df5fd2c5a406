"""From contributions to one noisy number: what counts and sums share. See bounded_count.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import add
from typing import Any

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.contributions.bound import choose_bounds
from dp_sql.udfs.contributions.histogram import Histograms
from dp_sql.udfs.discrete_laplace import discrete_laplaces, laplace_quantile, noise_rate
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss, exponential_loss
from dp_sql.udfs.select.selection import rounded_up

_HALF = Fraction(1, 2)

Bound = int | None
"""A contribution bound; None if the mechanism chooses it."""

Columns = Sequence[Sequence[int]]
"""A data set: buckets, people and sums; for net sums, also which sums are negative."""


@dataclass(frozen=True)
class BoundedRelease:
    """All that a count or a sum releases: integers of any size."""

    estimate: int  # nearly the count or sum of what is kept; the noise may make it negative
    lower_bound: int | None  # at most the true number, with probability at least 1 - beta
    noise: int  # at least the distance to what is kept, with probability at least 1 - beta
    contribution_bound: int


@dataclass(frozen=True)
class Releases(Sequence[BoundedRelease]):
    """The releases of several data sets, of which each is made when it is asked for.

    within: for each bound, which numbers the noise and its size exceed with probability at most
        beta. has_lower: whether there is a lower bound.
    """

    estimates: list[int]
    bounds: list[int]
    within: Mapping[int, tuple[int, int]]
    has_lower: bool = True

    def __len__(self) -> int:
        return len(self.estimates)

    def __getitem__(self, which: Any) -> Any:
        n, at = self.estimates[which], self.bounds[which]
        below, around = self.within[at]
        return BoundedRelease(n, n - below if self.has_lower else None, around, at)


def release_each(
    these: Histograms,
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: Bound,
    has_lower: bool = True,
) -> Releases:
    """For each data set choose a bound where none is given, add noise in proportion to it, release.

    Otherwise all contributions are within the given bound.
    """
    share, draws = noise_share(epsilon, bound), secret_draws()
    if bound is None:
        places = choose_bounds(these, max_contributions.bit_length(), epsilon - share, draws)
        kept, bounds = these.clipped(places), [1 << place for place in places.tolist()]
    else:
        kept, bounds = these.totals(), [bound] * these.n
        check_within(these, bounds)
    rates = {at: noise_rate(share, at) for at in set(bounds)}
    noise = discrete_laplaces([rates[at] for at in bounds], draws)
    within = {at: _within(rate, beta) for at, rate in rates.items()}
    return Releases([*map(add, kept.tolist(), noise)], bounds, within, has_lower)


def _within(rate: Fraction, beta: Fraction) -> tuple[int, int]:
    """Find what the noise and its size exceed with probability at most beta."""
    return laplace_quantile(rate, beta) - 1, laplace_quantile(rate, beta * _HALF) - 1


def noise_share(epsilon: Fraction, bound: Bound) -> Fraction:
    """Return the part of epsilon that goes to the noise: all of it where the bound is given."""
    return epsilon if bound is not None else epsilon * _HALF


def loss(epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound) -> PrivacyLoss:
    """Return a run's loss: noise, and before it the choice of the bound where none is given."""
    noise = PrivacyLoss(noise_share(epsilon, bound))
    if bound is not None:
        return noise
    choice = exponential_loss(epsilon - noise.epsilon)
    # Given the data the choice comes first, so no answer moves its interval.
    return replace(choice + noise, bounded_range=choice.epsilon + 2 * noise.epsilon)


def times_the_bound(epsilon: Fraction, beta: Fraction, bound: Bound) -> str:
    """Write the noise that is exceeded with probability <= beta, in units of the bound."""
    scales = ln_enclosure(Fraction(1, 2 * beta), 64)[1]
    return rounded_up(scales * Fraction(1, noise_share(epsilon, bound)) + _HALF)


def largest_bound(max_contributions: int) -> int:
    """Return the largest candidate: a power of 2.

    >>> largest_bound(1), largest_bound(100), largest_bound(128)
    (1, 64, 128)
    """
    return 1 << max_contributions.bit_length() - 1


def check_within(these: Histograms, bounds: Sequence[int]) -> None:
    """Refuse buckets above the given bound of a data set, which the caller did not keep to."""
    tops = np.array([(bound - 1).bit_length() for bound in bounds], np.int64)
    if (these.buckets > tops[these.owners]).any():
        raise ValueError("contributions must be within the given bound")


def check_public(epsilon: Fraction, beta: Fraction, max_contributions: int, bound: Bound) -> None:
    """Refuse numbers of another type or out of their range."""
    check_epsilon(epsilon)
    check_probability("beta", beta, _HALF)
    check_positive_int("max_contributions", max_contributions)
    if bound is not None:
        check_positive_int("bound", bound)

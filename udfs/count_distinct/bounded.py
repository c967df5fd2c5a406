"""From counts under every contribution bound to one release. Proofs are in matching.md.

A count of items when each person covers at most l of them never exceeds the true number, and one
person moves it by at most l. A bound is chosen, privately or by the caller, and noise in proportion
to it is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import add
from typing import Any

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.count_distinct.difference import (
    Covers,
    bounds_up_to,
    choose_by_differences,
    odds_of_bounds,
)
from dp_sql.udfs.discrete_laplace import discrete_laplaces, laplace_quantile, noise_rate
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import (
    BOUND_SELECTIONS,
    DIFFERENCE,
    PrivacyLoss,
    exponential_loss,
    in_words,
    with_probability,
)
from dp_sql.udfs.permute_and_flip import by_weight
from dp_sql.udfs.select import exponential, gem
from dp_sql.udfs.select.blocks import Blocks, distribution_by_weight
from dp_sql.udfs.select.normalized import HIGH, LOW, blocks_of, grid_of, round_up
from dp_sql.udfs.select.selection import rounded_up

_ALL = (DIFFERENCE, *BOUND_SELECTIONS)


@dataclass(frozen=True)
class CountRelease:
    """All that a count releases."""

    estimate: int  # nearly the number of distinct items; the noise may make it negative
    lower_bound: int  # at most that number, with probability at least 1 - beta
    contribution_bound: int | None  # the bound on items per person that was used, if any


@dataclass(frozen=True)
class CountReleases(Sequence[CountRelease]):
    """The releases of several counts, of which each is made when it is asked for.

    within: what the noise at each bound exceeds with probability at most beta.
    """

    estimates: list[int]
    bounds: list[int]
    within: Mapping[int, int]

    def __len__(self) -> int:
        return len(self.estimates)

    def __getitem__(self, which: Any) -> Any:
        n, at = self.estimates[which], self.bounds[which]
        return CountRelease(n, n - self.within[at], at)


def candidates(max_contributions: int, bound: str | int) -> Sequence[int]:
    """List the bounds that a release looks at: the counts under them are all that it needs."""
    if isinstance(bound, int):
        return [bound]
    return (
        bounds_up_to(max_contributions) if bound == DIFFERENCE else range(1, max_contributions + 1)
    )


def release(
    cover: Sequence[int],
    epsilon: Fraction,
    beta: Fraction,
    bound: str | int,
    draws: Draws,
    bounds: Sequence[int] | None = None,
) -> CountRelease:
    """Choose a bound where none is given, add noise, release.

    cover[i] is the count under bounds[i]; without `bounds` they are 1, 2, 3, ...
    """
    tried = bounds or range(1, len(cover) + 1)
    (found,) = release_each([cover], epsilon, beta, bound, draws, tried)
    return found


def release_each(
    covers: Covers,
    epsilon: Fraction,
    beta: Fraction,
    bound: str | int,
    draws: Draws,
    bounds: Sequence[int],
) -> CountReleases:
    """Release each of one or more counts, independently, in less time."""
    share, places = noise_share(epsilon, bound), []
    if isinstance(bound, int):
        places = [bounds.index(bound)] * len(covers)
    elif bound == DIFFERENCE:
        places = choose_by_differences(covers, bounds, epsilon - share, draws)
    else:
        for cover in covers.tolist() if isinstance(covers, np.ndarray) else covers:
            utilities = utilities_of_bounds(cover, epsilon, beta)
            blocks = _blocks(utilities, epsilon - share, beta, bound, draws)
            places.append(by_weight(blocks, draws))
    rates = {place: noise_rate(share, bounds[place]) for place in set(places)}
    within = {place: laplace_quantile(rate, beta) - 1 for place, rate in rates.items()}
    noise = discrete_laplaces([rates[place] for place in places], draws)
    if isinstance(covers, np.ndarray):
        kept = covers[np.arange(len(places)), places].tolist()
    else:
        kept = [cover[place] for cover, place in zip(covers, places, strict=True)]
    at = {bounds[place]: n for place, n in within.items()}
    return CountReleases([*map(add, kept, noise)], [bounds[place] for place in places], at)


def utilities_of_bounds(cover: Sequence[int], epsilon: Fraction, beta: Fraction) -> list[Fraction]:
    """Score each bound, not privately: its count less ln(1/(2 beta)) scales of its noise."""
    share = noise_share(epsilon, "gem")
    cost = round_up(_log(beta) * Fraction(1, share), grid_of(epsilon))
    return [n - at * cost for at, n in enumerate(cover, start=1)]


def _log(beta: Fraction) -> Fraction:
    """Return ln(1/(2 beta)), rounded up: noise exceeds so many scales with probability beta."""
    return ln_enclosure(Fraction(1, 2 * beta), 64)[1]


def distribution_of_bound(
    cover: Sequence[int],
    epsilon: Fraction,
    beta: Fraction,
    bound: str,
    bits: int = 64,
    bounds: Sequence[int] | None = None,
) -> list[tuple[Fraction, Fraction]]:
    """Enclose the probability with which `release` chooses each bound, to about `bits` bits.

    `bound` is "difference", "gem", "mgem" or "rnm"; "combined_gem", gem or mgem at random, is
    refused. Returns (at least, at most) for each of `bounds`, as in `release`.

    Privacy: none. Owners see with it what a release of their data would be worth.
    """
    check_public(epsilon, beta, len(cover), bound, _ALL)
    if bound == "combined_gem":
        raise ValueError("combined_gem is gem or mgem: ask for the distribution of either")
    if not isinstance(bound, str):
        raise TypeError("a given bound has no distribution")
    share = noise_share(epsilon, bound)
    if bound == DIFFERENCE:
        bounds = bounds or range(1, len(cover) + 1)
        return odds_of_bounds(cover, bounds, epsilon - share).distribution(bits)
    utilities = utilities_of_bounds(cover, epsilon, beta)
    return distribution_by_weight(_blocks(utilities, epsilon - share, beta, bound, None), bits)


def _blocks(
    scores: Sequence[Fraction], epsilon: Fraction, beta: Fraction, bound: str, draws: Draws | None
) -> Blocks:
    """Sort the bounds as one of BOUND_SELECTIONS does; only combined_gem draws to do so."""
    bounds = range(1, len(scores) + 1)
    if bound == "rnm":
        return exponential.blocks_of(scores, bounds, epsilon)
    if bound == "combined_gem" and draws is not None:
        return gem.combined_blocks_of(scores, bounds, epsilon, beta, draws)
    return blocks_of(scores, bounds, epsilon, beta, {"gem": LOW, "mgem": HIGH}[bound])


def noise_share(epsilon: Fraction, bound: str | int) -> Fraction:
    """Return the part of epsilon that goes to the noise: all of it where the bound is given."""
    return epsilon if isinstance(bound, int) else epsilon * Fraction(1, 2)


def noise_bound(at: int, epsilon: Fraction, beta: Fraction, bound: str | int) -> int:
    """Return the least integer that the noise at a bound exceeds with probability <= beta."""
    check_public(epsilon, beta, at, bound, _ALL)
    return laplace_quantile(noise_rate(noise_share(epsilon, bound), at), beta) - 1


def loss(
    epsilon: Fraction, beta: Fraction, max_contributions: int, bound: str | int
) -> PrivacyLoss:
    """Return a run's loss: noise, and before it the choice of the bound where none is given."""
    share = noise_share(epsilon, bound)
    if isinstance(bound, int):
        return PrivacyLoss(share)
    if bound == "combined_gem":
        sign = gem.sign_share(epsilon - share)
        choice = exponential_loss(epsilon - share - sign)
        return PrivacyLoss(sign) + choice + PrivacyLoss(share)
    choice = exponential_loss(epsilon - share)
    # Given the counts the choice comes first, so no answer moves its interval; the noise has
    # 2 share. Where the counts are drawn, as in sampling.md, this is the range given the draws.
    return replace(choice + PrivacyLoss(share), bounded_range=(epsilon - share) + 2 * share)


def accuracy(epsilon: Fraction, beta: Fraction, max_contributions: int, bound: str | int) -> str:
    """State how far a count may lie above the true number, from public numbers only."""
    check_public(epsilon, beta, max_contributions, bound, _ALL)
    least, most = (1, max_contributions) if isinstance(bound, str) else (bound, bound)
    price = f"epsilon = {in_words(epsilon)}"
    says = f"{with_probability(1 - beta)} the estimate exceeds the true number of distinct items by"
    if bound == DIFFERENCE:
        times = rounded_up(_log(beta) * Fraction(1, noise_share(epsilon, bound)) + Fraction(1, 2))
        chosen = f"the contribution bound, which is chosen from 1, 2, 4, … up to {most}"
        return f"{says} at most {times} times {chosen} (bound selection {bound}, {price})"
    low, high = (noise_bound(at, epsilon, beta, bound) for at in (least, most))
    if least == most:
        return f"{says} at most {low} (contribution bound {most}, {price})"
    rising = f"when the contribution bound is 1, rising to {high} when it is {most}"
    return f"{says} at most {low} {rising} ({price})"


def check_public(
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: str | int = 1,
    selections: Sequence[str] = BOUND_SELECTIONS,
) -> None:
    """Refuse numbers of another type or out of their range."""
    check_epsilon(epsilon)
    check_probability("beta", beta, Fraction(1, 2))
    check_positive_int("max_contributions", max_contributions)
    if not isinstance(bound, str):
        check_positive_int("bound", bound)
    elif bound not in selections:
        raise ValueError(f"bound must be a number or one of {', '.join(selections)}")

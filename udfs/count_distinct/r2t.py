"""Distinct count by Race-to-the-Top (R2T). Proofs are in r2t.md.

Counts under the bounds 2, 4, 8, ... on items per person, puts noise on each count, takes off what
the noise may have put on, and releases the largest.
"""

from collections.abc import Sequence
from fractions import Fraction

from dp_sql.udfs.count_distinct import bounded, matching
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.count_distinct.template import from_below
from dp_sql.udfs.discrete_laplace import discrete_laplaces, laplace_quantile
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import PrivacyLoss, in_words, with_probability


def release_each(
    counts: Sequence[Sequence[int]],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    draws: Draws,
) -> list[CountRelease]:
    """Estimate the number of items that at least one person holds, from below, for each graph.

    counts: those under each of `bounds`.

    Returns the estimate, >= 0, which is the lower bound too, and the bound that it was counted
    under: None where 0 is the largest.

    Privacy: for each, epsilon-DP under adding or removing one person with all their items:
        epsilon/L for each of L bounds.
    Source: Dong, Fang, Yi, Tao and Machanavajjhala 2022; integer noise, see r2t.md.
    """
    tried = bounds(max_contributions)
    rates = [_noise_rate(epsilon, bound, len(tried)) for bound in tried]
    penalties = [_penalty(rate, beta, len(tried)) for rate in rates]
    noise, found = iter(discrete_laplaces(rates * len(counts), draws)), list[CountRelease]()
    for cover in counts:
        values = [n + next(noise) - p for n, p in zip(cover, penalties, strict=True)]
        estimate = max(0, *values)
        winner = tried[values.index(estimate)] if estimate > 0 else None
        found.append(CountRelease(estimate, estimate, winner))
    return found


def bounds(max_contributions: int) -> list[int]:
    """List the bounds that run: powers of 2, the last cut to what is allowed.

    >>> bounds(1), bounds(2), bounds(3), bounds(8), bounds(9)
    ([1], [2], [2, 3], [2, 4, 8], [2, 4, 8, 9])
    """
    n_bounds = max(1, (max_contributions - 1).bit_length())
    return [min(2**i, max_contributions) for i in range(1, n_bounds + 1)]


def _noise_rate(epsilon: Fraction, bound: int, n_bounds: int) -> Fraction:
    """Return the rate of noise that costs epsilon/n_bounds on a number of sensitivity `bound`."""
    return epsilon * Fraction(1, n_bounds * bound)


def _penalty(rate: Fraction, beta: Fraction, n_bounds: int) -> int:
    """Find the least integer that the noise exceeds with probability at most beta/n_bounds."""
    return laplace_quantile(rate, beta * Fraction(1, n_bounds)) - 1


def loss(epsilon: Fraction, beta: Fraction, max_contributions: int) -> PrivacyLoss:
    """Return a run's loss: L releases of epsilon/L each, every one (epsilon/L)^2/2-zCDP."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 2 * len(bounds(max_contributions))))


def shortfall(bound: int, epsilon: Fraction, beta: Fraction, max_contributions: int) -> int:
    """Bound, except with probability beta, how far below one of its counts a release lies."""
    bounded.check_public(epsilon, beta, max_contributions)
    tried = bounds(max_contributions)
    if bound not in tried:
        raise ValueError(f"bound must be one of {tried}")
    return 2 * _penalty(_noise_rate(epsilon, bound, len(tried)), beta, len(tried))


def accuracy(epsilon: Fraction, beta: Fraction, max_contributions: int) -> str:
    """State how far a count may lie from the true number, from public numbers only."""
    tried = bounds(max_contributions)
    low, high = (shortfall(at, epsilon, beta, max_contributions) for at in (tried[0], tried[-1]))
    says = (
        f"{with_probability(1 - beta)} the estimate is at most the true number of distinct items; "
        f"with the same probability it is at most {low} below it if no one has over "
        f"{tried[0]} items"
    )
    if len(tried) > 1:
        says += f", rising to {high} if no one has over {tried[-1]}"
    return f"{says} (epsilon = {in_words(epsilon)})"


R2T = from_below(
    "r2t",
    "integer noise on the most items covered under each of a few contribution bounds",
    matching.cover_counts_each,
    release_each,
    loss,
    accuracy,
    bounds,
)

"""Person-level distinct count. Knows who holds which item, as codes; never the items.

Bounds what each person may contribute, counts the most items that can be covered under that
bound (a maximum flow), chooses the bound privately and adds noise. Proofs are in matching.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from udfs.exact import Draws, ln_enclosure, secret_draws
from udfs.gem import _gem, grid_of, round_up
from udfs.laplace import discrete_laplace, laplace_quantile
from udfs.spec import Loss, Udf, in_words

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class CountRelease:
    """All that a count releases.

    estimate: nearly the number of distinct items; the noise may make it negative.
    lower_bound: at most the number of distinct items with probability at least 1 - beta.
    contribution_bound: the bound on items per person that was chosen.
    """

    estimate: int
    lower_bound: int
    contribution_bound: int


def count_distinct(
    offsets: npt.NDArray[np.integer],
    people: npt.NDArray[np.integer],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
) -> CountRelease:
    """Count, nearly, the items that at least one person holds.

    Args:
        offsets: item i is held by people[offsets[i]:offsets[i + 1]], shape (items + 1,).
        people: codes of people, integers >= 0, shape (edges,).
        epsilon: privacy loss, positive.
        beta: probability with which the lower bound may fail, in (0, 1/2).
        max_contributions: largest bound on items per person that is tried, >= 1, public.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person with all items that the person
        holds: epsilon/2 for the bound, epsilon/2 for the noise.
    Source: Knop and Steinke 2023, Algorithm 1; integer noise, see matching.md.
    """
    _check_public(epsilon, beta, max_contributions)
    from udfs import flow

    cover = flow.max_cover_counts(flow.build_graph(offsets, people), max_contributions)
    return _release([int(n) for n in cover], epsilon, beta, secret_draws())


def noise_bound(bound: int, epsilon: Fraction, beta: Fraction) -> int:
    """Tell how far the lower bound lies below the estimate at this contribution bound.

    It is the least integer that the noise exceeds with probability at most beta.
    """
    _check_public(epsilon, beta, bound)
    return laplace_quantile(_noise_rate(bound, epsilon), beta) - 1


def accuracy(max_contributions: int, epsilon: Fraction, beta: Fraction) -> str:
    """Say what a count is worth, from public numbers only."""
    low, high = (noise_bound(bound, epsilon, beta) for bound in (1, max_contributions))
    return (
        f"with probability at least {in_words(1 - beta)} the estimate exceeds the true number of "
        f"distinct items by at most {low} when the contribution bound is 1, rising to {high} "
        f"when it is {max_contributions} (epsilon = {in_words(epsilon)})"
    )


def _noise_rate(bound: int, epsilon: Fraction) -> Fraction:
    """Return the rate of noise that costs epsilon/2 on a number of sensitivity bound."""
    return epsilon * Fraction(1, 2 * bound)


def _release(cover: Sequence[int], epsilon: Fraction, beta: Fraction, draws: Draws) -> CountRelease:
    """Release, with the flow values and the draws given.

    Args:
        cover: the most items covered when each person covers at most 1, 2, ... items.
        epsilon: as in count_distinct.
        beta: as in count_distinct.
        draws: where the randomness comes from.
    """
    bounds = range(1, len(cover) + 1)
    # What the noise costs per unit of bound, ln(1/2 beta) scales; its rounding is harmless.
    _, log = ln_enclosure(Fraction(1, 2 * beta), 64)
    cost = round_up(log * Fraction(2, epsilon), grid_of(epsilon))
    utilities = [n - bound * cost for n, bound in zip(cover, bounds, strict=True)]
    bound = bounds[_gem(utilities, bounds, epsilon * _HALF, beta, draws)]
    estimate = cover[bound - 1] + discrete_laplace(_noise_rate(bound, epsilon), draws)
    return CountRelease(estimate, estimate - noise_bound(bound, epsilon, beta), bound)


def _check_public(epsilon: Fraction, beta: Fraction, max_contributions: int) -> None:
    for value in (epsilon, beta):
        if not isinstance(value, Fraction):
            raise TypeError("epsilon and beta must be Fractions")
    if not isinstance(max_contributions, int) or isinstance(max_contributions, bool):
        raise TypeError("max_contributions must be an int")
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    if not 0 < 2 * beta < 1:
        raise ValueError("beta must lie between 0 and 1/2")
    if max_contributions < 1:
        raise ValueError("max_contributions must be at least 1")


UDF = Udf(
    name="matching",
    function="count_distinct",
    samples="a contribution bound, then integer noise on the most items covered under it",
    loss=Loss,
    run=count_distinct,
    accuracy=accuracy,
)

"""Which groups may be shown, by one of two kinds of noise. The proof is in chosen_selection.md.

Where most people are in one or two groups, Laplace noise finds more of them than Gaussian noise.
Which of the two is drawn is chosen by how many groups people are in.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.checks import check_probability
from dp_sql.udfs.count_distinct.pairs import items_of_people
from dp_sql.udfs.discrete_laplace import laplace_quantile, laplace_reaches
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.groups.partition_selection import sentence
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.topk.weighted_gaussian import (
    Constants,
    check_finding,
    find,
    find_where,
    finding_constants,
    people_needed,
)

# Privacy holds for any values of these.
_CHOICE = Fraction(1, 16)  # of epsilon, where the noise is chosen
_FEW = 3  # groups to which one person gives weight at most, with Laplace noise
_STEPS = 16  # of the vote of one person
_ROOT_BITS = 10  # of square roots

_MOST_THRESHOLD = 1 << 62  # with a higher one, no group is found


@dataclass(frozen=True)
class Few:
    """What Laplace noise takes of public numbers."""

    weights: tuple[int, ...]  # of each group of a person with 1, 2, ... groups, in units
    rate: Fraction  # of the noise, for each unit
    threshold: int  # in units

    def needed(self, beta: Fraction, n_groups: int) -> int:
        """So many people in `n_groups` groups each suffice, except with probability beta."""
        enough = self.threshold + _quantile(self.rate, beta)
        return -(-enough // self.weights[n_groups - 1])


@dataclass(frozen=True)
class Both:
    """The constants of both kinds of noise, where they are chosen between."""

    few: Few
    many: Constants | None  # None: it is not chosen
    rate: Fraction  # of the choice, for each step of a vote


def chosen_selection(
    items: NDArray[np.integer[Any]], people: NDArray[np.integer[Any]], epsilon: Fraction,
    delta: Fraction, max_contributions: int,
) -> list[int]:  # fmt: skip
    """Find groups that enough people are in.

    Args:
        items: codes of groups, integers >= 0 below 2^31 - 1, dense or nearly so, shape (pairs,).
        people: who is in each of them, any integers, shape (pairs,); a person counts once in a
            group.
        epsilon: privacy loss, positive.
        delta: privacy slack, in (0, 1).
        max_contributions: to how many groups one person gives weight at most, >= 1.

    Returns:
        Codes of groups, in ascending order, possibly none.

    Raises TypeError for a public number of another type, floats among them, and ValueError for one
    out of range or arrays that are not such pairs.

    Privacy: (epsilon, delta)-DP under adding or removing one person, in any number of groups.
    Source: partition_selection.py; the Laplace mechanism (Dwork et al. 2006), with a threshold.
    """
    both = _public_constants(epsilon, delta, max_contributions)
    sizes, groups = items_of_people(items, people)
    draws = secret_draws()
    if both.many is None or _is_few(votes(sizes, both.few, both.many), both.rate, draws):
        if both.few.threshold > _MOST_THRESHOLD:
            return []
        reached = partial(laplace_reaches, rate=both.few.rate, draws=draws)
        found = find_where(reached, sizes, groups, both.few.weights, both.few.threshold, draws)
    else:
        found = find(sizes, groups, both.many, draws)
    listed: list[int] = found.tolist()
    return listed


def votes(sizes: NDArray[np.int64], few: Few, many: Constants) -> int:
    """Add up the votes of people in so many groups each: from -_STEPS to _STEPS, for few groups.

    One who is in t groups gives them about 1 in all with Laplace noise, and the root of t with
    Gaussian noise. So the votes add up to how much more of its threshold Laplace noise is given.
    """
    one = 1 << _ROOT_BITS
    # How many times as high the threshold is for Gaussian noise, beside the weight of one group.
    ratio = one * many.threshold * few.weights[0] // (many.weights[0] * few.threshold)
    counts = np.bincount(np.minimum(sizes, len(many.weights))).tolist()
    total = 0
    for t, n in enumerate(counts[1:], 1):
        ahead = _STEPS * (ratio - math.isqrt(t << 2 * _ROOT_BITS)) // max(1, ratio - one)
        total += n * max(-_STEPS, min(ahead, _STEPS))
    return total


def _is_few(total: int, rate: Fraction, draws: Draws) -> bool:
    """Choose Laplace noise with odds of exp(rate * total) to 1."""
    return draws.choose(Odds((((1, max(0, -total)),), ((1, max(0, total)),)), rate)) == 0


def loss(epsilon: Fraction, delta: Fraction, max_contributions: int) -> PrivacyLoss:
    """Return a run's loss, however many groups it finds."""
    _public_constants(epsilon, delta, max_contributions)
    return PrivacyLoss(epsilon, delta)


def accuracy(epsilon: Fraction, delta: Fraction, max_contributions: int, beta: Fraction) -> str:
    """State how many people a group needs to be found, with either kind of noise."""
    both = _public_constants(epsilon, delta, max_contributions)
    few, many = both.few, both.many
    check_probability("beta", beta)

    def needed(n: int) -> int:
        with_few = few.needed(beta, n)
        if many is None:
            return with_few
        return max(with_few, people_needed(replace(many, weights=many.weights[:n]), beta))

    # With a very small epsilon, people give weight to fewer groups if the noise is Gaussian.
    n = len(few.weights if many is None else many.weights[: len(few.weights)])
    return sentence(needed, n, epsilon, delta, beta)


def _public_constants(epsilon: Fraction, delta: Fraction, max_contributions: int) -> Both:
    check_finding(epsilon, delta, max_contributions)
    return selection_constants(epsilon, delta, max_contributions)


@lru_cache(maxsize=64)
def selection_constants(epsilon: Fraction, delta: Fraction, max_contributions: int) -> Both:
    """Return the constants; nothing is chosen where a person has weight in one or two groups."""
    share = epsilon * (1 - _CHOICE)
    many = None if max_contributions < _FEW else finding_constants(share, delta, max_contributions)
    if many is None:
        return Both(_few(epsilon, delta, min(max_contributions, _FEW)), None, epsilon)
    return Both(_few(share, delta, _FEW), many, (epsilon - share) * Fraction(1, _STEPS))


def _few(epsilon: Fraction, delta: Fraction, most: int) -> Few:
    """The constants for people who give weight to at most so many groups."""
    unit = math.lcm(*range(1, most + 1))
    weights, rate = tuple(unit // t for t in range(1, most + 1)), epsilon * Fraction(1, unit)
    return Few(weights, rate, _threshold(weights, rate, delta))


def _threshold(weights: tuple[int, ...], rate: Fraction, delta: Fraction) -> int:
    """Find a threshold that no group of only one person reaches, except with probability delta."""
    return max(w + _quantile(rate, delta * Fraction(1, t)) for t, w in enumerate(weights, 1))


def _quantile(rate: Fraction, mass: Fraction) -> int:
    """Find an integer x >= 1 with P(X >= x) <= mass; less than half of the noise is at least 1."""
    return 1 if 2 * mass >= 1 else laplace_quantile(rate, mass)


CHOSEN_SELECTION = Mechanism(
    "chosen_selection", "groups", "the kind of noise, then whether each group is found",
    loss, chosen_selection, accuracy,
)  # fmt: skip

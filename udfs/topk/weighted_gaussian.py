"""Top k of an unknown domain, found by weighted counts. The proofs are in weighted_gaussian.md.

Each person spreads weights of Euclidean norm 1 over at most max_contributions items. An item is
found if the sum of its weights, with discrete Gaussian noise, reaches a threshold. Exponential
mechanisms then list found items by their numbers of people.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.concentrated import largest_rho
from dp_sql.udfs.count_distinct.graph import Int32s
from dp_sql.udfs.count_distinct.pairs import items_of_people, items_of_people_in_groups
from dp_sql.udfs.discrete_gaussian import reaches, upper_quantile
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.intervals import root_up
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability
from dp_sql.udfs.permute_and_flip import by_weight
from dp_sql.udfs.slices import slices
from dp_sql.udfs.topk import template
from dp_sql.udfs.topk.peeling import peel
from dp_sql.udfs.topk.ranking import Ints
from dp_sql.udfs.topk.rounds_at_once import peel_each, rows_of

_SHARE = Fraction(1, 4)  # of rho, for the choice among the items that are found
_GRAIN = 16  # units of the least weight, about, where the noise allows it
_MOST_SCALE = 1 << 13  # of the noise, in units: its table has some 10 entries for each
_RATE_BITS = 64
_GROUPS, _PAIRS = 1 << 14, 1 << 20  # so many data sets are drawn from at once
_ALONE = 1 << 12  # but not data sets of more pairs, on average, which are sorted faster alone
_FOUND = 10**6  # items for which the accuracy of the choice is stated, at most


@dataclass(frozen=True)
class Constants:
    """What a run takes from public numbers alone."""

    weights: tuple[int, ...]  # of each item of a person with 1, 2, ... items, in units
    scale: int  # of the noise, in units
    threshold: int  # in units
    rate: Fraction  # of each exponential mechanism, q = exp(-rate)


def topk(
    items: NDArray[np.integer[Any]], people: NDArray[np.integer[Any]], k: int, epsilon: Fraction,
    delta: Fraction, max_contributions: int,
) -> list[int]:  # fmt: skip
    """List up to k items with nearly the most people, best first, from no domain.

    Args:
        items: codes of items, integers >= 0 below 2^31 - 1, dense or nearly so, shape (pairs,).
        people: who has each of them, any integers, shape (pairs,); a person counts once for an
            item.
        k: greatest length of the list, >= 1.
        epsilon: privacy loss of the whole list, positive.
        delta: privacy slack of the whole list, in (0, 1).
        max_contributions: to how many items one person gives weight at most, >= 1.

    Returns:
        Codes of items, all different, at most k of them, possibly none. How many there are is part
        of what is released.

    Raises TypeError for a public number of another type, floats among them, and ValueError for one
    out of range or arrays that are not such pairs.

    Privacy: (epsilon, delta)-DP under adding or removing one person, with all items of theirs.
    Source: Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin 2020 (the weighted Gaussian);
        Canonne, Kamath and Steinke 2020 (its discrete noise).
    """
    constants = _public_constants(k, epsilon, delta, max_contributions)
    pairs = items_of_people(items, people)
    if constants is None:
        return []
    return _topk(*pairs, k, constants, secret_draws())


def topk_each(
    data: Sequence[tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]], k: int,
    epsilon: Fraction, delta: Fraction, max_contributions: int,
) -> list[list[int]]:  # fmt: skip
    """List as `topk` does for each of several data sets, all independently, in less time."""
    constants = _public_constants(k, epsilon, delta, max_contributions)
    listed, draws = list[list[int]](), secret_draws()
    for part in slices([len(items) for items, _ in data], _GROUPS, _PAIRS):
        if sum(len(items) for items, _ in data[part]) > _ALONE * len(data[part]):
            listed += [topk(*pairs, k, epsilon, delta, max_contributions) for pairs in data[part]]
            continue
        sizes, items, groups, codes = items_of_people_in_groups(data[part])
        n = part.stop - part.start
        if constants is None:
            listed += [[] for _ in range(n)]
            continue
        found = find(sizes, items, constants, draws)
        counts, starts = np.bincount(items)[found], np.searchsorted(groups[found], np.arange(n + 1))
        picks = _lists_each(counts, starts, k, constants, draws)
        own = zip(starts.tolist(), picks, strict=False)
        listed += [codes[found[places + start]].tolist() for start, places in own]
    return listed


def loss(k: int, epsilon: Fraction, delta: Fraction, max_contributions: int) -> PrivacyLoss:
    """Return a run's loss, whatever the length of its list; refuse what a run would refuse."""
    _public_constants(k, epsilon, delta, max_contributions)
    return loss_of_finding(epsilon, delta)


def loss_of_finding(epsilon: Fraction, delta: Fraction) -> PrivacyLoss:
    """Return the loss of finding items: half of delta goes into rho, half into the threshold."""
    slack = delta * Fraction(1, 2)
    rho = largest_rho(epsilon, slack)
    return PrivacyLoss(epsilon, delta, approximate=(rho, slack) if rho else None)


def accuracy(
    size: int, k: int, epsilon: Fraction, delta: Fraction, max_contributions: int, beta: Fraction
) -> str:
    """State the error bounds; `size` is ignored, for without a domain it would be private."""
    constants = _public_constants(k, epsilon, delta, max_contributions)
    check_probability("beta", beta)
    given = f"(k = {k}, epsilon = {in_words(epsilon)}, delta = {in_words(delta)})"
    if constants is None:
        return f"no item is found, because epsilon is too small {given}"
    shortfall = template.error_bound(k * _FOUND, constants.rate, max(beta, template.TAIL))
    sure = with_probability(1 - beta)
    return (
        f"{sure} an item is found if {people_needed(constants, beta)} people have it, each with at "
        f"most {len(constants.weights)} items; if at most {_FOUND} items are found, {sure} "
        f"{template.no_item_short_by(shortfall)} among them {given}"
    )


def people_needed(constants: Constants, beta: Fraction) -> int:
    """So many people suffice, except with probability beta, if all items of theirs are kept."""
    needed = constants.threshold + upper_quantile(constants.scale, beta)
    return -(-needed // constants.weights[-1])


def check_finding(epsilon: Fraction, delta: Fraction, max_contributions: int) -> None:
    """Refuse public numbers of another type or out of their range."""
    check_epsilon(epsilon)
    check_probability("delta", delta)
    check_positive_int("max_contributions", max_contributions)


def _public_constants(
    k: int, epsilon: Fraction, delta: Fraction, max_contributions: int
) -> Constants | None:
    """Check the public numbers and compute what a run needs of them; None: nothing can be found."""
    check_positive_int("k", k)
    check_finding(epsilon, delta, max_contributions)
    return _constants(k, epsilon, delta, max_contributions)


@lru_cache(maxsize=64)
def _constants(
    k: int, epsilon: Fraction, delta: Fraction, max_contributions: int
) -> Constants | None:
    """Half of delta for the threshold; the other half turns epsilon into rho, which is shared."""
    rho = largest_rho(epsilon, delta * Fraction(1, 2))
    for_weights, rate = rho, Fraction(0)
    if k:
        for_weights, rate = rho * (1 - _SHARE), _rate(k, rho * _SHARE)
    # One person's squared weights add up to at most `norm`, whose noise must fit its table.
    norm = min(_GRAIN**2 * max_contributions, int(2 * for_weights * _MOST_SCALE**2))
    if not norm:
        return None
    scale = int(root_up(Fraction(norm, 2 * for_weights), 0))
    weights = tuple(math.isqrt(norm // t) for t in range(1, min(max_contributions, norm) + 1))
    return Constants(weights, scale, _threshold(weights, scale, delta * Fraction(1, 2)), rate)


finding_constants = partial(_constants, 0)
"""What finding alone takes of public numbers: all of rho is for the weights."""


def _threshold(weights: tuple[int, ...], scale: int, delta: Fraction) -> int:
    """Find a threshold that no item of only one person reaches, except with probability delta.

    It holds for every number t of such items: each may reach it with probability delta/t.
    """
    most = {weight: t for t, weight in enumerate(weights, 1)}  # of equal weights the last decides
    return max(w + upper_quantile(scale, delta * Fraction(1, t)) for w, t in most.items())


def _rate(k: int, rho: Fraction) -> Fraction:
    """Return the rate of k exponential mechanisms that together cost rho, rounded down."""
    square = rho * Fraction(8, k)
    whole = (square.numerator << 2 * _RATE_BITS) // square.denominator
    return Fraction(math.isqrt(whole), 1 << _RATE_BITS)


def _topk(sizes: Ints, items: Int32s, k: int, constants: Constants, draws: Draws) -> list[int]:
    """Find items by their weights, then list k of them by their numbers of people.

    `sizes` and `items` are what items_of_people returns.
    """
    found = find(sizes, items, constants, draws)
    n_listed = min(k, found.size)
    if not n_listed:
        return []
    counts = np.bincount(items)[found].astype(np.int64, copy=False)
    cut = _cut(found.size * n_listed, constants.rate)
    picks = peel(counts, n_listed, constants.rate, cut, by_weight, draws)
    listed: list[int] = found[picks].tolist()
    return listed


@lru_cache(maxsize=1024)
def _cut(n_outcomes: int, rate: Fraction) -> int:
    """Choose the public cut of rounds; no shortfall is above 2^63 - 1."""
    return min(template.cut_of(n_outcomes, rate), (1 << 63) - 1)


def _lists_each(
    counts: Ints, starts: Ints, k: int, constants: Constants, draws: Draws
) -> list[Ints]:
    """List k of the items found in each data set, whose counts begin at each of `starts`."""
    sizes = np.diff(starts)
    picks = [np.empty(0, np.int64)] * sizes.size
    for rows, at_once in rows_of(sizes):
        own, n_listed = sizes[rows], np.minimum(sizes[rows], k)
        cuts = [_cut(n, constants.rate) for n in (own * n_listed).tolist()]
        if not at_once:
            for row, n, cut in zip(rows.tolist(), n_listed.tolist(), cuts, strict=True):
                some = counts[starts[row] : starts[row + 1]]
                picks[row] = np.array(peel(some, n, constants.rate, cut, by_weight, draws))
            continue
        places = np.arange(own.max())
        scores = np.where(
            there := places < own[:, np.newaxis],
            counts[np.where(there, starts[rows, np.newaxis] + places, 0)], -1,
        )  # fmt: skip
        taken = peel_each(scores, n_listed, constants.rate, np.array(cuts), draws)
        for row, n, chosen in zip(rows.tolist(), n_listed.tolist(), taken, strict=True):
            picks[row] = chosen[:n]
    return picks


def find(sizes: Ints, items: Int32s, constants: Constants, draws: Draws) -> Ints:
    """Find the items whose weights, with noise, reach the threshold."""
    reached = partial(reaches, scale=constants.scale, draws=draws)
    return find_where(reached, sizes, items, constants.weights, constants.threshold, draws)


def find_where(
    reached: Callable[[Ints], NDArray[np.bool_]], sizes: Ints, items: Int32s,
    weights: tuple[int, ...], threshold: int, draws: Draws,
) -> Ints:  # fmt: skip
    """Find the items whose weights fall short of the threshold by no more than noise reaches."""
    sums = _weight_sums(sizes, items, weights, draws)
    present = np.flatnonzero(sums)
    return present[reached(threshold - sums[present])]


def _weight_sums(sizes: Ints, items: Int32s, weights: tuple[int, ...], draws: Draws) -> Ints:
    """Add up the weights of each item; people with too many items give to some, drawn evenly."""
    sums = np.zeros(int(items.max(initial=-1)) + 1, dtype=np.int64)
    if sizes.max(initial=0) > len(weights):
        items = items[draws.subsets(sizes, len(weights))]
        sizes = np.minimum(sizes, len(weights))
    np.add.at(sums, items, np.repeat(np.array((0, *weights))[sizes], sizes))
    return sums


def n_people(
    items: NDArray[np.integer[Any]], people: NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    """Count the people of each item, each once. Not private without noise."""
    return np.bincount(items_of_people(items, people)[1]).astype(np.int64, copy=False)


WEIGHTED_GAUSSIAN = Mechanism(
    "weighted_gaussian", "topk", "whether each item is found, then up to k of those, one after the "
    "other, by the exponential mechanism",
    loss, topk, accuracy, finds_items=True, run_each=topk_each,
)  # fmt: skip

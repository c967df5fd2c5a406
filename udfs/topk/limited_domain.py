"""Top k of an unknown domain. The proofs are in limited_domain.md.

The candidates are the kbar most frequent items and an outcome "stop", which scores a public
distance above the next count. Candidates are taken one after the other by the exponential
mechanism until stop is drawn or k items are listed.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_positive_int, check_probability
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability
from dp_sql.udfs.permute_and_flip import by_weight
from dp_sql.udfs.topk.peeling import concentrated_rate
from dp_sql.udfs.topk.ranking import Ints
from dp_sql.udfs.topk.rounds import Round, sort_ranks
from dp_sql.udfs.topk.rounds_at_once import peel_each, rows_of
from dp_sql.udfs.topk.template import checked_counts, no_item_short_by, union_bound

_LEAST_CANDIDATES = 1000
_CANDIDATES_PER_PICK = 20


@dataclass(frozen=True)
class Constants:
    """What a run takes from public numbers alone."""

    kbar: int  # candidates at most, not counting stop
    rate: Fraction  # of each exponential mechanism, q = exp(-rate)
    threshold: int  # stop scores 1 + threshold above the (kbar + 1)-th count


def topk(counts: Ints, k: int, epsilon: Fraction, delta: Fraction) -> list[int]:
    """List up to k items with nearly the largest counts, best first, from no domain.

    Args:
        counts: the n_largest(k) largest numbers of distinct people per item (fewer where fewer
            items exist), shape (n,), int64, > 0, descending.
        k: greatest length of the list, >= 1.
        epsilon: privacy loss of the whole list, positive.
        delta: privacy slack of the whole list, in (0, 1).

    Returns:
        Positions in `counts`, all different, at most k of them, possibly none. How many there
        are is part of what is released.

    Raises TypeError for another type, floats among them, and ValueError for a number out of range.

    Privacy: (epsilon, delta)-DP under adding or removing one person who adds at most 1 to each
        count, however many counts that are and whichever of them are new.
    Source: Durfee and Rogers 2019, limited domain with unrestricted sensitivity.
    """
    constants = _public_constants(k, epsilon, delta)
    return _topk(_checked(counts, constants), k, constants, secret_draws())


def topk_each(
    data: Sequence[tuple[Ints]], k: int, epsilon: Fraction, delta: Fraction
) -> list[list[int]]:
    """List as `topk` does for each of several data sets, all independently, in less time."""
    constants = _public_constants(k, epsilon, delta)
    each, draws = [_checked(counts, constants) for (counts,) in data], secret_draws()
    listed: list[list[int]] = [[] for _ in data]
    for rows, at_once in rows_of(np.array([len(counts) + 1 for counts in each], np.int64)):
        own = [each[row] for row in rows.tolist()]
        if at_once:
            lists = _topk_at_once(own, k, constants, draws)
        else:
            lists = [_topk(counts, k, constants, draws) for counts in own]
        for row, one in zip(rows.tolist(), lists, strict=True):
            listed[row] = one
    return listed


def n_largest(k: int) -> int:
    """Return how many of the largest counts a run takes: kbar + 1, see limited_domain.md."""
    check_positive_int("k", k)
    return max(_LEAST_CANDIDATES, _CANDIDATES_PER_PICK * k) + 1


def loss(k: int, epsilon: Fraction, delta: Fraction) -> PrivacyLoss:
    """Return a run's loss, whatever the length of its list; refuse what a run would refuse."""
    _public_constants(k, epsilon, delta)
    return PrivacyLoss(epsilon, delta)


def accuracy(size: int, k: int, epsilon: Fraction, delta: Fraction, beta: Fraction) -> str:
    """State the error bounds; `size` is ignored, for without a domain it would be private."""
    constants = _public_constants(k, epsilon, delta)
    check_probability("beta", beta)
    shortfall, excess = error_bounds(k, constants, beta)
    return (
        f"{with_probability(1 - beta)} {no_item_short_by(shortfall)}, and a list that is not full "
        f"has every item with over {excess} people more than the item at rank {n_largest(k)} "
        f"(k = {k}, epsilon = {in_words(epsilon)}, delta = {in_words(delta)})"
    )


def _public_constants(k: int, epsilon: Fraction, delta: Fraction) -> Constants:
    """Check the public numbers and compute what a run needs of them."""
    kbar = n_largest(k) - 1
    check_epsilon(epsilon)
    check_probability("delta", delta)
    constants = _constants(k, kbar, epsilon, delta)
    if constants.threshold >= 1 << 62:
        raise ValueError("epsilon is too small for counts of 62 bits")
    return constants


def _constants(k: int, kbar: int, epsilon: Fraction, delta: Fraction) -> Constants:
    """Take the larger rate: k pure rounds, or half of delta for their composition."""
    part = delta * Fraction(1, 2)
    pure = (epsilon * Fraction(1, k), delta)
    composed = (concentrated_rate(k, epsilon, part), delta - part)
    rate, for_threshold = max(pure, composed)
    return Constants(kbar, rate, union_bound(kbar, rate, for_threshold))


def error_bounds(k: int, constants: Constants, beta: Fraction) -> tuple[int, int]:
    """Bound a list on every data set, except with probability beta; see limited_domain.md.

    Returns how many people a listed item may fall short of the count that belongs at its rank, and
    how many an item that a short list leaves out may have above the (kbar + 1)-th count.
    """
    early_items = union_bound(2 * k * constants.kbar, constants.rate, beta)
    early_stop = union_bound(2 * k, constants.rate, beta)
    return max(0, early_items - 1), 1 + constants.threshold + max(0, early_stop - 1)


def _topk(counts: Ints, k: int, constants: Constants, draws: Draws) -> list[int]:
    """Take candidates until stop is drawn or the list is full."""
    candidates = counts[: constants.kbar]
    stop = _stop_score(counts, constants)
    stop_rank = int(np.count_nonzero(candidates >= stop))
    scores = np.insert(candidates, stop_rank, stop)
    gaps = scores[0] - scores
    picks: list[int] = []
    taken: list[int] = []
    while len(picks) < k:
        rank = by_weight(_round(gaps, taken, constants.rate), draws)
        if rank == stop_rank:
            break
        picks.append(rank - (rank > stop_rank))
        insort(taken, rank)
    return picks


def _topk_at_once(
    data: Sequence[Ints], k: int, constants: Constants, draws: Draws
) -> list[list[int]]:
    """Draw `_topk` for each of the data sets; stop is the first outcome, and ends a list."""
    sizes = np.array([min(len(counts), constants.kbar) for counts in data])
    scores = np.full((len(data), 1 + int(sizes.max())), -1)
    for row, counts, n in zip(scores, data, sizes.tolist(), strict=True):
        row[0], row[1 : n + 1] = _stop_score(counts, constants), counts[:n]
    no_cut = np.full(len(data), (1 << 63) - 1)
    picks = peel_each(scores, np.minimum(k, 1 + sizes), constants.rate, no_cut, draws)
    ends = np.where((picks <= 0).any(axis=1), (picks <= 0).argmax(axis=1), picks.shape[1])
    return [row[:end] for row, end in zip((picks - 1).tolist(), ends.tolist(), strict=True)]


def _checked(counts: Ints, constants: Constants) -> Ints:
    """Refuse counts that cannot be the largest, in descending order."""
    counts = checked_counts(counts)
    if len(counts) > constants.kbar + 1:
        raise ValueError("counts must be the n_largest(k) largest at most")
    if counts.size and (int(counts[-1]) <= 0 or (counts[1:] > counts[:-1]).any()):
        raise ValueError("counts must be positive and descending")
    return counts


def _stop_score(counts: Ints, constants: Constants) -> int:
    """Score stop: 1 + threshold above the (kbar + 1)-th count, which is 0 where none exists."""
    beyond = int(counts[constants.kbar]) if len(counts) > constants.kbar else 0
    return beyond + 1 + constants.threshold


def _round(gaps: Ints, taken: Sequence[int], rate: Fraction) -> Round:
    """Sort the free ranks into blocks; no shortfall is cut."""
    blocks = sort_ranks(gaps, len(gaps), taken, rate, _last_block(len(gaps), rate))
    return replace(blocks, cut=1 << 63)


def _last_block(n_ranks: int, rate: Fraction) -> int:
    """Choose where the last block starts. Decides the speed, never the distribution."""
    return -(-7 * (n_ranks.bit_length() + 4) // (10 * rate))


LIMITED_DOMAIN = Mechanism(
    "limited_domain", "topk",
    "up to k items, one after the other, by the exponential mechanism, until it stops",
    loss, topk, accuracy, n_largest, finds_items=True, run_each=topk_each,
)  # fmt: skip

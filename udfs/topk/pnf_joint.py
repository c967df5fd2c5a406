"""Permute-and-flip over whole lists for the top k. Knows counts; never items, SQL or budgets.

Draws a whole list at once: visit all lists in random order, accept a list with probability
q**min(err, cut), err as in joint.py, and return the first accepted. No list is ever visited: the
attempts of joint.py race against clocks. The proofs are in pnf_joint.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from dp_sql.udfs.permute_and_flip import Clock, by_flips, with_clocks
from dp_sql.udfs.topk import joint
from dp_sql.udfs.topk.ranking import Ints, Ranking, check_counts, check_public, rank

_List = tuple[int, ...]
"""Positions of k different items, best first."""


def topk(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items
            that nobody has are in it, as zeros.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.

    Returns:
        Their positions: k different integers in 0, ..., d - 1.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: Gillenwater et al. 2022, appendix D; drawn by a race, for every k, see pnf_joint.md.
    """
    check_counts(counts)
    check_public(len(counts), k, epsilon)
    rate = joint._rate(k, epsilon)
    cut = joint._cut(len(counts), k, rate)
    return list(by_flips(_lists(counts.astype(np.int64, copy=False), k, rate, cut), secret_draws()))


def accuracy(d: int, k: int, epsilon: Fraction, beta: Fraction) -> str:
    """Say what a list is worth, from public numbers only; the bound of joint holds here too."""
    return joint.accuracy(d, k, epsilon, beta)


def loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Price one run: pure, and no rho better than that of pure privacy is known."""
    return PrivacyLoss(epsilon)


@dataclass(frozen=True)
class _Lists:
    """All lists of k items, and attempts at one.

    best: the k largest counts, descending.
    """

    counts: Ints
    best: Ints
    ranking: Ranking
    stairs: joint._Staircase

    def level(self, picks: _List) -> int:
        """Return min(err, cut) of a list."""
        return min(int((self.best - self.counts[list(picks)]).max()), self.ranking.cut)

    def attempt(self, draws: Draws, clocks: Sequence[int] = ()) -> _List | Clock | None:
        """Propose a list, or a clock, as `Proposals` says."""
        j = draws.choose(with_clocks(self.stairs.odds, clocks))
        if j >= len(self.stairs.starts):
            return Clock(j - len(self.stairs.starts))
        picks = joint._attempt_from(j, self.ranking, self.stairs, draws)
        return None if picks is None else tuple(picks)


def _lists(counts: Ints, k: int, rate: Fraction, cut: int) -> _Lists:
    """Prepare the attempts, with q = exp(-rate) and the cut given."""
    ranking = rank(counts, k, cut)
    return _Lists(counts, counts[ranking.places[:k]], ranking, joint._staircase(ranking, rate))


PNF_JOINT = Mechanism(
    name="pnf_joint",
    function="topk",
    samples="a list of k items, by permute-and-flip over whole lists",
    parameters=("k", "epsilon"),
    loss=loss,
    run=topk,
    accuracy=accuracy,
)

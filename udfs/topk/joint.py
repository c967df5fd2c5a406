"""Whole lists of k items at once: the joint exponential mechanism and permute-and-flip.

A list weighs q**min(err(list), cut), where err is the largest shortfall of a listed count against
the count that belongs at its rank. `joint` draws a list in proportion to its weight. `pnf_joint`
visits all lists in random order and returns the first that it accepts, with probability equal to
its weight. The proofs are in joint.md and pnf_joint.md.
"""

import math
from fractions import Fraction

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import PrivacyLoss, exponential_loss
from dp_sql.udfs.permute_and_flip import by_permute_and_flip, by_weight
from dp_sql.udfs.topk.lists import propose_lists
from dp_sql.udfs.topk.lists_at_once import draw_each, draw_lists
from dp_sql.udfs.topk.ranking import Ints
from dp_sql.udfs.topk.template import public_domain


def joint(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: Gillenwater et al. 2022, section 3; sampled by layers, see joint.md.
    """
    return list(by_weight(propose_lists(counts, k, rate, cut), draws))


def joint_each(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> Ints:
    """Draw `joint` for each row of counts, all independently; rows of similar counts at once."""
    return draw_each((joint, draw_lists), k, counts, k, rate, cut, draws)


def pnf_joint(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: Gillenwater et al. 2022, appendix D; drawn by a race, for every k, see pnf_joint.md.
    """
    return list(by_permute_and_flip(propose_lists(counts, k, rate, cut), draws))


def loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Return a run's loss: an exponential mechanism of range epsilon, see joint.md."""
    return exponential_loss(epsilon)


def rate_of(k: int, epsilon: Fraction) -> Fraction:
    """Return the rate, q = exp(-rate): epsilon/2, or epsilon for k = 1, where err is monotone."""
    return epsilon if k == 1 else epsilon * Fraction(1, 2)


JOINT = public_domain(
    "a list of k items, by the exponential mechanism over whole lists", joint, loss, rate_of,
    math.perm, sample_each=joint_each,
)  # fmt: skip
PNF_JOINT = public_domain(
    "a list of k items, by permute-and-flip over whole lists", pnf_joint,
    lambda k, epsilon: PrivacyLoss(epsilon),  # no rho better than that of pure privacy is known
    rate_of, math.perm,
)  # fmt: skip

"""The exponential mechanism and permute-and-flip on scores of one common sensitivity.

Candidate i has the weight exp(-epsilon * shortfall / (2 * the largest sensitivity)), or is accepted
with this probability. The proofs are in exponential.md, pnf.md and rnm_gumbel.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import exponential_loss
from dp_sql.udfs.permute_and_flip import by_permute_and_flip, by_weight
from dp_sql.udfs.select.blocks import Blocks, into_blocks
from dp_sql.udfs.select.selection import (
    Numbers,
    in_units,
    rounded_up,
    selection,
    sentence,
    shift_of,
)


def exponential(scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws) -> int:
    """Choose a candidate whose score is nearly the largest, by the exponential mechanism.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, up or down.
    Source: McSherry and Talwar 2007; see exponential.md.
    """
    return by_weight(blocks_of(scores, sensitivities, epsilon), draws)


def pnf(scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws) -> int:
    """Choose a candidate whose score is nearly the largest, by permute-and-flip.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, up or down.
    Source: McKenna and Sheldon 2020; the same distribution as report noisy max with exponential
        noise (Ding et al. 2021). Proved in pnf.md; drawn as in permute_and_flip.md.
    """
    return by_permute_and_flip(blocks_of(scores, sensitivities, epsilon), draws)


def blocks_of(scores: Numbers, sensitivities: Numbers, epsilon: Fraction) -> Blocks:
    """Sort candidates by score; where all sensitivities are 0 only the best are left."""
    whole, sizes = in_units(scores, sensitivities)
    best, size = max(whole), _size(sizes)
    if not size:
        return into_blocks([0 if score == best else None for score in whole], epsilon)
    return into_blocks([best - score for score in whole], _rate(epsilon, size))


def _size(sizes: Sequence[int]) -> int:
    """Return the one sensitivity used for all scores."""
    return max(sizes)


def _rate(epsilon: Fraction, size: int) -> Fraction:
    """Return the rate of one unit of score. Scores move up and down, so there is a factor 2."""
    return epsilon * Fraction(1, 2 * size)


def accuracy(sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> str:
    """Bound how far a chosen score falls short, for all three mechanisms."""
    error = rounded_up(max(sensitivities) * shift_of(len(sensitivities), epsilon, beta))
    holds = f"the chosen score is at most {error} below the largest"
    return sentence(sensitivities, epsilon, beta, holds)


EXPONENTIAL = selection(
    "one candidate, by the exponential mechanism", exponential, accuracy, exponential_loss
)
PNF = selection("one candidate, by permute-and-flip", pnf, accuracy)

# The exponential mechanism by another name: see rnm_gumbel.md (Durfee and Rogers 2019).
RNM_GUMBEL = replace(
    EXPONENTIAL, name="rnm_gumbel", samples="the position of the largest score plus Gumbel noise"
)

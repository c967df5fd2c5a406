"""Generalized exponential mechanisms: a choice among scores that differ in sensitivity.

Permute-and-flip on normalized scores, shifted in favour of low (gem) or high sensitivities (mgem).
combined_gem first asks, by randomised response, whether scores and sensitivities are positively
correlated. Proofs are in gem.md, mgem.md and combined_gem.md.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.permute_and_flip import by_permute_and_flip
from dp_sql.udfs.select.blocks import Blocks
from dp_sql.udfs.select.normalized import HIGH, LOW, blocks_of, shift_on_grid
from dp_sql.udfs.select.selection import (
    Numbers,
    in_units,
    rounded_up,
    selection_with_beta,
    sentence,
)


def gem(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, beta: Fraction, draws: Draws
) -> int:
    """Choose a candidate whose score is nearly the largest, for the others' sensitivities.

    Privacy: epsilon-DP, for any beta, if one person moves each score by at most its sensitivity.
    Source: Raskhodnikova and Smith 2015, with report noisy max as in Antonova et al. 2025,
        section IV-C; see gem.md.
    """
    return by_permute_and_flip(blocks_of(scores, sensitivities, epsilon, beta, LOW), draws)


def mgem(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, beta: Fraction, draws: Draws
) -> int:
    """Choose a candidate whose score is nearly the largest, for its own sensitivity.

    Privacy: epsilon-DP, for any beta, if one person moves each score by at most its sensitivity.
    Source: Antonova et al. 2025, section IV-D; see mgem.md.
    """
    return by_permute_and_flip(blocks_of(scores, sensitivities, epsilon, beta, HIGH), draws)


def combined_gem(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, beta: Fraction, draws: Draws
) -> int:
    """Choose by gem or mgem, whichever suits how scores and sensitivities correlate.

    Privacy: epsilon-DP, for any beta, if one person moves each score by at most its sensitivity:
        epsilon/2 for the sign and epsilon/2 for the choice.
    Source: Antonova et al. 2025, Algorithm 2; see combined_gem.md.
    """
    blocks = combined_blocks_of(scores, sensitivities, epsilon, beta, draws)
    return by_permute_and_flip(blocks, draws)


def combined_blocks_of(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, beta: Fraction, draws: Draws
) -> Blocks:
    """Spend the sign's share on it, then sort candidates as gem or mgem do at the rest."""
    share = sign_share(epsilon)
    positive = _respond(sign_of_spearman(scores, sensitivities) > 0, share, draws)
    return blocks_of(scores, sensitivities, epsilon - share, beta, HIGH if positive else LOW)


def sign_share(epsilon: Fraction) -> Fraction:
    """Return the part of epsilon that goes to the sign of the correlation."""
    return epsilon * Fraction(1, 2)


def sign_of_spearman(scores: Numbers, sensitivities: Numbers) -> int:
    """Return the sign of Spearman's correlation, exactly: 1, -1 or 0. NOT private by itself.

    It is the sign of the covariance of the ranks; a constant column has no correlation: 0.
    """
    x, y = (_ranks(values) for values in in_units(scores, sensitivities))
    covariance = len(x) * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)
    return (covariance > 0) - (covariance < 0)


def _ranks(values: Sequence[int]) -> list[int]:
    """Return twice the mean rank, which is an integer, of each value: 1 for a lowest single."""
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) for value in values]


def _respond(truth: bool, epsilon: Fraction, draws: Draws) -> bool:
    """Report a bit by randomised response: it is true with odds exp(epsilon) : 1."""
    return truth != bool(draws.choose(Odds((((1, 0),), ((1, 1),)), epsilon)))


def _combined_loss(epsilon: Fraction) -> PrivacyLoss:
    """Return the loss of two pure mechanisms, one after the other."""
    share = sign_share(epsilon)
    return PrivacyLoss(share) + PrivacyLoss(epsilon - share)


def _accuracy(
    sensitivities: Numbers, epsilon: Fraction, beta: Fraction, unit: str, combined: bool = False
) -> str:
    """Bound a choice in multiples of a sensitivity; a combined one has only a part of epsilon."""
    rest = epsilon - sign_share(epsilon) if combined else epsilon
    times = rounded_up(2 * shift_on_grid(len(sensitivities), rest, beta))
    holds = f"no other score exceeds the chosen one by more than {times} times {unit}"
    return sentence(sensitivities, epsilon, beta, holds)


GEM = selection_with_beta(
    "one candidate, by permute-and-flip on scores per sensitivity",
    gem,
    partial(_accuracy, unit="that other candidate's sensitivity"),
)
MGEM = selection_with_beta(
    "one candidate, by permute-and-flip on scores per sensitivity, high ones favoured",
    mgem,
    partial(_accuracy, unit="the chosen candidate's sensitivity"),
)
COMBINED_GEM = selection_with_beta(
    "the sign of a correlation, by randomised response; then one candidate, by gem or mgem",
    combined_gem,
    partial(_accuracy, unit="the larger of the two candidates' sensitivities", combined=True),
    _combined_loss,
)

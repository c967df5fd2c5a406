"""Permute-and-flip: visit candidates in random order, take the first that is accepted.

Candidate i is accepted with probability exp(-epsilon * its shortfall / (2 * the largest
sensitivity)). Knows scores and the largest sensitivity; never uses that some scores are less
sensitive than others. Proofs are in pnf.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, secret_draws
from udfs.select import exponential
from udfs.select.candidates import Number, check_candidates, check_epsilon
from udfs.select.exponential import levels_of
from udfs.select.levels import by_flips
from udfs.spec import Loss, Udf


def select(scores: Sequence[Number], sensitivities: Sequence[Number], epsilon: Fraction) -> int:
    """Choose a candidate whose score is nearly the largest.

    Args:
        scores: how good each candidate is on the data, exact numbers, at least one.
        sensitivities: public; the most that one person moves each score, >= 0.
        epsilon: privacy loss, positive.

    Returns:
        The position of one candidate.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, in whatever
        directions.
    Source: McKenna and Sheldon 2020; the same law as report noisy max with exponential noise
        (Ding et al. 2021). Drawn by a race of clocks, see flip.md.
    """
    check_candidates(scores, sensitivities)
    check_epsilon(epsilon)
    return _select(scores, sensitivities, epsilon, secret_draws())


def _select(
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    epsilon: Fraction,
    draws: Draws,
) -> int:
    """Choose with the draws given."""
    return by_flips(levels_of(scores, sensitivities, epsilon), draws)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only; as for the exponential mechanism."""
    return exponential.accuracy(sensitivities, epsilon, beta)


def loss(epsilon: Fraction) -> Loss:
    """Price one run: pure epsilon-DP, and nothing better is known of its rho."""
    return Loss(epsilon)


UDF = Udf(
    name="pnf",
    function="select",
    samples="one candidate, by permute-and-flip",
    parameters=("epsilon",),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

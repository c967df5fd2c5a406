"""Generalized exponential mechanism: a choice among scores that differ in sensitivity.

Favours candidates of low sensitivity: by permute-and-flip on the normalized scores. Knows scores
and sensitivities; never where they come from. Proofs are in gem.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, secret_draws
from udfs.select.accuracy import check_public, rounded_up, sentence
from udfs.select.candidates import Number, check_beta, check_candidates, check_epsilon
from udfs.select.levels import Levels, by_flips
from udfs.select.normalized import levels_at, reach_on_grid
from udfs.spec import Loss, Udf


def select(
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    epsilon: Fraction,
    beta: Fraction,
) -> int:
    """Choose a candidate whose score is nearly the largest, for its sensitivity.

    Args:
        scores: how good each candidate is on the data, exact numbers, at least one.
        sensitivities: public; the most that one person moves each score, >= 0.
        epsilon: privacy loss, positive.
        beta: probability with which the accuracy in gem.md may fail, in (0, 1).

    Returns:
        The position of one candidate.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP, whatever beta is, if one person moves each score by at most its
        sensitivity, in whatever directions.
    Source: Raskhodnikova and Smith 2015, with report noisy max as in Antonova et al. 2025,
        section IV-C; see gem.md.
    """
    check_candidates(scores, sensitivities)
    check_epsilon(epsilon)
    check_beta(beta)
    return _select(scores, sensitivities, epsilon, beta, secret_draws())


def _select(
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    epsilon: Fraction,
    beta: Fraction,
    draws: Draws,
) -> int:
    """Choose with the draws given."""
    return by_flips(levels_of(scores, sensitivities, epsilon, beta), draws)


def levels_of(
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    epsilon: Fraction,
    beta: Fraction,
) -> Levels:
    """Sort candidates by their normalized scores; sensitivity counts against a candidate."""
    reach = reach_on_grid(len(scores), epsilon, beta)
    return levels_at(scores, sensitivities, reach, epsilon)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only."""
    check_public(sensitivities, epsilon, beta)
    times = 2 * reach_on_grid(len(sensitivities), epsilon, beta)
    return sentence(
        sensitivities,
        epsilon,
        beta,
        f"no other score exceeds the chosen one by more than {rounded_up(times)} times that "
        "other candidate's sensitivity",
    )


def loss(epsilon: Fraction, beta: Fraction) -> Loss:
    """Price one run: pure epsilon-DP, and nothing better is known of its rho."""
    return Loss(epsilon)


UDF = Udf(
    name="gem",
    function="select",
    samples="one candidate, by permute-and-flip on scores per sensitivity",
    parameters=("epsilon", "beta"),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

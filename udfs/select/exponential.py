"""Exponential mechanism: large scores are likelier. Knows scores and the largest sensitivity.

P(i) is proportional to exp(epsilon * score i / (2 * the largest sensitivity)). Never uses that
some scores are less sensitive than others. Proofs are in exponential.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, secret_draws
from udfs.select.accuracy import check_public, reach_of, rounded_up, sentence
from udfs.select.candidates import Number, check_candidates, check_epsilon, in_units
from udfs.select.levels import Levels, by_weight, sort_into_levels
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
    Source: McSherry and Talwar 2007; see exponential.md.
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
    return by_weight(levels_of(scores, sensitivities, epsilon), draws)


def levels_of(
    scores: Sequence[Number], sensitivities: Sequence[Number], epsilon: Fraction
) -> Levels:
    """Sort candidates by score; where no score depends on anybody only the best are left."""
    whole, sizes = in_units(scores, sensitivities)
    best, size = max(whole), _size(sizes)
    if not size:
        return sort_into_levels([0 if score == best else None for score in whole], epsilon)
    return sort_into_levels([best - score for score in whole], _rate(epsilon, size))


def _size(sizes: Sequence[int]) -> int:
    """Return the sensitivity that all scores are treated with."""
    return max(sizes)


def _rate(epsilon: Fraction, size: int) -> Fraction:
    """Price one unit of score. Scores move up and down, so there is a factor 2."""
    return epsilon * Fraction(1, 2 * size)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only."""
    check_public(sensitivities, epsilon, beta)
    error = max(sensitivities) * reach_of(len(sensitivities), epsilon, beta)
    return sentence(
        sensitivities,
        epsilon,
        beta,
        f"the chosen score is at most {rounded_up(error)} below the largest",
    )


def loss(epsilon: Fraction) -> Loss:
    """Price one run: an exponential mechanism of range epsilon, see exponential.md."""
    return Loss(epsilon, rho=epsilon**2 * Fraction(1, 8), bounded_range=epsilon)


UDF = Udf(
    name="exponential",
    function="select",
    samples="one candidate, by the exponential mechanism",
    parameters=("epsilon",),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

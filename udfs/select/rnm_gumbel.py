"""Report noisy max with Gumbel noise. Knows scores and the largest sensitivity; draws no Gumbel.

The position of the largest score plus Gumbel noise of scale 2 * sensitivity / epsilon has the
law of the exponential mechanism, and from that law it is drawn: exactly. The proof is in
rnm_gumbel.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, secret_draws
from udfs.select import exponential
from udfs.select.candidates import Number, check_candidates, check_epsilon
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
    Source: Durfee and Rogers 2019, for the equality with the exponential mechanism;
        proved in rnm_gumbel.md.
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
    return exponential._select(scores, sensitivities, epsilon, draws)


def loss(epsilon: Fraction) -> Loss:
    """Price one run: that of the exponential mechanism, whose law it has."""
    return exponential.loss(epsilon)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only; as for the exponential mechanism."""
    return exponential.accuracy(sensitivities, epsilon, beta)


UDF = Udf(
    name="rnm_gumbel",
    function="select",
    samples="the position of the largest score plus Gumbel noise",
    parameters=("epsilon",),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

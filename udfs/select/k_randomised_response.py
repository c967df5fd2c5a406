"""Randomised response over the candidates: the best one, or else any other.

Knows which score is the largest, and no more of the scores. Needs no sensitivity: it is private
for scores that one person may move by any amount. Proofs are in k_randomised_response.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, Odds, exp_enclosure, secret_draws
from udfs.select.accuracy import check_public, of_what
from udfs.select.candidates import Number, check_candidates, check_epsilon
from udfs.spec import Loss, Udf, in_words

_PLACES = 10**9


def select(scores: Sequence[Number], sensitivities: Sequence[Number], epsilon: Fraction) -> int:
    """Choose the candidate with the largest score, or another with small probability.

    Args:
        scores: how good each candidate is on the data, exact numbers, at least one.
        sensitivities: one number >= 0 for each candidate; they are checked and not used.
        epsilon: privacy loss, positive.

    Returns:
        The position of one candidate.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP however far one person moves the scores.
    Source: Warner 1965; for several candidates Kairouz, Bonawitz and Ramage 2016; see
        k_randomised_response.md.
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
    largest = max(scores)
    ties = [i for i, score in enumerate(scores) if score == largest]
    best = ties[draws.below(len(ties))]
    if len(scores) == 1 or not draws.choose(_odds(len(scores), epsilon)):
        return best
    other = draws.below(len(scores) - 1)
    return other + (other >= best)


def _odds(n_candidates: int, epsilon: Fraction) -> Odds:
    """Weigh the best candidate with 1 and all others together."""
    return Odds((((1, 0),), ((n_candidates - 1, 1),)), epsilon)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only; beta does not enter."""
    check_public(sensitivities, epsilon, beta)
    _, others = exp_enclosure(epsilon, 64)
    p = Fraction(1, 1 + (len(sensitivities) - 1) * others)
    at_least = Fraction(p * _PLACES // 1, _PLACES)
    return (
        f"with probability at least {in_words(at_least)} no score is larger than the chosen one "
        + of_what(sensitivities, epsilon)
    )


def loss(epsilon: Fraction) -> Loss:
    """Price one run: pure epsilon-DP."""
    return Loss(epsilon)


UDF = Udf(
    name="k_randomised_response",
    function="select",
    samples="the best candidate, or else one of the others, uniformly",
    parameters=("epsilon",),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

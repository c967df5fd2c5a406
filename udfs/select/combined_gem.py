"""Combined GEM: gem or mgem, whichever suits how scores and sensitivities go together.

The sign of their correlation passes through randomised response; then gem (not positive) or
mgem (positive) makes the choice. Knows scores and sensitivities; never where they come from.
Proofs are in combined_gem.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, Odds, secret_draws
from udfs.select import gem, mgem
from udfs.select.accuracy import check_public, rounded_up, sentence
from udfs.select.candidates import Number, check_beta, check_candidates, check_epsilon
from udfs.select.correlation import sign_of_spearman
from udfs.select.levels import Levels, by_flips
from udfs.select.normalized import reach_on_grid
from udfs.spec import Loss, Udf


def select(
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    epsilon: Fraction,
    beta: Fraction,
) -> int:
    """Choose a candidate whose score is nearly the largest, for the sensitivities there are.

    Args:
        scores: how good each candidate is on the data, exact numbers, at least one.
        sensitivities: public; the most that one person moves each score, >= 0.
        epsilon: privacy loss, positive.
        beta: probability with which the accuracy in combined_gem.md may fail, in (0, 1).

    Returns:
        The position of one candidate.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP, whatever beta is, if one person moves each score by at most its
        sensitivity, in whatever directions: epsilon/2 for the sign and epsilon/2 for the choice.
    Source: Antonova et al. 2025, Algorithm 2; see combined_gem.md.
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
    return by_flips(levels_of(scores, sensitivities, epsilon, beta, draws), draws)


def levels_of(
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    epsilon: Fraction,
    beta: Fraction,
    draws: Draws,
) -> Levels:
    """Spend the sign's share on it, then sort candidates as gem or mgem do at the rest."""
    share = sign_share(epsilon)
    positive = _respond(sign_of_spearman(scores, sensitivities) > 0, share, draws)
    levels = mgem.levels_of if positive else gem.levels_of
    return levels(scores, sensitivities, epsilon - share, beta)


def sign_share(epsilon: Fraction) -> Fraction:
    """Tell which part of epsilon goes to the sign of the correlation."""
    return epsilon * Fraction(1, 2)


def _respond(truth: bool, epsilon: Fraction, draws: Draws) -> bool:
    """Report a bit by randomised response: it is true with odds exp(epsilon) : 1."""
    lies = draws.choose(Odds((((1, 0),), ((1, 1),)), epsilon))
    return truth != bool(lies)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only."""
    check_public(sensitivities, epsilon, beta)
    times = 2 * reach_on_grid(len(sensitivities), epsilon - sign_share(epsilon), beta)
    return sentence(
        sensitivities,
        epsilon,
        beta,
        f"no other score exceeds the chosen one by more than {rounded_up(times)} times the "
        "larger of the two candidates' sensitivities",
    )


def loss(epsilon: Fraction, beta: Fraction) -> Loss:
    """Price one run: two mechanisms that are pure, one after the other."""
    share = sign_share(epsilon)
    return Loss(share) + Loss(epsilon - share)


UDF = Udf(
    name="combined_gem",
    function="select",
    samples="the sign of a correlation, by randomised response; then one candidate, by gem or mgem",
    parameters=("epsilon", "beta"),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

"""Randomised response over the candidates: the best one, or else any other."""

from fractions import Fraction

from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.intervals import exp_enclosure
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.select.selection import Numbers, selection, sentence


def k_randomised_response(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws
) -> int:
    """Choose the candidate with the largest score, or another with small probability.

    Privacy: epsilon-DP however far one person moves the scores; sensitivities are not used.
    Source: Warner 1965; Kairouz, Bonawitz and Ramage 2016; see k_randomised_response.md.
    """
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


def _accuracy(sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> str:
    """State the probability of a best choice, which does not depend on beta."""
    _, others = exp_enclosure(epsilon, 64)
    best = Fraction(1, 1 + (len(sensitivities) - 1) * others)
    failing = 1 - Fraction(best * 10**9 // 1, 10**9)
    return sentence(sensitivities, epsilon, failing, "no score is larger than the chosen one")


K_RANDOMISED_RESPONSE = selection(
    "the best candidate, or else one of the others, uniformly", k_randomised_response, _accuracy
)

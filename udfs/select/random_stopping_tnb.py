"""Random stopping with a truncated negative binomial number of tries.

Knows scores and sensitivities; never lets the number of tries depend on data. The tries are
those of random_stopping; their number has another law, under which the best of them costs less.
Proofs are in random_stopping_tnb.md.
"""

from collections.abc import Sequence
from fractions import Fraction

from udfs.exact import Draws, exp_enclosure, ln_enclosure, secret_draws
from udfs.select.accuracy import check_public, sentence
from udfs.select.candidates import Number, check_candidates, check_epsilon
from udfs.select.random_stopping import best_of_tries, bound_of_tries, in_words_of
from udfs.spec import Loss, Udf

_ETA = Fraction(1, 2)
"""Shape of the number of tries: 1 is geometric, 0 logarithmic. The best costs 2 + eta tries."""

_TRIES_PER_CANDIDATE = 20


def select(scores: Sequence[Number], sensitivities: Sequence[Number], epsilon: Fraction) -> int:
    """Choose a candidate whose score is nearly among the largest.

    Args:
        scores: how good each candidate is on the data, exact numbers, at least one, in an order
            of the candidates that is public.
        sensitivities: public; the most that one person moves each score, >= 0.
        epsilon: privacy loss, positive.

    Returns:
        The position of one candidate.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, in whatever
        directions: each try is epsilon/(2 + eta)-DP.
    Source: Papernot and Steinke 2022, corollary 3, as used by Antonova, Laro, McMillan and Wolf
        2025, appendix C; proved and drawn as in random_stopping_tnb.md.
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
    n_tries = number_of_tries(_ETA, _gamma(len(scores)), draws)
    return best_of_tries(n_tries, scores, sensitivities, _share(epsilon), draws)


def _share(epsilon: Fraction) -> Fraction:
    """Tell what one try may cost: the best of them costs 2 + eta times as much."""
    return epsilon * Fraction(1, 2 + _ETA)


def _gamma(n_candidates: int) -> Fraction:
    """Choose the second parameter of the number of tries, from that of candidates alone."""
    return Fraction(1, _TRIES_PER_CANDIDATE * n_candidates)


def number_of_tries(eta: Fraction, gamma: Fraction, draws: Draws) -> int:
    """Draw k = 1, 2, ... with weight (1 - gamma)**k (1 + eta)/2 (2 + eta)/3 ... (k-1 + eta)/k.

    Args:
        eta: in (-1, 1].
        gamma: in (0, 1].
        draws: where the randomness comes from.
    """
    while (n_tries := _attempt(eta, gamma, draws)) is None:
        pass
    return n_tries


def _attempt(eta: Fraction, gamma: Fraction, draws: Draws) -> int | None:
    """Draw a geometric number that is given up at each step from l to l + 1 by a coin."""
    n_tries = 1
    while draws.below(gamma.denominator) >= gamma.numerator:
        top = eta.denominator * n_tries + eta.numerator
        if draws.below(eta.denominator * (n_tries + 1)) >= top:
            return None
        n_tries += 1
    return n_tries


def loss(epsilon: Fraction) -> Loss:
    """Price one run: pure, see random_stopping_tnb.md."""
    return Loss(epsilon)


def _missed(n_candidates: int, rank: int) -> Fraction:
    """Bound the probability that none of `rank` given candidates is ever tried, for eta > 0."""
    gamma = _gamma(n_candidates)
    most = _power(1 - (1 - gamma) * (1 - Fraction(rank, n_candidates)))[1] - 1
    return most * Fraction(1, _power(gamma)[0] - 1)


def _power(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose x**-eta, 0 < x <= 1."""
    low, high = (_ETA * log for log in ln_enclosure(Fraction(1, x), 64))
    return Fraction(1, exp_enclosure(low, 64)[1]), Fraction(1, exp_enclosure(high, 64)[0])


def error_bound(
    sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction
) -> tuple[int, Fraction]:
    """Bound a choice as random_stopping_tnb.md proves it for every data set.

    Args:
        sensitivities: one for each candidate, >= 0.
        epsilon: privacy loss, positive.
        beta: probability with which the bound may fail, in (0, 1).

    Returns:
        A rank and a shortfall: the chosen score is at most the shortfall below the score that
        has this rank, from 1 for the largest.
    """
    check_public(sensitivities, epsilon, beta)
    return bound_of_tries(sensitivities, _share(epsilon), _gamma, _missed, beta)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only."""
    bound = error_bound(sensitivities, epsilon, beta)
    return sentence(sensitivities, epsilon, beta, in_words_of(bound))


UDF = Udf(
    name="random_stopping_tnb",
    function="select",
    samples="tries of random candidates with noise for each, their number negative binomial",
    parameters=("epsilon",),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

"""Random stopping: the best of a random number of tries. Knows scores and sensitivities.

One try is a candidate at random and its score with noise in proportion to its OWN sensitivity.
After each try the search stops with probability gamma; the candidate of the best try is
released. Never lets the number of tries depend on data. Proofs are in random_stopping.md.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from udfs.exact import Draws, secret_draws
from udfs.laplace import laplace_quantile
from udfs.select.accuracy import check_public, rounded_up, sentence
from udfs.select.candidates import Number, check_candidates, check_epsilon, in_units
from udfs.select.normalized import grid_of
from udfs.select.rnm_laplace import noisy_best
from udfs.spec import Loss, Udf

_TRIES_PER_CANDIDATE = 10


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
        directions: each try is epsilon/3-DP.
    Source: Liu and Talwar 2019, as used by Antonova, Laro, McMillan and Wolf 2025, section IV-B;
        proved and drawn as in random_stopping.md.
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
    n_tries = number_of_tries(_gamma(len(scores)), draws)
    return best_of_tries(n_tries, scores, sensitivities, _share(epsilon), draws)


def _share(epsilon: Fraction) -> Fraction:
    """Tell what one try may cost: the best of them costs three times as much."""
    return epsilon * Fraction(1, 3)


def _gamma(n_candidates: int) -> Fraction:
    """Choose the probability of stopping after a try, from the number of candidates alone."""
    return Fraction(1, _TRIES_PER_CANDIDATE * n_candidates)


def number_of_tries(gamma: Fraction, draws: Draws) -> int:
    """Draw k = 1, 2, ... with probability gamma (1 - gamma)**(k - 1)."""
    n_tries = 1
    while draws.below(gamma.denominator) >= gamma.numerator:
        n_tries += 1
    return n_tries


def best_of_tries(
    n_tries: int,
    scores: Sequence[Number],
    sensitivities: Sequence[Number],
    share: Fraction,
    draws: Draws,
) -> int:
    """Make tries and return the candidate of the best; between equals the first candidate.

    Args:
        n_tries: how many, at least 1; drawn without the data.
        scores: as for `select`.
        sensitivities: as for `select`.
        share: what one try costs: each is share-DP, positive.
        draws: where the randomness comes from.
    """
    whole, sizes = in_units(scores, sensitivities)
    grid = grid_of(share)
    # In units/grid: a candidate's own grid has steps of its sensitivity.
    starts = [
        grid * score // size * size if size else grid * score
        for score, size in zip(whole, sizes, strict=True)
    ]
    tries = (draws.below(len(whole)) for _ in range(n_tries))
    return noisy_best(tries, starts, sizes, share * Fraction(1, grid), draws)


def loss(epsilon: Fraction) -> Loss:
    """Price one run: pure, see random_stopping.md."""
    return Loss(epsilon)


def _missed(n_candidates: int, rank: int) -> Fraction:
    """Compute the probability that none of `rank` given candidates is ever tried."""
    gamma, others = _gamma(n_candidates), 1 - Fraction(rank, n_candidates)
    return gamma * others * Fraction(1, 1 - (1 - gamma) * others)


def error_bound(
    sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction
) -> tuple[int, Fraction]:
    """Bound a choice as random_stopping.md proves it for every data set.

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


def bound_of_tries(
    sensitivities: Sequence[Number],
    share: Fraction,
    gamma: Callable[[int], Fraction],
    missed: Callable[[int, int], Fraction],
    beta: Fraction,
) -> tuple[int, Fraction]:
    """Bound a choice by tries of `share` each, of which 1/gamma(m) are made on average or fewer.

    Args:
        sensitivities: one for each of m candidates, >= 0.
        share: what one try costs, positive.
        gamma: gamma(m) as above.
        missed: missed(m, rank) bounds the probability that none of `rank` candidates is tried.
        beta: probability with which the bound may fail, in (0, 1).
    """
    m, grid, part = len(sensitivities), grid_of(share), beta * Fraction(1, 3)
    rate = share * Fraction(1, grid)
    steps = laplace_quantile(rate, part * gamma(m)) + laplace_quantile(rate, part) - 1
    enough, too_small = m, 0
    while enough - too_small > 1:
        middle = (enough + too_small) >> 1
        if missed(m, middle) <= part:
            enough = middle
        else:
            too_small = middle
    return enough, steps * max(sensitivities) * Fraction(1, grid)


def accuracy(sensitivities: Sequence[Number], epsilon: Fraction, beta: Fraction) -> str:
    """Say what a choice is worth, from public numbers only."""
    bound = error_bound(sensitivities, epsilon, beta)
    return sentence(sensitivities, epsilon, beta, in_words_of(bound))


def in_words_of(bound: tuple[int, Fraction]) -> str:
    """Say that the chosen score keeps to a bound."""
    rank, shortfall = bound
    return (
        f"the score of the chosen candidate is at most {rounded_up(shortfall)} below the score "
        f"of rank {rank}"
    )


UDF = Udf(
    name="random_stopping",
    function="select",
    samples="tries of random candidates with noise for each, as many as a geometric number says",
    parameters=("epsilon",),
    loss=loss,
    run=select,
    accuracy=accuracy,
)

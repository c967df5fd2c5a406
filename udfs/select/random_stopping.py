"""Random stopping: the best of a random number of tries, which never depends on data.

One try is a random candidate's score with noise in proportion to its OWN sensitivity. The proofs
are in random_stopping.md (geometric) and random_stopping_tnb.md (truncated negative binomial).
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from dp_sql.udfs.discrete_laplace import laplace_quantile
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.intervals import exp_enclosure, ln_enclosure
from dp_sql.udfs.select.normalized import grid_of
from dp_sql.udfs.select.rnm_laplace import noisy_best
from dp_sql.udfs.select.selection import Numbers, in_units, rounded_up, selection, sentence


@dataclass(frozen=True)
class Tries:
    """A truncated negative binomial number of tries, and what follows from it."""

    eta: Fraction  # its shape, in (0, 1]; 1 is geometric
    per_candidate: int  # the mean number of tries is at most this times the candidates

    def share(self, epsilon: Fraction) -> Fraction:
        """Return what one try may cost: the best one costs 2 + eta times as much."""
        return epsilon * Fraction(1, 2 + self.eta)

    def gamma(self, n_candidates: int) -> Fraction:
        """Return the second parameter of the number of tries, from that of candidates alone."""
        return Fraction(1, self.per_candidate * n_candidates)

    def missed(self, n_candidates: int, rank: int) -> Fraction:
        """Bound the probability that none of `rank` given candidates is ever tried."""
        gamma = self.gamma(n_candidates)
        most = self._power(1 - (1 - gamma) * (1 - Fraction(rank, n_candidates)))[1] - 1
        return most * Fraction(1, self._power(gamma)[0] - 1)

    def _power(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose x**-eta, 0 < x <= 1."""
        if self.eta == 1:
            return Fraction(1, x), Fraction(1, x)
        low, high = (self.eta * log for log in ln_enclosure(Fraction(1, x), 64))
        return Fraction(1, exp_enclosure(low, 64)[1]), Fraction(1, exp_enclosure(high, 64)[0])


GEOMETRIC = Tries(Fraction(1), 10)
NEGATIVE_BINOMIAL = Tries(Fraction(1, 2), 20)


def random_stopping(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws
) -> int:
    """Choose a candidate whose score is nearly among the largest, by a geometric number of tries.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, up or down:
        each try is epsilon/3-DP.
    Source: Liu and Talwar 2019, as used by Antonova et al. 2025, section IV-B.
    """
    return _select(GEOMETRIC, scores, sensitivities, epsilon, draws)


def random_stopping_tnb(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws
) -> int:
    """Choose a candidate whose score is nearly among the largest; the tries cost less each.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, up or down:
        each try is epsilon/(2 + eta)-DP, eta = 1/2.
    Source: Papernot and Steinke 2022, corollary 3, as used by Antonova et al. 2025, appendix C.
    """
    return _select(NEGATIVE_BINOMIAL, scores, sensitivities, epsilon, draws)


def _select(
    tries: Tries, scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws
) -> int:
    n_tries = number_of_tries(tries.eta, tries.gamma(len(scores)), draws)
    return best_of_tries(n_tries, scores, sensitivities, tries.share(epsilon), draws)


def number_of_tries(eta: Fraction, gamma: Fraction, draws: Draws) -> int:
    """Draw k >= 1 with weight (1 - gamma)**k (1 + eta)/2 (2 + eta)/3 ... (k-1 + eta)/k."""
    while (n_tries := _attempt(eta, gamma, draws)) is None:
        pass
    return n_tries


def _attempt(eta: Fraction, gamma: Fraction, draws: Draws) -> int | None:
    """Draw a geometric number that is given up at each step from l to l + 1 by a coin."""
    n_tries = 1
    while draws.below(gamma.denominator) >= gamma.numerator:
        top = eta.denominator * n_tries + eta.numerator
        if eta < 1 and draws.below(eta.denominator * (n_tries + 1)) >= top:
            return None
        n_tries += 1
    return n_tries


def best_of_tries(
    n_tries: int, scores: Numbers, sensitivities: Numbers, share: Fraction, draws: Draws
) -> int:
    """Return the candidate of the best of n_tries share-DP tries; between equals the first."""
    whole, sizes = in_units(scores, sensitivities)
    grid = grid_of(share)
    # In units/grid: a candidate's own grid has steps of its sensitivity.
    starts = [
        grid * score // size * size if size else grid * score
        for score, size in zip(whole, sizes, strict=True)
    ]
    tries = (draws.below(len(whole)) for _ in range(n_tries))
    return noisy_best(tries, starts, sizes, share * Fraction(1, grid), draws)


def error_bound(
    tries: Tries, sensitivities: Numbers, epsilon: Fraction, beta: Fraction
) -> tuple[int, Fraction]:
    """Bound how far the choice is below the score of a rank, from 1: return rank and distance."""
    share = tries.share(epsilon)
    m, grid, part = len(sensitivities), grid_of(share), beta * Fraction(1, 3)
    rate = share * Fraction(1, grid)
    steps = laplace_quantile(rate, part * tries.gamma(m)) + laplace_quantile(rate, part) - 1
    enough = 1 + bisect_left(range(1, m), True, key=lambda rank: tries.missed(m, rank) <= part)
    return enough, steps * max(sensitivities) * Fraction(1, grid)


def _accuracy(sensitivities: Numbers, epsilon: Fraction, beta: Fraction, tries: Tries) -> str:
    rank, shortfall = error_bound(tries, sensitivities, epsilon, beta)
    holds = f"the chosen score is at most {rounded_up(shortfall)} below the score of rank {rank}"
    return sentence(sensitivities, epsilon, beta, holds)


RANDOM_STOPPING = selection(
    "tries of random candidates with noise for each, as many as a geometric number says",
    random_stopping,
    partial(_accuracy, tries=GEOMETRIC),
)
RANDOM_STOPPING_TNB = selection(
    "tries of random candidates with noise for each, their number negative binomial",
    random_stopping_tnb,
    partial(_accuracy, tries=NEGATIVE_BINOMIAL),
)

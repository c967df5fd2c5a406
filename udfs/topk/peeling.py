"""Peeling mechanisms for the top k: k items, one after the other.

Each round takes one of the items not yet taken, by its shortfall against the largest count that is
left, min(shortfall, cut) at a public cut and q = exp(-rate). cdp_peel is em_peel at a larger rate:
with a delta, k exponential mechanisms of range r are together (k r**2 / 8)-zCDP. The proofs are in
em_peel.md, pnf_peel.md and cdp_peel.md.
"""

from bisect import insort
from collections.abc import Callable
from fractions import Fraction
from operator import mul

from dp_sql.udfs.checks import check_probability
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.intervals import ln_enclosure, root_up
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words
from dp_sql.udfs.permute_and_flip import by_permute_and_flip, by_weight
from dp_sql.udfs.topk import template
from dp_sql.udfs.topk.ranking import Ints, rank
from dp_sql.udfs.topk.rounds import Round, sort_ranks

_Take = Callable[[Round, Draws], int]
_BITS = 96
_RATE_BITS = 32  # rounding a rate down costs it a part of at most 2**-32; its integers stay small


def em_peel(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: McSherry and Talwar 2007, composed k times; the score is monotone, see em_peel.md.
    """
    return peel(counts, k, rate, cut, by_weight, draws)


def pnf_peel(counts: Ints, k: int, rate: Fraction, cut: int, draws: Draws) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: McKenna and Sheldon 2020, composed k times; the score is monotone, see pnf_peel.md.
    """
    return peel(counts, k, rate, cut, by_permute_and_flip, draws)


def cdp_peel(counts: Ints, k: int, epsilon: Fraction, delta: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    The arguments are those of template.py, and delta: slack of the privacy loss, in (0, 1).

    Privacy: (epsilon, delta)-DP under adding or removing one person who adds at most 1 to each
        count, and rho-zCDP with the rho of `cdp_loss`.
    Source: Gillenwater et al. 2022, lemma 4.2, after Durfee and Rogers 2019; see cdp_peel.md.
    """
    counts = template.checked_counts(counts)
    _check_public(len(counts), k, epsilon, delta)
    rate = cdp_rate(k, epsilon, delta)
    cut = template.cut_of(len(counts) * k, rate)
    return peel(counts, k, rate, cut, by_weight, secret_draws())


def peel(counts: Ints, k: int, rate: Fraction, cut: int, take: _Take, draws: Draws) -> list[int]:
    """Take k items, each round by `take` at this rate."""
    ranking = rank(counts, k, cut)
    ranks: list[int] = []
    taken: list[int] = []
    for _ in range(k):
        ranks.append(take(sort_ranks(ranking.gaps, len(counts), taken, rate, cut), draws))
        insort(taken, ranks[-1])
    if max(ranks) >= len(ranking.gaps):
        ranking = rank(counts, k, 1 << 62)
    places: list[int] = ranking.places[ranks].tolist()
    return places


def _check_public(d: int, k: int, epsilon: Fraction, delta: Fraction) -> None:
    template.check_public(d, k, epsilon)
    check_probability("delta", delta)


def pure_rate(k: int, epsilon: Fraction) -> Fraction:
    """Return the rate of a round, q = exp(-rate): all of its epsilon/k, for it is monotone."""
    return epsilon * Fraction(1, k)


def cdp_rate(k: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the rate of a round, q = exp(-rate), never above what cdp_peel.md allows."""
    return max(pure_rate(k, epsilon), concentrated_rate(k, epsilon, delta))


def concentrated_rate(k: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Round (8 epsilon / k) / (sqrt(8 (L + epsilon) / k) + sqrt(8 L / k)) down; L = ln(1/delta)."""
    _, log = ln_enclosure(Fraction(1, delta), _BITS)
    eighth = Fraction(8, k)
    roots = root_up(eighth * (log + epsilon), _BITS) + root_up(eighth * log, _BITS)
    rate = eighth * epsilon * Fraction(1, roots)
    unit = _RATE_BITS + (rate.denominator // rate.numerator).bit_length()
    return Fraction((rate.numerator << unit) // rate.denominator, 1 << unit)


def em_loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Return a run's loss: k exponential mechanisms of range epsilon/k, see em_peel.md."""
    bounded = epsilon * (2 - Fraction(1, k))
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8 * k), bounded_range=bounded)


def pnf_loss(k: int, epsilon: Fraction) -> PrivacyLoss:
    """Return a run's loss: k rounds of epsilon/k, each pure, see pnf_peel.md."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 2 * k))


def cdp_loss(k: int, epsilon: Fraction, delta: Fraction) -> PrivacyLoss:
    """Return a run's loss: k exponential mechanisms, each of range cdp_rate, see cdp_peel.md."""
    _check_public(k, k, epsilon, delta)
    return PrivacyLoss(epsilon, delta, rho=k * cdp_rate(k, epsilon, delta) ** 2 * Fraction(1, 8))


def cdp_accuracy(d: int, k: int, epsilon: Fraction, delta: Fraction, beta: Fraction) -> str:
    """Bound a list of cdp_peel in a sentence, from public numbers only."""
    _check_public(d, k, epsilon, delta)
    price = f"epsilon = {in_words(epsilon)}, delta = {in_words(delta)}"
    return template.sentence(d, k, d * k, cdp_rate(k, epsilon, delta), beta, price)


EM_PEEL = template.public_domain(
    "k items, one after the other, by the exponential mechanism", em_peel, em_loss, pure_rate, mul
)
PNF_PEEL = template.public_domain(
    "k items, one after the other, by permute-and-flip", pnf_peel, pnf_loss, pure_rate, mul
)
CDP_PEEL = Mechanism("cdp_peel", "topk", EM_PEEL.samples, cdp_loss, cdp_peel, cdp_accuracy)

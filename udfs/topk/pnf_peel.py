"""Peeling permute-and-flip for the top k. Knows counts; never items, SQL or budgets.

Takes k items one after the other, each by permute-and-flip at epsilon/k on the items not yet
taken: visit them in random order, accept x with probability q**min(shortfall, cut). The proofs
of the law and of the privacy are in pnf_peel.md.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from udfs.exact import Draws, secret_draws
from udfs.flip import Clock, first_accepted
from udfs.spec import Loss, Udf
from udfs.topk import em_peel
from udfs.topk.em_peel import Round, peel
from udfs.topk.ranking import Ints


def topk(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
    """List k items with nearly the largest counts, best first.

    Args:
        counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items
            that nobody has are in it, as zeros.
        k: length of the list, 1 <= k <= d.
        epsilon: privacy loss, positive.

    Returns:
        Their positions: k different integers in 0, ..., d - 1.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person who adds at most 1 to each count.
    Source: McKenna and Sheldon 2020, composed k times; the score is monotone, see pnf_peel.md.
    """
    return peel(counts, k, epsilon, take, secret_draws())


def accuracy(d: int, k: int, epsilon: Fraction, beta: Fraction) -> str:
    """Say what a list is worth, from public numbers only; the bound of em_peel holds here too."""
    return em_peel.accuracy(d, k, epsilon, beta)


def loss(k: int, epsilon: Fraction) -> Loss:
    """Price one run: k rounds of epsilon/k, each pure, see pnf_peel.md."""
    return Loss(epsilon, rho=epsilon**2 * Fraction(1, 2 * k))


def take(this: Round, draws: Draws) -> int:
    """Draw a free rank with the law of permute-and-flip."""
    return first_accepted(partial(_race, this, draws), this.level)


def _race(this: Round, draws: Draws, gone: frozenset[int], clocks: Sequence[int]) -> int | Clock:
    """Let the ranks that are not gone race against clocks, by attempts until one counts."""
    while (hit := this.attempt(draws, clocks)) is None or hit in gone:
        pass
    return hit


UDF = Udf(
    name="pnf_peel",
    function="topk",
    samples="k items, one after the other, by permute-and-flip",
    parameters=("k", "epsilon"),
    loss=loss,
    run=topk,
    accuracy=accuracy,
)

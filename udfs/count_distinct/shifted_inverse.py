"""Distinct count by the shifted inverse mechanism. Knows who holds what, as codes; never items.

For each value on a public scale: how many people must go until fewer items than that are left?
Releases a value for which this is close to a public number. Proofs are in shifted_inverse.md.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.count_distinct import bounded, matching
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.count_distinct.template import from_below
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss, exponential_loss, in_words, with_probability
from dp_sql.udfs.odds import Odds

_Ints = npt.NDArray[np.int64]

_DIGITS = 12  # binary digits that a value on the scale keeps; the others are 0
_LIMIT = 1 << 31  # no graph has as many items: graph.build_graph refuses it
_ABOVE = 3  # what a person too few costs, when one too many costs 1
_TAIL = 28  # exp(-28) < 2**-40: how rarely what lies beyond the cut is drawn
_WIDE = 1 << 60  # from here on numbers of people are Python integers: epsilon is extremely small


def release_each(
    counts: Sequence[Sequence[int]],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    draws: Draws,
) -> list[CountRelease]:
    """Estimate the number of items that at least one person holds, from below, for each graph.

    Returns the estimate, >= 0 with at most 12 significant binary digits, which is the lower bound
    too, and no contribution bound.

    Privacy: for each, epsilon-DP under adding or removing one person with all their items.
    Source: Fang, Dong and Yi 2022; people removed by a linear program, see shifted_inverse.md.
    """
    scale = _scale()
    wanted, out_of_reach = people_left_out(epsilon, beta)
    cut = out_of_reach + -(-_TAIL // _rate(epsilon))
    found = []
    for cover in counts:
        costs = _costs(_removals(np.array(cover, dtype=np.int64), scale), wanted, cut)
        estimate = int(scale[_pick(costs, _prior(scale), _rate(epsilon), draws)])
        found.append(CountRelease(estimate, estimate, None))
    return found


def _scale() -> _Ints:
    """List the values that can come out, ascending, and the limit that they stay below."""
    most_shifts = _LIMIT.bit_length() - 1 - _DIGITS
    places = np.arange((most_shifts + 2 << _DIGITS - 1) + 1, dtype=np.int64)
    shifts = np.maximum((places >> _DIGITS - 1) - 1, 0)
    values: _Ints = (places - (shifts << _DIGITS - 1)) << shifts
    return values


def _prior(scale: _Ints) -> _Ints:
    """Weigh each value before any data: the wider the gap to the next value, the less."""
    gaps = np.diff(scale)
    prior: _Ints = gaps.max() // gaps
    return prior


def _removals(cover: _Ints, values: _Ints) -> _Ints:
    """Count, for each value, the people to remove until fewer items than that are left.

    It is the least j >= 0 with cover[l - 1] - j * l < value for every bound l. The steps of the
    cover must not grow, as those of a maximum flow do not: then its corners are enough.
    """
    removals = np.zeros(len(values), dtype=np.int64)
    reached = int(np.searchsorted(values, cover[-1], "right"))
    gains = np.diff(cover, prepend=0)
    corners = np.flatnonzero(gains > np.append(gains[1:], 0))
    for bound in (corners + 1).tolist():
        needed = (cover[bound - 1] - values[:reached]) // bound + 1
        np.maximum(removals[:reached], needed, out=removals[:reached])
    return removals


def _costs(removals: _Ints, wanted: int, cut: int) -> _Ints:
    """Compute how far the removals of each value are from the wanted number of them."""
    # A value stands for the removals from the next value's up to its own; the limit comes last.
    if cut >= _WIDE:
        removals = removals.astype(object)
    least, most = np.minimum(removals[1:], cut), removals[:-1].copy()
    most[0] = wanted  # fewer than 0 items are never left
    costs: _Ints = np.maximum(least - wanted, 0) + _ABOVE * np.maximum(wanted - most, 0)
    return costs


def _pick(costs: _Ints, prior: _Ints, rate: Fraction, draws: Draws) -> int:
    """Draw a place with probability proportional to prior * exp(-rate * cost)."""
    kinds, kind_of = np.unique(costs, return_inverse=True)
    sizes = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(sizes, kind_of, prior)
    weights = [((n, a),) for n, a in zip(sizes.tolist(), kinds.tolist(), strict=True)]
    places = np.flatnonzero(kind_of == draws.choose(Odds(weights, rate)))
    ends = np.cumsum(prior[places])
    return int(places[np.searchsorted(ends, draws.below(int(ends[-1])), "right")])


def _rate(epsilon: Fraction) -> Fraction:
    """Return the rate of one unit of cost: weights move up by `_ABOVE` units or down by one."""
    return epsilon * Fraction(1, 1 + _ABOVE)


def people_left_out(epsilon: Fraction, beta: Fraction) -> tuple[int, int]:
    """Return how many people to leave out, and a number reached with probability <= beta only."""
    prior = _prior(_scale())
    first, total = int(prior[0]), int(prior.sum())
    _, log_above = ln_enclosure(Fraction(total, first * beta), 64)
    _, log_below = ln_enclosure(Fraction(total, beta), 64)
    wanted = -(-log_above // (_ABOVE * _rate(epsilon)))
    return wanted, wanted + -(-log_below // _rate(epsilon))


def loss(epsilon: Fraction, beta: Fraction, max_contributions: int) -> PrivacyLoss:
    """Return a run's loss: one exponential mechanism of range epsilon, see shifted_inverse.md."""
    return exponential_loss(epsilon)


def accuracy(epsilon: Fraction, beta: Fraction, max_contributions: int) -> str:
    """State how far a count may lie from the true number, from public numbers only."""
    bounded.check_public(epsilon, beta, max_contributions)
    _, out_of_reach = people_left_out(epsilon, beta)
    return (
        f"{with_probability(1 - beta)} the estimate is at most the true number of distinct items; "
        f"with the same probability it is at most {out_of_reach - 1} l and one part in "
        f"{1 << _DIGITS - 1} below it if no one has over l items, for each l up to "
        f"{max_contributions} (epsilon = {in_words(epsilon)})"
    )


SHIFTED_INVERSE = from_below(
    "shifted_inverse",
    "a value under which the count falls when a public number of people go",
    matching.cover_counts_each,
    release_each,
    loss,
    accuracy,
)

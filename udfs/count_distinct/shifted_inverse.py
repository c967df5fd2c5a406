"""Person-level distinct count by the shifted inverse. Knows who holds what, as codes; never items.

For each value on a public scale: how many people must go until fewer items than that are left?
The release is a value for which this number is close to a public one, well above 0. Proofs are in
shifted_inverse.md.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.exact_sampling import Draws, Odds, secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words

_Ints = npt.NDArray[np.int64]

_DIGITS = 12
"""Binary digits that a value on the scale keeps; the others are 0."""

_LIMIT = 1 << 31
"""No graph has as many items: graph.build_graph refuses it."""

_ABOVE = 3
"""What a person too few costs, when one too many costs 1."""

_TAIL = 28
"""exp(-28) < 2**-40: how rarely what lies beyond the cut is drawn."""

_WIDE = 1 << 60
"""From here on numbers of people are kept as Python's integers: epsilon is next to nothing."""


def count_distinct(
    offsets: npt.NDArray[np.integer],
    people: npt.NDArray[np.integer],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
) -> CountRelease:
    """Count from below, nearly, the items that at least one person holds.

    Args:
        offsets: item i is held by people[offsets[i]:offsets[i + 1]], shape (items + 1,).
        people: codes of people, integers >= 0, shape (edges,).
        epsilon: privacy loss, positive.
        beta: probability with which the estimate may exceed the true number, in (0, 1/2).
        max_contributions: largest bound on items per person that is tried, >= 1, public.

    Returns:
        The estimate, >= 0 with at most 12 significant binary digits, which is the lower bound too;
        no contribution bound.

    Raises:
        TypeError: an argument of another type, floats among them.
        ValueError: an argument out of its range.

    Privacy: epsilon-DP under adding or removing one person with all items that the person
        holds: an exponential mechanism.
    Source: Fang, Dong and Yi 2022; people removed by a linear program, see shifted_inverse.md.
    """
    bounded.check_public(epsilon, beta, max_contributions, 1)
    from dp_sql.udfs.count_distinct.flow import max_cover_counts
    from dp_sql.udfs.count_distinct.graph import build_graph

    graph = build_graph(offsets, people)
    cover = max_cover_counts(graph, max_contributions)
    return _release(cover, epsilon, beta, secret_draws())


def _release(cover: _Ints, epsilon: Fraction, beta: Fraction, draws: Draws) -> CountRelease:
    """Choose with the draws given; cover[l - 1] is the count under bound l."""
    scale = _scale()
    wanted, reach = people_left_out(epsilon, beta)
    cut = reach + -(-_TAIL // _rate(epsilon))
    costs = _costs(_removals(cover, scale), wanted, cut)
    estimate = int(scale[_pick(costs, _tickets(scale), _rate(epsilon), draws)])
    return CountRelease(estimate, estimate, None)


def _scale() -> _Ints:
    """List the values that can come out, ascending, and the limit that they stay below."""
    most_shifts = _LIMIT.bit_length() - 1 - _DIGITS
    places = np.arange((most_shifts + 2 << _DIGITS - 1) + 1, dtype=np.int64)
    shifts = np.maximum((places >> _DIGITS - 1) - 1, 0)
    values: _Ints = (places - (shifts << _DIGITS - 1)) << shifts
    return values


def _tickets(scale: _Ints) -> _Ints:
    """Give each value its weight before any data: the wider the gap to the next, the less."""
    gaps = np.diff(scale)
    tickets: _Ints = gaps.max() // gaps
    return tickets


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
    """Compute the cost of each value: how far its number of removals is from the wanted one.

    A value stands for the numbers from that of the next value up to its own. `removals` has one
    entry more than there are values, that of the limit.
    """
    if cut >= _WIDE:
        removals = removals.astype(object)
    least, most = np.minimum(removals[1:], cut), removals[:-1].copy()
    most[0] = wanted  # fewer than 0 items are never left
    costs: _Ints = np.maximum(least - wanted, 0) + _ABOVE * np.maximum(wanted - most, 0)
    return costs


def _pick(costs: _Ints, tickets: _Ints, rate: Fraction, draws: Draws) -> int:
    """Draw a place with probability proportional to its tickets times exp(-rate * cost)."""
    kinds, kind_of = np.unique(costs, return_inverse=True)
    sizes = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(sizes, kind_of, tickets)
    weights = [((n, a),) for n, a in zip(sizes.tolist(), kinds.tolist(), strict=True)]
    places = np.flatnonzero(kind_of == draws.choose(Odds(weights, rate)))
    ends = np.cumsum(tickets[places])
    return int(places[np.searchsorted(ends, draws.below(int(ends[-1])), "right")])


def _rate(epsilon: Fraction) -> Fraction:
    """Price one unit of cost: weights move up by `_ABOVE` units or down by one."""
    return epsilon * Fraction(1, 1 + _ABOVE)


def people_left_out(epsilon: Fraction, beta: Fraction) -> tuple[int, int]:
    """Tell how many people the mechanism wants to leave out, and how many it will not reach.

    Each of the two statements of shifted_inverse.md that rest on them fails with probability at
    most beta.
    """
    tickets = _tickets(_scale())
    first, total = int(tickets[0]), int(tickets.sum())
    _, log_above = ln_enclosure(Fraction(total, first * beta), 64)
    _, log_below = ln_enclosure(Fraction(total, beta), 64)
    wanted = -(-log_above // (_ABOVE * _rate(epsilon)))
    return wanted, wanted + -(-log_below // _rate(epsilon))


def loss(epsilon: Fraction, beta: Fraction, max_contributions: int) -> PrivacyLoss:
    """Price one run: one exponential mechanism of range epsilon, see shifted_inverse.md."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8), bounded_range=epsilon)


def accuracy(epsilon: Fraction, beta: Fraction, max_contributions: int) -> str:
    """Say what a count is worth, from public numbers only."""
    bounded.check_public(epsilon, beta, max_contributions, 1)
    _, reach = people_left_out(epsilon, beta)
    return (
        f"with probability at least {in_words(1 - beta)} the estimate is at most the true number "
        f"of distinct items; with at least the same probability it is at most {reach - 1} times l "
        f"below it, and one part in {1 << _DIGITS - 1}, if nobody has more than l items, for each "
        f"l up to {max_contributions} (epsilon = {in_words(epsilon)})"
    )


SHIFTED_INVERSE = Mechanism(
    name="shifted_inverse",
    function="count_distinct",
    samples="a value under which the count falls when a public number of people go",
    parameters=("epsilon", "beta", "max_contributions"),
    loss=loss,
    run=count_distinct,
    accuracy=accuracy,
)

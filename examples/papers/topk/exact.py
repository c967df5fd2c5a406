"""Joint and pnf_joint where they differ: both distributions by their definitions, list by list.

For a few items only. The published numbers of appendix D.3 are not at hand; these are exact.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np

from dp_sql.udfs import REGISTRY
from examples.papers.frame.command import Setting
from examples.papers.frame.report import write_table
from examples.papers.frame.trials import Point, Trials
from examples.papers.topk.errors import errors

List = tuple[int, ...]
Distribution = dict[List, Fraction]

_CASES = (((2, 1, 0), 2, 4), ((3, 1, 0), 3, 3), ((2, 1, 0, 0), 2, 6))
"""Counts, k, and 1/q."""
_N_DRAWS = 2000
_N_DRAWS_QUICK = 200


def write_exact(setting: Setting, trials: Trials) -> None:
    """Write how likely the best list is, by both definitions, and how often it was drawn."""
    n_draws = _N_DRAWS_QUICK if setting.quick else _N_DRAWS
    rows = []
    for counts, k, inverse_q in _CASES:
        accepted = weights(counts, k, Fraction(1, inverse_q))
        # q = exp(-epsilon / 2); the mechanisms take fractions, so this epsilon is rounded.
        epsilon = Fraction(f"{2 * math.log(inverse_q):.12f}")
        for name, distribution in (("joint", joint(accepted)), ("pnf_joint", pnf_joint(accepted))):
            best = distribution[tuple(range(k))]
            (found,) = trials.run(f"exact {name}", [_point(name, counts, k, epsilon, n_draws)])
            share = found.count(0) / n_draws
            noise = math.sqrt(best * (1 - best) / n_draws)
            off = (share - float(best)) / noise
            epsilon_text = f"2 ln {inverse_q}"
            rows.append((str(counts), k, epsilon_text, name, str(best), float(best), share, off))
    columns = (
        "counts", "k", "epsilon", "mechanism", "P(best list), exact", "the same", "drawn so often",
        "off by standard errors",
    )  # fmt: skip
    note = f"The share is of {n_draws} draws of the package a row, no seed."
    write_table(setting.out, "joint_exact", columns, rows, note)


def _point(name: str, counts: Sequence[int], k: int, epsilon: Fraction, n_draws: int) -> Point:
    sorted_counts = np.array(counts, dtype=np.int64)
    run = partial(REGISTRY["topk"][name].run, sorted_counts, k=k, epsilon=epsilon)
    key = ("exact", name, str(counts), k, str(epsilon))
    return Point(key, n_draws, lambda: errors(sorted_counts, run())[0])


def weights(counts: Sequence[int], k: int, q: Fraction) -> Distribution:
    """Return q^err for every list of k different items.

    Args:
        counts: people per item, largest first, shape (d,).
        k: length of the lists, at least 2.
        q: exp(-epsilon / 2).

    >>> sorted(set(weights((2, 1), 2, Fraction(1, 4)).values()))
    [Fraction(1, 4), Fraction(1, 1)]
    """
    return {
        items: q ** max(counts[i] - counts[item] for i, item in enumerate(items))
        for items in permutations(range(len(counts)), k)
    }


def joint(accepted: Distribution) -> Distribution:
    """Return the exponential mechanism's distribution: proportional to the weights.

    >>> joint(weights((2, 1, 0), 2, Fraction(1, 4)))[0, 1]
    Fraction(8, 15)
    """
    total = sum(accepted.values(), Fraction(0))
    return {items: p / total for items, p in accepted.items()}


def pnf_joint(accepted: Distribution) -> Distribution:
    """Return permute-and-flip's distribution: in random order, accept x with probability p(x).

    Let x be visited at a uniform time u. It is returned if it is accepted and nothing visited
    before u was: p(x) times the integral over u of the product of (1 - p(y) u), y other than x.

    >>> pnf_joint(weights((2, 1, 0), 2, Fraction(1, 4)))[0, 1]
    Fraction(318299, 491520)
    """
    return {items: p * _nothing_before(accepted, items) for items, p in accepted.items()}


def _nothing_before(accepted: Distribution, items: List) -> Fraction:
    product = [Fraction(1)]  # a polynomial in u, lowest power first
    for other, p in accepted.items():
        if other != items:
            raised = [Fraction(0), *(-p * c for c in product)]
            product = [c + r for c, r in zip([*product, Fraction(0)], raised, strict=True)]
    return sum((c / (power + 1) for power, c in enumerate(product)), Fraction(0))

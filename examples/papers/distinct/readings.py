"""Which epsilon and beta fit the bounds that the paper prints? Exact distributions, no trials.

The paper prints no beta with its tables, and spends its epsilon otherwise than its theorem says, it
seems. Here is what each pair would give, where the cover is fixed: by matching, and in one pass
over people whose order is the paper's. More than one pair fits: no pair can be read off the tables.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import scipy

from dp_sql.udfs.count_distinct import bounded
from examples.papers.distinct.covers import ONE_PASS, Study
from examples.papers.distinct.printed import (
    BEST,
    CHOSEN,
    GREEDY,
    LEVELS,
    MATCHING,
    N_TRIALS,
    PRIVATE,
    Row,
)
from examples.papers.distinct.rows import IN_ALL, Reading, Tried, best_bound
from examples.papers.frame.command import Setting
from examples.papers.frame.report import write_table
from examples.papers.frame.verdicts import LEVEL, Range, Verdict

EPSILONS = (Fraction(1), Fraction(6, 5), Fraction(3, 2), Fraction(2))
BETAS = tuple(Fraction(n, 1000) for n in (1, 5, 10, 20, 30, 50))


@dataclass(frozen=True)
class Fixed:
    """A cover that nothing can move, and the rows that the paper has of it.

    name: for the table.
    cover: the counts under the bounds that are candidates, from 1 on.
    rows: the paper's, all of one way of counting.
    """

    name: str
    cover: Sequence[int]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Fit:
    """How a reading fits some fixed covers.

    inside: of each cover's printed bounds with a private choice, how many are inside.
    best: whether each cover's best bound is the printed one.
    """

    reading: Reading
    inside: tuple[int, ...]
    best: tuple[bool, ...]


def allowed(n_values: int) -> int:
    """How many of so many values lie outside by chance, at most, 99 times in 100.

    >>> allowed(1), allowed(18), allowed(36)
    (0, 2, 2)
    """
    return int(scipy.stats.binom.ppf(LEVEL, n_values, 1 - LEVEL))


def write_readings(
    studies: Sequence[Study], tried: Sequence[Tried], setting: Setting
) -> list[Verdict]:
    """Write the table of the search, and judge the paper's own epsilon by it."""
    covers = fixed_covers(studies, tried)
    n_bounds = [len(_printed(cover.rows)) for cover in covers]
    fits = [
        fit(Reading(IN_ALL.name, epsilon, beta), covers) for epsilon in EPSILONS for beta in BETAS
    ]
    lines = [
        [float(x.reading.epsilon), float(x.reading.beta), *x.inside, sum(x.inside), sum(x.best)]
        for x in fits
    ]
    heads = [
        "epsilon in all",
        "beta",
        *(f"{cover.name}: inside, of {n}" for cover, n in zip(covers, n_bounds, strict=True)),
        f"all: inside, of {sum(n_bounds)}",
        f"best bounds as printed, of {len(covers)}",
    ]
    write_table(setting.out, "distinct_readings", heads, lines, _note(fits, sum(n_bounds)))
    return [judge_words([x for x in fits if x.reading.epsilon == IN_ALL.epsilon], sum(n_bounds))]


def fixed_covers(studies: Sequence[Study], tried: Sequence[Tried]) -> list[Fixed]:
    """Collect the covers of which the paper's is known to be the same, up to a few words."""
    found = []
    for study, of_study in zip(studies, tried, strict=True):
        ways = {MATCHING: (MATCHING, study.covers[MATCHING])}
        if study.table.same_order:
            ways[ONE_PASS] = (GREEDY, of_study.passes[0])
        for way, (counting, cover) in ways.items():
            rows = [row for row in study.table.rows if row.counting == counting]
            found.append(Fixed(f"{study.title}, {way}", cover[: study.table.most], rows))
    return found


def fit(reading: Reading, covers: Sequence[Fixed]) -> Fit:
    """Count the printed bounds that lie where 100 trials of the exact distribution have them."""
    inside, best = [], []
    for fixed in covers:
        distribution = bounded.distribution_of_bound(
            fixed.cover, reading.epsilon, reading.beta, "gem"
        )
        spans = {level: range_of_distribution(distribution, level, N_TRIALS) for level in LEVELS}
        hits = [spans[p][0] <= bound <= spans[p][1] for p, bound in _printed(fixed.rows)]
        inside.append(sum(hits))
        found = best_bound(fixed.cover, reading)
        best.append(all(row.bound[1] == found for row in fixed.rows if row.selection == BEST))
    return Fit(reading, tuple(inside), tuple(best))


def range_of_distribution(
    distribution: Sequence[tuple[Fraction, Fraction]], percent: int, n: int
) -> Range:
    """Where a percentile of n draws of a distribution on 1, 2, ... lies 99 times in 100.

    numpy's percentile lies between two order statistics; the distribution of each of them is exact.

    Args:
        distribution: (at least, at most) of each bound's probability; the enclosures are narrow.
        percent: of the draws, in (0, 100).
        n: number of draws.
    """
    up_to = [min(1.0, x) for x in accumulate(float(low + high) / 2 for low, high in distribution)]
    place = Fraction((n - 1) * percent, 100)
    lower, upper = math.floor(place) + 1, math.ceil(place) + 1
    low = _first(up_to, lambda p: scipy.stats.beta.cdf(p, lower, n + 1 - lower) >= (1 - LEVEL) / 2)
    high = _first(up_to, lambda p: scipy.stats.beta.cdf(p, upper, n + 1 - upper) >= (1 + LEVEL) / 2)
    return low, high


def _first(up_to: Sequence[float], enough: Callable[[float], bool]) -> int:
    return next((at for at, p in enumerate(up_to, 1) if enough(p)), len(up_to))


def _printed(rows: Sequence[Row]) -> list[tuple[int, float]]:
    return [
        (level, bound)
        for row in rows
        if row.selection in (CHOSEN, PRIVATE)
        for level, bound in zip(LEVELS, row.bound, strict=True)
        if bound is not None
    ]


def judge_words(fits: Sequence[Fit], n_bounds: int) -> Verdict:
    """Can the bounds be what the paper says, for any beta? It prints none.

    Args:
        fits: with the paper's own epsilon.
        n_bounds: printed bounds with a private choice, of all covers together.
    """
    spare = allowed(n_bounds)
    held = [x for x in fits if all(x.best) and sum(x.inside) >= n_bounds - spare]
    nearest = max(held or fits, key=lambda x: (sum(x.inside), sum(x.best)))
    ours = (
        f"beta = {', '.join(f'{float(x.reading.beta):g}' for x in held) or 'none'} "
        f"({sum(nearest.inside)} of {n_bounds} at {float(nearest.reading.beta):g})"
    )
    tried = ", ".join(f"{float(x.reading.beta):g}" for x in fits)
    return Verdict(
        f"Bounds by fixed covers, the paper's own words ({IN_ALL.name}), beta one of {tried}",
        f"some beta gives all best bounds, and all but {spare} of {n_bounds} private ones",
        ours,
        None,
        bool(held),
        f"exact distribution / {N_TRIALS}",
        "" if held else "Other pairs of epsilon and beta fit: see the table distinct_readings.",
    )


def _note(fits: Sequence[Fit], n_bounds: int) -> str:
    whole = [x.reading for x in fits if all(x.best) and sum(x.inside) == n_bounds]
    pairs = ", ".join(f"({float(x.epsilon):g}, {float(x.beta):g})" for x in whole) or "none"
    return (
        "Exact distributions, without trials. How many of the 10, 50 and 90 % bounds of the two "
        "rows with a private bound lie where those of 100 trials of the distribution lie 99 "
        "times in 100 (order statistics). A release has half of epsilon for the bound, "
        "half for the noise; the paper says epsilon = 1, and prints no beta. Best bounds are "
        "those of most utility without privacy. "
        f"Pairs that fit in all: {pairs}. They lie on a ridge: what one "
        "takes from epsilon, a larger beta gives back."
    )

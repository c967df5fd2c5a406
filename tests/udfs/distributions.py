"""Exact distributions of the shipped samplers, and the checks that right and wrong ones are put to.

A sampler is run once along every path of outcomes of its draws, with q a rational number, so
its distribution comes out as Fractions. Nothing is estimated.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from itertools import chain, permutations, product
from typing import Any, TypeVar

import numpy as np

from dp_sql.udfs.exact_sampling import Odds

Outcome = TypeVar("Outcome", bound=Hashable)
Distribution = dict[Any, Fraction]


class PathTooLongError(Exception):
    """A path of an unbounded sampler has reached the limit."""


class _Path:
    """Draws that follow planned outcomes, then always the first possible one."""

    def __init__(self, plan: list[int], q_of: Mapping[Fraction, Fraction], limit: int) -> None:
        self.plan, self.q_of, self.limit = plan, q_of, limit
        self.taken: list[tuple[int, list[Fraction]]] = []
        self.probability = Fraction(1)

    def below(self, n: int) -> int:
        return self._step([Fraction(1, n)] * n)

    def choose(self, odds: Odds) -> int:
        q = self.q_of[odds.rate]
        weights = [sum((n * q**a for n, a in weight), Fraction(0)) for weight in odds.weights]
        assert min(weights) >= 0
        return self._step([weight / sum(weights) for weight in weights])

    def orders(self, sizes: Any) -> Any:
        choices = list(product(*(permutations(range(n)) for n in sizes)))
        return np.array([*chain(*choices[self.below(len(choices))])], dtype=np.int64)

    def _step(self, probabilities: list[Fraction]) -> int:
        depth = len(self.taken)
        if depth == self.limit:
            raise PathTooLongError
        branch = self.plan[depth] if depth < len(self.plan) else _after(-1, probabilities)
        assert branch is not None
        self.taken.append((branch, probabilities))
        self.probability *= probabilities[branch]
        return branch


def _after(branch: int, probabilities: list[Fraction]) -> int | None:
    later = range(branch + 1, len(probabilities))
    return next((b for b in later if probabilities[b] > 0), None)


def distribution_of(
    run: Callable[[Any], Outcome], q_of: Mapping[Fraction, Fraction], limit: int = 10**6
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The distribution of run(draws), and the probability of the paths with more than `limit` draws.

    `q_of` gives the value of q for each rate; a sampler that uses another rate fails.
    """
    distribution: dict[Outcome, Fraction] = defaultdict(Fraction)
    unfinished, plan = Fraction(0), []
    while plan is not None:
        path = _Path(plan, q_of, limit)
        try:
            outcome = run(path)
        except PathTooLongError:
            unfinished += path.probability
        else:
            distribution[outcome] += path.probability
        plan = None
        for depth in reversed(range(len(path.taken))):
            following = _after(*path.taken[depth])
            if following is not None:
                plan = [branch for branch, _ in path.taken[:depth]] + [following]
                break
    assert sum(distribution.values()) + unfinished == 1
    return dict(distribution), unfinished


def accepted(distribution: Mapping[Any, Fraction]) -> Distribution:
    """The distribution given that the outcome is not None."""
    total = sum(p for outcome, p in distribution.items() if outcome is not None)
    return {outcome: p / total for outcome, p in distribution.items() if outcome is not None}


def normalized(weights: Mapping[Any, Fraction]) -> Distribution:
    total = sum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


class NotPrivateError(AssertionError):
    """Two neighbours can be told apart better than the loss allows."""


def check_neighbours(
    distribution: Callable[[Any], Distribution], pairs: Iterable[tuple[Any, Any]], factor: Fraction
) -> None:
    """Raise unless each outcome is at most `factor` times likelier on one side of each pair."""
    cache: dict[Any, Distribution] = {}
    for pair in pairs:
        for data in pair:
            if data not in cache:
                cache[data] = distribution(data)
        left, right = (cache[data] for data in pair)
        for outcome in left.keys() | right.keys():
            p, p_other = left.get(outcome, Fraction(0)), right.get(outcome, Fraction(0))
            if p > factor * p_other or p_other > factor * p:
                raise NotPrivateError(f"{pair}: {outcome} has {p} and {p_other}")


def added_people(histograms: Iterable[tuple[int, ...]]) -> Iterable[tuple[Any, Any]]:
    """Each histogram with each one that has one person more, whatever that person has."""
    for counts in histograms:
        for person in product((0, 1), repeat=len(counts)):
            yield counts, tuple(c + p for c, p in zip(counts, person, strict=True))


FALSE_ALARM_EXPONENT = 20
"""A right sampler fails a chi-square test with probability about e**-20 = 2e-9, by the bound
P(chi2 > n + 2 sqrt(n x) + 2 x) <= e**-x of Laurent and Massart (2000). The sample sizes are such
that samplers at 0.7 and 1.3 of epsilon lie six standard deviations or more beyond the threshold."""


def fits(observed: Mapping[Any, int], distribution: Mapping[Any, float]) -> bool:
    """Whether counts of outcomes pass a chi-square test against a distribution."""
    if set(observed) - {outcome for outcome, p in distribution.items() if p > 0}:
        return False
    n = sum(observed.values())
    cells = sorted((n * p, observed.get(outcome, 0)) for outcome, p in distribution.items())
    merged: list[list[float]] = [[0, 0]]
    for expected, seen in cells:  # cells that expect few are merged
        if merged[-1][0] >= 20:
            merged.append([0, 0])
        merged[-1][0] += expected
        merged[-1][1] += seen
    if merged[-1][0] < 20 and len(merged) > 1:
        expected, seen = merged.pop()
        merged[-1][0] += expected
        merged[-1][1] += seen
    statistic = sum((seen - expected) ** 2 / expected for expected, seen in merged)
    free, x = len(merged) - 1, FALSE_ALARM_EXPONENT
    return statistic <= free + 2 * (free * x) ** 0.5 + 2 * x

"""Exact distributions of the shipped samplers, and the checks that right and wrong ones are put to.

A sampler is run once along every path of outcomes of its draws, with q a rational number, so
its distribution comes out as Fractions. Nothing is estimated.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, permutations, product
from math import gcd, lcm
from typing import Any, TypeVar

import numpy as np

from dp_sql.udfs.odds import Coins, Odds, Weight

Outcome = TypeVar("Outcome", bound=Hashable)
Distribution = dict[Any, Fraction]


CHANCE_BITS = 64


class PathTooLongError(Exception):
    """A path of an unbounded sampler has reached the limit."""


def _in_integers(weights: Sequence[Any], q: Fraction) -> tuple[list[int], int]:
    """The weights at q, multiplied so that they are integers, and their sum."""
    a, b = q.numerator, q.denominator
    most = max((power for weight in weights for _, power in weight), default=0)
    whole = [sum(n * a**e * b ** (most - e) for n, e in weight) for weight in weights]
    assert min(whole) >= 0
    common = gcd(*whole)
    whole = [n // common for n in whole]
    return whole, sum(whole)


class _Path:
    """Draws that follow planned outcomes, then always the first possible one."""

    def __init__(
        self, plan: list[int], weights_of: Callable[[Odds], tuple[list[int], int]], limit: int
    ) -> None:
        self.plan, self.weights_of, self.limit = plan, weights_of, limit
        self.taken: list[tuple[int, Sequence[Any]]] = []
        self.numerator = self.denominator = 1

    def below(self, n: int) -> int:
        return self._step([1] * n, n)

    def choose(self, odds: Odds) -> int:
        return self._step(*self.weights_of(odds))

    def choose_each(self, odds: Odds, n: int) -> Any:
        return np.array([self.choose(odds) for _ in range(n)], dtype=np.int64)

    def choose_powers(
        self, exponents: Any, rate: Fraction, times: Any = ((1,),), *more: Any
    ) -> Any:
        powers, n_times, *factors = np.broadcast_arrays(exponents, times, *more)
        for factor in factors:
            n_times = n_times.astype(object) * factor
        rows = zip(n_times.tolist(), powers.tolist(), strict=True)
        chosen = [self.choose(_odds_of(zip(*row, strict=True), rate)) for row in rows]
        return np.array(chosen, dtype=np.int64)

    def flip_powers(self, exponents: Any, rate: Fraction) -> Any:
        heads = [self.choose(_odds_of_heads(a, rate)) == 0 for a in exponents.tolist()]
        return np.array(heads, dtype=bool)

    def flip_each(self, coins: Coins, n: int) -> Any:
        heads = [[self.choose(odds) == 1 for odds in coins.odds] for _ in range(n)]
        return np.array(heads, dtype=bool).reshape(n, len(coins.odds))

    def orders(self, sizes: Any) -> Any:
        choices = list(product(*(permutations(range(n)) for n in sizes)))
        return np.array([*chain(*choices[self.below(len(choices))])], dtype=np.int64)

    def subsets(self, sizes: Any, most: int) -> Any:
        choices = list(product(*(combinations(range(n), min(n, most)) for n in sizes)))
        chosen = choices[self.below(len(choices))]
        drawn = [i in own for n, own in zip(sizes, chosen, strict=True) for i in range(n)]
        return np.array(drawn, dtype=bool)

    def places(self, sizes: Any) -> Any:
        drawn = [self.below(n) if n > 1 else 0 for n in sizes.tolist()]
        return np.array(drawn, dtype=object if sizes.dtype == object else np.int64)

    def hits(self, which: Any, chances: Any) -> Any:
        """Each probability is rounded down to CHANCE_BITS bits."""
        lows, _ = chances(4 * CHANCE_BITS)
        drawn = []
        for j in which.tolist():
            p = Fraction(lows[min(j, len(lows) - 1)] >> 3 * CHANCE_BITS, 1 << CHANCE_BITS)
            drawn.append(self._step([p, 1 - p]) == 0)
        return np.array(drawn, dtype=bool)

    def _step(self, weights: Sequence[Any], total: int = 1) -> int:
        """Take one branch; its probability is its weight, an integer or a Fraction, over total."""
        depth = len(self.taken)
        if depth == self.limit:
            raise PathTooLongError
        branch = self.plan[depth] if depth < len(self.plan) else _after(-1, weights)
        assert branch is not None
        self.taken.append((branch, weights))
        self.numerator *= weights[branch].numerator
        self.denominator *= weights[branch].denominator * total
        return branch


def _odds_of(terms: Iterable[tuple[int, int]], rate: Fraction) -> Odds:
    """Outcomes that each weigh n * q**a, for terms (n, a); one object for equal ones."""
    return _known_odds(tuple((term,) for term in terms), rate)


def _odds_of_heads(a: int, rate: Fraction) -> Odds:
    """Heads, the first outcome, with probability q**a."""
    return _known_odds((((1, a),), ((1, 0), (-1, a))), rate)


@cache
def _known_odds(weights: tuple[Weight, ...], rate: Fraction) -> Odds:
    return Odds(weights, rate)


def _after(branch: int, weights: Sequence[Any]) -> int | None:
    later = range(branch + 1, len(weights))
    return next((b for b in later if weights[b] > 0), None)


def distribution_of(
    run: Callable[[Any], Outcome], q_of: Mapping[Fraction, Fraction], limit: int = 10**6
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The distribution of run(draws), and the probability of the paths with more than `limit` draws.

    `q_of` gives the value of q for each rate; a sampler that uses another rate fails.
    """
    known: dict[int, tuple[Odds, tuple[list[int], int]]] = {}  # by identity, which is quick

    def weights_of(odds: Odds) -> tuple[list[int], int]:
        if id(odds) not in known:
            known[id(odds)] = odds, _in_integers(odds.weights, q_of[odds.rate])
        return known[id(odds)][1]

    # Numerators of each outcome by their denominator: there are few, and sums of integers are quick.
    sums: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    plan: list[int] | None = []
    while plan is not None:
        path = _Path(plan, weights_of, limit)
        try:
            outcome = run(path)
        except PathTooLongError:
            outcome = PathTooLongError
        sums[outcome][path.denominator] += path.numerator
        plan = None
        for depth in reversed(range(len(path.taken))):
            following = _after(*path.taken[depth])
            if following is not None:
                plan = [branch for branch, _ in path.taken[:depth]] + [following]
                break
    whole = lcm(*(d for parts in sums.values() for d in parts))
    shares = {
        outcome: sum(n * (whole // d) for d, n in parts.items()) for outcome, parts in sums.items()
    }
    assert sum(shares.values()) == whole
    distribution = {outcome: Fraction(share, whole) for outcome, share in shares.items()}
    unfinished = distribution.pop(PathTooLongError, Fraction(0))
    return distribution, unfinished


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
    whole = cache(lambda data: _over_one_denominator(distribution(data)))
    for pair in dict.fromkeys(pairs):
        (left, left_total), (right, right_total) = map(whole, pair)
        for one, one_total, other, other_total in (
            (left, left_total, right, right_total),
            (right, right_total, left, left_total),
        ):
            # p / one_total <= factor * p_other / other_total, in integers.
            up, down = other_total * factor.denominator, one_total * factor.numerator
            for outcome, p in one.items():
                if p * up > other.get(outcome, 0) * down:
                    raise NotPrivateError(f"{pair}: {outcome} is too likely on one side")


def check_range(
    distribution: Callable[[Any], Distribution], pairs: Iterable[tuple[Any, Any]], factor: Fraction
) -> None:
    """Raise unless the losses of all outcomes of each pair lie within ln(factor) of one another.

    No loss is then larger than ln(factor): one of them is >= 0, and one is <= 0.
    """
    for left, right in dict.fromkeys(pairs):
        one, other = distribution(left), distribution(right)
        if one.keys() != other.keys():
            raise NotPrivateError(
                f"{left} against {right}: an outcome is possible on one side only"
            )
        ratios = [one[outcome] / other[outcome] for outcome in one]
        if max(ratios) > factor * min(ratios):
            raise NotPrivateError(f"{left} against {right}: the losses are too far apart")


def _over_one_denominator(distribution: Distribution) -> tuple[dict[Any, int], int]:
    total = lcm(*(p.denominator for p in distribution.values()))
    scaled = {o: p.numerator * (total // p.denominator) for o, p in distribution.items()}
    return scaled, total


def data_sets(people: Iterable[Any], most: int) -> Iterable[tuple[Any, ...]]:
    """All data sets of up to `most` people, without an order."""
    for n in range(most + 1):
        yield from combinations_with_replacement(people, n)


def one_more(
    data_sets: Iterable[tuple[Any, ...]], people: Sequence[Any]
) -> Iterable[tuple[Any, Any]]:
    """Each data set with each one that has one person more."""
    for data in data_sets:
        yield from ((data, (*data, person)) for person in people)


def added_people(histograms: Iterable[tuple[int, ...]]) -> Iterable[tuple[Any, Any]]:
    """Each histogram with each one that has one person more, whatever that person has."""
    for counts in histograms:
        for person in product((0, 1), repeat=len(counts)):
            yield counts, tuple(c + p for c, p in zip(counts, person, strict=True))


FALSE_ALARM_EXPONENT = 20
"""A right sampler fails a chi-square test with probability about e**-20 = 2e-9, by the bound
P(chi2 > n + 2 sqrt(n x) + 2 x) <= e**-x of Laurent and Massart (2000). The sample sizes are such
that samplers at 0.7 and 1.3 of epsilon lie five standard deviations or more beyond the threshold."""


FEWER = 4
"""By this the samples are fewer in the tests that run always, whose wrong samplers are further off."""


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


def draws_fit(draw: Callable[[], Any], n: int, distribution: Mapping[Any, Any]) -> bool:
    """Whether draws pass for a distribution, and the first quarter and half of them as well.

    A sampler that is far off is found out early. `n` are enough for samplers at 0.7 and 1.3 of
    epsilon.
    """
    expected = {outcome: float(p) for outcome, p in distribution.items()}
    n, observed = n // FEWER, Counter[Any]()
    for end in (n // 4, n // 2, n):
        observed.update(draw() for _ in range(end - observed.total()))
        if not fits(observed, expected):
            return False
    return True

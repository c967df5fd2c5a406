"""Releases that first draw something for each person: exact laws, and checks of what they may cost.

Independent of dp_sql and udfs. Numbers are enclosed between two Fractions, which are equal where a
number is rational. A check passes only where its inequality is proved for all enclosed numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import ceil, floor, prod
from typing import Any

from tests.budget.adversary import log_between
from tests.udfs.distributions import NotPrivateError

SLACK = 1 + Fraction(1, 10**20)
"""Two enclosures of one irrational number differ by less than this factor."""
ORDERS = (2, 3, 8, 30)
_UNIT = 1 << 160


@dataclass(frozen=True)
class Between:
    """A positive number, or 0, that lies between two Fractions."""

    low: Fraction
    high: Fraction

    def __add__(self, other: Between) -> Between:
        return Between(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Between) -> Between:
        return Between(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: Between) -> Between:
        return Between(self.low / other.high, self.high / other.low)

    def __pow__(self, n: int) -> Between:
        return Between(self.low**n, self.high**n)


def rounded(x: Between) -> Between:
    """Round outwards to multiples of 2^-160 where a number is not exact."""
    if x.low == x.high:
        return x
    return Between(Fraction(floor(x.low * _UNIT), _UNIT), Fraction(ceil(x.high * _UNIT), _UNIT))


def exactly(x: Fraction | int) -> Between:
    return Between(Fraction(x), Fraction(x))


def exp_of(x: Fraction, n_terms: int = 40) -> Between:
    """Enclose e^x for x in [0, 1] by its series; what is left out is below twice its first term."""
    term, total = Fraction(1), Fraction(0)
    for n in range(1, n_terms + 1):
        total += term
        term *= x / n
    return rounded(Between(total, total + 2 * term))


Law = Mapping[Any, Between]
Pair = tuple[Law, Law]
"""The laws of a release with one person and without."""


@dataclass(frozen=True)
class Case:
    """One outcome of the draws of all other people, and the laws of the answer given it."""

    weight: Fraction
    pair: Pair


def mixed(laws: Iterable[tuple[Fraction, Law]]) -> Law:
    """The mean of laws with these weights."""
    mean: dict[Any, Between] = defaultdict(lambda: exactly(0))
    for weight, law in laws:
        for answer, p in law.items():
            mean[answer] += exactly(weight) * p
    return dict(mean)


def answers(cases: Sequence[Case]) -> Pair:
    """The laws of the answer alone: what is released."""
    with_person, without = (mixed((c.weight, c.pair[i]) for c in cases) for i in (0, 1))
    return with_person, without


def draws_and_answers(cases: Sequence[Case]) -> Pair:
    """The laws of the draws of all other people together with the answer."""
    with_person, without = (
        {
            (at, answer): exactly(case.weight) * p
            for at, case in enumerate(cases)
            for answer, p in case.pair[i].items()
        }
        for i in (0, 1)
    )
    return with_person, without


# --- what a release may cost ----------------------------------------------------------------------


def spread(pair: Pair) -> Between:
    """e^(range): the largest likelihood ratio of an answer by the smallest."""
    ratios = [pair[0][answer] / pair[1][answer] for answer in pair[1]]
    largest = Between(max(r.low for r in ratios), max(r.high for r in ratios))
    return largest / Between(min(r.low for r in ratios), min(r.high for r in ratios))


def delta(pair: Pair, limit: Fraction) -> Fraction:
    """The delta of a pair at e^epsilon = limit, or a little more."""
    left, right = pair
    gains = (left[answer].high - limit * right[answer].low for answer in right)
    return sum((gain for gain in gains if gain > 0), Fraction(0))


def most_delta(limit_root: Fraction, factor_root: Between) -> Fraction:
    """The delta at e^epsilon = limit_root^2 of range u, e^(u/2) = factor_root, or a little less."""
    worst = exactly(1 - limit_root / factor_root.low) ** 2
    return worst.low / (1 - 1 / factor_root.high**2)


def check_ranges(cases: Sequence[Case], factor: Between) -> None:
    """Raise unless, given the draws of others, all losses lie in an interval of length ln factor."""
    for case in cases:
        if spread(case.pair).high > factor.high * SLACK:
            raise NotPrivateError(f"the range is above {float(factor.high)}")


def check_delta(pair: Pair, factor_root: Between) -> None:
    """Raise unless the curve of a pair, both ways, lies below that of range u."""
    roots = [1 + Fraction(j, 16) for j in range(-8, 25)]
    for root, (left, right) in product(roots, (pair, pair[::-1])):
        inside = 1 / factor_root.low < root < factor_root.low
        if inside and delta((left, right), root**2) > most_delta(root, factor_root):
            raise NotPrivateError(f"delta is too large at e^epsilon = {float(root**2)}")


def check_rho(pair: Pair, rho: Fraction) -> None:
    """Raise unless the Rényi divergences of a pair, both ways, are at most rho times the order."""
    for a, (left, right) in product(ORDERS, (pair, pair[::-1])):
        terms = (left[y].high ** a / right[y].low ** (a - 1) for y in right)
        moment = Fraction(sum(ceil(term * _UNIT) for term in terms), _UNIT)
        if log_between(moment)[1] > a * (a - 1) * rho:
            raise NotPrivateError(f"the divergence of order {a} is too large")


# --- the exponential mechanism in groups ----------------------------------------------------------

Person = frozenset[tuple[int, int]]
"""The (group, item) pairs of one person."""
Counts = tuple[tuple[int, ...], ...]
"""For each group, the people of each item."""


@dataclass(frozen=True)
class Grouped:
    """The k = 1 list of each group, by an exponential mechanism on the people kept there.

    power: e^(rate): what one person more multiplies the weight of an item by.
    cap: the number of groups in which one person is kept, drawn uniformly among their own.
    alone: for each group and item, the people who are in this group only and hold this item only.
    """

    n_items: int
    power: Between
    cap: int
    alone: Counts

    def law(self, counts: Counts) -> Law:
        """The law of all answers from the counts of each group."""
        per_group = []
        for own in counts:
            weights = [self.power**n for n in own]
            rest = [sum(weights[:i] + weights[i + 1 :], exactly(0)) for i in range(len(own))]
            # p = w / (w + rest) rises with w and falls with the rest.
            per_group.append(
                [
                    rounded(Between(w.low / (w.low + r.high), w.high / (w.high + r.low)))
                    for w, r in zip(weights, rest, strict=True)
                ]
            )
        return {
            answer: prod((p[i] for p, i in zip(per_group, answer, strict=True)), start=exactly(1))
            for answer in product(range(self.n_items), repeat=len(counts))
        }

    def draws(self, person: Person) -> list[frozenset[int]]:
        """The sets of groups that may be kept of one person; all equally likely."""
        own = sorted({group for group, _ in person})
        return [frozenset(kept) for kept in combinations(own, min(self.cap, len(own)))]

    def counts(
        self, kept: Iterable[tuple[Person, frozenset[int]]], before: Counts | None = None
    ) -> Counts:
        """The counts of each group with these people, kept in these groups, added."""
        counts = [list(own) for own in before or self.alone]
        for person, groups in kept:
            for group, item in person:
                counts[group][item] += group in groups
        return tuple(map(tuple, counts))

    def release(self, others: Sequence[Person], person: Person) -> list[Case]:
        """All outcomes of the draws of others, by the counts that they lead to.

        What this person draws is averaged out.
        """
        outcomes = Counter(
            self.counts(zip(others, drawn, strict=True))
            for drawn in product(*map(self.draws, others))
        )
        cases = []
        for counts, n in outcomes.items():
            own = self.draws(person)
            laws = [self.law(self.counts([(person, groups)], counts)) for groups in own]
            pair = mixed((Fraction(1, len(own)), law) for law in laws), self.law(counts)
            cases.append(Case(Fraction(n, outcomes.total()), pair))
        return cases

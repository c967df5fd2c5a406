"""Sampling: what a release costs given the orders of all other people, and without them. Exactly.

One unit of level in the choice is a factor 1/2 and the choice's epsilon ln 4, so the epsilon of a
release is ln 16 and its declared range, 3/2 of that, ln 64. The orders are those that the shipped
code asks for, one after the other, and the choice of the bound is the shipped one.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product
from math import prod
from typing import Any

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import bounded, sampling
from tests.budget import draws
from tests.budget.adversary import log_between
from tests.budget.draws import Case, exactly
from tests.budget.draws import Law as Distribution
from tests.udfs.cases_bounded import graph_of
from tests.udfs.cases_sampling import distribution_of_counts
from tests.udfs.distributions import NotPrivateError
from tests.udfs.test_bounded import shipped_distribution

BETA = Fraction(1, 20)
ROOT = exactly(8)
"""e^(u/2) of the declared range u."""
HOLDINGS = [frozenset(held) for n in (1, 2, 3) for held in combinations("abc", n)]

Held = frozenset[str]
Order = tuple[int, ...]


class Given:
    """Draws that are these orders, one for each person."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self._orders = orders

    def orders(self, sizes: Any) -> Any:
        assert [len(order) for order in self._orders] == list(sizes)
        return np.array([rank for order in self._orders for rank in order], dtype=np.int64)


def counts_of(data: Sequence[Held], orders: Sequence[Order], m: int) -> tuple[int, ...]:
    """The shipped counts under bounds 1, ..., m given everyone's order."""
    return tuple(sampling.sampled_counts(*graph_of(data), m, Given(orders)))


@cache
def answer_distribution(
    counts: tuple[int, ...], selection: str, top: int, power: int = 1
) -> Distribution:
    """The distribution of bound and estimate; estimates <= 0 are one answer, and so are those >= top.

    No counts lie beyond 0 and top, so likelihood ratios are constant on either side: to take those
    estimates together changes no range, no delta and no divergence.

    Args:
        counts: under the bounds 1, ..., m.
        selection: of the bound.
        top: at least the largest count.
        power: 2 for a wrong release, with twice the rate in choice and noise.
    """
    chosen = {at: p**power for at, p in shipped_distribution(counts, selection, BETA).items()}
    distribution = {}
    for bound, p in chosen.items():
        q, n = Fraction(1, 4**power) if bound == 1 else Fraction(1, 2**power), counts[bound - 1]
        for x in range(top + 1):
            tail = x in (0, top)
            noise = q ** abs(x - n) * (1 if tail else 1 - q) / (1 + q)
            distribution[bound, x] = exactly(noise * p / sum(chosen.values()))
    return distribution


def release(
    others: Sequence[Held], person: Held, m: int, selection: str, power: int = 1
) -> list[Case]:
    """All orders of the others, by what they lead to; the order of this person is averaged out."""
    top = len(frozenset().union(*others, person))
    outcomes: Counter[Any] = Counter()
    for orders in product(*(tuple(permutations(range(len(held)))) for held in others)):
        own = [
            counts_of([*others, person], [*orders, order], m)
            for order in permutations(range(len(person)))
        ]
        outcomes[counts_of(others, orders, m), tuple(sorted(own))] += 1
    cases = []
    for (without, own), n in outcomes.items():
        distributions = (
            answer_distribution(counts, selection, max(top, 1), power) for counts in own
        )
        pair = (
            draws.mixed((Fraction(1, len(own)), distribution) for distribution in distributions),
            answer_distribution(without, selection, max(top, 1), power),
        )
        cases.append(Case(Fraction(n, outcomes.total()), pair))
    return cases


def declared(m: int, selection: str) -> Any:
    """The declared loss with ln 16 as epsilon, so a little low."""
    return bounded.loss(log_between(Fraction(16))[0], BETA, m, selection)


def check_range(cases: Sequence[Case]) -> None:
    draws.check_ranges(cases, ROOT**2)


def check_delta(cases: Sequence[Case]) -> None:
    draws.check_delta(draws.answers(cases), ROOT)
    draws.check_delta(draws.draws_and_answers(cases), ROOT)


def check_rho(cases: Sequence[Case]) -> None:
    rho = declared(1, "gem").rho
    draws.check_rho(draws.answers(cases), rho)
    draws.check_rho(draws.draws_and_answers(cases), rho)


def instances(n_others: int) -> list[tuple[tuple[Held, ...], Held]]:
    """All data sets of so many others or fewer and one person, up to the names of the items."""
    found: dict[str, tuple[tuple[Held, ...], Held]] = {}
    for n in range(1, n_others + 1):
        for others in combinations_with_replacement(HOLDINGS, n):
            for person in HOLDINGS:
                found.setdefault(shape(others, person), (others, person))
    return list(found.values())


def shape(others: Sequence[Held], person: Held) -> str:
    """The same for data sets that differ by the names of items only."""

    def renamed(held: Held, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(names["abc".index(item)] for item in held))

    return repr(
        min(
            (sorted(renamed(held, names) for held in others), renamed(person, names))
            for names in permutations("abc")
        )
    )


LONGER = [(1, "mgem"), (2, "gem")]


@pytest.mark.parametrize("selection", ["gem", "mgem"])
def test_the_range_of_these_tests_is_the_declared_one(selection: str) -> None:
    low, high = log_between(Fraction(64))
    assert low - Fraction(1, 10**20) < declared(2, selection).bounded_range <= high


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("m", "selection"),
    [(1, "gem"), (2, "mgem"), *(pytest.param(*one, marks=pytest.mark.slow) for one in LONGER)],
)
def test_every_small_release_costs_what_is_declared(m: int, selection: str) -> None:
    for others, person in instances(2):
        cases = release(others, person, m, selection)
        assert sum(case.weight for case in cases) == 1
        check_range(cases)
        check_delta(cases)
        check_rho(cases)


def test_the_orders_that_are_enumerated_have_the_shipped_distribution() -> None:
    data = (frozenset("abc"), frozenset("bc"), frozenset("ab"))
    orders = list(product(*(tuple(permutations(range(len(held)))) for held in data)))
    found = Counter(counts_of(data, one, 2) for one in orders)
    n = prod((6, 2, 2))
    assert {counts: Fraction(k, n) for counts, k in found.items()} == distribution_of_counts(
        data, 2
    )


def test_some_releases_are_mixtures_over_orders_of_others_and_of_the_person() -> None:
    others, person = (frozenset("abc"), frozenset("bc")), frozenset("ab")
    cases = release(others, person, 1, "gem")
    assert len(cases) > 1
    ratios = [{case.pair[0][y] / case.pair[1][y] for y in case.pair[1]} for case in cases]
    assert ratios[0] != ratios[1]


# One person alone with an item, and the bound 1: the whole of the noise's loss.
OTHERS, PERSON = (frozenset("a"),), frozenset("b")


@pytest.mark.pure
@pytest.mark.parametrize("check", [check_range, check_delta, check_rho])
def test_each_check_rejects_twice_the_rate(check: Any) -> None:
    check(release(OTHERS, PERSON, 1, "gem"))
    with pytest.raises(NotPrivateError):
        check(release(OTHERS, PERSON, 1, "gem", power=2))

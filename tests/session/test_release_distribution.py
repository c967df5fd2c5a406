"""The law of what SQL answers, sampled through a whole session. Run by `make slow`.

The laws of the mechanisms are proved exactly in tests/udfs; here the way from rows to counts and
from draws to items is on trial. False alarms: each test fails a right program with chance 1e-6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from itertools import permutations

import pytest

import dp_sql

FALSE_ALARM = 1e-6
TRIALS = 3000
COUNTS = {"a": 4, "b": 3, "c": 1, "d": 0}


def joint_law(epsilon: float, k: int) -> dict[Hashable, float]:
    """P(list) as the papers define it, in floats, which is exact enough for a test by sampling."""
    ranked = sorted(COUNTS.values(), reverse=True)
    rate = epsilon if k == 1 else epsilon / 2
    weights = {
        items: math.exp(-rate * max(h - COUNTS[i] for h, i in zip(ranked, items, strict=False)))
        for items in permutations(COUNTS, k)
    }
    total = sum(weights.values())
    return {items: weight / total for items, weight in weights.items()}


def agrees(seen: Counter[Hashable], law: Mapping[Hashable, float]) -> bool:
    assert set(seen) <= set(law)
    expected = [law[outcome] * seen.total() for outcome in law]
    chisquare = pytest.importorskip("scipy.stats").chisquare
    return bool(chisquare([seen[outcome] for outcome in law], expected).pvalue > FALSE_ALARM)


@pytest.fixture
def ask(session: dp_sql.Session) -> Callable[[str], object]:
    session.execute("CREATE TABLE votes (person VARCHAR, item VARCHAR)")
    for item, people in COUNTS.items():
        session.execute(f"INSERT INTO votes SELECT 'p' || i, '{item}' FROM range({people}) r(i)")
    session.execute("INSERT INTO votes SELECT * FROM votes")  # twice said counts once
    session.execute("INSERT INTO votes VALUES ('p0', 'outside'), (NULL, 'd'), ('p1', NULL)")
    return lambda call: session.sql(f"SELECT {call} FROM votes").fetchall()[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_through_sql_has_the_distribution_of_joint(
    ask: Callable[[str], list[str]], k: int
) -> None:
    call = (
        f"DP_TOPK(item, {k}, epsilon := 1.2, privacy_unit := person, domain := ['d','c','b','a'])"
    )
    seen: Counter[Hashable] = Counter(tuple(ask(call)) for _ in range(TRIALS))
    assert agrees(seen, joint_law(1.2, k))
    assert not agrees(seen, joint_law(1.2 * 0.7, k))
    assert not agrees(seen, joint_law(1.2 * 1.3, k))


@pytest.mark.slow
def test_a_count_through_sql_has_the_distribution_of_its_noise(ask: Callable[[str], int]) -> None:
    # One candidate for the bound, and all else is noise. F(1) = 3: of c and outside, which only
    # one person has, that person can cover one.
    call = "DP_COUNT_DISTINCT(item, epsilon := 2.4, privacy_unit := person, max_contributions := 1)"
    seen: Counter[Hashable] = Counter(
        max(-4, min(4, ask(call) - 3)) for _ in range(TRIALS)
    )  # the tails together

    def law(epsilon: float) -> dict[Hashable, float]:
        q = math.exp(-epsilon / 2)
        found = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-3, 4)}
        tail = q**4 / (1 + q)
        return {**found, -4: tail, 4: tail}

    assert agrees(seen, law(2.4))
    assert not agrees(seen, law(2.4 * 0.7))
    assert not agrees(seen, law(2.4 * 1.3))

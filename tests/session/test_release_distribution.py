"""The law of what SQL answers, sampled through a whole session.

The laws of the mechanisms are proved exactly in tests/udfs; here the way from rows to counts and
from draws to items is on trial. False alarms: each test fails a right program with chance 1e-6.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import permutations, product

import pytest

import dp_sql
from tests.udfs.cases_pnf_joint import flips
from tests.udfs.distributions import fits

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


# One statement over many groups of equal rows is as many draws, each of people of its own.

GROUPS = 3000
ROWS = f"""
CREATE TABLE numbers AS SELECT g FROM range({GROUPS}) r(g);
CREATE TABLE votes AS SELECT g, g || person AS person, item FROM numbers, (VALUES
    {", ".join(f"('{i}', '{item}')" for item, n in COUNTS.items() for i in range(n))},
    ('0', 'a'), ('0', 'outside'), (NULL, 'd'), ('1', NULL)) AS t(person, item);
CREATE TABLE visits AS SELECT g, g || person AS person, minutes FROM numbers, (VALUES
    ('p', 0), ('p', 0), ('p', 3), ('q', 1), ('q', NULL), ('r', 3), ('r', 3), ('s', 0), ('s', 2),
    (NULL, 1)) AS t(person, minutes);
CREATE TABLE scores AS SELECT * FROM numbers, (VALUES ('a', 0, 1), ('b', 1, 1), ('c', 1, 1)) AS t(model, score, moves);
"""
VOTES = [(0, 0, 3), (1,), (3, 3), (0, 2)]


def flipped(shortfalls: Mapping[Hashable, int], rate: float) -> dict[Hashable, float]:
    """Permute-and-flip."""
    return {
        x: float(p)
        for x, p in flips({x: math.exp(-rate * e) for x, e in shortfalls.items()}).items()
    }


def pnf_joint_law(epsilon: float) -> dict[Hashable, float]:
    lists, best = permutations(COUNTS, 2), sorted(COUNTS.values(), reverse=True)
    far = {one: max(n - COUNTS[x] for n, x in zip(best, one, strict=False)) for one in lists}
    return flipped(far, epsilon / 2)


def pnf_peel_law(epsilon: float) -> dict[Hashable, float]:
    def one(left: set[str]) -> dict[Hashable, float]:
        most = max(COUNTS[x] for x in left)
        return flipped({x: most - COUNTS[x] for x in left}, epsilon / 2)

    firsts = one({*COUNTS}).items()
    return {(x, y): p * q for x, p in firsts for y, q in one({*COUNTS} - {x}).items()}


def quartiles_law(epsilon: float, parts: int = 40) -> dict[Hashable, float]:
    """The point of the median, then a step on each side; over all draws of each person's vote."""
    end = 4 * parts

    def chosen(votes: Sequence[int], low: int, high: int, size: int) -> dict[int, float]:
        def rank(x: int) -> float:
            return sum(min(max(x - v * parts, 0), parts) for v in votes) / parts

        wanted, weights = (rank(low) + rank(high)) / 2, dict[int, float]()
        for i in range(low // size, max(-(-high // size), low // size + 1)):
            over, under = (
                rank(max(i * size, low)) - wanted,
                wanted - rank(min((i + 1) * size, high)),
            )
            weights[i] = math.exp(-epsilon / 2 * max(over, under, 0))
        return {i: weight / sum(weights.values()) for i, weight in weights.items()}

    law: dict[Hashable, float] = defaultdict(float)
    draws = Counter(tuple(sorted(votes)) for votes in product(*VOTES))
    for votes, n in draws.items():
        for x, p in chosen(votes, 0, end, 1).items():
            below, above = chosen(votes, 0, x, parts), chosen(votes, x, end, parts)
            for (a, p_a), (b, p_b) in product(below.items(), above.items()):
                law[a, x // parts, b] += p * p_a * p_b * n / draws.total()
    return law


def r2t_law(epsilon: float, beta: float = 0.05) -> dict[Hashable, float]:
    """The larger of two noisy counts of 4 items, under the bounds 2 and 4, less their penalties."""

    def at_most(x: int, q: float) -> float:
        return q**-x / (1 + q) if x < 0 else 1 - q ** (x + 1) / (1 + q)

    tails = [math.exp(-epsilon / 2 / bound) for bound in (2, 4)]
    off = [next(x for x in range(10**6) if 1 - at_most(x, q) <= beta / 2) - 4 for q in tails]
    below = [
        math.prod(at_most(v + d, q) for d, q in zip(off, tails, strict=True)) for v in range(60)
    ]
    return {v: below[v] - (below[v - 1] if v else 0) for v in range(60)}


def stopping_law(epsilon: float) -> dict[Hashable, float]:
    """The best of a geometric number of tries, with noise on a grid of 64 steps."""
    grid, gamma, scores = 64, 1 / 30, {"a": 0, "b": 1, "c": 1}
    q, law = math.exp(-epsilon / 3 / grid), dict[Hashable, float]()

    def at_least(x: int) -> float:
        return q**x / (1 + q) if x > 0 else 1 - q ** (1 - x) / (1 + q)

    for model, score in scores.items():
        law[model] = 0
        for v in range(-20 * grid, 20 * grid):
            above = (at_least(v - grid * s + (x >= model)) for x, s in scores.items())
            better, p = sum(above) / 3, (1 - q) / (1 + q) * q ** abs(v - grid * score) / 3
            stops = (gamma + (1 - gamma) * tail for tail in (better, better + p))
            law[model] += gamma * p / math.prod(stops)
    return law


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("call", "table", "law", "epsilon"),
    [
        ("DP_TOPK(item, 2, mechanism := 'pnf_joint', domain := ['d','c','b','a']", "votes", pnf_joint_law, 2),
        ("DP_TOPK(item, 2, mechanism := 'pnf_peel', domain := ['d','c','b','a']", "votes", pnf_peel_law, 2),
        ("DP_QUANTILE(minutes, [0.25, 0.5, 0.75], lower := 0, upper := 3", "visits", quartiles_law, 4),
        ("DP_COUNT_DISTINCT(item, mechanism := 'r2t', max_contributions := 4", "votes", r2t_law, 9),
        ("DP_SELECT(model, score, moves, mechanism := 'random_stopping'", "scores", stopping_law, 4),
    ],
)  # fmt: skip
def test_other_mechanisms_through_sql_have_their_distributions(
    call: str, table: str, law: Callable[[float], dict[Hashable, float]], epsilon: float
) -> None:
    with dp_sql.connect() as session:
        session.execute(ROWS)
        people = ", privacy_unit := person, groups := numbers.g, max_groups_contributed := 1"
        more = f", epsilon := {epsilon}{'' if table == 'scores' else people}"
        rows = session.sql(f"SELECT g, {call}{more}) AS x FROM {table} GROUP BY g").fetchall()
    seen = Counter(tuple(x) if isinstance(x, list) else x for _, x in rows)
    assert seen.total() == GROUPS
    assert fits(seen, law(epsilon))
    for wrong in (0.4, 2):
        assert not fits(seen, law(wrong * epsilon))

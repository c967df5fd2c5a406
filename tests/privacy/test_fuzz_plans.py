"""Mutated statements under a policy: answered, or refused alike whether one person is there or not.

The two databases and their canaries are those of attack_bench.py. What is found here is written
into the corpus, attacks/*.sql.
"""

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_sql.sql.tokens import tokenize
from tests.attacks.attack_bench import CANARIES, Side, attacks, both_sides, families

SEEDS = [
    "SELECT DP_TOPK(title, 2, epsilon := 0.001) FROM ratings",
    "SELECT unnest(DP_TOPK(r.title, 1, epsilon := 0.001)) AS t FROM ratings AS r WHERE r.score > 5",
    "SELECT region, DP_COUNT_DISTINCT(title, epsilon := 0.001, max_groups_contributed := 2) AS n "
    "FROM ratings GROUP BY region HAVING n > 0 ORDER BY region LIMIT 2",
    "WITH a AS (SELECT user_id, title FROM ratings WHERE title IN ('b0', 'b1')) "
    "SELECT DP_TOPK(title, 1, epsilon := 0.001) FROM a JOIN orders USING (user_id)",
    "SELECT DP_COUNT_DISTINCT(product, epsilon := 0.001, report := true) FROM order_items i "
    "JOIN orders o ON i.order_id = o.order_id",
    "SELECT DP_TOPK(c.genre, 1, epsilon := 0.001, domain := catalog.genre) FROM ratings r "
    "LEFT JOIN catalog c ON r.title = c.title WHERE r.day BETWEEN '2024-01-01' AND '2025-01-01'",
    "SELECT DP_TOPK(title, 1, epsilon := 0.001) FROM ratings AS r WHERE EXISTS (SELECT 1 FROM "
    "orders AS o WHERE o.user_id = r.user_id) AND user_id NOT IN (SELECT user_id FROM recent)",
    "SELECT region, title, DP_COUNT_DISTINCT(day, epsilon := 0.001, max_groups_contributed := 2, "
    "groups := (['north'], (SELECT title FROM catalog))) AS n FROM ratings GROUP BY region, title",
    "SELECT DP_TOPK(tag, 1, epsilon := 0.001, domain := ['a']) FROM ratings, unnest(tags) AS t(tag)",
    "SELECT DP_COUNT_DISTINCT(n, epsilon := 0.001) FROM (SELECT user_id, count(*) AS n FROM "
    "ratings GROUP BY user_id HAVING n > 2)",
]
WORDS = [
    "SELECT", "FROM", "WHERE", "GROUP BY", "UNION ALL", "DISTINCT", "LIMIT 1", "(", ")", ",", "*",
    "NOT", "NULL", "1", "'x'", "=", "user_id", "title", "ratings", "secret", "orders", "catalog",
    "AS", "JOIN", "LEFT", "USING (user_id)", "ORDER BY ALL", "OVER ()", "EXISTS", ";", "--", "::INT",
    "DP_TOPK(title, 1, epsilon := 0.001)", "RECURSIVE", "WITH", "(SELECT max(user_id) FROM ratings)",
]  # fmt: skip


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both_sides(tmp_path_factory.mktemp("fuzz")) as both:
        yield both


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """A statement with a few of its words dropped, doubled or exchanged, or with others inserted."""
    text = draw(st.sampled_from(texts))
    pieces = [token.text for token in tokenize(text)]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(pieces) - 1)))
        match draw(st.sampled_from(["drop", "double", "exchange", "insert", "insert"])):
            case "drop":
                del pieces[at : at + 1]
            case "double":
                pieces[at:at] = pieces[at : at + 3]
            case "exchange":
                other = draw(st.integers(0, max(0, len(pieces) - 1)))
                if pieces:
                    pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces.insert(at, draw(st.sampled_from(WORDS)))
    return " ".join(pieces)


def told_apart(text: str, sides: tuple[Side, Side]) -> str | None:
    """How a statement tells the databases apart, or breaks the session; None where it does not."""
    one, other = (side.ask(text) for side in sides)
    said = one.said + other.said
    if any(canary in said for canary in CANARIES) and not any(c in text for c in CANARIES):
        return "a canary"
    if one.kind.startswith("foreign") or other.kind.startswith("foreign"):
        return f"foreign: {one.kind} {one.text[:100]}"
    if one.kind != other.kind:
        return f"{one.kind} and {other.kind}"
    if one.kind != "answered" and one.text != other.text:
        return f"{one.text[:100]} and {other.text[:100]}"
    return None


@pytest.mark.thorough
@settings(
    max_examples=40, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(text=mutated(SEEDS))
def test_a_mutated_question_is_answered_or_refused_alike(
    text: str, sides: tuple[Side, Side]
) -> None:
    assert told_apart(text, sides) is None, text


@pytest.mark.slow
def test_mutated_attacks_are_refused_alike_for_two_minutes(sides: tuple[Side, Side]) -> None:
    corpus = [attack.statement for family in families() for attack in attacks(family)]
    texts = SEEDS + [text for text in corpus if len(text) < 1000 and not _unreadable(text)]
    end = time.monotonic() + 120

    @settings(
        max_examples=100, deadline=None, derandomize=False, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(text=mutated(texts))
    def search(text: str) -> None:
        assert told_apart(text, sides) is None, text

    while time.monotonic() < end:
        search()


def _unreadable(text: str) -> bool:
    try:
        return not tokenize(text)
    except Exception:
        return True


def test_the_check_knows_a_difference(sides: tuple[Side, Side]) -> None:
    """The databases are not alike: their owner sees the person in one of them."""
    counts = [
        side.session._private._connection.execute("SELECT count(*) FROM ratings").fetchall()  # type: ignore[attr-defined]
        for side in sides
    ]
    assert counts[0] != counts[1]

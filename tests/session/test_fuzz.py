"""Statements cut, doubled and mixed at random are answered or refused, never anything else."""

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dp_sql
from dp_sql.sql.tokens import Token, tokenize

SEEDS = [
    "SELECT unnest(DP_TOPK(title, 2, epsilon := 1, privacy_unit := user_id, domain := observed)) AS t "
    "FROM ratings r WHERE year > 2001 AND title LIKE '%e%' ORDER BY t LIMIT 3",
    "WITH a AS (SELECT DP_COUNT_DISTINCT(title, epsilon => 0.5, privacy_unit => user_id, "
    "report => true) AS n FROM (SELECT * FROM ratings WHERE year <> 3) AS q) "
    "SELECT n.estimate, x FROM a, (VALUES (1)) AS v(x) UNION ALL SELECT 1, 2",
    "EXPLAIN FROM ratings SELECT DP_TOPK(kind, 1, epsilon := 1, privacy_unit := user_id, "
    "domain := ['novel', 'poems']), 5!, $$text$$, E'\\'', [1, 2][1], {'a': 1}",
    "CREATE OR REPLACE TABLE kept AS SELECT CASE WHEN true THEN DP_COUNT_DISTINCT(title, "
    "epsilon := 1, privacy_unit := r.user_id, max_contributions := 3) END FROM ratings AS r; FROM kept",
]
EXTRA = ["(", ")", "[", "]", ",", ".", ";", ":=", "=>", "=", "*", "-", "'x'", '"x"', "NULL", "FROM",
         "SELECT", "WHERE", "DP_TOPK", "DP_COUNT_DISTINCT(", "AS", "OVER", "1e5", "?", "$1", "dp(",
         "'", "/*", "$$", "--", "\x00", "é", "DISTINCT", "GROUP BY", "UNION", "WITH", "\n"]  # fmt: skip


def words(text: str) -> list[str]:
    found: list[Token] = tokenize(text)
    return [token.text for token in found]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    parts = words(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(parts)))
        change = draw(st.integers(0, 3))
        if change == 0:
            parts = parts[:place] + parts[place + draw(st.integers(1, 3)) :]
        elif change == 1:
            parts.insert(place, draw(st.sampled_from(EXTRA)))
        elif change == 2:
            other = words(draw(st.sampled_from(SEEDS)))
            start = draw(st.integers(0, len(other)))
            parts[place:place] = other[start : start + draw(st.integers(1, 8))]
        else:
            parts[place : place + 1] = [draw(st.sampled_from(EXTRA))]
    return " ".join(parts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=mutated())
def test_a_mutated_statement_is_answered_or_refused(shared: dp_sql.Session, text: str) -> None:
    try:
        relation = shared.sql(text)
        if relation is not None:
            relation.fetchall()
    except dp_sql.InternalError:
        raise
    except (dp_sql.DpSqlError, duckdb.Error):
        pass
    before = len(shared.receipts)
    try:
        shared.execute("FROM dp(?)", [text]).fetchall()
    except duckdb.Error as error:
        assert "InternalError" not in str(error)
        assert "Python exception" not in str(error) or "ArgumentError" in str(error)
        assert len(shared.receipts) - before <= text.count("DP_")

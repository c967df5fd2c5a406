"""A shop with ratings, its policy, and the error that a session gives for a statement."""

import pytest

import dp_sql
from dp_sql.errors import QueryError
from tests.conftest import free

TABLES = """
CREATE TABLE catalog AS
    SELECT unnest(['Dune', 'Walden', 'Ulysses', 'Emma']) AS title, 1900 AS year;
CREATE TABLE regions AS SELECT unnest(['north', 'south']) AS region;
CREATE TABLE ratings AS
    SELECT user_id, title, ['north', 'south'][1 + user_id % 2] AS region, user_id % 5 AS score,
           (user_id % 5)::DOUBLE AS stars, (user_id % 5)::DECIMAL(9, 2) AS price, '{"a": 1}'::JSON AS extra, DATE '2024-01-01' AS day
    FROM range(100) AS r(user_id), catalog;
CREATE TABLE plays AS SELECT user_id, title FROM ratings;
CREATE TABLE notes AS SELECT user_id AS note, user_id AS author, user_id - 1 AS answers, user_id::INTEGER AS words FROM ratings;
CREATE TABLE salaries AS SELECT 1 AS salary, 'titel' AS titel;
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.plays.privacy_unit = "user_id"
tables.notes.privacy_unit = "author"
public.tables = ["catalog", "regions"]
domains."ratings.title" = "catalog.title"
limits.max_epsilon_per_query = 2
budget = { dataset = "shop", epsilon = 1000 }
"""
TOP = "DP_TOPK(title, 2, epsilon := 0.1{})"
COUNT = "DP_COUNT_DISTINCT(title, epsilon := 0.1{})"


def told(session: dp_sql.Session, statement: str) -> QueryError:
    """The refusal of a statement, which costs nothing and shows nothing of dp_sql's own."""
    with free(session), pytest.raises(QueryError) as caught:
        session.sql(statement)
    message = str(caught.value)
    rest = message.replace(statement, "")
    assert not any(word in rest for word in ("__dp", "pg_", "sqlite_", "salar")), message
    return caught.value

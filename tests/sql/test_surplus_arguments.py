"""Calls with more arguments than DuckDB takes are refused, and names of relations are none."""

import duckdb
import pytest

import dp_sql
from dp_sql.errors import SourceError
from dp_sql.sql.surplus_arguments import _MOST, refuse_surplus
from dp_sql.sql.tokens import tokenize


@pytest.mark.parametrize("text", [
    "SELECT mod(x, 2,), lpad(s, 2, '0'), x.mod(1, 2, 3), date_trunc('month', (a, b, c)[1])",
    "FROM (SELECT 1, 2, 3) AS mod(a, b, c)",
    "FROM (SELECT 1, 2, 3) mod(a, b, c)",
    "WITH mod(a, b, c) AS (SELECT 1, 2, 3) FROM mod",
    "WITH mod(a, b, c) AS NOT MATERIALIZED (SELECT 1, 2, 3) FROM mod",
    "WITH RECURSIVE mod(a, b, c) USING KEY (a) AS (SELECT 1, 2, 3) FROM mod",
    "INSERT INTO mod (a, b, c) SELECT 1, 2, 3",
    "SELECT array_agg(x ORDER BY a, b), quantile_cont(x, 0.5 ORDER BY a, b DESC)",
])  # fmt: skip
def test_what_duckdb_takes_is_not_refused(text: str) -> None:
    refuse_surplus(tokenize(text))


@pytest.mark.parametrize("name", _MOST)
def test_duckdb_takes_no_more_either(name: str) -> None:
    given = ", ".join(["NULL"] * (_MOST[name] + 1))
    with pytest.raises(SourceError, match="takes at most"):
        refuse_surplus(tokenize(f"SELECT {name}({given})"))
    with duckdb.connect() as con, pytest.raises(duckdb.Error):
        con.sql(f"SELECT {name}({given})").fetchall()


def test_a_users_function_may_take_more() -> None:
    with dp_sql.connect() as session:
        session.sql("CREATE TABLE seen AS SELECT 1 AS user_id")
        call = "DP_COUNT(*, epsilon := 1, privacy_unit := user_id)"
        query = f"SELECT to_hex(1, 2), n FROM (SELECT {call} AS n FROM seen)"
        with pytest.raises(SourceError, match="to_hex takes at most 1 argument"):
            session.sql(query)
        session.sql("CREATE MACRO To_Hex(a, b) AS a + b")
        assert session.sql(query).fetchall()[0][0] == 3

"""Queries that ask only for their columns, as programs send them: they read and cost nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dp_sql
from tests.conftest import free
from tests.databases import asking_under, write_database

SHOP = """
CREATE TYPE mood AS ENUM ('calm', 'merry');
CREATE SCHEMA clinic;
CREATE TABLE clinic.visits AS
    SELECT i % 50 AS user_id, 'r' || i % 3 AS reason, ['a'] AS tags, 'calm'::mood AS mood,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' AS seen, i::DECIMAL(9, 2) AS cost
    FROM range(200) AS r(i);
CREATE TABLE wards AS SELECT 1 AS ward, 'ICU' AS name;
CREATE VIEW recent AS SELECT user_id, reason AS why FROM clinic.visits;
"""
POLICY = """
tables."clinic.visits".privacy_unit = "user_id"
public.tables = ["wards"]
views.tables = ["recent"]
domains."clinic.visits.reason" = ["r0", "r1", "r2"]
[budget]
dataset = "clinic"
epsilon = 1
"""
COUNT = "DP_COUNT(*, epsilon := 1) AS n"
VISITS = [
    ("user_id", "BIGINT"), ("reason", "VARCHAR"), ("tags", "VARCHAR[]"), ("mood", "VARCHAR"),
    ("seen", "TIMESTAMP WITH TIME ZONE"), ("cost", "DECIMAL(9,2)"),
]  # fmt: skip
ASKED = {
    "SELECT * FROM clinic.visits": VISITS,
    'SELECT * FROM (SELECT * FROM "clinic"."visits") AS virtual_table': VISITS,
    'SELECT "clinic"."visits"."reason" AS "Reason" FROM "clinic"."visits"': [("Reason", "VARCHAR")],
    "WITH v AS (FROM clinic.visits) SELECT cost, name FROM v, wards": [
        ("cost", "DECIMAL(9,2)"), ("name", "VARCHAR"),
    ],
    "SELECT * FROM recent": [("user_id", "BIGINT"), ("why", "VARCHAR")],
    f"SELECT {COUNT} FROM clinic.visits": [("n", "BIGINT")],
    f"SELECT * FROM (SELECT reason, {COUNT} FROM clinic.visits GROUP BY reason) AS t": [
        ("reason", "VARCHAR"), ("n", "BIGINT"),
    ],
    f"SELECT n, name FROM (SELECT {COUNT} FROM clinic.visits), wards": [
        ("n", "BIGINT"), ("name", "VARCHAR"),
    ],
    "SELECT name FROM wards": [("name", "VARCHAR")],
}  # fmt: skip


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Session]:
    with asking_under(POLICY, SHOP, tmp_path_factory.mktemp("clinic")) as session:
        yield session


@pytest.mark.parametrize("query", ASKED)
def test_describe_shows_the_columns_of_a_query_and_spends_nothing(
    asking: dp_sql.Session, query: str
) -> None:
    with free(asking):
        assert asking.sql(f"DESCRIBE {query}").fetchall() == ASKED[query]
        assert asking.sql(f"DESC ({query});").fetchall() == ASKED[query]


@pytest.mark.parametrize("end", [" LIMIT 0", " LIMIT 0;", " LIMIT 0 OFFSET 0", " -- all\nLIMIT 0"])
@pytest.mark.parametrize("query", ASKED)
def test_a_query_that_ends_in_limit_0_has_its_columns_and_no_rows(
    asking: dp_sql.Session, query: str, end: str
) -> None:
    with free(asking):
        found = asking.sql(query + end)
        columns = [*zip(found.columns, map(str, found.types), strict=True)]
        assert (columns, found.fetchall()) == (ASKED[query], [])


@pytest.mark.parametrize("never", ["1 = 0", "1=0", "0 = 1", "1 = 2", "1 <> 1", "FALSE"])
@pytest.mark.parametrize("query", [q for q in ASKED if " AS t" in q or "FROM clinic" in q])
def test_so_has_one_of_which_where_keeps_nothing(
    asking: dp_sql.Session, query: str, never: str
) -> None:
    with free(asking):
        found = asking.sql(f"SELECT * FROM ({query}) AS q WHERE {never}")
        columns = [*zip(found.columns, map(str, found.types), strict=True)]
        assert (columns, found.fetchall()) == (ASKED[query], [])


@pytest.mark.parametrize("query", [
    f"SELECT {COUNT} FROM clinic.visits WHERE 1 = 0",  # a row with a count
    f"SELECT max(n) AS n FROM (SELECT {COUNT} FROM clinic.visits) WHERE 1 = 0",
    f"SELECT {COUNT} FROM clinic.visits LIMIT 1",
    f"SELECT {COUNT} FROM (SELECT * FROM clinic.visits WHERE 1 = 0)",
    f"(SELECT {COUNT} FROM clinic.visits) UNION ALL SELECT ward FROM wards WHERE 1 = 0",
    f"(SELECT {COUNT} FROM clinic.visits) UNION ALL (SELECT ward FROM wards LIMIT 0)",
])  # fmt: skip
def test_a_query_that_has_rows_is_a_release(tmp_path: Path, query: str) -> None:
    write_database(tmp_path / "shop.duckdb", SHOP)
    policy, database = tmp_path / "policy.toml", str(tmp_path / "shop.duckdb")
    policy.write_text(POLICY, "utf-8")
    with dp_sql.connect(database, policy=policy, analyst="ann") as session:
        assert len(session.sql(query).fetchall()) == 1
        assert len(session.receipts) == 1


def test_the_owner_spends_nothing_on_limit_0(session: dp_sql.Session) -> None:
    count = "DP_COUNT(*, epsilon := 1, privacy_unit := user_id) AS n"
    with free(session):
        found = session.sql(f"SELECT * FROM (SELECT {count} FROM ratings) AS t LIMIT 0")
        assert (found.columns, [*map(str, found.types)]) == (["n"], ["BIGINT"])
        assert found.fetchall() == []
        assert session.sql(f"DESCRIBE SELECT {count} FROM ratings").fetchall()[0][:2] == (
            "n", "BIGINT",
        )  # fmt: skip


def test_no_budget_is_needed_to_learn_the_columns(tmp_path: Path) -> None:
    write_database(tmp_path / "shop.duckdb", SHOP)
    policy, database = tmp_path / "policy.toml", str(tmp_path / "shop.duckdb")
    policy.write_text(POLICY, "utf-8")
    query = f"SELECT {COUNT} FROM clinic.visits"
    with dp_sql.connect(database, policy=policy, analyst="ann") as session:
        session.sql(query).fetchall()
        with pytest.raises(dp_sql.QueryError, match="budget"):
            session.sql(query)
        assert session.sql(f"{query} LIMIT 0").columns == ["n"]


def test_limit_0_may_be_a_parameter(asking: dp_sql.Session) -> None:
    with free(asking):
        found = asking.sql("SELECT reason FROM clinic.visits LIMIT ?", params=[0])
        assert (found.columns, found.fetchall()) == (["reason"], [])
        found = asking.sql(f"SELECT {COUNT} FROM clinic.visits LIMIT $n", params={"n": 0})
        assert (found.columns, found.fetchall()) == (["n"], [])
        assert asking.sql("SELECT name FROM wards LIMIT ?", params=[1]).fetchall() == [("ICU",)]
        with pytest.raises(dp_sql.QueryError, match="private") as refused:
            asking.sql("SELECT reason FROM clinic.visits LIMIT ?", params=[5])
        assert "excess" not in str(refused.value)


@pytest.mark.parametrize("asked", ["DESCRIBE {}", "{} LIMIT 0"])
@pytest.mark.parametrize("read", ["wards", "clinic.visits"])
def test_a_query_with_parameters_is_not_run_for_its_columns(
    asking: dp_sql.Session, asked: str, read: str
) -> None:
    fails = f"SELECT ('r' || range)::INTEGER AS n FROM range(?) UNION ALL SELECT 1 FROM {read}"
    with free(asking):
        found = asking.sql(asked.format(fails), params=[3])
        if "LIMIT" in asked:
            assert (found.columns, [*map(str, found.types)]) == (["n"], ["INTEGER"])
            found = asking.sql(f"DESCRIBE {fails}", params=[3])
        assert found.fetchall() == [("n", "INTEGER")]

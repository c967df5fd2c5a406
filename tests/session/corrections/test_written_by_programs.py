"""What is proposed for the SQL that dashboards and other programs write."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import NotPrivate, QueryError
from tests.conftest import SURE, free
from tests.databases import asking_under, write_database

CLINIC = """
CREATE SCHEMA clinic; CREATE SCHEMA "Data Mart"; CREATE SCHEMA pharmacy;
CREATE TABLE clinic.visits AS
    SELECT i % 50 AS user_id, 1 + i % 3 AS ward_id, 'r' || i % 3 AS reason,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' AS seen, i::DECIMAL(9, 2) AS cost
    FROM range(200) AS r(i);
CREATE TABLE "Data Mart"."Ward ""A"" notes" AS
    SELECT user_id AS "user id", cost AS "cost €" FROM clinic.visits;
CREATE TABLE pharmacy.drugs AS SELECT 'drug ' || i AS name FROM range(3) AS r(i);
CREATE TABLE wards AS SELECT i AS ward_id, 'ward ' || i AS name FROM range(3) AS r(i);
CREATE VIEW clinic.lately AS
    SELECT * FROM clinic.visits WHERE seen > TIMESTAMPTZ '2026-01-08 00:00:00+00' - INTERVAL 8 DAY;
CREATE VIEW clinic.ranked AS SELECT *, rank() OVER (ORDER BY cost) AS place FROM clinic.visits;
"""
POLICY = """
tables."clinic.visits".privacy_unit = "user_id"
tables.'"Data Mart"."Ward ""A"" notes"'.privacy_unit = "user id"
public.tables = ["pharmacy.drugs", "wards"]
views.tables = ["clinic.ranked", "clinic.lately"]
domains."clinic.visits.reason" = ["r0", "r1", "r2"]
"""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Session]:
    with asking_under(POLICY, CLINIC, tmp_path_factory.mktemp("clinic")) as session:
        yield session


def refusal(session: dp_sql.Session, statement: str) -> QueryError:
    """Why a statement is refused, which costs nothing; what is proposed works."""
    with free(session), pytest.raises(QueryError) as caught:
        session.sql(statement)
    if "DP_" in (caught.value.suggestion or ""):
        session.explain(caught.value.suggestion)
    return caught.value


@pytest.mark.parametrize(("asked", "proposed"), [
    ('SELECT sum("cost €") AS "sum(cost €)" FROM "Data Mart"."Ward ""A"" notes"',
     'SELECT DP_SUM("cost €", epsilon := 1) AS "sum(cost €)" FROM "Data Mart"."Ward ""A"" notes"'),
    # Tableau
    ('SELECT SUM("visits"."cost") AS "sum:cost:ok" FROM "clinic"."visits" "visits" HAVING (COUNT(1) > 0)',
     'SELECT "sum:cost:ok" AS "sum:cost:ok" FROM (SELECT DP_SUM("visits"."cost", epsilon := 1) AS "sum:cost:ok", '
     'DP_COUNT(1, epsilon := 1) AS n FROM "clinic"."visits" "visits") WHERE (n > 0)'),
    # Malloy, dbt: a window over groups whose values are examples
    ("SELECT month, n, avg(n) OVER (ORDER BY month) AS mean FROM "
     "(SELECT date_trunc('month', seen) AS month, count(*) AS n FROM clinic.visits GROUP BY 1)",
     "SELECT month, n, avg(n) OVER (ORDER BY month) AS mean FROM "
     "(SELECT date_trunc('month', seen) AS month, DP_COUNT(*, epsilon := 1, groups := (FROM "
     "generate_series(DATE '2024-01-01', DATE '2024-12-01', INTERVAL 1 MONTH))) AS n FROM clinic.visits GROUP BY 1)"),
    # ibis: a column of a public table, of which others have the name, too
    ('SELECT "t4"."name", COUNT(*) AS "n" FROM (SELECT "t2"."user_id", "t3"."name" FROM "clinic"."visits" AS "t2" '
     'INNER JOIN "wards" AS "t3" ON "t2"."ward_id" = "t3"."ward_id") AS "t4" GROUP BY 1',
     'SELECT "t4"."name", DP_COUNT(*, epsilon := 1, groups := wards.name) AS "n" FROM (SELECT "t2"."user_id", "t3"."name" FROM "clinic"."visits" AS "t2" '
     'INNER JOIN "wards" AS "t3" ON "t2"."ward_id" = "t3"."ward_id") AS "t4" GROUP BY 1'),
    # not the values of a column that is written otherwise
    ("SELECT name, count(*) AS n FROM clinic.visits JOIN (SELECT ward_id AS w, upper(name) AS name FROM wards) ON w = ward_id GROUP BY name",
     "SELECT name, DP_COUNT(*, epsilon := 1, groups := ['value 1']) AS n FROM clinic.visits JOIN (SELECT ward_id AS w, upper(name) AS name FROM wards) ON w = ward_id GROUP BY name"),
    # ibis: what a subquery computes is the key
    ("""SELECT t.month, COUNT(*) AS n FROM (SELECT user_id, STRFTIME(seen, '%Y-%m') AS month FROM clinic.visits) AS t GROUP BY 1""",
     """SELECT t.month, DP_COUNT(*, epsilon := 1, groups := (SELECT DISTINCT STRFTIME(d::TIMESTAMPTZ, '%Y-%m') FROM generate_series(DATE '2024-01-01', DATE '2024-12-01', INTERVAL 1 MONTH) AS t(d))) AS n FROM (SELECT user_id, STRFTIME(seen, '%Y-%m') AS month FROM clinic.visits) AS t GROUP BY 1"""),
    ("""WITH first AS (SELECT user_id, date_trunc('month', min(seen)) AS cohort FROM clinic.visits GROUP BY user_id) SELECT cohort, count(*) AS n FROM first GROUP BY cohort""",
     """WITH first AS (SELECT user_id, date_trunc('month', min(seen)) AS cohort FROM clinic.visits GROUP BY user_id) SELECT cohort, DP_COUNT(*, epsilon := 1, groups := (FROM generate_series(DATE '2024-01-01', DATE '2024-12-01', INTERVAL 1 MONTH))) AS n FROM first GROUP BY cohort"""),
    # Metabase: bins
    ('SELECT (FLOOR((("clinic"."visits"."cost" - 0.0) / 50.0)) * 50.0) + 0.0 AS "cost", COUNT(*) AS "count" FROM "clinic"."visits" '
     'GROUP BY (FLOOR((("clinic"."visits"."cost" - 0.0) / 50.0)) * 50.0) + 0.0',
     'SELECT TRY_CAST((FLOOR((("clinic"."visits"."cost" - 0.0) / 50.0)) * 50.0) + 0.0 AS DECIMAL(18, 4)) AS "cost", '
     'DP_COUNT(*, epsilon := 1, groups := range(0, 500, 50)) AS "count" FROM "clinic"."visits" '
     'GROUP BY TRY_CAST((FLOOR((("clinic"."visits"."cost" - 0.0) / 50.0)) * 50.0) + 0.0 AS DECIMAL(18, 4))'),
    # Metabase: midnight in a time zone
    ("SELECT date_trunc('day', seen AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin' AS d, count(*) AS n FROM clinic.visits GROUP BY 1",
     "SELECT date_trunc('day', seen AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin' AS d, DP_COUNT(*, epsilon := 1, groups := "
     "(SELECT DISTINCT date_trunc('day', d::TIMESTAMPTZ AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin' FROM "
     "generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY) AS t(d))) AS n FROM clinic.visits GROUP BY 1"),
])  # fmt: skip
def test_the_same_question_is_proposed(asking: dp_sql.Session, asked: str, proposed: str) -> None:
    error = refusal(asking, asked)
    assert (error.suggestion, error.asks_other) == (proposed, False)


@pytest.mark.parametrize(("asked", "proposed"), [
    ('SELECT "visits"."cost" AS "cost" FROM "clinic"."visits" "visits" LIMIT 1',
     'SELECT DP_COUNT(*, epsilon := 1) AS n FROM "clinic"."visits" "visits"'),
    # Metabase: the values of a filter
    ('SELECT "clinic"."visits"."reason" AS "reason" FROM "clinic"."visits" '
     'GROUP BY "clinic"."visits"."reason" ORDER BY 1 LIMIT 1001',
     'SELECT "clinic"."visits"."reason" AS "reason", DP_COUNT(*, epsilon := 1) AS n FROM "clinic"."visits" '
     'GROUP BY "clinic"."visits"."reason" ORDER BY 1 LIMIT 1001'),
])  # fmt: skip
def test_rows_are_counted_where_columns_are_written_with_their_tables(
    asking: dp_sql.Session, asked: str, proposed: str
) -> None:
    error = refusal(asking, asked)
    assert (error.suggestion, error.asks_other) == (proposed, True)
    assert error.position == asked.index('"visits"', asked.index("FROM"))


@pytest.mark.parametrize(("asked", "proposed"), [
    ("SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'clinic'", "SHOW TABLES"),
    ("SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'clinic' AND table_name = 'visits' "
     "ORDER BY ordinal_position", "DESCRIBE clinic.visits"),
    ("SELECT tablename FROM pg_tables", "SHOW TABLES"),
    ("SELECT name FROM a JOIN pg_class ON true", "SHOW TABLES"),
    ("SELECT * FROM duckdb_tables()", "SHOW TABLES"),
    ("SELECT * FROM duckdb_columns() WHERE table_name = 'Ward \"A\" notes'", 'DESCRIBE "Ward ""A"" notes"'),
])  # fmt: skip
def test_what_shows_the_catalog_is_proposed(
    asking: dp_sql.Session, asked: str, proposed: str
) -> None:
    error = refusal(asking, asked)
    assert (error.suggestion, error.asks_other) == (proposed, True)
    assert asking.sql(proposed).fetchall()


def test_tables_are_shown_as_sql_takes_them(asking: dp_sql.Session) -> None:
    names = [name for name, kind in asking.sql("SHOW TABLES").fetchall() if kind == "private"]
    assert names == ["clinic.visits", '"data mart"."ward ""a"" notes"']
    for name in names:
        assert asking.sql(f"DESCRIBE {name}").fetchall()


def test_a_view_that_analysts_cannot_use_is_named_without_a_dp_call_too(
    asking: dp_sql.Session,
) -> None:
    for asked in ("SELECT count(*) FROM clinic.ranked", "DESCRIBE clinic.ranked"):
        error = refusal(asking, asked)
        assert (type(error), error.message) == (
            NotPrivate, "The view ranked is not provably person-level.",
        )  # fmt: skip


def test_a_view_may_have_intervals_which_duckdb_prints_as_calls(asking: dp_sql.Session) -> None:
    ((n,),) = asking.sql(f"SELECT DP_COUNT(*, {SURE}) FROM clinic.lately").fetchall()
    assert n == 200


@pytest.mark.parametrize("asked", [
    "SELECT count(DISTINCT (a, b)) AS n FROM pairs",
    "SELECT count(DISTINCT (a, b, c)) AS n FROM pairs",
    "SELECT count(DISTINCT (c, coalesce(b, 'x, (y'))) AS n FROM pairs WHERE a IS NULL",
    *([] if duckdb.__version__.startswith("1.") else [
        "SELECT count(DISTINCT (a, b,)) AS n FROM pairs", "SELECT count(DISTINCT (a,)) AS n FROM pairs",
    ]),
])  # fmt: skip
def test_what_is_proposed_for_pairs_counts_each_of_them(tmp_path: Path, asked: str) -> None:
    """Pairs with NULLs, separators and digits, which a mere concatenation would not tell apart."""
    texts = "(SELECT unnest([NULL, '', '|', 'a', 'a|', '|a', '-', '1:a', ':', '3:1:a', '--']))"
    pairs = (
        f"CREATE TABLE texts AS SELECT * FROM {texts} AS t(x); CREATE TABLE pairs AS "
        "SELECT row_number() OVER () % 40 AS user_id, a.x AS a, b.x AS b, c FROM texts a, texts b, "
        "(VALUES (NULL), (1), (11)) AS v(c)"
    )
    write_database(tmp_path / "shop.duckdb", pairs)
    policy = tmp_path / "policy.toml"
    policy.write_text("tables.pairs.privacy_unit = 'user_id'", "utf-8")
    with duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True) as con:
        ((exact,),) = con.execute(asked).fetchall()
    with dp_sql.connect(str(tmp_path / "shop.duckdb"), policy=policy, analyst="ann") as session:
        proposed = str(refusal(session, asked).suggestion).replace("epsilon := 1", SURE)
        assert session.sql(proposed).fetchall() == [(exact,)]
        two = f"DP_COUNT_DISTINCT(a, b, {SURE})"
        proposed = str(refusal(session, f"SELECT {two} AS n FROM pairs").suggestion)
        assert session.sql(proposed).fetchall() == [(11 * 11,)]

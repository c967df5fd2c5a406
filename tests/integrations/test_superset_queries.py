"""What Apache Superset's chart builder sends, as Superset 6.1.0 wrote it, through the dialect."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from dp_sql.integrations.superset import DpSqlEngineSpec
from tests.conftest import SURE

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
pytest.importorskip("duckdb_engine", reason="duckdb-engine is not installed")

SHOP = """
CREATE TABLE calendar AS SELECT CAST(range AS DATE) AS day
    FROM range(DATE '2025-01-01', DATE '2026-01-01', INTERVAL 1 DAY);
CREATE TABLE ratings AS SELECT p AS user_id, ['north', 'south'][1 + p % 2] AS region,
    'book ' || b AS title, DATE '2025-01-01' + (31 * b)::INTEGER AS day, (10 * b)::USMALLINT AS minutes
    FROM range(60) a(p), range(3) c(b);
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.ratings.unique_per_person = ["region"]
public.tables = ["calendar"]
domains."ratings.day" = "calendar.day"
domains."ratings.region" = ["north", "south", "west"]
"""
PEOPLE = f"DP_COUNT_DISTINCT(user_id, {SURE}, contribution_bound := 1)"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("superset")
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        con.execute(SHOP)
    (folder / "policy.toml").write_text(POLICY)
    uri = f"dpsql:///{folder}/shop.duckdb?policy={folder}/policy.toml&analyst=superset"
    engine = sqlalchemy.create_engine(uri, future=True)
    with engine.connect() as con:
        yield con
    engine.dispose()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT region AS region, {PEOPLE} AS n \nFROM main.ratings GROUP BY region ORDER BY n DESC, region \n LIMIT 100",
         [("north", 30), ("south", 30), ("west", 0)]),
        (f"SELECT {PEOPLE} AS n, DP_COUNT(*, {SURE}) AS readings \nFROM main.ratings \n LIMIT 100", [(60, 180)]),
        (f"SELECT region AS region, DP_COUNT(*, {SURE}) AS \"how many\", DP_SUM(minutes, {SURE}) AS \"minutes read\" "
         "\nFROM main.ratings GROUP BY region ORDER BY \"how many\" DESC, region \n LIMIT 100",
         [("north", 90, 900), ("south", 90, 900), ("west", 0, 0)]),
        (f"SELECT {PEOPLE} AS \"people who read\" \nFROM main.ratings \nWHERE ((minutes > 5)) AND title IS NOT NULL "
         "AND (region NOT IN ('north')) AND title ILIKE '%book%' \n LIMIT 50000", [(30,)]),
    ],
)  # fmt: skip
def test_bars_and_numbers(connection: Any, sql: str, expected: list[Any]) -> None:
    assert connection.execute(sqlalchemy.text(sql)).fetchall() == expected


@pytest.mark.parametrize("grain", ["day", "week", "month", "quarter", "year"])
def test_time_series_at_each_grain(connection: Any, grain: str) -> None:
    sql = f"""SELECT DATE_TRUNC('{grain}', day) AS day, {PEOPLE} AS n \nFROM main.ratings
        WHERE day >= '2025-01-01 00:00:00.000000' AND day < '2025-03-01 00:00:00.000000'
        GROUP BY DATE_TRUNC('{grain}', day) ORDER BY n DESC \n LIMIT 10000"""
    rows = connection.execute(sqlalchemy.text(sql)).fetchall()
    assert len(rows) == {"day": 365, "week": 53, "month": 12, "quarter": 4, "year": 1}[grain]
    assert [n for _, n in rows if n] == [60] * (1 if grain in {"quarter", "year"} else 2)


def test_a_private_table_is_no_chart_without_a_metric(connection: Any) -> None:
    counted = "SELECT region AS region, COUNT(*) AS count \nFROM main.ratings GROUP BY region"
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="only through DP functions"):
        connection.execute(sqlalchemy.text(counted))


def test_superset_reads_the_name_of_each_type(connection: Any) -> None:
    read = connection.exec_driver_sql("SELECT 1 AS n, {'a': 1} AS s WHERE false")
    codes = [code for _, code, *_ in read.cursor.description]
    assert [DpSqlEngineSpec.get_datatype(code) for code in codes] == [
        "INTEGER",
        "STRUCT(A INTEGER)",
    ]

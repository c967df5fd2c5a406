"""A plain DP call asks what DuckDB would read on this connection, with the settings that it has."""

from collections.abc import Iterator

import duckdb
import pytest

import dp_sql
from tests.conftest import SURE

ASKED = f"SELECT DP_COUNT_DISTINCT(u, {SURE}, privacy_unit := u) FROM seen WHERE {{}}"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with dp_sql.install(duckdb.connect()) as con:
        con.execute(
            "CREATE TABLE seen AS SELECT i AS u, i % 5 AS x, 'n' || i % 3 AS name, "
            "TIMESTAMPTZ '2020-01-01 02:00:00+00' AS t FROM range(60) AS r(i)"
        )
        yield con


@pytest.mark.parametrize("asked", ["{}", "FROM dp($$ {} $$)"])
@pytest.mark.parametrize(
    ("setting", "condition", "n"),
    [
        ("integer_division = true", "x / 2 = 1", 24),
        ("TimeZone = 'America/New_York'", "hour(t) = 21", 60),
        ("Calendar = 'japanese'", "year(t) < 100", 60),
        ("default_collation = 'nocase'", "name = 'N1'", 20),
        ("default_null_order = 'nulls_first'", "list_sort([x, NULL])[1] IS NULL", 60),
    ],
)
def test_a_plain_call_has_the_settings_of_its_connection(
    con: duckdb.DuckDBPyConnection, setting: str, condition: str, n: int, asked: str
) -> None:
    text = asked.format(ASKED.format(condition))
    before = con.execute(text).fetchall()
    con.execute(f"SET SESSION {setting}")
    plain = f"SELECT count(DISTINCT u) FROM seen WHERE {condition}"
    assert con.execute(text).fetchall() == con.execute(plain).fetchall() == [(n,)] != before
    with con.cursor() as other:
        assert other.execute(text).fetchall() == other.execute(plain).fetchall() == before


def test_a_list_of_public_values_is_read_with_the_settings_of_now() -> None:
    query = (
        "SELECT x, DP_COUNT(*, epsilon := 100, privacy_unit := u, "
        "groups := (SELECT CAST(a / 2 AS BIGINT) AS x FROM numbers)) FROM seen GROUP BY x"
    )
    owner = dp_sql.connect()
    with owner, dp_sql.install(duckdb.connect()) as installed, installed.cursor() as other:
        for con, text in ((owner, query), (installed, f"FROM dp($$ {query} $$)")):
            con.execute("CREATE TABLE seen AS SELECT i AS u, 1 + i % 2 AS x FROM range(60) r(i)")
            con.execute("CREATE TABLE numbers AS SELECT 3 AS a")
            for is_whole in (False, True, False):
                asking = other if is_whole and con is installed else con
                asking.execute(f"SET SESSION integer_division = {is_whole}")
                assert asking.execute(text).fetchall() == [(1 if is_whole else 2, 30)]


@pytest.mark.parametrize("asked", ["{}", "FROM dp($$ {} $$)"])
def test_settings_that_are_locked_are_refused_where_they_differ(
    con: duckdb.DuckDBPyConnection, asked: str
) -> None:
    text = asked.format(ASKED.format("hour(t) = 21"))
    assert con.execute(text).fetchall() == [(0,)]
    con.execute("SET SESSION TimeZone = 'America/New_York'")
    con.execute("SET disabled_optimizers = 'statistics_propagation'")
    con.execute("SET lock_configuration = true")
    with pytest.raises(duckdb.Error, match="TimeZone of this connection is locked"):
        con.execute(text).fetchall()
    assert len(dp_sql.receipts(con)) == 1


@pytest.mark.parametrize("asked", ["{}", "FROM dp($$ {} $$)"])
@pytest.mark.parametrize(
    ("here", "n"),
    [
        ("SET search_path = 'empty,other'", 7),
        ("SET search_path = 'empty'", 60),
        ('USE "a, ""b"', 5),
        ("USE empty", 60),
        ("SET schema = 'other'", 7),
        ("ATTACH ':memory:' AS second; CREATE TABLE second.seen AS SELECT 1 AS u; USE second", 1),
        (
            "SET disabled_optimizers = 'statistics_propagation'; SET lock_configuration = true; "
            "USE other",
            7,
        ),
    ],
)
def test_a_plain_call_reads_the_table_that_its_connection_means(
    con: duckdb.DuckDBPyConnection, here: str, n: int, asked: str
) -> None:
    text = asked.format(ASKED.format("true"))
    con.execute(
        'CREATE SCHEMA empty; CREATE SCHEMA other; CREATE SCHEMA "a, ""b"; '
        "CREATE TABLE other.seen AS SELECT unnest(range(7)) AS u; "
        'CREATE TABLE "a, ""b".seen AS SELECT unnest(range(5)) AS u'
    )
    assert con.execute(text).fetchall() == [(60,)]
    con.execute(here)
    assert con.execute("SELECT count(DISTINCT u) FROM seen").fetchall() == [(n,)]
    assert con.execute(text).fetchall() == [(n,)]

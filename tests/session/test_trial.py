"""A query around DP calls that fails over all answers is refused first, and costs nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import sql_runner
from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.errors import QueryError
from dp_sql.sql.types import N_SAMPLES, sample
from tests.conftest import SURE, free
from tests.integrations.test_dbapi import write_shop

LIST = f"DP_TOPK(title, 3, {SURE}{{0}}, domain := catalog.title)"
UNIT = ", privacy_unit := user_id"
ITEMS = f"(SELECT unnest({LIST}) AS title FROM ratings)"
PAIRS = f"(SELECT unnest({LIST[:-1]}, counts := true)) AS pair FROM ratings)"
NUMBER = f"(SELECT DP_COUNT(*, {SURE}{{0}}) AS n FROM ratings)"
GROUPS = (
    f"(SELECT kind, DP_COUNT_DISTINCT(user_id, {SURE}{{0}}, groups := ['novel', 'poems'], "
    "max_groups_contributed := 1) AS n FROM ratings GROUP BY kind)"
)
NEVER = [
    f"SELECT * FROM {NUMBER} WHERE n = 'x'",
    f"SELECT * FROM {GROUPS} WHERE n > '' ORDER BY n",
    f"SELECT n + CAST('x' AS INTEGER) FROM {NUMBER}",
    f"SELECT * FROM {NUMBER} WHERE n = DATE '2024-01-01'",
    f"SELECT * FROM {ITEMS} WHERE regexp_matches(title, '(')",
    f"SELECT substring(title, 'two') FROM {ITEMS}",
    f"SELECT strptime('soon', '%Y'), title FROM {ITEMS}",
    f"SELECT factorial(-1), title FROM {ITEMS}",
    f"SELECT n, 1000::DECIMAL(3, 2) AS part FROM {NUMBER}",
    f"SELECT * FROM {PAIRS} WHERE pair.count = 'x'",
    f"SELECT title, (SELECT 1 UNION ALL SELECT 2) FROM {ITEMS}",
    f"SELECT ntile(0) OVER () FROM {GROUPS}",
    f"SELECT repeat('x', titles::INTEGER) FROM (SELECT {LIST} AS titles FROM ratings)",
    f"SELECT * FROM {GROUPS} QUALIFY row_number() OVER (ORDER BY n) = 'x'",
    f"WITH one AS {NUMBER} SELECT n FROM one UNION ALL SELECT CAST('x' AS INTEGER)",
]
MAY = [  # each of them runs over the true answers
    f"SELECT sqrt(n - 150) FROM {NUMBER}",
    f"SELECT sqrt(coalesce(n, 0) - 150) FROM {NUMBER}",
    f"SELECT n::UTINYINT FROM {NUMBER}",
    f"SELECT CASE WHEN n > 150 THEN n ELSE error('few') END FROM {NUMBER}",
    f"SELECT CASE WHEN n > 150 THEN n ELSE CAST('few' AS INTEGER) END FROM {NUMBER}",
    f"SELECT {LIST}::VARCHAR[3] FROM ratings",
    f"SELECT title::ENUM('Dune', 'Emma', 'Ulysses') FROM {ITEMS}",
    f"SELECT regexp_matches('a note', title) FROM {ITEMS}",
    f"SELECT (SELECT kind FROM {GROUPS} WHERE n > 20)",
    f"SELECT n FROM {NUMBER} WHERE n BETWEEN 100 AND 300 OR n = 'x'",
    f"SELECT factorial(count(*)::INTEGER - 2) FROM {GROUPS}",
]


@pytest.mark.parametrize("text", NEVER)
def test_what_fails_over_all_answers_costs_nothing(text: str, shared: dp_sql.Session) -> None:
    text = text.format(UNIT)
    for asked in (text, f"CREATE TABLE kept AS {text}", f"INSERT INTO catalog {text}"):
        if not (asked.startswith("INSERT") and "WITH" in asked):
            with free(shared), pytest.raises((QueryError, duckdb.Error)):
                shared.sql(asked)
    con = shared.connection
    assert con is not None
    before = len(dp_sql.receipts(con))
    with pytest.raises(duckdb.Error, match=r"(Source|Query)Error|NotSupported"):
        con.execute(f"FROM dp($$ {text} $$)").fetchall()
    assert len(dp_sql.receipts(con)) == before


@pytest.mark.parametrize("end", ["WHERE n = 'x'", "WHERE n > CAST('' AS INTEGER)", "LIMIT 'x'"])
def test_nothing_is_spent_for_an_analyst(end: str, tmp_path: Path) -> None:
    shop, text = write_shop(tmp_path), "SELECT * FROM (SELECT DP_COUNT(*, {}) AS n FROM ratings)"
    analyst = dp_sql.connect(str(shop / "shop.duckdb"), policy=shop / "policy.toml", analyst="ann")
    with analyst, free(analyst), pytest.raises(QueryError, match="Could not convert string"):
        analyst.sql(f"{text.format(SURE)} {end}")


@pytest.mark.parametrize("text", MAY)
def test_what_runs_over_some_answers_is_answered(text: str, shared: dp_sql.Session) -> None:
    assert shared.sql(text.format(UNIT)).fetchall()
    assert shared.connection is not None
    assert shared.connection.execute(f"FROM dp($$ {text.format(UNIT)} $$)").fetchall()


def test_an_error_shows_the_constant_that_does_not_fit(shared: dp_sql.Session) -> None:
    with pytest.raises(QueryError, match=r"(?s)convert string 'x' to INT64.*WHERE n = 'x'\n +\^"):
        shared.sql(NEVER[0].format(UNIT))


def test_copy_tries_its_query_and_writes_nothing(session: dp_sql.Session, tmp_path: Path) -> None:
    with free(session), pytest.raises(QueryError, match="'x'"):
        session.sql(f"COPY ({NEVER[0].format(UNIT)}) TO '{tmp_path}/n.csv'")


def test_a_transaction_goes_on_though_made_up_answers_do_not_fit(session: dp_sql.Session) -> None:
    session.sql("BEGIN")
    session.sql("CREATE TABLE mine (a INTEGER)")
    assert session.sql(MAY[6].format(UNIT)).fetchall() == [("Dune",), ("Emma",), ("Ulysses",)]
    with free(session), pytest.raises(QueryError, match="'x'"):
        session.sql(NEVER[0].format(UNIT))
    session.sql("COMMIT")
    assert session.sql("SELECT count(*) FROM mine").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "setting", ["default_null_order = 'nulls_first'", "TimeZone = 'Asia/Tokyo'"]
)
def test_what_another_setting_means_is_not_refused(setting: str, session: dp_sql.Session) -> None:
    session.sql(f"SET SESSION {setting}")
    before = session.n_receipts
    with pytest.raises(duckdb.Error):
        session.sql(NEVER[0].format(UNIT)).fetchall()
    assert session.n_receipts == before + 1


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT n, nextval('numbers') AS i FROM {NUMBER} WHERE n <> 3",
        f"SELECT n, random() AS i FROM {NUMBER} WHERE n <> 3",
        f"SELECT n, own(3) AS i FROM {NUMBER} WHERE n <> 3",
        f"SELECT n, i FROM {NUMBER}, catalog AS c(i) WHERE n <> 3",
        f"SELECT n, i FROM {NUMBER}, range(9) AS c(i) WHERE n <> 3",
        f"WITH RECURSIVE c AS (SELECT 1 AS i UNION SELECT i FROM c) FROM c, {NUMBER} WHERE n <> 3",
        f"SELECT DP_COUNT(*, {SURE}{{0}}) AS n, DP_COUNT(user_id, {SURE}{{0}}) AS i FROM ratings",
        f"SELECT kind, n FROM {GROUPS} ORDER BY n DESC LIMIT 1",
    ],
)
def test_what_has_effects_or_reads_more_is_run_once(
    text: str, session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE SEQUENCE numbers")
    session.sql("CREATE MACRO own(i) AS nextval('numbers')")
    tried: list[str] = []
    monkeypatch.setattr(SqlRunner, "attempt", lambda _, sql: tried.append(sql))
    session.sql(text.format(UNIT)).fetchall()
    assert len(tried) == (text == f"SELECT kind, n FROM {GROUPS} ORDER BY n DESC LIMIT 1")


def test_a_query_that_runs_is_tried_once(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(SqlRunner, "attempt", lambda _, sql: tried.append(sql))
    for least in range(3):
        text = f"SELECT n > 3 FROM {NUMBER[:-1]} WHERE score >= {least})".format(UNIT)
        assert session.sql(text).fetchall() == [(True,)]
    assert len(tried) == 1


@pytest.mark.parametrize(
    "kind",
    ["BIGINT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIMESTAMP WITH TIME ZONE", "TIME", "UUID",
     "DECIMAL(18,2)", "VARCHAR[]", "STRUCT(item DATE, count BIGINT)[]", "ENUM('a', 'b')"],
)  # fmt: skip
def test_made_up_answers_are_unlike_each_other(kind: str, con: duckdb.DuckDBPyConnection) -> None:
    values = [
        con.execute(f"SELECT CAST({sample(kind, n)} AS {kind})::VARCHAR").fetchall()[0][0]
        for n in range(N_SAMPLES)
    ]
    assert len({*values}) == N_SAMPLES - kind.startswith("ENUM")
    assert values[-1] is None or "NULL" in values[-1]


@pytest.mark.parametrize(
    "changes",
    [
        ["CREATE TEMP TABLE years AS SELECT '2000' AS year"],
        ["CREATE SCHEMA here", "CREATE TABLE here.years AS SELECT '2000' AS year",
         "CREATE TABLE here.ratings AS FROM ratings", "USE here"],
        ["BEGIN", "UPDATE years SET year = '2000'"],
    ],
)  # fmt: skip
def test_tables_are_those_that_the_statement_reads(
    changes: list[str], session: dp_sql.Session
) -> None:
    session.execute("CREATE TABLE years AS SELECT 'none' AS year")
    for change in changes:
        session.execute(change)
    text = f"SELECT n > 0, year::INTEGER FROM {NUMBER}, years".format(UNIT)
    assert session.sql(text).fetchall() == [(True, 2000)]


ENDLESS = f"SELECT n FROM {NUMBER}, " + ", ".join(
    ["(SELECT unnest(string_split(rpad('', 100000, ','), ',')) AS a)"] * 3
)


def test_what_takes_long_is_not_tried_to_its_end(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_runner, "LONGEST_ATTEMPT", 0.1)
    text = f"{ENDLESS} ORDER BY ALL LIMIT 3".format(UNIT)
    interrupting = threading.Timer(2, session.interrupt)
    interrupting.start()
    with pytest.raises(duckdb.InterruptException):  # as it runs
        session.sql(text).fetchall()
    interrupting.join()
    assert session.n_receipts == 1


def test_an_interrupt_while_it_is_tried_ends_it_for_free(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = sql_runner.error_of

    def interrupted(runner: sql_runner.SqlRunner, sql: str) -> duckdb.Error | None:
        session.interrupt()
        return tried(runner, sql)

    monkeypatch.setattr(sql_runner, "error_of", interrupted)
    with free(session), pytest.raises(duckdb.InterruptException):
        session.sql(f"{ENDLESS} ORDER BY ALL LIMIT 3".format(UNIT)).fetchall()

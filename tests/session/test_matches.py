"""Whether a person has rows elsewhere, as an item, in a group's key and in a condition of one.

`member IN (SELECT member FROM premium)` and EXISTS are one boolean for each row, and read the rows
of its own person: their answers are those of DuckDB, but for the noise.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import NotPrivate, NotSupported
from tests.conftest import SURE, free
from tests.databases import installed_in, write_with_policy

TABLES = """
CREATE TABLE branches AS SELECT unnest(['north', 'south', 'east']) AS branch;
CREATE TABLE loans AS SELECT i % 50 AS member, ['north', 'south', 'east'][1 + i // 7 % 3] AS branch,
    i % 9 AS fine, DATE '2026-01-01' + (i % 90)::INT AS day FROM range(400) AS t(i);
INSERT INTO loans VALUES (NULL, 'north', 1, DATE '2026-01-01');
CREATE TABLE premium AS SELECT i * 4 AS member, DATE '2026-02-01' + i::INT AS since FROM range(20) AS t(i);
INSERT INTO premium VALUES (NULL, NULL);
"""
POLICY = """
tables.loans.privacy_unit = "member"
tables.premium.privacy_unit = "member"
public.tables = ["branches"]
domains."loans.branch" = "branches.branch"
"""
IN = "member IN (SELECT member FROM premium)"
SINCE = "EXISTS (SELECT 1 FROM premium p WHERE p.member = loans.member AND p.since <= loans.day)"
COUNT = "DP_COUNT(*, {}, contribution_bound := 100)"
CAPPED = "DP_SUM(fine, {}, contribution_bound := 100, max_groups_contributed := 2)"
# Each with calls {call} on rows that have a member; DuckDB answers with its own aggregate.
ANSWERED = [
    f"SELECT {IN} AS p, {COUNT} AS n FROM loans GROUP BY {IN}",
    f"SELECT {IN} AS p, {COUNT} AS n FROM loans GROUP BY p",
    f"SELECT {IN} AS p, {COUNT} AS n, {CAPPED} AS s FROM loans GROUP BY ALL",
    f"SELECT NOT {IN} AS p, {COUNT} AS n FROM loans WHERE {IN} OR fine > 3 GROUP BY 1",
    f"SELECT {SINCE} AS p, {COUNT} AS n FROM loans GROUP BY ALL",
    f"SELECT CASE WHEN {SINCE} THEN 'yes' ELSE 'no' END AS had, {CAPPED} AS s FROM loans GROUP BY had",
    f"SELECT fine > 4 AS dear, {SINCE} AS p, {COUNT} AS n FROM loans GROUP BY ALL ORDER BY p, dear",
    f"SELECT if({IN}, 'yes', 'no') || '!' AS had, {COUNT} AS n FROM loans GROUP BY {IN}",
    f"SELECT {COUNT} AS n FROM loans GROUP BY {IN} ORDER BY {IN} DESC",
    f"SELECT DP_COUNT(CASE WHEN {SINCE} THEN 1 END, {{}}, contribution_bound := 100) AS n, {COUNT} AS m FROM loans",
    f"SELECT DP_SUM(CASE WHEN {IN} THEN fine ELSE 0 END, {{}}, contribution_bound := 100) AS s FROM loans",
    f"SELECT DP_COUNT_DISTINCT(CASE WHEN {IN} THEN member END, {{}}) AS n FROM loans",
    f"SELECT branch IN (SELECT branch FROM branches WHERE branch > 'n') AS far, {COUNT} AS n FROM loans GROUP BY far",
]
REFUSED = [
    (f"SELECT {IN} AS p, {COUNT} FROM loans", NotSupported),
    (f"SELECT fine IN (SELECT member FROM premium) AS p, {COUNT} FROM loans GROUP BY p", NotPrivate),
    (f"SELECT EXISTS (SELECT 1 FROM premium) AS p, {COUNT} FROM loans GROUP BY p", NotSupported),
    (f"SELECT fine > 1 AND EXISTS (SELECT 1 FROM premium) AS p, {COUNT} FROM loans GROUP BY p", NotPrivate),
    (f"SELECT EXISTS (SELECT 1 FROM premium p WHERE p.since = day) AS p, {COUNT} FROM loans GROUP BY 1", NotPrivate),
    ("SELECT DP_COUNT(CASE WHEN fine IN (SELECT member FROM premium) THEN 1 END, {}) FROM loans", NotPrivate),
    (f"SELECT (SELECT max(since) FROM premium) AS p, {COUNT} FROM loans GROUP BY p", NotPrivate),
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_policy(tmp_path_factory.mktemp("library"), "library", TABLES, POLICY)


@pytest.fixture(scope="module")
def sessions(library: Path) -> Iterator[dict[str, dp_sql.Session]]:
    path = library / "library.duckdb"
    with dp_sql.connect() as owner:
        owner.execute(TABLES)
        with dp_sql.connect(path, policy=library / "policy.toml", analyst="ann") as analyst:
            yield {"owner": owner, "analyst": analyst}


installed = installed_in(TABLES)


@pytest.fixture(scope="module")
def exact() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows that have a member, for DuckDB itself."""
    with duckdb.connect() as con:
        con.execute(TABLES)
        for table in ("loans", "premium"):
            con.execute(f"DELETE FROM {table} WHERE member IS NULL")
        yield con


def _asked(statement: str, who: str) -> str:
    return statement.replace("{}", SURE + ", privacy_unit := member" * (who != "analyst"))


def _truth(statement: str, exact: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    plain = statement.replace("DP_COUNT_DISTINCT(", "count(DISTINCT ").replace("DP_", "")
    return exact.sql(re.sub(r", \{\}[^)]*\)", ")", plain)).fetchall()


@pytest.mark.parametrize("who", ["owner", "analyst", "dp"])
@pytest.mark.parametrize("statement", ANSWERED)
def test_answers_are_those_of_duckdb(
    sessions: dict[str, dp_sql.Session], installed: duckdb.DuckDBPyConnection,
    exact: duckdb.DuckDBPyConnection, statement: str, who: str,
) -> None:  # fmt: skip
    if who == "dp":
        found = installed.sql(f"FROM dp($$ {_asked(statement, who)} $$)").fetchall()
    else:
        found = sessions[who].sql(_asked(statement, who)).fetchall()
    truth = _truth(statement, exact)
    if "ORDER BY" not in statement:
        found, truth = sorted(found), sorted(truth)
    assert found == truth


@pytest.mark.parametrize(("statement", "kind"), REFUSED)
def test_rows_of_others_are_refused_before_they_are_read(
    sessions: dict[str, dp_sql.Session], statement: str, kind: type[Exception]
) -> None:
    for who, session in sessions.items():
        with free(session), pytest.raises(kind):
            session.sql(_asked(statement, who))

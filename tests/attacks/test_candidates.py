"""Errors that propose names (“Did you mean …”, “Candidate bindings”) propose none that is hidden.

Hidden are tables, columns, schemas, views, types, macros and sequences that the policy does not
name. Every statement misspells one of them by a letter.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.errors import DpSqlError
from tests.databases import write_database

DATABASE = """
CREATE TABLE ratings (user_id INTEGER, title VARCHAR, stars INTEGER);
CREATE TABLE catalog (title VARCHAR);
CREATE TABLE zebratable (user_id INTEGER, zebracolumn VARCHAR);
CREATE SCHEMA zebraschema;
CREATE TABLE zebraschema.zebrainner (a INTEGER);
CREATE TYPE zebratype AS ENUM ('zebralabel');
CREATE VIEW zebraview AS FROM ratings;
CREATE SEQUENCE zebrasequence;
CREATE MACRO zebramacro(x) AS x + 1;
CREATE MACRO zebrarows(x) AS TABLE SELECT x;
"""
POLICY = 'tables.ratings.privacy_unit = "user_id"\npublic.tables = ["catalog"]'
HIDDEN = frozenset(re.findall(r"zebra\w+", DATABASE))
MISSPELT = (*(name[:-1] for name in sorted(HIDDEN)), "zebraschema.zebrainne", "shop.zebratabl",
            "main.zebratabl", "zebratable.zebracolum")  # fmt: skip
COUNT = "DP_COUNT_DISTINCT(title, epsilon := 1)"
STATEMENTS = (
    "FROM {}", "SELECT {} FROM catalog", "SELECT {}(1)", "FROM {}(1)", "SELECT 1::{}", "DESCRIBE {}",
    "SELECT nextval('{}')", "SELECT current_setting('{}')", "SELECT title COLLATE {} FROM catalog",
    "SELECT * FROM catalog JOIN {} USING (title)", f"SELECT * FROM (SELECT {COUNT} AS n FROM ratings), {{}}",
    "SELECT DP_COUNT_DISTINCT({}, epsilon := 1) FROM ratings", f"SELECT {COUNT} FROM {{}}",
    "SELECT DP_COUNT_DISTINCT(title::{}, epsilon := 1) FROM ratings",
    f"SELECT {COUNT} FROM ratings WHERE {{}} = 1", f"SELECT {COUNT} FROM ratings WHERE {{}}(stars) = 1",
    f"SELECT {COUNT} FROM ratings JOIN {{}} USING (title)",
    f"SELECT {COUNT} FROM ratings AS r JOIN catalog AS c ON r.title = c.{{}}",
    f"SELECT {COUNT} FROM ratings WHERE title IN (SELECT title FROM {{}})",
    f"SELECT {{}}, {COUNT} FROM ratings GROUP BY {{}}", f"EXPLAIN SELECT {COUNT} FROM {{}}",
    "SELECT DP_TOPK(title, 2, epsilon := 1, domain := {}.title) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 1, domain := catalog.{}) FROM ratings",
    "SELECT DP_SELECT({}, a, 1, epsilon := 1) FROM {}",
)  # fmt: skip


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("candidates") / "shop.duckdb"
    write_database(file, DATABASE)
    return file


@pytest.fixture(scope="module")
def session(database: Path) -> Iterator[dp_sql.Session]:
    policy = database.with_name("policy.toml")
    policy.write_text(POLICY, "utf-8")
    with dp_sql.connect(str(database), policy=policy, analyst="eve") as session:
        yield session


def proposed(session: dp_sql.Session, statement: str) -> set[str]:
    """The hidden names in what a statement answers."""
    try:
        said = str(session.sql(statement).fetchall())
    except (DpSqlError, duckdb.Error) as error:
        said = str(error)
    return HIDDEN & set(re.findall(r"zebra\w+", said)) - set(re.findall(r"zebra\w+", statement))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_error_proposes_a_hidden_name(session: dp_sql.Session, statement: str) -> None:
    for name in MISSPELT:
        asked = statement.format(*[name] * 2)
        assert not proposed(session, asked), asked


def test_the_private_side_would_propose_them(database: Path) -> None:
    private = PrivateConnection(str(database))
    with pytest.raises(duckdb.Error, match="zebratable"):
        private._bound("SELECT * FROM zebratabl")
    private.close()


@pytest.mark.parametrize("part", ["tables", "functions", "types", "columns", "views", "schemas"])
def test_the_catalog_lists_no_hidden_name(session: dp_sql.Session, part: str) -> None:
    assert not proposed(session, f"FROM duckdb_{part}()")

"""The SQL around a DP call reaches DuckDB as it was written, through every interface."""

from functools import cache
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.sql.statement import parse
from tests.conftest import READING_LOG
from tests.databases import installed_in

TEXT = (Path(__file__).parent / "around.sql").read_text(encoding="utf-8")
STATEMENTS = [
    case.strip().rstrip(";") for case in TEXT.split("\n\n") if not case.startswith("-- What stands")
]
CALL = (
    "SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := ['Dune']) AS best "
    "FROM ratings WHERE year > 2001 -- a comment\n"
)
VALUE = "SELECT ['Dune'] AS best"


installed = installed_in(READING_LOG)


@cache
def expected(statement: str) -> tuple[list[str], list[tuple[object, ...]]]:
    with duckdb.connect() as plain:
        relation = plain.sql(statement.replace(":answer", VALUE))
        return relation.columns, relation.fetchall()


def test_the_file_is_read_whole() -> None:
    assert len(STATEMENTS) >= 30
    assert all(":answer" in statement for statement in STATEMENTS)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_session_leaves_the_sql_around_a_call_alone(
    shared: dp_sql.Session, statement: str
) -> None:
    before = len(shared.receipts)
    relation = shared.sql(statement.replace(":answer", CALL))
    assert (relation.columns, relation.fetchall()) == expected(statement)
    assert relation.fetchall() == expected(statement)[1]
    # DESCRIBE only binds; everything else releases once, read twice or not.
    assert len(shared.receipts) == before + (not statement.startswith("DESCRIBE"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "statement", [s for s in STATEMENTS if not s.startswith(("DESCRIBE", "PIVOT"))]
)
def test_the_dp_macro_leaves_the_sql_around_a_call_alone(
    installed: duckdb.DuckDBPyConnection, statement: str
) -> None:
    before = len(dp_sql.receipts(installed))
    text = statement.replace(":answer", CALL)
    columns, rows = expected(statement)
    result = installed.execute("FROM dp(?)", [text])
    assert [column[0] for column in result.description] == columns
    assert result.fetchall() == rows
    assert len(dp_sql.receipts(installed)) == before + 1


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_without_a_call_is_not_read_at_all(
    shared: dp_sql.Session, statement: str
) -> None:
    relation = shared.sql(statement.replace(":answer", VALUE))
    assert (relation.columns, relation.fetchall()) == expected(statement)


@pytest.mark.parametrize("statement", [s for s in STATEMENTS if not s.startswith("PIVOT")])
def test_the_lexer_cuts_where_duckdb_cuts(statement: str) -> None:
    text = statement.replace(":answer", VALUE)
    assert len(parse(text)) == len(duckdb.extract_statements(text)) == 1

"""PEP 249: what programs that use Python's DB-API see of a session."""

import datetime
import decimal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dp_sql import errors
from dp_sql.integrations import dbapi
from tests.conftest import SURE
from tests.databases import write_database

POLICY = """
tables.ratings.privacy_unit = "user_id"
public.tables = ["catalog"]
views.tables = ["recent"]
domains."ratings.title" = "catalog.title"
[limits]
max_epsilon_per_query = 10000
[budget]
dataset = "shop"
epsilon = 25000
keep_releases = {keep}
"""
SHOP = """
CREATE TABLE catalog AS SELECT unnest(['Dune', 'Emma', 'Walden', 'Beloved']) AS title;
CREATE TABLE ratings AS SELECT i % 90 AS user_id,
    CASE WHEN i % 90 < 60 THEN 'Dune' WHEN i % 90 < 80 THEN 'Emma' ELSE 'Walden' END AS title,
    DATE '2026-01-01' AS day FROM range(200) AS r(i);
CREATE TABLE secret AS SELECT 'canary' AS word;
CREATE VIEW recent AS SELECT user_id, title FROM ratings WHERE day > DATE '2025-01-01';
"""
# At this epsilon the two most frequent titles are released, except with negligible probability.
TOP = "SELECT unnest(DP_TOPK(title, 2, epsilon := 10000)) AS title FROM ratings"
OWNERS_TOP = (
    "SELECT unnest(DP_TOPK(title, 2, epsilon := 10000, privacy_unit := user_id, "
    "domain := catalog.title)) AS title FROM ratings"
)


def write_shop(folder: Path, *, keep: bool = False) -> Path:
    """A database, and a policy for it with a budget of 2.5 questions."""
    write_database(folder / "shop.duckdb", SHOP)
    (folder / "policy.toml").write_text(POLICY.format(keep=str(keep).lower()), "utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path)


@pytest.fixture
def owner(shop: Path) -> Iterator[dbapi.Connection]:
    with dbapi.connect(str(shop / "shop.duckdb")) as con:
        yield con


@pytest.fixture
def analyst(shop: Path) -> Iterator[dbapi.Connection]:
    with dbapi.connect(
        str(shop / "shop.duckdb"), policy=shop / "policy.toml", analyst="ann"
    ) as con:
        yield con


def test_the_module_has_what_pep_249_requires() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(dbapi.ProgrammingError, dbapi.DatabaseError)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    assert dbapi.Connection.OperationalError is dbapi.OperationalError
    assert not issubclass(dbapi.InterfaceError, dbapi.DatabaseError)
    assert dbapi.DateFromTicks(86400.0 * 365) == datetime.date.fromtimestamp(86400.0 * 365)
    assert dbapi.TimestampFromTicks(1e9) == datetime.datetime.fromtimestamp(1e9)
    assert dbapi.TimeFromTicks(1e9) == datetime.datetime.fromtimestamp(1e9).time()
    assert dbapi.Binary(b"x") == b"x"


def test_an_answer_is_spent_once_however_it_is_fetched(analyst: dbapi.Connection) -> None:
    cursor = analyst.cursor().execute(TOP)
    assert (cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (
        ("Dune",),
        [("Emma",)],
        [],
    )
    assert cursor.fetchone() is None
    assert cursor.rowcount == 2
    assert analyst.session.budget()[0].epsilon_spent == 10000
    assert len(analyst.session.receipts) == 1


def test_cursors_of_one_connection_keep_their_own_rows(owner: dbapi.Connection) -> None:
    first = owner.execute("SELECT i FROM range(5000) AS r(i)")
    assert first.fetchone() == (0,)
    second = owner.execute(OWNERS_TOP)
    owner.commit()
    assert [row for (row,) in second] == ["Dune", "Emma"]
    assert len(first.fetchall()) == 4999


def test_values_come_as_python_knows_them_and_type_codes_name_duckdbs_types(
    owner: dbapi.Connection,
) -> None:
    cursor = owner.execute(
        "SELECT 1::HUGEINT AS n, 'x' AS s, DATE '2026-11-21' AS d, 1.5::DECIMAL(3, 1) AS m, "
        "[1, 2] AS l, {'a': 1} AS r, 'x'::BLOB AS b, "
        "'00000000-0000-0000-0000-000000000001'::UUID AS u, NULL::TIMESTAMP AS t, "
        "'x'::ENUM('x', 'double') AS e"
    )
    assert cursor.description is not None
    codes = {name: code for name, code, *_ in cursor.description}
    assert (codes["l"], codes["r"]) == ("INTEGER[]", "STRUCT(a INTEGER)")
    assert {name for name, code in codes.items() if not isinstance(code, str)} == {"r", "e"}
    assert codes["e"] == dbapi.STRING != codes["r"]
    assert codes["n"] == dbapi.NUMBER == codes["m"]
    assert codes["s"] == dbapi.STRING
    assert codes["s"] != dbapi.NUMBER
    assert (codes["s"] != dbapi.STRING) is False
    assert codes["d"] == dbapi.DATETIME == codes["t"]
    assert codes["b"] == dbapi.BINARY
    assert cursor.fetchone() == (
        1, "x", datetime.date(2026, 11, 21), decimal.Decimal("1.5"), [1, 2], {"a": 1}, b"x",
        uuid.UUID(int=1), None, "x",
    )  # fmt: skip


def test_parameters_go_next_to_dp_calls_and_not_into_them(analyst: dbapi.Connection) -> None:
    text = f"SELECT title, ? AS n FROM ({TOP}) WHERE title = ?"
    assert analyst.execute(text, (7, "Emma")).fetchall() == [("Emma", 7)]
    assert (
        analyst.execute("SELECT title FROM catalog WHERE title = $t", {"t": "Dune"}).rowcount == 1
    )
    with pytest.raises(dbapi.ProgrammingError, match="epsilon"):
        analyst.execute("SELECT DP_COUNT_DISTINCT(title, epsilon := ?) FROM ratings", (1,))
    assert len(analyst.session.receipts) == 1


def test_each_set_of_parameters_is_a_release(analyst: dbapi.Connection) -> None:
    text = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings WHERE title IN (?, ?)"
    assert analyst.cursor().executemany(text, [("Dune", "x"), ("Dune", "Emma")]).fetchall() == [
        (2,)
    ]
    assert [receipt.source[-16:] for receipt in analyst.session.receipts] == [
        "IN ('Dune', 'x')", "('Dune', 'Emma')",
    ]  # fmt: skip
    for wrong in (("Dune",), ("Dune", "x", 1), {"a": 1}, ("Dune", {1})):
        with pytest.raises(dbapi.ProgrammingError):
            analyst.execute(text, wrong)
    assert len(analyst.session.receipts) == 2


def test_executemany_runs_once_for_each_set_of_parameters(owner: dbapi.Connection) -> None:
    owner.execute("CREATE TABLE t (i INTEGER)")
    cursor = owner.cursor()
    cursor.executemany("INSERT INTO t VALUES (?), (?)", [(1, 0), (2, 0), (3, 0)])
    assert (cursor.description, cursor.rowcount) == (None, 6)
    cursor.executemany("CREATE OR REPLACE TABLE u AS SELECT ? AS i WHERE false", [(1,), (2,)])
    assert (cursor.description, cursor.rowcount) == (None, 0)
    assert owner.execute("SELECT sum(i) FROM t").fetchone() == (6,)


def test_there_is_nothing_to_fetch_before_a_query(owner: dbapi.Connection) -> None:
    cursor = owner.cursor()
    assert (cursor.description, cursor.rowcount) == (None, -1)
    with pytest.raises(dbapi.InterfaceError, match="execute a query first"):
        cursor.fetchall()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("INSERT INTO t VALUES (7), (8), (9)", 3),
        ("WITH w AS (SELECT 7) INSERT INTO t FROM w", 1),
        ("INSERT INTO t SELECT length('returning')", 1),
        ("UPDATE t SET i = 0 WHERE i > 1", 2),
        ("DELETE FROM t WHERE i > 100", 0),
        ("CREATE TABLE u AS FROM t", 3),
        ("CREATE TABLE u (i INTEGER)", -1),
        ("DROP TABLE t", -1),
        ("SET threads = 1", -1),
        ("CHECKPOINT", -1),
        ("", -1),
    ],
)
def test_what_returns_no_rows_says_how_many_it_changed(
    owner: dbapi.Connection, text: str, changed: int
) -> None:
    owner.execute("CREATE TABLE t AS SELECT unnest([1, 2, 3]) AS i")
    cursor = owner.execute(text)
    assert (cursor.description, cursor.rowcount) == (None, changed)
    with pytest.raises(dbapi.InterfaceError, match="no rows to fetch"):
        cursor.fetchall()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "text",
    [
        'SELECT 7::BIGINT AS "Count"',
        'INSERT INTO t VALUES (7) RETURNING i AS "Count"',
        'WITH w AS (SELECT 7::BIGINT AS "Count") FROM w',
    ],
)
def test_a_column_called_count_is_an_answer(owner: dbapi.Connection, text: str) -> None:
    owner.execute("CREATE TABLE t (i BIGINT)")
    cursor = owner.execute(text)
    assert cursor.description is not None
    assert (cursor.rowcount, cursor.fetchall()) == (1, [(7,)])


def test_a_statement_is_run_once(owner: dbapi.Connection) -> None:
    owner.execute("CREATE TABLE t (i INTEGER)")
    cursor = owner.execute("INSERT INTO t VALUES (1)")
    cursor.close()
    assert owner.execute("INSERT INTO t VALUES (2) RETURNING i").fetchall() == [(2,)]
    assert owner.execute("SELECT i FROM t ORDER BY i").fetchall() == [(1,), (2,)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("SELECT * FROM ratings", dbapi.ProgrammingError, errors.NotPrivate),
        ("SELECT DP_TOPK(title, 2) FROM ratings", dbapi.ProgrammingError, errors.ArgumentError),
        (
            "SELECT DP_TOPK(title, 2, epsilon := 1) FROM (FROM ratings LIMIT 5)",
            dbapi.ProgrammingError,
            errors.NotPrivate,
        ),
        ("CREATE TABLE t (i INTEGER)", dbapi.NotSupportedError, errors.NotSupported),
        ("SELECT 'x'::INTEGER FROM catalog", dbapi.DataError, duckdb.Error),
        (TOP + "; " + TOP, dbapi.NotSupportedError, errors.NotSupported),
    ],
)
def test_errors_are_of_pep_249_and_ours_are_their_causes(
    analyst: dbapi.Connection, text: str, kind: type[Exception], cause: type[Exception]
) -> None:
    with pytest.raises(dbapi.Error) as caught:
        analyst.execute(text)
    assert type(caught.value) is kind
    assert isinstance(caught.value.__cause__, cause)
    assert str(caught.value) == str(caught.value.__cause__)
    assert analyst.session.receipts == ()


def test_a_spent_budget_is_an_operational_error_and_the_connection_goes_on(
    analyst: dbapi.Connection,
) -> None:
    analyst.execute(TOP)
    analyst.execute(TOP)
    with pytest.raises(dbapi.OperationalError, match="left") as caught:
        analyst.execute(TOP)
    assert isinstance(caught.value.__cause__, errors.BudgetExceeded)
    assert analyst.execute("SELECT count(*) FROM catalog").fetchone() == (4,)


def test_a_policy_that_cannot_be_read_is_an_operational_error(shop: Path) -> None:
    with pytest.raises(dbapi.OperationalError) as caught:
        dbapi.connect(str(shop / "shop.duckdb"), policy=shop / "none.toml")
    assert isinstance(caught.value.__cause__, errors.PolicyError)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("statement", "parameters", "told"),
    [
        (None, None, "A statement is a string"),
        (b"SELECT 1", None, "A statement is a string"),
        ("SELECT 1\0", None, "contains a NUL byte"),
        ("SELECT ?", 5, "Parameters are a sequence"),
    ],
)
@pytest.mark.parametrize("who", ["owner", "analyst"])
def test_a_value_that_is_no_statement_is_a_programming_error(
    who: str, statement: Any, parameters: Any, told: str, request: pytest.FixtureRequest
) -> None:
    connection = request.getfixturevalue(who)
    with pytest.raises(dbapi.ProgrammingError, match=told):
        connection.execute(statement, parameters)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"database": "a\0b"}, "NUL byte"),
        ({"policy": "p\0.toml"}, "NUL byte"),
        ({"policy": ("one.toml", "two.toml")}, "policy is one path"),
        ({"database": None}, "database is one path"),
    ],
)
def test_a_value_that_is_no_path_is_a_programming_error(arguments: Any, told: str) -> None:
    with pytest.raises(dbapi.ProgrammingError, match=told):
        dbapi.connect(**arguments)


def test_statements_commit_by_themselves_unless_autocommit_is_off(shop: Path) -> None:
    with dbapi.connect(str(shop / "shop.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
        con.rollback()
        con.autocommit = False
        con.execute("INSERT INTO t VALUES (2)")
        con.rollback()
        con.execute("INSERT INTO t VALUES (3)")
        con.commit()
        con.execute("INSERT INTO t VALUES (4)")
    with dbapi.connect(str(shop / "shop.duckdb")) as con:
        assert con.execute("SELECT i FROM t ORDER BY i").fetchall() == [(1,), (3,)]


def test_a_rollback_gives_back_nothing_that_was_spent(analyst: dbapi.Connection) -> None:
    analyst.autocommit = False
    cursor = analyst.execute(TOP)
    analyst.rollback()
    analyst.commit()
    assert cursor.fetchall() == [("Dune",), ("Emma",)]
    assert analyst.session.budget()[0].epsilon_spent == 10000


def test_a_closed_cursor_or_connection_says_so(owner: dbapi.Connection) -> None:
    cursor = owner.execute("SELECT 1")
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="This cursor is closed"):
        cursor.fetchone()
    with owner.cursor() as left:
        left.execute("SELECT 1")
    with pytest.raises(dbapi.InterfaceError, match="This cursor is closed"):
        left.execute("SELECT 1")
    other = owner.cursor()
    owner.close()
    owner.close()
    with pytest.raises(dbapi.InterfaceError, match="This cursor is closed"):
        other.execute("SELECT 1")
    with pytest.raises(dbapi.InterfaceError, match="This connection is closed"):
        owner.cursor()

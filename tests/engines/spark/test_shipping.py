"""Values come back from Spark's workers as they were."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dp_sql
from dp_sql.engines.protocol import PartedQuestion
from dp_sql.engines.spark.question_sql import asked
from dp_sql.privacy.relations.person_of import PersonOf
from dp_sql.sql.formatting import full_name
from tests.conftest import SURE
from tests.engines.spark.asking import Asking

STORED = {  # what Spark stores
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "INTEGER": ["-2147483648", "2147483647"],
    "SMALLINT": ["-32768", "32767"],
    "TINYINT": ["-128", "127"],
    "BOOLEAN": ["true", "false"],
    "DECIMAL(38,0)": ["'99999999999999999999999999999999999999'", "-1"],
    "DECIMAL(4,2)": ["-99.99", "0.01"],
    "DECIMAL(38,38)": ["'0.00000000000000000000000000000000000001'"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "'-0.0'", "5e-324", "1.7976931348623157e308"],
    "FLOAT": ["'nan'", "'inf'", "'-inf'", "'-0.0'", "1e-45"],
    "VARCHAR": ["''", "'a' || chr(0) || 'b'", "chr(0)", "'🦆'", "'NULL'", "' '", "'é'"],
    "BLOB": ["''::BLOB", r"'\x00\xFF'::BLOB"],
    "DATE": ["'9999-12-31'", "'0001-01-01'", "'4000-01-01 (BC)'", "'1582-10-10'", "'infinity'"],
    "TIMESTAMP": [
        "'infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'",
        "'1582-10-10 00:00:00.000001'", "'2021-03-14 02:30:00'",
    ],
    "TIMESTAMP WITH TIME ZONE": [
        "'infinity'", "'290309-12-22 (BC) 00:00:00+00'", "'294247-01-10 04:00:54.775806+00'",
        "'1582-10-10 00:00:00.000001+00'", "'2021-03-14 02:30:00-08'",
    ],
    "VARCHAR[]": ["['a,b', NULL, '', '\"']", "[]", "[NULL]"],
    "INTEGER[][]": ["[[1, NULL], [], NULL]"],
    "STRUCT(a VARCHAR, \"b c\" DATE[])": ["{'a': 'x', 'b c': ['0001-01-01']}", "{'a': NULL, 'b c': NULL}"],
    "MAP(VARCHAR, DOUBLE)": ["MAP {'a': 'nan'::DOUBLE, 'b=}': -0.0}"],
}  # fmt: skip
MADE = {  # what questions make besides
    "HUGEINT": ["170141183460469231731687303715884105727"],
    "UHUGEINT": ["340282366920938463463374607431768211455"],
    "UBIGINT": ["18446744073709551615"],
    "TIME": ["'24:00:00'", "'00:00:00.000001'"],
    "TIMESTAMP_S": ["'infinity'", "'2000-01-01 00:00:01'"],
    "TIMESTAMP_MS": ["'2000-01-01 00:00:00.001'"],
    "TIMESTAMP_NS": ["'1677-09-22 00:00:00'", "'2262-04-11 23:47:16.854775806'"],
    "UUID": ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "INTERVAL": ["'1 month -40 days 00:00:00.000001'"],
    "ENUM('b', 'it''s', '')": ["''", "'it''s'"],
    "BIT": ["'0101'"],
    "TIMETZ": ["'12:00:00+15:59:59'"],
    "UUID[]": ["['ffffffff-ffff-ffff-ffff-ffffffffffff']"],
    "STRUCT(item VARCHAR, count BIGINT)[]": ["[{'item': 'a''b,}]', 'count': 1}, NULL]"],
}


@pytest.fixture(scope="module")
def asking(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with duckdb.connect() as connection:
        yield Asking(spark, connection, tmp_path_factory.mktemp("tables"))


def test_types_that_spark_stores(asking: Asking) -> None:
    """All in one table, a row for each value."""
    table = ("spark_catalog", "default", "stored")
    columns = [f'"c {i}" {kind}' for i, kind in enumerate(STORED)]
    asking.make(table, f"person INTEGER, {', '.join(columns)}")
    n_rows = max(map(len, STORED.values()))
    for row in range(n_rows + 1):  # the last row is NULL in all columns
        values = [values[row] if row < len(values) else "NULL" for values in STORED.values()]
        asking.connection.execute(
            f"INSERT INTO {full_name(table)} VALUES ({row}, {', '.join(values)})"
        )
    question = _question(asking, "SELECT * FROM spark_catalog.default.stored", table)
    for n_parts in (2, 5):
        answer = asking.jobs(n_parts).rows(question)
        assert asking.answered(question, answer) == asking.expected(question)


def test_a_map_with_a_key_twice_is_null(spark: Any, tmp_path: Path) -> None:
    """JSON or a file may say so, and DuckDB has no such map: one row would fail every question."""
    floats = pa.MapArray.from_arrays([0, 2, 3], pa.array([0.0, -0.0, 1.0]), pa.array([1, 2, 3]))
    words = pa.MapArray.from_arrays([0, 2, 3], pa.array(["a", "a", "b"]), pa.array([1, 2, 3]))
    people = pa.table({"person": [1, 2], "floats": floats, "words": words})
    pq.write_table(people, tmp_path / "maps.parquet")
    nested = "named_struct('x', array(floats)) AS nested"
    rows = spark.read.parquet(str(tmp_path / "maps.parquet")).selectExpr("*", nested)
    rows.createOrReplaceTempView("maps")
    conditions = ["floats IS NULL", "words IS NULL", "nested.x[1] IS NULL", "words['b'] = 3"]
    call = f"DP_COUNT(*, {SURE}, privacy_unit := person)"
    listed = ", ".join(f"{call} FILTER (WHERE {one})" for one in conditions)
    with dp_sql.connect(spark) as session:
        assert session.sql(f"SELECT {listed} FROM maps").fetchall() == [(1, 1, 1, 1)]


def test_types_that_questions_make(asking: Asking) -> None:
    table = ("spark_catalog", "default", "made")
    asking.make(table, "person INTEGER", "FROM range(3)")
    listed = ", ".join(
        f"unnest([{', '.join(f'CAST({value} AS {kind})' for value in values)}]) AS c{i}"
        for i, (kind, values) in enumerate(MADE.items())
    )
    question = _question(asking, f"SELECT person, {listed} FROM spark_catalog.default.made", table)
    assert len(question.columns) == len(MADE) + 1
    for n_parts in (2, 5):
        answer = asking.jobs(n_parts).rows(question)
        assert asking.answered(question, answer) == asking.expected(question)


def _question(asking: Asking, select: str, table: tuple[str, ...]) -> PartedQuestion:
    """All columns are keys, and each is merged."""
    columns = asking.columns(select)
    keys = [name for name, _ in columns]
    merge = "SELECT * FROM __dp_parts"
    return PartedQuestion(select, keys, merge, columns, [PersonOf(table, "person")])


@pytest.mark.parametrize("database", ["memory", "temp", "spark_catalog", "system_", 'a "b".c'])
def test_names_with_quotes_dots_and_spaces_are_read(asking: Asking, database: str) -> None:
    schema = "main" if database in ("memory", "temp") else 'default "x"'
    table = (database, schema, 'Odd "name" – é')
    asking.make(
        table, '"who is" BIGINT, "a.b" VARCHAR, "`" INTEGER', "VALUES (1, 'x', 2), (3, 'y', 4)"
    )
    select = f'SELECT "a.b", sum("`") AS "n ""m" FROM {full_name(table)} GROUP BY ALL'
    question = PartedQuestion(
        select,
        ["a.b"],
        "SELECT * FROM __dp_parts",
        asking.columns(select),
        [PersonOf(table, "who is")],
    )
    assert asking.answered(question, asking.jobs(2).rows(question)) == asking.expected(question)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("select", "read"),
    [
        ("SELECT a FROM db.main.t", "a"),
        ("SELECT 1 FROM db.main.t WHERE b = 'x'", "b"),
        ("SELECT count(*) FROM db.main.t", ""),
        ("SELECT count(*) FROM (SELECT DISTINCT * FROM db.main.t)", "a,b,s,s.x"),
        ("SELECT s.y FROM db.main.t", "s"),
        ("SELECT \"s.x\" FROM db.main.t", "s,s.x"),
        ("SELECT t FROM db.main.t AS t", "a,b,s,s.x"),
        ("WITH t AS MATERIALIZED (SELECT * FROM db.main.t) SELECT x.a FROM t AS x JOIN t AS y USING (b)", "a,b"),
        ("SELECT a FROM db.main.t WHERE false", "a"),
        ("SELECT max(b) FROM db.main.t UNION ALL SELECT 'x'", "b"),
        ("SELECT 1", "a,b,s,s.x"),
    ],
)  # fmt: skip
def test_only_columns_that_matter_are_read(select: str, read: str) -> None:
    columns = [
        ("a", "INTEGER"),
        ("b", "VARCHAR"),
        ("s", "STRUCT(x INTEGER, y INTEGER)"),
        ("s.x", "DATE"),
    ]
    table = ("db", "main", "t")
    question = PartedQuestion(select, [], "SELECT * FROM __dp_parts", [], [PersonOf(table, "a")])
    assert ",".join(asked(question, {table: columns}).read[table]) == read

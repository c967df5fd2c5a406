"""Analysts read public tables as DuckDB shows them; arrow, which carries the rows, changes some types."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql

VALUES = {
    "BOOLEAN": "true", "TINYINT": "-128", "SMALLINT": "-32768", "INTEGER": "-2147483648",
    "BIGINT": "-9223372036854775808", "HUGEINT": "-170141183460469231731687303715884105728",
    "UTINYINT": "255", "USMALLINT": "65535", "UINTEGER": "4294967295", "UBIGINT": "18446744073709551615",
    "UHUGEINT": "340282366920938463463374607431768211455", "FLOAT": "'nan'", "DOUBLE": "0.1",
    "DECIMAL(4, 1)": "123.4", "DECIMAL(38, 3)": "-99999999999999999999999999999999999.999",
    "VARCHAR": "'it''s {a: \"b\"}, \\ [NULL] '", "BLOB": "'\\xAA\\x00b'", "BIT": "'1010'",
    "UUID": "'ffffffff-ffff-ffff-ffff-ffffffffff0f'", "DATE": "'infinity'", "TIME": "'24:00:00'",
    "TIME_NS": "'12:00:00.000000001'", "TIME WITH TIME ZONE": "'12:00:00+15:59:59'",
    "TIMESTAMP": "'290309-12-22 (BC) 00:00:00'", "TIMESTAMP_S": "'2000-01-01 00:00:01'",
    "TIMESTAMP WITH TIME ZONE": "'1582-10-10 00:00:00.000001+00'",
    "TIMESTAMP_MS": "'2000-01-01 00:00:00.001'", "TIMESTAMP_NS": "'2262-04-11 23:47:16.854775806'",
    "TIMESTAMPTZ_NS": "'2262-04-11 23:47:16.854775806+00'", "INTERVAL": "'1 month -40 days 00:00:00.000001'",
    "ENUM('BIT', 'it''s', 'b, c)')": "'it''s'", "BIGNUM": f"'{9**80}'", "GEOMETRY": "'POINT (0.1 2e300)'",
    "GEOMETRY('OGC:CRS84')": "'POINT (1 2)'",
    "JSON": "'{\"a\": [1, null]}'", "VARIANT": "{'a': 1}",
}  # fmt: skip
NESTING = {"LIST", "ARRAY", "STRUCT", "TUPLE", "MAP", "UNION"}
NO_COLUMN = {"NULL", "TYPE"}  # no table has a column of these
ALL = "SELECT DISTINCT logical_type FROM duckdb_types() UNION SELECT 'JSON'"


def nested(kind: str) -> Iterator[tuple[str, str]]:
    """A type by itself and in others, each with SQL of a value."""
    one = f"CAST({VALUES[kind]} AS {kind})"
    yield kind, one
    yield f"{kind}[]", f"[{one}, NULL]"
    yield f"{kind}[2]", f"[{one}, NULL]"
    yield f'STRUCT("BIT" {kind}, UUID VARCHAR)', f"{{'BIT': {one}, 'UUID': 'a'}}"
    yield f"MAP({kind}, VARCHAR)", f"MAP {{{one}: 'a'}}"
    yield f"MAP(VARCHAR, {kind})", f"MAP {{'a': {one}}}"
    yield f"UNION(a VARCHAR, b {kind})", f"union_value(b := {one})"
    yield (
        f"STRUCT(a {kind}[][], b MAP(VARCHAR, UNION(c {kind})))[2]",
        f"[{{'a': [[{one}]], 'b': MAP {{'a': union_value(c := {one})}}}}, NULL]",
    )


Both = tuple[dp_sql.Session, dp_sql.Session]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """An analyst and the owner, who have a table for each type and one for a VARIANT that holds it."""
    folder = tmp_path_factory.mktemp("types")
    database, policy = str(folder / "a.duckdb"), folder / "policy.toml"
    with duckdb.connect(database, config={"storage_compatibility_version": "latest"}) as con:
        con.execute("CREATE TABLE people AS SELECT 1 AS u")
        known = {kind for (kind,) in con.sql(ALL).fetchall()}
        for n, (kind, value) in enumerate(VALUES.items()):
            if kind.partition("(")[0] in known:
                make(con, f"typed_{n}", [*nested(kind)])
                of_variant = [("VARIANT", f"CAST({value} AS {kind})"), ("BIT[]", "['1010']")]
                make(con, f"variant_{n}", of_variant)
        names = [name for (name,) in con.sql("SHOW TABLES").fetchall() if name != "people"]
    policy.write_text(f"tables.people.privacy_unit = 'u'\npublic.tables = {names}\n", "utf-8")
    with (
        dp_sql.connect(database, policy=policy) as analyst,
        dp_sql.connect(database, read_only=True) as owner,
    ):
        owner.execute("SET TimeZone = 'UTC'")
        yield analyst, owner


def make(con: duckdb.DuckDBPyConnection, table: str, columns: list[tuple[str, str]]) -> None:
    typed = ", ".join(f"c{n} {kind}" for n, (kind, _) in enumerate(columns))
    con.execute(f"CREATE TABLE {table} ({typed})")
    con.execute(f"INSERT INTO {table} VALUES ({', '.join(value for _, value in columns)})")
    con.execute(f"INSERT INTO {table} (c0) VALUES (NULL)")


def same(shown: Both, text: str) -> None:
    analyst, owner = shown
    if text.rpartition(" ")[2] not in {name for (name,) in owner.sql("SHOW TABLES").fetchall()}:
        pytest.skip("this DuckDB has no such type")
    assert analyst.sql(text).fetchall() == owner.sql(text).fetchall()


def test_every_type_is_tried() -> None:
    with duckdb.connect() as con:
        known = {kind for (kind,) in con.sql(ALL).fetchall()}
    assert known <= {kind.partition("(")[0] for kind in VALUES} | NESTING | NO_COLUMN


@pytest.mark.one_in(6)
@pytest.mark.parametrize("n", range(len(VALUES)), ids=[*VALUES])
def test_public_tables_arrive_as_they_are(shown: Both, n: int) -> None:
    items = "CAST(COLUMNS(*) AS VARCHAR), typeof(COLUMNS(*)), union_tag(c6)"
    same(shown, f"SELECT {items} FROM typed_{n}")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("n", range(len(VALUES)), ids=[*VALUES])
def test_a_variant_of_any_type_is_shown_as_it_is(shown: Both, n: int) -> None:
    same(shown, f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM variant_{n}")


def test_a_variant_has_its_fields_where_arrow_holds_them(shown: Both) -> None:
    if duckdb.__version__ < "2":
        pytest.skip("a VARIANT is a string there")
    same(shown, f"SELECT c0.a, variant_typeof(c0) FROM variant_{[*VALUES].index('VARIANT')}")


def test_keys_of_a_json_that_differ_in_case_are_two_conditions(tmp_path: Path) -> None:
    path, policy = tmp_path / "store.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(path)) as con:
        rows = """SELECT i AS u, '{"a": "1"}'::JSON AS j FROM range(40) r(i)"""
        con.execute(f"CREATE TABLE t AS {rows}")
    policy.write_text('[tables.t]\nprivacy_unit = "u"\n')
    one = "EXISTS (SELECT 1 FROM t s WHERE s.u = t.u AND (s.j ->> '{}') = '1')"
    asked = f"{one.format('a')} AND NOT {one.format('A')}"
    with dp_sql.connect(path, policy=policy) as session:
        counted = f"SELECT DP_COUNT_DISTINCT(u, epsilon := 10000) FROM t WHERE {asked}"
        assert session.sql(counted).fetchall() == [(40,)]

"""Items and people of every type with exact equality, at the ends of their ranges."""

import datetime
import uuid
from typing import Any

import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from tests.conftest import SURE

# Type, and three values of it as SQL, among them the awkward ones.
TYPES = {
    "TINYINT": ["-128", "0", "127"],
    "INTEGER": ["-2147483648", "0", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9007199254740992", "9007199254740993"],
    "UINTEGER": ["0", "1", "4294967295"],
    "UBIGINT": ["0", "18446744073709551614", "18446744073709551615"],
    "HUGEINT": ["-170141183460469231731687303715884105728", "0",
                "170141183460469231731687303715884105727"],
    "UHUGEINT": ["0", "1", "340282366920938463463374607431768211455"],
    "DECIMAL(18,2)": ["-1.00", "0.10", "0.11"],
    "VARCHAR": ["''", "'it''s \"so\"'", "'é😀'"],
    "DATE": ["'0001-01-01'", "'2024-02-29'", "'infinity'"],
    "TIMESTAMP": ["'2024-02-29 12:00:00.000001'", "'2024-02-29 12:00:00.000002'", "'1970-01-01'"],
    "TIME": ["'00:00:00'", "'12:34:56.789'", "'23:59:59'"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
             "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "BLOB": ["''::BLOB", "'\\x00'::BLOB", "'ab'::BLOB"],
    "ENUM('x', 'it''s', 'z')": ["'x'", "'it''s'", "'z'"],
}  # fmt: skip


def fill(session: dp_sql.Session, kind: str, values: list[str]) -> list[Any]:
    """A table in which the first value has 30 people, the second 20, the third 10."""
    session.execute(f"CREATE OR REPLACE TABLE t (person {kind}, item {kind}, number INTEGER)")
    for value, people in zip(values, (30, 20, 10), strict=True):
        session.execute(
            f"INSERT INTO t SELECT NULL, CAST({value} AS {kind}), i FROM range({people}) r(i)"
        )
        session.execute(f"INSERT INTO t VALUES (CAST({value} AS {kind}), NULL, 1)")
    found = session.sql(
        "SELECT item FROM t WHERE item IS NOT NULL GROUP BY item ORDER BY count(*) DESC"
    )
    return [row[0] for row in found.fetchall()]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", TYPES)
def test_items_of_a_type(shared: dp_sql.Session, kind: str) -> None:
    values = TYPES[kind]
    expected = fill(shared, kind, values)
    unit = f"{SURE}, privacy_unit := number"
    domain = ", ".join(f"CAST({value} AS {kind})" for value in values)
    shared.execute(f"CREATE OR REPLACE TABLE public AS SELECT unnest([{domain}]) AS value")
    for public in ("observed", f"[{domain}]", "public.value"):
        relation = shared.sql(f"SELECT DP_TOPK(item, 3, {unit}, domain := {public}) FROM t")
        assert relation.fetchall() == [(expected,)]
        assert str(relation.types[0]).endswith("[]")
        assert str(relation.types[0]).startswith(kind.split("(")[0])
    count = f"SELECT DP_COUNT_DISTINCT(item, {unit}) FROM t"
    assert shared.sql(count).fetchall() == [(3,)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", TYPES)
def test_people_of_a_type(shared: dp_sql.Session, kind: str) -> None:
    fill(shared, kind, TYPES[kind])
    shared.execute(
        "CREATE OR REPLACE TABLE seen AS SELECT person, unnest(['a', 'b']) AS item FROM t"
    )
    shared.execute("DELETE FROM seen WHERE person IS NULL AND item = 'b'")
    shared.execute("INSERT INTO seen SELECT person, 'a' FROM t")
    unit = f"{SURE}, privacy_unit := person"
    top = f"SELECT DP_TOPK(item, 1, {unit}, domain := ['a', 'b', 'c']) FROM seen WHERE item <> 'a'"
    assert shared.sql(top).fetchall() == [(["b"],)]
    assert shared.sql(f"SELECT DP_COUNT_DISTINCT(item, {unit}) FROM seen").fetchall() == [(2,)]


def test_booleans_are_items_domains_and_privacy_units(shared: dp_sql.Session) -> None:
    shared.execute(
        "CREATE OR REPLACE TABLE t AS SELECT i AS number, i < 3 AS item FROM range(10) r(i)"
    )
    unit = f"{SURE}, privacy_unit := number"
    for domain in ("observed", "[true, false]"):
        top = f"SELECT DP_TOPK(item, 2, {unit}, domain := {domain}) FROM t"
        assert shared.sql(top).fetchall() == [([False, True],)]
    unit = f"{SURE}, privacy_unit := item"
    count = f"SELECT DP_COUNT_DISTINCT(number, {unit}, max_contributions := 10) FROM t"
    assert shared.sql(count).fetchall() == [(10,)]


def test_values_come_back_as_python_values(shared: dp_sql.Session) -> None:
    shared.execute(
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS number, DATE '2024-02-29' AS day, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID AS id, 'infinity'::DATE AS never"
    )
    unit = f"{SURE}, privacy_unit := number, domain := observed"
    calls = ", ".join(f"DP_TOPK({c}, 1, {unit})" for c in ("day", "id"))
    ((day, ident),) = shared.sql(f"SELECT {calls} FROM t").fetchall()
    assert day == [datetime.date(2024, 2, 29)]
    assert ident == [uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]


@pytest.mark.parametrize(
    "kind",
    ["FLOAT", "DOUBLE", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(INTEGER, INTEGER)", "INTERVAL"],
)
@pytest.mark.parametrize("role", ["item", "person"])
def test_types_without_exact_equality_are_refused(
    shared: dp_sql.Session, kind: str, role: str
) -> None:
    other = {"item": "person", "person": "item"}[role]
    shared.execute(f"CREATE OR REPLACE TABLE t ({role} {kind}, {other} INTEGER)")
    with pytest.raises(ArgumentError, match=r"has type .*(exact|not supported)"):
        shared.sql("SELECT DP_COUNT_DISTINCT(item, epsilon := 1, privacy_unit := person) FROM t")


def test_big_integers_next_to_each_other_are_two_items(shared: dp_sql.Session) -> None:
    shared.execute(
        "CREATE OR REPLACE TABLE t AS SELECT i AS person, 9007199254740992 + i AS item FROM range(2) r(i)"
    )
    count = f"SELECT DP_COUNT_DISTINCT(item, {SURE}, privacy_unit := person) FROM t"
    assert shared.sql(count).fetchall() == [(2,)]

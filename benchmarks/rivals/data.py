"""The tables of the questions: generated, TPC-H by DuckDB's generator, and real sets where present."""

import duckdb
import numpy as np

from benchmarks.measure import file_of, present
from examples.papers.frame.sources import tpch

SCALE = 0.02
REAL = ("amazon_fashion_words", "gowalla")


def tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Make the tables in a connection and return their names. The generated ones are always equal."""
    made = ["carts", "readers", "homes"]
    _carts(con)
    _readers(con)
    _homes(con)
    source = tpch(SCALE)
    if source is not None:
        for name, query in TPCH.items():
            frame = source.execute(query).to_arrow_table()  # noqa: F841 - read by DuckDB
            con.execute(f"CREATE TABLE {name} AS FROM frame")
            made.append(name)
    for name in filter(present, REAL):
        con.execute(f"CREATE TABLE {name} AS SELECT user_id AS person, item FROM '{file_of(name)}'")
        made.append(name)
    return made


def _carts(con: duckdb.DuckDBPyConnection) -> None:
    """10,000 customers of a shop, most with a few rows and some with hundreds, over 24 months."""
    draw = np.random.default_rng(1)
    people = 10_000
    sizes = np.floor(np.exp(draw.normal(1.8, 1.3, people))).astype(np.int64) + 1
    person = np.repeat(np.arange(people), sizes)
    n = len(person)
    item = np.floor(12_000 * draw.random(n) ** 2.5).astype(np.int64)
    start = np.repeat(draw.integers(0, 24, people), sizes)
    grp = ((start + np.floor(draw.exponential(6, n)).astype(np.int64)) % 24).astype(np.int64)
    spend = np.repeat(draw.lognormal(0, 0.5, people), sizes)
    cents = np.clip(np.round(100 * spend * draw.lognormal(2.7, 0.8, n)), 1, 99_999)
    cents = cents.astype(np.int64)
    _create(con, "carts", {"person": person, "item": item, "grp": grp, "cents": cents})
    con.execute("ALTER TABLE carts ADD COLUMN value DECIMAL(9, 2)")
    con.execute("UPDATE carts SET value = CAST(cents AS DECIMAL(18, 0)) / 100")
    con.execute("ALTER TABLE carts DROP COLUMN cents")


def _readers(con: duckdb.DuckDBPyConnection) -> None:
    """500 people, each with dozens of items and some with thousands; most items have one person."""
    draw = np.random.default_rng(2)
    people = 500
    sizes = np.floor(np.exp(draw.normal(3.5, 1.4, people))).astype(np.int64) + 1
    person = np.repeat(np.arange(people), sizes)
    item = np.floor(60_000 * draw.random(len(person)) ** 2).astype(np.int64)
    _create(con, "readers", {"person": person, "item": item})


def _homes(con: duckdb.DuckDBPyConnection) -> None:
    """10,000 people in one to three of 400 cities each, few of them large."""
    draw = np.random.default_rng(3)
    people = 10_000
    person = np.repeat(np.arange(people), draw.choice([1, 2, 3], people, p=[0.7, 0.2, 0.1]))
    item = np.floor(400 * draw.random(len(person)) ** 4).astype(np.int64)
    _create(con, "homes", {"person": person, "item": item})


def _create(con: duckdb.DuckDBPyConnection, name: str, columns: dict[str, np.ndarray]) -> None:
    con.register("__columns", columns)
    con.execute(f"CREATE TABLE {name} AS FROM __columns")
    con.unregister("__columns")


_LINES = "lineitem JOIN orders ON l_orderkey = o_orderkey"
_Q6 = (
    "l_shipdate BETWEEN DATE '1994-01-01' AND DATE '1994-12-31' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)
TPCH = {
    "lineitem": "SELECT o_custkey AS person, l_partkey AS item, "
    "l_returnflag || l_linestatus AS grp, CAST(l_quantity AS DECIMAL(9, 2)) AS value "
    f"FROM {_LINES} WHERE l_shipdate <= DATE '1998-09-02'",
    "q6": f"SELECT o_custkey AS person, CAST(l_extendedprice * l_discount AS DECIMAL(12, 2)) "
    f"AS value FROM {_LINES} WHERE {_Q6}",
    "q6_few": "SELECT o_custkey AS person, CAST(l_extendedprice * l_discount AS DECIMAL(12, 2)) "
    f"AS value FROM {_LINES} JOIN customer ON o_custkey = c_custkey "
    f"JOIN nation ON c_nationkey = n_nationkey WHERE n_name = 'GERMANY' AND {_Q6}",
    "orders": "SELECT o_custkey AS person, "
    "CAST(12 * (year(o_orderdate) - 1992) + month(o_orderdate) - 1 AS BIGINT) AS grp FROM orders",
}
"""Customers are the persons: each question's rows, joined and filtered."""

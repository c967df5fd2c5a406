"""A small database of people for engines: values at the ends of their types, keys of several people."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

SCHEMA = """
CREATE TABLE shop.ratings (user_id VARCHAR, title VARCHAR, score INTEGER);
CREATE TABLE shop.orders (order_id INTEGER, buyer VARCHAR, cost BIGINT);
CREATE TABLE shop.items (order_id INTEGER, item_id INTEGER, title VARCHAR);
CREATE TABLE shop.notes (item_id INTEGER, word VARCHAR);
"""
_PEOPLE = ["ann", "Ann", "", "NULL", "a/b", "o'k", "ä", "🦆", " ", "bob", "1", "01", '"q"', "x\ty"]
_TITLES = ["Dune", "dune", "", "NULL", "a'b", '"', "\\", "ÄÖ", "x" * 300, "a\0b", "a,b", "[]"]

Rows = list[tuple[Any, ...]]


def _rows() -> dict[str, Rows]:
    """NULLs, repeated rows, people with few rows and with many; some orders have two buyers."""
    ratings: Rows = [
        (_PEOPLE[i * i % 11 if i % 3 else i % 14], _TITLES[(i * 7 + i // 5) % 12], i % 9 - 4)
        for i in range(120)
    ]
    ratings += [(None, "Dune", 1), ("ann", None, 2), ("bob", "[]", None), (None, None, None)]
    ratings += [("only", "rare", 1), ("only", "rare", 1)]
    orders: Rows = [(i % 17, _PEOPLE[i % 9], i * 11) for i in range(30)]
    orders += [(None, "ann", 3), (5, None, 4), (99, "bob", -(1 << 63)), (98, "ann", (1 << 63) - 1)]
    items: Rows = [(i % 20, i % 13, _TITLES[i % 12]) for i in range(60)]
    items += [(None, 1, "Dune"), (3, None, "[]")]
    notes: Rows = [(i % 15, f"word {i % 5}") for i in range(40)]
    notes += [(None, "word 1"), (4, None)]
    return {"ratings": ratings, "orders": orders, "items": items, "notes": notes}


ROWS: Mapping[str, Rows] = _rows()

TYPED: Mapping[str, Sequence[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "0"],
    "UBIGINT": ["18446744073709551615", "0"],
    "HUGEINT": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"],
    "UHUGEINT": ["340282366920938463463374607431768211455", "0"],
    "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001", "1.0000000000"],
    "DECIMAL(4,2)": ["-99.99", "0.10"],
    "UUID": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "DATE": ["infinity", "-infinity", "9999-12-31", "0001-01-01", "0044-03-15 (BC)", "5881580-07-10"],
    "TIME": ["24:00:00", "00:00:00", "23:59:59.999999"],
    "TIMESTAMP": ["infinity", "0044-03-15 (BC) 01:02:03", "294247-01-10 04:00:54.775806"],
    "TIMESTAMP_S": ["2020-02-29 00:00:01", "infinity"],
    "TIMESTAMP_MS": ["2020-02-29 00:00:01.001", "infinity"],
    "TIMESTAMP_NS": ["1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806"],
    "TIMESTAMP WITH TIME ZONE": ["2020-01-31 10:00:00+00", "0044-03-15 (BC) 01:02:03+00", "infinity"],
    "BLOB": ["", r"\x00\xFF", "abc", r"\x5C"],
    "ENUM('it''s', '', 'a,b', 'NULL')": ["it's", "", "a,b", "NULL"],
    "VARCHAR": ["", "NULL", "null", r"\N", " ", "Dune", "dune", "🦆", "x" * 3000, "'", '"', "[]"],
}  # fmt: skip
"""Values as DuckDB writes them, by their types."""


@contextmanager
def shop(rows: Mapping[str, Rows] = ROWS) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the tables, in the database shop."""
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS shop; SET TimeZone = 'UTC'")
        connection.execute(SCHEMA)
        for table, some in rows.items():
            if some:
                marks = ", ".join("?" for _ in some[0])
                connection.executemany(f"INSERT INTO shop.{table} VALUES ({marks})", some)
        yield connection

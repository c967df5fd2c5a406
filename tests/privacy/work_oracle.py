"""The work oracle: how much more work may a source cause where one row is added, or one person?

It runs what was written on a database and on its neighbours, and reads from EXPLAIN ANALYZE how
many rows each operator made. A neighbour may have what the writer promised more, and the public
rows; no operator may compare each row with each. It knows nothing of how sources are written.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.errors import NotPrivate, NotSupported
from dp_sql.policy.limits import WorkLimits
from dp_sql.policy.model import parse_policy
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.privacy.relations.tree_sql import Written, written
from dp_sql.sql.sqlglot_tree import Unreadable, tree_of

LIMITS = WorkLimits(5, 20_000)
MANY = 3_000
"""How many rows the person with many rows has in each table."""
_SHOP = """
CREATE TYPE mood AS ENUM ('calm', 'merry');
CREATE TABLE ratings (user_id BIGINT, title VARCHAR, genre VARCHAR COLLATE NOCASE, score INTEGER,
                      four INTEGER, x DOUBLE, price DECIMAL(8, 2), mood mood);
CREATE TABLE orders (order_id INTEGER, buyer BIGINT, title VARCHAR, score INTEGER);
CREATE TABLE posts (user_id BIGINT, tags VARCHAR[]);
CREATE TABLE items (order_id INTEGER, product VARCHAR, score INTEGER);
CREATE TABLE people (user_id BIGINT PRIMARY KEY, city VARCHAR);
CREATE TABLE carts (cart_id INTEGER PRIMARY KEY, user_id BIGINT, score INTEGER);
CREATE TABLE lines (cart_id BIGINT, line INTEGER, product VARCHAR, score INTEGER,
                    PRIMARY KEY (cart_id, line));
CREATE TABLE catalog AS
    SELECT 't' || i AS title, ('g' || (i % 20)) COLLATE NOCASE AS genre, i AS year,
           (i % 2)::DOUBLE AS x, (i % 40)::DECIMAL(8, 2) AS price,
           (CASE WHEN i % 3 = 0 THEN 'calm' ELSE 'merry' END)::mood AS mood
    FROM range(2000) AS r(i);
CREATE TABLE four AS SELECT 1 AS k, i AS a, i % 2 AS b, -i AS c FROM range(4) AS r(i);
CREATE TABLE years AS SELECT i AS year, i % 10 AS decade FROM range(100) AS r(i);
INSERT INTO ratings
    SELECT i % 30, 't' || (i % 50), 'g' || (i % 20), i % 7, 2, 2, 50, 'merry' FROM range(60) AS r(i);
INSERT INTO orders SELECT i, i % 30, 't' || i, i % 7 FROM range(40) AS r(i);
INSERT INTO items SELECT i % 40, 'p' || i, i % 7 FROM range(80) AS r(i);
INSERT INTO posts SELECT i % 30, ['t1', 't' || i] FROM range(60) AS r(i);
INSERT INTO people SELECT i, 'c' || (i % 5) FROM range(30) AS r(i);
INSERT INTO carts SELECT i, i % 30, i % 7 FROM range(40) AS r(i);
INSERT INTO lines SELECT i % 40, i, 'p' || i, i % 7 FROM range(80) AS r(i);
CREATE VIEW liked AS SELECT user_id AS reader, title, four FROM ratings WHERE score > 3;
"""
_POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.orders.privacy_unit = "buyer"
tables.posts.privacy_unit = "user_id"
tables.items.privacy_unit = { link = "order_id", to = "orders.order_id" }
tables.people.privacy_unit = "user_id"
tables.carts.privacy_unit = "user_id"
tables.lines.privacy_unit = { link = "cart_id", to = "carts.cart_id" }
public.tables = ["catalog", "four", "years"]
views.tables = ["liked"]
"""
ROW = """
INSERT INTO ratings VALUES (999, 't1', 'G1', 5, 1, 0, 1, 'calm');
INSERT INTO orders VALUES (999, 999, 't1', 5);
INSERT INTO items VALUES (999, 'p1', 5);
INSERT INTO people VALUES (999, 'c1');
INSERT INTO carts VALUES (999, 999, 5);
INSERT INTO lines VALUES (999, 1, 'p1', 5);
INSERT INTO posts SELECT 999, list('t' || (i % 2000)) FROM range(5000) AS r(i);
"""
"""One row of one person in each table: it meets many public rows by every column."""
PERSON = f"""
INSERT INTO ratings SELECT 999, 't' || (i % 2000), 'G1', i, 1, i % 2, 1, 'calm'
    FROM range({MANY}) AS r(i);
INSERT INTO orders SELECT 1000 + i, 999, 't1', i % 7 FROM range({MANY}) AS r(i);
INSERT INTO items SELECT 1000 + i, 'p' || i, i % 7 FROM range({MANY}) AS r(i);
INSERT INTO posts SELECT 999, ['t' || (i % 2000)] FROM range({MANY}) AS r(i);
INSERT INTO people VALUES (999, 'c1');
INSERT INTO carts SELECT 1000 + i, 999, i % 7 FROM range({MANY}) AS r(i);
INSERT INTO lines SELECT 1000 + i % 50, i, 'p' || i, i % 7 FROM range({MANY}) AS r(i);
"""
PUBLIC_ROWS = 2_000
PRIVATE = ("ratings", "orders", "items", "posts", "people", "carts", "lines")
# Operators that compare each row of one side with each of the other.
EACH_WITH_EACH = {"BLOCKWISE_NL_JOIN", "NESTED_LOOP_JOIN", "CROSS_PRODUCT", "POSITIONAL_JOIN"}


@dataclass(frozen=True)
class Operator:
    """One operator of a plan that was run, and how many rows it made."""

    kind: str
    rows: int


@dataclass(frozen=True)
class Work:
    """What running a SELECT took."""

    operators: tuple[Operator, ...]

    @property
    def largest(self) -> int:
        """The most rows that one operator made."""
        return max((operator.rows for operator in self.operators), default=0)

    @property
    def kinds(self) -> set[str]:
        return {operator.kind for operator in self.operators}


def work_of(connection: Any, select: str) -> Work:
    """Run a SELECT, and read what its operators made."""
    (row,) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {select}").fetchall()
    found = tuple(_operators(json.loads(row[1])))
    if not any("SCAN" in operator.kind or "EMPTY" in operator.kind for operator in found):
        raise ValueError(f"This version writes plans in another way: {row[1][:500]}")
    return Work(found)


def _operators(node: dict[str, Any]) -> Iterator[Operator]:
    """DuckDB 1.5 calls them operator_type and operator_cardinality, 2.0 type, intermediate_rows."""
    kind = node.get("operator_type", node.get("type"))
    rows = node.get("operator_cardinality", node.get("intermediate_rows"))
    if kind is not None and rows is not None:
        yield Operator(kind, int(rows))
    below: Sequence[dict[str, Any]] = [*node.get("children", []), *node.get("operator", [])]
    for child in below:
        yield from _operators(child)


class Shops:
    """One database and its neighbours, each as the private side of a session sees it.

    names: `before`, `row` with one row of one person more, `person` with many rows of one more.
    """

    def __init__(self, directory: Path) -> None:
        self.policy = parse_policy(_POLICY)
        self.sides: dict[str, PrivateConnection] = {}
        for name, more in (("before", ""), ("row", ROW), ("person", PERSON)):
            path = directory / name / "shop.duckdb"
            path.parent.mkdir()
            with duckdb.connect(str(path)) as owner:
                owner.execute(_SHOP + more)
            self.sides[name] = PrivateConnection(str(path))

    def close(self) -> None:
        for side in self.sides.values():
            side.close()

    def written(self, text: str, name: str = "before", limits: WorkLimits = LIMITS) -> Written:
        """The source of a statement, as SQL.

        Raises:
            NotPrivate: it is refused.
            NotSupported: it could cause too much work.
            Unreadable: sqlglot has no tree of it.
        """
        side = self.sides[name]
        rows = Compiler(PolicyTables(side, self.policy), limits).query(tree_of(text))
        if not rows.is_private:
            raise NotPrivate("This source is public.")
        return written(rows.relation, side, limits)

    def outcome(self, text: str, name: str) -> Written | str:
        """What is written for a statement, or the refusal."""
        try:
            return self.written(text, name)
        except (NotPrivate, NotSupported, Unreadable) as error:
            return f"{type(error).__name__}: {error}"

    def work(self, source: Written, name: str) -> Work:
        """Run a source as a release runs it."""
        connection = self.sides[name]._connection
        return work_of(connection, source.sql)


def check(text: str, shops: Shops, *, with_each_public_row: bool = False) -> bool:
    """The whole oracle for one text; whether it was accepted.

    with_each_public_row: it joins a public table on no equal columns, so each row meets each of it.

    Raises:
        AssertionError: one row, or one person, causes more work than was promised.
    """
    found = shops.outcome(text, "before")
    for name in ("row", "person"):
        assert shops.outcome(text, name) == found, "private rows decide what is accepted"
    if isinstance(found, str):
        return False
    # Of the same source with one row a person: what the joins with public tables make of one row.
    fans = shops.written(text, limits=WorkLimits(1, 10**8)).work.joined_rows_per_person or 1
    reads = sum(found.sql.count(f'"main"."{table}"') for table in PRIVATE)
    promised = found.work.joined_rows_per_person
    before = shops.work(found, "before")
    one_row, one_person = (shops.work(found, name) for name in ("row", "person"))
    of_row = fans * reads**2 if promised is None else min(fans * reads**2, promised)
    _check_growth(before, one_row, of_row, "one row")
    _check_growth(before, one_person, (promised or 0) + MANY * reads, "one person")
    for work in () if with_each_public_row else (before, one_row, one_person):
        assert not work.kinds & EACH_WITH_EACH, f"each row is compared with each: {work.kinds}"
    return True


def _check_growth(before: Work, after: Work, allowed: int, what: str) -> None:
    growth = after.largest - before.largest
    assert growth <= allowed + PUBLIC_ROWS, (
        f"{what} makes {growth:,} rows more; {allowed:,} and the public rows were promised"
    )
    assert -growth <= PUBLIC_ROWS, f"{what} saves the work of {-growth:,} rows"

"""Small databases of people: tables, a policy, and rows that are hard to get right.

The databases are full of extremes: the ends of every type, NULL persons, persons that differ by
case under NOCASE, columns called like another table's privacy unit, keys that two people share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

import duckdb

from dp_sql.errors import SourceError
from dp_sql.policy.model import parse_policy
from dp_sql.privacy.catalog import Schema, view_body
from dp_sql.sql.tokens import folded

TABLES = """
CREATE TYPE genre AS ENUM ('poems', 'novel', 'essay');
CREATE TABLE ratings (user_id BIGINT, title VARCHAR, score INTEGER, day DATE, kind genre,
                      price DECIMAL(38, 10), flag BOOLEAN);
CREATE TABLE visits (visitor BIGINT, user_id BIGINT, page VARCHAR, seen TIMESTAMP, x DOUBLE, f FLOAT,
                     h HUGEINT, u UBIGINT, t TINYINT);
CREATE TABLE orders (order_id INTEGER, buyer BIGINT, title VARCHAR, cost DECIMAL(9, 2),
                     tz TIMESTAMP WITH TIME ZONE);
CREATE TABLE items (order_id INTEGER, title VARCHAR, n USMALLINT);
CREATE TABLE odd (person UBIGINT, uh UHUGEINT, ns TIMESTAMP_NS, s TIMESTAMP_S, tm TIME, id UUID,
                  b BLOB, l INTEGER[]);
CREATE TABLE accounts (name VARCHAR COLLATE NOCASE, title VARCHAR COLLATE NOCASE);
CREATE TABLE logins (name VARCHAR COLLATE NOCASE, title VARCHAR);
CREATE TABLE catalog (title VARCHAR, year INTEGER, user_id BIGINT);
CREATE TABLE pages (page VARCHAR, section VARCHAR, seen TIMESTAMP);
CREATE TABLE secret (user_id BIGINT, title VARCHAR);
CREATE VIEW recent AS SELECT user_id AS reader, title, score FROM ratings WHERE score > 0;
CREATE VIEW bought AS FROM orders JOIN items USING (order_id);
CREATE VIEW counted AS SELECT title, count(*) AS n FROM ratings GROUP BY title;
"""
POLICY = parse_policy("""
[tables]
ratings = { privacy_unit = "user_id" }
visits = { privacy_unit = "visitor" }
orders = { privacy_unit = "buyer" }
items = { privacy_unit = { link = "order_id", to = "orders.order_id" } }
odd = { privacy_unit = "person" }
accounts = { privacy_unit = "name" }
logins = { privacy_unit = "name" }
[public]
tables = ["catalog", "pages"]
[views]
tables = ["recent", "bought", "counted"]
""")
UNITS = {
    "ratings": "user_id", "visits": "visitor", "orders": "buyer", "odd": "person",
    "accounts": "name", "logins": "name",
}  # fmt: skip
NUMBERED, NAMED = ("1", "2", "3"), ("ann", "Ann", "bob")

_TITLES = [
    "'Dune'",
    "'dune'",
    "'Emma'",
    "''",
    "NULL",
    "' Dune '",
    "'%_\\'",
    "repeat('x', 5000)",
    "'ÄÖ ß'",
]
_TIMES = ["'2020-01-31 12:00:00'", "'2020-02-29'", "'infinity'", "'-infinity'", "'0044-03-15 (BC)'",
          "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC) 00:00:00'", "NULL", "'1970-01-01'"]  # fmt: skip
_KEYS = ["1", "2", "3", "NULL", "-2147483648", "2147483647"]
POOLS: dict[str, list[list[str]]] = {
    "ratings": [
        _TITLES, ["1", "2", "3", "NULL", "-2147483648", "2147483647"],
        ["'2020-01-31'", "'infinity'", "'-infinity'", "'5877642-06-25 (BC)'", "'5881580-07-10'", "NULL", "'2020-02-29'", "'0044-03-15 (BC)'"],
        ["'novel'", "'poems'", "NULL", "'essay'"],
        ["1.5", "0", "NULL", "9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0.1"],
        ["TRUE", "FALSE", "NULL"],
    ],
    "visits": [
        ["1", "2", "3", "NULL"], ["'a'", "'b'", "NULL", "'A'"], _TIMES,
        ["0.0", "-0.0", "'nan'", "'inf'", "'-inf'", "1.5", "0.1", "1.7976931348623157e308", "NULL", "5e-324"],
        ["0.1", "'nan'", "3.4028235e38", "16777216", "NULL", "-0.0", "1.5"],
        ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105728", "2", "NULL", "9007199254740993"],
        ["18446744073709551615", "0", "2", "9007199254740993", "NULL"], ["-128", "127", "1", "2", "NULL"],
    ],
    "orders": [
        _TITLES, ["9999999.99", "-9999999.99", "2.50", "NULL", "0"],
        ["'2020-01-31 12:00:00+02'", "'infinity'", "'-infinity'", "NULL", "'290309-12-22 (BC) 00:00:00+00'",
         "'294247-01-10 04:00:54.775806+00'"],
    ],
    "items": [_TITLES, ["0", "65535", "2", "NULL"]],
    "odd": [
        ["340282366920938463463374607431768211455", "0", "2", "NULL"],
        ["'1677-09-22 00:00:00'", "'2262-04-11 23:47:16.854775806'", "'2020-01-01'", "NULL", "'infinity'"],
        ["'2020-01-01'", "'infinity'", "NULL", "'294247-01-10 04:00:54'", "'290309-12-22 (BC) 00:00:00'"], ["'00:00:00'", "'24:00:00'", "NULL"],
        ["'00000000-0000-0000-0000-000000000000'", "NULL", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
        ["'\\x00\\xFF'::BLOB", "''::BLOB", "NULL"], ["[1, NULL]", "[]", "NULL"],
    ],
    "accounts": [_TITLES], "logins": [_TITLES],
    "catalog": [_TITLES, ["1965", "1815", "NULL", "2"], ["1", "2", "NULL"]],
    "pages": [["'a'", "'b'", "NULL"], ["'x'", "'y'", "NULL"], ["'2020-01-31 12:00:00'", "NULL", "'infinity'"]],
    "secret": [["1", "2"], ["'Dune'"]],
}  # fmt: skip
OWNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ratings", "visits", "orders", "odd"), (*NUMBERED, "NULL")),
    **{table: (*(f"'{name}'" for name in NAMED), "NULL") for table in ("accounts", "logins")},
    "items": ("1", "2", "3", "NULL"), "catalog": ("",), "pages": ("",), "secret": ("",),
}  # fmt: skip

_DISABLED = "statistics_propagation, common_subexpressions"  # as on the private side

Row = tuple[str, int]
"""The owner, and a number that chooses the other values."""
Data = dict[str, list[Row]]


def _quoted(value: str) -> str:
    """Numbers go in as texts, so that a column of VALUES has one type before its own."""
    return f"'{value}'" if value[0] in "-0123456789" else value


def _values(table: str, row: Row, key: str | None) -> str:
    owner, n = row
    pools = enumerate(POOLS[table])
    others = [_quoted(pool[(n * (2 * i + 3) + n // 7 + i) % len(pool)]) for i, pool in pools]
    if table == "orders":
        return ", ".join([key or _KEYS[n % len(_KEYS)], owner, *others])
    return ", ".join([*([owner] if owner else []), *others])


class Database(Schema):
    """One connection that holds one database after another; also what Compiler may ask."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'; SET autoload_known_extensions = false")
        self.rewrite(True)
        self.connection.execute(TABLES)
        self._filled: Data = {}

    @cached_property
    def empty(self) -> Database:
        """Another database of the same tables and views, without a row."""
        return Database()

    def define(self, sql: str) -> None:
        """Change what the tables or views are."""
        for connection in (self.connection, self.empty.connection):
            connection.execute(sql)

    def close(self) -> None:
        self.empty.connection.close()
        self.connection.close()

    def hold(self, data: Data) -> None:
        """Fill all tables, unless they hold these data already."""
        if data != self._filled:
            self.fill(data, POOLS)
            self._filled = data

    def fill(self, data: Data, tables: Iterable[str], tidy: bool = False) -> None:
        """Fill some tables; tidy: every row has an owner, and no key of an order has two."""
        for table in tables:
            self.connection.execute(f"TRUNCATE {table}")
            rows = data.get(table, [])
            if tidy:
                rows = [(owner, n) for owner, n in rows if owner != "NULL"]
            keys = [owner if tidy else None for owner, _ in rows]
            if tidy and table == "items":
                owners = {owner for owner, _ in data.get("orders", [])}
                rows = [row for row in rows if row[0] in owners]
            lines = [f"({_values(table, row, key)})" for row, key in zip(rows, keys, strict=False)]
            if lines:
                self.connection.execute(f"INSERT INTO {table} VALUES {', '.join(lines)}")

    def remove(self, person: str, tables: Collection[str], with_items: bool) -> None:
        """Remove the rows of one person from some tables, and items of this person's own orders."""
        if with_items and "items" in tables:
            self.connection.execute(
                "DELETE FROM items WHERE order_id IN (SELECT order_id FROM orders GROUP BY order_id "
                f"HAVING count(*) = count(*) FILTER (CAST(buyer AS VARCHAR) = '{person}'))"
            )
        for table in UNITS.keys() & tables:
            unit = UNITS[table]
            self.connection.execute(
                f"DELETE FROM {table} WHERE CAST({unit} AS VARCHAR) COLLATE \"binary\" = '{person}'"
            )

    def rows(self, select: str) -> list[tuple[str | None, ...]]:
        """The rows of a SELECT as texts."""
        return self.connection.execute(
            f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({select})"
        ).fetchall()

    def rewrite(self, rewriting: bool) -> None:
        """Whether DuckDB rewrites expressions; without, it computes each one as it is written.

        It writes date_trunc('year', day) > '2020-01-31' as a comparison of day itself, which keeps
        rows for which date_trunc fails, and on 1.5 loses infinity and keeps NULL.
        """
        more = "" if rewriting else ", expression_rewriter"
        self.connection.execute(f"SET disabled_optimizers = '{_DISABLED}{more}'")

    # --- dp_sql.privacy.catalog.Schema ---

    def table(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        wanted = tuple(folded(part) for part in parts)
        for table in POOLS:
            full = ("memory", "main", table)
            if full[-len(wanted) :] == wanted:
                return full
        return None

    def view(self, parts: Sequence[str]) -> str | None:
        rows = self.connection.execute(
            "SELECT sql FROM duckdb_views() WHERE view_name = $1 AND NOT internal",
            [folded(parts[-1])],
        ).fetchall()
        return view_body(rows[0][0]) if rows else None

    def inside(self, view: Sequence[str]) -> Database:
        return self

    def columns(self, select: str) -> list[tuple[str, str]]:
        try:
            rows = self.connection.execute(f"DESCRIBE {select}").fetchall()
        except duckdb.Error as error:
            raise SourceError(str(error)) from None
        return [(row[0], row[1]) for row in rows]

    def public_values(self, select: str) -> list[object]:
        try:
            return [row[0] for row in self.connection.execute(select).fetchall()]
        except duckdb.Error as error:
            raise SourceError(str(error)) from None

    def public_number(self, select: str) -> int:
        return int(self.connection.execute(select).fetchall()[0][0])

    def public_rows(
        self, select: str, tables: frozenset[tuple[str, ...]]
    ) -> tuple[str, frozenset[tuple[str, ...]]]:
        name = f"__dp_public_{hashlib.sha256(select.encode()).hexdigest()[:32]}"
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")
        return f"temp.main.{name}", frozenset({("temp", "main", name)})

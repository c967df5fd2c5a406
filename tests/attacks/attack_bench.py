"""Two databases that differ in one person, spies on what reaches them, and the corpus of attacks.

In a file of the corpus, a comment of one line says what the statements under it must get, up to an
empty line: an error's class and the beginning of its message, or `answered`, or `released` with noise;
with `open:` in front where the session does something else so far. Each line is a statement. In it
`<U+000A>` stands for that character, here the end of a line, `<5000*1>` for 5000 ones, `<EMPTY>` for nothing.
"""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import private_connection as duckdb_private
from dp_sql.session.analyst import AnalystSession
from tests.databases import write_database

ATTACKS = Path(__file__).parent
CANARIES = ("canary", "987654321")
"""What only one person has, what only a hidden table has, and what the owner wrote in the schema."""

_SHOP = """
CREATE TYPE mood AS ENUM ('calm', 'merry');
CREATE SEQUENCE ids START 987654321;
CREATE TABLE ratings (
    user_id BIGINT, title VARCHAR DEFAULT 'canary-default', score BIGINT CHECK (score <> 987654321),
    day DATE, region VARCHAR, price DECIMAL(8, 2), mood mood, weight DOUBLE, tags VARCHAR[]);
INSERT INTO ratings
    SELECT i % 50, 'b' || (i % 3), i, DATE '2024-01-01' + i::INTEGER, ['north', 'south'][1 + i % 2],
           i % 7, 'calm', i / 3, ['t' || i % 5]
    FROM range(2000) AS r(i);
COMMENT ON TABLE ratings IS 'canary-comment';
COMMENT ON COLUMN ratings.title IS 'canary-comment';
CREATE TABLE orders AS SELECT i AS order_id, i % 5 AS user_id FROM range(10) AS r(i);
CREATE TABLE order_items AS SELECT i % 10 AS order_id, 'p' || i AS product FROM range(30) AS r(i);
CREATE TABLE catalog AS SELECT 'b' || i AS title, 'g' || i AS genre FROM range(3) AS r(i);
CREATE TABLE secret AS SELECT 987654321 AS x, 'canary-hidden' AS note;
CREATE VIEW recent AS SELECT * FROM ratings WHERE score > 3 AND title <> 'canary-view';
CREATE VIEW hidden_secret AS SELECT x AS user_id, note AS title FROM secret;
CREATE VIEW public_looking AS SELECT title FROM ratings;
CREATE SCHEMA other;
CREATE TABLE twice AS SELECT 1 AS user_id, 'x' AS title;
CREATE TABLE other.twice AS SELECT 1 AS user_id, 'canary-other' AS title;
CREATE MACRO favourite(u) AS (SELECT max(title) FROM ratings WHERE user_id = u OR title = 'canary-x');
CREATE INDEX by_region ON ratings (region);
"""
_PERSON = """
INSERT INTO ratings
    SELECT 987654321, 'canary-4711', -77, DATE '1900-01-01' - i::INTEGER, 'north', 1, 'merry', 'nan',
           ['canary-tag']
    FROM range(40) AS r(i);
INSERT INTO orders VALUES (987654321, 987654321);
INSERT INTO order_items VALUES (987654321, 'canary-product');
"""
# An ENUM made from people's values has a label more with one person more.
_LABELS = "'merry', 'canary-mood'"
_POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.order_items.privacy_unit = { link = "order_id", to = "orders.order_id" }
tables.orders.privacy_unit = "user_id"
tables."main.twice".privacy_unit = "user_id"
public.tables = ["catalog"]
views.tables = ["recent"]
domains."ratings.title" = "catalog.title"
domains."ratings.region" = ["north", "south", "east"]
[limits]
max_epsilon_per_query = 10
max_k = 100
max_contributions = 1000
"""
RIGHT = "SELECT DP_TOPK(title, 2, epsilon := 1) AS best FROM ratings WHERE score > 100"


@dataclass(frozen=True)
class Attack:
    """One statement, and what it must get: the error's class and words, `answered` or `released`."""

    family: str
    statement: str
    outcome: str
    words: str
    is_open: bool


@dataclass(frozen=True)
class Outcome:
    """What came of a statement: the error's class and text, or the answer; and what it said.

    shape: what may be known of a release: columns, types, and how many values there are.
    """

    kind: str
    text: str
    said: str
    shape: str = ""


_CASES = re.compile(r"^-- (open: )?([\w|]+(?:: .*)?)\n((?:(?!-- ).+\n)+)", re.MULTILINE)
_SIGN = re.compile(r"<U\+([0-9A-F]{4,6})>|<(\d+)\*(.)>|<EMPTY>")


def families() -> list[str]:
    """The names of the files of attacks."""
    return sorted(path.stem for path in ATTACKS.glob("*.sql"))


def attacks(family: str) -> list[Attack]:
    """The cases of one file."""
    written = (ATTACKS / f"{family}.sql").read_text(encoding="utf-8")
    found = []
    for later, head, statements in _CASES.findall(written):
        outcome, _, words = head.partition(": ")
        for line in statements.removesuffix("\n").split("\n"):
            found.append(Attack(family, _signs(line), outcome, words, bool(later)))
    return found


def _signs(written: str) -> str:
    def sign(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return found[3] * int(found[2]) if found[2] else ""

    return _SIGN.sub(sign, written)


class Spy:
    """A connection that writes down every statement it is given, and what it is to do with it."""

    def __init__(self, connection: Any, seen: list[tuple[str, str]]) -> None:
        self._connection = connection
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name == "cursor":
            return lambda: Spy(found(), self._seen)
        if name not in {"close", "create_function"}:

            def call(sql: Any, *others: Any, **more: Any) -> Any:
                self._seen.append((name, sql if isinstance(sql, str) else sql.query))
                return found(sql, *others, **more)

            return call
        return found


class Side:
    """A session over one database, and all that reached the private connection.

    Args:
        directory: where the database is made.
        with_person: whether it has the one person.
        more: what the policy says besides; it goes on with its section `limits`.
    """

    def __init__(self, directory: Path, with_person: bool, more: str = "") -> None:
        directory.mkdir()
        database, policy = directory / "shop.duckdb", directory / "policy.toml"
        shop = _SHOP.replace("'merry'", _LABELS) + _PERSON if with_person else _SHOP
        write_database(database, shop)
        policy.write_text(_POLICY + more, encoding="utf-8")
        self.seen: list[tuple[str, str]] = []
        with pytest.MonkeyPatch.context() as patch:
            opened: Any = vars(duckdb_private)["open_database"]

            def spied(path: str, read_only: bool) -> Any:
                return Spy(opened(path, read_only=read_only), self.seen)

            patch.setattr(duckdb_private, "open_database", spied)
            self.session = dp_sql.connect(str(database), policy=policy, analyst="reporting")
        assert isinstance(self.session, AnalystSession)
        self.seen.clear()  # what the owner's policy needed is no analyst's statement

    def ask(self, statement: str, params: object = None) -> Outcome:
        """Run a statement to its end."""
        return asked_of(self.session, statement, params)


def asked_of(session: Any, statement: str, params: object = None) -> Outcome:
    """Run a statement of a session to its end."""
    try:
        relation = session.sql(statement, params=params)
        rows = relation.fetchall()
        answer = repr((relation.columns, relation.types, rows))
        sizes = [[len(v) if isinstance(v, list) else 1 for v in row] for row in rows]
        shape = repr((relation.columns, relation.types, sizes))
        return Outcome("answered", answer, answer, shape)
    except Exception as error:
        said = "".join(traceback.format_exception(error)) + _chain(error)
        kind = type(error).__name__
        if not isinstance(error, dp_sql.DpSqlError | duckdb.Error):
            kind = f"foreign {kind}"
        return Outcome(kind, str(error), said)


def ledger_of(session: Any) -> tuple[object, ...]:
    """The analyst's own view of the ledger, without tickets and times."""
    return tuple(session.sql("SELECT * EXCLUDE (ticket, time) FROM dp_ledger()").fetchall())


@contextmanager
def both_sides(directory: Path, more: str = "") -> Iterator[tuple[Side, Side]]:
    """The database with the person, and the one without."""
    both = Side(directory / "with", True, more), Side(directory / "without", False, more)
    yield both
    for side in both:
        side.session.close()


def _chain(error: BaseException | None) -> str:
    """The texts of an error, of what caused it and of what it was raised in, shown or hidden."""
    said, waiting, done = "", [error], set()
    while waiting:
        found = waiting.pop()
        if found is not None and id(found) not in done:
            done.add(id(found))
            said += f"{found!r}{found.args!r}"
            said += "".join(repr(v) for v in vars(found).values() if isinstance(v, str | tuple))
            waiting += [found.__cause__, found.__context__]
    return said

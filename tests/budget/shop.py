"""A shop with a policy and a budget, and what its ledger says."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from dp_sql.budget.events import Event
from dp_sql.budget.ledger import Ledger
from dp_sql.session.analyst import AnalystSession

POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.visits.privacy_unit = "user_id"
public.tables = ["catalog"]
domains."ratings.title" = "catalog.title"
[limits]
max_delta_per_query = 1e-6
[budget]
dataset = "reading"
epsilon = 1
"""


SHOP = """
CREATE TABLE catalog AS SELECT 'book ' || i AS title FROM range(8) AS t(i);
CREATE TABLE ratings AS SELECT i % 90 AS user_id, 'book ' || (i % 7) AS title, i % 2 = 0 AS odd
    FROM range(400) AS t(i);
CREATE TABLE visits AS FROM ratings
"""


COUNT = "SELECT DP_COUNT_DISTINCT(title, epsilon := {}) AS n FROM ratings"
TOP = "SELECT DP_TOPK(title, 2, epsilon := {}) AS best FROM ratings"
SLOW = "SELECT count(*) FROM range(1000000000) AS a, range(1000) AS b WHERE a.range + b.range < 0"


Opened = Callable[..., AnalystSession]


def events(folder: Path, name: str = "policy.ledger.sqlite") -> list[Event]:
    with Ledger(folder / name, folder / f"{name}.witness", read_only=True) as ledger:
        return list(ledger.events())


def kinds(folder: Path) -> list[str]:
    return [event.kind for event in events(folder)][1:]  # the first opens the ledger


def left(session: AnalystSession) -> Fraction:
    found = session.budget()[0].epsilon_left
    assert found is not None
    return found


DISCOVER = (
    "SELECT DP_TOPK(title, 10, epsilon := 0.3, delta := 1e-9, mechanism := 'weighted_gaussian') "
    "FROM ratings"
)


class Watched:
    """A connection that notes what is in the ledger whenever it runs a mechanism."""

    def __init__(self, inner: Any, folder: Path) -> None:
        self._inner, self._folder = inner, folder
        self.seen: list[list[str]] = []

    def execute(self, sql: str | duckdb.Statement, parameters: object = None) -> Any:
        text = sql if isinstance(sql, str) else sql.query
        if "__dp_sql_" in text and not text.startswith("DESCRIBE"):
            self.seen.append(kinds(self._folder))
            sql, parameters = self.instead(sql, parameters)
        return self._inner.execute(sql, parameters)

    def instead(self, sql: str | duckdb.Statement, parameters: object) -> tuple[Any, Any]:
        """What runs in place of a release."""
        return sql, parameters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def watch(session: AnalystSession, folder: Path) -> Watched:
    private = session._private
    watched: Any = Watched(private._connection, folder)
    private._connection = private._engine.connection = watched
    return watched

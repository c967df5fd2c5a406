"""Sessions on a DuckDB whose private tables have no rows: an engine has them, and reads in parts."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from dp_sql.engines.by_parts import ByParts
from dp_sql.engines.duckdb.connection import Engine as DuckDb
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.engines.protocol import PartedEngine
from dp_sql.errors import SourceError
from dp_sql.privacy.plans.plan import Released, drawn_from
from dp_sql.privacy.private_sql.bundles import bundles
from dp_sql.privacy.private_sql.release_select import release_columns


def by_parts(patch: pytest.MonkeyPatch, make: Callable[[Any], PartedEngine]) -> None:
    """Let an engine read people's rows; it is made for each release, of the session's connection."""

    def owners(self: Any, plans: Any, tickets: Any, frozen: Any) -> list[Released]:
        plans = [*map(drawn_from, plans)]

        def run() -> Any:
            engine = make(self.connection)
            with ByParts(engine, self.connection).released(plans, tickets) as selects:
                made = zip(plans, selects, strict=True)
                return [
                    Released(frozen.insert(release_columns(plan), sql, self.run))
                    for plan, sql in made
                ]

        with contextlib.suppress(Exception):
            return self._redeem(plans[0], tickets, run)
        raise SourceError("DuckDB or the engine could not compute the source.")

    def analysts(self: Any, plans: Any, tickets: Any) -> list[Any]:
        plans, answers = [*map(drawn_from, plans)], [()] * len(plans)
        for places in bundles(plans):
            engine, some = make(self._connection), [plans[i] for i in places]
            theirs = [tickets[i] for i in places]
            with ByParts(engine, self._connection).released(some, theirs) as selects:
                for i, sql in zip(places, selects, strict=True):
                    answers[i] = self._run(sql).fetchall()
        return answers

    patch.setattr(DuckDb, "release", owners)
    patch.setattr(DuckDb, "as_drawn", lambda self, plan: drawn_from(plan))
    patch.setattr(PrivateConnection, "_answers", analysts)
    patch.setattr(PrivateConnection, "_as_drawn", lambda self, plan: drawn_from(plan))

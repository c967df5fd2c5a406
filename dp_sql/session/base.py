"""One face for both kinds of session, and the order in which a statement is answered.

    parse → plan each DP call → bind → reserve budget → release → write the outer statement → run

owner.py and analyst.py say what differs: which statements are read, which compiler plans a call,
who reserves the budget, and what is visible.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Literal, Self

from dp_sql.budget.account import Account, BudgetRow, owner_rows
from dp_sql.budget.ledger import Ledger
from dp_sql.engines.duckdb.connection import Connection, Engine
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.privacy.outer_sql import Edit, outer_sql
from dp_sql.privacy.plan import Plan
from dp_sql.privacy.private_sql import stand_ins
from dp_sql.releases import Receipt, Release
from dp_sql.session.explain import Cost, Explanation, cost_of, cost_sql
from dp_sql.session.system_tables import Table, system_table, unknown_release
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.statement import Statement

Method = Literal["relate", "run"]
"""What an Engine does with the outer statement: return its relation, or run it."""


class Session(ABC):
    """A connection that answers SQL with DP calls; `dp_sql.connect` opens one.

    One thread at a time may use it. For several threads, open a session for each.

    Privacy: each DP call is one release with the epsilon written in it, under adding or removing
        all rows of one person. Reading the result again is free.
    """

    def __init__(
        self, tickets: Tickets, number: int, ledger: Ledger | None, account: Account | None
    ) -> None:
        self._tickets = tickets
        self._number = number  # of the connection whose releases these are
        self._ledger = ledger
        self._account = account
        self._lock = threading.RLock()

    def sql(self, text: str, *, params: object = None) -> Any:
        """Answer a statement and return its relation, as `duckdb` does.

        Args:
            text: on the owner's connection, any DuckDB SQL; several statements return the last
                result. Under a policy, one SELECT, `EXPLAIN SELECT …` (which spends nothing),
                `SHOW TABLES` or `DESCRIBE table`. DP calls go in SELECT lists. `dp_budget()`,
                `dp_ledger()`, `dp_releases()` and `dp_release('id')` are tables.
            params: values of the statement's parameters. DP calls and their sources take none.

        Returns:
            A `DuckDBPyRelation` over the releases, or None if the statement has no result.

        Raises:
            QueryError: a DP call is refused before any row is read, or its release failed.
                BudgetExceeded if it costs more than is left.
            LedgerError: the ledger cannot be trusted or written.
            duckdb.Error: DuckDB's own error about the rest of the statement.
        """
        return self._answer(text, params, sys._getframe(1), "relate")

    def execute(self, text: str, params: object = None) -> Connection:
        """Answer as `sql` does, and return the connection to fetch from."""
        connection: Connection = self._answer(text, params, sys._getframe(1), "run")
        return connection

    def explain(self, text: str) -> Cost:
        """What a statement would cost. Spends nothing and reads no private row.

        On the owner's connection, how far a join multiplies rows is read from the joined table.
        """
        return self._costs([text], sys._getframe(1))

    def cost(self, texts: Sequence[str]) -> Cost:
        """What the DP calls of several statements would cost together.

        Raises:
            QueryError: one of them would be refused.
        """
        return self._costs(texts, sys._getframe(1))

    def budget(self) -> tuple[BudgetRow, ...]:
        """The budget of everyone together, then this analyst's; the owner sees every name's.

        Empty without a ledger.
        """
        if self._ledger is None or self._account is None:
            return ()
        if self.analyst is None:
            return tuple(owner_rows(self._ledger, None))
        return tuple(self._account.rows())

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """The releases that can be read again for free, oldest first."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """One receipt per release of this session, oldest first."""
        return self._tickets.receipts(self._number)

    @property
    def analyst(self) -> str | None:
        """The analyst's name; None on the owner's connection."""
        return None

    @property
    def connection(self) -> Connection | None:
        """The owner's DuckDB connection; None under a policy."""
        return None

    @abstractmethod
    def interrupt(self) -> None:
        """Stop what is running, from another thread. The session stays open."""

    @abstractmethod
    def close(self) -> None:
        """Close the session; its relations end with it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- the steps of an answer ---

    def _answer(self, text: str, params: object, frame: FrameType, method: Method) -> Any:
        engine = self._engine(frame)
        parsed = self._parse(text, params)
        if parsed is None:
            return getattr(engine, method)(text, params)
        result = None
        with self._asking():
            for number, statement in enumerate(parsed, 1):
                if number < len(parsed):
                    engine.finish(*self._released(statement, engine, None))
                else:
                    result = getattr(engine, method)(*self._released(statement, engine, params))
        return result

    def _released(self, statement: Statement, engine: Engine, params: object) -> tuple[str, object]:
        """Make the releases of a statement; returns what DuckDB runs instead, with parameters."""
        without = self._without_release(statement, engine, params)
        if without is not None:
            return without
        plans = self._plan(statement, engine)
        if statement.is_explain:
            return cost_sql(self._cost(plans, engine)), None
        self._prepare(statement)
        tables = self._system_tables(statement, engine)
        empty = _outer(statement, [f"(SELECT {stand_ins(plan)})" for plan in plans], tables)
        # DuckDB reports errors in the rest of the statement before anything is spent.
        self._bind(statement, empty, params, engine)
        if not plans:
            return empty, params
        return _outer(statement, self._release(statement, plans, engine), tables), params

    def _costs(self, texts: Sequence[str], frame: FrameType) -> Cost:
        engine = self._engine(frame)
        with self._lock:
            parsed = [one for text in texts for one in self._parse(text, None) or ()]
            plans = [plan for statement in parsed for plan in self._plan(statement, engine)]
            return self._cost(plans, engine)

    def _cost(self, plans: Sequence[Plan], engine: Engine) -> Cost:
        return cost_of([self._explained(plan, engine) for plan in plans], self._account)

    def _system_tables(self, statement: Statement, engine: Engine) -> list[Edit]:
        """The system tables that a statement reads, frozen, as edits of its text."""
        edits = []
        for call in statement.system_tables:
            if call.name == "dp_release":
                relation = self._read_again(call.argument or "", engine)
                if relation is None:
                    raise unknown_release(call, statement.text)
            else:
                table = system_table(
                    call, statement.text, self.releases, self._ledger, self.budget, self.analyst
                )
                relation = self._freeze(call.name, table)
            edits.append((call.start, call.stop, relation))
        return edits

    # --- what differs ---

    @abstractmethod
    def _engine(self, frame: FrameType) -> Engine:
        """Where the outer statement runs; `frame` has the caller's variables."""

    @abstractmethod
    def _parse(self, text: str, params: object) -> list[Statement] | None:
        """The statements of a string of SQL; None if DuckDB may run it as written."""

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """One answer at a time."""
        with self._lock:
            yield

    @abstractmethod
    def _without_release(
        self, statement: Statement, engine: Engine, params: object
    ) -> tuple[str, object] | None:
        """What DuckDB runs for a statement of a kind that makes no release; None: it may."""

    @abstractmethod
    def _plan(self, statement: Statement, engine: Engine) -> list[Plan]:
        """A plan for each DP call, in the order of the text, or a refusal."""

    @abstractmethod
    def _explained(self, plan: Plan, engine: Engine) -> Explanation:
        """What a plan would do and cost."""

    @abstractmethod
    def _prepare(self, statement: Statement) -> None:
        """Make ready what the outer statement reads, besides releases and system tables."""

    @abstractmethod
    def _bind(self, statement: Statement, empty: str, params: object, engine: Engine) -> None:
        """Let DuckDB bind the outer statement over empty releases."""

    @abstractmethod
    def _release(self, statement: Statement, plans: Sequence[Plan], engine: Engine) -> list[str]:
        """Reserve the budget and make all releases; a relation for each plan, as SQL."""

    @abstractmethod
    def _read_again(self, release_id: str, engine: Engine) -> str | None:
        """An earlier release as a relation; None if there is no such release here."""

    @abstractmethod
    def _freeze(self, name: str, table: Table) -> str:
        """Write the rows of a system table into a new table; returns a relation."""


def _outer(statement: Statement, relations: Sequence[str], tables: Sequence[Edit]) -> str:
    return outer_sql(statement.text, statement.span, statement.selects, relations, tables)


def calls_of(statement: Statement) -> Iterator[tuple[DpSelect, Any]]:
    """Each DP call of a statement with its SELECT, in the order of the plans."""
    for select in statement.selects:
        for call in select.calls:
            yield select, call

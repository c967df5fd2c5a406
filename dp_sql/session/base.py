"""What both kinds of session share: the order in which a statement is answered.

parse → plan each DP call → bind → reserve budget → release → write the outer statement → run
"""

from __future__ import annotations

import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, Self

import duckdb

from dp_sql.errors import ArgumentError, BudgetExceeded, NotSupported, QueryError
from dp_sql.privacy.outer_sql import outer_sql
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.privacy.private_sql.release_select import empty_releases
from dp_sql.session.corrections.corrector import Correcting
from dp_sql.session.trial import check_runs
from dp_sql.sql.parameters import bind, parameters
from dp_sql.sql.statement import Statement, SystemTableCall
from dp_sql.sql.tokens import Edit

if TYPE_CHECKING:  # imported where they are needed: a first answer waits for all imports
    from dp_sql.budget.account import Account, BudgetRow
    from dp_sql.budget.ledger import Ledger
    from dp_sql.engines.duckdb.connection import Engine
    from dp_sql.engines.duckdb.frozen import FrozenAnswers
    from dp_sql.engines.duckdb.sql_runner import Connection
    from dp_sql.engines.duckdb.tickets import Tickets
    from dp_sql.releases import Receipt, Release
    from dp_sql.session.explain import Cost, Explanation
    from dp_sql.session.system_tables import SystemTable


class Session(Correcting):
    """A connection that answers SQL with DP calls; `dp_sql.connect` opens one.

    One thread at a time may use it. For several threads, open a session for each.

    Privacy:
        Each DP call is one release with the epsilon written in it, under adding or removing all
        rows of one person. Reading the result again is free.
    """

    # Where what only a DuckDB connection has is instead.
    _elsewhere = "Write SQL: session.sql(…), which also takes params."
    _frozen: FrozenAnswers  # of the connection on which the outer statement runs

    def __init__(
        self, tickets: Tickets, number: int, ledger: Ledger | None, account: Account | None
    ) -> None:
        self._tickets, self._number = tickets, number  # of the connection that makes the releases
        self._ledger, self._account = ledger, account
        self._lock = threading.RLock()
        self._is_closed = False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Refuse with a hint what a DuckDB connection has, such as `table` and `register`."""
            kind = type(self).__name__
            is_known = name[:1] != "_" and hasattr(duckdb.DuckDBPyConnection, name)
            hint = f" {self._elsewhere.format(name)}" if is_known else ""
            raise AttributeError(f"{kind} has no {name}.{hint}")

    def sql(self, text: str, *, params: object = None) -> Any:
        """Answer a statement and return its relation, as `duckdb` does.

        Args:
            text: on the owner's connection, any DuckDB SQL; several statements return the last
                result. Under a policy, one SELECT, `EXPLAIN SELECT …` (which spends nothing),
                `SHOW TABLES` or `DESCRIBE table`. DP calls go in SELECT lists. `dp_budget()`,
                `dp_ledger()`, `dp_releases()`, `dp_release('id')` and `dp_functions()` are tables.
            params: values of `?` and `$1` in a list or tuple, of `$name` in a dictionary. With DP
                calls, each becomes a literal before the statement is planned; epsilon, k, delta,
                domain and privacy_unit take none.

        Returns a `DuckDBPyRelation` over the releases, or None if the statement has no result.

        Raises:
            QueryError: a DP call is refused before any row is read, or its release failed.
                BudgetExceeded if it costs more than is left.
            LedgerError: the ledger cannot be trusted or written.
            duckdb.Error: DuckDB's own error about the rest of the statement.
        """
        return self._run_text(text, params, sys._getframe(1), "relate")

    def execute(self, text: str, params: object = None) -> Connection:
        """Answer as `sql` does, and return the connection to fetch from."""
        return self._run_text(text, params, sys._getframe(1), "run")  # type: ignore[no-any-return]

    def explain(self, text: str, *, params: object = None) -> Cost:
        """What a statement would cost. Spends nothing and reads no private row.

        On the owner's connection, how far a join multiplies rows is read from the joined table.
        """
        return self._costs([text], sys._getframe(1), params)

    def cost(self, texts: Sequence[str]) -> Cost:
        """What the DP calls of several statements would cost together; a refusal is raised."""
        return self._costs(texts, sys._getframe(1))

    def budget(self) -> tuple[BudgetRow, ...]:
        """The whole budget, then this analyst's (the owner sees all); empty without a ledger."""
        self._check_open()
        if self._ledger is None or self._account is None:
            return ()
        from dp_sql.budget.account import owner_rows

        return tuple(self._account.rows() if self.analyst else owner_rows(self._ledger, None))

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """The releases that can be read again for free, oldest first."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """One receipt per release of this session, oldest first."""
        return self._tickets.receipts(self._number)

    @property
    def n_receipts(self) -> int:
        """How many receipts there are."""
        return self._tickets.n_receipts(self._number)

    @property
    def analyst(self) -> str | None:
        """The analyst's name; None on the owner's connection."""
        return self._analyst

    @property
    def connection(self) -> Connection | None:
        """The owner's DuckDB connection; None under a policy."""
        return None

    @property
    def is_current(self) -> bool:
        """Whether the session can go on: false once its parquet files or Spark's columns change."""
        return True

    @abstractmethod
    def interrupt(self) -> None:
        """Stop what is running, from another thread. The session stays open."""

    @abstractmethod
    def close(self) -> None:
        """Close the session; its relations end with it."""

    def _check_open(self) -> None:
        if self._is_closed:
            hint = "Open another with dp_sql.connect(…)."
            raise NotSupported("This session is closed.", hint=hint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the steps of an answer ---

    def _run_text(
        self, text: str, params: object, frame: FrameType, method: Literal["relate", "run"]
    ) -> Any:
        self._check_open()
        engine = self._engine(frame)
        run = engine.relate if method == "relate" else engine.run
        try:
            parsed = self._parse(text, params)
            if parsed is None:
                return run(self._unparsed_text(text), params)
            with self._asking():
                self._check_open()  # another thread may have closed it
                parsed, params = self._with_parameters(parsed, params, engine)
                text = parsed[-1].text if parsed else text
                for statement in parsed[:-1]:
                    engine.finish(*self._released(statement, engine, None))
                return run(*self._released(parsed[-1], engine, params)) if parsed else None
        except (QueryError, duckdb.Error) as error:
            told = self._corrected(error, text, params, engine)
        raise told

    def _released(self, statement: Statement, engine: Engine, params: object) -> tuple[str, object]:
        """Make the releases of a statement; returns what DuckDB runs instead, with parameters."""
        without = self._sql_without_release(statement, engine, params)
        if without is not None:
            return without
        plans = self._plan(statement, engine)
        if statement.is_explain:
            from dp_sql.session.explain import cost_sql

            if plans:
                self._outer(statement, plans, params, engine)  # or what would be refused
            return cost_sql(self._cost([plans], engine), with_sql=statement.shows_sql), None
        outer = self._outer(statement, plans, params, engine)
        if statement.has_no_rows:  # it shows no answer
            return outer(empty_releases(plans)), params
        return outer(self._release(statement, plans, engine) if plans else []), params

    def _outer(
        self, statement: Statement, plans: Sequence[Plan], params: object, engine: Engine
    ) -> Callable[[Sequence[Released]], str]:
        """The statement around its releases, once DuckDB has reported what is wrong with it."""
        tables = self._tables(statement, engine)
        outer = partial(outer_sql, statement.text, statement.span, statement.selects, edits=tables)
        empty = outer(empty_releases(plans))
        self._bind(statement, empty, params, engine)
        check_runs(statement, empty, plans, engine, tables)
        return outer

    def _check(self, text: str, params: object, engine: Engine) -> None:
        losses = [plan.loss for plan in self._bound_plans(text, params, engine)]
        if self._account is not None and not self._account.fits(losses):
            raise BudgetExceeded("This costs more than is left.")

    def _bound_plans(self, text: str, params: object, engine: Engine) -> list[Plan]:
        """The plans of some SQL, once DuckDB has reported what is wrong around its DP calls."""
        plans = []
        parsed, left = self._with_parameters(self._parse(text, params) or [], params, engine)
        for one in parsed:
            found = self._plan(one, engine)
            is_run = self._sql_without_release(one, engine, left) is None
            if is_run and (found or not one.is_explain):
                self._outer(one, found, left, engine)
            plans += found
        return plans

    def _with_parameters(
        self, parsed: list[Statement], params: object, engine: Engine
    ) -> tuple[list[Statement], object]:
        """The statements with literals for parameters, and what is left for DuckDB to bind.

        Nothing is left where the last one has DP calls.
        """
        for statement in parsed[:-1]:
            for one in parameters(statement.tokens)[:1]:
                message = "Parameters are supported only in the last statement."
                raise statement.tokens[one.start].error(NotSupported, message)
        last = parsed[-1] if parsed else None
        if last is None or last.keyword == "PREPARE":
            return parsed, params
        # LIMIT ? may turn out to be LIMIT 0, with which nothing is read. To tell the columns of a
        # query with parameters, DuckDB 1 would run it.
        tells_columns = last.is_described or last.has_no_rows
        if not (last.selects or tells_columns or last.tokens[-2:-1].text.upper() == "LIMIT"):
            return parsed, params
        if not params and not parameters(last.tokens):
            return parsed, None
        names = engine.parameter_names(last.text[slice(*last.span)])
        return self._parse(bind(last, params, names), None) or [], None

    def _costs(self, texts: Sequence[str], frame: FrameType, params: object = None) -> Cost:
        self._check_open()
        engine = self._engine(frame)
        with self._asking():
            queries, text = [], ""
            try:
                for text in texts:
                    queries.append(self._bound_plans(text, params, engine))
            except (QueryError, duckdb.Error) as error:
                told = self._corrected(error, text, params, engine)
                raise told from None
            return self._cost(queries, engine)

    def _cost(self, queries: Sequence[Sequence[Plan]], engine: Engine) -> Cost:
        from dp_sql.session.explain import cost_of

        plans = [plan for query in queries for plan in query]
        return cost_of(plans, self._explained(queries, engine), self._account)

    def _tables(self, statement: Statement, engine: Engine) -> list[Edit]:
        """The system tables that a statement reads, frozen, as edits of its text."""
        edits = []
        for call in statement.system_tables:
            if call.name == "dp_release":
                relation = self._read_again(call.argument or "", engine)
                if relation is None:
                    raise ArgumentError(
                        "There is no release with this id, or its transaction was rolled back.",
                        text=statement.text, position=call.start,
                        hint="FROM dp_releases() lists them.",
                    )  # fmt: skip
            else:
                relation = self._frozen.copy(*self._system_table(call, statement.text))
            edits.append((call.start, call.stop, relation))
        return edits

    def _system_table(self, call: SystemTableCall, text: str) -> SystemTable:
        from dp_sql.session import system_tables

        if call.name == "dp_releases":
            return system_tables.releases_table(self.releases)
        if call.name == "dp_functions":
            return system_tables.functions_table()
        if self._ledger is None:
            raise NotSupported(
                "There is no ledger here.", text=text, position=call.start,
                hint="A policy with a [budget] has one, and so has connect(…, ledger='x.sqlite').",
            )  # fmt: skip
        if call.name == "dp_budget":
            return system_tables.budget_table(self.budget())
        events = self._ledger.events(self.analyst)
        if self.analyst is None:
            return system_tables.ledger_table(events)
        return system_tables.spent_table(events)

    # --- what differs ---

    @abstractmethod
    def _engine(self, frame: FrameType) -> Engine:
        """Where the outer statement runs; `frame` has the caller's variables."""

    @abstractmethod
    def _parse(self, text: str, params: object) -> list[Statement] | None:
        """The statements of a string of SQL; None if DuckDB may run it as written."""

    def _unparsed_text(self, text: str) -> str:
        """What DuckDB runs for a string that `_parse` leaves to it."""
        return text

    def _asking(self) -> AbstractContextManager[object]:
        """One answer at a time."""
        return self._lock

    @abstractmethod
    def _sql_without_release(
        self, statement: Statement, engine: Engine, params: object
    ) -> tuple[str, object] | None:
        """The SQL and parameters of a kind of statement that makes no release; None for others."""

    @abstractmethod
    def _explained(self, queries: Sequence[Sequence[Plan]], engine: Engine) -> list[Explanation]:
        """What each plan of some queries would do and cost, asked in this order."""

    @abstractmethod
    def _bind(self, statement: Statement, empty: str, params: object, engine: Engine) -> None:
        """Let DuckDB bind the outer statement over empty releases."""

    @abstractmethod
    def _release(
        self, statement: Statement, plans: Sequence[Plan], engine: Engine
    ) -> list[Released]:
        """Reserve the budget and make all releases: where that of each plan is."""

    @abstractmethod
    def _read_again(self, release_id: str, engine: Engine) -> str | None:
        """An earlier release as a relation; None if there is no such release here."""

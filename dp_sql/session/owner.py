"""The owner's session: any DuckDB SQL on the owner's own connection, and DP calls besides.

Each release is frozen (engines/duckdb/frozen.py), and the rest of the statement runs over it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.frozen import FrozenAnswers
from dp_sql.engines.duckdb.install import Owner, number_of, register
from dp_sql.engines.duckdb.macros import MacroCall, create_macros
from dp_sql.engines.duckdb.opening import close
from dp_sql.engines.duckdb.session_state import SessionState
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import DpSqlError, NotSupported, ParseError, QueryError, SourceError
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.privacy.private_sql.bundles import bundles
from dp_sql.privacy.private_sql.release_select import answer_columns
from dp_sql.releases import Release, new_release
from dp_sql.session.base import Session
from dp_sql.session.owner_plans import n_runs, planned_text
from dp_sql.session.reservations import Reserved, reserved
from dp_sql.sql.statement import Statement, mentions_ours, parse
from dp_sql.sql.statement_limits import check_depth
from dp_sql.sql.tokens import QUERY, Tokens

if TYPE_CHECKING:  # imported where they are needed: a first answer waits for all imports
    from dp_sql.budget.ledger import Ledger
    from dp_sql.session.explain import Explanation


# Statements that may hold a query with DP calls. The releases are made first, then it runs.
_RUNS = QUERY | {
    "CREATE", "INSERT", "COPY", "SUMMARIZE", "SET", "UPDATE", "DELETE", "MERGE", "PIVOT", "UNPIVOT",
}  # fmt: skip
# These only bind their query; a release, if any, comes with a later EXECUTE.
_BINDS = {"EXPLAIN", "DESCRIBE", "DESC", "SHOW", "PREPARE"}

_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_WITHOUT_OURS = (  # answers are in temporary tables
    "SELECT name FROM (SHOW TABLES) WHERE NOT system.main.starts_with(name, '__dp_releases_')"
)


def _query_of(text: str, params: str, engine: Engine) -> str:
    from dp_sql.session import dp_macro

    return dp_macro.query_of(text, params, engine)


def _answer_call(asked: MacroCall, engine: Engine) -> str:
    from dp_sql.session.plain_call import answer_call

    return answer_call(asked, engine)


OWNER = Owner(_query_of, _answer_call)  # for the macros; a session does not call it


class OwnerSession(Session):
    """A session without a policy: `with dp_sql.connect("shop.duckdb") as session: …`."""

    _elsewhere = "The DuckDB connection has it: session.connection.{}(…)."

    def __init__(
        self, connection: Connection, ledger: Ledger | None = None, *, is_new: bool = False
    ) -> None:
        """`connection` has just been opened; `is_new`, the database instance as well."""
        with contextlib.ExitStack() as closing:
            if ledger is not None:
                closing.callback(ledger.close)
            closing.callback(close, connection)
            tickets = register(connection, OWNER, is_new=is_new)
            self._begin(connection, tickets, number_of(connection), ledger)
            self._tickets.charge(self._account)
            self._closing = closing.pop_all()
        create_macros(connection, everywhere=False)

    def _begin(
        self, connection: Connection, tickets: Tickets, number: int, ledger: Ledger | None
    ) -> None:
        """`connection` runs the statements around the releases; the others are as in Session."""
        account = None
        if ledger is not None:
            from dp_sql.budget.account import Account

            account = Account(ledger, None, "owner")
        super().__init__(tickets, number, ledger, account)
        self._connection = connection
        self._frozen = FrozenAnswers(connection.execute)
        self._state = SessionState(number=number)
        self._releases: dict[str, tuple[Release, Released]] = {}

    @property
    def connection(self) -> Connection:
        """The DuckDB connection underneath; `FROM dp($$…$$)` works on it."""
        return self._connection

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases of this session, oldest first: `FROM dp_release('<id>')` reads one again."""
        return tuple(release for release, _ in self._releases.values())

    def interrupt(self) -> None:
        """Stop what is running."""
        self._state.interrupts.add()
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection and the ledger; relations of this session end with them."""
        self._is_closed = True
        self._tickets.stop_charging(self._account)
        self._closing.close()

    # --- how the owner's statements differ ---

    def _engine(self, frame: FrameType) -> Engine:
        return Engine(self._connection, self._tickets, frame, self._state)

    def _parse(self, text: str, params: object) -> list[Statement] | None:
        if not isinstance(text, str) or not mentions_ours(text):
            return None
        parsed = parse(text)
        for number, statement in enumerate(parsed):  # all are read before the first one runs
            check_depth(statement)
            if statement.keyword == "EXPLAIN" and len(statement.tokens) > 1:
                explained = statement.without_explain()
                if explained.is_query and explained.selects:
                    parsed[number] = explained
                    continue
            if statement.selects:
                _query_start(statement.tokens)
        return parsed

    def _unparsed_text(self, text: str) -> str:
        is_show = isinstance(text, str) and _SHOW_TABLES.fullmatch(text)
        return _WITHOUT_OURS if is_show else text

    def _sql_without_release(
        self, statement: Statement, engine: Engine, params: object
    ) -> tuple[str, object] | None:
        text, tokens = statement.text, statement.tokens
        begin = _query_start(tokens) if statement.selects else None
        if begin is None or statement.is_explain:
            return None
        from dp_sql.session import dp_macro

        before = text[tokens[0].start : tokens[begin].start]
        if tokens[0].upper == "PREPARE":
            # 1.5 plans a prepared statement once, with one query number; dp(…) is bound each time.
            return f"{before}FROM dp({dp_macro.quoted(tokens[begin:])})", params
        query = dp_macro.with_ctes(Statement(text, tokens[begin:]), engine, is_elsewhere=False)
        return before + query, params

    def _plan(self, statement: Statement, engine: Engine) -> list[Plan]:
        return planned_text(statement, engine).plans

    def _syntax_error(self, text: str) -> ParseError | None:
        from dp_sql.session.corrections.duckdb_errors import syntax_error

        return syntax_error(text, self._connection.extract_statements, under_policy=False)

    def _explained(self, queries: Sequence[Sequence[Plan]], engine: Engine) -> list[Explanation]:
        from dp_sql.session.explain import EXAMPLE_DELTA, explanation

        plans = (plan for query in queries for plan in query)
        return [explanation(p, None, engine, EXAMPLE_DELTA, n_runs(p, engine)) for p in plans]

    def _bind(self, statement: Statement, empty: str, params: object, engine: Engine) -> None:
        if not statement.selects or empty in engine.state.bindable:
            return
        engine.bind(empty, params, statement.tokens[0].upper)
        if params is None and statement.is_plain:
            engine.state.bindable[empty] = None

    def _release(
        self, statement: Statement, plans: Sequence[Plan], engine: Engine
    ) -> list[Released]:
        calls = [(select, call) for select in statement.selects for call in select.calls]
        runs = [n_runs(plan, engine) for plan in plans] if self._account is not None else None
        answers = [Released("")] * len(plans)
        with reserved(self._account, plans, partial(engine.issue, runs=runs), runs) as releases:
            for places in bundles(plans):
                n_before, some = self.n_receipts, [releases[i] for i in places]
                select, call = calls[places[0]]
                try:
                    found = self._drawn(some, engine)
                except QueryError as error:
                    raise error.at(select.text, call.start) from None
                # One for each call; none if there was no group.
                receipts = iter(self._tickets.receipts(self._number, n_before))
                for i, answer in zip(places, found, strict=True):
                    answers[i], releases[i].is_answered = answer, True
                    keys = [key.parts[-1] for key in calls[i][0].keys]
                    for receipt in islice(receipts, 1):
                        release = new_release(receipt, answer_columns(plans[i], keys))
                        self._releases[release.id] = release, answer
        return answers

    def _drawn(self, some: Sequence[Reserved], engine: Engine) -> list[Released]:
        """The answers of calls that are read together, one for each."""
        n_before = self.n_receipts
        try:
            return engine.release(
                [one.plan for one in some], [one.ticket for one in some], self._frozen
            )
        except DpSqlError:  # what other calls have drawn is not shown
            self._tickets.record_failure((), self._number, n_before)
            raise

    def _read_again(self, release_id: str, engine: Engine) -> str | None:
        if release_id in self._releases:
            release, released = self._releases[release_id]
            count = f"SELECT system.main.count(*) FROM {released.relation} AS stored"
            with contextlib.suppress(SourceError):  # ROLLBACK removes a transaction's tables
                if engine.public_values(count) != [0]:
                    from dp_sql.session.system_tables import read_again

                    return read_again(release, released)
        return None


def _query_start(tokens: Tokens) -> int | None:
    """Where the query begins in a statement that only binds it; None for one that runs."""
    first = tokens[0].upper
    words = [token.upper for token in tokens[:8]]
    if first == "CREATE" and "TABLE" not in words[: words.index("AS") if "AS" in words else 8]:
        message = (
            "Only a table can be made from a DP call; a view would make a release each time it is "
            "read."
        )
        instead = [token.put("TABLE") for token in tokens[1:4] if token.upper == "VIEW"]
        hint = (
            "CREATE TABLE … AS SELECT … keeps one answer. "
            "CREATE VIEW … AS FROM dp($$ SELECT … $$) releases each time it is read."
        )
        raise tokens[0].error(NotSupported, message, hint, instead)
    if first in _BINDS and words[1:2] != ["ANALYZE"]:
        for index in tokens.at_depth_zero(1, len(tokens)):
            bracket = tokens[index].is_symbol("(") and tokens[index + 1].upper in QUERY
            if tokens[index].upper in QUERY or bracket:
                return index
        raise tokens[0].error(NotSupported, f"{first} with DP calls takes a SELECT.")
    if first not in _RUNS | _BINDS and not tokens[0].is_symbol("("):
        message = f"A {first or 'statement of this kind'} cannot hold a DP call."
        hint = "Write the DP call in a SELECT, or in CREATE TABLE … AS, INSERT or COPY."
        raise tokens[0].error(NotSupported, message, hint)
    return None

"""The order of the steps, and the two doors of the library: `connect` and `install`.

    text → parse → recognise → check → plan → rewrite → DuckDB (private) → UDF → release → outer

A session freezes each release in a temporary table and runs the rest of the text over it. The `dp`
table macro writes the same private SQL as a materialized CTE in front of the text. Neither ever
falls back to running a text that it could not read.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

from dp_sql.budget.account import BudgetRow, owner_rows
from dp_sql.budget.checkpoint import default_checkpoint
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import name_of
from dp_sql.engines.duckdb.connection import Connection, Engine, freeze, open_database
from dp_sql.engines.duckdb.install import create_macros, desk_of, number_of, register
from dp_sql.engines.duckdb.tickets import Desk
from dp_sql.errors import NotSupported, PolicyError, QueryError, SourceError
from dp_sql.policy.model import read_policy
from dp_sql.privacy.owner_sources import owners_plan
from dp_sql.privacy.plan import Plan
from dp_sql.privacy.private_sql import (
    Edit,
    answer_columns,
    count_groups_sql,
    outer_edits,
    private_sql,
    spliced,
    stand_ins,
    with_releases,
)
from dp_sql.releases import Receipt, Release
from dp_sql.session.analyst import GuardedSession
from dp_sql.session.explain import Cost, cost, cost_sql, explained
from dp_sql.session.release_store import named_release
from dp_sql.session.reservations import Spending, Ticket
from dp_sql.session.system_tables import (
    book_calls,
    book_table,
    mentions_books,
    read_again,
    unknown_release,
)
from dp_sql.sql.limits import check_depth
from dp_sql.sql.select_list import check_list
from dp_sql.sql.statement import DpSelect, mentions_dp, recognise
from dp_sql.sql.tokens import Token, at_depth_zero, statements

_QUERY = {"SELECT", "FROM", "WITH", "VALUES"}
# What may stand before a query with DP calls. The releases are made first, then the text runs.
_RUNS = _QUERY | {
    "CREATE", "INSERT", "COPY", "SUMMARIZE", "SET", "UPDATE", "DELETE", "MERGE", "PIVOT", "UNPIVOT",
}  # fmt: skip
_OWNER = "owner"
# Here the text only binds; the release, if any, comes with a later EXECUTE.
_BINDS = {"EXPLAIN", "DESCRIBE", "DESC", "SHOW", "PREPARE"}


@overload
def connect(
    database: str = ...,
    *,
    read_only: bool = ...,
    policy: None = ...,
    analyst: None = ...,
    ledger: str | PathLike[str] | None = ...,
) -> Session: ...
@overload
def connect(
    database: str = ...,
    *,
    read_only: bool = ...,
    policy: str | PathLike[str],
    analyst: str | None = ...,
    ledger: None = ...,
) -> GuardedSession: ...
def connect(
    database: str = ":memory:",
    *,
    read_only: bool = False,
    policy: str | PathLike[str] | None = None,
    analyst: str | None = None,
    ledger: str | PathLike[str] | None = None,
) -> Session | GuardedSession:
    """Open a database: as its owner, or, with a policy, as an analyst.

    Args:
        database: path of a DuckDB file, or ":memory:".
        read_only: open the file without the right to change it; under a policy always.
        policy: path of the owner's policy (docs/policy.md). Then the session answers one SELECT
            at a time, and no private row can be reached from it.
        analyst: who asks, under a policy; for the books.
        ledger: without a policy: path of a book in which every release of this session is written
            down before it is drawn; nothing is refused. A policy names its own, with its budget.

    Returns:
        A session whose `sql` takes any DuckDB SQL, and DP calls besides; under a policy a
        `GuardedSession`.

    Raises:
        PolicyError: the policy cannot be read, or does not fit the database.
        LedgerError: the ledger cannot be trusted or written.
    """
    if policy is None:
        if analyst is not None:
            raise PolicyError("An analyst needs a policy: connect(…, policy=…, analyst=…).")
        book = None if ledger is None else _owners_ledger(Path(fspath(ledger)))
        return Session(open_database(str(database), read_only), book)
    if ledger is not None:
        raise PolicyError("A policy names its ledger itself: [budget] ledger = …")
    analyst = "analyst" if analyst is None else analyst
    name = name_of(analyst)
    if name is None:
        raise PolicyError(
            "An analyst's name must be a non-empty string without control characters: "
            "analyst='reporting'."
        )
    return GuardedSession(str(database), read_policy(fspath(policy)), name)


def _owners_ledger(path: Path) -> Ledger:
    return Ledger(path, default_checkpoint(path))


def install(con: Connection) -> Connection:
    """Make `FROM dp($$ SELECT DP_TOPK(…) … $$)` work in a DuckDB connection and its cursors.

    Registers functions in the running database instance, and creates the table macro `dp` and a
    guard macro for each function in its default schema (temporary ones where the database is
    read-only). Each execution of a query, view or relation that reads `dp(…)` is a release of its
    own; within one execution each text is released once.

    Args:
        con: an open connection. Keep it open while its cursors use `dp`.

    Returns:
        The same connection.
    """
    register(con, _inline)
    create_macros(con, everywhere=True)
    return con


def receipts(con: Connection) -> tuple[Receipt, ...]:
    """The receipts of all releases in the database instance of an installed connection."""
    desk = desk_of(con)
    return () if desk is None else desk.receipts()


class Session:
    """An owner's connection: any DuckDB SQL, and DP calls whose answers are frozen.

    `with dp_sql.connect("shop.duckdb") as session: session.sql("…").show()`

    One thread at a time asks; for several, give each a session of its own on the same file.
    """

    def __init__(self, connection: Connection, ledger: Ledger | None = None) -> None:
        self._connection = connection
        self._ledger = ledger
        self._spending = Spending(ledger, None, _OWNER)
        self._desk: Desk = register(connection, _inline)
        try:
            self._desk.pay_from(self._spending.account)
        except BaseException:
            connection.close()
            self._spending.close()
            raise
        create_macros(connection, everywhere=False)
        self._number = number_of(connection)
        self._frozen: list[tuple[Release, str]] = []
        self._releases = 0
        self._books_read = 0
        self._lock = threading.RLock()

    def sql(self, text: str, *, params: object = None) -> Any:
        """Answer a text; the last statement's relation, as `duckdb` would return it.

        Args:
            text: any DuckDB SQL; DP calls in SELECT lists.
            params: values for the text's parameters; DP calls and their sources cannot use them.

        Returns:
            A `DuckDBPyRelation` over the frozen release, or None where the text has no result.

        Raises:
            QueryError: a DP call that cannot be answered, before any row is read.
            duckdb.Error: what DuckDB says of the rest of the text.

        Privacy: each DP call is one release with the epsilon written in it, under adding or
            removing all rows of one person. Reading the result again is free.
        """
        return self._answer(text, params, sys._getframe(1), Engine.relate)

    def execute(self, text: str, params: object = None) -> Connection:
        """Answer a text as `sql` does, and return the connection to fetch from."""
        answer: Connection = self._answer(text, params, sys._getframe(1), Engine.run)
        return answer

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """One receipt per release of this session, oldest first."""
        return self._desk.receipts(self._number)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases of this session, oldest first: `FROM dp_release('<id>')` reads one again."""
        return tuple(release for release, _ in self._frozen)

    def explain(self, text: str) -> Cost:
        """What a statement would cost; spends nothing and reads no private row.

        How far a join multiplies rows is read from the table that is joined.
        """
        return self.cost([text])

    def cost(self, texts: Sequence[str]) -> Cost:
        """What the DP calls of some statements would cost together.

        Raises:
            QueryError: one of them would be refused.
        """
        engine = Engine(self._connection, self._desk, sys._getframe(1))
        with self._lock:
            plans = []
            for text in texts:
                for tokens in statements(text):
                    check_depth(text, tokens)
                    planned = _plans(recognise(text, tokens), tokens, engine)
                    plans += [plan for _, found in planned for plan in found]
            return self._cost(plans, engine)

    def budget(self) -> tuple[BudgetRow, ...]:
        """What stands in the ledger: all together, then each name; empty where there is none."""
        return () if self._ledger is None else tuple(owner_rows(self._ledger, None))

    @property
    def connection(self) -> Connection:
        """The DuckDB connection underneath; `FROM dp($$…$$)` works on it."""
        return self._connection

    def interrupt(self) -> None:
        """Stop what is running, from another thread; the session goes on."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection and the ledger; relations of this session end with them."""
        self._desk.stop_paying(self._spending.account)
        try:
            self._connection.close()
        finally:
            self._spending.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(
        self, text: str, params: object, frame: Any, last: Callable[[Engine, str, object], Any]
    ) -> Any:
        engine = Engine(self._connection, self._desk, frame)
        if not isinstance(text, str) or not (mentions_dp(text) or mentions_books(text)):
            return last(engine, text, params)
        parts = statements(text)
        for tokens in parts:
            check_depth(text, tokens)
        result = None
        with self._lock:
            for number, tokens in enumerate(parts):
                is_last = number == len(parts) - 1
                ready = self._freeze(text, tokens, engine, params if is_last else None)
                if is_last:
                    result = last(engine, ready, params)
                else:
                    engine.finish(ready)
        return result

    def _freeze(self, text: str, tokens: Sequence[Token], engine: Engine, params: object) -> str:
        """Make the releases of one statement; returns the text that reads them."""
        start, stop = tokens[0].start, tokens[-1].end
        selects = recognise(text, tokens)
        books = self._books(text, tokens, engine)
        if not selects:
            return spliced(text, books, start, stop)
        begin = _query_start(text, tokens)
        if begin == 1 and tokens[0].upper == "EXPLAIN":
            plans = [plan for _, found in _plans(selects, tokens, engine) for plan in found]
            return cost_sql(self._cost(plans, engine))
        if begin is not None and tokens[0].upper == "PREPARE":
            # 1.5 plans a prepared text once, with its query number; the macro binds it anew.
            return (
                f"{text[start : tokens[begin].start]}FROM dp({_dollar_quoted(text, begin, tokens)})"
            )
        if begin is not None:
            inline = _with_inline(text, tokens[begin:], selects, engine)
            return text[start : tokens[begin].start] + inline
        planned = _plans(selects, tokens, engine)
        # Whatever DuckDB has to say against the text around, it says before anything is spent.
        empty = _edits(planned, lambda select, ready: f"(SELECT {stand_ins(ready)})")
        engine.bind(spliced(text, [*books, *empty], start, stop), tokens[0].upper, params)
        plans = [plan for _, found in planned for plan in found]
        runs = {id(plan): _n_runs(plan, engine) for plan in plans} if self._ledger else {}

        def offer(plan: Plan, reserved: str | None) -> str:
            return self._desk.offer_once(plan, reserved, runs.get(id(plan)))

        with self._spending.reserved(plans, offer, list(runs.values())) as tickets:

            def release(select: DpSelect, plan: Plan) -> str:
                return self._release(engine, select, next(tickets))

            return spliced(text, [*books, *_edits(planned, release)], start, stop)

    def _release(self, engine: Engine, select: DpSelect, ticket: Ticket) -> str:
        self._releases += 1
        told = len(self.receipts)
        relation = ticket.redeem(partial(engine.release, number=self._releases))
        columns = answer_columns(ticket.plan, [key.parts[-1] for key in select.keys])
        for receipt in self.receipts[told:]:  # none, where there was no group to answer
            self._frozen.append((named_release(receipt, columns), relation))
        return relation

    def _cost(self, plans: Sequence[Plan], engine: Engine) -> Cost:
        calls = [explained(plan, None, engine, _n_runs(plan, engine)) for plan in plans]
        return cost(calls, self._spending.account)

    def _books(self, text: str, tokens: Sequence[Token], engine: Engine) -> list[Edit]:
        """Edits that make the text read the budget, the ledger and releases as tables."""
        edits = []
        for call in book_calls(text, tokens):
            if call.name == "dp_release":
                found = [pair for pair in self._frozen if pair[0].id == call.argument]
                if not found or not _is_there(found[0][1], engine):
                    raise unknown_release(call, text)
                relation = read_again(*found[0])
            else:
                self._books_read += 1
                table = f"temp.main.__dp_book_{self._books_read}"
                relation = freeze(
                    self._connection,
                    table,
                    *book_table(call, text, self.releases, self._ledger, self.budget),
                )
            edits.append((call.start, call.stop, relation))
        return edits


def _is_there(relation: str, engine: Engine) -> bool:
    """Whether a release is still in its table: ROLLBACK takes away what a transaction made."""
    try:
        (n_rows,) = engine.public_values(f"SELECT system.main.count(*) FROM {relation} AS kept")
    except SourceError:
        return False
    return n_rows != 0


def _n_runs(plan: Plan, engine: Engine) -> int:
    """How often the loss of a plan counts: DP_SELECT answers each group with all of epsilon.

    The groups are candidates' groups, which are public by the owner's word.
    """
    if plan.function.kind != "select" or not plan.keys:
        return 1
    (n_groups,) = engine.public_values(count_groups_sql(plan))
    return max(1, int(str(n_groups)))


def _edits(planned: Planned, relation: Callable[[DpSelect, Plan], str]) -> list[Edit]:
    """The edits that make each SELECT read a relation for each of its calls."""
    edits: list[Edit] = []
    number = 0
    for select, plans in planned:
        releases = []
        for call, ready in zip(select.calls, plans, strict=True):
            number += 1
            try:
                releases.append((relation(select, ready), f"__dp_release_{number}"))
            except QueryError as error:
                raise error.at(select.text, call.start) from None
        edits += outer_edits(select, releases)
    return edits


Planned = list[tuple[DpSelect, list[Plan]]]


def _plans(selects: Sequence[DpSelect], tokens: Sequence[Token], engine: Engine) -> Planned:
    """Every call of a statement, approved and planned; no row is read before all of them are."""
    planned: Planned = []
    for select in selects:
        check_list(select, engine)
        plans = [owners_plan(select, call, tokens, engine) for call in select.calls]
        planned.append((select, plans))
    return planned


def _inline(text: str, engine: Engine) -> str:
    """The SQL that `dp(text)` stands for. Has no effect: binding is not a release."""
    found = statements(text)
    if len(found) != 1 or not (found[0][0].upper in _QUERY or found[0][0].is_symbol("(")):
        raise NotSupported(
            "dp takes exactly one query.",
            text=text,
            position=found[1][0].start if len(found) > 1 else 0,
            hint="Write CREATE TABLE … AS, INSERT or COPY around it: "
            "CREATE TABLE best AS FROM dp($$ SELECT … $$)",
        )
    tokens = found[0]
    selects = recognise(text, tokens)
    if not selects:
        return text[tokens[0].start : tokens[-1].end]
    return _with_inline(text, tokens, selects, engine)


def _with_inline(
    text: str, tokens: Sequence[Token], selects: Sequence[DpSelect], engine: Engine
) -> str:
    """A query with its releases as CTEs in front; nothing is released by writing it."""
    releases: list[tuple[str, str]] = []

    def relation(select: DpSelect, ready: Plan) -> str:
        number = len(releases) + 1
        ticket = engine.desk.offer(ready, text, number)
        releases.append((f"__dp_release_{number}", private_sql(ready, ticket, again=True)))
        return f"__dp_release_{number}"

    edits = _edits(_plans(selects, tokens, engine), relation)
    start, stop = tokens[0].start, tokens[-1].end
    return with_releases(spliced(text, edits, start, stop), tokens, start, releases)


def _dollar_quoted(text: str, begin: int, tokens: Sequence[Token]) -> str:
    """The query from token `begin` as an SQL string, with a tag that it does not hold."""
    for token in tokens[begin:]:
        if token.is_symbol("?", "$"):
            raise NotSupported(
                "A prepared statement with a DP call takes no parameters so far.",
                text=text,
                position=token.start,
                hint="Write the value into the statement.",
            )
    query = text[tokens[begin].start : tokens[-1].end]
    tags = ("$dp$", *(f"$dp{n}$" for n in range(len(query) + 1)))
    tag = next(t for t in tags if t not in query)
    return f"{tag}{query}{tag}"


def _query_start(text: str, tokens: Sequence[Token]) -> int | None:
    """Where the query of a statement that only binds begins; None for one that runs.

    Raises:
        NotSupported: the statement is of a kind that cannot hold a DP call.
    """
    first = tokens[0].upper
    words = [t.upper for t in tokens[:8]]
    if first == "CREATE" and "TABLE" not in words[: words.index("AS") if "AS" in words else 8]:
        raise NotSupported(
            "Only a table can be made from a DP call; a view would release anew at each reading.",
            text=text,
            position=tokens[0].start,
            hint="CREATE TABLE … AS SELECT … keeps one answer. "
            "CREATE VIEW … AS FROM dp($$ SELECT … $$) releases each time it is read.",
        )
    if first in _BINDS and words[1:2] != ["ANALYZE"]:
        for index in at_depth_zero(tokens, 1, len(tokens)):
            bracket = tokens[index].is_symbol("(") and tokens[index + 1].upper in _QUERY
            if tokens[index].upper in _QUERY or bracket:
                return index
        raise NotSupported(
            f"{first} with DP calls takes a SELECT.", text=text, position=tokens[0].start
        )
    if first not in _RUNS | _BINDS and not tokens[0].is_symbol("("):
        raise NotSupported(
            f"A {first or 'statement of this kind'} cannot hold a DP call.",
            text=text,
            position=tokens[0].start,
            hint="Write the DP call in a SELECT, or in CREATE TABLE … AS, INSERT or COPY.",
        )
    return None

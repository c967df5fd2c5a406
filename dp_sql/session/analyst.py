"""An analyst's session, under a policy: one SELECT at a time, and no private row within reach.

The analyst's SQL runs on a public connection, where no private row is. Only SQL that dp_sql builds
runs on the private one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import duckdb

from dp_sql.budget.account import Account
from dp_sql.budget.ledger import Ledger
from dp_sql.engines.duckdb.connection import Engine, columns_of
from dp_sql.engines.duckdb.frozen import Records
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK
from dp_sql.engines.duckdb.private_connection import FAILED, PrivateConnection
from dp_sql.engines.duckdb.public_connection import PublicConnection
from dp_sql.errors import (
    ArgumentError,
    NotSupported,
    ParseError,
    PolicyError,
    QueryError,
)
from dp_sql.policy.model import Policy
from dp_sql.policy.validation import misfits
from dp_sql.privacy.plans.analyst import analyst_plans
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.privacy.private_sql.bundles import bundles
from dp_sql.privacy.private_sql.release_select import (
    answer_columns,
    each_of,
    empty_releases,
    release_columns,
)
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.releases import Release
from dp_sql.session.analyst_statement import analyst_statement, one_statement
from dp_sql.session.base import Session
from dp_sql.session.corrections.corrector import refuse_unknown, rescaled
from dp_sql.session.describe import describe_sql, listed_sql
from dp_sql.session.explain import Explanation, explanation
from dp_sql.session.no_rows import columns_without_rows, no_rows_sql
from dp_sql.session.one_outcome import OneOutcome
from dp_sql.session.release_store import ReleaseStore
from dp_sql.session.reservations import reserved
from dp_sql.session.syntax import check_syntax
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.only_reads import only_reads
from dp_sql.sql.select_list import planned
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import Edit, folded
from dp_sql.udfs.mechanism import in_words

if TYPE_CHECKING:  # imported where it is needed, as what corrects refusals is
    from dp_sql.engines.spark.spark_catalog import Spark


class AnalystSession(Session):
    """A session under a policy: SELECTs with DP calls over private tables, and public tables.

    `with dp_sql.connect("shop.duckdb", policy="policy.toml", analyst="reporting") as session: …`
    """

    def __init__(self, database: str | Spark, policy: Policy, analyst: str) -> None:
        self._policy, self._analyst = policy, analyst
        self._outcome: OneOutcome | None = None
        with contextlib.ExitStack() as closing:
            with CATALOG_LOCK:
                self._private = _private_connection(database, policy)
                closing.callback(self._private.close)
                wrong = misfits(policy, self._private.catalog)
            if wrong:
                raise PolicyError(
                    f"The policy does not fit {self._private.described}: {'; '.join(wrong)}"
                )
            self._private.pin([*policy.tables, *policy.scores], policy.public)
            ledger, account, path = None, None, None
            if (b := policy.budget) is not None:
                ledger = Ledger(b.ledger, b.checkpoint, b.dataset, monthly=b.monthly)
                closing.callback(ledger.close)
                account = Account(ledger, b, analyst)
                if b.keep_releases:
                    path = b.ledger.with_name(b.ledger.name + ".releases")
            super().__init__(self._private.tickets, self._private.number, ledger, account)
            self._store = ReleaseStore(path, analyst, self._private.identity)
            closing.callback(self._store.close)
            limits = policy.limits
            with CATALOG_LOCK:
                here = self._private.here()
                memory = limits.public_memory_limit or "1GB"
                self._public = PublicConnection(memory, limits.threads, here)
            closing.callback(self._public.close)
            self._frozen = self._public.frozen
            self._closing = closing.pop_all()

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that can be read again for free, oldest first."""
        self._check_open()
        return self._store.all()

    @property
    def is_current(self) -> bool:
        """Whether the session can go on: false once its parquet files or Spark's columns change."""
        return self._private.is_current()

    def interrupt(self) -> None:
        """Stop what is running; its cost is spent, and its answer discarded, ready or not."""
        if self._outcome is not None:
            self._outcome.is_abandoned = True
        self._private.interrupt()
        self._public.interrupt()

    def close(self) -> None:
        """Close both connections and the ledger, after the question that is running."""
        with self._lock:
            self._is_closed = True
            self._closing.close()

    # --- how an analyst's statements differ ---

    def _engine(self, frame: FrameType) -> Engine:
        return self._public

    def _parse(self, text: str, params: object) -> list[Statement]:
        return [analyst_statement(text, params, self._policy)]

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        outcome = OneOutcome(self._policy.limits.deadline_seconds, self._private.interrupt)
        with self._lock, outcome.interruptible():
            self._outcome = outcome
            if not self.is_current:
                raise NotSupported(
                    f"{self._private.changed} since this session opened.",
                    hint="Open a new session; nothing was spent.",
                )
            yield

    def _sql_without_release(
        self, statement: Statement, engine: Engine, params: object
    ) -> tuple[str, object] | None:
        """SHOW TABLES, DESCRIBE, and queries that ask only for their columns: names and types."""
        listed = listed_sql(statement.tokens, self._policy, self._private)
        if listed is not None:
            return listed, None
        sides = self._policy, self._private, self._public
        columns = columns_without_rows(statement, params, *sides)
        if columns is None and statement.is_described:
            plans = self._plan(statement, engine)
            outer = self._outer(statement, plans, params, engine)
            columns = columns_of(engine.relate(outer(empty_releases(plans)), params))
        if columns is None:
            return None
        return describe_sql(columns) if statement.is_described else no_rows_sql(columns), None

    def _plan(self, statement: Statement, engine: Engine) -> list[Plan]:
        known = self._private.planned
        if (plans := known.get(statement.text)) is None:
            plans, is_timed = self._planned(statement)
            if not is_timed:
                known[statement.text] = plans
        self._private.check(plans)
        return plans

    def _planned(self, statement: Statement) -> tuple[list[Plan], bool]:
        """The plans of a statement, and whether they depend on the time when it is asked."""
        refuse_unknown(statement, self._public)
        now, asked, plans = datetime.now().astimezone(), [], []

        def asked_at() -> datetime:
            asked.append(now)
            return now

        for select in statement.selects:
            plan = partial(analyst_plans, select, self._policy, self._private, asked_at)
            plans += planned(select, self._public, plan)
        limits = self._policy.limits  # of a query, however many calls it has
        for what, total, most in (
            ("epsilon", sum(plan.loss.epsilon for plan in plans), limits.max_epsilon_per_query),
            ("delta", sum(plan.loss.delta for plan in plans), limits.max_delta_per_query),
        ):
            if most is not None and total > most:
                given = next(call.given[what] for call in statement.calls if what in call.given)
                raise ArgumentError(
                    f"The DP calls of this query cost {what} = {in_words(Fraction(total))} "
                    f"together, and the policy allows {in_words(most)} for one query.",
                    text=statement.text, position=given[0].start,
                    hint="Put them into separate queries.",
                    instead=[rescaled(statement, most / total, what)],
                )  # fmt: skip
        parse = self._public.connection.extract_statements
        check_syntax(statement.tokens, parse, under_policy=True)
        return plans, bool(asked)

    def _tables(self, statement: Statement, engine: Engine) -> list[Edit]:
        """Also copy the public tables that the statement may read, once each."""
        self._public.check_idle()
        written = statement.tokens.folded
        for name in self._policy.public:
            full = self._private.table(name)
            if full and full not in self._public.loaded and folded(full[-1]) in written:
                columns = self._private.columns(f"SELECT * FROM {full_name(full)}")
                self._public.load(full, columns, self._private.public_table(full))
        return super()._tables(statement, engine)

    def _syntax_error(self, text: str) -> ParseError | None:
        try:
            text = one_statement(text).text
        except QueryError:  # too large for a parser, or more than one
            return None
        from dp_sql.session.corrections.duckdb_errors import syntax_error

        return syntax_error(text, self._public.connection.extract_statements, under_policy=True)

    def _reworded(self, error: QueryError, text: str, engine: Engine) -> QueryError:
        from dp_sql.session.corrections.under_policy import reworded

        tables = PolicyTables(self._private, self._policy)
        return reworded(error, text, tables, partial(self._public_value, engine=engine))

    def _public_value(self, query: str, engine: Engine) -> tuple[object, str | None, str]:
        """The one value of a query without private tables, the same as a string, and its type."""
        statement = one_statement(query)
        called = frozenset(token.folded for _, token in statement.tokens.calls())
        kinds = engine.builtin_kinds(called).values()
        is_drawn = any("volatile" in one for one in kinds)
        is_drawn |= any(token.upper in {"SAMPLE", "TABLESAMPLE"} for token in statement.tokens)
        if statement.selects or is_drawn:
            raise NotSupported("A DP call spends, and a drawn value would be another one.")
        self._tables(statement, engine)
        self._bind(statement, statement.text, None, engine)
        read = f"SELECT v, CAST(v AS VARCHAR), typeof(v) FROM ({statement.text}) AS t(v)"
        ((value, shown, kind),) = engine.run(read).fetchall()
        return value, shown, kind

    def _explained_error(self, error: duckdb.Error, statement: Statement) -> QueryError | None:
        from dp_sql.session.corrections.under_policy import explained_under_policy

        tables = PolicyTables(self._private, self._policy)
        return explained_under_policy(error, statement, tables, self._public, self._example_epsilon)

    def _example_epsilon(self) -> Fraction:
        """1, or the most that the policy and what is left of the budget allow."""
        most = self._policy.limits.max_epsilon_per_query
        left = [row.epsilon_left for row in self.budget() if row.epsilon_left is not None]
        return min([Fraction(1), *left, *([most] if most is not None else [])])

    def _explained(self, queries: Sequence[Sequence[Plan]], engine: Engine) -> list[Explanation]:
        delta, plans = self._policy.limits.max_delta_per_query, [p for q in queries for p in q]
        kept = self._store.kept(queries)
        pairs = zip(plans, kept, strict=True)
        return [explanation(plan, known, self._private, delta) for plan, known in pairs]

    def _bind(self, statement: Statement, empty: str, params: object, engine: Engine) -> None:
        if empty not in self._public.state.bindable:
            self._public.only_select(empty)
            only_reads(statement, self._public, self._public.read_by(empty))
            self._public.bind(empty, params)

    def _release(
        self, statement: Statement, plans: Sequence[Plan], engine: Engine
    ) -> list[Released]:
        """Each plan's stored release if the policy keeps it, else a new one.

        All losses are reserved before the first row is read, and stay spent whatever follows. Until
        the deadline neither the ledger nor the stored releases show whether an answer is ready.
        """
        outcome = self._outcome
        assert outcome is not None
        stored = self._store.answers(plans)
        selects = [select for select in statement.selects for _ in select.calls]
        calls = zip(selects, plans, stored, strict=True)
        new = [(select, plan) for select, plan, known in calls if known is None]
        n_before = self.n_receipts
        if new:
            self._store.check_writable()
        with outcome.shielded():
            answers = self._draw([plan for _, plan in new], outcome) if new else []
        outcome.check(is_spent=bool(new))
        if answers is None:
            raise QueryError(FAILED)
        receipts = self._tickets.receipts(self._number, n_before)
        made = zip(new, answers, receipts, strict=True)
        for (select, plan), rows, receipt in made:
            columns = answer_columns(plan, [key.parts[-1] for key in select.keys])
            self._store.add(plan, receipt, columns, rows)
        fresh = iter(self._freeze([plan for _, plan in new], answers))
        return [
            next(fresh)
            if known is None
            else Released(
                self._public.freeze_once(known.release.id, release_columns(plan), known.rows)
            )
            for plan, known in zip(plans, stored, strict=True)
        ]

    def _freeze(self, plans: Sequence[Plan], answers: Sequence[Records]) -> list[Released]:
        """Freeze new releases; those of one statement share a relation if their keys agree."""
        releases = [Released("")] * len(plans)
        for places in bundles(plans):
            # Plans that were read apart may have met other groups, or the same in another order.
            keys = [[row[:-1] for row in answers[i]] for i in places]
            apart = [[i] for i in places]
            for together in [places] if all(one == keys[0] for one in keys) else apart:
                some = [plans[i] for i in together]
                side_by_side = zip(*(answers[i] for i in together), strict=True)
                rows = [(*one, *(other[-1] for other in others)) for one, *others in side_by_side]
                relation = self._frozen.add(release_columns(*some), rows)
                for i, released in zip(together, each_of(some, relation), strict=True):
                    releases[i] = released
        return releases

    def _draw(self, plans: Sequence[Plan], outcome: OneOutcome) -> Sequence[Records] | None:
        """The rows of new releases, one for each plan; None: they failed or were abandoned."""
        outcome.check(is_spent=False)
        n_before, private = self.n_receipts, self._private
        with reserved(self._account, plans, private.issue) as releases:
            tickets = [one.ticket for one in releases]
            answers = outcome.run(lambda: private.release(plans, tickets))
            for one in releases:
                one.is_answered = answers is not None
            if answers is None:
                self._tickets.record_failure(plans, self._number, n_before)
        return answers

    def _read_again(self, release_id: str, engine: Engine) -> str | None:
        found = self._store.find(release_id)
        if found is None:
            return None
        columns = [(quote(name), kind) for name, kind in found.release.columns]
        rows = [row[-len(columns) :] for row in found.rows]
        return self._public.freeze_once(f"dp_release {release_id}", columns, rows)


def _private_connection(database: str | Spark, policy: Policy) -> PrivateConnection:
    if isinstance(database, str):
        return PrivateConnection(database, policy.limits)
    from dp_sql.engines.spark.private_connection import SparkPrivateConnection

    return SparkPrivateConnection(database, policy)

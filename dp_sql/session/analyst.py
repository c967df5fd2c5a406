"""A session under a policy: what an analyst asks, and what reaches the analyst.

    text → one SELECT → guard → private side (our statements only) → release → public side → answer

The analyst's text runs on the public side alone, where no private row is. A release is kept there,
so reading an answer again is free. Where the policy has a budget, what a query costs stands in the
ledger before any private row is read.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dp_sql.budget.account import BudgetRow
from dp_sql.engines.duckdb.private_connection import FAILED, PrivateSide
from dp_sql.engines.duckdb.public_connection import PublicSide
from dp_sql.errors import ArgumentError, NotSupported, PolicyError, QueryError
from dp_sql.policy.model import Policy
from dp_sql.policy.validation import misfits
from dp_sql.privacy.analyst_plan import analyst_plans
from dp_sql.privacy.plan import Plan
from dp_sql.privacy.private_sql import (
    Edit,
    answer_columns,
    outer_edits,
    release_columns,
    spliced,
    stand_ins,
)
from dp_sql.releases import Receipt, Release
from dp_sql.session.describe import describe_sql, tables_sql
from dp_sql.session.explain import Cost, cost, cost_sql, explained
from dp_sql.session.question import Question
from dp_sql.session.release_store import Kept, KeptReleases
from dp_sql.session.reservations import Spending, open_ledger
from dp_sql.session.system_tables import BookCall, Table, book_calls, book_table, unknown_release
from dp_sql.sql.limits import check_bytes, check_parameters, check_shape
from dp_sql.sql.select_list import check_list, only_reads
from dp_sql.sql.statement import DpSelect, recognise
from dp_sql.sql.tokens import Token, cte_bodies, folded, statements
from dp_sql.sql.types import full_name, quote
from dp_sql.udfs.mechanism import in_words

_QUERY = {"SELECT", "FROM", "WITH", "VALUES"}
Drawn = list[tuple[object, ...]]
"""The rows of one release."""


class GuardedSession:
    """An analyst's session: SELECTs with DP calls over the owner's tables, and public tables.

    `with dp_sql.connect("shop.duckdb", policy="policy.toml", analyst="reporting") as session: …`

    One thread at a time asks and fetches; for several, give each a session of its own.
    """

    def __init__(self, database: str, policy: Policy, analyst: str) -> None:
        self._policy = policy
        self._analyst = analyst
        self._lock = threading.RLock()
        self._private = PrivateSide(database, policy.limits)
        try:
            wrong = misfits(policy, self._private.catalogue)
            if wrong:
                raise PolicyError(f"The policy does not fit {database}: {'; '.join(wrong)}")
            self._ledger = open_ledger(policy.budget)
            self._spending = Spending(self._ledger, policy.budget, analyst)
            self._keeps = policy.budget is not None and policy.budget.keep_releases
            self._kept = KeptReleases(_kept_file(policy), analyst, os.path.realpath(database))
        except BaseException:
            self._private.close()
            raise
        self._public = PublicSide(policy.limits.public_memory_limit, policy.limits.threads)
        self._question: Question | None = None

    def sql(self, text: str, *, params: object = None) -> Any:
        """Answer one SELECT; the relation, as `duckdb` would return it.

        Args:
            text: one SELECT, with DP calls in SELECT lists; `EXPLAIN SELECT …`, which spends
                nothing; `SHOW TABLES`; `DESCRIBE table`.
            params: values for the text's parameters; DP calls and their sources cannot use them.

        `FROM dp_budget()`, `dp_ledger()`, `dp_releases()` and `dp_release('id')` are tables in it.

        Returns:
            A `DuckDBPyRelation` over the frozen release, on a connection without private rows.

        Raises:
            QueryError: what cannot be answered, before any row is read; or, after that, one
                constant sentence. BudgetExceeded, where too little is left.
            LedgerError: the ledger of the budget cannot be trusted or written.
            duckdb.Error: what DuckDB says of the rest of the text.

        Privacy: each DP call is one release with the epsilon written in it, under adding or
            removing all rows of one person.
        """
        return self._answer(text, params, self._public.relate)

    def execute(self, text: str, params: object = None) -> Any:
        """Answer as `sql` does, and return the connection to fetch from."""
        return self._answer(text, params, self._public.run)

    def explain(self, text: str) -> Cost:
        """What a query would cost; spends nothing and reads no private row."""
        return self.cost([text])

    def cost(self, texts: Sequence[str]) -> Cost:
        """What the DP calls of some queries would cost together.

        Args:
            texts: SELECTs, as `sql` takes them.

        Raises:
            QueryError: one of them would be refused.
        """
        with self._lock:
            plans = []
            for text in texts:
                planned = self._planned(text, _one_select(text))
                plans += [plan for _, found in planned for plan in found]
            return self._cost(plans)

    def budget(self) -> tuple[BudgetRow, ...]:
        """The budget of all analysts together, then of this one; empty where there is none."""
        account = self._spending.account
        return () if account is None else tuple(account.rows())

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that can be read again for nothing, oldest first."""
        return self._kept.all()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """One receipt per release of this session, oldest first."""
        return self._private.receipts

    @property
    def analyst(self) -> str:
        """Who asks."""
        return self._analyst

    def interrupt(self) -> None:
        """Stop what is running, from another thread; the session stays open.

        The cost of the question is spent, and its answer is discarded, ready or not.
        """
        if self._question is not None:
            self._question.abandon()
        self._private.interrupt()
        self._public.interrupt()

    def close(self) -> None:
        """Close both sides and the ledger, once the query that runs is done."""
        with self._lock, contextlib.ExitStack() as closing:  # each, whatever another says
            for part in (self._kept, self._spending, self._private, self._public):
                closing.callback(part.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- the order of the steps ---

    def _answer(self, text: str, params: object, last: Callable[[str, object], Any]) -> Any:
        if not isinstance(text, str):
            raise NotSupported("A query is a text.")
        if params is not None and not isinstance(params, list | tuple | dict):
            raise NotSupported("Parameters are a list, a tuple or a dictionary.")
        check_parameters(params)
        tokens = _one_select(text)
        question = Question(self._policy.limits.deadline_seconds, self._private.interrupt)
        with self._lock, question.interruptible():
            self._question = question
            shown = self._shown(tokens)
            if shown is not None:
                return last(shown, None)
            self._load_public(tokens)
            is_explained = tokens[0].upper == "EXPLAIN"
            if is_explained:
                tokens = tokens[1:]
                options = len(tokens) > 1 and tokens[1].upper not in {*_QUERY, ""}
                bracket = bool(tokens) and tokens[0].is_symbol("(") and not options
                if not tokens or (tokens[0].upper not in _QUERY and not bracket):
                    raise NotSupported("EXPLAIN takes a SELECT with DP calls.")
            planned = self._planned(text, tokens)
            plans = [plan for _, found in planned for plan in found]
            if is_explained:
                return last(cost_sql(self._cost(plans)), None)
            self._public.check_idle()
            books = self._books(text, tokens)
            empty = self._spliced(text, tokens, planned, [_stand_in(p) for p in plans], books)
            self._public.only_select(empty)
            only_reads(text, tokens, self._public)
            self._public.bind(empty, params)
            if not planned:
                return last(empty if books else text, params)
            relations = self._answers(planned, question)
            return last(self._spliced(text, tokens, planned, relations, books), params)

    def _planned(self, text: str, tokens: Sequence[Token]) -> Planned:
        selects = recognise(text, tokens, guarded=True)
        bodies = {n: text[slice(*span)] for n, span in cte_bodies(tokens, text).items()}
        planned = []
        for select in selects:
            check_list(select, self._public)
            plans = analyst_plans(select, bodies, self._policy, self._private)
            planned.append((select, plans))
        self._check_total([plan for _, plans in planned for plan in plans])
        return planned

    def _check_total(self, plans: Sequence[Plan]) -> None:
        """The policy's limits are for a query, however many calls it has."""
        limits = self._policy.limits
        for what, total, most in (
            ("epsilon", sum(plan.loss.epsilon for plan in plans), limits.max_epsilon_per_query),
            ("delta", sum(plan.loss.delta for plan in plans), limits.max_delta_per_query),
        ):
            if most is not None and total > most:
                raise ArgumentError(
                    f"The calls of this query cost {what} = {in_words(Fraction(total))} together, "
                    f"and the policy allows {in_words(most)} for one query.",
                    hint="Ask them one by one.",
                )

    def _spliced(
        self,
        text: str,
        tokens: Sequence[Token],
        planned: Planned,
        relations: Sequence[str],
        books: Sequence[Edit],
    ) -> str:
        """The text with each call's relation, in the order of the calls, and the books."""
        edits = list(books)
        names = [(relation, f"__dp_release_{n}") for n, relation in enumerate(relations, 1)]
        for select, plans in planned:
            edits += outer_edits(select, names[: len(plans)])
            names = names[len(plans) :]
        return spliced(text, edits, tokens[0].start, tokens[-1].end)

    def _answers(self, planned: Planned, question: Question) -> list[str]:
        """A relation for each call: its kept release where there is one, else a new one.

        All losses are reserved before the first row is read, and stay spent whatever follows.
        Until the deadline nothing shows whether an answer is ready: neither ledger nor kept
        releases.
        """
        asked = [(select, plan) for select, plans in planned for plan in plans]
        kept = [self._answer_kept(plan) for _, plan in asked]
        new = [pair for pair, known in zip(asked, kept, strict=True) if known is None]
        told = len(self.receipts)
        with question.shielded():
            drawn = self._drawn([plan for _, plan in new], question) if new else []
        question.check(is_spent=bool(new))
        if drawn is None:
            raise QueryError(FAILED)
        for (select, plan), rows, receipt in zip(new, drawn, self.receipts[told:], strict=True):
            columns = answer_columns(plan, [key.parts[-1] for key in select.keys])
            self._kept.keep(plan, receipt, columns, rows)
        answers = iter(drawn)
        return [
            self._public.freeze(release_columns(plan), next(answers))
            if known is None
            else self._public.freeze_once(known.release.id, release_columns(plan), known.rows)
            for (_, plan), known in zip(asked, kept, strict=True)
        ]

    def _drawn(self, plans: Sequence[Plan], question: Question) -> list[Drawn] | None:
        """The rows of new releases, one for each plan; None: they failed or were abandoned."""
        question.check(is_spent=False)
        told = len(self.receipts)
        with self._spending.reserved(plans, self._private.offer) as tickets:
            offered = list(tickets)
            drawn = question.run(
                lambda: [ticket.redeem(self._private.release) for ticket in offered]
            )
            if drawn is None:
                for ticket in offered:
                    ticket.answered = False
                self._private.write_failed(plans, told)
        return drawn

    def _answer_kept(self, plan: Plan) -> Kept | None:
        """The kept release that answers a plan, where the policy keeps releases."""
        return self._kept.answer(plan) if self._keeps else None

    def _cost(self, plans: Sequence[Plan]) -> Cost:
        calls = []
        for plan in plans:
            kept = self._answer_kept(plan)
            calls.append(explained(plan, kept.release.id if kept else None, self._private))
        return cost(calls, self._spending.account)

    # --- what there is ---

    def _shown(self, tokens: Sequence[Token]) -> str | None:
        """Our own SHOW TABLES and DESCRIBE: names and types, from the policy and the catalog."""
        words = [token.upper for token in tokens]
        if words[:1] == ["SHOW"] and words[1:] in (["TABLES"], ["ALL", "TABLES"]):
            return tables_sql(self._policy, self._private)
        if words[:1] in (["DESCRIBE"], ["DESC"], ["SHOW"]) and len(tokens) > 1:
            parts = [token.name for token in tokens[1::2]]
            if None not in parts:
                return describe_sql([p or "" for p in parts], self._policy, self._private)
        if words[0] not in _QUERY | {"EXPLAIN"} and not tokens[0].is_symbol("("):
            raise NotSupported(
                "Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES and DESCRIBE.",
                hint="SELECT DP_TOPK(…) FROM …",
            )
        return None

    def _books(self, text: str, tokens: Sequence[Token]) -> list[Edit]:
        """Edits that make the text read its budget, ledger and kept releases as tables."""
        edits = []
        for call in book_calls(text, tokens):
            columns, rows = self._book(call, text)
            what = f"{call.name} {call.argument}"
            relation = self._public.freeze_once(what, columns, rows)
            edits.append((call.start, call.stop, relation))
        return edits

    def _book(self, call: BookCall, text: str) -> Table:
        """What one of the books holds, for this analyst."""
        if call.name != "dp_release":
            return book_table(
                call, text, self.releases, self._ledger, self.budget, self._analyst
            )  # fmt: skip
        found = self._kept.find(call.argument or "")
        if found is None:
            raise unknown_release(call, text)
        columns = [(quote(name), kind) for name, kind in found.release.columns]
        return columns, [row[-len(columns) :] for row in found.rows]

    def _load_public(self, tokens: Sequence[Token]) -> None:
        """Copy the public tables that the text may mean, once each."""
        spoken = {folded(token.name) for token in tokens if token.name is not None}
        for name in self._policy.public:
            full = self._private.table(name)
            meant = full is not None and folded(full[-1]) in spoken
            if full is not None and meant and not self._public.has(full):
                table = full_name(full)
                columns = self._private.columns(f"SELECT * FROM {table}")
                self._public.load(full, columns, self._private.public_table(full))


Planned = list[tuple[DpSelect, list[Plan]]]


def _kept_file(policy: Policy) -> Path | None:
    """Where releases outlive the session; None: they do not."""
    if policy.budget is None or not policy.budget.keep_releases:
        return None
    return policy.budget.ledger.with_name(policy.budget.ledger.name + ".releases")


def _stand_in(ready: Plan) -> str:
    return f"(SELECT {stand_ins(ready)})"


def _one_select(text: str) -> Sequence[Token]:
    check_bytes(text)
    if "\0" in text:  # DuckDB would read the text up to there
        raise NotSupported("A query has no NUL in it.", text=text, position=text.index("\0"))
    found = statements(text)
    if len(found) != 1:
        raise NotSupported(
            "Under a policy one statement is answered at a time.",
            text=text,
            position=found[1][0].start if len(found) > 1 else 0,
        )
    check_shape(text, found[0])
    return found[0]

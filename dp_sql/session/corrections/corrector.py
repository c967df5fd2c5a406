"""How a session corrects what it refuses: in the user's words, with a statement that works."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb

from dp_sql.errors import BudgetExceeded, DpSqlError, NotSupported, ParseError, QueryError
from dp_sql.privacy.plans.plan import Plan, loss_at
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.statement import SYSTEM_TABLES, Statement, parse
from dp_sql.sql.statement_limits import MAX_BYTES
from dp_sql.sql.tokens import called, folded, statements

if TYPE_CHECKING:
    from dp_sql.budget.account import Account
    from dp_sql.sql.select_list import Functions


@dataclass(frozen=True)
class Corrector:
    """What correcting asks of a session.

    check: raises what a statement would raise before anything is spent. plan: a plan for each DP
        call of a statement. syntax_error: what DuckDB's parser says, if it may be asked and cannot
        read a statement. explained: DuckDB's error in other words, if they are known. reworded: an
        error as this kind of session says it. expanded: from a statement, what to try in place of a
        correction of it; None: the correction itself.
    """

    under_policy: bool
    account: Account | None
    check: Callable[[str], None]
    plan: Callable[[Statement], list[Plan]]
    syntax_error: Callable[[str], ParseError | None]
    explained: Callable[[duckdb.Error, Statement], QueryError | None]
    reworded: Callable[[QueryError, str], QueryError]
    expanded: Callable[[str], Callable[[str], Sequence[str]] | None]

    def corrected(self, error: QueryError | duckdb.Error, text: str) -> Exception:
        """An error in the user's words, with a statement that works instead if one is known."""
        with contextlib.suppress(Exception):  # the first error says enough
            if self.under_policy and len(text) > MAX_BYTES:
                return error  # what is too long to be read is not read to be corrected
            # Imported with the first error.
            from dp_sql.session.corrections.suggestions import propose

            told = self._told(error, text)
            if isinstance(told, QueryError):
                # Of an owner's several statements, some have run.
                if told.instead and (self.under_policy or len(statements(text)) == 1):
                    propose(told, text, self._attempt, self.expanded(text))
                if not told.suggestion:
                    told = self._unparsed(told, text) or told
            return told
        return error

    def _attempt(self, other: str) -> Exception | None:
        try:
            self.check(other)
        except (QueryError, duckdb.Error) as wrong:
            return self._told(wrong, other)
        except DpSqlError as wrong:
            return wrong
        return None

    def _with_largest(self, error: BudgetExceeded, text: str) -> QueryError:
        """The same error under the first epsilon, and the statement with what still fits."""
        from dp_sql.session.corrections.duckdb_errors import rescaled

        (statement,) = parse(text, under_policy=self.under_policy)
        plans = self.plan(statement)
        asked = sum((loss_at(plan, Fraction(1)).epsilon for plan in plans), Fraction(0))
        largest = self.account and self.account.largest(
            lambda factor: [loss_at(plan, factor) for plan in plans]
        )
        place = statement.selects[0].calls[0].given["epsilon"].tokens[0].start
        return error.at(text, place, [rescaled(statement, largest / asked)] if largest else [])

    def _unparsed(self, error: QueryError, text: str) -> QueryError | None:
        """What DuckDB's parser says, where that is nearer to what is wrong than an error."""
        from dp_sql.session.corrections.duckdb_errors import is_balanced
        from dp_sql.session.corrections.suggestions import propose

        found = self.syntax_error(text) if is_balanced(text) else None
        is_general = isinstance(error, ParseError) or error.position is None
        if found is None or not (is_general or (found.position or 0) < (error.position or 0)):
            return None
        propose(found, text, self._attempt, self.expanded(text))
        return found

    def _told(self, error: QueryError | duckdb.Error, text: str) -> QueryError | duckdb.Error:
        """DuckDB's error in words that name nothing of dp_sql's own."""
        told = error if isinstance(error, QueryError) else self._in_words(error, text)
        if isinstance(told, BudgetExceeded):
            told = self._with_largest(told, text)
        return self.reworded(told, text) if isinstance(told, QueryError) else told

    def _in_words(self, error: duckdb.Error, text: str) -> QueryError | duckdb.Error:
        if not isinstance(text, str):
            return error
        if isinstance(error, duckdb.ParserException):
            is_ours = self.under_policy or "__dp" in str(error)
            return (self.syntax_error(text) if is_ours else None) or error
        try:
            (statement,) = parse(text, under_policy=self.under_policy)
            return self.explained(error, statement) or error
        except (QueryError, ValueError):
            return error


def refuse_unknown(statement: Statement, engine: Functions) -> None:
    """Refuse (NotSupported) a call of a function dp_… that there is not."""
    names = {name for name in called(statement.tokens) if name.startswith("dp_")}
    names -= {*map(folded, FUNCTIONS), *SYSTEM_TABLES}
    known = engine.function_kinds(frozenset(names)) if names else {}
    for name in names - known.keys():
        from dp_sql.session.corrections.duckdb_errors import unknown_function

        raise unknown_function(statement.tokens, name) or NotSupported(f"There is no {name}.")

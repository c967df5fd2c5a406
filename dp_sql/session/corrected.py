"""How a session corrects what it refuses: in the user's words, with a statement that works."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb

from dp_sql.errors import BudgetExceeded, DpSqlError, NotSupported, ParseError, QueryError
from dp_sql.privacy.plans.plan import Plan, loss_at
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.statement import SYSTEM_TABLES, Statement, parse
from dp_sql.sql.tokens import called, folded, statements

if TYPE_CHECKING:
    from dp_sql.budget.account import Account
    from dp_sql.engines.duckdb.connection import Engine
    from dp_sql.sql.select_list import Functions


class Corrects(ABC):
    """What a session's errors need of it."""

    _analyst: str | None = None
    _account: Account | None = None

    def _corrected(
        self, error: QueryError | duckdb.Error, text: str, params: object, engine: Engine
    ) -> Exception:
        """An error in the user's words, with a statement that works instead if one is known."""

        def attempt(other: str) -> Exception | None:
            try:
                self._check(other, params, engine)
            except (QueryError, duckdb.Error) as wrong:
                return self._told(wrong, other, engine)
            except DpSqlError as wrong:
                return wrong
            return None

        with contextlib.suppress(Exception):  # the first error says enough
            # Imported with the first error.
            from dp_sql.session.corrections import without_lists
            from dp_sql.session.suggestions import propose

            told = self._told(error, text, engine)
            if isinstance(told, BudgetExceeded):
                told = self._with_largest(told, text, engine)
            if isinstance(told, QueryError):
                # Of an owner's several statements, some have run.
                if told.instead and (self._analyst is not None or len(statements(text)) == 1):
                    propose(told, text, attempt, without_lists, self._expanded(text, engine))
                if not told.suggestion:
                    told = self._unparsed(told, text, attempt, engine) or told
            return told
        return error

    def _expanded(self, text: str, engine: Engine) -> Callable[[str], Sequence[str]] | None:
        """What to try in place of a correction: an owner's, with columns that may be the person."""
        if self._analyst is not None:
            return None
        from dp_sql.session.guessed_units import with_guessed_units

        return with_guessed_units(text, engine.connection)

    def _with_largest(self, error: BudgetExceeded, text: str, engine: Engine) -> QueryError:
        """The same error under the first epsilon, and the statement with what still fits."""
        from dp_sql.session.corrections import rescaled

        (statement,) = parse(text, under_policy=self._analyst is not None)
        plans = self._plan(statement, engine)
        asked = sum((loss_at(plan, Fraction(1)).epsilon for plan in plans), Fraction(0))
        largest = self._account and self._account.largest(
            lambda factor: [loss_at(plan, factor) for plan in plans]
        )
        place = statement.selects[0].calls[0].given["epsilon"].tokens[0].start
        return error.at(text, place, [rescaled(statement, largest / asked)] if largest else [])

    def _unparsed(
        self,
        error: QueryError,
        text: str,
        attempt: Callable[[str], Exception | None],
        engine: Engine,
    ) -> QueryError | None:
        """What DuckDB's parser says, where that is nearer to what is wrong than an error."""
        from dp_sql.session.corrections import is_balanced, without_lists
        from dp_sql.session.suggestions import propose

        found = self._syntax_error(text) if is_balanced(text) else None
        is_general = isinstance(error, ParseError) or error.position is None
        if found is None or not (is_general or (found.position or 0) < (error.position or 0)):
            return None
        propose(found, text, attempt, without_lists, self._expanded(text, engine))
        return found

    def _told(
        self, error: QueryError | duckdb.Error, text: str, engine: Engine
    ) -> QueryError | duckdb.Error:
        """DuckDB's error in words that name nothing of dp_sql's own."""
        if isinstance(error, QueryError) or not isinstance(text, str):
            return error
        if isinstance(error, duckdb.ParserException):
            is_ours = self._analyst is not None or "__dp" in str(error)
            return (self._syntax_error(text) if is_ours else None) or error
        try:
            (statement,) = parse(text, under_policy=self._analyst is not None)
            return self._explained_error(error, statement) or error
        except (QueryError, ValueError):
            return error

    def _explained_error(self, error: duckdb.Error, statement: Statement) -> QueryError | None:
        from dp_sql.session.corrections import explained

        return explained(error, statement, [])

    @abstractmethod
    def _check(self, text: str, params: object, engine: Engine) -> None:
        """Raise what a statement would raise before anything is spent."""

    @abstractmethod
    def _plan(self, statement: Statement, engine: Engine) -> list[Plan]:
        """A plan for each DP call, in the order of the text, or a refusal."""

    @abstractmethod
    def _syntax_error(self, text: str) -> ParseError | None:
        """What DuckDB's parser says of a statement, if it may be asked and cannot read it."""


def refuse_unknown(statement: Statement, engine: Functions) -> None:
    """Refuse (NotSupported) a call of a function dp_… that there is not."""
    names = {name for name in called(statement.tokens) if name.startswith("dp_")}
    names -= {*map(folded, FUNCTIONS), *SYSTEM_TABLES}
    known = engine.function_kinds(frozenset(names)) if names else {}
    for name in names - known.keys():
        from dp_sql.session.corrections import unknown_function

        raise unknown_function(statement.tokens, name) or NotSupported(f"There is no {name}.")

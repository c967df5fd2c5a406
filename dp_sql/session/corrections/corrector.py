"""How a session corrects what it refuses: in the user's words, with a statement that works."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from dp_sql.errors import BudgetExceeded, DpSqlError, NotSupported, ParseError, QueryError
from dp_sql.privacy.plans.plan import Plan, loss_at
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.select_list import Functions
from dp_sql.sql.statement import SYSTEM_TABLES, Statement, parse
from dp_sql.sql.statement_limits import MAX_BYTES
from dp_sql.sql.surplus_arguments import refuse_surplus
from dp_sql.sql.tokens import edited, folded, statements
from dp_sql.udfs.mechanism import in_words

if TYPE_CHECKING:
    from dp_sql.budget.account import Account, BudgetRow
    from dp_sql.engines.duckdb.connection import Engine


_OWN_NAME = re.compile(r'\nDid you mean "__dp_[^\n]*')  # a table of dp_sql that holds an answer
_NOT_PROVED = re.compile(r"The function (?!columns )(\w+) is not supported here: dp_sql cannot ")
# How Google's SQL asks for differential privacy.
_ELSEWHERE = re.compile(r"\bSELECT\s+WITH\b|\bCLAMPED\s+BETWEEN\b", re.IGNORECASE)


class Correcting(ABC):
    """A session, as far as it corrects statements; what it asks of the rest of it comes last."""

    _analyst: str | None = None  # whose session it is; None: the owner's
    _account: Account | None

    def _corrected(
        self, error: QueryError | duckdb.Error, text: str, params: object, engine: Engine
    ) -> Exception:
        """An error in the user's words, with a statement that works instead if one is known."""
        with contextlib.suppress(Exception):  # the first error says enough
            if self._analyst is not None and len(text) > MAX_BYTES:
                return error  # what is too long to be read is not read to be corrected
            # Imported with the first error.
            from dp_sql.session.corrections.suggestions import propose

            attempt = partial(self._attempt, params=params, engine=engine)
            told = self._told(error, text, engine)
            if isinstance(told, QueryError):
                # Of an owner's several statements, some have run.
                if told.instead and (self._analyst is not None or len(statements(text)) == 1):
                    propose(told, text, attempt, self._expanded(text, engine))
                found = None if told.suggestion else self._unparsed(told, text)
                if found is not None:
                    propose(found, text, attempt, self._expanded(text, engine))
                    return found
            if isinstance(told, duckdb.Error) and _OWN_NAME.search(str(told)):
                return type(told)(_OWN_NAME.sub("", str(told)))
            return told
        return error

    def _attempt(self, other: str, params: object, engine: Engine) -> Exception | None:
        try:
            self._check(other, params, engine)
        except (QueryError, duckdb.Error) as wrong:
            return self._told(wrong, other, engine)
        except DpSqlError as wrong:
            return wrong
        return None

    def _one_statement(self, text: str) -> Statement:
        (statement,) = parse(text, under_policy=self._analyst is not None)
        return statement

    def _with_largest(self, error: BudgetExceeded, text: str, engine: Engine) -> QueryError:
        """The error under the first epsilon, and the statement with what still fits."""
        statement = self._one_statement(text)
        plans = self._plan(statement, engine)
        asked = sum((loss_at(plan, Fraction(1)).epsilon for plan in plans), Fraction(0))
        largest = self._account and self._account.largest(
            lambda factor: [loss_at(plan, factor) for plan in plans]
        )
        instead = [rescaled(statement, largest / asked)] if largest else []
        left = [row.delta_left for row in self.budget() if row.delta_left is not None]
        delta = sum((plan.loss.delta for plan in plans), Fraction(0))
        if largest is None and left and 0 < min(left) < delta:
            instead = [rescaled(statement, min(left) / delta, "delta")]
        return error.at(text, statement.calls[0].given["epsilon"][0].start, instead)

    def _unparsed(self, error: QueryError, text: str) -> QueryError | None:
        """What DuckDB's parser says, where that is nearer to what is wrong than an error."""
        from dp_sql.session.corrections.duckdb_errors import is_balanced

        found = self._syntax_error(text) if is_balanced(text) else None
        is_general = isinstance(error, ParseError) or error.position is None
        if found is None or not (is_general or (found.position or 0) < (error.position or 0)):
            return None
        return found

    def _told(
        self, error: QueryError | duckdb.Error, text: str, engine: Engine
    ) -> QueryError | duckdb.Error:
        """DuckDB's error in words that name nothing of dp_sql's own."""
        told = error if isinstance(error, QueryError) else self._in_words(error, text)
        if isinstance(told, BudgetExceeded):
            told = self._with_largest(told, text, engine)
        if isinstance(told, NotSupported):
            from dp_sql.session.corrections.aggregates import propose_beside

            propose_beside(told, text, engine)
        if isinstance(told, QueryError) and (called := _NOT_PROVED.match(told.message)):
            name = called[1].lower()
            if name not in engine.function_kinds(frozenset({name})):
                told.message = f"There is no function {called[1]}."
        return self._reworded(told, text, engine) if isinstance(told, QueryError) else told

    def _in_words(self, error: duckdb.Error, text: str) -> QueryError | duckdb.Error:
        if not isinstance(text, str):
            return error
        if isinstance(error, duckdb.ParserException):
            is_ours = self._analyst is not None or "__dp" in str(error) or _ELSEWHERE.search(text)
            return (self._syntax_error(text) if is_ours else None) or error
        try:
            return self._explained_error(error, self._one_statement(text)) or error
        except (QueryError, ValueError):
            return error

    @abstractmethod
    def budget(self) -> tuple[BudgetRow, ...]:
        """The whole budget, then this analyst's; empty without a ledger."""

    @abstractmethod
    def _check(self, text: str, params: object, engine: Engine) -> None:
        """Raise what a statement would raise before anything is spent."""

    @abstractmethod
    def _plan(self, statement: Statement, engine: Engine) -> list[Plan]:
        """A plan for each DP call, in the order of the text, or a refusal."""

    @abstractmethod
    def _syntax_error(self, text: str) -> ParseError | None:
        """What DuckDB's parser says of a statement, if it may be asked and cannot read it."""

    def _explained_error(self, error: duckdb.Error, statement: Statement) -> QueryError | None:
        """DuckDB's error about a statement in other words, if they are known."""
        from dp_sql.session.corrections.duckdb_errors import explained

        return explained(error, statement, [])

    def _reworded(self, error: QueryError, text: str, engine: Engine) -> QueryError:
        """An error as this kind of session says it."""
        return error

    def _expanded(self, text: str, engine: Engine) -> Callable[[str], Sequence[str]] | None:
        """What to try in place of a correction: an owner's, with columns that may be the person."""
        if self._analyst is not None:
            return None
        from dp_sql.session.corrections.guessed_units import with_guessed_units

        return with_guessed_units(text, engine.connection)


def refuse_unknown(statement: Statement, engine: Functions) -> None:
    """Refuse (NotSupported) a function dp_… that there is not, and a call that is misread."""
    if statement.selects:
        refuse_surplus(statement.tokens, lambda: engine.function_kinds(frozenset()))
    names = {name for name in statement.tokens.called() if name.startswith("dp_")}
    names -= {*map(folded, FUNCTIONS), *SYSTEM_TABLES}
    known = engine.function_kinds(frozenset(names)) if names else {}
    for name in names - known.keys():
        from dp_sql.session.corrections.duckdb_errors import unknown_function

        raise unknown_function(statement.tokens, name) or NotSupported(f"There is no {name}.")


def rescaled(statement: Statement, factor: Fraction, name: str = "epsilon") -> str:
    """A statement with each epsilon, or each delta, of its DP calls times a factor, rounded down.

    An epsilon has whole 1e-9, a delta three digits.
    """
    edits = []
    for select in statement.selects:
        for span, _ in select.call_places:
            tokens = select.between(span)
            for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False):
                if a.folded == name and b.is_symbol(":=", "=>"):
                    least = Fraction(c.text) * factor
                    written = in_words(Fraction(int(least * 10**9), 10**9))
                    if name == "delta":
                        three = Context(prec=3, rounding=ROUND_DOWN)
                        written = f"{three.divide(Decimal(least.numerator), least.denominator):e}"
                    edits.append((c.start, c.end, written))
    return edited(statement.text, edits)

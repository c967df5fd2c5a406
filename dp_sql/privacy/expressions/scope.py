"""What an expression may use, and what compiles its parts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from sqlglot import exp

from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.literals import constant, is_literal
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import INTEGERS

_WHOLE = (exp.SubqueryPredicate, exp.In, exp.ArrayContains, exp.RegexpLike, exp.RegexpFullMatch)


class Scope(NamedTuple):
    """What an expression may use.

    compile: compiles an expression: expression_compiler.compiled.
    column: finds a column by its parts, or refuses it.
    schema: what the engine is asked, over no rows: types, and which constants it can read.
    public_column: compiles a public query of one column, as behind IN, or refuses it; and whether
        it matters how often each row occurs.
    now: the time of the statement.
    aggregate: compiles an aggregate, where one is allowed.
    as_written: for owners, takes an expression that cannot be compiled as it is written.
    matched: in WHERE, compiles EXISTS, and IN for a value: whether a row has a match in a query. It
        returns None for IN over public tables.
    """

    compile: Callable[[Node, Scope], Value]
    column: Callable[[exp.Column], Value]
    schema: Schema
    public_column: Callable[[Node, bool], Value]
    now: Callable[[], datetime] | None = None
    aggregate: Callable[[Node], Value] | None = None
    as_written: Callable[[Node], Value] | None = None
    matched: Callable[[Node, Value | None], Value | None] | None = None

    def compiled(self, node: Node) -> Value:
        """A part of an expression."""
        return self.compile(node, self)

    def argument(self, node: Node) -> Value:
        """What is computed with: an expression, or a literal."""
        return constant(node, self.schema) if is_literal(node) else self.compiled(node)

    def operand(self, node: Node) -> Value:
        """A side of a comparison: parsers may differ about which of a = b = c comes first.

        They agree that IN comes before `=`, and about calls.
        """
        several = isinstance(node, exp.Predicate | exp.And | exp.Or | exp.Not)
        if several and not isinstance(node, _WHOLE):
            raise refuse(node, "Put brackets around one of these two comparisons")
        return self.compiled(node)

    def condition(self, node: Node) -> str:
        """An expression that is true or false; as in DuckDB, an integer is true if it is not 0."""
        if (found := self.compiled(node)).type == "BOOLEAN":
            return found.sql
        if found.type in INTEGERS:
            return f"({found.sql} <> 0)"
        hint = "Compare it, or write IS NOT NULL."
        raise refuse(node, f"A condition must be true or false; this is {found.type}", hint)

    def over_groups(self) -> Scope:
        """This scope; for an owner it takes the expressions of analysts, too."""
        if self.as_written is None:
            return self

        def either(node: Node, scope: Scope) -> Value:
            try:
                return self.compile(node, scope)
            except Refused:
                if scope.as_written is None:
                    raise
            return self.compile(node, scope._replace(compile=self.compile, as_written=None))

        return self._replace(compile=either)

    def only_analysts(self, node: Node, why: str) -> None:
        """Refuse, for an owner, whose text is then taken as it is written, DuckDB's errors too."""
        if self.as_written is not None:
            raise refuse(node, why)

"""Conditions: what is compared with what, and in which type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dp_sql.privacy.expressions.calls import Compile
from dp_sql.privacy.expressions.choices import one_type
from dp_sql.privacy.expressions.collations import agree, like, under
from dp_sql.privacy.expressions.comparisons import (
    FLOATS,
    SMALL,
    Scope,
    Value,
    beside,
    is_double,
    is_literal,
    refuse,
)
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import EXACT_TYPES, family

# Types with an order and an equality that fail on no value, and a string for every value.
COMPARABLE = EXACT_TYPES | FLOATS
COMPARISONS: Mapping[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip


def boolean(sql: str) -> Value:
    """A condition as a value."""
    return Value(f"({sql})", "BOOLEAN")


def only_analysts(node: Node, scope: Scope, why: str) -> None:
    """What an owner writes is then taken as it is written, with DuckDB's errors and all."""
    if scope.as_written is not None:
        raise refuse(node, why)


def _maybe_not(node: Node, sql: str) -> Value:
    """Sqlglot keeps the NOT of NOT LIKE inside the node or around it, depending on its version."""
    return boolean(f"NOT ({sql})" if node.args.get("negate") else sql)


def is_constant(node: Node, scope: Scope, operand: Compile) -> Value:
    """IS [NOT] NULL, TRUE or FALSE."""
    left, right = operand(node.this), node.expression
    if isinstance(right, exp.Null):
        return _maybe_not(node, f"{left.sql} IS NULL")
    if isinstance(right, exp.Boolean) and left.type == "BOOLEAN":
        return _maybe_not(node, f"{left.sql} IS {'TRUE' if right.this else 'FALSE'}")
    raise refuse(node, "IS must be followed by NULL, TRUE or FALSE")


def _own(node: Node, value: Value) -> Value:
    """A value under its own collation, as it is compared with literals."""
    return under(agree(node, value), value)


def compare(node: Node, scope: Scope, operand: Compile) -> Value:
    """One of = <> < <= > >= and IS [NOT] DISTINCT FROM."""
    sign, left, right = COMPARISONS[type(node)], node.this, node.expression
    if is_literal(left) and not is_literal(right):
        a, b = beside(_own(node, operand(right)), left, scope)
        return boolean(f"{b} {sign} {a}")
    value = operand(left)
    if isinstance(right, exp.Any) and sign == "=":
        return _among(node, value, right.this, scope)  # IN (SELECT …), as stored views have it
    return compared(node, value, sign, right, scope, operand)


def compared(
    node: Node, value: Value, sign: str, right: Node, scope: Scope, operand: Compile
) -> Value:
    """A value compared with an expression or a literal."""
    if is_literal(right):
        a, b = beside(_own(node, value), right, scope)
        return boolean(f"{a} {sign} {b}")
    agree(node, value)
    other = operand(right)
    if value.type == other.type and family(value.type) in COMPARABLE:
        collation = agree(node, value, other)
        value, other = under(collation, value), under(collation, other)
        return boolean(f"{value.sql} {sign} {other.sql}")
    if {family(value.type), family(other.type)} <= SMALL:
        return boolean(f"CAST({value.sql} AS HUGEINT) {sign} CAST({other.sql} AS HUGEINT)")
    only_analysts(node, scope, f"{value.type} and {other.type} are not compared here")
    _, (value, other) = one_type(node, [value, other], scope)
    return boolean(f"{value.sql} {sign} {other.sql}")


def between(node: Node, scope: Scope, operand: Compile) -> Value:
    """BETWEEN two literals or expressions."""
    value = operand(node.this)
    limits = [node.args["low"], node.args["high"]]
    if not all(map(is_literal, limits)):
        only_analysts(node, scope, "BETWEEN is supported only with literals")
        pairs = zip((">=", "<="), limits, strict=True)
        terms = (compared(node, value, sign, limit, scope, operand).sql for sign, limit in pairs)
        return boolean(" AND ".join(terms))
    _same_kind(node, limits)
    value = _own(node, value)
    (low, a), (high, b) = (beside(value, limit, scope) for limit in limits)
    return boolean(f"{low} >= {a} AND {high} <= {b}")


def _same_kind(node: Node, literals: Sequence[Node]) -> None:
    """DuckDB compares a list in one type for all, which one 1e0 makes DOUBLE."""
    if len(set(map(is_double, literals))) == 2:
        raise refuse(node, "Write these numbers either all with an exponent or all without one")


def in_list(node: Node, scope: Scope, operand: Compile) -> Value:
    """IN a list, or in a public column."""
    value, query, choices = operand(node.this), node.args.get("query"), node.expressions
    if query is not None:
        return _among(node, value, query, scope)
    if not choices:
        raise refuse(node, "IN is supported only with a list or a column of a public table")
    if not all(map(is_literal, choices)):
        only_analysts(node, scope, "IN is supported only with literals")
        terms = (compared(node, value, "=", choice, scope, operand).sql for choice in choices)
        return boolean(" OR ".join(terms))
    _same_kind(node, choices)
    value = _own(node, value)
    pairs = [beside(value, choice, scope) for choice in choices]
    if len({a for a, _ in pairs}) == 1:
        return boolean(f"{pairs[0][0]} IN ({', '.join(b for _, b in pairs)})")
    return boolean(" OR ".join(f"{a} = {b}" for a, b in pairs))


def _among(node: Node, value: Value, query: Node, scope: Scope) -> Value:
    if scope.matched is not None and (found := scope.matched(query, value)) is not None:
        return found
    listed = scope.listed(query)
    if listed.type != value.type or family(value.type) not in COMPARABLE:
        raise refuse(
            node, f"IN compares {value.type} with {listed.type}; both must have the same type"
        )
    value = under(agree(node, value, listed), value)
    return boolean(f"{value.sql} IN {listed.sql}")


def like_pattern(node: Node, scope: Scope, operand: Compile) -> Value:
    """LIKE or ILIKE with a literal pattern."""
    value, pattern = operand(node.this), node.expression
    plain = isinstance(pattern, exp.Literal) and pattern.is_string and "\0" not in pattern.this
    if family(value.type) != "VARCHAR" or not plain:
        raise refuse(node, "LIKE is supported only for a string column and a pattern in quotes")
    return _maybe_not(node, like(node, value, pattern.this, isinstance(node, exp.ILike)))

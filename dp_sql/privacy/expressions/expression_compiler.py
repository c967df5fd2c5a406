"""Which expressions may an analyst compute on private rows? Those that never fail, row by row.

Compiles sqlglot's tree of an expression into new SQL, or refuses it. Nothing that is compiled here
can raise an error on any row, look at another row, the clock or the session: an error that only
some rows raise would reveal them. Each form names the parts of its node that it reads, and a
node with any other part is refused: a part that is not read would change the query silently.
"""

from __future__ import annotations

from sqlglot import exp

from dp_sql.privacy.expressions.collations import BINARY
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value, bounded
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import BINARY_TYPES, EXACT_TYPES, UNSHOWN, family, same_bits

_MAX_SQL = 200_000  # characters of one expression: a value that is read twice is written twice


def compiled(node: Node, scope: Scope) -> Value:
    """Compile an expression, or raise Refused where it may fail on some row."""
    is_operator = isinstance(node, exp.Binary) and not isinstance(node, exp.Connector)
    if is_operator and isinstance(node.this, exp.Not):
        # sqlglot reads NOT a IS NULL || 'x' IS NULL as ((NOT a IS NULL) || 'x') IS NULL.
        raise refuse(node.this, "Put brackets around this NOT, or around what follows it")
    try:
        if isinstance(node, exp.Column):
            return _short_enough(node, _column(node, scope))
        return _compound(node, scope)
    except RecursionError:
        raise refuse(node, "This is nested too deeply") from None
    except Refused as why:
        if why.node is not None:
            raise
        from dp_sql.privacy.expressions.unsupported import unsupported

        raise unsupported(node) from None  # it lacks an argument, as date() does


def _compound(node: Node, scope: Scope) -> Value:
    # A column needs none of these; they import this module, too.
    from dp_sql.privacy.expressions import calls, forms, unsupported

    known = forms.ALL if scope.as_written is None else forms.OF_OWNERS
    for kinds, compile_one, parts in known:
        if isinstance(node, kinds):
            if parts is not None:
                unsupported.only(node, parts)
            return _short_enough(node, compile_one(node, scope))
    if scope.aggregate is not None and unsupported.is_aggregate(node):
        return scope.aggregate(node)
    if scope.as_written is None and calls.is_call(node):
        return _short_enough(node, calls.call(node, scope))
    if isinstance(node, exp.Anonymous):
        return forms.named(node, scope)
    raise unsupported.unsupported(node)


def _short_enough(node: Node, value: Value) -> Value:
    if len(value.sql) > _MAX_SQL:
        raise refuse(node, "This expression is too long", "Compute parts of it in a subquery.")
    return value


def settled(value: Value, node: Node) -> Value:
    """A value of which equal ones are the same to the last bit, for GROUP BY, min and the like.

    Where equal values differ ('Dune' and 'dune' under a collation, 0.0 and -0.0), DuckDB keeps the
    one it meets first, and which one that is may depend on other people's rows.
    """
    kind = family(value.type)
    if kind == "VARCHAR":
        sql = f"({same_bits(value.sql, value.type)})"
        return value._replace(sql=sql, collation=BINARY)
    if kind in BINARY_TYPES:
        return value._replace(sql=same_bits(value.sql, value.type))
    if kind not in EXACT_TYPES:
        raise refuse(node, f"{value.type} has no exact equality")
    return value


def _column(node: Node, scope: Scope) -> Value:
    try:
        value = scope.column(node)  # type: ignore[arg-type]
    except Refused as unknown:
        from dp_sql.privacy.expressions.elements import field_of

        value = field_of(node, scope, unknown)
    if value.type in UNSHOWN and not value.is_person:
        scope.only_analysts(node, f"{value.type} is not read here")
        near = bounded(value)
        return Value(f"CAST({near.sql} AS TIMESTAMP)", "TIMESTAMP", bound=near.bound)
    return value

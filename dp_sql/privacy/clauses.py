"""The clauses of a SELECT over a FROM clause: its list, and the conditions of WHERE and ON."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.privacy.comparisons import Refused, Scope, Value, refuse
from dp_sql.privacy.expressions import compiled, condition
from dp_sql.privacy.from_clause import ALLOWED, From, only
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded


def row_wise(node: Node, scope: Scope) -> Value:
    """Compile an expression, or take it as the owner wrote it."""
    try:
        return compiled(node, scope)
    except Refused:
        if scope.as_written is None:
            raise
    return scope.as_written(node)


def conditions(node: Node | None, scope: Scope) -> list[str]:
    """Compile a WHERE clause or another chain of AND, or take it as the owner wrote it."""
    try:
        return [condition(term, scope) for term in conjuncts(node)]
    except Refused:
        if scope.as_written is None or node is None:
            raise
    return [scope.as_written(node).sql]


def conjuncts(node: Node | None) -> list[Node]:
    """The terms of a chain of AND, in their order."""
    found: list[Node] = []
    waiting = [] if node is None else [node]
    while waiting:
        term = waiting.pop()
        if isinstance(term, exp.Paren):
            waiting.append(term.this)
        elif isinstance(term, exp.And):
            waiting += [term.expression, term.this]
        else:
            found.append(term)
    return found


def projections(tree: exp.Select, source: From, scope: Scope) -> tuple[list[str], list[Value]]:
    """The names and the values of a SELECT's list."""
    names: list[str] = []
    values: list[Value] = []
    for node in tree.expressions:
        inner = node.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(star, exp.Star) and inner is node:
            table = folded(inner.table) if isinstance(inner, exp.Column) else None
            for name, value in _star(star, table, source, scope):
                names.append(name)
                values.append(value)
        else:
            names.append(column_name(node))
            values.append(row_wise(inner, scope))
    return names, values


def _star(star: exp.Star, table: str | None, source: From, scope: Scope) -> list[tuple[str, Value]]:
    only(star, {"except", "except_", "replace", "rename"})
    dropped = star.args.get("except_") or star.args.get("except") or []
    if any(node.args.get("table") for node in dropped):
        raise refuse(star, "EXCLUDE takes names without a table", ALLOWED)
    gone = {folded(node.name) for node in dropped}
    put = {folded(n.alias): compiled(n.this, scope) for n in star.args.get("replace") or []}
    called = {folded(n.this.name): folded(n.alias) for n in star.args.get("rename") or []}
    listed = [
        (name, part.value(i))
        for part in source.parts
        if table in {None, part.name}
        for i, name in enumerate(part.rows.names)
        if table is not None or (part.number, i) not in source.hidden
    ]
    changed = [*gone, *put, *called]
    if len(changed) != len(set(changed)) or not set(changed) <= {name for name, _ in listed}:
        raise refuse(star, "EXCLUDE, REPLACE and RENAME take each column of the star once", ALLOWED)
    found = [
        (called.get(name, name), put.get(name, value)) for name, value in listed if name not in gone
    ]
    if not found:
        raise refuse(star, "This star lists no column", ALLOWED)
    return found


def column_name(node: Node) -> str:
    """What DuckDB calls a column of a list; an expression without an alias has no name here."""
    if isinstance(node, exp.Alias | exp.Column):
        return folded(node.alias_or_name)
    return ""

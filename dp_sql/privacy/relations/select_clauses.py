"""The clauses of a SELECT: only those that are known, and expressions over what FROM reads."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dp_sql.privacy.expressions.lists_and_maps import as_list
from dp_sql.privacy.expressions.row_values import row_wise, with_facts
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import NULL, Value
from dp_sql.privacy.refusals import ALLOWED, ALONE, FIRST_ROW, Refused, other_form, refuse
from dp_sql.privacy.relations.from_clause import From
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded

UNNEST = (
    "Write FROM (SELECT user_id, unnest(tags) AS tag FROM posts), or FROM posts, unnest(tags) AS "
    "t(tag), with a column of lists."
)

_CLAUSES = {
    "limit": "LIMIT", "offset": "OFFSET", "qualify": "QUALIFY", "windows": "WINDOW",
    "sample": "a sample", "laterals": "LATERAL", "pivots": "PIVOT", "distinct": "DISTINCT",
    "recursive": "RECURSIVE", "joins": "a join", "method": "this kind of join",
    "on": "DISTINCT ON", "when": "a time travel clause", "ordinality": "WITH ORDINALITY",
}  # fmt: skip


def only(node: Node, allowed: Collection[str]) -> None:
    """Refuse a node that carries anything beyond the allowed parts."""
    for key, value in node.args.items():
        if value and key not in allowed:
            at = value[0] if isinstance(value, list) else value
            clause = _CLAUSES.get(key, key.upper().replace("_", " "))
            at = at if hasattr(at, "walk") else node
            raise other_form(at) or refuse(
                at,
                f"{clause[0].upper()}{clause[1:]} is not supported in the source of a DP call, "
                "because one person's rows could then depend on another's",
                {"on": FIRST_ROW, "recursive": ALONE}.get(key, ALLOWED),
            )


def ctes_of(tree: Node) -> dict[str, Node]:
    """The queries of the CTEs of a SELECT or UNION, by folded name, in their order."""
    clause, bodies = tree.args.get("with_"), dict[str, Node]()
    if clause is not None:
        only(clause, {"expressions"})
    for cte in clause.expressions if clause is not None else ():
        only(cte, {"this", "alias", "materialized"})
        alias, body = cte.args["alias"], cte.this
        if alias.args.get("columns"):
            body = exp.select("*").from_(exp.Subquery(this=body, alias=alias))
        if folded(alias.name) in bodies:
            raise refuse(cte, "Two CTEs have the same name", ALLOWED)
        bodies[folded(alias.name)] = body
    return bodies


def check_order(tree: exp.Select, scope: Scope) -> None:
    """Refuse unknown columns in the ORDER BY of a subquery, which says nothing without LIMIT."""
    named = {"all", "rowid", *(folded(one.alias) for one in tree.expressions)}
    order = tree.args.get("order")
    for column in () if order is None else order.find_all(exp.Column):
        is_own = column.find_ancestor(exp.Select) is tree
        if is_own and (column.table or folded(column.name) not in named):
            try:
                scope.compiled(column)
            except Refused:
                hint = "Leave ORDER BY out of this subquery: without LIMIT it says nothing."
                raise refuse(column, f"ORDER BY {column.name} names no column", hint) from None


def ordering(node: Node) -> str:
    """The way of a part of ORDER BY, written out: DESC NULLS LAST."""
    only(node, {"this", "desc", "nulls_first"})
    nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{'DESC' if node.args.get('desc') else 'ASC'} NULLS {nulls}"


def list_value(node: Node, scope: Scope) -> Value:
    """Compile a list that unnest makes rows of, or take it as the owner wrote it."""
    value = as_list(row_wise(node, scope))
    if not value.type.endswith("[]"):
        hint = "Name its fields, as in address.city." if value.type[:7] == "STRUCT(" else UNNEST
        raise refuse(node, f"unnest takes a list, not {value.type}", hint)
    return value


def conditions(node: Node, scope: Scope) -> list[str]:
    """Compile a WHERE clause or another chain of AND, or take it as the owner wrote it.

    What an owner writes beside a subquery is computed as under a policy.
    """
    has_query = scope.as_written is not None and node.find(exp.Query) is not None
    found = []
    for term in conjuncts(node):
        try:
            found.append(scope.condition(term))
        except Refused:
            if scope.as_written is None:
                raise
            if not has_query:
                return [scope.as_written(node).sql]
            found.append(scope._replace(as_written=None).condition(term))
    return found


def conjuncts(node: Node | None) -> list[Node]:
    """The terms of a chain of AND, in their order."""
    around = exp.Paren | exp.And
    walked = [] if node is None else node.dfs(prune=lambda one: not isinstance(one, around))
    return [term for term in walked if not isinstance(term, around)]


def where_terms(tree: Node) -> list[Node]:
    """The terms of the WHERE clause of a SELECT."""
    clause = tree.args.get("where")
    return conjuncts(None if clause is None else clause.this)


def projections(tree: exp.Select, source: From, scope: Scope) -> tuple[list[str], list[Value]]:
    """The names and the values of a SELECT's list."""
    found: list[tuple[str, Value]] = []
    for node in tree.expressions:
        inner = node.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(star, exp.Star) and inner is node:
            table = folded(inner.table) if isinstance(inner, exp.Column) else None
            found += _star(star, table, source, scope)
        elif isinstance(inner, exp.Explode):
            if inner.expressions:
                raise refuse(inner, "unnest takes one list here", UNNEST)
            only(inner, {"this"})
            value = list_value(inner.this, scope)._replace(is_unnested=True)
            found.append((column_name(node), value))
        elif isinstance(inner.unnest(), exp.Null):
            found.append((column_name(node), NULL))
        else:
            found.append((column_name(node), with_facts(inner, scope)))
    return [name for name, _ in found], [value for _, value in found]


def _star(star: exp.Star, table: str | None, source: From, scope: Scope) -> list[tuple[str, Value]]:
    only(star, {"except_", "replace", "rename"})
    dropped = star.args.get("except_") or []
    if any(node.args.get("table") for node in dropped):
        raise refuse(star, "EXCLUDE takes names without a table", ALLOWED)
    gone = {folded(node.name) for node in dropped}
    put = {folded(n.alias): row_wise(n.this, scope) for n in star.args.get("replace") or []}
    called = {folded(n.this.name): folded(n.alias) for n in star.args.get("rename") or []}
    columns = sorted(source.columns(), key=lambda column: column.before)  # in the order of FROM
    listed = [
        (one.name, source.value(one.place))
        for one in columns
        if (one.place not in source.hidden if table is None else (table,) == one.path[-1:])
    ]
    changed = [*gone, *put, *called]
    if len(changed) != len(set(changed)) or not set(changed) <= {name for name, _ in listed}:
        raise refuse(star, "EXCLUDE, REPLACE and RENAME take each column of the star once", ALLOWED)
    found = [(called.get(n, n), put.get(n, value)) for n, value in listed if n not in gone]
    if not found:
        raise refuse(star, "This star lists no column", ALLOWED)
    return found


def column_name(node: Node) -> str:
    """What DuckDB calls a column of a list; an expression without an alias has no name here."""
    if isinstance(node, exp.Alias | exp.Column):
        return folded(node.alias_or_name)
    return ""


def flattened(node: Node) -> tuple[Node, list[Node]]:
    """The first relation of FROM, and the joins that sqlglot keeps inside it or its brackets."""
    joins: list[Node] = []
    while True:
        joins = [*(node.args.get("joins") or []), *joins]
        inner = node.this
        bracket = isinstance(node, exp.Subquery) and isinstance(inner, exp.Table | exp.Subquery)
        if not bracket or node.args.get("alias"):
            return node, joins
        only(node, {"this", "joins"})
        node = inner

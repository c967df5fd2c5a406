"""List columns as rows: unnest in a SELECT list, and in FROM beside the table that has the list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.privacy.collations import BINARY
from dp_sql.privacy.comparisons import Scope, Value, refuse
from dp_sql.privacy.from_clause import UNNEST, From, FromPart, Rows, column_name, list_value, only
from dp_sql.privacy.relation_tree import Unnest, relations_in
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded


def unnested(tree: Node, source: From, values: Sequence[Value]) -> tuple[From, list[Value]]:
    """A SELECT whose list has an unnest: its rows, once for each element, and their columns."""
    places = [i for i, value in enumerate(values) if value.is_unnested]
    if len(places) > 1:
        raise refuse(tree, "A SELECT of a source may unnest one list only", UNNEST)
    part = FromPart((), 0, Rows(source.select(values), (), tuple(values), source.person_type))
    one = From([_with_elements(part, places[0])])
    return one, [one.parts[0].value(i) for i in range(len(values))]


def join_list(join: Node, source: From, scope_of: Callable[[From], Scope]) -> bool:
    """Join `unnest(list) AS t(x)` to the table of the list; False where a join is no such thing."""
    lateral = join.this
    node = lateral.this if isinstance(lateral, exp.Lateral) else lateral
    alias = lateral.args.get("alias")
    names = [folded(column.name) for column in alias.args.get("columns") or []] if alias else []
    if isinstance(node, exp.Subquery) and isinstance(lateral, exp.Lateral):
        query = node.this
        items = query.expressions if isinstance(query, exp.Select) else []
        if len(items) != 1 or not isinstance(items[0].unalias(), exp.Explode):
            return False
        only(node, {"this"})
        only(query, {"expressions"})
        names, node = names or [column_name(items[0])], items[0].unalias()
        only(node, {"this"})
        lists = [node.this]
    elif isinstance(node, exp.Unnest):
        only(node, {"expressions", "alias"})
        lists = node.expressions
    else:
        return False
    kind, on = str(join.args.get("kind") or "").upper(), join.args.get("on")
    plain = kind in {"", "CROSS", "INNER"} and (on is None or on == exp.true())
    if not plain or join.args.get("side") or len(lists) != 1 or len(names) > 1:
        raise refuse(join, "This form of unnest is not supported in a source", UNNEST)
    only(join, {"this", "kind", "on"})
    numbers = relations_in(*(source.column(c).sql for c in lists[0].find_all(exp.Column)))
    if len(numbers) != 1 or any(left.number in numbers for left in source.left_joins):
        raise refuse(join, "unnest in FROM takes a list of one table before it", UNNEST)
    (number,) = numbers
    alone = From([replace(source.parts[number], number=0)])
    column = source.add(number, list_value(lists[0], scope_of(alone)))
    index = int(column.sql.split("c")[1])
    source.parts[number] = _with_elements(source.parts[number], index)
    path = (folded(alias.name),) if alias is not None and alias.name else ()
    source.elements.append((len(source.parts), path, (names or ["unnest"])[0], (number, index)))
    return True


def _with_elements(part: FromPart, index: int) -> FromPart:
    """A relation, once for each element of the list in one of its columns."""
    rows = part.rows
    values = list(rows.values)
    values[index] = Value(values[index].sql, values[index].type[:-2], collation=BINARY)
    relation = Unnest(rows.relation, index, tuple(value.type for value in values))
    return replace(part, rows=replace(rows, relation=relation, values=tuple(values)))

"""UNION, INTERSECT and EXCEPT, of all columns.

UNION is SELECT DISTINCT over UNION ALL. INTERSECT and EXCEPT are groups of equal rows of it: those
in which both sides have a row, or only the left. Groups hold one person's rows, so what the result
has of a person depends on the rows of that person alone.
"""

from collections.abc import Callable, Sequence
from functools import partial

from sqlglot import exp

from dp_sql.privacy.expressions.collations import BINARY, PLAIN, either
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.from_clause import From, FromPart, in_order, unlike, with_wider
from dp_sql.privacy.relations.person_groups import distinct_values
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import only
from dp_sql.privacy.relations.tree import Group, Relation, UnionAll
from dp_sql.sql.sqlglot_tree import Node


def combined(tree: exp.SetOperation, query: Callable[[Node], Rows], tables: Tables) -> Rows:
    """The rows of a UNION, INTERSECT or EXCEPT; `query` compiles a side of it."""
    is_union, distinct = isinstance(tree, exp.Union), tree.args.get("distinct")
    if not is_union and not distinct:
        word = tree.key.upper()
        raise refuse(tree, f"{word} ALL is not supported in a source", f"Write {word}.")
    by_name = {"by_name"} if is_union else set[str]()
    only(tree, {"this", "expression", "distinct", "with_", "order"} | by_name)
    if isinstance(tree, exp.Intersect) and isinstance(tree.this, exp.Union | exp.Except):
        why = "INTERSECT beside UNION or EXCEPT is not supported without brackets"  # sqlglot 28
        raise refuse(tree, why, "INTERSECT comes first: SELECT … EXCEPT (SELECT … INTERSECT …).")
    left, right = query(tree.this), query(tree.expression)
    if tree.args.get("by_name"):
        right = in_order(right, left.names, tree)
    elif len(left.names) == len(right.names):  # those of SELECT 1, 'a' are the left side's
        right = tables.declared(right._replace(names=left.names))
    left, right = with_wider(left, right), with_wider(right, left)
    if (refusal := unlike(tree, left, right)) is not None:
        tables.note_union(left, right)
        raise refusal
    values = tuple(map(partial(either, tree), left.values, right.values))
    if tables.trusted:  # the privacy unit may be called as it is on the left
        own = zip(values, left.values, strict=True)
        values = tuple(value._replace(origin=one.origin) for value, one in own)
    if not is_union:
        return _compared(tree, left, right, values, tables)
    rows = left._replace(relation=UnionAll(left.relation, right.relation), values=values)
    return _distinct(tree, rows, tables) if distinct else rows


def _distinct(tree: Node, rows: Rows, tables: Tables) -> Rows:
    """The rows of a UNION: those of SELECT DISTINCT over UNION ALL."""
    source = From([FromPart((), 0, rows)])
    columns = [source.value((0, i)) for i in range(len(rows.values))]
    values = distinct_values(tree, source, columns, tables)
    return rows._replace(relation=source.select(values, distinct=True), values=tuple(values))


def _compared(tree: Node, left: Rows, right: Rows, values: Sequence[Value], tables: Tables) -> Rows:
    """The rows of INTERSECT or EXCEPT: groups of equal rows, by the sides that these are from."""
    if tables.trusted and not left.is_private:
        why = (
            f"{tree.key.upper()} is not supported here: rows that are not declared may be people's"
        )
        raise refuse(tree, why, "If they are public, store the result first: CREATE TABLE … AS ….")
    if any(value.collation not in {PLAIN, BINARY} for value in values):
        why = f"{tree.key.upper()} is not supported for strings with a collation"
        raise refuse(tree, why)
    marks = Value("1", "INTEGER"), Value("2", "INTEGER")
    sides = [_marked(rows, mark) for rows, mark in zip((left, right), marks, strict=True)]
    marked = left._replace(relation=UnionAll(*sides), values=(*values, marks[0]))
    source, n_own = From([FromPart((), 0, marked)]), len(values)
    *columns, mark = (source.value((0, i)) for i in range(n_own + 1))
    keys = distinct_values(tree, source, columns, tables)
    by = tuple(sorted(key.sql for key in keys))
    group = Group(by, is_whole=all(key.is_person for key in keys), counts_rows=False)
    ends = [Value(f"system.main.{word}({mark.sql})", "INTEGER") for word in ("min", "max")]
    found = (*keys, *ends)
    grouped = left._replace(relation=source.select(found, group=group), values=found)
    outer = From([FromPart((), 0, grouped._replace(names=("",) * len(found)))])
    *own, least, most = (outer.value((0, i)) for i in range(len(found)))
    is_both = isinstance(tree, exp.Intersect)
    outer.where = [f"({least.sql} = 1)", f"({most.sql} = {2 if is_both else 1})"]
    return left._replace(relation=outer.select(own), values=tuple(own))


def _marked(rows: Rows, mark: Value) -> Relation:
    """A relation with a further column, which says from which side its rows are."""
    source = From([FromPart((), 0, rows)])
    return source.select([*(source.value((0, i)) for i in range(len(rows.values))), mark])

"""Aliases of a SELECT's list that other parts of the same SELECT use, as DuckDB reads them.

A column of FROM comes before an alias, and an item of the list knows the aliases before it.
"""

from sqlglot import exp

from dp_sql.privacy.expressions.row_values import row_wise
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.unsupported import is_aggregate
from dp_sql.privacy.refusals import refuse
from dp_sql.privacy.relations.from_clause import From
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded

# Names that mean something else to DuckDB where no column is called so.
_TAKEN = {
    "rowid", "filename", "file_index", "file_row_number", "user", "session_user", "localtime",
    "localtimestamp", "current_catalog", "current_date", "current_role", "current_schema",
    "current_time", "current_timestamp", "current_user",
}  # fmt: skip
_LONGEST = 10_000  # characters of SQL


def usable(tree: exp.Select, source: From) -> set[str]:
    """The aliases of a list whose meaning is clear, folded.

    A table's name comes before an alias, and so may a column that has no name here.
    """
    for part in source.parts:
        own = {i for number, i in source.added if number == part.number}
        if any(not name and i not in own for i, name in enumerate(part.rows.names)):
            return set()
    taken = {part.name for part in source.parts}.union(*(one.path for one in source.elements))
    names = [folded(one.alias) for item in tree.expressions for one in item.find_all(exp.Alias)]
    return {name for name in names if names.count(name) == 1} - taken - _TAKEN


def used(node: Node, tree: exp.Select, source: From) -> set[str]:
    """The names in a part of a SELECT, subqueries aside, that are no columns of FROM, folded."""
    return {
        folded(column.name)
        for column in node.find_all(exp.Column)
        if len(column.parts) == 1 and column.find_ancestor(exp.Query) is tree
        if not source.has(column)
    }


def over_rows(tree: exp.Select, source: From) -> list[bool]:
    """For each item of a list, whether it or an alias in it needs an aggregate or other rows."""
    found: list[bool] = []
    names: set[str] = set()
    for item in tree.expressions:
        kinds = (exp.Window, exp.Explode)
        own = any(isinstance(node, kinds) or is_aggregate(node) for node in item.walk())
        found.append(own or bool(used(item, tree, source) & names))
        if found[-1] and isinstance(item, exp.Alias):
            names.add(folded(item.alias))
    return found


def put_aliases(tree: exp.Select, source: From, scope: Scope) -> None:
    """Let the parts of a SELECT use those aliases of its list that are values of one row."""
    later = usable(tree, source) & used(tree, tree, source)
    if not later:
        return
    for item, is_over_rows in zip(tree.expressions, over_rows(tree, source), strict=True):
        for name in used(item, tree, source) & later:
            raise refuse(item, f"{name} is used here before it is defined", "Define it first.")
        if isinstance(item, exp.Alias) and folded(item.alias) in later:
            later.remove(folded(item.alias))
            if not is_over_rows:
                value = row_wise(item.this, scope)
                if len(value.sql) > _LONGEST:  # it is written wherever it is used
                    why = f"The expression of {item.alias} is too long to be used by its alias"
                    raise refuse(item, why, "Name it in a subquery, and use it outside.")
                source.aliases[folded(item.alias)] = value

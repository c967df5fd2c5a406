"""What a refusal says of a name that is no column of a source."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.privacy.refusals import ALLOWED, Refused, refuse
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.tree import LinkedTable, Relation, Table
from dp_sql.sql.formatting import literal, shown_name
from dp_sql.sql.sqlglot_tree import to_sql
from dp_sql.sql.tokens import folded


def unknown_column(node: exp.Column, parts: Sequence[Rows]) -> Refused:
    """The refusal of a name that is not a column of these relations."""
    message = f"{to_sql(node)} is not a column of the source"
    for part in parts:
        if join := _join_of(part.relation, folded(node.name)):
            refusal = refuse(node, message, f"It is in another table: write FROM … {join}.")
            refusal.join = join
            return refusal
    import difflib  # for errors alone

    names = sorted({name for part in parts for name in part.names if name})
    near = difflib.get_close_matches(folded(node.name), names, n=3)
    refusal = refuse(node, message, f"Did you mean {' or '.join(near)}?" if near else ALLOWED)
    is_alone = len(node.parts) == 1  # then it may be a string without its quotes
    refusal.names = [*map(shown_name, near), *([literal(node.name)] if is_alone else [])]
    return refusal


def _join_of(relation: Relation, name: str) -> str:
    """The join by which a table that is linked to people has their column of that name, or ""."""
    if not isinstance(relation, LinkedTable):
        return ""
    owner = relation.owner
    table = owner.table if isinstance(owner, LinkedTable) else owner
    assert isinstance(table, Table)  # a policy links tables alone
    ends = relation.table.column_name(relation.column), table.column_name(relation.key)
    if folded(ends[0]) != folded(ends[1]):
        return ""
    join = f"JOIN {shown_name(table.name[-1])} USING ({shown_name(ends[0])})"
    if table.person is not None and folded(table.column_name(table.person)) == name:
        return join
    more = _join_of(owner, name)
    return more and f"{join} {more}"

"""An expression of one row, and what its form tells of the values that it can have."""

from contextlib import suppress

from sqlglot import exp

from dp_sql.privacy.expressions.literals import is_literal
from dp_sql.privacy.expressions.own_values import BOOLEANS, results, with_own_values
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, Unbound
from dp_sql.sql.sqlglot_tree import Node, Unreadable, projection, to_sql


def row_wise(node: Node, scope: Scope) -> Value:
    """Compile an expression or a literal, or take it as the owner wrote it."""
    value = _row_wise(node, scope)
    return value._replace(is_own=True) if _is_own(node.unnest(), scope) else value


def _is_own(tree: Node, scope: Scope) -> bool:
    """Whether each result of a CASE or an if is the privacy unit of the row, or NULL."""
    if not isinstance(tree, exp.Case | exp.If):
        return False
    found = [one for one in results(tree) if not isinstance(one, exp.Null)]
    with suppress(Refused):  # a field of a struct
        are_own = (isinstance(one, exp.Column) and scope.column(one).is_of_person for one in found)
        return bool(found) and all(are_own)
    return False


def _row_wise(node: Node, scope: Scope) -> Value:
    try:
        return scope.compiled(node)
    except Refused:
        if scope.as_written is None and (not is_literal(node) or isinstance(node, exp.Null)):
            raise
    if scope.as_written is not None and node.find(exp.Query) is not None:
        try:  # what is beside IN and EXISTS is computed as under a policy
            return scope._replace(as_written=None).compiled(node)
        except Refused as refusal:
            if not isinstance(refusal.node, exp.Subquery):  # a value of other rows
                raise
    if scope.as_written is None:
        return scope.argument(node)._replace(literal="")
    return scope.as_written(node)


def with_facts(tree: Node, scope: Scope) -> Value:
    """An expression of one row with what is known of its values: see Value.facts_of."""
    value = row_wise(tree, scope)
    if isinstance(tree.unnest(), exp.Column) and value.has_facts:
        return value
    is_of_one = value.is_of_one and value.has_facts
    value = value._replace(ends=value.ends if value.has_facts else None, is_of_one=is_of_one)
    if not value.is_person:
        value = value._replace(own_values=value.row_literals, day_part=())
        value = with_own_values(value, tree, lambda part: _part_of(part, scope))
    image = _image(tree, scope) if value.origin is None else None
    return value._replace(image=image, facts_of=value.sql)


def with_known_values(value: Value, tree: Node, groups: Scope, rows: Scope) -> Value:
    """What a SELECT with groups lists, with the values that it can have; it has no other facts.

    groups, rows: what it, and the keys, may use.
    """

    def part_of(part: Node) -> Value:
        found = _part_of(part, groups)
        return found if found.type else _part_of(part, rows)

    if value.is_person:
        return value.without_facts()
    ends = value.ends if value.has_facts else None
    own = value.own_values if value.has_facts else value.row_literals
    value = with_own_values(value._replace(own_values=own, ends=ends), tree, part_of)
    return value._replace(image=None, day_part=(), is_of_one=False, facts_of=value.sql)


def _part_of(part: Node, scope: Scope) -> Value:
    """A part of an expression; without SQL and type if it cannot be compiled."""
    tree = projection(to_sql(part))  # alone, as an owner's expression is taken whole
    with suppress(Refused, Unbound, Unreadable):
        return row_wise(tree, scope) if tree is not None else Value("", "")
    return Value("", "")


def _image(tree: Node, scope: Scope) -> tuple[Value, str] | None:
    """The one column that an analyst's expression reads, and the expression over `item`."""
    if scope.as_written is not None or tree.find(exp.Query) is not None:
        return None
    try:
        columns = {scope.column(node) for node in tree.find_all(exp.Column)}
    except Refused:  # a field of a struct
        return None
    if len(columns) != 1:
        return None
    (column,) = columns
    if not column.has_facts:  # an alias of what is computed from a column of which this was known
        column = column.without_facts()
    if column.type == "BOOLEAN":
        column = column._replace(own_values=BOOLEANS)
    over = column._replace(sql="item", origin=None, facts_of="item" if column.has_facts else "")
    return column, row_wise(tree, scope._replace(column=lambda _: over)).sql

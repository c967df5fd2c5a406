"""An expression of one row, and the values that it can have, as far as its form alone tells them.

They are TRUE and FALSE for a condition, 1 to 12 for a month, and for CASE its results if all of
them are literals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sqlglot import exp

from dp_sql.privacy.expressions.literals import is_literal
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, Unbound
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import PART_NODES, Node, Unreadable, projection, to_sql
from dp_sql.sql.types import INTEGER_RANGES

BOOLEANS = ("FALSE", "TRUE")
_RANGES: Mapping[str, Sequence[object]] = {
    "quarter": range(1, 5), "month": range(1, 13), "week": range(1, 54), "weekofyear": range(1, 54),
    "day": range(1, 32), "dayofyear": range(1, 367), "doy": range(1, 367), "dayofweek": range(7),
    "dow": range(7), "weekday": range(7), "isodow": range(1, 8), "hour": range(24),
    "minute": range(60), "second": range(60),
}  # fmt: skip
_OF_TIME = {"hour", "minute", "second"}
_NAMES: Mapping[str, Sequence[object]] = {  # as DuckDB writes them, whatever the locale
    "dayname": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "monthname": (
        "January", "February", "March", "April", "May", "June", "July", "August", "September",
        "October", "November", "December",
    ),
}  # fmt: skip


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
    """An item of a SELECT with groups, and the values that it can have; it has no other facts.

    groups, rows: the scopes of the item and of the keys.
    """
    if value.is_person:
        return value.without_facts()
    ends = value.ends if value.has_facts else None
    own = value.own_values if value.has_facts else value.row_literals
    value = value._replace(own_values=own, ends=ends)
    value = with_own_values(value, tree, lambda part: _part_of(part, groups, rows))
    return value._replace(image=None, day_part=(), is_of_one=False, facts_of=value.sql)


def _part_of(part: Node, *scopes: Scope) -> Value:
    """A part of an expression; without SQL and type if it cannot be compiled in any scope."""
    tree = projection(to_sql(part))  # alone, as an owner's expression is taken whole
    for scope in scopes:
        with suppress(Refused, Unbound, Unreadable):
            if tree is not None:
                return row_wise(tree, scope)
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
    if not column.has_facts:  # an alias of an expression over the column with these facts
        column = column.without_facts()
    if column.type == "BOOLEAN":
        column = column._replace(own_values=BOOLEANS)
    over = column._replace(sql="item", origin=None, facts_of="item" if column.has_facts else "")
    return column, row_wise(tree, scope._replace(column=lambda _: over)).sql


def with_own_values(value: Value, tree: Node, part_of: Callable[[Node], Value]) -> Value:
    """An expression's value with literals of all that it can be other than NULL, if they are known.

    part_of: a part of the expression, without SQL and type if it cannot be compiled.
    """
    tree, kind = tree.unnest(), value.type
    if kind == "BOOLEAN":
        return value._replace(own_values=BOOLEANS)
    if isinstance(tree, exp.Case | exp.If):
        return value._replace(own_values=_literals(results(tree)))
    if isinstance(tree, exp.Literal):
        return value._replace(own_values=(to_sql(tree),))
    if isinstance(tree, exp.Cast) and kind in INTEGER_RANGES:
        cast, (low, high) = part_of(tree.this), INTEGER_RANGES[kind]
        is_known = cast.has_facts and cast.ends
        own = with_own_values(cast, tree.this, part_of).own_values if is_known else ()
        return value._replace(own_values=own if all(low <= int(n) <= high for n in own) else ())
    name = _name(tree)
    known = {"BIGINT": _RANGES, "VARCHAR": _NAMES}.get(kind, {}).get(name)
    of = Value("", "")
    if known is not None:
        read = _read(tree).unnest()
        is_time = name in _OF_TIME and isinstance(read, exp.Cast) and part_of(read).type == "TIME"
        of = part_of(read.this if is_time else read)  # a timestamp's time is before 24:00:00
    # The hour of the TIME 24:00:00 is 24, and the parts of an INTERVAL have other ranges.
    if known is None or not of.type.startswith(("DATE", "TIMESTAMP")):
        return value
    own = tuple(str(one) if kind == "BIGINT" else literal(str(one)) for one in known)
    part = () if name in _OF_TIME else (name, of.sql)
    return value._replace(own_values=own, day_part=part)


def _read(tree: Node) -> Node:
    """What a part is read of."""
    read: Node = tree.expressions[-1] if isinstance(tree, exp.Anonymous) else tree.this
    if isinstance(tree, exp.Extract):
        read = tree.expression
    while isinstance(read, exp.TsOrDsToDate):  # sqlglot's own
        read = read.this
    return read


def results(tree: Node) -> list[Node]:
    """The results of CASE and if(…)."""
    branches: Sequence[Node] = [tree] if isinstance(tree, exp.If) else tree.args["ifs"]
    default = tree.args.get("false" if isinstance(tree, exp.If) else "default")
    return [one.args["true"] for one in branches] + ([default] if default is not None else [])


def _literals(found: Sequence[Node]) -> tuple[str, ...]:
    """The values of results that are literals; none if one is not."""
    if not all(map(is_literal, found)):
        return ()
    return tuple(dict.fromkeys(to_sql(r) for r in found if not isinstance(r, exp.Null)))


def _name(tree: Node) -> str:
    """The part of a date that is read, or the function that is called."""
    if type(tree) in PART_NODES:
        return PART_NODES[type(tree)]
    if isinstance(tree, exp.Extract):
        return tree.name.lower()
    if not isinstance(tree, exp.Anonymous):
        return type(tree).__name__.lower()
    name, given = tree.name.lower(), tree.expressions
    return given[0].name.lower() if name in {"date_part", "datepart"} and given else name

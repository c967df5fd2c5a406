"""The values that an expression can have, whatever the rows: its form alone tells them.

TRUE and FALSE of a condition, 1 to 12 of a month, and the results of CASE where they are literals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dp_sql.privacy.expressions.literals import is_literal
from dp_sql.privacy.expressions.value import Value
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import PART_NODES, Node, to_sql
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

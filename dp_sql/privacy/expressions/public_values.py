"""(SELECT max(day) FROM holidays): one value of public tables, beside people's rows.

It cannot fail: a query whose rows are not aggregated is refused unless it has one row at most.
"""

from collections.abc import Mapping

from sqlglot import exp

from dp_sql.privacy.expressions.predicates import COMPARABLE
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.unsupported import only, unsupported
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.sqlglot_tree import Node, made_of, parts_of
from dp_sql.sql.types import UP_TO_64_BITS, family, same_bits

_AGGREGATES: Mapping[type, str] = {
    exp.Max: "max", exp.Min: "min", exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg",
}  # fmt: skip
_OF_ALL_ROWS = {"kind", "expressions", "from_", "from", "where", "joins", "with_", "with"}
_HINT = "Aggregate it, as in (SELECT max(day) FROM holidays)."


def public_value(node: Node, scope: Scope) -> Value:
    """The value of a query over public tables."""
    query, word = _query(node)
    try:
        column = scope.public_column(query, word not in {"min", "max"})
    except Refused as refusal:
        raise unsupported(node) from refusal
    kind = column.type
    if family(kind) not in COMPARABLE or (word in {"sum", "avg"} and kind not in UP_TO_64_BITS):
        raise unsupported(node)
    if not word and scope.schema.public_size(column.sql, kind, 2) > 1:
        raise refuse(node, "This subquery has more than one row", _HINT)
    called = f"system.main.{word or 'min'}"
    if word not in {"", "min", "max"}:
        kind = scope.schema.type_of(f"{called}({column.stand_in})")
    sql = f"(SELECT {called}(c) FROM {column.sql} AS __dp_value(c))"
    return Value(same_bits(sql, kind), kind, collation=column.collation)


def _query(node: Node) -> tuple[Node, str]:
    """The query whose column is read, and the aggregate of all its rows, if there is one."""
    query = node.this.unnest()
    item = query.expressions[0].unalias() if len(query.expressions) == 1 else query
    word = _AGGREGATES.get(type(item), "")
    if not word or not isinstance(query, exp.Select) or parts_of(query) - _OF_ALL_ROWS:
        return node, ""
    only(item, "this big_int")
    is_of_rows = item.this is None or isinstance(item.this, exp.Star)
    of = exp.Literal.number(1) if is_of_rows else item.this.copy()
    query = query.copy()
    query.set("expressions", [of])
    return made_of(node, query), word

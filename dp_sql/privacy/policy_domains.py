"""Under a policy: which public values may be items or groups?

Those that the statement names, by a public column or a list, or else those that the policy
declares. Another private column is never one. Of private rows this module reads only columns that
the policy calls `"observed"`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from sqlglot import exp

from dp_sql.errors import ArgumentError, SourceError
from dp_sql.policy.model import Policy
from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.comparisons import Value, is_literal
from dp_sql.privacy.domains import (
    ColumnValues,
    Domain,
    LabelValues,
    ListValues,
    Values,
    domain_of,
    items_sql,
    no_literals,
)
from dp_sql.privacy.relation_tree import Parts
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, literal
from dp_sql.sql.literals import ListLiteral, Reference
from dp_sql.sql.sqlglot_tree import Node, projection
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import can_be, family

_NEEDED = {
    "domain": "a domain: the public set of items that the answer may contain.",
    "groups": "groups: the public set of groups.",
}


def public_values(
    select: DpSelect,
    call: DpCall,
    given: Reference | ListLiteral | None,
    item: Value,
    policy: Policy,
    side: Schema,
    what: str,
) -> Domain:
    """The public values of a column: as the statement says, or else as the policy does."""
    declared = _declared(item, policy, side)
    hint = f"Write {what} := catalog.title (a public table's column) or {what} := ['a', 'b']."
    if given is None and declared is None:
        raise ArgumentError(
            f"{call.function.name} needs {_NEEDED[what]} "
            f"The policy declares none for {call.item.text}.",
            text=select.text,
            position=call.start,
            hint=hint,
        )
    at = (call.item.text, call.item.position) if given is None else (given.text, given.position)
    observed = isinstance(given, Reference) and folded(given.text) == "observed"
    if observed and (declared != "observed" or item.origin is None):
        raise ArgumentError(
            f"Under a policy {what} := observed is allowed only if the policy declares it.",
            text=select.text,
            position=at[1],
            hint=hint,
        )
    if given is None or observed:
        values = _declared_values(declared, item, side)
        return domain_of(select, call, at, values, item.type, side)
    if isinstance(given, ListLiteral):
        values = _list(select, given)
    else:
        values = _named_values(select, given, item, policy, side)
    way_out = partial(_cast_item, item, call)
    stated = domain_of(select, call, at, values, item.type, side, way_out)
    if declared is not None:
        _check_overlap(select, call, at, stated, _declared_values(declared, item, side), item, side)
    return stated


def _cast_item(item: Value, call: DpCall, kind: str) -> str:
    """How to ask for values of a type that the item does not have: as strings."""
    if can_be(kind, "VARCHAR") and not can_be(item.type, "VARCHAR"):
        return f"Or ask for CAST({call.item.text} AS VARCHAR)."
    return ""


def _check_overlap(
    select: DpSelect,
    call: DpCall,
    at: tuple[str, int],
    stated: Domain,
    declared: Values,
    item: Value,
    side: Schema,
) -> None:
    """Refuse a domain that shares no value with the declared one: the answer would be noise."""
    try:
        common = side.public_values(
            f"SELECT 1 FROM ({stated.select}) AS stated JOIN ({items_sql(declared, item.type)}) "
            "AS declared ON stated.item = declared.item LIMIT 1"
        )
    except SourceError:
        raise ArgumentError("The policy's domain of this item cannot be read.") from None
    if not common:
        raise ArgumentError(
            f"No value of {at[0]} is in the domain that the policy declares for "
            f"{call.item.text}: the answer would be only noise.",
            text=select.text,
            position=at[1],
            hint=f"Omit it to use the policy's domain, {declared.described}.",
        )


def _declared(item: Value, policy: Policy, side: Schema) -> object:
    """What the policy says of the column that the item is."""
    for (name, column), domain in policy.domains.items():
        if item.origin == (side.table(name), column):
            return domain
    return None


def _declared_values(declared: object, item: Value, side: Schema) -> Values:
    """The values that the policy declares for the column that the item is."""
    if declared == "observed" and item.origin is not None:
        # The owner calls the values of the whole column public, not those that WHERE keeps.
        return _column(*item.origin, side)
    if declared == "enum":
        return _labels(item)
    if isinstance(declared, tuple) and len(declared) == 2 and isinstance(declared[0], tuple):
        name, column = declared
        return _column(side.table(name), str(column), side)
    if not isinstance(declared, tuple):
        raise ArgumentError("The policy's domain of this item cannot be read.")
    if not all(isinstance(value, str | int | Fraction) for value in declared):
        raise ArgumentError("The policy's domain of this item cannot be read.")
    literals = [literal(value) for value in declared]
    written = all(isinstance(value, str) for value in declared)
    return ListValues(f"[{', '.join(literals)}]", "the policy's list", written)


def _column(full: Parts | None, column: str, side: Schema) -> ColumnValues:
    """The column of a public table."""
    if full is None:
        raise ArgumentError("The table that the policy names as this item's domain does not exist.")
    table = full_name(full)
    listed = {folded(name): name for name, _ in side.columns(f"SELECT * FROM {table}")}
    if folded(column) not in listed:
        raise ArgumentError(f"{full[-1]} has no column {column}.")
    return ColumnValues(full, listed[folded(column)], f"the column {full[-1]}.{column}")


def _named_values(
    select: DpSelect, given: Reference, item: Value, policy: Policy, side: Schema
) -> Values:
    """The values of a domain written by name: a public column, or the item's own ENUM."""
    *table, column = given.parts
    if not table and family(item.type) == "ENUM" and folded(given.text) == item.origin_name:
        return _labels(item)
    public = {side.table(name) for name in policy.public}
    full = side.table(table) if table else None
    if full is None or full not in public:
        raise ArgumentError(
            f"{given.text} is not a column of a public table.",
            text=select.text,
            position=given.position,
            hint="SHOW TABLES lists what is public. A list will do: domain := ['a', 'b'].",
        )
    try:
        return _column(full, column, side)
    except ArgumentError as error:
        raise error.at(select.text, given.position) from None


def _labels(item: Value) -> LabelValues:
    """The labels of the item's ENUM, from a public table or public by the policy.

    Otherwise the item was compiled as a string, and its type has no labels here.
    """
    return LabelValues(item.type, f"the declared values of the ENUM {item.origin_name}")


def _list(select: DpSelect, given: ListLiteral) -> ListValues:
    """The literals of a list, as new SQL."""
    tree = projection(given.text)
    if not isinstance(tree, exp.Array) or not all(is_literal(node) for node in tree.expressions):
        raise no_literals(select, given)
    literals = [_literal(select, given, node) for node in tree.expressions]
    written = all(literal.startswith("'") for literal in literals)
    return ListValues(f"[{', '.join(literals)}]", "a list in the statement", written)


def _literal(select: DpSelect, given: ListLiteral, node: Node) -> str:
    if isinstance(node, exp.Literal):
        if node.is_string:
            return literal(node.this)
        if node.this.replace(".", "", 1).isdecimal():
            return str(node.this)
    if isinstance(node, exp.Neg) and not node.this.is_string:
        return "-" + _literal(select, given, node.this)
    if isinstance(node, exp.Boolean):
        return "TRUE" if node.this else "FALSE"
    raise ArgumentError(
        "A domain list may hold strings, plain numbers, TRUE and FALSE.",
        text=select.text,
        position=given.position,
    )

"""Which items or groups may be answered? The public values, as SQL that lists each once.

Owners declare them in the statement; what a policy adds is in policy_domains.py. Reads public data
only, and says k is too large before anything is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dp_sql.errors import ArgumentError, SourceError
from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.declared_sources import OwnersSchema
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.literals import ListLiteral, Reference
from dp_sql.sql.sqlglot_tree import Node, projection
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import can_be, can_be_written, exact, family, lost


@dataclass(frozen=True)
class ListValues:
    """Literals of a statement or of a policy.

    sql: a list.
    strings: whether all of them are strings, which have no type of their own yet, as in SQL.
    """

    sql: str
    described: str
    strings: bool


@dataclass(frozen=True)
class ColumnValues:
    """A column of a public table, by its full name."""

    table: Sequence[str]
    column: str
    described: str


@dataclass(frozen=True)
class LabelValues:
    """The labels of an ENUM type."""

    type: str
    described: str


Values = ListValues | ColumnValues | LabelValues
"""Where public values come from, and how the receipt describes them."""


@dataclass(frozen=True)
class Domain:
    """Public values as SQL that lists each once, of the item's type, as `item`."""

    select: str
    described: str


@dataclass(frozen=True)
class Observed:
    """The values that are in the source, which the owner declares public."""

    select: None = None
    described: str = "the values observed in the source"


def values_sql(values: Values) -> str:
    """SQL that lists values in a column `value`."""
    match values:
        case ListValues():
            return f"SELECT unnest({values.sql}) AS value"
        case ColumnValues():
            return f"SELECT {quote(values.column)} AS value FROM {full_name(values.table)}"
        case LabelValues():
            return f"SELECT unnest(system.main.enum_range(NULL::{values.type})) AS value"


def items_sql(values: Values, item_type: str) -> str:
    """SQL that lists values once each as `item`, of the item's type, without NULL."""
    cast = exact(f"CAST(value AS {item_type})", item_type)
    return (
        f"SELECT DISTINCT {cast} AS item FROM (\n{values_sql(values)}\n) AS listed "
        "WHERE value IS NOT NULL"
    )


def domain_of(
    select: DpSelect,
    call: DpCall,
    at: tuple[str, int],
    values: Values,
    item_type: str,
    schema: Schema,
    way_out: Callable[[str], str] = lambda _: "",
) -> Domain:
    """The domain that some values are.

    Args:
        select: the SELECT that contains the call.
        call: the call.
        at: how the domain is written, and where.
        values: the values.
        item_type: of the items.
        schema: reads public values.
        way_out: for values of another type, a sentence that says what works instead.

    Raises:
        ArgumentError: the values are of another type, one of them is not a value of that type, or
            there are fewer than k.
    """
    listed = items_sql(values, item_type)
    k = call.k or 1
    try:
        _check_type(select, call, at, values, item_type, schema, way_out)
        # At most k of them: a large domain need not be counted here.
        (size,) = schema.public_values(f"SELECT system.main.count(*) FROM ({listed} LIMIT {k})")
    except SourceError as error:
        raise ArgumentError(
            f"The domain {at[0]} cannot be read as {_shown(item_type)}: {error.message}",
            text=select.text,
            position=at[1],
        ) from None
    if k > int(str(size)):
        raise ArgumentError(
            f"k = {k} is more than the {size} items of the domain.",
            text=select.text,
            position=call.start,
            hint=f"Ask for at most {size}, or name a larger domain.",
        )
    return Domain(listed, values.described)


# --- types ----------------------------------------------------------------------------------------

_EXAMPLES = {
    "VARCHAR": "['a', 'b']", "ENUM": "['a', 'b']", "BOOLEAN": "[TRUE, FALSE]",
    "DATE": "['2024-01-31']", "TIME": "['12:00:00']", "TIMESTAMP": "['2024-01-31 12:00:00']",
}  # fmt: skip


def _check_type(
    select: DpSelect,
    call: DpCall,
    at: tuple[str, int],
    values: Values,
    item_type: str,
    schema: Schema,
    way_out: Callable[[str], str],
) -> None:
    """Refuse values of another type than the item's, or that a cast to it would change."""
    untyped = isinstance(values, ListValues) and values.strings
    kind = None if untyped else _type_of(values, schema)
    fits = can_be_written(item_type) if kind is None else can_be(kind, item_type)
    name, shown = call.item.text, _shown(item_type)
    if not fits and kind != _NO_TYPE:
        spoken = "strings" if kind is None else f"values of type {_shown(kind)}"
        example = _EXAMPLES.get(family(item_type), "[1, 2]" if kind is None else "")
        hints = [
            f"Write a list of such values, as in {example}." if example else "",
            way_out(kind or "VARCHAR"),
        ]
        raise ArgumentError(
            f"{name} has type {shown}, and its domain, {values.described}, holds {spoken}. "
            "A value of one type never equals a value of the other.",
            text=select.text,
            position=at[1],
            hint=" ".join(filter(None, hints)) or None,
        )
    changed = lost("value", kind, item_type) if kind != _NO_TYPE else None
    if changed is None:
        return
    (value,) = schema.public_values(
        f"SELECT system.main.min(CAST(value AS VARCHAR)) FROM (\n{values_sql(values)}\n) AS listed "
        f"WHERE value IS NOT NULL AND {changed}"
    )
    if value is not None:
        raise ArgumentError(
            f"The domain of {name}, {values.described}, holds {value}, which is not a value of "
            f"type {shown}: a cast would refuse or change it.",
            text=select.text,
            position=at[1],
            hint="Remove such values from the domain.",
        )


_NO_TYPE = '"NULL"'
"""DuckDB's name for the type of a list that is empty or holds only NULL."""


def _type_of(values: Values, schema: Schema) -> str:
    """The type of a domain's values; none of them is read."""
    select = f"SELECT value FROM (\n{values_sql(values)}\n) AS listed WHERE FALSE"
    (kind,) = schema.public_values(f"SELECT system.main.typeof(({select}))")
    return str(kind)


def _shown(type_name: str) -> str:
    """A type as messages show it: an ENUM without its labels."""
    return "ENUM" if family(type_name) == "ENUM" else type_name


# --- what an owner declares -----------------------------------------------------------------------


def declared_domain(
    select: DpSelect,
    call: DpCall,
    given: Reference | ListLiteral,
    item_type: str,
    own: Collection[str],
    schema: OwnersSchema,
) -> Domain | Observed:
    """The domain of a call as the owner writes it.

    Args:
        select: the SELECT that contains the call.
        call: the call.
        given: how the domain is written.
        item_type: of the items.
        own: names of the relations that hold people's rows, and their aliases, folded.
        schema: answers what names mean, and reads public values.

    Raises:
        ArgumentError: it cannot be read, or holds fewer than k items.
    """
    at = (given.text, given.position)
    if isinstance(given, ListLiteral):
        values: Values = _written_list(select, given)
    elif folded(given.text) == "observed":
        return Observed()
    else:
        values = _named_values(select, call, given, item_type, own, schema)
    return domain_of(
        select, call, at, values, item_type, schema, lambda _: _cast_in_view(values, item_type)
    )


def _named_values(
    select: DpSelect,
    call: DpCall,
    given: Reference,
    item_type: str,
    own: Collection[str],
    schema: OwnersSchema,
) -> Values:
    """The values of a domain given by name: a table's column, or an ENUM."""

    def refused(message: str, hint: str) -> ArgumentError:
        return ArgumentError(message, text=select.text, position=given.position, hint=hint)

    *table, column = given.parts
    labels = f"the declared values of the ENUM {given.text}"
    is_own = bool(table) and folded(table[-1]) in own
    itself = folded(column) == folded(call.item.parts[-1] if call.item.parts else "")
    if itself and (is_own or not table) and family(item_type) == "ENUM":
        return LabelValues(item_type, labels)
    if is_own or (itself and not table):
        what = (
            f"the private column itself, of type {item_type}: its values are people's data"
            if itself
            else "a column of the private source itself"
        )
        raise refused(
            f"{given.text} is {what}.",
            "Name a public table's column, a list, or, if the set of values in this column is "
            "itself public, write domain := observed.",
        )
    if not table:
        try:
            ((_, found),) = schema.columns(f"SELECT NULL::{quote(column)} AS value")
        except SourceError:
            found = ""
        if family(found) == "ENUM":
            return LabelValues(found, labels)
        raise refused(
            f"The domain {given.text} is neither an ENUM type nor a list.",
            "Name a public table's column with its table, domain := catalog.title; a list, "
            "domain := ['a', 'b']; an ENUM; or domain := observed.",
        )
    if len(table) == 1 and folded(table[0]) in select.ctes:
        raise refused(
            f"{table[0]} is a CTE, and a domain is a table's column.",
            "Name a table's column or write the items as a list.",
        )
    relation = schema.relation(table)
    full = relation.parts if relation is not None and relation.parts else table
    return ColumnValues(full, column, f"the column {given.text}")


def _cast_in_view(values: Values, item_type: str) -> str:
    """How an owner can offer a column as values of another type."""
    if not isinstance(values, ColumnValues):
        return ""
    column = quote(values.column)
    return (
        f"Or cast the column in a view, CREATE VIEW listed AS SELECT CAST({column} AS "
        f"{_shown(item_type)}) AS {column} FROM {full_name(values.table)}, and name "
        f"listed.{column}."
    )


def no_literals(select: DpSelect, given: ListLiteral) -> ArgumentError:
    """The refusal of a list that holds more than literals."""
    return ArgumentError(
        "A domain list holds literals only.",
        text=select.text,
        position=given.position,
        hint="For example: domain := ['north', 'south']. A long list is read faster as a "
        "table's column.",
    )


def _written_list(select: DpSelect, given: ListLiteral) -> ListValues:
    """A list as the owner wrote it."""
    tree = projection(given.text)
    if not isinstance(tree, exp.Array) or not all(_literal(e) for e in tree.expressions):
        raise no_literals(select, given)
    return ListValues(given.text, "a list in the statement", all(map(_string, tree.expressions)))


def _literal(node: Node) -> bool:
    if isinstance(node, exp.Neg | exp.Cast | exp.Paren):
        return _literal(node.this)
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.RawString | exp.ByteString)


def _string(node: Node) -> bool:
    """Whether a literal is a string, in any of DuckDB's quotes; NULL goes with everything."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal):
        return bool(node.is_string)
    return isinstance(node, exp.Null | exp.RawString | exp.ByteString)

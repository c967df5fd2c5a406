"""Which items may be answered? The public set of items, as SQL that lists each once.

Reads public tables only, and says k is too large before anything is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from dp_sql.errors import ArgumentError, SourceError
from dp_sql.privacy.declared_sources import Approved, Catalog
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.literals import ListLiteral, Reference
from dp_sql.sql.sqlglot_tree import Node, Unreadable, projection, tree_of
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import can_be, can_be_written, exact, family, lost


@dataclass(frozen=True)
class Domain:
    """The public set of items: SQL that lists each once, and how the receipt names it.

    `select` is None where the items are the observed ones, which the owner calls public. `written`
    says that the values are string literals, which have no type of their own yet, as in SQL.
    """

    select: str | None
    described: str
    written: bool = False


def read_domain(
    select: DpSelect,
    call: DpCall,
    given: Reference | ListLiteral,
    item_type: str,
    own: Collection[str],
    catalog: Catalog,
) -> Domain:
    """The domain of a call as SQL that lists each item once, of the item's type, without NULL.

    Args:
        select: where the call stands.
        call: the call.
        given: how the domain is written.
        item_type: of the items.
        own: names of the relations that hold people's rows, and their aliases, folded.
        catalog: answers what names mean, and reads public values.

    Raises:
        ArgumentError: it cannot be read, or holds fewer than k items.
    """
    if isinstance(given, ListLiteral):
        written = _only_literals(select, given)
        listed = f"SELECT unnest({given.text}) AS value"
        values = Domain(listed, "a list in the statement", written)
    elif folded(given.text) == "observed":
        return Domain(None, "the values observed in the source")
    else:
        found, described = _reference_domain(select, call, given, item_type, own, catalog)
        values = Domain(found, described)
    at = (given.text, given.position)
    return listed_domain(
        select, call, at, values, item_type, catalog, lambda _: _cast_in_view(given, item_type)
    )


class Values(Protocol):
    """What `listed_domain` asks of an engine."""

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""


def listed_domain(
    select: DpSelect,
    call: DpCall,
    at: tuple[str, int],
    values: Domain,
    item_type: str,
    engine: Values,
    way_out: Callable[[str], str] = lambda _: "",
) -> Domain:
    """The values of a domain, each once and of the item's type.

    Args:
        select: where the call stands.
        call: the call.
        at: how the domain is written, and where.
        values: SQL of one column `value`, and how the receipt names it.
        item_type: of the items.
        engine: reads public values.
        way_out: for values of another type, a sentence that says what works instead.

    Raises:
        ArgumentError: the values are of another type, one of them is not a value of that type, or
            there are fewer than k.
    """
    listed = items_sql(values, item_type)
    k = call.k or 1
    try:
        _check_type(select, call, at, values, item_type, engine, way_out)
        # At most k of them: a large domain need not be counted here.
        (size,) = engine.public_values(f"SELECT system.main.count(*) FROM ({listed} LIMIT {k})")
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


def items_sql(values: Domain, item_type: str) -> str:
    """SQL that lists the values of a domain once each as `item`, of the item's type, no NULL."""
    cast = exact(f"CAST(value AS {item_type})", item_type)
    return (
        f"SELECT DISTINCT {cast} AS item FROM (\n{values.select}\n) AS listed "
        "WHERE value IS NOT NULL"
    )


# --- types ----------------------------------------------------------------------------------------

_EXAMPLES = {
    "VARCHAR": "['a', 'b']", "ENUM": "['a', 'b']", "BOOLEAN": "[TRUE, FALSE]",
    "DATE": "['2024-01-31']", "TIME": "['12:00:00']", "TIMESTAMP": "['2024-01-31 12:00:00']",
}  # fmt: skip


def _check_type(
    select: DpSelect,
    call: DpCall,
    at: tuple[str, int],
    values: Domain,
    item_type: str,
    engine: Values,
    way_out: Callable[[str], str],
) -> None:
    """Refuse values of another type than the item's, or that a cast to it would change."""
    kind = None if values.written else _type_of(values, engine)
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
    (value,) = engine.public_values(
        f"SELECT system.main.min(CAST(value AS VARCHAR)) FROM (\n{values.select}\n) AS listed "
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


def _type_of(values: Domain, engine: Values) -> str:
    """The type of a domain's values; none of them is read."""
    select = f"SELECT value FROM (\n{values.select}\n) AS listed WHERE FALSE"
    (kind,) = engine.public_values(f"SELECT system.main.typeof(({select}))")
    return str(kind)


def _shown(type_name: str) -> str:
    """A type as messages show it: an ENUM without its labels."""
    return "ENUM" if family(type_name) == "ENUM" else type_name


def _cast_in_view(given: Reference | ListLiteral, item_type: str) -> str:
    """How an owner can offer a column as values of another type."""
    if isinstance(given, ListLiteral) or len(given.parts) < 2:
        return ""
    column, table = quote(given.parts[-1]), full_name(given.parts[:-1])
    return (
        f"Or cast the column in a view, CREATE VIEW listed AS SELECT CAST({column} AS "
        f"{_shown(item_type)}) AS {column} FROM {table}, and name listed.{column}."
    )


# --- domains by name ------------------------------------------------------------------------------


def _reference_domain(
    select: DpSelect,
    call: DpCall,
    given: Reference,
    item_type: str,
    own: Collection[str],
    catalog: Catalog,
) -> tuple[str, str]:
    """SQL that lists the values of a domain given by name, and how the receipt says it."""
    is_own = len(given.parts) > 1 and folded(given.parts[-2]) in own
    itself = [folded(given.parts[-1])] == [folded(part) for part in call.item.parts[-1:]]
    if itself and (is_own or len(given.parts) == 1):
        if family(item_type) != "ENUM":
            raise ArgumentError(
                f"{given.text} is the private column itself, of type {item_type}: "
                "its values are people's data.",
                text=select.text,
                position=given.position,
                hint="Name a public table's column, a list, or, if the set of values in this "
                "column is itself public, write domain := observed.",
            )
        return _enum(item_type), f"the declared values of the ENUM {given.text}"
    if len(given.parts) == 1:
        name = quote(given.parts[0])
        try:
            ((_, found),) = catalog.columns(f"SELECT NULL::{name} AS value")
        except SourceError:
            found = ""
        if family(found) == "ENUM":
            return _enum(found), f"the declared values of the ENUM {given.text}"
        raise ArgumentError(
            f"The domain {given.text} is no ENUM type and no list.",
            text=select.text,
            position=given.position,
            hint="Name a public table's column with its table, domain := catalog.title; a list, "
            "domain := ['a', 'b']; an ENUM; or domain := observed.",
        )
    if is_own:
        raise ArgumentError(
            f"{given.text} is a column of the private source itself.",
            text=select.text,
            position=given.position,
            hint="Name a public table's column, a list, or, if the set of values in this "
            "column is itself public, write domain := observed.",
        )
    if len(given.parts) == 2 and folded(given.parts[0]) in select.ctes:
        raise ArgumentError(
            f"{given.parts[0]} is a CTE, and a domain is a table's column.",
            text=select.text,
            position=given.position,
            hint="Name a table's column or write the items as a list.",
        )
    relation = catalog.relation(given.parts[:-1])
    parts = relation.parts if relation is not None and relation.parts else given.parts[:-1]
    table = full_name(parts)
    column = f"SELECT {quote(given.parts[-1])} AS value FROM {table}"
    return column, f"the column {given.text}"


def _enum(type_name: str) -> str:
    return f"SELECT unnest(system.main.enum_range(NULL::{type_name})) AS value"


def own_names(approved: Approved) -> frozenset[str]:
    """The names that an approved source goes by: its tables' and their aliases."""
    try:
        tree: Node = tree_of(f"SELECT 1 FROM {approved.source}\n")
    except Unreadable:  # pragma: no cover - check has read it
        return approved.private
    names = {folded(t.name) for t in tree.find_all(exp.Table)}
    aliases = {folded(t.alias) for t in tree.find_all(exp.Table, exp.Subquery) if t.alias}
    return approved.private | names | aliases


def _only_literals(select: DpSelect, given: ListLiteral) -> bool:
    """Refuse anything but literals; returns whether all of them are strings."""
    tree = projection(given.text)
    if not isinstance(tree, exp.Array) or not all(_literal(e) for e in tree.expressions):
        raise ArgumentError(
            "A domain list holds literals only.",
            text=select.text,
            position=given.position,
            hint="For example: domain := ['north', 'south']. A long list is read faster as a "
            "table's column.",
        )
    return all(_string(e) for e in tree.expressions)


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

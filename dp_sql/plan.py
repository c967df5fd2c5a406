"""From an approved source and a DP call to a frozen Plan: the only thing that may be rewritten.

A Plan holds checked names, typed numbers and the mechanism with its price. It is made here, from
an `Approved` source, and nowhere else; making one reads no private row.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dp_sql.arguments import DpCall, ListLiteral, Reference
from dp_sql.check import PLACES, Approved, Catalog
from dp_sql.errors import ArgumentError, NotPrivate, SourceError
from dp_sql.functions import Function
from dp_sql.parse import folded
from dp_sql.recognise import DpSelect
from dp_sql.trees import Node, Unreadable, projection, tree_of
from udfs import REGISTRY
from udfs.spec import Loss, Udf

# Types whose equality is exact. Floats are out: 0.1 + 0.2 and 0.3 are two items, NaN is one.
EXACT_TYPES = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
     "UBIGINT", "UHUGEINT", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
     "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "UUID", "BOOLEAN", "ENUM", "BLOB", "DECIMAL"}
)  # fmt: skip


@dataclass(frozen=True)
class Domain:
    """The public set of items: SQL that lists each once, and how the receipt says it.

    `select` is None where the items are the observed ones, which the owner calls public.
    """

    select: str | None
    described: str


@dataclass(frozen=True)
class Plan:
    """What one release reads, which mechanism runs on it, and what it costs.

    `source` is the FROM clause with its relations by their full names, `written` the same as the
    owner wrote it, `condition` the WHERE clause; `item` and `person` are quoted columns of it;
    `call` is the DP call as DuckDB would name it.
    """

    function: Function
    mechanism: Udf
    loss: Loss
    source: str
    written: str
    condition: str | None
    item: str
    item_type: str
    person: str
    person_type: str
    keep_source: bool
    domain: Domain | None
    k: int | None
    epsilon: Fraction
    beta: Fraction
    max_contributions: int
    report: bool
    call: str
    assumptions: tuple[str, ...]


def plan(select: DpSelect, call: DpCall, approved: Approved, catalog: Catalog) -> Plan:
    """The plan of one call over its approved source.

    Raises:
        ArgumentError: a column has a type without exact equality, the domain cannot be read, or
            k exceeds the public number of items.
        SourceError: DuckDB does not find the source or a column.
    """
    item, person = _quoted(call.item), _quoted(call.privacy_unit)
    item_type, person_type = _types(select, call, item, person, approved, catalog)
    domain = None
    assumptions = approved.assumptions
    if call.domain is not None:
        domain = _domain(select, call, item_type, approved, catalog)
        if domain.select is None:
            assumptions += (f"the set of values in {call.item.text} is public",)
        elif not isinstance(call.domain, ListLiteral):
            assumptions += (f"the domain, {domain.described}, is public",)
    mechanism = REGISTRY[call.function.kind][call.mechanism]
    return Plan(
        function=call.function,
        mechanism=mechanism,
        loss=mechanism.loss(call.epsilon),
        source=approved.source,
        written=select.source_text,
        condition=select.condition_text,
        item=item,
        item_type=item_type,
        person=person,
        person_type=person_type,
        keep_source=not approved.base,
        domain=domain,
        k=call.k,
        epsilon=call.epsilon,
        beta=call.beta,
        max_contributions=call.max_contributions,
        report=call.report,
        call=call.display,
        assumptions=assumptions,
    )


def quote(name: str) -> str:
    """An identifier that SQL reads back as exactly this name.

    >>> print(quote('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def _quoted(reference: Reference) -> str:
    return ".".join(quote(part) for part in reference.parts)


def _types(
    select: DpSelect, call: DpCall, item: str, person: str, approved: Approved, catalog: Catalog
) -> tuple[str, str]:
    bound = f"SELECT {item} AS __dp_item, {person} AS __dp_person FROM {approved.source}\n"
    if select.condition_text is not None:
        bound += f"WHERE ({select.condition_text}\n)"
    try:
        (_, item_type), (_, person_type) = catalog.columns(bound)
    except SourceError as error:
        raise _blame(error, select, call, approved) from None
    _own_columns(select, call, approved)
    for reference, found, what in (
        (call.item, item_type, "item"),
        (call.privacy_unit, person_type, "privacy unit"),
    ):
        if _family(found) not in EXACT_TYPES:
            raise ArgumentError(
                f"The {what} {reference.text} has type {found}, whose equality is not exact: "
                "rounding or NaN would decide what counts as the same.",
                text=select.text,
                position=reference.position,
                hint=f"Cast it in a view or column first, for example "
                f"CAST({reference.text} AS DECIMAL(18, 2)) or AS VARCHAR.",
            )
    return item_type, person_type


def _own_columns(select: DpSelect, call: DpCall, approved: Approved) -> None:
    """Refuse what DuckDB binds and the source does not list, such as rowid: the place of a row."""
    *scope, person = (folded(part) for part in call.privacy_unit.parts)
    names = {folded(part) for part in call.item.parts}
    # A scope may only be the source's name: else it is a struct, and the unit a part of a value.
    if person not in approved.columns or (scope and tuple(scope) not in approved.scopes):
        wrong = call.privacy_unit
    elif not names & approved.columns or (names & PLACES) - approved.columns:
        wrong = call.item
    else:
        return
    raise NotPrivate(
        f"{wrong.text} is not a column that the source lists.",
        text=select.text,
        position=wrong.position,
        hint="Name one of its columns; give expressions a name in a view or table first.",
    )


def _blame(error: SourceError, select: DpSelect, call: DpCall, approved: Approved) -> SourceError:
    """The same error under the part that causes it: the source, the condition or a column."""
    position = select.source[0]
    if approved.columns:
        position = select.condition[0] if select.condition else position
        for reference in (call.privacy_unit, call.item):
            names = {folded(part) for part in reference.parts}
            scope = reference.parts[0] if len(reference.parts) > 1 else None
            if not names & approved.columns or (scope and f'"{scope}"' in error.message):
                position = reference.position
    return SourceError(error.message, text=select.text, position=position, hint=error.hint)


def _family(type_name: str) -> str:
    """The type without its parameters: DECIMAL(18,2) → DECIMAL; lists and structs stay."""
    if type_name.endswith("]"):
        return type_name
    return type_name.split("(", 1)[0].strip()


def exact(expression: str, type_name: str) -> str:
    """The expression compared byte by byte: text without regard to any collation."""
    return f'({expression}) COLLATE "binary"' if _family(type_name) == "VARCHAR" else expression


def _domain(
    select: DpSelect, call: DpCall, item_type: str, approved: Approved, catalog: Catalog
) -> Domain:
    """The domain as SQL that lists each item once, of the item's type, without NULL."""
    given = call.domain
    assert given is not None
    if isinstance(given, ListLiteral):
        _only_literals(select, given)
        values, described = f"SELECT unnest({given.text}) AS value", "a list in the statement"
    elif folded(given.text) == "observed":
        return Domain(None, "the values observed in the source")
    else:
        values, described = _reference_domain(select, call, given, item_type, approved, catalog)
    cast = exact(f"CAST(value AS {item_type})", item_type)
    listed = f"SELECT DISTINCT {cast} AS item FROM (\n{values}\n) AS listed WHERE value IS NOT NULL"
    k = call.k or 1
    try:  # at most k of them: a large domain need not be counted here
        (size,) = catalog.public_values(f"SELECT system.main.count(*) FROM ({listed} LIMIT {k})")
    except SourceError as error:
        raise ArgumentError(
            f"The domain {given.text} cannot be read as {item_type}: {error.message}",
            text=select.text,
            position=given.position,
        ) from None
    if k > int(str(size)):
        raise ArgumentError(
            f"k = {k} is more than the {size} items of the domain.",
            text=select.text,
            position=call.start,
            hint=f"Ask for at most {size}, or name a larger domain.",
        )
    return Domain(listed, described)


def _reference_domain(
    select: DpSelect,
    call: DpCall,
    given: Reference,
    item_type: str,
    approved: Approved,
    catalog: Catalog,
) -> tuple[str, str]:
    """SQL that lists the values of a domain given by name, and how the receipt says it."""
    private = approved.private | _own_names(approved)
    own = len(given.parts) > 1 and folded(given.parts[-2]) in private
    itself = folded(given.parts[-1]) == folded(call.item.parts[-1])
    if itself and (own or len(given.parts) == 1):
        if _family(item_type) != "ENUM":
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
        if _family(found) == "ENUM":
            return _enum(found), f"the declared values of the ENUM {given.text}"
        raise ArgumentError(
            f"The domain {given.text} is no ENUM type and no list.",
            text=select.text,
            position=given.position,
            hint="Name a public table's column with its table, domain := catalog.title; a list, "
            "domain := ['a', 'b']; an ENUM; or domain := observed.",
        )
    if own:
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
    table = ".".join(quote(part) for part in parts)
    column = f"SELECT {quote(given.parts[-1])} AS value FROM {table}"
    return column, f"the column {given.text}"


def _enum(type_name: str) -> str:
    return f"SELECT unnest(system.main.enum_range(NULL::{type_name})) AS value"


def _own_names(approved: Approved) -> set[str]:
    """The names that the source goes by: its tables' and their aliases."""
    try:
        tree: Node = tree_of(f"SELECT 1 FROM {approved.source}\n")
    except Unreadable:  # pragma: no cover - check has read it
        return set()
    return {folded(t.name) for t in tree.find_all(exp.Table)} | {
        folded(t.alias) for t in tree.find_all(exp.Table, exp.Subquery) if t.alias
    }


def _only_literals(select: DpSelect, given: ListLiteral) -> None:
    tree = projection(given.text)
    if not isinstance(tree, exp.Array) or not all(_literal(e) for e in tree.expressions):
        raise ArgumentError(
            "A domain list holds literals only.",
            text=select.text,
            position=given.position,
            hint="For example: domain := ['north', 'south']. A long list is read faster as a "
            "table's column.",
        )


def _literal(node: Node) -> bool:
    if isinstance(node, exp.Neg | exp.Cast | exp.Paren):
        return _literal(node.this)
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.RawString | exp.ByteString)

"""From a source that person_level.py compiled to the plan of a DP call: what all sessions share.

What is public about a call, its domain and its groups, is decided elsewhere: by the policy in
guard.py, and by the owner's words in owner_sources.py. Reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dp_sql.errors import ArgumentError, NotPrivate, NotSupported, ParseError
from dp_sql.privacy.declared_sources import parsed_source, place_of, unreadable
from dp_sql.privacy.domains import Domain
from dp_sql.privacy.expressions import Refused, Scope, Value, compiled
from dp_sql.privacy.plan import Column, Groups, Plan, Work, shared
from dp_sql.privacy.relation_sql import Written
from dp_sql.privacy.relation_tree import Parts, Relation
from dp_sql.privacy.relations import Compiler, From, conditions
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.literals import Reference
from dp_sql.sql.sqlglot_tree import Node, Unreadable, projection, tree_of
from dp_sql.sql.types import EXACT_TYPES, family


@dataclass(frozen=True)
class Source:
    """The compiled source of a SELECT with DP calls.

    rows: FROM with its conditions. unfiltered: the same without WHERE.
    scope: what an expression over it may use.
    person: the column of the person. keys: the columns of GROUP BY.
    """

    select: DpSelect
    compiler: Compiler
    rows: From
    unfiltered: From
    scope: Scope
    person: Column
    keys: tuple[Value, ...]


@dataclass(frozen=True)
class Rows:
    """What one call reads: its item, and the rows as a tree, as a relation of FROM, and as tables.

    work: how much work one person's rows can cause.
    """

    item: Value
    relation: Relation
    sql: str
    tables: frozenset[Parts]
    work: Work


def compiled_source(
    select: DpSelect, bodies: Mapping[str, str], compiler: Compiler, if_public: NotPrivate
) -> Source:
    """Compile the source of a SELECT.

    Args:
        select: where its parts stand in the text.
        bodies: the texts of the CTEs in scope, by folded name, in their order.
        compiler: knows which tables are private.
        if_public: the refusal of a source that reads none of them.

    Raises:
        NotPrivate: the source is not provably person-level.
        ParseError: a part of it is beyond our grammar.
    """
    compiler = compiler.with_ctes({name: _tree(select, body) for name, body in bodies.items()})
    compiler = compiler.without_ctes(select.ctes - bodies.keys())
    try:
        tree = parsed_source(select)
        extra = {"expressions", "from", "from_", "joins", "where"}
        for key, value in tree.args.items():
            if value and key not in extra:
                raise NotPrivate("The source of a DP call is FROM and WHERE.")
        rows = compiler.from_clause(tree)
        unfiltered = replace(rows, where=[*rows.where], looked_in=[*rows.looked_in])
        scope = compiler.scope(rows)
        rows.where += conditions(tree.args.get("where"), scope)
    except Unreadable:
        raise unreadable(select) from None
    except Refused as refusal:
        raise _said(refusal, select, _place(select, refusal)) from None
    except (NotPrivate, NotSupported) as refusal:
        raise refusal.at(select.text, select.source[0]) from None
    if rows.person_type is None:
        raise if_public
    person = Column('"__dp_person"', rows.person_type)
    keys = tuple(_exact(select, key, value_of(select, key, scope), "group") for key in select.keys)
    return Source(select, compiler, rows, unfiltered, scope, person, keys)


def rows_of(source: Source, call: DpCall) -> Rows:
    """What a call reads of its source.

    Raises:
        NotPrivate: the item is not known to be total on every row.
        ArgumentError: it has a type without exact equality.
        NotSupported: the source could cause more work than the limits allow.
    """
    select = source.select
    item = _exact(select, call.item, value_of(select, call.item, source.scope), "item")
    relation = source.rows.select([item, *source.keys])
    found = written_out(source, relation)
    listed = "".join(f", c{i + 1} AS __dp_g{i}" for i in range(len(source.keys)))
    sql = f"(SELECT __dp_person, c0 AS __dp_item{listed} FROM ({found.sql}) AS t) AS __dp_people"
    work = Work(found.rows_per_person, found.joined_rows_per_person)
    return Rows(item, relation, sql, found.tables, work)


def written_out(source: Source, relation: Relation) -> Written:
    """Rows of a source as SQL, or a refusal of the work that they could cause."""
    try:
        return source.compiler.sql_of(relation)
    except NotSupported as refusal:
        raise refusal.at(source.select.text, source.select.source[0]) from None


def compiled_plan(
    source: Source,
    call: DpCall,
    rows: Rows,
    *,
    domain: Domain | None,
    groups: Groups | None,
    assumptions: tuple[str, ...],
    work: Work | None,
) -> Plan:
    """The plan of one call, once it is known what is public about it.

    Args:
        source: of its SELECT.
        call: the call.
        rows: what it reads.
        domain: its items; None where the mechanism finds them.
        groups: its groups; None without GROUP BY.
        assumptions: what the receipt says the promise rests on.
        work: what EXPLAIN says of it; None: not limited.
    """
    parameters, loss = call.parameters, call.parameters.loss(call.mechanism)
    if groups is not None:
        parameters, loss = shared(call, groups)
    return Plan(
        function=call.function,
        mechanism=call.mechanism,
        parameters=parameters,
        loss=loss,
        source=rows.sql,
        written=_written(source.select),
        condition=None,
        columns={"item": Column('"__dp_item"', rows.item.type), "privacy_unit": source.person},
        keys=key_columns(source),
        groups=groups,
        keep_source=True,
        domain=domain,
        call=call.display,
        assumptions=assumptions,
        work=work,
    )


def key_columns(source: Source) -> tuple[Column, ...]:
    """The columns of GROUP BY as the plan's source names them."""
    return tuple(Column(f'"__dp_g{i}"', key.type) for i, key in enumerate(source.keys))


def _written(select: DpSelect) -> str:
    """The source as the receipt shows it, with its condition."""
    tail = "" if select.condition_text is None else f" WHERE {select.condition_text}"
    return select.source_text + tail


# --- expressions and their places -----------------------------------------------------------------


def value_of(select: DpSelect, reference: Reference, scope: Scope) -> Value:
    """An item or a key as SQL of ours: a column, or a total function of columns."""
    tree = projection(reference.text)
    if tree is None or isinstance(tree, exp.Alias):
        raise ParseError("This is no column.", text=select.text, position=reference.position)
    try:
        return compiled(tree, scope)
    except Refused as refusal:
        raise _said(refusal, select, reference.position) from None


def _exact(select: DpSelect, reference: Reference, value: Value, what: str) -> Value:
    if family(value.type) not in EXACT_TYPES:
        raise ArgumentError(
            f"The {what} {reference.text} has type {value.type}, whose equality is not exact.",
            text=select.text,
            position=reference.position,
            hint="CAST(… AS VARCHAR) is exact.",
        )
    return value


def _tree(select: DpSelect, sql: str) -> Node:
    try:
        return tree_of(sql)
    except Unreadable:
        raise unreadable(select) from None


def _place(select: DpSelect, refusal: Refused) -> int:
    """Where the refused node stands; the beginning of the source where that is not known."""
    begin = select.source[0]
    found = place_of(select, refusal.node)
    return begin if found is None or not begin <= found <= len(select.text) else found


def _said(refusal: Refused, select: DpSelect, position: int) -> NotPrivate:
    """A refusal in the words and the class that users see."""
    return NotPrivate(refusal.message, text=select.text, position=position, hint=refusal.hint)

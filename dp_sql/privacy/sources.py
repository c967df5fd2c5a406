"""The source and the item of a DP call, compiled: the same for owners and analysts.

What is public about a call, its domain and its groups, is decided in owner_plan.py and in
analyst_plan.py. Reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dp_sql.errors import NotPrivate, NotSupported, ParseError, QueryError, SourceError
from dp_sql.privacy.clauses import conditions, row_wise
from dp_sql.privacy.comparisons import Refused, Scope, Unbound, Value
from dp_sql.privacy.declared_sources import inexact
from dp_sql.privacy.domains import Domain, Observed
from dp_sql.privacy.from_clause import From
from dp_sql.privacy.plan import Column, Groups, Plan, Work, plan_of
from dp_sql.privacy.relation_sql import Written
from dp_sql.privacy.relation_tree import Parts, Relation, reads_one_table
from dp_sql.privacy.relations import Compiler
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.literals import Reference
from dp_sql.sql.sqlglot_tree import Node, Unreadable, projection, tree_of
from dp_sql.sql.types import EXACT_TYPES, family

_BEFORE_SOURCE, _BEFORE_CONDITION = "SELECT 1 FROM ", "\nWHERE "


@dataclass(frozen=True)
class Source:
    """The compiled source of a SELECT with DP calls.

    rows: FROM with its conditions. unfiltered: the same without WHERE.
    scope: what an expression over it may use.
    person: the column of the person; None where no table with people's rows is read.
    keys: the columns of GROUP BY.
    """

    select: DpSelect
    compiler: Compiler
    rows: From
    unfiltered: From
    scope: Scope
    person: Column | None
    keys: tuple[Value, ...]


@dataclass(frozen=True)
class CallRows:
    """What one call reads: its item, and the rows as a tree, as a relation of FROM, and as tables.

    work: how much work one person's rows can cause.
    """

    item: Value
    relation: Relation
    sql: str
    tables: frozenset[Parts]
    work: Work


def compiled_source(select: DpSelect, bodies: Mapping[str, str], compiler: Compiler) -> Source:
    """Compile the source of a SELECT.

    Args:
        select: where its parts are in the statement.
        bodies: the SQL of the CTEs in scope, by folded name, in their order.
        compiler: knows which tables are private.

    Raises:
        NotPrivate: the source is not provably person-level.
        ParseError: a part of it is beyond the grammar.
        SourceError: the engine cannot bind a part of it.
    """
    try:
        compiler = compiler.with_ctes({name: tree_of(body) for name, body in bodies.items()})
        compiler = compiler.without_ctes(select.ctes - bodies.keys())
        tree = parsed_source(select)
        extra = {"expressions", "from", "from_", "joins", "where"}
        for key, value in tree.args.items():
            if value and key not in extra:
                raise NotPrivate("The source of a DP call is FROM and WHERE.")
        rows = compiler.from_clause(tree)
        unfiltered = replace(rows, where=[*rows.where], looked_in=[*rows.looked_in])
        scope = compiler.scope(rows)
        if tree.args.get("where") is not None:
            rows.where += conditions(tree.args["where"].this, scope)
    except Unreadable:
        raise unreadable(select) from None
    except (Refused, Unbound) as refusal:
        raise _placed(refusal, select, _place(select, refusal)) from None
    except (NotPrivate, NotSupported) as refusal:
        raise refusal.at(select.text, select.source[0]) from None
    person = None if rows.person_type is None else Column('"__dp_person"', rows.person_type)
    keys = tuple(
        _exact(select, key, value_of(select, key, scope), "group")
        for key in (select.keys if person is not None else ())
    )
    return Source(select, compiler, rows, unfiltered, scope, person, keys)


def rows_of(source: Source, call: DpCall) -> CallRows:
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
    return CallRows(item, relation, sql, found.tables, work)


def written_out(source: Source, relation: Relation) -> Written:
    """Rows of a source as SQL, or a refusal of the work that they could cause."""
    try:
        return source.compiler.written(relation)
    except NotSupported as refusal:
        raise refusal.at(source.select.text, source.select.source[0]) from None


def compiled_plan(
    source: Source,
    call: DpCall,
    rows: CallRows,
    *,
    domain: Domain | Observed | None,
    groups: Groups | None,
    assumptions: tuple[str, ...],
    work: Work | None = None,
) -> Plan:
    """The plan of one call over its compiled source; the other arguments are those of plan_of."""
    assert source.person is not None  # both callers have refused a public source
    return plan_of(
        source.select,
        call,
        source=rows.sql,
        columns={"item": Column('"__dp_item"', rows.item.type), "privacy_unit": source.person},
        keys=key_columns(source),
        groups=groups,
        keep_source=work is not None or not reads_one_table(rows.relation),
        domain=domain,
        assumptions=assumptions,
        work=work,
    )


def key_columns(source: Source) -> tuple[Column, ...]:
    """The columns of GROUP BY as the plan's source names them."""
    return tuple(Column(f'"__dp_g{i}"', key.type) for i, key in enumerate(source.keys))


# --- expressions and their places -----------------------------------------------------------------


def value_of(select: DpSelect, reference: Reference, scope: Scope) -> Value:
    """An item or a key as SQL: a column, or an expression of one row."""
    tree = projection(reference.text)
    if tree is None or isinstance(tree, exp.Alias):
        raise ParseError("This is no column.", text=select.text, position=reference.position)
    try:
        return row_wise(tree, scope)
    except Unreadable:
        raise unreadable(select) from None
    except (Refused, Unbound) as refusal:
        raise _placed(refusal, select, reference.position) from None


def _exact(select: DpSelect, reference: Reference, value: Value, what: str) -> Value:
    if family(value.type) not in EXACT_TYPES:
        raise inexact(what, reference.text, value.type).at(select.text, reference.position)
    return value


def parsed_source(select: DpSelect) -> Node:
    """The tree of a source and its condition, as one SELECT.

    Raises:
        Unreadable: sqlglot cannot read it; `unreadable` says so to users.
        NotPrivate: it is more than one SELECT.
    """
    text = _BEFORE_SOURCE + select.source_text
    if select.condition_text is not None:
        text += _BEFORE_CONDITION + select.condition_text
    tree = tree_of(text)
    if not isinstance(tree, exp.Select):
        raise NotPrivate("The source of a DP call must be one SELECT.")
    return tree


def unreadable(select: DpSelect) -> ParseError:
    """The refusal of a source, or else of its condition, that sqlglot cannot read."""
    at = select.source[0]
    if select.condition is not None:
        try:
            tree_of(_BEFORE_SOURCE + select.source_text)
            at = select.condition[0]
        except Unreadable:
            pass
    return ParseError(
        "dp_sql cannot read this part, so it cannot prove that it is private.",
        text=select.text,
        position=at,
        hint="Put it into a column of a table, and select from that table.",
    )


def _place(select: DpSelect, refusal: Refused | Unbound) -> int:
    """Where the refused node is; the beginning of the source where that is not known."""
    begin, end = select.source
    starts = [node.meta["start"] for node in refusal.node.walk() if "start" in node.meta]
    if isinstance(refusal, Refused) and refusal.offset is not None:
        starts = [refusal.offset]
    if not starts:
        return begin
    place = begin + int(min(starts)) - len(_BEFORE_SOURCE)
    if place > end and select.condition is not None:
        place += select.condition[0] - end - len(_BEFORE_CONDITION)
    return place if begin <= place <= len(select.text) else begin


def _placed(refusal: Refused | Unbound, select: DpSelect, position: int) -> QueryError:
    """A refusal in the class that users see, with its place."""
    kind = SourceError if isinstance(refusal, Unbound) else NotPrivate
    return kind(refusal.message, text=select.text, position=position, hint=refusal.hint)

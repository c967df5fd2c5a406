"""On the owner's connection: from a DP call to a Plan, or a refusal.

The owner may ask what an analyst may ask, without limits on work, and declares the privacy unit,
the domain and the groups in the statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from dp_sql.errors import ArgumentError, NotPrivate, QueryError
from dp_sql.privacy.as_written import check_sql
from dp_sql.privacy.catalog import OwnersEngine
from dp_sql.privacy.declared_sources import DeclaredTables, OwnersSchema, assumptions, read_tables
from dp_sql.privacy.domains import (
    Domain,
    ObservedValues,
    Own,
    PublicValues,
    Values,
    Wanted,
    declared_domain,
)
from dp_sql.privacy.groups import found_groups, is_observed, listed_groups, spread
from dp_sql.privacy.plan import Groups, Plan
from dp_sql.privacy.relation_tree import Parts
from dp_sql.privacy.relations import Compiler
from dp_sql.privacy.scores import scores_plan
from dp_sql.privacy.sources import Source, compiled_source, value_of
from dp_sql.sql.arguments import CAP, DpCall, missing
from dp_sql.sql.clauses import cte_bodies
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.given import ListLiteral, PublicQuery, PublicSet
from dp_sql.sql.tokens import Token, folded
from dp_sql.sql.types import exact


def owners_plans(select: DpSelect, tokens: Sequence[Token], engine: OwnersEngine) -> list[Plan]:
    """The plans of the calls of one SELECT on the owner's connection.

    `tokens` are those of the whole statement, for its CTEs. Raises QueryError where the source is
    not provably person-level, or a call cannot be planned.
    """
    plans: dict[int, Plan] = {}
    of_unit: dict[Parts, list[DpCall]] = {}
    for call in select.calls:
        if call.parameters.reads_people:
            of_unit.setdefault(call.privacy_unit.parts, []).append(call)
        else:
            plans[call.start] = scores_plan(select, call, engine)
    for calls in of_unit.values():
        found = _plans(select, calls, _bodies(select, tokens), engine)
        plans |= {call.start: plan for call, plan in zip(calls, found, strict=True)}
    return [plans[call.start] for call in select.calls]


def _plans(
    select: DpSelect, calls: Sequence[DpCall], bodies: Mapping[str, str], engine: OwnersEngine
) -> list[Plan]:
    """The plans of calls that have one privacy unit; their source is compiled once."""
    _check_strings(select, calls, bodies.values(), engine)
    schema = OwnersSchema(engine)
    unit = calls[0].privacy_unit.parts[-1]
    origin = _origin(select, calls[0], bodies, schema)
    tables = DeclaredTables(schema, folded(unit), origin)
    source = _source(select, calls[0], bodies, tables)
    reads = [source.read_by(call) for call in calls]
    read = read_tables(reads[0].relation)[0]
    functions = {table.function for table in read if table.function}
    sources, shares = source.shared(reads)
    for one in sources:
        if not engine.agrees(one.sql, one.tables, functions):
            message = "DuckDB does not read this source as dp_sql does."
            hint = "Make it a table (CREATE TABLE … AS …) and name that table."
            raise select.refused(message, select.source[0], hint, NotPrivate)
    relations = {folded(table.name[-1]) for table in read if table.is_private} | tables.views
    relations |= {part.name for part in source.rows.parts if part.rows.private and part.name}
    own = Own(relations, {folded(unit), *(origin or ())[1:]})
    plans = []
    for rows, shared in zip(reads, shares, strict=True):
        call = rows.call
        groups = None
        if call.finds_groups:
            call, groups = found_groups(call, is_single=False)
        elif select.keys:
            call, groups = _public_groups(source, call, own, schema)
        domain = None
        if call.domain is not None:
            kind, one_column = rows.item.type, source.one_column
            domain = declared_domain(select, call, call.domain, kind, own, schema, one_column)
        declared = assumptions(rows.relation, unit) + _assumed(select, call, groups, domain)
        spread_rows = replace(rows, call=call)
        plans.append(source.plan(spread_rows, domain, groups, declared, shared=shared))
    return plans


def _source(
    select: DpSelect, call: DpCall, bodies: Mapping[str, str], tables: DeclaredTables
) -> Source:
    """The compiled source, whose person is the privacy unit of the call."""
    unit = call.privacy_unit
    try:
        source = compiled_source(select, bodies, Compiler(tables))
    except ArgumentError as error:  # the type of the privacy unit
        raise error.at(select.text, unit.position) from None
    value = value_of(select, unit, source.scope)  # a name that is not a column is refused
    if source.person_type is None:
        message = f"No table of this source has a column {unit.parts[-1]}."
        hint = "The privacy unit is a column of a table, a file or a dataframe."
        raise select.refused(message, unit.position, hint, NotPrivate)
    if not value.is_person:
        why = "it is an expression, or a column that a LEFT JOIN may set to NULL."
        message = f"{unit.text} is not the privacy unit of a table: {why}"
        hint = "Name the column as it is in the table that holds people's rows."
        raise select.refused(message, unit.position, hint, NotPrivate)
    return source


def _origin(
    select: DpSelect, call: DpCall, bodies: Mapping[str, str], schema: OwnersSchema
) -> tuple[Parts, str] | None:
    """The column of a table that the privacy unit is, should a subquery have renamed it."""
    tables = DeclaredTables(replace(schema, counts=False), "")  # no number is asked for
    try:
        source = compiled_source(select, bodies, Compiler(tables))
        origin = value_of(select, call.privacy_unit, source.scope).origin
    except QueryError:  # the error is raised again when the source is compiled
        return None
    return None if origin is None or origin[1] == folded(call.privacy_unit.parts[-1]) else origin


def _bodies(select: DpSelect, tokens: Sequence[Token]) -> dict[str, str]:
    """The SQL of the CTEs that a SELECT may name, in their order.

    Left out are names that the statement defines twice, and CTEs that end behind the source.
    """
    spans: dict[str, tuple[int, int]] = {}
    for index, token in enumerate(tokens):
        if token.upper == "WITH":
            spans |= cte_bodies(tokens[index:])
    defined = Counter(
        folded(name.name or "")
        for before, name, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if before.upper in {"WITH", "RECURSIVE"} or before.is_symbol(",")
        if after.upper == "AS" or after.is_symbol("(")
    )
    return {
        name: select.text[slice(*span)]
        for name, span in sorted(spans.items(), key=lambda item: item[1])
        if name in select.ctes and defined[name] == 1 and span[1] <= select.source[0]
    }


def _check_strings(
    select: DpSelect, calls: Sequence[DpCall], bodies: Iterable[str], engine: OwnersEngine
) -> None:
    """Refuse SQL that sqlglot and DuckDB, or this database and another, may read differently."""
    items = (call.item.text for call in calls)
    for sql in (select.source_text, select.condition_text or "", *items, *bodies):
        try:
            check_sql(sql, engine)
        except NotPrivate as refusal:
            begin = select.source[0]
            place = max(begin, select.text.find(sql, begin))
            raise select.refused(refusal.message, place, refusal.hint or "", NotPrivate) from None


def _public_groups(
    source: Source, call: DpCall, own: Own, schema: OwnersSchema
) -> tuple[DpCall, Groups]:
    """The groups that the statement names; refuses a call that needs a cap and has none."""
    call, groups = spread(call, _groups(source, call, own, schema))
    if groups.cap is None and not call.parameters.is_vector:
        text, span = source.select.text, (call.start, call.end)
        raise missing(text, call.function.name, span, [CAP], ["max_groups_contributed := 1"])
    return call, groups


def _groups(source: Source, call: DpCall, own: Own, schema: OwnersSchema) -> Groups:
    select, given, cap = source.select, source.select.groups, call.max_groups_contributed
    assert given is not None  # it is asked for when the call is read

    def domain(i: int, one: PublicSet) -> Domain:
        key, value = select.keys[i], source.values[i]
        wanted = replace(call, k=None, columns={**call.columns, "item": key})
        return declared_domain(
            select, wanted, one, value.type, own, schema, source.one_column, "groups"
        )

    def one_key(i: int, one: PublicSet | None) -> str:
        assert one is not None
        return _observed(source, i) if is_observed(one) else str(domain(i, one).select)

    def checked(i: int, one: PublicQuery, values: Values) -> PublicValues:
        wanted = replace(call, k=None, columns={**call.columns, "item": select.keys[i]})
        return Wanted(select, wanted, one, source.values[i].type, schema, "groups").domain(values)

    sql, factors = listed_groups(source, one_key, checked)
    counted = [f"SELECT system.main.count(*) FROM ({factor}) AS t" for factor in factors]
    size = None if is_observed(given) else prod(map(schema.public_number, counted))
    return Groups(sql, cap, size, factors=factors)


def _observed(source: Source, index: int) -> str:
    """SQL that lists the values of a key in the source, also where WHERE drops their rows."""
    value = source.values[index]
    sql = source.written(source.unfiltered.select([value])).sql
    item = exact("c0", value.type)
    return f"SELECT DISTINCT {item} AS item FROM ({sql}) AS t WHERE c0 IS NOT NULL"


def _assumed(
    select: DpSelect, call: DpCall, groups: Groups | None, domain: Domain | None
) -> tuple[str, ...]:
    """What the owner declares by naming groups and a domain; a list is public by being written."""
    said: tuple[str, ...] = ()
    is_stated = groups is not None and groups.finding is None
    if is_stated and not isinstance(select.groups, ListLiteral):
        said = (f"the set of groups, {select.groups and select.groups.text}, is public",)
    if isinstance(domain, ObservedValues):
        also = "" if select.condition_text is None else ", also among the rows that WHERE keeps"
        return (*said, f"the set of values in {call.item.text} is public{also}")
    if domain is None or isinstance(call.domain, ListLiteral):
        return said
    return (*said, f"the domain, {domain.described}, is public")

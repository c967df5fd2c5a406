"""On the owner's connection: from a DP call to a Plan, or a refusal.

The owner may ask what an analyst may ask, without limits on work, and declares the privacy unit,
the domain and the groups in the statement.
"""

import contextlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from dp_sql.errors import ArgumentError, NotPrivate, NotSupported, QueryError, SourceError, guessed
from dp_sql.privacy.catalog import OwnersEngine, Parts
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.ctes import cte_bodies
from dp_sql.privacy.plans.domains import (
    OBSERVED,
    Domain,
    OwnValues,
    Values,
    Wanted,
    column_values,
    label_values,
    shown_type,
)
from dp_sql.privacy.plans.groups import PublicSets
from dp_sql.privacy.plans.plan import Groups, Plan
from dp_sql.privacy.plans.scores import scores_plan
from dp_sql.privacy.plans.sources import CallRows, Source, compiled_source, value_of
from dp_sql.privacy.relations.as_written import check_sql
from dp_sql.privacy.relations.base_tables import as_noted
from dp_sql.privacy.relations.declared_tables import (
    DeclaredTables,
    OwnersSchema,
    assumptions,
    read_tables,
)
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.sql.argument_errors import CAP, groups_needed, missing
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, quote, shown_name
from dp_sql.sql.given import ListLiteral, PublicQuery, Reference, SetPerKey
from dp_sql.sql.tokens import edited, folded
from dp_sql.sql.types import exact, family, in_type, writable

_MISTYPED = 0.8  # of user_id and usr_id: 0.92; of customer_id and order_id: 0.63
_A_UNIT = (
    "Name the column with the person that each row belongs to, as this source calls it, or join "
    "the table that has it."
)


def owners_plans(select: DpSelect, engine: OwnersEngine) -> list[Plan]:
    """The plans of the calls of one SELECT on the owner's connection.

    Raises QueryError where the source is not provably person-level, or a call cannot be planned.
    """
    plans: dict[int, Plan] = {}
    of_unit: dict[Parts, list[DpCall]] = {}
    for call in select.calls:
        if call.parameters.reads_people:
            of_unit.setdefault(call.privacy_unit.parts, []).append(call)
        else:
            plans[call.start] = scores_plan(select, call, engine)
    for calls in of_unit.values():
        if select.delta is not None and len(of_unit) > 1:
            why = "Calls that share the groups that delta finds must have one privacy_unit."
            raise select.refused(why, calls[0].start, "Write one SELECT for each.", NotSupported)
        found = _plans(select, calls, engine)
        plans |= {call.start: plan for call, plan in zip(calls, found, strict=True)}
    return [plans[call.start] for call in select.calls]


def _plans(select: DpSelect, calls: Sequence[DpCall], engine: OwnersEngine) -> list[Plan]:
    """The plans of calls that have one privacy unit; their source is compiled once."""
    _check_strings(select, calls, engine)
    schema = OwnersSchema(engine)
    unit = calls[0].privacy_unit.parts[-1]
    source, tables = _source(select, calls[0], schema)
    reads = [source.read_by(call) for call in calls]
    read, listed = read_tables(reads[0].relation)
    functions = {table.function for table in (*read, *listed) if table.function}
    sources, shares = source.shared(reads)
    for one in sources:
        if not engine.agrees(one.sql, one.tables, functions):
            message = "DuckDB does not read this source as dp_sql does."
            hint = "Make it a table (CREATE TABLE … AS …) and name that table."
            raise select.refused(message, select.source[0], hint, NotPrivate)
    relations = {folded(table.name[-1]) for table in read if table.is_private} | tables.views
    relations |= {part.name for part in source.rows.parts if part.rows.is_private and part.name}
    sets = _DeclaredSets(
        source=source, schema=schema, unit=unit, relations=relations,
        is_single=all(key.has_facts and key.is_of_one for key in source.values),
        units={folded(unit), *(tables.origin or ())[1:], *tables.also.values()},
    )  # fmt: skip
    return sets.plans(reads, shares, len(sources))


def _source(select: DpSelect, call: DpCall, schema: OwnersSchema) -> tuple[Source, DeclaredTables]:
    """The compiled source, whose person is the privacy unit of the call, and its tables."""
    unit = folded(call.privacy_unit.parts[-1])
    tables, source, error = DeclaredTables(schema, unit), None, None
    try:
        source = _compiled(select, call, tables)
    except QueryError as refusal:
        error = refusal
    if source is None or not _is_named(unit, source):
        origin = _origin(select, call, schema)
        if origin is not None:
            tables = DeclaredTables(schema, unit, origin)
            return _compiled(select, call, tables), tables
    if source is None:
        assert error is not None
        raise error
    return source, tables


def _is_named(unit: str, source: Source) -> bool:
    """Whether each column of this name is one of a table, of this name and with its persons."""
    values = [
        part.value(i)
        for part in source.rows.parts
        for i, name in enumerate(part.rows.names)
        if name == unit
    ]
    return bool(values) and all(one.is_person and one.origin_name == unit for one in values)


def _compiled(select: DpSelect, call: DpCall, tables: DeclaredTables) -> Source:
    """The source compiled over tables, if its person is the privacy unit of the call."""
    unit = call.privacy_unit
    try:
        source = as_noted(lambda: compiled_source(select, Compiler(tables)), tables)
    except ArgumentError as error:  # the type of the privacy unit
        raise error.at(select.text, unit.position) from None
    try:
        value = value_of(select, unit, source.scope)
    except NotPrivate as refusal:
        raise _no_unit(refusal, select, unit, source) from None
    if source.person_type is None:
        message = f"No table of this source has a column {unit.parts[-1]}."
        hint = "The privacy unit is a column of a table, a file or a dataframe. If it is a field "
        hint += "of a struct or computed, store it as a column first (CREATE TABLE … AS …)."
        raise select.refused(message, unit.position, hint, NotPrivate)
    if not value.is_person:
        why = "it is an expression, a column that a LEFT JOIN may set to NULL, or in a UNION two"
        why += " columns of one table."
        message = f"{unit.text} is not the privacy unit of a table: {why}"
        hint = "Name the column as it is in the table that holds people's rows."
        hint += " If it is a field of a struct or computed, store it as a column; if a row has two "
        hint += "people, store the row once for each of them (CREATE TABLE … AS …)."
        raise select.refused(message, unit.position, hint, NotPrivate)
    return source


def _no_unit(refusal: NotPrivate, select: DpSelect, unit: Reference, source: Source) -> QueryError:
    """The refusal of a privacy unit that is no column of the source.

    Another column would protect something else than people, such as orders: only the same one
    under another name, or nearly the same name, is proposed.
    """
    if not refusal.unknown:
        return refusal
    name = folded(unit.parts[-1])
    columns = {
        own: part.value(i).origin_name
        for part in source.rows.parts
        for i, own in enumerate(part.rows.names)
        if own
    }
    near = [own for own, origin in columns.items() if origin == name]
    near = near or [*filter(None, [guessed(name, columns, _MISTYPED)])]
    hint = f"Did you mean {near[0]}?" if near else _A_UNIT
    place = unit.position, unit.position + len(unit.text)
    instead = [edited(select.text, [(*place, shown_name(one))]) for one in near]
    # The session joins the table that has it to the text itself, if keys lead to one.
    instead = instead or [*_with_unit_below(select, unit), select.text]
    return select.refused(refusal.message, unit.position, hint, NotPrivate, instead)


def _with_unit_below(select: DpSelect, unit: Reference) -> Iterator[str]:
    """The statement with the privacy unit in the list of a subquery or a CTE, too."""
    tokens, spans = select.tokens, [select.source, *filter(None, select.ctes.values())]
    for i, token in enumerate(tokens):
        below = token.upper == "SELECT" and any(a <= token.start < b for a, b in spans)
        if below and tokens[i - 1].is_symbol("(") and tokens.at(i + 1).upper != "DISTINCT":
            inside = tokens.at_depth_zero(i, tokens.matching(i - 1))
            end = next((tokens[j - 1].end for j in inside if tokens[j].upper == "FROM"), None)
            if end is not None:
                yield edited(select.text, [(end, end, f", {unit.text}")])


def _origin(select: DpSelect, call: DpCall, schema: OwnersSchema) -> tuple[Parts, str] | None:
    """The column of a table that the privacy unit is, should a subquery have renamed it."""
    tables = DeclaredTables(replace(schema, counts=False), "")  # no number is asked for
    try:
        source = compiled_source(select, Compiler(tables))
        origin = value_of(select, call.privacy_unit, source.scope).origin
    except QueryError:  # it, or that over tables with persons, is raised
        return None
    return None if origin is None or origin[1] == folded(call.privacy_unit.parts[-1]) else origin


def _check_strings(select: DpSelect, calls: Sequence[DpCall], engine: OwnersEngine) -> None:
    """Refuse SQL that sqlglot and DuckDB, or this database and another, may read differently."""
    named = select.between(select.condition or (0, 0)).folded
    used = (text for name, text in select.aliases.items() if text and name in named)
    begin = select.source[0]
    written = [("FROM", select.source_text), *(("SELECT", text) for text in used),
               *(("", body) for body in cte_bodies(select).values())]  # fmt: skip
    if select.condition_text:
        written.append(("SELECT", select.condition_text))
    places = [(*one, max(begin, select.text.find(one[1], begin))) for one in written]
    places += [("SELECT", key.text, key.position) for key in select.keys]
    read = [one for call in calls for one in (call.item, call.condition) if one is not None]
    places += [("SELECT", one.text, one.position) for one in read]
    places += [("", query.text, query.position) for query in _queries(select, calls)]
    for clause, sql, place in places:
        try:
            check_sql(f"{clause} {sql}", engine)
        except NotPrivate as refusal:
            raise select.refused(refusal.message, place, refusal.hint or "", NotPrivate) from None


def _queries(select: DpSelect, calls: Sequence[DpCall]) -> list[PublicQuery]:
    """The queries that list groups and domains."""
    groups = select.groups
    sets = groups.sets if isinstance(groups, SetPerKey) else [groups]
    given = (*sets, *(call.domain for call in calls))
    return [one for one in given if isinstance(one, PublicQuery)]


@dataclass(frozen=True, kw_only=True)
class _DeclaredSets(PublicSets):
    """The public sets that a statement declares, and what its source has of people's, folded.

    unit: the name of the privacy unit. relations: the names of the relations that hold people's
    rows. units: the name of the privacy unit, and that of its column if it was renamed.
    """

    schema: OwnersSchema
    unit: str
    relations: Set[str]
    units: Set[str]

    def declared(self, item: Value) -> OwnValues | None:
        return OwnValues(item.own_values) if item.own_values else None

    def refuse_missing(self, call: DpCall, item: Value, needs_cap: bool) -> None:
        needed: dict[str, str | None] = {}
        select = self.source.select
        known = [self.declared(value) for value in self.source.values]
        if select.groups is None and select.delta is None and None in known:
            sets = [one.written if one else "observed" for one in known]
            written = "observed" if {*sets} == {"observed"} else f"({', '.join(sets)})"
            needed[groups_needed(call.given)] = f"groups := {written}"
        if needs_cap and call.max_groups_contributed is None:
            needed[CAP] = "max_groups_contributed := 1"
        if needed:
            own, again = select.without_filter(call.span), select.repeats_of(call)
            raise missing(select.text, call.function, own, needed, again=again)

    def assumed(self, rows: CallRows, groups: Groups | None, domain: Domain | None) -> list[str]:
        """Also what the owner declares by naming sets; a list is public by being written."""
        select, call = self.source.select, rows.call
        said = [*assumptions(rows.relation, self.unit, self.schema)]
        is_stated = groups is not None and groups.finding is None
        if is_stated and select.groups is not None and not isinstance(select.groups, ListLiteral):
            said.append(f"the set of groups, {select.groups.text}, is public")
        if rows.item.is_of_person and call.k:
            said.append(f"each {call.item.text} is one person, and the answer may list them")
        if domain is OBSERVED:
            by = ["WHERE"] * (select.condition is not None) + ["FILTER"] * bool(call.condition)
            kept = f"{' and '.join(by)} {'keep' if len(by) > 1 else 'keeps'}"
            also = f", also among the rows that {kept}" if by else ""
            said.append(f"the set of values in {call.item.text} is public{also}")
        elif domain is not None and not isinstance(call.domain, ListLiteral):
            said.append(f"the domain, {domain.described}, is public")
        return said

    def unwritten(self, wanted: Wanted, *, observed: bool) -> Domain:
        """All values of the key, if its form tells them; or, observed, those in the source.

        Observed groups are also those whose rows WHERE drops.
        """
        if not observed:
            own = self.declared(wanted.item)
            assert own is not None  # else refuse_missing has asked for a set
            return wanted.domain(own.values())
        if wanted.what == "domain":
            return OBSERVED
        sql = self.source.written(self.source.unfiltered.select([wanted.item])).sql
        kind = wanted.item.type
        key, there = exact("c0", kind), writable(in_type("c0", kind), kind)
        select = f"SELECT DISTINCT {key} AS item FROM ({sql}) AS t WHERE {there} IS NOT NULL"
        return OBSERVED._replace(select=select)

    def checked(self, wanted: Wanted, values: Values) -> Domain:
        way_out = ""
        if values.column:
            table, column = full_name(values.column[:-1]), quote(values.column[-1])
            kind = shown_type(wanted.item.type)
            way_out = (
                f"Or cast the column in a view, CREATE VIEW listed AS SELECT CAST({column} AS "
                f"{kind}) AS {column} FROM {table}, and name listed.{column}."
            )
        return wanted.domain(values, lambda _: way_out)

    def named(self, wanted: Wanted, given: Reference) -> Values:
        """A public table's column, or an ENUM: that of the item itself, or a type."""
        (*table, column), item = given.parts, wanted.item
        parts = wanted.call.item.parts
        is_own = bool(table) and folded(table[-1]) in self.relations
        itself = folded(column) == folded(parts[-1] if parts else "")
        if itself and (is_own or not table) and family(item.type) == "ENUM":
            return label_values(item.type, given.text)
        if is_own or (itself and not table):
            what = "a column of the private source itself"
            if itself:
                own = f"the private column itself, of type {item.type}"
                what = f"{own}: its values are people's data"
            raise wanted.refused(
                f"{given.text} is {what}.",
                "Name a public table's column, a list, or, if the set of values in this column is "
                f"itself public, write {wanted.what} := observed.",
                ["observed"] * (wanted.what == "groups"),
            )
        if not table:
            return self._enum_type(wanted, given)
        if len(table) == 1 and folded(table[0]) in wanted.select.ctes:
            message = f"{table[0]} is a CTE, and a domain is a table's column."
            raise wanted.refused(message, "Name a table's column or write the items as a list.")
        relation = self.schema.relation(table)
        full = relation.parts if relation is not None and relation.parts else tuple(table)
        self._refuse_people(wanted, given, full)
        name = ".".join(map(shown_name, given.parts))
        return column_values(full, column, f"the column {name}")

    def _enum_type(self, wanted: Wanted, given: Reference) -> Values:
        """The labels of an ENUM type, or the refusal of another name without a table."""
        (name,) = given.parts
        try:
            ((_, found),) = self.schema.columns(f"SELECT NULL::{quote(name)} AS value")
        except SourceError:
            found = ""
        if family(found) == "ENUM":
            return label_values(found, given.text)
        with contextlib.suppress(SourceError):
            named = [n for n, _ in self.schema.columns(f"SELECT * FROM {quote(name)}")]
            raise wanted.refused(
                f"{given.text} is a table, and {wanted.what} takes a column.",
                f"Write {wanted.what} := {given.text}.{shown_name(named[0])}, for example.",
                [f"{given.text}.{shown_name(name)}" for name in named],
            )
        raise wanted.refused(
            f"{wanted.what} := {given.text} names neither an ENUM type nor a list.",
            f"Name a public table's column with its table, {wanted.what} := catalog.title; a list, "
            f"{wanted.what} := ['a', 'b']; an ENUM; or {wanted.what} := observed.",
            [*filter(None, [guessed(folded(name), ["observed"])])],
        )

    def _refuse_people(self, wanted: Wanted, given: Reference, table: Parts) -> None:
        """Refuse a domain of a table that has the privacy unit."""
        try:
            columns = self.schema.columns(f"SELECT * FROM {full_name(table)}")
        except SourceError:  # a table that cannot be read: said later
            return
        if units := self.units & {folded(name) for name, _ in columns}:
            raise wanted.refused(
                f"{given.text} is not public: {given.parts[-2]} has the privacy unit {min(units)} "
                "as a column, so it holds people's rows.",
                "Name a public table's column, or store the public values in a table of their own.",
            )

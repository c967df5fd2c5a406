"""The source and the item of a DP call, compiled: the same for owners and analysts.

What is public about a call, its domain and its groups, is decided in owner.py and in analyst.py.
Reads no private row.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from dp_sql.errors import (
    ArgumentError,
    NotPrivate,
    NotSupported,
    ParseError,
    QueryError,
    SourceError,
)
from dp_sql.privacy.expressions.collations import under
from dp_sql.privacy.expressions.row_values import with_facts
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.ctes import cte_bodies
from dp_sql.privacy.plans.domains import Values
from dp_sql.privacy.plans.other_names import (
    BEFORE_CONDITION,
    BEFORE_SOURCE,
    refuse_answers,
    without_aliases,
)  # fmt: skip
from dp_sql.privacy.plans.plan import Column, Shared
from dp_sql.privacy.plans.refused_sources import place_of, placed, unreadable
from dp_sql.privacy.refusals import Refused, Unbound, exact_cast, inexact, no_amount
from dp_sql.privacy.relations.from_clause import From
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.privacy.relations.tree import Relation
from dp_sql.privacy.relations.tree_sql import Written
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.clauses import OF_ANSWERS
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.given import PublicQuery, Reference
from dp_sql.sql.grid_arguments import in_seconds
from dp_sql.sql.readers import EVERY_ROW
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.sqlglot_tree import Node, Unreadable, parts_of, projection, tree_of
from dp_sql.sql.tokens import Edit, edited, folded
from dp_sql.sql.types import BINARY_TYPES, EXACT_TYPES, NUMBERS, family

_OF_PEOPLE = "This query reads people's rows; groups and domains are public."
_PUBLIC = "Select from public tables, or write the values as a list: ['a', 'b']."


class CallRows(NamedTuple):
    """What one call reads: its item, and the rows as a tree and as a relation of FROM.

    call: the same, or what answers it where its item is the privacy unit.
    """

    call: DpCall
    item: Value
    relation: Relation
    written: Written


class Source(NamedTuple):
    """The compiled source of a SELECT with DP calls.

    rows: FROM with its conditions. unfiltered: the same without WHERE. scope: for expressions.
    person_type: of the privacy unit; None: no person's rows. values: the keys of GROUP BY.
    """

    select: DpSelect
    compiler: Compiler
    rows: From
    unfiltered: From
    scope: Scope
    person_type: str | None
    values: tuple[Value, ...]

    @property
    def keys(self) -> tuple[Column, ...]:
        """The columns of GROUP BY as the plan's source names them."""
        return tuple(Column(f'"__dp_g{i}"', value.type) for i, value in enumerate(self.values))

    def written(self, relation: Relation, *, every_row: bool = False) -> Written:
        """Rows of the source as SQL, or NotSupported where they could cause too much work."""
        try:
            return self.compiler.written(relation, every_row=every_row)
        except (NotSupported, SourceError) as refusal:
            raise refusal.at(self.select.text, self.select.source[0]) from None

    def read_by(self, call: DpCall) -> CallRows:
        """What a call reads of the source.

        Raises NotPrivate where the item is not known to be total, ArgumentError where its equality
        is not exact, and NotSupported where the source could cause too much work.
        """
        item = _item(self.select, call, self.scope)
        named = call.given.get("mechanism")
        if named is None or call.names_mechanism_of_people:
            counted = call.parameters.when_item_is_person()
            if item.is_of_person and counted is not None:
                call = replace(call, parameters=counted[0], mechanism=counted[1])
            elif named is not None:
                raise named.refuse(
                    f"The mechanism {named.text} counts people, and {call.item.text} is not "
                    "the privacy unit.",
                    "Count the privacy unit, or leave out mechanism.", [named.omitted()],
                )  # fmt: skip
        if not {"item", *call.parameters.needs} & {*call.missing}:
            numbers = call.parameters.for_item(call.given, call.item.text, item.type)
            call = replace(call, parameters=numbers)
        relation = self.rows.select([item, *self.values])
        found = self.written(relation, every_row=call.parameters.counts_rows)
        return CallRows(call, item, relation, self._named(found, ["__dp_item"]))

    def _named(self, found: Written, items: Sequence[str]) -> Written:
        """A relation of FROM, whose columns are the person, the items and the keys."""
        names = ["__dp_person", *items, *(f"__dp_g{i}" for i in range(len(self.values)))]
        return found._replace(sql=f"({found.sql}) AS __dp_people({', '.join(names)})")

    def shared(
        self, reads: Sequence[CallRows]
    ) -> tuple[Sequence[Written], Sequence[Shared | None]]:
        """The sources that the calls read; if it is one for all, also the item of each call in it.

        Calls share a source unless a join in it multiplies rows: how many rows it makes, and which
        rows of a person it keeps, depends on the columns that are needed.
        """
        items = {one.item.sql: one.item for one in reads}
        alone = {one.written.sql: one.written for one in reads}
        apart = [*alone.values()], [None] * len(reads)
        if len(alone) == 1:
            return apart
        try:
            relation = self.rows.select([*items.values(), *self.values])
            every_row = any(one.call.parameters.counts_rows for one in reads)
            found = self.compiler.written(relation, every_row=every_row)
        except NotSupported:
            return apart
        if any(one.work.joined_rows_per_person is not None for one in (found, *alone.values())):
            return apart
        names = {sql: f"__dp_item_{i}" for i, sql in enumerate(items)}
        found = self._named(found, [*names.values()])
        return [found], [Shared(found.sql, f'"{names[one.item.sql]}"') for one in reads]

    def public_query(self, given: PublicQuery) -> tuple[str, list[Values]]:
        """A query over public tables as SQL with columns c0, c1, …; and the values of each.

        Raises NotPrivate where it reads people's rows, ParseError and SourceError.
        """
        select = self.select
        try:
            rows = self.compiler.query(tree_of(given.sql))
            if rows.is_private:
                raise select.refused(_OF_PEOPLE, given.position, _PUBLIC, NotPrivate)
            found = self.compiler.computed(rows)
        except Unreadable:
            why = "dp_sql cannot read this query."
            raise select.refused(why, given.position, kind=ParseError) from None
        except (Refused, Unbound) as refusal:
            if self._reads_people(tree_of(given.sql)):
                raise select.refused(_OF_PEOPLE, given.position, _PUBLIC, NotPrivate) from None
            raise placed(refusal, select, given.position) from None
        except (ArgumentError, NotSupported, SourceError) as refusal:
            raise refusal.at(select.text, given.position) from None
        return found.sql, [
            Values(
                f"SELECT c{i} AS value FROM ({found.sql}) AS __dp_query",
                "the query in the statement",
            )
            for i in range(len(rows.values))
        ]

    def _reads_people(self, tree: Node) -> bool:
        """Whether a query names a table of people's rows."""
        for node in tree.find_all(exp.Table):
            with suppress(QueryError, Refused, Unbound):
                rows = self.compiler.tables.rows(node, tuple(part.name for part in node.parts))
                if rows is not None and rows.is_private:
                    return True
        return False

    def one_column(self, given: PublicQuery) -> Values:
        """The only column of a query over public tables; raises as public_query."""
        _, columns = self.public_query(given)
        if len(columns) != 1:
            hint = "Select the values that may be answered: (SELECT name FROM regions)."
            raise self.select.refused("This query must select one column.", given.position, hint)
        return columns[0]


def compiled_source(select: DpSelect, compiler: Compiler, condition: str | None = None) -> Source:
    """Compile the source of a SELECT.

    condition: its WHERE clause with expressions in place of the aliases in it, once they are known.

    Raises NotPrivate where the source is not provably person-level, ParseError where a part of it
    is beyond the grammar, and SourceError where the engine cannot bind a part of it.
    """
    sql = BEFORE_SOURCE + select.source_text
    if select.condition_text is not None:
        sql += BEFORE_CONDITION + (condition or select.condition_text)
    refuse_answers(select, cte_bodies(select))
    try:
        bodies = {name: tree_of(body) for name, body in cte_bodies(select).items()}
        unclear = {name for name, span in select.ctes.items() if span is None}
        is_recursive = any(token.upper == "RECURSIVE" for token in select.tokens)
        why = "WITH RECURSIVE is not supported." if is_recursive else "Two CTEs have this name."
        compiler = compiler.without_ctes(unclear, why).with_ctes(bodies)  # one may name another
        later = select.ctes.keys() - unclear - bodies.keys()
        compiler = compiler.without_ctes(
            later, "This CTE is defined after the query that reads it."
        )
        tree = tree_of(sql)
        if not isinstance(tree, exp.Select):
            raise NotPrivate("The source of a DP call must be one SELECT.")
        if parts_of(tree) - {"expressions", "from_", "joins", "where"}:
            raise NotPrivate("The source of a DP call is FROM and WHERE.")
        rows = compiler.from_clause(tree)
        if condition is None and (written := without_aliases(select, tree, rows)):
            return compiled_source(select, compiler, written)
        n_conditions = len(rows.where)  # those of joins
        scope = compiler.scope_of_rows(rows)
        compiler.where(tree, rows)
    except Unreadable:
        raise unreadable(select) from None
    except (Refused, Unbound) as refusal:
        raise placed(refusal, select, place_of(select, refusal, condition)) from None
    except (NotPrivate, NotSupported, SourceError) as refusal:
        raise refusal.at(select.text, select.source[0]) from None
    keys = select.keys if rows.person_type is not None else ()
    if keys:
        _refuse_columns_of_aliases(select, scope)
    values = tuple(_exact(select, key, scope, "group") for key in keys)
    unfiltered = replace(rows.copy(), where=rows.where[:n_conditions])
    return Source(select, compiler, rows, unfiltered, scope, rows.person_type, values)


def _refuse_columns_of_aliases(select: DpSelect, scope: Scope) -> None:
    """Refuse a key that is both the alias of an item and a column: DuckDB groups by the column."""
    group = select.between(select.clauses["GROUP"])
    beside = [item for item in select.items if not item.has_call]
    source = select.between(select.source).folded
    for first, last in group.split(2, len(group)):
        part = [one for one in group[first:last] if not one.is_symbol("(", ")")]
        named = (one for one in beside if one.is_named(part[0], source))
        item = next(named, None) if len(part) == 1 else None
        if item is None or item.alias is None:
            continue
        name, parts = item.alias, [*map(folded, item.expression.names)]
        is_column = source.issuperset(parts[-2:-1])  # and no field of one
        if parts and parts[-1] == folded(name) and is_column:
            continue
        with suppress(Refused, Unbound):  # there is no such column
            scope.column(exp.column(name))
            number = str(select.items.index(item) + 1)
            message = f"GROUP BY {name} means the column {name}, and not {item.expression.text}."
            hint = f"For the expression, write GROUP BY {number}. For the column, list {name}."
            instead = [Restated(part[0].put(number))]
            raise part[0].error(ArgumentError, message, hint, instead)


def value_of(select: DpSelect, reference: Reference, scope: Scope) -> Value:
    """An item or a key as SQL: a column, or an expression of one row."""
    tree = projection(reference.text)
    if tree is None or isinstance(tree, exp.Alias):
        raise select.refused("This is not a column.", reference.position, kind=ParseError)
    try:
        return with_facts(tree, scope)
    except Unreadable:
        raise unreadable(select) from None
    except (Refused, Unbound) as refusal:
        is_condition = any(call.condition is reference for call in select.calls)
        place = _place_in(reference, refusal) if is_condition else reference.position
        raise placed(refusal, select, place) from None


def _place_in(reference: Reference, refusal: Refused | Unbound) -> int:
    """Where an unknown column is in a condition; where that begins, for any other refusal."""
    starts = [one.meta["start"] for one in refusal.node.walk() if "start" in one.meta]
    place = int(min(starts, default=0)) - len("SELECT ")  # as projection reads it
    is_inside = bool(refusal.unknown) and 0 <= place < len(reference.text)
    return reference.position + place * is_inside


def _item(select: DpSelect, call: DpCall, scope: Scope) -> Value:
    shape, item = call.function.shape, Value(EVERY_ROW, "INTEGER")
    if call.item.text != EVERY_ROW:
        types, is_listed = shape.item_types, shape.finds_items
        item = _exact(select, call.item, scope, "item", types, lists_items=is_listed)
    if call.condition is None:
        return item
    if projection(call.condition.text) is None:
        raise unreadable(select, call.condition.position)
    condition = value_of(select, call.condition, scope)
    if scope.as_written is None and condition.type != "BOOLEAN":
        why = "A condition must be true or false."
        raise select.refused(why, call.condition.position, kind=NotPrivate)
    # FILTER drops the rows whose item this makes NULL, which no call reads.
    sql = f"(CASE WHEN {condition.sql} THEN {under(item.collation, item).sql} END)"
    return item._replace(
        sql=sql, is_person=False, is_own=item.is_of_person, facts_of=sql if item.has_facts else ""
    )


def _exact(
    select: DpSelect,
    reference: Reference,
    scope: Scope,
    what: str,
    types: frozenset[str] | None = EXACT_TYPES,
    *,
    lists_items: bool = False,
) -> Value:
    value = value_of(select, reference, scope)
    if types is not None and family(value.type) not in types:
        start = reference.position
        casts = [f"CAST({reference.text} AS VARCHAR)"] if "VARCHAR" in types else []
        if lists_items and value.type.endswith("]"):
            casts = []  # as strings, no list would be in the domain
        if family(value.type) == "BOOLEAN" and not casts:
            casts.insert(0, f"CASE WHEN {reference.text} THEN 1 ELSE 0 END")
        elif family(value.type) in (BINARY_TYPES if "VARCHAR" in types else NUMBERS):
            casts.insert(0, exact_cast(reference.text, value.type))
        instead = [edited(select.text, _written_as(select, reference, cast)) for cast in casts]
        if family(value.type) == "INTERVAL" and not casts:
            seconds = _written_as(select, reference, in_seconds(reference.text))
            instead = [OtherQuestion(edited(select.text, seconds))]
        if what == "group":  # a cast adds no condition
            instead = [Restated(one) for one in instead]
        refusal = inexact(what, reference.text, value.type)
        if "VARCHAR" not in types:
            refusal = no_amount(reference.text, value.type)
        raise refusal.at(select.text, start, instead)
    return value


def _written_as(select: DpSelect, key: Reference, cast: str) -> set[Edit]:
    """Edits that put another expression in place of a key, also in the list and ORDER BY."""
    found = {(key.position, key.position + len(key.text)): cast}  # GROUP BY 1: it is in the list
    clauses = {"GROUP", *OF_ANSWERS} & select.clauses.keys()
    for span in [*(one.span for one in select.items), *(select.clauses[word] for word in clauses)]:
        found |= {place: cast for place, one in select.key_places(span) if one == key}
    for item in () if key.is_expression else select.items:
        if item.expression.text == key.text:
            alias = "" if item.alias else f" AS {shown_name(key.parts[-1])}"
            found[item.expression.span] = cast + alias
    return {(*span, written) for span, written in found.items()}

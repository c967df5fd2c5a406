"""Under a policy: from a DP call to a Plan, or a refusal.

Reads no private row, but for the values of columns that the policy calls `"observed"`: these are
public by the owner's word. The counterpart of check.py and plan.py for a connection that is not the
owner's: sources are compiled by person_level.py, the domain is the policy's or a public table's,
and what one query may ask is limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sqlglot import exp

from dp_sql.arguments import DpCall
from dp_sql.check import parsed_source, place_of, unreadable
from dp_sql.domain import Domain, listed_domain
from dp_sql.errors import (
    ArgumentError,
    InternalError,
    NotPrivate,
    NotSupported,
    ParseError,
    QueryError,
)
from dp_sql.functions import MAX_GROUPS
from dp_sql.literals import ListLiteral, Reference
from dp_sql.parse import folded
from dp_sql.person_level import Compiler, Parts, Schema, conditions
from dp_sql.person_sql import WorkLimits, Written, written
from dp_sql.person_tree import Relation
from dp_sql.plan import Column, Groups, Plan, Work, needs_cap, shared
from dp_sql.policy import Policy
from dp_sql.recognise import DpSelect
from dp_sql.total import Refused, Scope, Value, compiled, is_literal, text
from dp_sql.trees import Node, Unreadable, projection, tree_of
from dp_sql.types import EXACT_TYPES, family, full_name, quote
from udfs.mechanism import in_words


class Side(Schema, Protocol):
    """What this file may ask of the private side of an engine."""

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""

    def agrees(self, source: str, tables: frozenset[Parts]) -> bool:
        """Whether the engine too reads a source as reading exactly these base tables."""


def guarded_plans(
    select: DpSelect, bodies: Mapping[str, str], policy: Policy, side: Side
) -> list[Plan]:
    """The plans of the calls of one SELECT.

    Args:
        select: where its parts stand in the text.
        bodies: the texts of the CTEs in scope, by folded name, in their order.
        policy: the owner's.
        side: answers what names mean.

    Raises:
        NotPrivate: the source is not provably person-level.
        ParseError: a part of it is beyond our grammar.
        ArgumentError: a domain is missing or unreadable, or a limit of the policy is exceeded.
    """
    limits = policy.limits.work
    ctes = {n: _tree(select, b) for n, b in bodies.items()}
    compiler = Compiler(policy, side, limits).with_ctes(ctes)
    compiler = compiler.without_ctes(select.ctes - bodies.keys())
    try:
        tree = parsed_source(select)
        extra = {"expressions", "from", "from_", "joins", "where"}
        for key, value in tree.args.items():
            if value and key not in extra:
                raise NotPrivate("The source of a DP call is FROM and WHERE.")
        source = compiler.from_clause(tree)
        scope = compiler.scope(source)
        source.where += conditions(tree.args.get("where"), scope)
    except Unreadable:
        raise unreadable(select) from None
    except Refused as refusal:
        raise _said(refusal, select, _place(select, refusal)) from None
    except (NotPrivate, NotSupported) as refusal:
        raise refusal.at(select.text, select.source[0]) from None
    if source.person_type is None:
        raise NotPrivate(
            "This source is public: it holds nobody's rows.",
            text=select.text,
            position=select.source[0],
            hint="Ask it without DP: SELECT … FROM it is free.",
        )
    person = Column('"__dp_person"', source.person_type)
    keys = [_exact(select, key, _compiled(select, key, scope), "group") for key in select.keys]
    columns = tuple(Column(f'"__dp_g{i}"', key.type) for i, key in enumerate(keys))
    listed = "".join(f", c{i + 1} AS __dp_g{i}" for i in range(len(keys)))
    plans = []
    for call in select.calls:
        _check_limits(select, call, policy)
        item = _exact(select, call.item, _compiled(select, call.item, scope), "item")
        found = _as_sql(select, source.select([item, *keys]), side, limits)
        rows = (
            f"(SELECT __dp_person, c0 AS __dp_item{listed} FROM ({found.sql}) AS t) AS __dp_people"
        )
        if not side.agrees(rows, found.tables):
            raise InternalError("What was built reads other tables than it should.")
        domain = _domain(select, call, item, policy, side)
        groups = _groups(select, call, keys, policy, side) if keys else None
        parameters, loss = call.parameters, call.mechanism.loss(**call.parameters)
        if groups is not None:
            parameters, loss = shared(call, groups)
        plans.append(
            Plan(
                function=call.function,
                mechanism=call.mechanism,
                parameters=parameters,
                loss=loss,
                source=rows,
                written=_written(select),
                condition=None,
                columns={"item": Column('"__dp_item"', item.type), "privacy_unit": person},
                keys=columns,
                groups=groups,
                keep_source=True,
                domain=domain,
                beta=call.beta,
                report=call.report,
                call=call.display,
                assumptions=("the policy",),
                work=Work(found.rows_per_person, found.joined_rows_per_person),
            )
        )
    return plans


def _as_sql(select: DpSelect, relation: Relation, side: Side, limits: WorkLimits | None) -> Written:
    """The rows of a source as SQL, or a refusal of the work that they could cause."""
    try:
        return written(relation, side, limits)
    except NotSupported as refusal:
        raise refusal.at(select.text, select.source[0]) from None


def _written(select: DpSelect) -> str:
    """The source as the receipt shows it, with its condition."""
    tail = "" if select.condition_text is None else f" WHERE {select.condition_text}"
    return select.source_text + tail


# --- texts and places -----------------------------------------------------------------------------


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


def _compiled(select: DpSelect, reference: Reference, scope: Scope) -> Value:
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


# --- limits ---------------------------------------------------------------------------------------


def _check_limits(select: DpSelect, call: DpCall, policy: Policy) -> None:
    limits, asked = policy.limits, call.parameters
    bound = asked.get("bound")
    items = bound if isinstance(bound, int) else asked.get("max_contributions")
    if "delta" in asked and limits.max_delta_per_query is None:
        raise _over(select, call, "The policy allows no delta, and this mechanism needs one")
    for name, value, limit in (
        ("epsilon", asked["epsilon"], limits.max_epsilon_per_query),
        ("delta", asked.get("delta"), limits.max_delta_per_query),
        ("k", asked.get("k"), limits.max_k),
        ("max_contributions", items, limits.max_contributions),
    ):
        if value is not None and limit is not None and value > limit:
            shown = in_words(Fraction(limit))
            raise _over(select, call, f"{name} is more than the policy allows, which is {shown}")


def _over(select: DpSelect, call: DpCall, message: str) -> QueryError:
    return ArgumentError(f"{message}.", text=select.text, position=call.start)


# --- groups ---------------------------------------------------------------------------------------


def _groups(
    select: DpSelect, call: DpCall, keys: Sequence[Value], policy: Policy, side: Side
) -> Groups:
    """The public groups, key by key, and whether people have to be kept out of some of them."""
    cap = None if _one_group_each(keys, policy, side) else call.max_groups_contributed
    if cap is None and not _one_group_each(keys, policy, side):
        raise needs_cap(select, call)
    n_groups, domains = 1, []
    for reference, key in zip(select.keys, keys, strict=True):
        wanted = replace(call, parameters={}, columns={**call.columns, "item": reference})
        given = select.groups if len(keys) == 1 else None
        domain = _public_values(select, wanted, given, key, policy, side, "groups")
        if domain.select is None:
            raise InternalError("Groups without their values.")
        domains.append(domain.select)
        (size,) = side.public_values(f"SELECT system.main.count(*) FROM ({domain.select})")
        n_groups *= int(str(size))
    if n_groups > MAX_GROUPS:
        raise _over(select, call, f"These are {n_groups} groups; {MAX_GROUPS} are the most")
    return Groups(tuple(domains), cap)


def _one_group_each(keys: Sequence[Value], policy: Policy, side: Side) -> bool:
    """Whether the policy says that all rows of a person have the same keys."""
    single = {
        (side.table(table.name), column)
        for table in policy.tables.values()
        for column in table.unique_per_person
    }
    return all(key.origin in single for key in keys)


# --- domains --------------------------------------------------------------------------------------


_NEEDED = {
    "domain": "a domain: the public set of items that may be answered.",
    "groups": "groups: the public set of groups.",
}


def _domain(
    select: DpSelect, call: DpCall, item: Value, policy: Policy, side: Side
) -> Domain | None:
    if "domain" not in call.function.named or call.mechanism.n_largest is not None:
        return None
    return _public_values(select, call, call.domain, item, policy, side, "domain")


def _public_values(
    select: DpSelect,
    call: DpCall,
    given: Reference | ListLiteral | None,
    item: Value,
    policy: Policy,
    side: Side,
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
    if (given is None or observed) and declared == "observed" and item.origin is not None:
        # The whole column's values are what the owner calls public: not those that WHERE keeps.
        full, column = item.origin
        values = _column(full, column, side)
        return listed_domain(select, call, at, values, item.type, side)
    if observed:
        raise ArgumentError(
            "Under a policy the observed values are no domain, unless the policy says so.",
            text=select.text,
            position=at[1],
            hint=hint,
        )
    if given is None:
        values = _declared_values(declared, side)
    elif isinstance(given, ListLiteral):
        values = Domain(_values_of(_list(select, given)), "a list in the statement")
    else:
        values = _named_values(select, given, item, policy, side)
    return listed_domain(select, call, at, values, item.type, side)


def _declared(item: Value, policy: Policy, side: Side) -> object:
    """What the policy says of the column that the item is."""
    for (name, column), domain in policy.domains.items():
        if item.origin == (side.table(name), column):
            return domain
    return None


def _declared_values(declared: object, side: Side) -> Domain:
    if isinstance(declared, tuple) and len(declared) == 2 and isinstance(declared[0], tuple):
        name, column = declared
        return _column(side.table(name), str(column), side)
    if not isinstance(declared, tuple):
        raise ArgumentError("The policy's domain of this item cannot be read.")
    literals = [text(v) if isinstance(v, str) else _plain(v) for v in declared]
    return Domain(_values_of(literals), "the policy's list")


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | Fraction):
        return in_words(Fraction(value))
    raise ArgumentError("The policy's domain of this item cannot be read.")


def _values_of(literals: Sequence[str]) -> str:
    return f"SELECT unnest([{', '.join(literals)}]) AS value"


def _column(full: Parts | None, column: str, side: Side) -> Domain:
    """The column of a public table."""
    if full is None:
        raise ArgumentError("The policy's domain of this item is not there.")
    table = full_name(full)
    listed = {folded(name): name for name, _ in side.columns(f"SELECT * FROM {table}")}
    if folded(column) not in listed:
        raise ArgumentError(f"{full[-1]} has no column {column}.")
    own = quote(listed[folded(column)])
    return Domain(f"SELECT {own} AS value FROM {table}", f"the column {full[-1]}.{column}")


def _named_values(
    select: DpSelect, given: Reference, item: Value, policy: Policy, side: Side
) -> Domain:
    """The values of a domain written by name: a public column, or the item's own ENUM."""
    *table, column = given.parts
    if not table and family(item.type) == "ENUM" and folded(given.text) == item.origin_name:
        return Domain(
            f"SELECT unnest(system.main.enum_range(NULL::{item.type})) AS value",
            f"the declared values of the ENUM {given.text}",
        )
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


def _list(select: DpSelect, given: ListLiteral) -> list[str]:
    """The literals of a list, in writing of our own."""
    tree = projection(given.text)
    if not isinstance(tree, exp.Array) or not all(is_literal(node) for node in tree.expressions):
        raise ArgumentError(
            "A domain list holds literals only.",
            text=select.text,
            position=given.position,
            hint="For example: domain := ['north', 'south'].",
        )
    return [_literal(select, given, node) for node in tree.expressions]


def _literal(select: DpSelect, given: ListLiteral, node: Node) -> str:
    if isinstance(node, exp.Literal):
        if node.is_string:
            return text(node.this)
        if node.this.replace(".", "", 1).isdecimal():
            return str(node.this)
    if isinstance(node, exp.Neg) and not node.this.is_string:
        return "-" + _literal(select, given, node.this)
    if isinstance(node, exp.Boolean):
        return "TRUE" if node.this else "FALSE"
    raise ArgumentError(
        "A domain list holds texts, plain numbers, TRUE and FALSE.",
        text=select.text,
        position=given.position,
    )

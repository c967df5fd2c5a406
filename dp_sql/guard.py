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

from sqlglot import exp

from dp_sql.arguments import DpCall
from dp_sql.check import parsed_source, place_of, unreadable
from dp_sql.domain import Domain
from dp_sql.errors import (
    ArgumentError,
    InternalError,
    NotPrivate,
    NotSupported,
    ParseError,
    QueryError,
)
from dp_sql.functions import MAX_GROUPS
from dp_sql.guard_domains import Side, public_values
from dp_sql.literals import Reference
from dp_sql.person_level import Compiler, conditions
from dp_sql.person_sql import WorkLimits, Written, written
from dp_sql.person_tree import Relation
from dp_sql.plan import Column, Groups, Plan, Work, needs_cap, shared
from dp_sql.policy import Policy
from dp_sql.recognise import DpSelect
from dp_sql.total import Refused, Scope, Value, compiled
from dp_sql.trees import Node, Unreadable, projection, tree_of
from dp_sql.types import EXACT_TYPES, family
from udfs.spec import in_words


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
        domain = public_values(select, wanted, given, key, policy, side, "groups")
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


def _domain(
    select: DpSelect, call: DpCall, item: Value, policy: Policy, side: Side
) -> Domain | None:
    if "domain" not in call.function.named or call.mechanism.n_largest is not None:
        return None
    return public_values(select, call, call.domain, item, policy, side, "domain")

"""Under a policy: from a DP call to a Plan, or a refusal.

Sources are compiled as for an owner; the domain is the policy's or a public table's, and what one
query may ask is limited. Reads no private row, except the values of columns that the policy calls
`"observed"`: these are public, as the owner declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dp_sql.errors import ArgumentError, InternalError, NotPrivate, QueryError
from dp_sql.policy.model import Policy
from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.comparisons import Value
from dp_sql.privacy.domains import Domain
from dp_sql.privacy.plan import Groups, Plan, needs_cap
from dp_sql.privacy.policy_domains import public_values
from dp_sql.privacy.relations import Compiler
from dp_sql.privacy.sources import compiled_plan, compiled_source, rows_of
from dp_sql.privacy.tables import PolicyTables
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.ranges import MAX_GROUPS
from dp_sql.udfs.mechanism import in_words


def analyst_plans(
    select: DpSelect, bodies: Mapping[str, str], policy: Policy, side: Schema
) -> list[Plan]:
    """The plans of the calls of one SELECT.

    Args:
        select: where its parts are in the statement.
        bodies: the SQL of the CTEs in scope, by folded name, in their order.
        policy: the owner's.
        side: answers what names mean.

    Raises:
        NotPrivate: the source is not provably person-level.
        ParseError: a part of it is beyond the grammar.
        ArgumentError: a domain is missing or unreadable, or a limit of the policy is exceeded.
    """
    compiler = Compiler(PolicyTables(side, policy), policy.limits.work)
    source = compiled_source(select, bodies, compiler)
    if source.person is None:
        raise NotPrivate(
            "This source is public: it contains no private rows.",
            text=select.text,
            position=select.source[0],
            hint="Ask it without DP: SELECT … FROM it is free.",
        )
    plans = []
    for call in select.calls:
        _check_limits(select, call, policy)
        rows = rows_of(source, call)
        if not side.agrees(rows.sql, rows.tables):
            raise InternalError("The generated SQL reads other tables than it should.")
        plans.append(
            compiled_plan(
                source,
                call,
                rows,
                domain=_domain(select, call, rows.item, policy, side),
                groups=_groups(select, call, source.keys, policy, side) if source.keys else None,
                assumptions=("the policy",),
                work=rows.work,
            )
        )
    return plans


# --- limits ---------------------------------------------------------------------------------------


def _check_limits(select: DpSelect, call: DpCall, policy: Policy) -> None:
    limits, asked = policy.limits, call.parameters.limited
    if asked["delta"] is not None and limits.max_delta_per_query is None:
        raise _over(select, call, "The policy allows no delta: choose a mechanism that needs none")
    for name, value, limit in (
        ("epsilon", asked["epsilon"], limits.max_epsilon_per_query),
        ("delta", asked.get("delta"), limits.max_delta_per_query),
        ("k", asked.get("k"), limits.max_k),
        ("max_contributions", asked.get("max_contributions"), limits.max_contributions),
    ):
        if value is not None and limit is not None and value > limit:
            shown = in_words(Fraction(limit))
            raise _over(select, call, f"{name} is more than the policy allows: at most {shown}")


def _over(select: DpSelect, call: DpCall, message: str) -> QueryError:
    return ArgumentError(f"{message}.", text=select.text, position=call.start)


# --- groups ---------------------------------------------------------------------------------------


def _groups(
    select: DpSelect, call: DpCall, keys: Sequence[Value], policy: Policy, side: Schema
) -> Groups:
    """The public groups, key by key, and whether people have to be kept out of some of them."""
    cap = None if _one_group_each(keys, policy, side) else call.max_groups_contributed
    if cap is None and not _one_group_each(keys, policy, side):
        raise needs_cap(select, call)
    n_groups, domains = 1, []
    for reference, key in zip(select.keys, keys, strict=True):
        wanted = replace(call, k=None, columns={**call.columns, "item": reference})
        given = select.groups if len(keys) == 1 else None
        domain = public_values(select, wanted, given, key, policy, side, "groups")
        domains.append(domain.select)
        (size,) = side.public_values(f"SELECT system.main.count(*) FROM ({domain.select})")
        n_groups *= int(str(size))
    if n_groups > MAX_GROUPS:
        raise _over(select, call, f"These are {n_groups} groups; {MAX_GROUPS} are the most")
    return Groups(tuple(domains), cap)


def _one_group_each(keys: Sequence[Value], policy: Policy, side: Schema) -> bool:
    """Whether the policy says that all rows of a person have the same keys."""
    single = {
        (side.table(table.name), column)
        for table in policy.tables.values()
        for column in table.unique_per_person
    }
    return all(key.origin in single for key in keys)


def _domain(
    select: DpSelect, call: DpCall, item: Value, policy: Policy, side: Schema
) -> Domain | None:
    if "domain" not in call.function.named or call.mechanism.n_largest is not None:
        return None
    return public_values(select, call, call.domain, item, policy, side, "domain")

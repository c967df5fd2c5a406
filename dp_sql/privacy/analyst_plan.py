"""Under a policy: from a DP call to a Plan, or a refusal.

Sources are compiled as for an owner; the domain is the policy's or a public table's, and what one
query may ask is limited. Reads no private row, except the values of columns that the policy calls
`"observed"`: these are public, as the owner declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from dp_sql.errors import InternalError, NotPrivate
from dp_sql.policy.model import Policy
from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.plan import Groups, Plan, needs_cap
from dp_sql.privacy.policy_domains import public_values
from dp_sql.privacy.relations import Compiler
from dp_sql.privacy.sources import Source, compiled_source
from dp_sql.privacy.tables import PolicyTables
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.ranges import MAX_GROUPS
from dp_sql.udfs.mechanism import in_words


def analyst_plans(
    select: DpSelect, bodies: Mapping[str, str], policy: Policy, side: Schema
) -> list[Plan]:
    """The plans of the calls of one SELECT.

    `bodies` is the SQL of the CTEs in scope, by folded name, in their order.

    Raises:
        NotPrivate: the source is not provably person-level.
        ParseError: a part of it is beyond the grammar.
        ArgumentError: a domain is missing or unreadable, or a limit of the policy is exceeded.
    """
    compiler = Compiler(PolicyTables(side, policy), policy.limits.work)
    source = compiled_source(select, bodies, compiler)
    if source.person_type is None:
        message = "This source is public: it holds no one's rows."
        hint = "Ask it without DP: SELECT … FROM it is free."
        raise select.refused(message, select.source[0], hint, NotPrivate)
    plans = []
    for call in select.calls:
        _check_limits(select, call, policy)
        rows = source.read_by(call)
        if not side.agrees(rows.written.sql, rows.written.tables):
            raise InternalError("The compiled SQL reads other tables than it should.")
        domain = None
        if "domain" in call.function.named and call.mechanism.n_largest is None:
            domain = public_values(select, call, call.domain, rows.item, policy, side, "domain")
        groups = _groups(source, call, policy, side) if source.values else None
        work = rows.written.work
        plans.append(source.plan(call, rows, domain, groups, ("the policy",), work))
    return plans


def _check_limits(select: DpSelect, call: DpCall, policy: Policy) -> None:
    limits, asked = policy.limits, call.parameters.limited
    if asked["delta"] is not None and limits.max_delta_per_query is None:
        message = "The policy allows no delta, and this mechanism needs one."
        raise select.refused(message, call.start)
    for name, limit in (
        ("epsilon", limits.max_epsilon_per_query),
        ("delta", limits.max_delta_per_query),
        ("k", limits.max_k),
        ("max_contributions", limits.max_contributions),
    ):
        value = asked.get(name)
        if value is not None and limit is not None and value > limit:
            message = (
                f"{name} is more than the policy allows, which is {in_words(Fraction(limit))}."
            )
            raise select.refused(message, call.start)


def _groups(source: Source, call: DpCall, policy: Policy, side: Schema) -> Groups:
    """The public groups, key by key, and whether people have to be kept out of some of them."""
    select, cap, n_groups, domains = source.select, call.max_groups_contributed, 1, []
    single = {
        (side.table(table.name), column)
        for table in policy.tables.values()
        for column in table.unique_per_person
    }
    if all(key.origin in single for key in source.values):
        cap = None  # the policy says that all rows of a person have the same keys
    elif cap is None:
        raise needs_cap(select, call)
    for reference, key in zip(select.keys, source.values, strict=True):
        wanted = replace(call, k=None, columns={**call.columns, "item": reference})
        given = select.groups if len(source.values) == 1 else None
        domain = public_values(select, wanted, given, key, policy, side, "groups")
        assert domain.select is not None
        domains.append(domain.select)
        (size,) = side.public_values(f"SELECT system.main.count(*) FROM ({domain.select})")
        n_groups *= int(str(size))
    if n_groups > MAX_GROUPS:
        message = f"These are {n_groups} groups; {MAX_GROUPS} are the most."
        raise select.refused(message, call.start)
    return Groups(tuple(domains), cap)

"""Which groups may be answered? Public sets of keys, as SQL that lists each group once; or unknown.

With several keys every value of one is combined with every value of the others, or a query over
public tables lists the combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.comparisons import Value
from dp_sql.privacy.plans.domains import PublicValues, Values
from dp_sql.privacy.plans.plan import Finding, Groups
from dp_sql.privacy.plans.sources import CallRows, Source
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.given import PublicQuery, PublicSet, Reference, SetPerKey
from dp_sql.sql.ranges import MAX_GROUPS_FOUND_BY
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import exact
from dp_sql.udfs import REGISTRY

FINDING_SHARE = Fraction(1, 2)  # of epsilon; the rest is for the answers of the groups found

OneKey = Callable[[DpCall, Value, PublicSet | None], str]
Checked = Callable[[DpCall, Value, PublicQuery, Values], PublicValues]


def listed_groups(
    source: Source, call: DpCall, one_key: OneKey, checked: Checked
) -> tuple[str, Sequence[str]]:
    """SQL of the groups, and the SQL whose numbers of rows multiply to theirs.

    `one_key` lists the values of a key as `item`, by the set that the statement gives for it;
    `checked` raises where the values of a query do not suit a key. Both take the key as a value,
    and as the item of the call.
    """
    select, n_keys = source.select, len(source.values)
    of = [replace(call, k=None, columns={**call.columns, "item": key}) for key in select.keys]
    given = select.groups
    if isinstance(given, PublicQuery) and n_keys > 1:
        sql, columns = source.public_query(given)
        if len(columns) != n_keys:
            why = f"GROUP BY has {n_keys} keys, and this query selects {len(columns)} columns."
            raise select.refused(why, given.position, "Select one column for each key, in order.")
        for i, values in enumerate(columns):
            checked(of[i], source.values[i], given, values)
        casts = (
            f"{exact(f'CAST(c{i} AS {key.type})', key.type)} AS __dp_key_{i}"
            for i, key in enumerate(source.values)
        )
        there = " AND ".join(f"c{i} IS NOT NULL" for i in range(n_keys))
        query = f"SELECT DISTINCT {', '.join(casts)} FROM ({sql}) AS __dp_query WHERE {there}"
        return query, [query]
    sets: Sequence[PublicSet | None]
    if isinstance(given, SetPerKey):
        sets = given.sets
    else:
        is_for_all = n_keys == 1 or given is None or is_observed(given)
        sets = [given] * (n_keys if is_for_all else 1)
    if len(sets) != n_keys:
        assert given is not None
        names = ", ".join(f"{key.parts[-1]}s.{key.parts[-1]}" for key in select.keys)
        why = f"GROUP BY has {n_keys} keys, but groups has a set for {len(sets)}."
        hint = (
            f"Write a public set for each key, in order, groups := ({names}), or a query that "
            "lists the combinations, groups := (SELECT … FROM a public table)."
        )
        raise select.refused(why, given.position, hint)
    domains = [*map(one_key, of, source.values, sets)]
    return crossed(domains), domains


def n_values(factor: str, schema: Schema) -> int:
    """How many values SQL of public data lists."""
    return schema.public_number(f"SELECT system.main.count(*) FROM ({factor}) AS t")


def crossed(factors: Sequence[str]) -> str:
    """SQL of each value of one key with each value of the others; `factors` list them as `item`."""
    listed = (
        f"(SELECT item AS __dp_key_{i} FROM ({factor}) AS listed) AS __dp_g{i}"
        for i, factor in enumerate(factors)
    )
    return f"SELECT * FROM {' CROSS JOIN '.join(listed)}"


def spread(call: DpCall, groups: Groups, accountant: str | None = None) -> tuple[DpCall, Groups]:
    """The call as a vector over all groups where it needs no cap, or is closer than with this one.

    Public numbers alone decide. The cap stays where the number of groups is not known, and under
    the accountant "zcdp", whose rho is lower with a cap.
    """
    vector, cap, n = call.parameters.vector(), groups.cap, groups.size
    if vector is None:
        return call, groups
    free = None if n is None else vector.error_bound(n)
    capped = None if n is None or cap is None else vector.capped_error_bound(n, cap)
    is_closer = free is not None and capped is not None and free <= capped
    if cap is not None and not (is_closer and accountant != "zcdp"):
        why = f"a person counts in at most max_groups_contributed = {cap} of their groups"
        if capped is not None:
            why += f": all {n} counts are within ± {capped} of those kept"
            why += f"; without it, all are within ± {free}"
        return call, replace(groups, why=why)
    why = "a person counts in all of their groups"
    if free is not None:
        why += f": all {n} counts are within ± {free}"
    if capped is not None:
        why += f"; with max_groups_contributed := {cap}, within ± {capped} of those kept"
    groups = replace(groups, cap=None, why=why)
    return replace(call, parameters=vector, mechanism=vector.mechanism), groups


def found_groups(
    source: Source, reads: Sequence[CallRows], n_sources: int, is_single: bool
) -> Iterator[tuple[DpCall, Groups]]:
    """The groups that a part of the first call's epsilon and delta find, and all calls over these.

    reads: what the calls read, together from `n_sources` sources; NotSupported where they cannot
    share one. is_single: whether all rows of a person have the same keys. Without a cap in the
    statement a vector needs none, and else a person counts in one of the groups found.
    """
    calls, delta = [one.call for one in reads], source.select.delta
    assert delta is not None
    if n_sources > 1:
        why = "These calls cannot share groups that delta finds: a join multiplies their rows."
        hint = "Write one SELECT for each call, or give public groups."
        raise source.select.refused(why, calls[1].start, hint, NotSupported)
    shape, cap = calls[0].parameters, calls[0].max_groups_contributed
    finding = Finding(
        mechanism=REGISTRY["groups"]["partition_selection"],
        epsilon=shape.epsilon * FINDING_SHARE,
        delta=delta,
        max_contributions=1 if is_single else cap or MAX_GROUPS_FOUND_BY,
    )
    found_by = tuple(one.item.sql for one in reads)
    for i, call in enumerate(calls):
        found, groups = _answered(call, finding, is_single)
        yield found, replace(groups, pays=i == 0, found_by=found_by)


def _answered(call: DpCall, finding: Finding, is_single: bool) -> tuple[DpCall, Groups]:
    """A call over the groups found."""
    shape, cap = call.parameters, call.max_groups_contributed
    why = f"unknown: {finding.accuracy(shape.beta)}"
    vector = None if is_single or cap else shape.vector()
    if vector is not None:
        why += "; a person counts in all groups found"
        call = replace(call, parameters=vector, mechanism=vector.mechanism)
    elif not is_single:
        cap = cap or 1
        why += f"; a person counts in at most max_groups_contributed = {cap} of the groups found"
    return call, Groups("", None if is_single else cap, why=why, finding=finding)


def is_observed(given: object) -> bool:
    """Whether a set is that of the values in the source."""
    return isinstance(given, Reference) and folded(given.text) == "observed"

"""Which plans one statement releases: those that share their source and their groups."""

from collections.abc import Iterator, Sequence

from dp_sql.errors import InternalError
from dp_sql.privacy.plans.plan import Plan


def bundles(plans: Sequence[Plan]) -> list[list[int]]:
    """The places of plans that one statement releases: they share their source and their groups.

    The plans of a SELECT that finds its groups share these, and the first of them finds them. A
    plan that takes counts of covered items reads no rows.
    """
    found: dict[object, list[int]] = {}
    for place, plan in enumerate(plans):
        groups = None if plan.groups is None else plan.groups.select
        same = (read_together(plan).source, plan.keys, groups, plan.finding and id(plan.finding))
        is_alone = plan.finding is None and "__dp_cover" in plan.parameters.takes
        is_alone = is_alone or not plan.parameters.reads_people
        found.setdefault(place if is_alone else same, []).append(place)
    for places in found.values():
        groups_found = [one for i in places if (one := plans[i].groups) and one.finding]
        if [one.pays for one in groups_found] != [i == 0 for i in range(len(groups_found))]:
            raise InternalError(
                "The first of the calls that share groups finds them, and no other."
            )
    return list(found.values())


def bundled(
    plans: Sequence[Plan], tickets: Sequence[str]
) -> Iterator[tuple[list[int], list[Plan], list[str]]]:
    """The places, plans and tickets of each of the bundles."""
    for places in bundles(plans):
        yield places, [plans[i] for i in places], [tickets[i] for i in places]


def read_together(plan: Plan) -> Plan:
    """The plan over the source that it shares with the other calls of its SELECT."""
    if plan.shared is None:
        return plan
    item = plan.columns["item"]._replace(sql=plan.shared.item)
    return plan._replace(source=plan.shared.source, columns={**plan.columns, "item": item})

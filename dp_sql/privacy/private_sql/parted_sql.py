"""The SQL that reads people's rows in parts, and merges what comes out. Writes; never runs.

People are split into parts, each with all rows of its people. A source is person-level, so its SQL
runs over each part alone: no row of one part meets a row of another. What one part makes of its
rows, a summary or pairs, is merged with those of all other parts by `merge_sql`. Draws are hashes
(people_rows.py), so a part that is computed twice comes out the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.group_ctes import UNIT, found_sql, groups_sql, keys_of
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.privacy.private_sql.release_select import release_of, rows_of
from dp_sql.sql.mechanism_rows import from_zero
from dp_sql.sql.types import by_value

GROUPS, DOMAIN = "__dp_groups", "__dp_domain"  # public relations
MEMBERS = "__dp_members"  # who is in which group
_CODE = "__dp_person"


@dataclass(frozen=True)
class PartSql:
    """What is asked of each part, and how the answers become one.

    keys: the columns by which rows of the parts are told apart when they are merged. sums: the
    columns that are added up then, and the types of the sums. They are the columns of the answer.
    """

    part_sql: str
    merge_sql: str
    keys: tuple[str, ...]
    sums: tuple[tuple[str, str], ...] = ()


def summary_sql(plans: Sequence[Plan], place: int, key: str) -> PartSql:
    """The summary of what one plan of a bundle counts (sql.shape.Shape.summary)."""
    people, plan = PeopleRows(plans, key=key), plans[place]
    shape, rows = plan.parameters, rows_of(plan)._replace(in_parts=True)
    grouped = ("__dp_group",) if plan.keys else ()
    keys, sums = (*grouped, *shape.keys), tuple(shape.sums.items())
    listed, summary = ", ".join(keys), shape.summary(rows)
    if not sums:  # its rows are counted
        summary = f"SELECT {listed}, system.main.count(*) AS n FROM ({summary}) AS s GROUP BY ALL"
        sums = (("n", "BIGINT"),)
    totals = ", ".join(
        [*keys, *(f"CAST(system.main.sum({name}) AS {kind}) AS {name}" for name, kind in sums)]
    )
    merge = f"SELECT {totals} FROM __dp_parts"
    if plan.domain is not None and plan.domain.select is not None:
        merge += f" WHERE __dp_item IN (SELECT item FROM {DOMAIN})"
    merge += f" GROUP BY {listed}" if keys else ""
    n_largest = plan.mechanism.n_largest
    if n_largest is not None and shape.n_listed is not None:
        by = "PARTITION BY __dp_group " if grouped else ""
        order = f"ORDER BY n DESC, {rows.by('item')}"
        number = f"system.main.row_number() OVER ({by}{order})"
        merge = f"SELECT * FROM ({merge}) AS m QUALIFY {number} <= {n_largest(shape.n_listed)}"
    part = f"WITH {', '.join([*people.shared(), *people.of(place)])} FROM ({summary}) AS s"
    return PartSql(part, merge, keys, sums)


def all_items_sql(plans: Sequence[Plan], place: int, key: str) -> PartSql:
    """All items in the rows of a plan, whatever their group."""
    people = PeopleRows(plans, key=key)
    part = f"WITH {', '.join([*people.shared(), *people.of(place)])} SELECT DISTINCT __dp_item "
    return PartSql(
        f"{part}FROM __dp_rows", "SELECT DISTINCT __dp_item FROM __dp_parts", ("__dp_item",)
    )


def pairs_sql(plans: Sequence[Plan], place: int, key: str) -> PartSql:
    """Distinct pairs of an item, in its group if there is one, and a person's code in the part.

    A person has a code of their own in each group.
    """
    people, plan = PeopleRows(plans, key=key), plans[place]
    keys = ("__dp_group", "__dp_item") if plan.keys else ("__dp_item",)
    ctes = [*people.shared(), *people.of(place)]
    return _coded(plan, ctes, "__dp_kept", keys, (*keys[:-1], UNIT))


def ordered_sql(plan: Plan, pairs: str) -> str:
    """The pairs with people numbered in an order that other people's rows cannot move.

    Codes have no such order. People are ordered by their own items; where these are the same, it
    does not matter who comes first.
    """
    keys = ("__dp_group", "__dp_item") if plan.keys else ("__dp_item",)
    listed = ", ".join(keys)
    order = by_value("__dp_item", plan.columns["item"].type)
    if plan.keys:
        order = f"__dp_group ASC, {order}"
    numbered = f"SELECT *, system.main.dense_rank() OVER (ORDER BY {order}) AS n FROM {pairs}"
    own = (
        f"SELECT {UNIT}, system.main.list(n ORDER BY n ASC) AS own FROM ({numbered}) AS r "
        f"GROUP BY {UNIT}"
    )
    number = f"system.main.row_number() OVER (ORDER BY own ASC, {UNIT} ASC)"
    placed = f"SELECT {UNIT}, {number} AS place FROM ({own}) AS p"
    return f"SELECT {listed}, place AS {UNIT} FROM {pairs} JOIN ({placed}) AS q USING ({UNIT})"


def members_sql(plans: Sequence[Plan], key: str) -> PartSql:
    """Distinct pairs of the keys of a group and the code of a person in it, for all groups."""
    read, plan = PeopleRows(plans, key=key).read(), plans[0]
    return _coded(plan, read, "__dp_read", tuple(keys_of(plan)), (UNIT,))


def _coded(
    plan: Plan, ctes: Sequence[str], relation: str, keys: tuple[str, ...], coded: tuple[str, ...]
) -> PartSql:
    """Pairs of keys and codes: numbers of the values of the columns `coded`, in their order."""
    order = ", ".join([by_value(UNIT, plan.columns["privacy_unit"].type), *coded[:-1]])
    by = ", ".join(coded)
    codes = (
        f"__dp_codes AS (SELECT {by}, {from_zero(f'ORDER BY {order}')} "
        f"AS {_CODE} FROM (SELECT DISTINCT {by} FROM {relation}) AS p)"
    )
    listed = ", ".join(keys)
    part = (
        f"WITH {', '.join([*ctes, codes])} SELECT DISTINCT {listed}, {_CODE} "
        f"FROM {relation} JOIN __dp_codes USING ({by})"
    )
    return PartSql(part, "SELECT * FROM __dp_parts", keys, ((_CODE, "BIGINT"),))


def found_groups_sql(plan: Plan, ticket: str) -> str:
    """The numbered groups that are found by their members: keys, and codes of people."""
    ctes = found_sql(plan, release_of(ticket), MEMBERS)
    return f"WITH {', '.join(ctes)} {groups_sql(plan, '__dp_found')}"

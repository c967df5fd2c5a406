"""The SQL of rows that are read into memory, where the lists of a mechanism are made of them.

DuckDB would draw groups, tell rows apart and number them by steps that each read all rows. Here
people, groups and items come as numbers, or as what is soon numbered; of a domain's long items,
only codes do.
"""

from collections.abc import Callable, Sequence

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.group_ctes import UNIT, groups_ctes, keys_of
from dp_sql.privacy.private_sql.items import lists_items
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.privacy.private_sql.rows_read import (
    ListsRead,
    RowsRead,
    new_table,
    number_of_group,
    read_once,
)
from dp_sql.sql.functions.topk import listed
from dp_sql.sql.mechanism_rows import coded
from dp_sql.sql.types import MAY_BE_LONG, exact, family


def lists_read(
    plans: Sequence[Plan], releases: Sequence[str], sent_as: Callable[[str, str], str]
) -> RowsRead | None:
    """How to read the rows of a call that takes lists of items; None: as SQL.

    It is over public groups, or over all rows if it finds its items in them. sent_as: as in
    rows_read.
    """
    if len(plans) > 1 or plans[0].parameters.person_values() or plans[0].finding:
        return None
    people, mechanism = PeopleRows([read_once(plans[0])], releases), plans[0].mechanism
    in_all = mechanism.finds_items and not people.grouped
    if not (people.n_groups or in_all) or mechanism.ordered or mechanism.n_largest is not None:
        return None
    (plan,), (item,) = people.plans, people.items
    types = {UNIT: plan.columns["privacy_unit"].type}
    types |= {name: key.type for name, key in keys_of(plan).items()}
    types[item] = plan.parameters.item_type(plan.columns["item"].type)
    source = read = ", ".join(people.read())
    rows, joined, numbered = "__dp_read", "", [UNIT, item]
    tables, public, items, codes = dict[str, str](), "", "", ""
    if plan.domain is not None:
        items = new_table()
        if lists_items(plan) and plans[0].keep_source:  # the table of items reads it, too
            tables[kept := new_table()] = f"WITH {read} SELECT * FROM __dp_read"
            typed = ", ".join(f"{exact(name, kind)} AS {name}" for name, kind in types.items())
            read = f"__dp_read AS NOT MATERIALIZED (SELECT {typed} FROM {kept})"
        values = plan.domain.select or f"SELECT DISTINCT {item} AS item FROM __dp_read"
        tables[items] = f"WITH {read} {coded(values, types[item])}"
        typed = exact("item", types[item])
        if family(types[item]) not in MAY_BE_LONG:
            own = f"SELECT code, {typed} AS item FROM {items}"
            codes = f"SELECT {sent_as('item', types[item])} FROM ({own}) AS o ORDER BY code ASC"
        else:
            joined, numbered = f" LEFT JOIN {items} AS __dp_coded ON {typed} = {item}", [UNIT]
    columns = [sent_as(name, types[name]) for name in numbered]
    columns += ["coalesce(code, -1) AS code"] if item not in numbered else []
    if plan.groups is not None:
        columns.insert(1, number_of_group(people.n_groups))
        tables[public := new_table()] = plan.groups.select
        read = ", ".join([read, *groups_ctes(plan, "", "", found=public)])
        rows = people.placed_by(rows)
    return RowsRead(
        sql=f"WITH {read} SELECT {', '.join(columns)} FROM {rows}{joined}",
        sends=[item not in numbered],
        groups=people.n_groups,
        n_keys=int(people.grouped),
        kept=(),
        adds_up=False,
        lists=ListsRead(
            cap=people.cap(plan),
            items=items,
            codes=codes,
            shown=listed(items) if items else "",
            kind=types[item] if mechanism.finds_items else "",
            again=_again(source, item, types[item], sent_as) if mechanism.finds_items else "",
        ),
        tables=tables,
        listed=public,
    )


def _again(read: str, item: str, kind: str, sent_as: Callable[[str, str], str]) -> str:
    """The SELECT, up to its JOIN, that looks found items up by what was sent of them."""
    if family(kind) not in MAY_BE_LONG:
        return ""
    own = f"SELECT {item} AS item, {item} AS sent FROM __dp_read"
    own = f"SELECT item, {sent_as('sent', kind)} FROM ({own}) AS r"
    return f"WITH {read} SELECT DISTINCT item, sent FROM ({own}) AS s JOIN "

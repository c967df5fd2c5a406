"""The private text of a plan with GROUP BY. Writes; never runs.

Groups are public: each is answered, whether anybody is in it or not. A person who is in more groups
than the cap allows is kept in some of them, drawn at random from that person's own; then each
group is counted on its own, and one UDF call answers all of them, in the order of the keys.
"""

from __future__ import annotations

from dp_sql.privacy.plan import Groups, Plan
from dp_sql.sql.types import by_value, exact

KEEP_UDF = "__dp_sql_keep"
TOPK_GROUPS_UDF = "__dp_sql_topk_groups"
COUNT_GROUPS_UDF = "__dp_sql_count_distinct_groups"
REPORT_GROUPS_UDF = "__dp_sql_count_distinct_report_groups"


def grouped_sql(plan: Plan, groups: Groups, source: str, call: str) -> str:
    """A SELECT of `__dp_group`, the keys and `__dp_value`, one row for each group.

    Args:
        plan: with keys.
        groups: its groups.
        source: FROM and WHERE of the plan, without the keyword FROM.
        call: the first arguments of the UDF: ticket and execution.
    """
    answers = _topk(plan, call) if plan.function.kind == "topk" else _count(plan, call)
    keys = ", ".join(f"__dp_groups.{name}" for name in _names(plan))
    ctes = [_rows(plan, source), _groups(plan, groups), *_placed(plan, groups, call), *answers]
    value = "system.main.list_extract(__dp_answers, __dp_groups.__dp_group)"
    if plan.function.kind == "topk":
        value = f"system.main.list_select(__dp_lists.items, {value})"
    return (
        f"WITH {', '.join(ctes)} SELECT __dp_groups.__dp_group AS __dp_group, {keys}, "
        f"{value} AS __dp_value FROM __dp_groups JOIN __dp_lists USING (__dp_group), __dp_drawn "
        "ORDER BY __dp_groups.__dp_group ASC"
    )


def _names(plan: Plan) -> list[str]:
    return [f"__dp_key_{i}" for i in range(len(plan.keys))]


def _rows(plan: Plan, source: str) -> str:
    """The source's rows with item, person and keys, compared byte by byte, NULLs dropped."""
    columns = [(plan.columns["item"], "__dp_item"), (plan.columns["privacy_unit"], "__dp_person")]
    columns += list(zip(plan.keys, _names(plan), strict=True))
    listed = ", ".join(f"{exact(column.sql, column.type)} AS {name}" for column, name in columns)
    there = " AND ".join(f"{name} IS NOT NULL" for _, name in columns)
    return (
        f"__dp_rows AS MATERIALIZED (SELECT * FROM (SELECT {listed} FROM {source}) AS __dp_source "
        f"WHERE {there})"
    )


def _groups(plan: Plan, groups: Groups) -> str:
    """All groups, numbered in the order of the keys."""
    sources = [
        f"(SELECT item AS {name} FROM ({domain}) AS listed)"
        for domain, name in zip(groups.domains, _names(plan), strict=True)
    ]
    crossed = " CROSS JOIN ".join(f"{sql} AS g{i}" for i, sql in enumerate(sources))
    keys = ", ".join(_names(plan))
    order = ", ".join(by_value(n, k.type) for n, k in zip(_names(plan), plan.keys, strict=True))
    return (
        f"__dp_groups AS MATERIALIZED (SELECT {keys}, "
        f"system.main.row_number() OVER (ORDER BY {order}) AS __dp_group FROM {crossed})"
    )


def _placed(plan: Plan, groups: Groups, call: str) -> list[str]:
    """Each (group, person, item) once, of at most `cap` groups of each person."""
    same = " AND ".join(f"__dp_rows.{name} = __dp_groups.{name}" for name in _names(plan))
    placed = (
        "SELECT DISTINCT __dp_group, __dp_person, __dp_item "
        f"FROM __dp_rows JOIN __dp_groups ON {same}"
    )
    if groups.cap is None:
        return [f"__dp_kept AS MATERIALIZED ({placed})"]
    # In an order of their own, so that another reading in the same execution has the same lots.
    person = by_value("__dp_person", plan.columns["privacy_unit"].type)
    return [
        f"__dp_placed AS MATERIALIZED ({placed})",
        "__dp_members AS MATERIALIZED (SELECT __dp_person, "
        "system.main.list(__dp_group ORDER BY __dp_group ASC) AS own, "
        f"system.main.row_number() OVER (ORDER BY {person}) AS place FROM "
        "(SELECT DISTINCT __dp_person, __dp_group FROM __dp_placed) AS m GROUP BY __dp_person)",
        f"__dp_lots AS MATERIALIZED (SELECT {KEEP_UDF}({call}, coalesce(system.main.list("
        f"system.main.len(own) ORDER BY place ASC), []), {groups.cap}) AS lots FROM __dp_members)",
        "__dp_allowed AS (SELECT __dp_person, unnest(system.main.list_select(own, "
        "system.main.list_extract(lots, place))) AS __dp_group FROM __dp_members, __dp_lots)",
        "__dp_kept AS MATERIALIZED (SELECT p.__dp_group, p.__dp_person, p.__dp_item "
        "FROM __dp_placed AS p JOIN __dp_allowed USING (__dp_group, __dp_person))",
    ]


def _topk(plan: Plan, call: str) -> list[str]:
    counts = (
        "SELECT __dp_group, __dp_item, system.main.count(*) AS n FROM __dp_kept "
        "GROUP BY __dp_group, __dp_item"
    )
    item = by_value("__dp_item", plan.columns["item"].type)
    order = f" ORDER BY {item}"
    if plan.mechanism.n_largest is not None:
        order = f" ORDER BY n DESC, {item}"
        number = f"system.main.row_number() OVER (PARTITION BY __dp_group{order})"
        most = plan.mechanism.n_largest(plan.parameters["k"])
        counts = (
            f"SELECT __dp_group, __dp_item, n FROM (SELECT *, {number} AS rank FROM ({counts}) "
            f"AS counted) AS ranked WHERE rank <= {most}"
        )
    else:
        domain = "SELECT DISTINCT __dp_item AS item FROM __dp_rows"
        if plan.domain is not None and plan.domain.select is not None:
            domain = plan.domain.select
        counts = (
            "SELECT __dp_groups.__dp_group AS __dp_group, domain.item AS __dp_item, "
            f"coalesce(counted.n, 0) AS n FROM __dp_groups CROSS JOIN ({domain}) AS domain "
            f"LEFT JOIN ({counts}) AS counted ON counted.__dp_group = __dp_groups.__dp_group "
            "AND counted.__dp_item = domain.item"
        )
    joined = f"__dp_groups LEFT JOIN ({counts}) AS counted USING (__dp_group)"
    lists = [
        f"coalesce(system.main.list({name}{order}) FILTER (WHERE n IS NOT NULL), []) AS {many}"
        for name, many in (("__dp_item", "items"), ("n", "counts"))
    ]
    return [
        f"__dp_lists AS MATERIALIZED (SELECT __dp_group, {', '.join(lists)} FROM {joined} "
        "GROUP BY __dp_group)",
        _drawn(TOPK_GROUPS_UDF, call, "counts"),
    ]


def _count(plan: Plan, call: str) -> list[str]:
    by_person = by_item = ""
    if plan.mechanism.ordered:
        by_person = "ORDER BY " + by_value("__dp_person", plan.columns["privacy_unit"].type)
        by_item = " ORDER BY " + by_value("__dp_item", plan.columns["item"].type)
    listed = f"system.main.list(people{by_item}) FILTER (WHERE people IS NOT NULL)"
    return [
        "__dp_people AS MATERIALIZED (SELECT __dp_person, "
        f"CAST(system.main.row_number() OVER ({by_person}) - 1 AS INTEGER) AS code "
        "FROM (SELECT DISTINCT __dp_person FROM __dp_kept) AS persons)",
        "__dp_items AS (SELECT __dp_group, __dp_item, system.main.list(code) AS people FROM "
        "__dp_kept JOIN __dp_people USING (__dp_person) GROUP BY __dp_group, __dp_item)",
        f"__dp_lists AS MATERIALIZED (SELECT __dp_group, coalesce({listed}, []) AS pairs FROM "
        "__dp_groups LEFT JOIN __dp_items USING (__dp_group) GROUP BY __dp_group)",
        _drawn(REPORT_GROUPS_UDF if plan.report else COUNT_GROUPS_UDF, call, "pairs"),
    ]


def _drawn(udf: str, call: str, column: str) -> str:
    lists = f"coalesce(system.main.list({column} ORDER BY __dp_group ASC), [])"
    answers = f"{udf}({call}, {lists}) AS __dp_answers"
    return f"__dp_drawn AS MATERIALIZED (SELECT {answers} FROM __dp_lists)"

"""The SQL that reads people's rows, from a plan. Writes; never runs.

It makes lists in DuckDB and passes them to one UDF, which runs the mechanism; sql/functions says
what the lists hold. With GROUP BY, groups are public: each is answered, also if no one is in it. A
person in more groups than the cap is kept in some of them, drawn at random from that person's own;
one call of the UDF answers all groups, in the order of the keys.

Functions are written with their full name (system.main.list): a macro in the user's database may be
called `list` or `count`, and must not be what is called here. All other names begin with __dp,
because the source and its condition are the owner's SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count

from dp_sql.privacy.plan import Column, Plan
from dp_sql.sql.shape import Rows
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import by_value, exact, sample

KEEP_UDF, FIND_UDF = "__dp_sql_keep", "__dp_sql_find"
GROUPS = "_groups"  # the end of the name of a UDF that answers all groups at once
EXECUTION = "system.main.current_connection_id(), system.main.current_query_id()"


def release_columns(plan: Plan) -> list[tuple[str, str]]:
    """Names and types of the columns of a plan's release; with keys, of one row per group."""
    value = ("__dp_value", _value_type(plan))
    keys = [(name, key.type) for name, key in _keys(plan).items()]
    return [("__dp_group", "BIGINT"), *keys, value] if keys else [value]


def answer_columns(plan: Plan, keys: Sequence[str]) -> list[tuple[str, str]]:
    """The columns of a plan's release as people read them: the keys by their names, and answer.

    A name that is taken gets a number, as in a DuckDB table: answer_1.
    """
    names: dict[str, str] = {}  # by folded name
    for name in [*keys, "answer"]:
        numbered = (f"{name}_{n}" for n in count(1))
        free = next(one for one in chain([name], numbered) if folded(one) not in names)
        names[folded(free)] = free
    types = [*(key.type for key in plan.keys), _value_type(plan)]
    return list(zip(names.values(), types, strict=True))


def stand_ins(plan: Plan) -> str:
    """The list of a SELECT that has the columns of the release, all NULL."""
    return ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in release_columns(plan))


def samples(plan: Plan) -> str:
    """The same with values that a release may have, which are computed from no row."""
    return ", ".join(
        f"CAST({sample(kind)} AS {kind}) AS {name}" for name, kind in release_columns(plan)
    )


def _value_type(plan: Plan) -> str:
    return plan.parameters.value_type(_types(plan))


def count_groups_sql(plan: Plan) -> str:
    """How many groups a plan's keys make in its source."""
    groups = f"SELECT DISTINCT {', '.join(_keys_sql(plan))} FROM {plan.source}\n"
    return f"SELECT system.main.count(*) FROM ({groups}) AS __dp_groups"


def private_sql(plan: Plan, ticket: str, *, again: bool = False, execution: str = EXECUTION) -> str:
    """A SELECT of the columns of `release_columns`: the release that a UDF knows by its `ticket`.

    `again`: whether one execution may run it more than once, as in sql.shape.Rows. `execution`: for
    which connection and query the release is made, if not for its own.
    """
    shape, grouped = plan.parameters, bool(plan.keys)
    call = f"'{ticket}', {execution}"
    ctes = [_rows(plan)]
    if grouped:
        ctes += _groups(plan, call)
    elif shape.of_person():
        ctes.append(f"__dp_kept AS ({_of_person(plan, [])} FROM __dp_rows GROUP BY ALL)")
    rows = Rows(
        relation="__dp_kept" if grouped or shape.of_person() else "__dp_rows",
        types=_types(plan),
        mechanism=plan.mechanism,
        domain=None if plan.domain is None else plan.domain.select,
        grouped=grouped,
        again=again,
    )
    ctes += shape.lists(rows)
    if not grouped:
        value = shape.value(f"{shape.udf}({call}, {', '.join(shape.takes)})", rows)
        return f"WITH {', '.join(ctes)} SELECT {value} AS __dp_value FROM __dp_lists"
    lists = ", ".join(
        f"coalesce(system.main.list({name} ORDER BY __dp_group ASC), [])" for name in shape.takes
    )
    answers = f"{shape.udf}{GROUPS}({call}, {lists}) AS __dp_answers"
    ctes.append(f"__dp_drawn AS MATERIALIZED (SELECT {answers} FROM __dp_lists)")
    keys = ", ".join(f"__dp_groups.{name}" for name in _keys(plan))
    value = shape.value("system.main.list_extract(__dp_answers, __dp_groups.__dp_group)", rows)
    return (
        f"WITH {', '.join(ctes)} SELECT __dp_groups.__dp_group AS __dp_group, {keys}, "
        f"{value} AS __dp_value FROM __dp_groups JOIN __dp_lists USING (__dp_group), __dp_drawn "
        "ORDER BY __dp_groups.__dp_group ASC"
    )


def _types(plan: Plan) -> dict[str, str]:
    return {name: column.type for name, column in plan.columns.items()}


def _keys(plan: Plan) -> dict[str, Column]:
    return {f"__dp_key_{i}": key for i, key in enumerate(plan.keys)}


def _keys_sql(plan: Plan) -> list[str]:
    return [f"{exact(key.sql, key.type)} AS {name}" for name, key in _keys(plan).items()]


def _rows(plan: Plan) -> str:
    """The source's rows: the columns of the call and the keys; of people's rows, without NULLs."""
    shape = plan.parameters
    columns = {
        f"__dp_{name}": shape.column(name, column.sql, column.type)
        for name, column in plan.columns.items()
    }
    listed = ", ".join([*(f"{sql} AS {name}" for name, sql in columns.items()), *_keys_sql(plan)])
    rows = f"SELECT {listed} FROM {plan.source}\n"
    if shape.reads_people:
        there = " AND ".join(f"{name} IS NOT NULL" for name in [*columns, *_keys(plan)])
        rows = f"SELECT * FROM ({rows}) AS __dp_source WHERE {there}"
    finds = plan.groups is not None and plan.groups.finding is not None
    kept = bool(plan.keys) or (plan.keep_source and not shape.reads_rows_once)
    kept = finds or (kept and not shape.of_person())  # which are read once
    return f"__dp_rows AS {'' if kept else 'NOT '}MATERIALIZED ({rows})"


def _groups(plan: Plan, call: str) -> list[str]:
    """`__dp_groups`, numbered in the order of the keys, and the rows that count in them."""
    names = ", ".join(_keys(plan))
    by_keys = ", ".join(by_value(name, key.type) for name, key in _keys(plan).items())
    if plan.groups is None:  # rows that are no people's have their own groups; NULL is one
        number = f"system.main.dense_rank() OVER (ORDER BY {by_keys}) AS __dp_group"
        return [
            f"__dp_kept AS MATERIALIZED (SELECT *, {number} FROM __dp_rows)",
            f"__dp_groups AS (SELECT DISTINCT __dp_group, {names} FROM __dp_kept)",
        ]
    number = f"system.main.row_number() OVER (ORDER BY {by_keys}) AS __dp_group"
    found, listed = [], f"({plan.groups.select}) AS __dp_crossed"
    if plan.groups.finding is not None:
        found, listed = _found(plan, names, by_keys, call), "__dp_found"
    groups = f"__dp_groups AS MATERIALIZED (SELECT {names}, {number} FROM {listed})"
    return [*found, groups, *_kept(plan, plan.groups.cap, call)]


def _found(plan: Plan, names: str, by_keys: str, call: str) -> list[str]:
    """`__dp_found`, the keys of the groups that a UDF finds by the people who are in them.

    Only these are numbered: a place among all groups would depend on those that are not found.
    """
    same = " AND ".join(f"__dp_rows.{name} = __dp_seen.{name}" for name in _keys(plan))
    return [
        f"__dp_seen AS MATERIALIZED (SELECT {names}, system.main.row_number() OVER (ORDER BY "
        f"{by_keys}) AS seen FROM (SELECT DISTINCT {names} FROM __dp_rows) AS s)",
        f"__dp_within AS MATERIALIZED (SELECT DISTINCT seen, __dp_privacy_unit FROM __dp_rows "
        f"JOIN __dp_seen ON {same})",
        "__dp_coded AS MATERIALIZED (SELECT __dp_privacy_unit, CAST(system.main.row_number() "
        "OVER () - 1 AS INTEGER) AS code FROM (SELECT DISTINCT __dp_privacy_unit FROM __dp_within) "
        "AS persons)",
        "__dp_members_of AS (SELECT seen, system.main.list(code) AS people FROM __dp_within JOIN "
        "__dp_coded USING (__dp_privacy_unit) GROUP BY seen)",
        f"__dp_places AS MATERIALIZED (SELECT {FIND_UDF}({call}, coalesce(system.main.list(people "
        "ORDER BY seen ASC), [])) AS places FROM __dp_members_of)",
        f"__dp_found AS MATERIALIZED (SELECT {names} FROM __dp_seen JOIN (SELECT unnest(places) AS "
        "seen FROM __dp_places) AS f USING (seen))",
    ]


def _of_person(plan: Plan, also: Sequence[str]) -> str:
    """The SELECT of what one person has: distinct rows, or aggregates of them."""
    if aggregates := plan.parameters.of_person():
        listed = [*also, "__dp_privacy_unit", *(f"{sql} AS {n}" for n, sql in aggregates.items())]
        return f"SELECT {', '.join(listed)}"
    return f"SELECT DISTINCT {', '.join([*also, *(f'__dp_{name}' for name in plan.columns)])}"


def _kept(plan: Plan, cap: int | None, call: str) -> list[str]:
    """What each person has in each group, once, of at most `cap` groups of each person."""
    same = " AND ".join(f"__dp_rows.{name} = __dp_groups.{name}" for name in _keys(plan))
    by = " GROUP BY ALL" if plan.parameters.of_person() else ""
    placed = f"{_of_person(plan, ['__dp_group'])} FROM __dp_rows JOIN __dp_groups ON {same}{by}"
    if cap is None:
        return [f"__dp_kept AS MATERIALIZED ({placed})"]
    # In an order of their own, so that another reading in the same execution has the same draw.
    person = "__dp_privacy_unit"
    by_person = by_value(person, plan.columns["privacy_unit"].type)
    return [
        f"__dp_placed AS MATERIALIZED ({placed})",
        f"__dp_members AS MATERIALIZED (SELECT {person}, "
        "system.main.list(__dp_group ORDER BY __dp_group ASC) AS own, "
        f"system.main.row_number() OVER (ORDER BY {by_person}) AS place FROM "
        f"(SELECT DISTINCT {person}, __dp_group FROM __dp_placed) AS m GROUP BY {person})",
        f"__dp_counted AS MATERIALIZED (SELECT {KEEP_UDF}({call}, coalesce(system.main.list("
        f"system.main.len(own) ORDER BY place ASC), []), {cap}) AS counted FROM __dp_members)",
        f"__dp_allowed AS (SELECT {person}, unnest(system.main.list_select(own, "
        "system.main.list_extract(counted, place))) AS __dp_group FROM __dp_members, __dp_counted)",
        "__dp_kept AS MATERIALIZED (SELECT p.* "
        f"FROM __dp_placed AS p JOIN __dp_allowed USING (__dp_group, {person}))",
    ]

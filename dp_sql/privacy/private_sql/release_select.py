"""The SQL that reads people's rows, from a plan. Writes; never runs.

It makes lists in DuckDB and passes them to one UDF, which runs the mechanism; sql/functions says
what the lists hold, people_rows.py which rows they are made from. With GROUP BY, one call of the
UDF answers all groups, in the order of the keys. Plans that share a source are one statement.

Functions are written with their full name (system.main.list): a macro in the user's database may be
called `list` or `count`, and must not be what is called here. All other names begin with __dp,
because the source and its condition are the owner's SQL.
"""

from collections.abc import Sequence
from itertools import chain, count
from typing import NamedTuple

from dp_sql.privacy.catalog import size_sql
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.privacy.private_sql.group_ctes import by_keys, groups_ctes, keys_of, keys_sql
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.sql.formatting import literal
from dp_sql.sql.mechanism_rows import EMPTY_LIST, GROUP_OF_EACH, MechanismRows
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import N_SAMPLES, sample

GROUPS = "_groups"  # the end of the name of a UDF that answers all groups at once
EXECUTION = "system.main.current_connection_id(), system.main.current_query_id()"


def release_columns(*plans: Plan) -> list[tuple[str, str]]:
    """Names and types of the columns of a release: its keys, if any, and a value for each plan."""
    values = [(_value_name(n), _value_type(plan)) for n, plan in enumerate(plans, 1)]
    return [*_key_columns(plans[0]), *values]


def each_of(plans: Sequence[Plan], relation: str) -> list[Released]:
    """The releases of several plans in a relation with the columns of `release_columns`."""
    return [Released(relation, _value_name(n)) for n, _ in enumerate(plans, 1)]


def _value_name(number: int) -> str:
    return "__dp_value" if number == 1 else f"__dp_value_{number}"


def _key_columns(plan: Plan) -> list[tuple[str, str]]:
    keys = [(name, key.type) for name, key in keys_of(plan).items()]
    return [("__dp_group", "BIGINT"), *keys] if keys else []


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


def empty_releases(plans: Sequence[Plan]) -> list[Released]:
    """One row of NULLs for each plan, in the columns of its release."""
    listed = ([f"CAST(NULL AS {kind}) AS {n}" for n, kind in release_columns(p)] for p in plans)
    return [Released(f"(SELECT {', '.join(columns)})") for columns in listed]


def made_up(plan: Plan, number: int) -> str:
    """A SELECT of rows that a release may have, made up; the last number has NULLs only.

    Without groups it is one row, with them 1, 4, 16 or 64: no query that is over enough groups is
    to fail for all of them. DuckDB takes none of the values for a constant, with which it would
    plan differently.
    """
    listed = []
    for name, kind in release_columns(plan):
        values = (f"TRY_CAST({sample(kind, n)} AS {kind})" for n in range(N_SAMPLES))
        value = f"system.main.list_extract([{', '.join(values)}], __dp_n)"
        listed.append(f"{'__dp_n' if name == '__dp_group' else value} AS {name}")
    n_rows = 1 if plan.groups is None else 4**number
    rows = f"system.main.range({number + 1}, {number + 1 + n_rows}) AS __dp_rows(__dp_n)"
    return f"SELECT {', '.join(listed)} FROM {rows}"


def _value_type(plan: Plan) -> str:
    return plan.parameters.value_type(_types(plan))


def count_groups_sql(plan: Plan) -> str:
    """How many groups a plan's keys make in its source."""
    return size_sql(f"SELECT DISTINCT {', '.join(keys_sql(plan))} FROM {plan.source}\n")


def release_of(ticket: str, execution: str = EXECUTION) -> str:
    """For which release a UDF draws, as its first arguments: a ticket (or `$1`), the execution."""
    return f"{ticket if ticket.startswith('$') else literal(ticket)}, {execution}"


def private_sql(
    plans: Sequence[Plan],
    tickets: Sequence[str],
    *,
    again: bool = False,
    execution: str = EXECUTION,
) -> str:
    """A SELECT of the columns of `release_columns`: each release is what a UDF knows by a ticket.

    The plans are those of one bundle, as bundles.bundles says. `again`: whether one execution
    may run it more than once, as in MechanismRows. `execution`: for which connection and query the
    releases are made, if not for its own. A ticket may be `$1`.
    """
    releases = [release_of(ticket, execution) for ticket in tickets]
    if not plans[0].parameters.reads_people:
        (plan,), (release,) = plans, releases
        answer = _answer_select(plan, release, rows_of(plan, again=again), 1)
        return f"WITH {', '.join(_score_rows(plan))}, {answer}"
    people = PeopleRows(plans, releases)
    if len(plans) == 1:
        answer = _answer_of(people, 0, again=again)
        return f"WITH {', '.join([*people.shared(), answer])}"
    ctes, names = people.shared(), [f"__dp_answer_{n}" for n, _ in enumerate(plans, 1)]
    for n, name in enumerate(names):
        ctes.append(f"{name} AS MATERIALIZED (WITH {_answer_of(people, n, again=again)})")
    columns = [*(f"{names[0]}.{name}" for name, _ in _key_columns(plans[0]))]
    columns += [f"{name}.{_value_name(n)}" for n, name in enumerate(names, 1)]
    listed = f"WITH {', '.join(ctes)} SELECT {', '.join(columns)} FROM {names[0]}"
    if not plans[0].keys:
        return ", ".join([listed, *names[1:]])
    joined = "".join(f" JOIN {name} USING (__dp_group)" for name in names[1:])
    return f"{listed}{joined} ORDER BY {names[0]}.__dp_group ASC"


def _answer_of(people: PeopleRows, place: int, *, again: bool) -> str:
    """The release of one of the plans, behind its own CTEs."""
    plan = people.plans[place]
    answer = _answer_select(plan, people.releases[place], rows_of(plan, again=again), place + 1)
    return ", ".join([*people.of(place), answer])


class Answers(NamedTuple):
    """Answers that were drawn from rows in memory, as relations of FROM.

    drawn: for each group `__dp_group`, from 1, and what the UDFs return, as `answer_name`; and the
    list from which the answer takes its items, as `__dp_items`, if each group has its own. found:
    the keys of the groups, if they were found or kept. items: this list, if all groups have
    the same.
    """

    drawn: str
    found: str
    items: str


def answer_name(place: int) -> str:
    """The column of the answers of a plan, by its place."""
    return f"__dp_answer_{place + 1}"


def drawn_sql(plans: Sequence[Plan], answers: Answers) -> str:
    """The private SQL of plans whose answers have been drawn."""
    values = [
        f"{plan.parameters.value(answer_name(place), rows_of(plan))} AS {_value_name(place + 1)}"
        for place, plan in enumerate(plans)
    ]
    items = f", {answers.items}" if answers.items else ""
    if not plans[0].keys:
        return f"SELECT {', '.join(values)} FROM {answers.drawn}{items}"
    ctes = groups_ctes(plans[0], "", "", found=answers.found)
    listed = [f"__dp_groups.{name}" for name, _ in _key_columns(plans[0])]
    return (
        f"WITH {', '.join(ctes)} SELECT {', '.join([*listed, *values])} FROM __dp_groups "
        f"JOIN {answers.drawn} USING (__dp_group){items} ORDER BY __dp_groups.__dp_group ASC"
    )


def merged_sql(plan: Plan, ticket: str, merged: str, domain: str | None) -> str:
    """The private SQL of one plan whose rows were read elsewhere, with `release_columns`.

    `merged` is a relation: the merged summary, or rows in which codes stand for people. With keys,
    `__dp_groups` is there as well (parted_sql.py). `domain` lists all items in the rows, as `item`,
    where they are the domain.
    """
    shape, release, rows = plan.parameters, release_of(ticket), rows_of(plan)
    rows = rows._replace(domain=rows.domain or domain)
    if shape.keys or shape.sums:
        rows = rows._replace(merged=merged)
    else:
        codes = {**_types(plan), "privacy_unit": "BIGINT"}
        rows = rows._replace(relation=merged, types=codes)
    return f"WITH {_answer_select(plan, release, rows, 1)}"


def rows_of(plan: Plan, *, again: bool = False) -> MechanismRows:
    """What the lists of a plan are made from."""
    return MechanismRows(
        relation="__dp_kept",
        types=_types(plan),
        mechanism=plan.mechanism,
        domain=None if plan.domain is None else plan.domain.select,
        grouped=bool(plan.keys),
        again=again,
    )


def _answer_select(plan: Plan, release: str, rows: MechanismRows, number: int) -> str:
    """The lists of a plan, and the SELECT of its release; the `number` of its value."""
    shape = plan.parameters
    ctes = shape.lists(rows)
    if not rows.grouped:
        value = shape.value(f"{shape.udf}({release}, {', '.join(shape.takes)})", rows)
        return f"{', '.join(ctes)} SELECT {value} AS {_value_name(number)} FROM __dp_lists"
    if shape.mixes_groups:
        n_groups = "(SELECT system.main.count(*) FROM __dp_groups)"
        lists = [n_groups, GROUP_OF_EACH, *shape.takes]
    else:
        lists = [
            f"coalesce(system.main.list({name} ORDER BY __dp_group ASC), {EMPTY_LIST})"
            for name in shape.takes
        ]
    answers = f"{shape.udf}{GROUPS}({release}, {', '.join(lists)}) AS __dp_answers"
    ctes.append(f"__dp_drawn AS MATERIALIZED (SELECT {answers} FROM __dp_lists)")
    keys = ", ".join(f"__dp_groups.{name}" for name in keys_of(plan))
    answer = "system.main.list_extract(__dp_answers, __dp_groups.__dp_group)"
    value = shape.value(answer, rows)
    reads_lists = "__dp_" in value.replace(answer, "")
    items = " JOIN __dp_lists USING (__dp_group)" if reads_lists else ""
    return (
        f"{', '.join(ctes)} SELECT __dp_groups.__dp_group AS __dp_group, {keys}, "
        f"{value} AS {_value_name(number)} FROM __dp_groups{items}, __dp_drawn "
        "ORDER BY __dp_groups.__dp_group ASC"
    )


def _types(plan: Plan) -> dict[str, str]:
    return {name: column.type for name, column in plan.columns.items()}


def _score_rows(plan: Plan) -> list[str]:
    """Rows that are no people's, as `__dp_kept`, and their own groups; NULL is one."""
    listed = [
        f"{plan.parameters.column(name, column.sql, column.type)} AS __dp_{name}"
        for name, column in plan.columns.items()
    ]
    rows = f"SELECT {', '.join([*listed, *keys_sql(plan)])} FROM {plan.source}\n"
    if not plan.keys:
        return [f"__dp_kept AS MATERIALIZED ({rows})"]
    number = f"system.main.dense_rank() OVER (ORDER BY {by_keys(plan)}) AS __dp_group"
    names = ", ".join(keys_of(plan))
    return [
        f"__dp_kept AS MATERIALIZED (SELECT *, {number} FROM ({rows}) AS __dp_rows)",
        f"__dp_groups AS (SELECT DISTINCT __dp_group, {names} FROM __dp_kept)",
    ]

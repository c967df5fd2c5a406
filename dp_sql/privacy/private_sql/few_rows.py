"""The SQL of a source with few rows: one short SELECT, and all else is counted in memory.

DuckDB takes longer to plan the SQL of release_select.py than to run it over so few rows, or over
what remains of more rows once those of each person in each group are added up.

`dp(…)` becomes SQL that DuckDB runs, so no one can read its rows beforehand: `rows_in_lists` is a
SELECT that hands them to a UDF as one list.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.group_ctes import UNIT, by_keys, keys_of
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.privacy.private_sql.release_select import release_of, rows_of
from dp_sql.privacy.private_sql.rows_read import Kept, kept_of, one_if_there, read_once
from dp_sql.sql.formatting import literal
from dp_sql.sql.mechanism_rows import EMPTY_LIST
from dp_sql.sql.types import FIT_BIGINT, UP_TO_64_BITS, digits_of, exact, family, is_wide_decimal

# Types of items that Python has, and orders as DuckDB does.
PLAIN_ITEMS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "VARCHAR"})
IN_LISTS = "_in_lists"  # the end of the name of a UDF that takes the keys of groups, and rows
_MOST_GROUPS = 1 << 10  # whose keys are written into SQL
_MOST_PLACES = 1 << 6  # a longer list takes DuckDB longer than it takes to send keys
_PLAIN = UP_TO_64_BITS | {"VARCHAR", "BOOLEAN", "ENUM"}  # which Python has as they are sent
_SENT = Callable[[str, str], str]


class FewRows(NamedTuple):
    """How a source with few rows is read, and what is made of them.

    sql: the SELECT of the rows: of each row its person, its keys and its items, as far as the plans
        need these; where `are_counted`, of each item how many people have it; where they
        `are_added_up`, of each person in each group how many rows have each item and, if the plans
        need it, what the items add up to.
    n_keys, kinds: how many keys of GROUP BY a row has, and their types.
    are_plain: whether Python reads all values as DuckDB sends them; else they come as arrow, where
        moments and decimals are numbers.
    lists: the values of each key, in order, if they were read while the statement was planned, and
        the groups are all their combinations; else empty.
    has_places: whether a row has, instead of each key, its place in the list of that key, from 1;
        0 if it is not in the list.
    groups: the SELECT of the public groups, in order: their keys as rows have them, then as they
        are shown; "" where `lists` has them, and without GROUP BY.
    known: the public items, if they were read while the statement was planned.
    domain: the SELECT of the public items; "" where they are known, or none are public.
    kept: what is computed for the plans with each cap on groups; empty if lists are made.
    cap: in how many groups a person is kept, for the one plan whose lists are made.
    """

    sql: str
    are_counted: bool
    are_added_up: bool
    n_keys: int
    kinds: Sequence[str]
    are_plain: bool
    lists: Sequence[Sequence[Any]]
    has_places: bool
    groups: str
    known: Sequence[Any] | None
    domain: str
    kept: Sequence[Kept]
    cap: int | None


def few_rows(
    plans: Sequence[Plan],
    sent_as: _SENT,
    shown_as: _SENT,
    known: Mapping[str, Sequence[Any]],
    *,
    added_up: bool = False,
) -> FewRows | None:
    """How to read the rows of a bundle, from which its lists can be made in memory; None: as SQL.

    sent_as: as in rows_read. shown_as: the SQL of a value of a type that people read. known: plain
        public items, by the SQL that lists them. added_up: whether DuckDB adds up the rows.
    """
    first, kinds = plans[0], {plan.parameters.in_memory for plan in plans}
    takes_lists = kinds != {"values"}
    if "" in kinds or first.finding or (takes_lists and len(plans) > 1):
        return None
    if not (takes_lists or all(plan.parameters.summed() for plan in plans)):
        return None
    people = PeopleRows([read_once(plan) for plan in plans], [""] * len(plans))
    if people.grouped and not people.n_groups:
        return None
    names, sent = [*dict.fromkeys(people.items)], dict[str, tuple[str, str]]()
    for name in names:
        own = [plan for plan, item in zip(plans, people.items, strict=True) if item == name]
        if (written := _item(name, own, sent_as)) is None:
            return None
        sent[name] = written
    keys, lists = keys_of(first), _lists(first, known)
    typed, listed, has_places = _sent(first, lists, sent_as)
    has_items = takes_lists or len(names) > 1 or any(map(_takes_sums, plans))
    item_types = {name: kind for name, (_, kind) in sent.items()}
    types = [*typed.values(), *(item_types.values() if has_items else ())]
    if any(map(is_wide_decimal, types)):
        return None
    items = [f"{sql} AS {name}" for name, (sql, _) in sent.items() if has_items]
    sql = people.select_of_rows(", ".join([*listed, *items]))
    counted = kinds == {"items"} and not keys
    if counted:  # as fast as to send the items of all rows
        (name, (item, kind)), *_ = sent.items()
        n_people = f"system.main.count(DISTINCT {UNIT})"
        sql = people.select_of_rows(f"{item} AS item, {n_people} AS __dp_n") + f" GROUP BY {name}"
        types = [kind]
    few = FewRows(
        sql=sql,
        are_counted=counted,
        are_added_up=False,
        n_keys=len(typed) - 1,
        are_plain={*map(family, types)} <= _PLAIN,
        lists=lists,
        kinds=[key.type for key in keys.values()],
        has_places=has_places,
        groups=_groups(first, people.n_groups, sent_as, shown_as) if keys and not lists else "",
        known=(public := known.get(_domain(first)) if "items" in kinds else None),
        domain=_sent_domain(first, sent_as) if "items" in kinds and public is None else "",
        kept=[] if takes_lists else [kept_of(people, cap, names) for cap in people.caps],
        cap=people.cap(people.plans[0]),
    )
    return _added_up(few, people, listed, item_types) if added_up else few


def _sent(
    plan: Plan, lists: Sequence[Sequence[Any]], sent_as: _SENT
) -> tuple[dict[str, str], list[str], bool]:
    """People and keys as they are sent, by type and as SQL; whether keys are places in `lists`."""
    keys = keys_of(plan)
    are_short = max(map(len, lists), default=0) <= _MOST_PLACES
    has_places = are_short and any(isinstance(one[0], str) for one in lists)  # numbers are sent
    typed = {UNIT: plan.columns["privacy_unit"].type}
    typed |= {name: "INTEGER" if has_places else key.type for name, key in keys.items()}
    listed = [sent_as(name, kind) for name, kind in typed.items()]
    if has_places:
        listed[1:] = [*map(_place, keys, lists)]
    return typed, listed, has_places


def _added_up(
    few: FewRows, people: PeopleRows, listed: Sequence[str], types: Mapping[str, str]
) -> FewRows | None:
    """How to read what rows add up to; `listed`: people and keys; `types`: of the items."""
    if not few.kept:
        return None
    read = {i: item for kept in few.kept for i, item in kept.items.items() if item.sums}
    made = dict[str, str]()
    for i, (name, kind) in enumerate(types.items()):
        made[f"__dp_n_{i}"] = f"system.main.count({name})"
        if i in read:
            total = f"coalesce(system.main.sum({name}), 0)"
            made[f"__dp_sum_{i}"] = f"CAST({total} AS DECIMAL(38,{digits_of(kind)[1]}))"
    by = ", ".join([UNIT, *keys_of(people.plans[0])])
    columns = ", ".join([by, *(f"{sql} AS {name}" for name, sql in made.items())])
    rows = f"{people.select_of_rows(columns)} GROUP BY {by}"
    return few._replace(
        sql=f"SELECT {', '.join([*listed, *made])} FROM ({rows}) AS __dp_added",
        are_added_up=True,
        are_plain=few.are_plain and not read,
    )


def _groups(plan: Plan, n_groups: int, sent_as: _SENT, shown_as: _SENT) -> str:
    """The SELECT of the public groups by their keys, each as it is sent and as people read it."""
    listed = [sent_as(name, key.type) for name, key in keys_of(plan).items()]
    listed += [f"{shown_as(name, key.type)} AS {name}_" for name, key in keys_of(plan).items()]
    public = plan.groups.select if plan.groups else ""
    rows = f"SELECT * FROM ({public}) AS __dp_listed ORDER BY {by_keys(plan)} LIMIT {n_groups}"
    return f"SELECT {', '.join(listed)} FROM ({rows}) AS __dp_shown"


def _lists(plan: Plan, known: Mapping[str, Sequence[Any]]) -> list[list[Any]]:
    """The values of each key whose combinations are the groups; none if some are not known."""
    factors, size = (plan.groups.factors, plan.groups.size) if plan.groups else ((), None)
    lists = [sorted(known[factor]) for factor in factors if factor in known]
    are_all = len(lists) == len(plan.keys) and prod(map(len, lists)) == size
    return lists if are_all else []


def _place(name: str, values: Sequence[Any]) -> str:
    """The place of a key among plain values, compared as strings are written."""
    own = exact(f"CAST({name} AS VARCHAR)", "VARCHAR")
    return f"coalesce(system.main.list_position({_list(values)}, {own}), 0) AS {name}"


def _domain(plan: Plan) -> str:
    """The SELECT of the public items; empty if they are not public."""
    return (plan.domain and plan.domain.select) or ""


def _sent_domain(plan: Plan, sent_as: _SENT) -> str:
    item = sent_as("item", plan.columns["item"].type)
    return f"SELECT {item} FROM ({_domain(plan)}) AS __dp_domain" if _domain(plan) else ""


def _item(name: str, plans: Sequence[Plan], sent_as: _SENT) -> tuple[str, str] | None:
    """An item as it is sent to the plans that have it, and its type; None: it cannot be."""
    kind = plans[0].parameters.item_type(plans[0].columns["item"].type)
    of = {plan.parameters.in_memory for plan in plans}
    if of <= {"items", "pairs"}:
        mechanism, lists_items = plans[0].mechanism, plans[0].parameters.n_listed is not None
        if mechanism.ordered or mechanism.n_largest is not None:
            return None
        if plans[0].parameters.sample_items or (lists_items and family(kind) not in PLAIN_ITEMS):
            return None
        return sent_as(name, kind).removesuffix(f" AS {name}"), kind
    if not any(map(_takes_sums, plans)):
        return one_if_there(name), "UTINYINT"
    if family(kind) == "DECIMAL":
        return name, kind
    return (f"CAST({name} AS BIGINT)", "BIGINT") if family(kind) in FIT_BIGINT else None


def _takes_sums(plan: Plan) -> bool:
    by = plan.parameters.summed()
    return by is not None and by.takes_sums


def rows_in_lists(plan: Plan, few: FewRows, ticket: str, execution: str) -> str | None:
    """The private SQL of a plan whose rows are handed over as one list; None if they are not.

    few: how they are read. The groups are those that were read while the statement was planned.
    """
    lists, shape, release = few.lists, plan.parameters, release_of(ticket, execution)
    if few.are_added_up or not (few.kept and lists and prod(map(len, lists)) <= _MOST_GROUPS):
        return None
    if not few.has_places and any(isinstance(one[0], str) for one in lists):  # sent as they are
        return None
    sent = [range(1, len(one) + 1) if few.has_places else one for one in lists]
    keys = f"CAST(system.main.list_value({', '.join(map(_list, sent))}) AS BIGINT[][])"
    rows = f"coalesce(system.main.list(__dp_sent), {EMPTY_LIST})"
    drawn = f"SELECT {shape.udf}{IN_LISTS}({release}, {keys}, {rows}) AS __dp_drawn"
    number = "unnest(system.main.generate_series(1, system.main.length(__dp_drawn))) AS __dp_group"
    answers, listed = [number], ["__dp_group"]
    for place, (name, key) in enumerate(keys_of(plan).items()):
        shown = _list(combined[place] for combined in product(*lists))
        answers.append(f"unnest(CAST({shown} AS {key.type}[])) AS {name}")
        listed.append(f"{exact(name, key.type)} AS {name}")
    return (
        f"SELECT {', '.join(listed)}, {shape.value('__dp_answer', rows_of(plan))} AS __dp_value "
        f"FROM (SELECT {', '.join(answers)}, unnest(__dp_drawn) AS __dp_answer "
        f"FROM ({drawn} FROM ({few.sql}) AS __dp_sent) AS __dp_one) AS __dp_each"
    )


def _list(values: Iterable[str | int]) -> str:
    """The SQL of a list of strings, as a negative number would have an operator."""
    return f"system.main.list_value({', '.join(literal(str(value)) for value in values)})"

"""The keys of groups as SQL, and the groups that are found by the people who are in them."""

from dp_sql.errors import InternalError
from dp_sql.privacy.plans.plan import Column, Plan
from dp_sql.sql.mechanism_rows import EMPTY_LIST, from_zero, pair, people_codes
from dp_sql.sql.types import by_value, exact, writable

FIND_UDF = "__dp_sql_find"
UNIT = "__dp_privacy_unit"


def keys_of(plan: Plan) -> dict[str, Column]:
    """The columns of GROUP BY, by their names in the private SQL."""
    return {f"__dp_key_{i}": key for i, key in enumerate(plan.keys)}


def keys_sql(plan: Plan) -> list[str]:
    """The columns of GROUP BY, read from the source."""
    return [
        f"{exact(writable(key.sql, key.type), key.type)} AS {name}"
        for name, key in keys_of(plan).items()
    ]


def by_keys(plan: Plan) -> str:
    """The order of the groups."""
    return ", ".join(by_value(name, key.type) for name, key in keys_of(plan).items())


def groups_ctes(
    plan: Plan, release: str, rows: str, *, distinct: bool = False, found: str = ""
) -> list[str]:
    """`__dp_groups`, numbered in the order of the keys, behind `__dp_found` if they are found.

    found: the relation of their keys, if it is there; the other arguments are those of `found_sql`.
    """
    groups = plan.groups
    if groups is None:
        raise InternalError("Only people's rows have such groups.")
    ctes, listed = [], found or f"({groups.select}) AS __dp_crossed"
    if groups.finding is not None and not found:
        ctes, listed = found_sql(plan, release, rows, distinct=distinct), "__dp_found"
    return [*ctes, f"__dp_groups AS MATERIALIZED ({groups_sql(plan, listed)})"]


def groups_sql(plan: Plan, listed: str) -> str:
    """The groups with their numbers, in the order of the keys; `listed` is a relation of FROM.

    There are no more than when they were counted, which a draw and what it leaves out rely on.
    """
    keys, by = ", ".join(keys_of(plan)), by_keys(plan)
    if plan.groups is not None and plan.groups.size is not None:
        listed = f"(SELECT {keys} FROM {listed} ORDER BY {by} LIMIT {plan.groups.size}) AS counted"
    number = f"system.main.row_number() OVER (ORDER BY {by}) AS __dp_group"
    return f"SELECT {keys}, {number} FROM {listed}"


def found_sql(plan: Plan, release: str, rows: str, *, distinct: bool = False) -> list[str]:
    """`__dp_found`, the keys of the groups that a UDF finds by the people who are in them.

    `rows` is a relation of keys and people, each pair once if it is `distinct`; `release` the UDF's
    first arguments. Only the groups found are numbered: a place among all groups would depend on
    those that are not found.
    """
    names = ", ".join(keys_of(plan))
    same = " AND ".join(f"{rows}.{k} = __dp_seen.{k}" for k in keys_of(plan))
    kind = plan.columns["privacy_unit"].type
    ctes, person, joined = people_codes("__dp_within", kind, name="__dp_finders")
    return [
        "__dp_seen AS MATERIALIZED (SELECT "
        f"{names}, CAST({from_zero(f'ORDER BY {by_keys(plan)}')} AS INTEGER) "
        f"AS seen FROM (SELECT DISTINCT {names} FROM {rows}) AS s)",
        f"__dp_within AS {'' if ctes else 'NOT '}MATERIALIZED (SELECT "
        f"{'' if distinct else 'DISTINCT '}seen, {UNIT} FROM {rows} JOIN __dp_seen ON {same})",
        *ctes,
        f"__dp_places AS MATERIALIZED (SELECT {FIND_UDF}({release}, coalesce("
        f"system.main.list({pair('seen', person)}), {EMPTY_LIST})) AS places "
        f"FROM __dp_within{joined})",
        f"__dp_found AS MATERIALIZED (SELECT {names} FROM __dp_seen JOIN (SELECT "
        "unnest(places) AS seen FROM __dp_places) AS f USING (seen))",
    ]

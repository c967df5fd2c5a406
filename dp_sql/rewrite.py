"""From plans to SQL text. Writes; never runs.

Two texts are made. The private one counts and groups by person in DuckDB and calls one UDF on
integers. The outer one is the user's text with each DP call replaced by a column of its release and
the source replaced by the releases; every other character stays as it was written.

Functions are written with their full name (system.main.list): a macro in the user's database may
be called `list` or `count`, and must not be what we call.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.errors import InternalError
from dp_sql.parse import Token
from dp_sql.plan import Plan, exact, quote
from dp_sql.recognise import DpSelect
from dp_sql.trees import projection

TOPK_UDF = "__dp_sql_topk"
COUNT_UDF = "__dp_sql_count_distinct"
REPORT_UDF = "__dp_sql_count_distinct_report"
REPORT_TYPE = (
    "STRUCT(estimate BIGINT, lower_bound BIGINT, confidence DOUBLE, "
    "contribution_bound INTEGER, epsilon DOUBLE)"
)
_EXECUTION = "system.main.current_connection_id(), system.main.current_query_id()"


def value_type(plan: Plan) -> str:
    """The SQL type of a plan's release."""
    if plan.function.kind == "topk":
        return f"{plan.item_type}[]"
    return REPORT_TYPE if plan.report else "BIGINT"


def private_sql(plan: Plan, ticket: str) -> str:
    """A SELECT of one row and one column, `__dp_value`: the release of a plan."""
    if plan.function.kind == "topk":
        return _topk_sql(plan, ticket)
    if plan.function.kind == "count_distinct":
        return _count_distinct_sql(plan, ticket)
    raise InternalError(f"No SQL is known for the input shape {plan.function.kind}.")


def _rows_sql(plan: Plan, kept: bool) -> str:
    """The CTE of the source's (item, person) pairs, compared byte by byte, NULLs dropped.

    All names of ours begin with __dp: the source and its condition are the owner's words, and may
    speak of tables and columns called rows, item or person.
    """
    item, person = exact(plan.item, plan.item_type), exact(plan.person, plan.person_type)
    condition = f" WHERE ({plan.condition}\n)" if plan.condition is not None else ""
    return (
        f"__dp_rows AS {'' if kept else 'NOT '}MATERIALIZED (SELECT __dp_item, __dp_person FROM ("
        f"SELECT {item} AS __dp_item, {person} AS __dp_person FROM {plan.source}\n{condition}"
        ") AS __dp_source WHERE __dp_item IS NOT NULL AND __dp_person IS NOT NULL)"
    )


def _topk_sql(plan: Plan, ticket: str) -> str:
    counts = (
        "SELECT __dp_item, system.main.count(DISTINCT __dp_person) AS n FROM __dp_rows "
        "GROUP BY __dp_item"
    )
    if plan.domain is not None and plan.domain.select is not None:
        counts = (
            f"SELECT domain.item AS __dp_item, coalesce(counted.n, 0) AS n FROM "
            f"({plan.domain.select}) AS domain LEFT JOIN ({counts}) AS counted "
            "ON domain.item = counted.__dp_item"
        )
    return (
        f"WITH {_rows_sql(plan, kept=False)}, "
        "__dp_histogram AS (SELECT coalesce(system.main.list(__dp_item), []) AS items, "
        f"coalesce(system.main.list(n), []) AS counts FROM ({counts}) AS counted) "
        "SELECT system.main.list_select(items, "
        f"{TOPK_UDF}('{ticket}', {_EXECUTION}, counts)) AS __dp_value FROM __dp_histogram"
    )


def _count_distinct_sql(plan: Plan, ticket: str) -> str:
    udf = REPORT_UDF if plan.report else COUNT_UDF
    return (
        f"WITH {_rows_sql(plan, kept=plan.keep_source)}, "
        "__dp_people AS MATERIALIZED (SELECT __dp_person AS person, "
        "CAST(system.main.row_number() OVER () - 1 AS INTEGER) AS code "
        "FROM (SELECT DISTINCT __dp_person FROM __dp_rows) AS persons), "
        "__dp_items AS (SELECT system.main.list(code) AS people FROM __dp_rows "
        "JOIN __dp_people ON __dp_person = person GROUP BY __dp_item), "
        "__dp_pairs AS (SELECT coalesce(system.main.list(people), []) AS people_of_items "
        "FROM __dp_items) "
        f"SELECT {udf}('{ticket}', {_EXECUTION}, people_of_items) AS __dp_value FROM __dp_pairs"
    )


# --- the user's text ------------------------------------------------------------------------------

Edit = tuple[int, int, str]


def outer_edits(select: DpSelect, releases: Sequence[tuple[str, str]]) -> list[Edit]:
    """Edits that make one SELECT read its releases.

    Args:
        select: where its parts stand in the text.
        releases: for each call a relation of one row with the column `__dp_value`, and its alias.
    """
    relations = ", ".join(f"{relation} AS {alias}" for relation, alias in releases)
    edits: list[Edit] = [(*select.from_clause, f"FROM {relations}")]
    if select.where_clause is not None:
        edits.append((*select.where_clause, ""))
    for call, (_, alias) in zip(select.calls, releases, strict=True):
        edits.append((call.start, call.end, f"({alias}.__dp_value)"))
    edits += [(stop, stop, f" AS {quote(name)}") for stop, name in _missing_names(select)]
    return edits


def spliced(text: str, edits: Sequence[Edit], start: int, stop: int) -> str:
    """`text[start:stop]` with the edits made; all else stays as written."""
    pieces, position = [], start
    for first, last, replacement in sorted(edits):
        if first < position or last > stop:
            raise InternalError("Two parts of the statement overlap.")
        pieces += [text[position:first], replacement]
        position = last
    return "".join([*pieces, text[position:stop]])


def with_releases(
    body: str, tokens: Sequence[Token], start: int, releases: Sequence[tuple[str, str]]
) -> str:
    """A query with each release as a CTE in front, computed once however often it is read.

    Args:
        body: the spliced query.
        tokens: the tokens of the statement as written; a leading WITH is kept and extended.
        start: offset of the statement in its text.
        releases: name and SQL of each release.
    """
    ctes = ", ".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in releases)
    if tokens[0].upper != "WITH":
        return f"WITH {ctes} {body}"
    last = tokens[1] if tokens[1].upper == "RECURSIVE" else tokens[0]
    after = last.end - start
    return f"{body[:after]} {ctes},{body[after:]}"


def _missing_names(select: DpSelect) -> list[tuple[int, str]]:
    """Where an item has no alias: its end, and the name DuckDB would have given it."""
    found = []
    for start, stop in select.items:
        calls = [c for c in select.calls if start <= c.start and c.end <= stop]
        if not calls:
            continue
        edits = [(c.start, c.end, c.display) for c in calls]
        name = spliced(select.text, edits, start, stop)
        tree = projection(name)  # where sqlglot cannot read it, DuckDB will name it
        if tree is not None and not isinstance(tree, exp.Alias | exp.Aliases):
            found.append((stop, name))
    return found

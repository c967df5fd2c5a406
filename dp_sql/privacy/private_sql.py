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
from dp_sql.privacy.plan import Column, Plan
from dp_sql.privacy.private_sql_groups import grouped_sql
from dp_sql.sql.sqlglot_tree import Unreadable, projection, tree_of
from dp_sql.sql.statement import DpSelect
from dp_sql.sql.tokens import Token, folded, outside_queries, tokenize
from dp_sql.sql.types import by_value, exact, family, quote

TOPK_UDF = "__dp_sql_topk"
COUNT_UDF = "__dp_sql_count_distinct"
REPORT_UDF = "__dp_sql_count_distinct_report"
SELECT_UDF = "__dp_sql_select"
REPORT_TYPE = (
    "STRUCT(estimate BIGINT, lower_bound BIGINT, confidence DOUBLE, "
    "contribution_bound INTEGER, epsilon DOUBLE)"
)
_EXECUTION = "system.main.current_connection_id(), system.main.current_query_id()"


def release_columns(plan: Plan) -> list[tuple[str, str]]:
    """Names and types of the columns of a plan's release; with keys, of one row a group."""
    columns = [("__dp_value", _value_type(plan))]
    if plan.keys:
        keys = [(f"__dp_key_{i}", key.type) for i, key in enumerate(plan.keys)]
        columns = [("__dp_group", "BIGINT"), *keys, *columns]
    return columns


def answer_columns(plan: Plan, keys: Sequence[str]) -> list[tuple[str, str]]:
    """The columns of a plan's release as people read them: the keys by their names, and answer."""
    columns = [(name, key.type) for name, key in zip(keys, plan.keys, strict=True)]
    return [*columns, ("answer", _value_type(plan))]


def stand_ins(plan: Plan) -> str:
    """The list of a SELECT that has the columns of the release and says nothing."""
    return ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in release_columns(plan))


def _value_type(plan: Plan) -> str:
    if plan.function.kind == "topk":
        return f"{plan.columns['item'].type}[]"
    if plan.function.kind == "select":
        return plan.columns["candidate"].type
    return REPORT_TYPE if plan.report else "BIGINT"


def private_sql(plan: Plan, ticket: str, *, again: bool = False) -> str:
    """A SELECT of the columns of `release_columns`: the release of a plan.

    Args:
        plan: what is released.
        ticket: of the desk.
        again: whether one execution may run it more than once; then the items are in an order of
            their own, so that the places that the desk kept mean the same items.
    """
    if plan.groups is not None:
        return grouped_sql(plan, plan.groups, _source(plan), f"'{ticket}', {_EXECUTION}")
    if plan.function.kind == "topk":
        return _topk_sql(plan, ticket, again)
    if plan.function.kind == "count_distinct":
        return _count_distinct_sql(plan, ticket)
    if plan.function.kind == "select":
        return _select_sql(plan, ticket)
    raise InternalError(f"No SQL is known for the input shape {plan.function.kind}.")


def count_groups_sql(plan: Plan) -> str:
    """How many groups a plan's keys make in its source."""
    keys = ", ".join(
        f"{exact(key.sql, key.type)} AS __dp_key_{i}" for i, key in enumerate(plan.keys)
    )
    groups = f"SELECT DISTINCT {keys} FROM {_source(plan)}"
    return f"SELECT system.main.count(*) FROM ({groups}) AS __dp_groups"


def _rows_sql(plan: Plan, kept: bool) -> str:
    """The CTE of the source's (item, person) pairs, compared byte by byte, NULLs dropped.

    All names of ours begin with __dp: the source and its condition are the owner's words, and may
    speak of tables and columns called rows, item or person.
    """
    item, person = (
        exact(column.sql, column.type)
        for column in (plan.columns["item"], plan.columns["privacy_unit"])
    )
    return (
        f"__dp_rows AS {'' if kept else 'NOT '}MATERIALIZED (SELECT __dp_item, __dp_person FROM ("
        f"SELECT {item} AS __dp_item, {person} AS __dp_person FROM {_source(plan)}"
        ") AS __dp_source WHERE __dp_item IS NOT NULL AND __dp_person IS NOT NULL)"
    )


def _source(plan: Plan) -> str:
    return f"{plan.source}\n"


def _topk_sql(plan: Plan, ticket: str, again: bool) -> str:
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
    order = f" ORDER BY {by_value('__dp_item', plan.columns['item'].type)}" if again else ""
    if plan.mechanism.n_largest is not None:
        # The largest counts and no more; among equal ones the items' own order decides.
        order = f" ORDER BY n DESC, {by_value('__dp_item', plan.columns['item'].type)}"
        counts += f"{order} LIMIT {plan.mechanism.n_largest(plan.parameters['k'])}"
    return (
        f"WITH {_rows_sql(plan, kept=False)}, "
        f"__dp_histogram AS (SELECT coalesce(system.main.list(__dp_item{order}), []) AS items, "
        f"coalesce(system.main.list(n{order}), []) AS counts FROM ({counts}) AS counted) "
        "SELECT system.main.list_select(items, "
        f"{TOPK_UDF}('{ticket}', {_EXECUTION}, counts)) AS __dp_value FROM __dp_histogram"
    )


def _count_distinct_sql(plan: Plan, ticket: str) -> str:
    udf = REPORT_UDF if plan.report else COUNT_UDF
    by_person = by_item = ""
    if plan.mechanism.ordered:
        by_person = "ORDER BY " + by_value("__dp_person", plan.columns["privacy_unit"].type)
        by_item = " ORDER BY " + by_value("__dp_item", plan.columns["item"].type)
    return (
        f"WITH {_rows_sql(plan, kept=plan.keep_source)}, "
        "__dp_people AS MATERIALIZED (SELECT __dp_person AS person, "
        f"CAST(system.main.row_number() OVER ({by_person}) - 1 AS INTEGER) AS code "
        "FROM (SELECT DISTINCT __dp_person FROM __dp_rows) AS persons), "
        "__dp_items AS (SELECT __dp_item, system.main.list(code) AS people FROM __dp_rows "
        "JOIN __dp_people ON __dp_person = person GROUP BY __dp_item), "
        f"__dp_pairs AS (SELECT coalesce(system.main.list(people{by_item}), []) AS people_of_items "
        "FROM __dp_items) "
        f"SELECT {udf}('{ticket}', {_EXECUTION}, people_of_items) AS __dp_value FROM __dp_pairs"
    )


def _select_sql(plan: Plan, ticket: str) -> str:
    """Candidates of each group in the order of their values, so that none comes from the data."""
    candidate, score, sensitivity = (
        plan.columns[name] for name in ("candidate", "score", "sensitivity")
    )
    keys = [f"__dp_key_{i}" for i in range(len(plan.keys))]
    columns = [f"{exact(key.sql, key.type)} AS {k}" for key, k in zip(plan.keys, keys, strict=True)]
    columns += [
        f"{exact(candidate.sql, candidate.type)} AS __dp_candidate",
        f"CAST({_number_sql(score)} AS VARCHAR) AS __dp_score",
        f"CAST({_number_sql(sensitivity)} AS VARCHAR) AS __dp_sensitivity",
    ]
    first = by_value("__dp_candidate", candidate.type)
    lists = [
        f"coalesce(system.main.list({one} ORDER BY {first}), []) AS {many}"
        for one, many in (
            ("__dp_candidate", "__dp_candidates"),
            ("__dp_score", "__dp_scores"),
            ("__dp_sensitivity", "__dp_sensitivities"),
        )
    ]
    listed = ", ".join(keys)
    order = ", ".join(by_value(k, key.type) for k, key in zip(keys, plan.keys, strict=True))
    number = f"system.main.row_number() OVER (ORDER BY {order})" if keys else "1"
    grouped = f" GROUP BY {listed}" if keys else ""
    in_order = [
        f"coalesce(system.main.list({name} ORDER BY __dp_group ASC), [])"
        for name in ("__dp_scores", "__dp_sensitivities", "__dp_different")
    ]
    released = ["__dp_group", *keys] if keys else []
    return (
        f"WITH __dp_rows AS (SELECT {', '.join(columns)} FROM {_source(plan)}), "
        f"__dp_groups AS MATERIALIZED (SELECT {', '.join([*keys, *lists])}, "
        f"{number} AS __dp_group, system.main.count(DISTINCT __dp_candidate) AS __dp_different "
        f"FROM __dp_rows{grouped}), "
        f"__dp_choice AS MATERIALIZED (SELECT {SELECT_UDF}('{ticket}', {_EXECUTION}, "
        f"{', '.join(in_order)}) AS __dp_places FROM __dp_groups) "
        f"SELECT {', '.join([*released, ''])}"
        "system.main.list_extract(__dp_candidates, "
        "system.main.list_extract(__dp_places, __dp_group)) AS __dp_value "
        "FROM __dp_groups, __dp_choice ORDER BY __dp_group ASC"
    )


def _number_sql(column: Column) -> str:
    """A number whose text is exact: a FLOAT's would be that of fewer digits than it has."""
    return f"CAST({column.sql} AS DOUBLE)" if family(column.type) == "FLOAT" else column.sql


# --- the user's text ------------------------------------------------------------------------------

Edit = tuple[int, int, str]


def outer_edits(select: DpSelect, releases: Sequence[tuple[str, str]]) -> list[Edit]:
    """Edits that make one SELECT read its releases.

    Args:
        select: where its parts stand in the text.
        releases: for each call a relation with the columns of its release, and its alias.
    """
    if select.keys:
        relations = _side_by_side(select, releases)
        edits = [
            (start, stop, f"__dp_groups.{quote(name)}") for start, stop, name in _key_places(select)
        ]
    else:
        relations = ", ".join(f"{relation} AS {alias}" for relation, alias in releases)
        edits = []
    edits.append((*select.from_clause, f"FROM {relations}"))
    edits += [(*c, "") for c in (select.where_clause, select.group_clause) if c is not None]
    if select.having is not None:  # over released columns, which are no groups any more
        edits.append((select.having[0], select.having[0] + len("HAVING"), "WHERE"))
    for call, (_, alias) in zip(select.calls, releases, strict=True):
        column = f"__dp_groups.{alias}" if select.keys else f"{alias}.__dp_value"
        edits.append((call.start, call.end, f"({column})"))
    edits += [(stop, stop, f" AS {quote(name)}") for stop, name in _missing_names(select)]
    return edits


def _side_by_side(select: DpSelect, releases: Sequence[tuple[str, str]]) -> str:
    """The releases of one grouped SELECT as one relation: the keys by their names, and values."""
    aliases = [alias for _, alias in releases]
    first = aliases[0]
    listed = [f"{first}.__dp_key_{i} AS {quote(k.parts[-1])}" for i, k in enumerate(select.keys)]
    listed += [f"{alias}.__dp_value AS {alias}" for alias in aliases]
    joined = f"{releases[0][0]} AS {first}"
    for relation, alias in releases[1:]:
        # By keys, not by numbers: where two readings of a source differ, so may the numbers.
        same = [
            f"{alias}.__dp_key_{i} IS NOT DISTINCT FROM {first}.__dp_key_{i}"
            for i in range(len(select.keys))
        ]
        joined += f" JOIN {relation} AS {alias} ON {' AND '.join(same)}"
    return f"(SELECT {', '.join(listed)} FROM {joined}) AS __dp_groups"


def _key_places(select: DpSelect) -> list[tuple[int, int, str]]:
    """Where the text speaks of a key with its table's name, which is gone after rewriting.

    Inside brackets that open a query names are that query's own.
    """
    names = {folded(key.parts[-1]): key.parts[-1] for key in select.keys}
    tables = _source_names(select)
    spans = [*select.items, *(c for c in (select.having, select.order) if c is not None)]
    found = []
    for start, stop in spans:
        tokens = outside_queries(tokenize(select.text[start:stop]), select.text[start:stop])
        for i, token in enumerate(tokens):
            chain = _chain(tokens, i)
            begin = start + token.start
            in_call = any(call.start <= begin < call.end for call in select.calls)
            if len(chain) < 2 or in_call:
                continue
            *table, name = (folded(part.name or "") for part in chain)
            if name in names and table[-1] in tables:
                found.append((begin, start + chain[-1].end, names[name]))
    return found


def _chain(tokens: Sequence[Token], index: int) -> list[Token]:
    """The names of `a.b.c` that begins at a token; none where it does not begin there."""
    if tokens[index].name is None or (index and tokens[index - 1].is_symbol(".")):
        return []
    chain = [tokens[index]]
    while (
        index + 2 < len(tokens)
        and tokens[index + 1].is_symbol(".")
        and tokens[index + 2].name is not None
    ):
        index += 2
        chain.append(tokens[index])
    return chain


def _source_names(select: DpSelect) -> set[str]:
    """What the relations of the source are called, folded."""
    written = {folded(key.parts[-2]) for key in select.keys if len(key.parts) > 1}
    try:
        tree = tree_of(f"SELECT 1 FROM {select.source_text}\n")
    except Unreadable:
        return written
    clauses = [tree.args.get("from_") or tree.args.get("from"), *(tree.args.get("joins") or [])]
    relations = [clause.this for clause in clauses if clause is not None]
    return written | {folded(relation.alias_or_name) for relation in relations}


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

"""What `dp($$ SELECT DP_… $$)` means: the query with its releases as CTEs in front of it.

Writing it releases nothing; each execution does. DuckDB binds such a query as often as it likes.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress

import duckdb

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.few_rows import read_shortly
from dp_sql.errors import NotSupported, QueryError, SourceError
from dp_sql.privacy.outer_sql import outer_sql, with_releases
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.privacy.private_sql.bundles import bundles
from dp_sql.privacy.private_sql.few_rows import rows_in_lists
from dp_sql.privacy.private_sql.release_select import (
    EXECUTION,
    each_of,
    empty_releases,
    private_sql,
)
from dp_sql.session.owner_plans import Planned, n_runs, planned_text, plans_of_text
from dp_sql.session.syntax import check_syntax
from dp_sql.session.temporary_names import checked_connection_sql, execution_sql
from dp_sql.session.trial import check_runs
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import in_macro, literal
from dp_sql.sql.parameters import bind, parameters
from dp_sql.sql.statement import Statement, parse
from dp_sql.sql.statement_limits import check_depth
from dp_sql.sql.tokens import Tokens, edited

_NOT_SEEN = (
    "For a temporary table or view, or a registered dataframe, write CREATE TABLE … AS … first, "
    "or ask with dp_sql.connect(…)."
)
SHARING = "with dp_sql.connect(…).sql(…), where the calls of a SELECT share their groups."


def query_of(text: str, params: str, engine: Engine) -> str:
    """The query that `dp(text, params)` means; QueryError if it is not one query, or is refused."""
    try:
        bound = _with_functions(_with_parameters(text, params, engine))
        found = _one_query(bound)
        if found.is_explain:
            return _price(found, engine)
        if not found.selects:  # it may be one for another system
            check_syntax(found.tokens, engine.connection.extract_statements)
        return with_ctes(found, engine, is_elsewhere=True)
    except QueryError as error:
        suggest(error, text, engine, lambda *_: False)
        if error.message.startswith("Table with name"):  # dp() does not see the connection's own
            error.hint = " ".join(filter(None, [error.hint, _NOT_SEEN]))
        raise


def _price(statement: Statement, engine: Engine) -> str:
    """What EXPLAIN in dp() shows of a query."""
    from dp_sql.session.explain import EXAMPLE_DELTA, cost_of, cost_sql, explanation

    planned = _checked(statement, engine, is_elsewhere=True)
    plans = planned.plans
    calls = [explanation(p, None, engine, EXAMPLE_DELTA, n_runs(p, engine)) for p in plans]
    cost = cost_of(plans, calls, engine.tickets.account)
    shown = cost_sql(cost, with_sql=statement.shows_sql)
    # DuckDB binds the query where it would run, and so reports what is wrong around the calls.
    outer = outer_sql(statement.text, statement.span, statement.selects, empty_releases(plans))
    bound = f"(SELECT NULL, NULL FROM ({outer}\n) LIMIT 0)"
    return f"{shown} WHERE {checked_connection_sql(planned)} IS NOT NULL UNION ALL {bound}"


def _with_parameters(text: str, params: str, engine: Engine) -> str:
    """The text with literals for its parameters: the values of a row, struct or list as JSON."""
    given = json.loads(params, object_pairs_hook=_fields)
    if given is None:
        asked = _one_query(text)
        if parameters(asked.tokens):
            message = "dp() needs the values of its query's parameters."
            raise NotSupported(message, hint=f"Write: {in_dp(parse(text)[0])}")
        return text
    given = given if isinstance(given, list | dict) else [given]  # one value
    return bind(_one_query(text), given, engine.parameter_names(text))


def _with_functions(text: str) -> str:
    """The text with the rows of `dp_functions()`, the one system table that needs no session."""
    calls = [one for one in _one_query(text).system_tables if one.name == "dp_functions"]
    if not calls:
        return text
    from dp_sql.session.describe import values_sql
    from dp_sql.session.system_tables import functions_table

    columns, rows = functions_table()
    listed = values_sql([n for n, _ in columns], [tuple(map(str, row)) for row in rows])
    return edited(text, [(one.start, one.stop, f"({listed})") for one in calls])


def _fields(pairs: list[tuple[str, object]]) -> object:
    """A struct of JSON as it is; a row, whose fields have no names, as a list."""
    return dict(pairs) if pairs and pairs[0][0] else [value for _, value in pairs]


def in_dp(statement: Statement) -> str:
    """A statement with its query in dp(), which takes the values of its parameters."""
    tokens, start, (_, stop) = statement.tokens, statement.query_start, statement.span
    body, found = statement.text[start:stop], parameters(tokens)
    signs = [statement.text[tokens[p.start].start : tokens[p.stop - 1].end] for p in found]
    given = ""
    if found and found[0].name.isdigit():
        once = sorted({*signs}, key=lambda sign: int(sign[1:])) if "$1" in signs else signs
        given = f", params := row({', '.join(once)})"
    elif found:
        fields = (f"'{name}': ${name}" for name in dict.fromkeys(one.name for one in found))
        given = f", params := {{{', '.join(fields)}}}"
    return f"{statement.text[statement.span[0] : start]}{in_macro(body, given)}"


def suggest(
    error: QueryError, text: str, engine: Engine, is_plain: Callable[[Statement, Engine], bool]
) -> None:
    """Add the statement that works instead, if one is known; it is planned, and nothing is spent.

    text: the statement that is refused. is_plain: whether DuckDB may run one outside of dp().
    """

    def attempt(text: str) -> Exception | None:
        try:
            found = _one_query(text)
            check_depth(found)
            plans = plans_of_text(found, engine)
            outer = outer_sql(text, found.span, found.selects, empty_releases(plans))
            engine.bind(outer, keyword=found.keyword)
        except (QueryError, duckdb.Error) as wrong:
            return wrong
        return None

    with suppress(Exception):  # the error says enough
        # Imported with the first error.
        from dp_sql.session.corrections.aggregates import propose_beside
        from dp_sql.session.corrections.guessed_units import with_guessed_units
        from dp_sql.session.corrections.suggestions import propose

        (statement,) = parse(text)
        start = 0 if statement.is_query else statement.query_start
        around, query = text[:start], text[start:]  # CREATE TABLE t AS, and its query
        error.instead = tuple(
            type(one)(one[start:]) for one in error.instead if one.startswith(around)
        )
        units = with_guessed_units(query, engine.connection)
        is_beside = propose_beside(error, query, engine)
        if propose(error, query, attempt, units):
            found = error.suggestion
            if is_beside or not is_plain(_one_query(found), engine):
                found = in_macro(found.strip())
            error.suggestion = f"{around}{found}"


def _one_query(text: str) -> Statement:
    """The one query of a text, or the one behind EXPLAIN."""
    found = parse(text)
    if len(found) == 1 and found[0].keyword == "EXPLAIN":
        found = [found[0].without_explain()]
    has_options = len(found) == 1 and found[0].is_explain and not found[0].is_query
    if len(found) != 1 or has_options or not found[0].may_be_query:
        message, hint = "dp takes exactly one query.", "For example: FROM dp($$ SELECT … $$)"
        if len(found) == 1:
            word = next((t.upper or t.text for t in found[0].tokens if not t.is_symbol("(")), "(")
            message = f"dp takes a query, not {word}."
            kept = "CREATE TABLE best AS FROM dp($$ SELECT … $$)"
            hint = f"Write CREATE TABLE … AS, INSERT or COPY around it: {kept}"
            if found[0].keyword in {"PIVOT", "UNPIVOT"}:
                hint = f"Write {word} around it: {word} (FROM dp($$ SELECT … $$)) ON …"
        position = found[1].span[0] if len(found) > 1 else 0
        raise NotSupported(message, text=text, position=position, hint=hint)
    return found[0]


def shares_groups(select: DpSelect) -> bool:
    """Whether several calls share the groups that delta finds."""
    return select.delta is not None and len(select.calls) > 1


def _checked(query: Statement, engine: Engine, *, is_elsewhere: bool) -> Planned:
    """A query with its plans, or what refuses it before anything is spent."""
    for select in query.selects:
        if shares_groups(select):  # DuckDB may run one call and not the one that pays for groups
            why = "Here each call that finds groups needs a SELECT of its own."
            raise select.refused(why, select.calls[1].start, f"Or ask {SHARING}", NotSupported)
    planned = planned_text(query, engine)
    try:
        check_runs(query, (query.text, query.span), planned.plans, engine)
    except duckdb.Error as error:
        if not is_elsewhere:
            raise
        from dp_sql.session.corrections.duckdb_errors import explained

        raise explained(error, query, []) or SourceError(str(error)) from None
    return planned


def with_ctes(query: Statement, engine: Engine, *, is_elsewhere: bool) -> str:
    """The query, with its releases as CTEs in front.

    is_elsewhere: whether DuckDB runs it on another connection than that of `engine`.
    """
    planned = _checked(query, engine, is_elsewhere=is_elsewhere)
    text, plans, execution = query.text, planned.plans, EXECUTION
    if is_elsewhere:
        execution = execution_sql(planned)
    tickets = [engine.tickets.issue(plan, text, number) for number, plan in enumerate(plans, 1)]
    ctes, releases = [], [Released("")] * len(plans)
    for number, places in enumerate(bundles(plans), 1):
        name = f"__dp_released_{number}"
        some = [plans[i] for i in places]
        sql = _short_sql(some, tickets[places[0]], engine, execution)
        if sql is None:
            theirs = [tickets[i] for i in places]
            sql = private_sql(some, theirs, again=True, execution=execution)
        ctes.append((name, sql))
        for i, released in zip(places, each_of(some, name), strict=True):
            releases[i] = released
    body = outer_sql(text, query.span, query.selects, releases)
    return with_releases(body, query.tokens, query.span[0], ctes) if ctes else body


def _short_sql(plans: Sequence[Plan], ticket: str, engine: Engine, execution: str) -> str | None:
    """The SQL of the release of one plan in groups, if its few rows are counted in memory."""
    if len(plans) > 1 or not plans[0].keys or (few := read_shortly(plans, engine)) is None:
        return None
    return rows_in_lists(plans[0], few, ticket, execution)


def quoted(tokens: Tokens) -> str:
    """A query as an SQL string; NotSupported if it has parameters."""
    for token in tokens:
        if token.is_symbol("?", "$"):
            message = "A prepared statement with a DP call takes no parameters."
            hint = "Pass the value with the statement: session.sql('SELECT … = ?', params=[…])"
            raise token.error(NotSupported, message, hint)
    return literal(tokens.text)

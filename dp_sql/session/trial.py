"""Refuses a query that fails whatever its releases are, before anything is spent.

DuckDB evaluates constants and casts only as it runs. So the query is run over made-up answers, of
which one is NULL, and refused if DuckDB raises the same error over all of them. Other errors depend
on the answers, and are left to DuckDB. This must never run a release, write, or call a function of
DuckDB that has effects.
"""

from collections.abc import Callable, Sequence, Set
from itertools import pairwise

import duckdb

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.privacy.outer_sql import outer_sql
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.privacy.private_sql.release_select import made_up
from dp_sql.sql.clauses import Span
from dp_sql.sql.formatting import RESERVED
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import QUERY, Edit, Tokens
from dp_sql.sql.types import N_SAMPLES

_NEVER_CAST = "Unimplemented type for cast"  # of two types, so it is the same for all answers
_CHOOSE = {"CASE", "IF", "OR", "COALESCE", "IFNULL"}
_NOT_RUN = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
# Written like calls: keywords, and functions that DuckDB does not list as scalar or aggregate.
_ALLOWED = RESERVED | {
    "BETWEEN", "EXISTS", "FILTER", "JOIN", "OVER", "VALUES", "UNNEST", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "PERCENT_RANK",
    "CUME_DIST",
}  # fmt: skip
_DIGITS = 19  # of the largest BIGINT
_LISTS = {"RANGE", "GENERATE_SERIES", "REPEAT"}  # also functions of FROM, with rows without end


def check_runs(
    statement: Statement, key: object, plans: Sequence[Plan], engine: Engine,
    edits: Sequence[Edit] = (),
) -> None:  # fmt: skip
    """Raise DuckDB's error about a query that fails over all answers of its plans.

    key: of what need not be tried twice. edits: as of outer_sql.
    """
    is_odd = _has_odd_limit(statement.around_calls)
    if not plans or (statement.is_plain and not is_odd) or key in engine.state.tried:
        return
    span = _query_span(statement)

    def over(number: int) -> str:
        made = [Released(f"({made_up(plan, number)})") for plan in plans]
        outer = outer_sql(statement.text, span, statement.selects, made, edits)
        return f"FROM ({outer}\n) LIMIT 1"

    around = statement.around_calls.between(span)
    first = over(0)
    casts = any(t.is_symbol("::") or t.upper == "CAST" for t in statement.around_calls)
    is_tried = (is_odd or casts or _reads_nothing(first, engine)) and _is_pure(
        around, engine, _ALLOWED | _LISTS if casts else _ALLOWED
    )
    found = _found(around, over, engine) if is_tried else None
    if found is not None:
        of_types = is_odd or engine.attempts_here or _NEVER_CAST in str(found)
        if of_types or _reads_nothing(first, engine):  # tables may be others for the caller
            raise found
    engine.state.tried[key] = None


def _has_odd_limit(around: Tokens) -> bool:
    """Whether LIMIT or OFFSET takes more than a number, which DuckDB 2 reads only as it runs."""
    return any(
        word.upper in {"LIMIT", "OFFSET"} and not (of.text.isdecimal() and len(of.text) < _DIGITS)
        for word, of in pairwise(around)
    )


def _found(around: Tokens, over: Callable[[int], str], engine: Engine) -> duckdb.Error | None:
    """The error about a query over made-up answers, if it is the same over all of them."""
    found = engine.attempt(over(0))
    if found is None or isinstance(found, _NOT_RUN):
        return None
    if _NEVER_CAST not in str(found):
        if not _CHOOSE.isdisjoint(token.upper for token in around):
            return None  # it may choose by the answers what it evaluates
        for number in range(1, N_SAMPLES):
            if _first_line(engine.attempt(over(number))) != _first_line(found):
                return None
    return found


def _is_pure(around: Tokens, engine: Engine, allowed: Set[str]) -> bool:
    """Whether it calls only functions of DuckDB that return the same again, and ends by itself.

    allowed: other words that may be written like a call.
    """
    called = set()
    for i, token in around.calls():
        before = around.at(i - 1)
        if token.name and token.upper not in allowed:
            is_call = not (before.is_symbol("::", ")") or before.upper == "AS")
            called |= {token.folded} if is_call else set()  # DECIMAL(3, 2), or an alias t(x)
    kinds = engine.builtin_kinds(frozenset(called))
    is_known = all(kinds.get(name, {""}) <= {"scalar", "aggregate"} for name in called)
    return is_known and not any(token.upper == "RECURSIVE" for token in around)


def _reads_nothing(sql: str, engine: Engine) -> bool:
    """Whether a query reads no table, which may be large."""
    try:
        return not engine.connection.get_table_names(sql)
    except duckdb.Error:  # it is no query
        return False


def _query_span(statement: Statement) -> Span:
    """Where its query begins and ends, also in INSERT INTO … SELECT and COPY (SELECT …) TO."""
    tokens, (_, stop) = statement.tokens, statement.span
    if statement.keyword == "COPY" and tokens.at(1).is_symbol("("):
        return tokens[2].start, tokens[tokens.matching(1)].start
    if statement.keyword == "INSERT":
        places = tokens.at_depth_zero(1, len(tokens))
        return next((tokens[i].start for i in places if tokens[i].upper in QUERY), stop), stop
    return statement.query_start, stop


def _first_line(error: duckdb.Error | None) -> str:
    return str(error).partition("\n")[0]

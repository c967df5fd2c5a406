"""One DP call of a statement that DuckDB itself is running: which one it is, and its answer.

`SELECT DP_TOPK(…) FROM ratings` on a connection with dp_sql.install: DuckDB shows the macro the
text of the statement. All its calls are planned before the first is released.
"""

import re
from contextlib import suppress
from fractions import Fraction

import duckdb

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.macros import MacroCall
from dp_sql.errors import NotSupported, QueryError
from dp_sql.privacy.around import IN_DP, NO_PARAMETERS, check_around
from dp_sql.session.dp_macro import SHARING, in_dp, shares_groups, suggest
from dp_sql.session.owner_plans import Planned, looked_up, planned_again, plans_of_all
from dp_sql.session.printed_anew import as_people_write
from dp_sql.session.reservations import reserved
from dp_sql.session.temporary_names import check_named, check_read
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.statement import Statement, parse
from dp_sql.sql.statement_limits import check_depth
from dp_sql.sql.tokens import folded, tokenize

# DuckDB 2.0 writes this around the query of a relation for .show().
_SHOWN = re.compile(
    r'WITH "__duckdb_s0" AS NOT MATERIALIZED \(\nSELECT \* FROM \(\n(.+)\n'
    r'\) AS ("unnamed_\w+")\n\)\n'
    r'SELECT \* FROM "__duckdb_s0" AS \2 LIMIT \d+\s*',
    re.DOTALL,
)
_OF_STAR = re.compile(r"\w+\s*\(\s*\*")
_STEP = '"__duckdb_s'  # the name of a step of a relation, as of .limit(…)
_Signature = tuple[object, ...]
_IN_PIVOT = "Write PIVOT (FROM dp($$ SELECT … $$)) ON …, with the query of the call in dp."
_PREPARED = "Write: PREPARE … AS FROM dp($$ SELECT … $1 … $$, params := row($1))"


def answer_call(asked: MacroCall, engine: Engine) -> str:
    """The value of the call that asks, as a JSON list; QueryError before anything is spent."""
    statement, plans, *_ = _planned(asked, engine)
    index = _index(statement, asked)
    with reserved(engine.tickets.account, [plans[index]], engine.issue) as (one,):
        try:
            value = engine.release_as_json(one.plan, one.ticket, asked.execution)
        except QueryError as error:
            raise error.at(statement.text, statement.calls[index].start) from None
        one.is_answered = True
        return value


def _planned(asked: MacroCall, engine: Engine) -> Planned:
    """The statement and the plans of its calls, which all calls of one execution have."""
    key = asked._replace(function="", item="", number=None, epsilon=None)
    known = engine.tickets.planned
    made: Planned
    if known is not None and known[0] == key:
        made = known[1]
        return made

    def make(recording: Engine) -> Planned:
        statement = _statement(asked)
        with looked_up(statement, recording):
            _check(statement, asked, recording)
            plans = plans_of_all(statement, recording)
        return Planned(statement, plans)

    try:
        made = planned_again((asked.text, *sorted(asked.temporary or ())), engine, make)
    except QueryError as error:
        suggest(error, error.text or as_people_write(asked.text), engine, _runs_plain)
        if "does not exist" in error.message:
            committed = "A plain call reads only committed tables and views."
            error.hint = f"{error.hint} {committed}" if error.hint else committed
            if error.message.startswith("Table with name"):  # DuckDB found it: a similar name
                error.hint = f"{committed} For a dataframe, write: {in_dp(_statement(asked))}"
                error.suggestion = ""  # is no better
        if _STEP in error.suggestion:
            error.suggestion = ""
        if _STEP in (error.hint or ""):
            error.hint = IN_DP
        raise
    check_read(made, asked.temporary or ())
    engine.tickets.planned = key, made
    return made


def _check(statement: Statement, asked: MacroCall, engine: Engine) -> None:
    """Refuse what DuckDB may not run around the calls, with the query that dp() takes instead."""
    try:
        _index(statement, asked)
        check_around(statement, engine)
    except NotSupported as refusal:
        if refusal.message == NO_PARAMETERS and (
            statement.is_query or statement.keyword == "CREATE"
        ):
            refusal.hint = f"Write: {in_dp(statement)}"
        if refusal.hint == IN_DP and any(map(shares_groups, statement.selects)):
            refusal.hint = f"Ask {SHARING}"
        if refusal.hint == IN_DP and statement.is_query:
            refusal.hint = f"Write: {in_dp(statement)}"
            try:
                plans_of_all(statement, engine)
            except QueryError as wrong:  # also there: what is wrong is more than the place
                raise wrong from None
        raise


def _runs_plain(statement: Statement, engine: Engine) -> bool:
    """Whether DuckDB may run a statement as it is written."""
    try:
        check_around(statement, engine)
    except NotSupported:
        return False
    written = (statement.text[slice(*call.span)] for call in statement.calls)
    return not any(_OF_STAR.match(call) for call in written)  # which DuckDB refuses in a macro


def _statement(asked: MacroCall) -> Statement:
    """The statement that DuckDB is running, if its calls can be read in it."""
    text = _as_written(asked.text)
    found = parse(as_people_write(text) if duckdb.__version__.startswith("1.") else text)
    names = [token.name or "" for one in found for token in one.tokens]
    if any(name.upper() == "PIVOT" or name.startswith("__pivot_enum") for name in names):
        message = "PIVOT around a plain DP call is not supported here."  # it is shown rewritten
        raise NotSupported(message, hint=_IN_PIVOT)
    if len(found) != 1 or not found[0].selects:
        raise NotSupported(
            "DuckDB does not show dp_sql this call: it is in a view, a macro, a prepared statement "
            "or a relation of another query.",
            hint=_PREPARED if asked.text.lstrip()[:7].upper() == "EXECUTE" else IN_DP,
        )
    check_depth(found[0])
    first = found[0].keyword
    if not (found[0].may_be_query or first in {"CREATE", "INSERT", "COPY"}):
        message = f"A DP call in {first} is not supported here."
        raise NotSupported(message, hint=f"CREATE TABLE … AS keeps an answer. {IN_DP}")
    check_named(found[0], asked.temporary or ())
    return found[0]


def _as_written(text: str) -> str:
    """The query of a relation without what DuckDB writes around it to show its first rows."""
    shown = _SHOWN.fullmatch(text)
    if shown is None:
        return text
    depth = 0
    for token in tokenize(shown[1]):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:  # the owner wrote all of it
            return text
    return shown[1]


def _index(statement: Statement, asked: MacroCall) -> int:
    """Which call of the statement asks; DuckDB shows its function, its numbers and its item."""
    calls = statement.calls
    brief: list[_Signature] = [
        (call.function.name, call.parameters.told_apart_by, float(call.parameters.epsilon))
        for call in calls
    ]
    full = [(*one, _item(call)) for one, call in zip(brief, calls, strict=True)]
    clear = [brief.count(one) == 1 for one in brief]
    is_repeated = any(select.repeats for select in statement.selects)
    for number, call in enumerate(calls):
        is_twice = full.count(full[number]) > 1 or full[number][-1] is None
        if is_repeated or (not clear[number] and is_twice):
            raise NotSupported(
                "dp_sql cannot tell two DP calls of this statement apart.",
                text=statement.text, position=call.start,
                hint=IN_DP,
            )  # fmt: skip
    written = (asked.number or "").strip("[]")
    numbers = tuple(Fraction(one.strip()) for one in written.split(",") if one)
    wanted: _Signature = asked.function, numbers, asked.epsilon and float(asked.epsilon)
    item = _column(asked.item.partition("(")[2][:-1])
    for number, one in enumerate(brief):
        if one == wanted and (clear[number] or full[number][-1] == item):
            return number
    raise NotSupported("DuckDB does not show dp_sql which call this is.", hint=IN_DP)


def _item(call: DpCall) -> str | None:
    """The column that is the item of a call; None for an expression."""
    return _column(call.columns[call.function.positional[0]].text)


def _column(text: str) -> str | None:
    """The name of a column without its table's, which DuckDB may leave out when it prints it."""
    with suppress(QueryError):
        if names := tokenize(text).names:
            return folded(names[-1])
    return None

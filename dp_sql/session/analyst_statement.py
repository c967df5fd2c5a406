"""Which statements may an analyst run? One SELECT, EXPLAIN SELECT, SHOW TABLES or DESCRIBE."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from dp_sql.errors import NotSupported
from dp_sql.policy.model import Policy
from dp_sql.privacy.refusals import BY_PARAMETER, OF_PIVOT
from dp_sql.session.describe import described_name
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.restated import Restated
from dp_sql.sql.statement import Statement, mentions_ours, parse
from dp_sql.sql.statement_limits import check_bytes, check_parameters, check_shape
from dp_sql.sql.tokens import QUERY, SHORT, Tokens, with_plain_spaces
from dp_sql.udfs.mechanism import in_words

_HINTS = {
    "SET VARIABLE": BY_PARAMETER,
    "PIVOT": OF_PIVOT,
    "UNPIVOT": "Write FROM (SELECT …) UNPIVOT (n FOR name IN (a, b)).",
}


def analyst_statement(text: str, params: object, policy: Policy) -> Statement:
    """The statement of a string of SQL; NotSupported or ParseError if no analyst may run it."""
    if not isinstance(text, str):
        raise NotSupported("A query must be a string.")
    if params is not None and not isinstance(params, list | tuple | dict):
        raise NotSupported("Parameters are a list, a tuple or a dictionary.")
    check_parameters(params)
    statement = one_statement(text)
    if described_name(statement.tokens) is not None:
        return statement
    if (query := statement.without_describe()) is not None:
        return query
    if statement.keyword == "EXPLAIN":
        tokens, statement = statement.tokens, statement.without_explain()
        if not statement.is_query:  # nor are DuckDB's own options of EXPLAIN taken
            message = "EXPLAIN must be followed by a SELECT with DP calls."
            start = next((i for i, t in enumerate(tokens) if t.upper in QUERY), 1)
            options = tokens[1:start]  # such as ANALYZE
            has_calls = mentions_ours(options.text)
            instead = [Restated(options.put(""))] if options and not has_calls else ()
            raise tokens[min(1, len(tokens) - 1)].error(NotSupported, message, None, instead)
    elif not statement.may_be_query:
        raise _no_query(statement, policy)
    return statement


def _no_query(statement: Statement, policy: Policy) -> NotSupported:
    """The refusal of a statement of a kind that no analyst may run."""
    message = "Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and DESCRIBE."
    tables = [*policy.tables] or [("ratings",)]
    named = ".".join(map(shown_name, tables[0]))
    epsilon = in_words(min(policy.limits.max_epsilon_per_query or Fraction(1), Fraction(1)))
    example = f"For example: SELECT DP_COUNT(*, epsilon := {epsilon}) FROM {named}"
    first = " ".join(token.upper for token in statement.tokens[:2])
    hint = _HINTS.get(statement.keyword) or _HINTS.get(first, example)
    instead = _query_within(statement.tokens)
    if statement.keyword in {"PIVOT", "UNPIVOT"}:
        from dp_sql.session.corrections.pivots import in_from

        said, instead = in_from(statement.tokens, policy)
        hint = f"{hint} {said}".strip()
    if instead:
        return statement.tokens[0].error(NotSupported, message, hint, instead)
    return NotSupported(message, hint=hint)  # DuckDB's parser may know better


def one_statement(text: str) -> Statement:
    """The one statement of a string of SQL, which no parser has seen before its size is checked."""
    return (_one_statement if len(text) <= SHORT else _one_statement.__wrapped__)(text)


@lru_cache(256)
def _one_statement(text: str) -> Statement:
    check_bytes(text)
    if "\0" in text:  # DuckDB would read the text up to there
        raise NotSupported(
            "A query cannot contain a NUL character.", text=text, position=text.index("\0")
        )
    text = with_plain_spaces(text)
    found = parse(text, under_policy=True)
    if not found:
        raise NotSupported("There is no statement to run.")
    if len(found) > 1:
        position, cut = found[1].span[0], found[0].span[1]
        message = "Under a policy you can run one statement at a time."
        instead = [f"{text[:cut]} {text[position:]}", text[:cut]]
        raise NotSupported(message, text=text, position=position, instead=instead)
    check_shape(found[0])
    return found[0]


def _query_within(tokens: Tokens) -> list[str]:
    """The query that another statement holds or is: CREATE TABLE … AS …, COPY (…), SUMMARIZE …."""
    first, begin = tokens[0].upper, next((i for i, t in enumerate(tokens) if t.upper in QUERY), 0)
    is_inner = begin > 0 and tokens[begin - 1].is_symbol("(")
    end = tokens.matching(begin - 1) if is_inner else len(tokens)
    query = tokens[begin:end].text if begin else ""
    if first in {"DESCRIBE", "DESC"} and len(tokens) == 1:
        return [Restated("SHOW TABLES")]
    if first == "SUMMARIZE":
        about = f"SUMMARIZE FROM ({query})" if query else tokens.text
        return [Restated(f"FROM ({about})")]
    if first in {"PRAGMA", "TABLE"}:
        named = tokens.at(3 if first == "PRAGMA" else 1).text.strip("'")
        is_info = tokens.at(1).upper == "TABLE_INFO"
        other = f"DESCRIBE {named}" if is_info else f"FROM {named}"
        return [Restated("SHOW TABLES" if tokens.at(1).upper == "SHOW_TABLES" else other)]
    if first not in {"CREATE", "COPY", "PREPARE"} or not query:
        return []
    return [Restated(query)]

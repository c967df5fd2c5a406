"""A refusal under a policy in an analyst's words: what the policy says, and what may be asked."""

import re
from collections.abc import Callable
from fractions import Fraction

import duckdb

from dp_sql.errors import NotPrivate, QueryError
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.session.analyst_statement import one_statement
from dp_sql.session.corrections.duckdb_errors import explained
from dp_sql.session.corrections.other_tables import with_table_of
from dp_sql.session.corrections.private_tables import private_table
from dp_sql.sql.formatting import literal
from dp_sql.sql.parameters import as_literal
from dp_sql.sql.restated import Restated
from dp_sql.sql.select_list import Functions
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import Tokens, tokenize

_UNIT = re.compile(r", privacy_unit := \w+(?=[,)])")  # the policy names it
_NO_TABLE = re.compile(r'Table with name "?(.+?)"? does not exist')
# Values that an error does not propose: they could not be compared, or are too long to read.
_NOT_COMPARED, _LONGEST = {"nan", "inf", "-inf"}, 1000
_BESIDE_VALUES = ("=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "(", ",")

PublicValue = Callable[[str], tuple[object, str | None, str]]
"""The one value of a query, the same as a string, and its type; raises if it reads private rows."""


def reworded(
    error: QueryError, text: str, tables: PolicyTables, public_value: PublicValue
) -> QueryError:
    """A refusal without privacy units, and with public values or the table of an unknown column."""
    if error.hint:
        error.hint = _UNIT.sub("", error.hint)
    if not isinstance(error, NotPrivate) or error.position is None:
        return error
    tokens = tokenize(text)
    constant = _constant_at(tokens, error.position)
    has_cte = not one_statement(text).ctes.isdisjoint(token.folded for token in constant)
    values = _with_value(constant, public_value) if constant and not has_cte else []
    error.instead = (*values, *error.instead)
    if error.unknown:
        said, joined = with_table_of(tokens, error.position, error.unknown, tables)
        if said:  # the name is a column elsewhere, not a string
            own = [one for one in error.instead if literal(error.unknown) not in one]
            error.hint, error.instead = said, (*joined, *own)
    return error


def explained_under_policy(
    error: duckdb.Error,
    statement: Statement,
    tables: PolicyTables,
    functions: Functions,
    epsilon: Callable[[], Fraction],
) -> QueryError | None:
    """DuckDB's error in the user's words; the public connection has no private table."""
    found = _NO_TABLE.search(str(error))
    if found is not None:
        parts = tables.parts_of(found[1])
        refusal = private_table(parts, statement.tokens, tables, functions, epsilon)
        if refusal is not None:
            return refusal
    return explained(error, statement, tables.names())


def _with_value(constant: Tokens, public_value: PublicValue) -> list[str]:
    """The statement with the value of a subquery over public tables, or of constants."""
    try:
        value, shown, kind = public_value(f"SELECT {constant.text}")
        if shown in _NOT_COMPARED or kind.endswith("]") or len(shown or "") > _LONGEST:
            return []
        is_span = kind == "INTERVAL"  # whose months Python's timedelta does not have
        return [Restated(constant.put(f"INTERVAL '{shown}'" if is_span else as_literal(value)))]
    except (QueryError, duckdb.Error, ValueError):  # it reads columns or private tables
        return []


def _constant_at(tokens: Tokens, position: int) -> Tokens:
    """The subquery in brackets, or the call, that is refused at a place and may be one value."""
    i = next((i for i, token in enumerate(tokens) if token.start == position), 0)
    inside = tokens.queries_around(i)[0][0]
    first = i - 2 if tokens[i].kind in {"string", "number"} else i  # the argument of a call
    opening = first + 1
    if inside and tokens[inside - 1].is_symbol("("):
        first = opening = inside - 1
    before = tokens[first - 1] if first > 0 else None
    if before is None or not tokens[min(opening, len(tokens) - 1)].is_symbol("("):
        return Tokens()
    close = tokens.matching(opening)
    is_value = before.is_symbol(*_BESIDE_VALUES) or before.upper in {"BETWEEN", "AND", "OR"}
    is_compared = tokens.at(close + 1).is_symbol(*_BESIDE_VALUES[:7])
    is_value |= is_compared and first == opening  # a subquery, which is not another call's bracket
    return tokens[first : close + 1] if is_value else Tokens()

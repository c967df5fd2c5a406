"""What may an analyst's statement read besides its DP calls? Only public tables, and itself."""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.sql.clauses import enclosing_select
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.select_list import Functions
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import Token, Tokens

# Table functions and pragmas that an analyst may call: they read their arguments alone.
_ROWS_FROM_NOTHING = frozenset({"unnest", "range", "generate_series", "repeat", "version"})
# json_serialize_plan binds another query, and computes its constants.
_STATE = frozenset(
    {"current_setting", "getvariable", "nextval", "currval", "write_log", "json_serialize_plan"}
)
_SYSTEM_SCHEMAS = {"information_schema"}
_COUNT_BY_GROUPS = (
    "Count by groups: SELECT x, DP_COUNT(*, …) AS n FROM … GROUP BY x, or count(*) for public rows."
)
_WHAT_IS_PUBLIC = "SHOW TABLES lists the tables, and DESCRIBE shows the columns of one."
_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "CREATE", "DROP", "ALTER", "TRUNCATE"}


class Read(NamedTuple):
    """What DuckDB finds in a query whose tokens may not show it all.

    views: of DuckDB's catalog. They show the server's folders and settings, and the tables of the
        public side instead of the policy's.
    functions: all that it calls. others: the keywords of statements in it that are no SELECT.
    """

    views: Collection[str] = ()
    functions: Collection[str] = ()
    others: Collection[str] = ()


def only_reads(statement: Statement, functions: Functions, read: Read) -> None:
    """Under a policy: refuse table functions, which read the engine, and CTEs that make changes."""
    tokens = statement.tokens
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        inside = before.is_symbol("(") and not after.is_symbol(")", ",", ".")
        if inside and token.kind == "word" and token.upper in _CHANGES:
            raise _not_a_query(token.upper, token)
    for word in sorted(read.others):
        token = next((token for token in tokens if token.upper == word), tokens[0])
        raise _not_a_query(word, token)
    for what, token in _of_catalog(tokens, read.views):
        message = f"{what} is not available under a policy: it does not show your tables."
        raise token.error(NotSupported, message, _WHAT_IS_PUBLIC, _instead_of_catalog(tokens))
    names = dict.fromkeys(sorted(read.functions), tokens[0]) | tokens.called()
    kinds = functions.function_kinds(frozenset(names))
    for name, token in names.items():
        looks = {"table", "table_macro", "pragma"} & kinds.get(name, frozenset())
        if (looks and name not in _ROWS_FROM_NOTHING) or name in _STATE:
            why, hint = "it can read more than public tables", _WHAT_IS_PUBLIC
            if name == "histogram":
                why, hint = "DuckDB also has a table function of this name", _COUNT_BY_GROUPS
            message = f"{name} is not available under a policy: {why}."
            instead = _instead_of_catalog if name.startswith("duckdb_") else _by_groups
            raise token.error(NotSupported, message, hint, instead(tokens))


def _not_a_query(word: str, token: Token) -> NotSupported:
    if word == "SHOW":
        message = "SHOW is a statement of its own, and not part of a query."
        return token.error(NotSupported, message, _WHAT_IS_PUBLIC, [Restated("SHOW TABLES")])
    return token.error(NotSupported, f"A query reads; it does not {word}.")


def _of_catalog(tokens: Tokens, views: Collection[str]) -> Iterator[tuple[str, Token]]:
    """What a statement names of DuckDB's catalog, and where."""
    for token, after in pairwise(tokens):
        if token.folded in _SYSTEM_SCHEMAS and after.is_symbol("."):
            yield token.text, token
    for view in sorted(views):
        named = next((token for token in tokens if token.folded == view), None)
        yield (view, tokens[0]) if named is None else (named.text, named)  # a string may name it


def _instead_of_catalog(tokens: Tokens) -> list[str]:
    """What an analyst may ask in place of a query of the catalog: its tables, or some columns."""
    given = {
        token.folded: value.text.strip("'")
        for token, sign, value in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if sign.is_symbol("=") and value.kind == "string"
    }
    name = [shown_name(given[one]) for one in ("table_schema", "table_name") if one in given]
    is_of_columns = any(token.folded in {"columns", "duckdb_columns"} for token in tokens)
    if is_of_columns and "table_name" in given:
        return [OtherQuestion(f"DESCRIBE {'.'.join(name)}")]
    return [OtherQuestion("SHOW TABLES")]


def _by_groups(tokens: Tokens) -> list[str]:
    """SELECT histogram(x) FROM … as the numbers of rows by x."""
    if [t.upper for t in tokens[:2]] != ["SELECT", "HISTOGRAM"]:
        return []
    select = enclosing_select(tokens, 1)
    close = tokens.matching(2)
    words = {clause.keyword for clause in select.clauses}
    if words <= {"SELECT", "FROM", "WHERE"} and select.clauses[0].stop <= close + 3:
        item = tokens[3:close].text
        body = tokens[select.clauses[1].start : select.clauses[-1].stop].text
        people = f"SELECT {item}, DP_COUNT(*) AS n {body} GROUP BY {item}"
        count = f"count({item})"  # of public rows; no NULL has a count
        public = f"SELECT {item}, {count} AS n {body} GROUP BY {item} HAVING {count} > 0"
        return [Restated(people), Restated(public)]
    return []

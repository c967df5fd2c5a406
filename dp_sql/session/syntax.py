"""Is a statement SQL that DuckDB reads? sqlglot reads more: to it, BETWEEN 1 2 lacks nothing."""

from collections.abc import Callable, Sequence

import duckdb

from dp_sql.errors import QueryError
from dp_sql.sql.tokens import Tokens, tokenize


def check_syntax(
    tokens: Tokens, parse: Callable[[str], object], plan: Callable[[], object],
    *, under_policy: bool = False,
) -> None:  # fmt: skip
    """Raise ParseError for a statement that DuckDB's parser, which `parse` asks, cannot read.

    It proposes what `plan` does where it refuses the statement, as for a JOIN without ON.
    """
    try:
        parse(tokens.text)
    except (duckdb.ParserException, duckdb.NotImplementedException):
        from dp_sql.session.corrections.duckdb_errors import syntax_error

        source, (start, stop) = tokens[0].source, tokens.span
        around = [one for one in tokenize(source) if not start <= one.start < stop]
        is_whole = all(token.is_symbol(";") for token in around)  # with comments before it
        wrong = syntax_error(source if is_whole else tokens.text, parse, under_policy)
        if wrong is not None:
            wrong.instead = (*wrong.instead, *_proposed(plan))
            raise wrong from None


def _proposed(plan: Callable[[], object]) -> Sequence[str]:
    try:
        plan()
    except QueryError as refused:
        return refused.instead
    except Exception:  # nothing is known of sqlglot's tree of what DuckDB cannot read
        pass
    return ()

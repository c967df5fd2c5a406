"""Can DuckDB read a statement? sqlglot accepts more, such as BETWEEN 1 2, and guesses."""

from collections.abc import Callable

import duckdb

from dp_sql.sql.tokens import Tokens, tokenize


def check_syntax(
    tokens: Tokens, parse: Callable[[str], object], *, under_policy: bool = False
) -> None:
    """Raise ParseError for a statement that DuckDB's parser, which `parse` asks, cannot read."""
    try:
        parse(tokens.text)
    except (duckdb.ParserException, duckdb.NotImplementedException):
        from dp_sql.session.corrections.duckdb_errors import syntax_error

        source, (start, stop) = tokens[0].source, tokens.span
        around = [one for one in tokenize(source) if not start <= one.start < stop]
        is_whole = all(token.is_symbol(";") for token in around)  # with comments before it
        wrong = syntax_error(source if is_whole else tokens.text, parse, under_policy=under_policy)
        if wrong is not None:
            raise wrong from None

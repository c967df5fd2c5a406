"""Is a statement SQL that DuckDB reads? sqlglot reads more: to it, BETWEEN 1 2 lacks nothing."""

from collections.abc import Callable

import duckdb


def check_syntax(text: str, parse: Callable[[str], object], *, under_policy: bool = False) -> None:
    """Raise ParseError for a statement that DuckDB's parser, which `parse` asks, cannot read."""
    try:
        parse(text)
    except duckdb.ParserException:
        from dp_sql.session.corrections.duckdb_errors import syntax_error

        if (wrong := syntax_error(text, parse, under_policy)) is not None:
            raise wrong from None

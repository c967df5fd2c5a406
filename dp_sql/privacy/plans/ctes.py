"""The CTEs that a SELECT with DP calls may name."""

from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.tokens import tokenize


def cte_bodies(select: DpSelect) -> dict[str, str]:
    """The SQL of the CTEs that a SELECT may name, by folded name, in their order."""
    return {name: body_of_cte(select.text[a:b]) for (a, b), name in spans_of_ctes(select)}


def spans_of_ctes(select: DpSelect) -> list[tuple[tuple[int, int], str]]:
    """Where the CTEs that a SELECT may name are written, and their names, in their order."""
    spans = sorted((span, name) for name, span in select.ctes.items() if span is not None)
    return [(span, name) for span, name in spans if span[1] <= select.source[0]]


def body_of_cte(text: str) -> str:
    """The query of a CTE, whose text may begin with its column list: (a, b) AS (SELECT …."""
    tokens = tokenize(text)
    columns = tokens.matching(0) + 1 if tokens.at(0).is_symbol("(") else len(tokens)
    if tokens.at(columns).upper != "AS":
        return text
    start = next(token.end for token in tokens[columns:] if token.is_symbol("("))
    return f"SELECT * FROM ({text[start:]}\n) AS cte{text[: tokens[columns - 1].end]}"

"""Calls with more arguments than DuckDB takes, some of which sqlglot leaves out silently."""

import re
from collections.abc import Callable, Collection

from dp_sql.errors import SourceError
from dp_sql.sql.restated import OtherQuestion
from dp_sql.sql.tokens import Tokens

_MOST = {
    name: most
    for most, names in enumerate((
        "any_value array_agg array_distinct ceil ceiling encode epoch_ms floor hex "
        "list_distinct log10 log2 sha256 to_hex",
        "array_append array_prepend date_trunc datetrunc get_bit json_extract_path_text "
        "json_extract_string json_keys list_prepend list_reverse_sort ltrim mod position "
        "quantile quantile_cont quantile_disc rtrim strftime strptime xor",
        "arg_max arg_min argmax argmin date_diff datediff generate_series lpad max_by min_by range "
        "rpad",
        "array_slice regexp_extract regexp_extract_all regexp_replace",
    ), 1)
    for name in names.split()
}  # fmt: skip
_OF_CTE = re.compile(r"AS (?:(?:NOT )?MATERIALIZED )?\(|USING KEY\b", re.IGNORECASE)


def refuse_surplus(tokens: Tokens, users: Callable[[], Collection[str]] = tuple) -> None:
    """Refuse (SourceError) date_trunc('month', day, 'UTC') and the like, as DuckDB does.

    users: names of users' functions, which may take more; asked for only if one is called so.

    >>> from dp_sql.sql.tokens import tokenize
    >>> refuse_surplus(tokenize("SELECT log10(x), log10(x, 2)"))
    Traceback (most recent call last):
    ...
    dp_sql.errors.SourceError: log10 takes at most 1 argument.
    <BLANKLINE>
    LINE 1: SELECT log10(x), log10(x, 2)
                             ^
    """
    # Of each open bracket: its place, the commas in it, and 0 if they are behind ORDER BY, else 1.
    opened: list[list[int]] = []
    for i, token in enumerate(tokens):
        if token.opens:
            opened.append([i, 0, 1])
        elif token.is_symbol(",") and opened:
            opened[-1][1] += opened[-1][2]
        elif token.upper == "ORDER" and opened and tokens.at(i + 1).upper == "BY":
            opened[-1][2] = 0
        elif token.closes and opened:
            opening, n_commas, counts = opened.pop()
            n_commas -= counts * tokens[i - 1].is_symbol(",")  # DuckDB 2.0 takes (a, b,)
            most = _MOST.get(tokens.at(opening - 1).folded) if n_commas else None
            if most is None or n_commas < most or _is_alias(tokens, opening, i):
                continue
            if tokens[opening - 1].folded not in users():
                raise _surplus(tokens, opening, i, most)


def _is_alias(tokens: Tokens, opening: int, close: int) -> bool:
    """Whether a name before a bracket is that of a relation with columns, or of another schema."""
    before, after = tokens.at(opening - 2), tokens[close + 1 : close + 5]
    is_cte = _OF_CTE.match(" ".join(token.text for token in after)) is not None
    return before.upper in {"AS", "INTO"} or before.is_symbol(")", ".") or is_cte


def _surplus(tokens: Tokens, opening: int, close: int, most: int) -> SourceError:
    parts = tokens.split(opening + 1, close)
    kept = ", ".join(tokens[slice(*part)].text for part in parts[:most])
    name, fewer = tokens[opening - 1], tokens[opening + 1 : close].put(kept)
    message = f"{name.text} takes at most {most} argument{'s' * (most != 1)}."
    return name.error(SourceError, message, None, [OtherQuestion(fewer)])

"""FILTER (WHERE …) after a DP call: where it ends, and which rows it keeps."""

from dp_sql.errors import ParseError
from dp_sql.sql.given import Argument
from dp_sql.sql.restated import Narrowed
from dp_sql.sql.tokens import Tokens


def end_of_call(tokens: Tokens, index: int) -> int:
    """The last token of the call whose name is at `index`: a bracket, also that of FILTER (…).

    >>> from dp_sql.sql.tokens import tokenize
    >>> [end_of_call(tokenize(sql), 0) for sql in ("f(x) AS n", "f(x) FILTER (y) AS n")]
    [3, 7]
    """
    close = tokens.matching(index + 1)
    return tokens.matching(close + 2) if _is_filtered(tokens, close) else close


def kept_by_filter(tokens: Tokens, close: int) -> Argument:
    """The condition of FILTER behind the bracket at `close`, where WHERE may be left out.

    No tokens: there is no FILTER. ParseError: it has no condition.
    """
    if not _is_filtered(tokens, close):
        return Argument()
    begin = close + 3 + (tokens.at(close + 3).upper == "WHERE")
    condition = Argument(tokens[begin : tokens.matching(close + 2)])
    if not condition:
        hint = "For example: FILTER (WHERE year > 2000)"
        instead = [Narrowed(tokens[close : tokens.matching(close + 2) + 1].put(")"))]
        raise tokens[close + 1].error(ParseError, "FILTER needs a condition.", hint, instead)
    return condition


def _is_filtered(tokens: Tokens, close: int) -> bool:
    return tokens.at(close + 1).upper == "FILTER" and tokens.at(close + 2).is_symbol("(")

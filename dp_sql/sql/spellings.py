"""Other spellings of what is refused; a session tries each text before it shows one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import CLOSE, OPEN, Token, put, text_of

_NEAREST = 3
_NO_CALLS = {"WHERE", "AND", "OR", "NOT", "ON", "SELECT", "BY", "HAVING", "WHEN", "THEN", "ELSE",
             "CASE", "BETWEEN", "IN"}  # fmt: skip


def respelled(node: Node, tokens: Sequence[Token], position: int) -> list[str]:
    """Texts with another spelling of the refused node, which is near a place; there may be none.

    A cast becomes a TRY_CAST, ~ and SIMILAR TO regexp_full_match, and UNION a UNION ALL.
    """
    match node:
        case exp.Cast():
            found = [_tried(tokens, i) for i in range(1, len(tokens))]
        case exp.RegexpLike() | exp.RegexpFullMatch() | exp.SimilarTo():  # ~ by version
            found = [_matched(tokens, i) for i in range(1, len(tokens) - 1)]
        case exp.Union():
            unions = [i for i, token in enumerate(tokens) if token.upper == "UNION"]
            found = [(i, put(tokens[i : i + 1], "UNION ALL")) for i in unions]
        case _:
            found = []
    known = [one for one in found if one is not None]
    known.sort(key=lambda one: abs(tokens[one[0]].start - position))
    return [text for _, text in known[:_NEAREST]]


def _tried(tokens: Sequence[Token], i: int) -> tuple[int, str] | None:
    """`x::type` or CAST(x AS type) as TRY_CAST, and its place."""
    if tokens[i].upper == "CAST":
        return i, put(tokens[i : i + 1], "TRY_CAST")
    if not tokens[i].is_symbol("::"):
        return None
    first, last = _operand(tokens, i), i + 1
    if last + 1 < len(tokens) and tokens[last + 1].is_symbol("("):  # DECIMAL(18, 2)
        last = next((j for j in range(last, len(tokens)) if tokens[j].is_symbol(")")), last)
    written, kind = text_of(tokens[first:i]), text_of(tokens[i + 1 : last + 1])
    return i, put(tokens[first : last + 1], f"TRY_CAST({written} AS {kind})")


def _matched(tokens: Sequence[Token], i: int) -> tuple[int, str] | None:
    """`x ~ 'pattern'` and `x SIMILAR TO 'pattern'` as a function, and its place."""
    similar = tokens[i].upper == "SIMILAR" and tokens[i + 1].upper == "TO"
    pattern = i + 1 + similar
    is_plain = pattern < len(tokens) and tokens[pattern].kind == "string"
    if not (similar or tokens[i].is_symbol("~")) or not is_plain:
        return None
    first = _operand(tokens, i)
    call = f"regexp_full_match({text_of(tokens[first:i])}, {tokens[pattern].text})"
    return i, put(tokens[first : pattern + 1], call)


def _operand(tokens: Sequence[Token], end: int) -> int:
    """Where the operand before a token begins: at a name, a.b, a call or a bracket."""
    i, depth = end - 1, 0
    while i > 0:
        depth += tokens[i].is_symbol(*CLOSE) - tokens[i].is_symbol(*OPEN)
        before = tokens[i - 1]
        is_called = tokens[i].is_symbol("(") and before.name and before.upper not in _NO_CALLS
        if depth == 0 and not (is_called or tokens[i].is_symbol(".") or before.is_symbol(".")):
            break
        i -= 1
    return i

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

    A cast becomes a TRY_CAST, ~ the function that sqlglot takes it for, and UNION a UNION ALL.
    """
    match node:
        case exp.Cast():
            found = [_tried(tokens, i) for i in range(1, len(tokens))]
        case exp.RegexpLike() | exp.RegexpFullMatch():
            whole = isinstance(node, exp.RegexpFullMatch)
            word = "regexp_full_match" if whole else "regexp_matches"
            found = [_matched(tokens, i, word) for i in range(1, len(tokens) - 1)]
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


def _matched(tokens: Sequence[Token], i: int, word: str) -> tuple[int, str] | None:
    """`x ~ 'pattern'` and `x !~ 'pattern'` as a function, and its place."""
    if not tokens[i].is_symbol("~") or tokens[i + 1].kind != "string":
        return None
    negated = tokens[i - 1].is_symbol("!")
    first = _operand(tokens, i - negated)
    written = text_of(tokens[first : i - negated])
    call = f"{'NOT ' * negated}{word}({written}, {tokens[i + 1].text})"
    return i, put(tokens[first : i + 2], call)


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

"""Other spellings of what is refused; a session tries each text before it shows one."""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from dp_sql.sql.restated import Restated
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import (
    CLOSE,
    OPEN,
    Token,
    at_depth_zero,
    edited,
    matching,
    put,
    queries_around,
    text_of,
    token_at,
)

_NEAREST = 3
_NO_CALLS = {"WHERE", "AND", "OR", "NOT", "ON", "SELECT", "BY", "HAVING", "WHEN", "THEN", "ELSE",
             "CASE", "BETWEEN", "IN"}  # fmt: skip


def respelled(node: Node, tokens: Sequence[Token], position: int) -> list[str]:
    """Statements with another spelling of the refused node, which is near a place; maybe none.

    A cast becomes TRY_CAST, x // 10 of decimals a floor, ~ the function that sqlglot takes it for,
    UNION becomes SELECT DISTINCT over UNION ALL, INTERSECT becomes IN, EXCEPT becomes NOT IN,
    make_date(…) a literal, a number gets quotes or loses them, LIMIT and RECURSIVE are left out,
    and an outer join becomes one that keeps the private rows.
    """
    match node:
        case exp.Cast():
            found = [_tried(tokens, i) for i in range(1, len(tokens))]
        case exp.IntDiv():
            found = [_floored(tokens, i) for i in range(1, len(tokens) - 1)]
        case exp.RegexpLike() | exp.RegexpFullMatch():
            whole = isinstance(node, exp.RegexpFullMatch)
            word = "regexp_full_match" if whole else "regexp_matches"
            found = [_matched(tokens, i, word) for i in range(1, len(tokens) - 1)]
        case exp.Union():
            found = [_united(tokens, i) for i, t in enumerate(tokens) if t.upper == "UNION"]
        case exp.Intersect() | exp.Except():
            signs = {"INTERSECT": "IN", "EXCEPT": "NOT IN"}
            found = [
                _with_in(tokens, i, signs[token.upper])
                for i, token in enumerate(tokens)
                if token.upper in signs
            ]
        case exp.Column() if len(node.parts) == 2:  # events.day where events has another alias
            parts = [(i, tokens[i : i + 2]) for i in range(len(tokens) - 2)]
            found = [
                (i, put(two, "")) for i, two in parts
                if two[0].name == node.table and two[1].is_symbol(".")
            ]  # fmt: skip
        case exp.Literal():
            found = [_other_literal(tokens, i, node) for i in range(len(tokens))]
            found += [_as_truth(tokens, i, node) for i in range(len(tokens))]
        case exp.DateFromParts() | exp.StrToTime():
            found = [_as_literal(tokens, i) for i in range(len(tokens) - 3)]
        case exp.Table():  # a CTE of WITH RECURSIVE
            found = [(i, put([t], "")) for i, t in enumerate(tokens) if t.upper == "RECURSIVE"]
        case exp.Limit() | exp.Offset():
            text = tokens[0].source
            found = [
                (i, text[: tokens[i - 1].end] + text[tokens[i + 1].end :])
                for i, token in enumerate(tokens)
                if token.upper in {"LIMIT", "OFFSET"}
            ]
        case exp.Join():
            found = [one for i in range(len(tokens) - 2) for one in _other_joins(tokens, i)]
        case _:
            found = []
    known = [one for one in found if one is not None]
    known.sort(key=lambda one: abs(tokens[one[0]].start - position))
    return [text for _, text in known[:_NEAREST]]


def _united(tokens: Sequence[Token], i: int) -> tuple[int, str] | None:
    """SELECT DISTINCT over UNION ALL in place of a query with a UNION, if it has the same rows.

    A UNION ALL behind the last UNION keeps its rows as often as they are.
    """
    start, stop = queries_around(tokens, i)[0]
    here = [*at_depth_zero(tokens, start, stop)]
    unions = [n for n in here if tokens[n].upper == "UNION"]
    others = {"INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET"} & {tokens[n].upper for n in here}
    if others or token_at(tokens, unions[-1] + 1).upper == "ALL":
        return None
    lasts = [n + (token_at(tokens, n + 1).upper in {"ALL", "DISTINCT"}) for n in unions]
    edits = [
        (tokens[n].start, tokens[last].end, "UNION ALL")
        for n, last in zip(unions, lasts, strict=True)
    ]
    written = edited(tokens[0].source, edits, tokens[start].start, tokens[stop - 1].end)
    return i, Restated(put(tokens[start:stop], f"SELECT DISTINCT * FROM ({written})"))


def _other_literal(tokens: Sequence[Token], i: int, node: exp.Literal) -> tuple[int, str] | None:
    """'3' for 3, or 3 for '3', and its place."""
    quoted = f"'{node.this}'"
    own, other = (quoted, node.this) if node.is_string else (node.this, quoted)
    if tokens[i].text != own or not node.this.replace(".", "", 1).isdecimal():
        return None
    return i, put(tokens[i : i + 1], other)


def _as_truth(tokens: Sequence[Token], i: int, node: exp.Literal) -> tuple[int, str] | None:
    """TRUE for 1 or 'true' beside a BOOLEAN, and its place."""
    known = {"'true'": "TRUE", "'false'": "FALSE", "1": "TRUE", "0": "FALSE"}
    own = f"'{node.this}'" if node.is_string else node.this
    truth = known.get(own.lower())
    if tokens[i].text != own or truth is None:
        return None
    return i, Restated(put(tokens[i : i + 1], truth))


def _tried(tokens: Sequence[Token], i: int) -> tuple[int, str] | None:
    """`x::type` or CAST(x AS type) as TRY_CAST, and its place."""
    if tokens[i].upper == "CAST":
        return i, Restated(put(tokens[i : i + 1], "TRY_CAST"))
    if not tokens[i].is_symbol("::"):
        return None
    first, last = _operand(tokens, i), i + 1
    if last + 1 < len(tokens) and tokens[last + 1].is_symbol("("):  # DECIMAL(18, 2)
        last = next((j for j in range(last, len(tokens)) if tokens[j].is_symbol(")")), last)
    written, kind = text_of(tokens[first:i]), text_of(tokens[i + 1 : last + 1])
    return i, Restated(put(tokens[first : last + 1], f"TRY_CAST({written} AS {kind})"))


def _floored(tokens: Sequence[Token], i: int) -> tuple[int, str] | None:
    """`x // 10` as `TRY_CAST(floor(x / 10) AS BIGINT)`, and its place."""
    if not tokens[i].is_symbol("//") or tokens[i + 1].kind != "number":
        return None
    first = _operand(tokens, i)
    if tokens[first - 1].is_symbol("*", "/", "//", "%", "-"):  # x is not all that is divided
        return None
    written = f"TRY_CAST(floor({text_of(tokens[first:i])} / {tokens[i + 1].text}) AS BIGINT)"
    return i, put(tokens[first : i + 2], written)


def _matched(tokens: Sequence[Token], i: int, word: str) -> tuple[int, str] | None:
    """`x ~ 'pattern'` and `x !~ 'pattern'` as a function, and its place."""
    if not tokens[i].is_symbol("~") or tokens[i + 1].kind != "string":
        return None
    negated = tokens[i - 1].is_symbol("!")
    first = _operand(tokens, i - negated)
    written = text_of(tokens[first : i - negated])
    call = f"{'NOT ' * negated}{word}({written}, {tokens[i + 1].text})"
    return i, Restated(put(tokens[first : i + 2], call))


def _as_literal(tokens: Sequence[Token], i: int) -> tuple[int, str] | None:
    """`make_date(2024, 1, 31)` and `strptime('2024-01-31', …)` as literals."""
    if tokens[i].upper not in {"MAKE_DATE", "STRPTIME"} or not tokens[i + 1].is_symbol("("):
        return None
    stop = matching(tokens, i + 1)
    words = [token.text for token in tokens[i + 2 : stop]]
    if tokens[i].upper == "MAKE_DATE":
        literal = f"DATE '{'-'.join(word.zfill(2) for word in words[::2])}'"
    elif words[2:] and words[2].startswith("'%Y-%m-%d"):
        literal = f"TIMESTAMP {words[0]}"
    else:
        return None
    return i, Restated(put(tokens[i : stop + 1], literal))


def _with_in(tokens: Sequence[Token], i: int, word: str) -> tuple[int, str] | None:
    """INTERSECT and EXCEPT of queries with one column as IN and NOT IN."""
    opening, stop = queries_around(tokens, i)[0]
    left, right = tokens[opening:i], tokens[i + 1 : stop]
    if len(left) < 3 or left[2].upper != "FROM":
        return None
    query = (
        f"SELECT DISTINCT * FROM ({text_of(left)}) WHERE {left[1].text} {word} ({text_of(right)})"
    )
    return i, Restated(put(tokens[opening:stop], query))


def _other_joins(tokens: Sequence[Token], i: int) -> Iterator[tuple[int, str]]:
    """An outer join as a LEFT JOIN, perhaps with its tables exchanged, or as an inner join."""
    side = tokens[i].upper
    if side not in {"LEFT", "RIGHT", "FULL"}:
        return
    join = i + 1 + (tokens[i + 1].upper == "OUTER")
    if tokens[join].upper != "JOIN":
        return
    begin = max((j + 1 for j in range(i) if tokens[j].upper == "FROM"), default=None)
    ends = (j for j in range(join, len(tokens)) if tokens[j].upper in {"ON", "USING"})
    is_natural, end = tokens[i - 1].upper == "NATURAL", next(ends, None)
    if end is None and not is_natural:
        return
    if side == "FULL":
        yield i, put(tokens[i : join + 1], "LEFT JOIN")
    if side != "LEFT" and begin and end and not is_natural:
        left, right = text_of(tokens[begin:i]), text_of(tokens[join + 1 : end])
        exchanged = put(tokens[begin:end], f"{right} LEFT JOIN {left}")
        yield i, Restated(exchanged) if side == "RIGHT" else exchanged
    yield i, put(tokens[i : join + 1], "JOIN")


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

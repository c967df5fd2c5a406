"""Other spellings of what is refused; a session tries each text before it shows one."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from sqlglot import exp

from dp_sql.sql.clauses import AFTER_RELATION
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import Tokens

_NEAREST = 3
_NO_CALLS = {"WHERE", "AND", "OR", "NOT", "ON", "SELECT", "BY", "HAVING", "WHEN", "THEN", "ELSE",
             "CASE", "BETWEEN", "IN"}  # fmt: skip
_SIGNS = {"INTERSECT": "IN", "EXCEPT": "NOT IN"}
_OPERATORS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_TRUTHS = {"'true'": "TRUE", "'false'": "FALSE", "1": "TRUE", "0": "FALSE"}


def respelled(node: Node, tokens: Tokens, position: int) -> list[str]:
    """Statements with another spelling of the refused node, which is near a place; maybe none."""
    found = [
        (abs(token.start - position), text)
        for kinds, spelled in _SPELLINGS
        if isinstance(node, kinds)
        for i, token in enumerate(tokens)
        for text in spelled(tokens, i, node)
    ]
    found.sort(key=itemgetter(0))
    return [text for _, text in found[:_NEAREST]]


_JOINS = {"JOIN", "CROSS", "INNER", "LEFT", "OUTER", "POSITIONAL", "ASOF", "NATURAL"}


def joined_on(tokens: Tokens, position: int, equal: Sequence[str]) -> Iterator[str]:
    """Statements in which the join at a place also has one of these conditions.

    >>> from dp_sql.sql.tokens import tokenize
    >>> [*joined_on(tokenize("SELECT 1 FROM a, b WHERE x"), 17, ["a.i = b.i"])]
    ['SELECT 1 FROM a JOIN b ON a.i = b.i WHERE x']
    """
    first, start = _join_at(tokens, position)
    last = tokens.queries_around(first)[0][1]
    here = tokens.at_depth_zero(start, last)
    ends = (i for i in here if tokens[i].upper in AFTER_RELATION or tokens[i].is_symbol(","))
    end = stop = next(ends, last)
    more = ""
    if tokens.at(end).upper == "ON":
        stop = next(ends, last)
        more = tokens[end + 1 : stop].text
        more = f" AND ({more})" if " OR " in more.upper() else f" AND {more}"
    comma, text = tokens.at(first - 1).is_symbol(","), tokens[0].source
    if start >= end or tokens.at(end).upper == "USING" or not (comma or first < start):
        return
    before = f"{text[: tokens[first - 2].end]} " if comma else text[: tokens[first].start]
    word = "LEFT JOIN" if tokens.at(first).upper == "LEFT" else "JOIN"
    for one in equal:
        joined = f"{word} {tokens[start:end].text} ON {one}{more}"
        yield OtherQuestion(f"{before}{joined}{text[tokens[stop - 1].end :]}")


def _join_at(tokens: Tokens, position: int) -> tuple[int, int]:
    """Where the words of the join at a place of the text begin, and the relation behind them."""
    first = tokens.place_at(position)
    if tokens.at(first).upper not in _JOINS and not tokens.at(first - 1).is_symbol(","):
        first = tokens.queries_around(first)[0][0] - 1  # what is joined is a subquery
    while tokens.at(first - 1).upper in _JOINS:
        first -= 1
    return first, next(
        (i for i in range(first, len(tokens)) if tokens[i].upper not in _JOINS), first
    )


def _other_literal(tokens: Tokens, i: int, node: Node) -> Iterator[str]:
    """'3' for 3, or 3 for '3'; strings are not in the order of their numbers."""
    quoted = f"'{node.this}'"
    own, other = (quoted, node.this) if node.is_string else (node.this, quoted)
    if tokens[i].text != own or not node.this.replace(".", "", 1).isdecimal():
        return
    if not node.is_string and tokens.at(i - 1).is_symbol("<", "<=", ">", ">="):
        first, kind = _operand(tokens, i - 1), "DOUBLE" if "." in own else "BIGINT"
        yield tokens[first : i - 1].put(f"TRY_CAST({tokens[first : i - 1].text} AS {kind})")
    else:
        yield tokens[i].put(other)


def _as_truth(tokens: Tokens, i: int, node: Node) -> Iterator[str]:
    """TRUE for 1 or 'true' beside a BOOLEAN."""
    own = f"'{node.this}'" if node.is_string else node.this
    if tokens[i].text == own and own.lower() in _TRUTHS:
        yield Restated(tokens[i].put(_TRUTHS[own.lower()]))


def _tried(tokens: Tokens, i: int, node: Node) -> Iterator[str]:
    """`x::type` or CAST(x AS type) as TRY_CAST."""
    if isinstance(node.this, exp.Literal):  # its cast is not what fails
        return
    if tokens[i].upper == "CAST":
        yield Restated(tokens[i].put("TRY_CAST"))
    if not tokens[i].is_symbol("::"):
        return
    first, last = _operand(tokens, i), i + 1
    if tokens.at(last + 1).is_symbol("("):  # DECIMAL(18, 2)
        last = next((j for j in range(last, len(tokens)) if tokens[j].is_symbol(")")), last)
    written, kind = tokens[first:i].text, tokens[i + 1 : last + 1].text
    yield Restated(tokens[first : last + 1].put(f"TRY_CAST({written} AS {kind})"))


def _floored(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """`x // 10` of decimals as `TRY_CAST(floor(x / 10) AS BIGINT)`, if x is all that is divided."""
    divisor = tokens.at(i + 1)
    if tokens[i].is_symbol("//") and divisor.kind == "number":
        first = _operand(tokens, i)
        if not tokens.at(first - 1).is_symbol("*", "/", "//", "%", "-"):
            floor = f"floor({tokens[first:i].text} / {divisor.text})"
            yield OtherQuestion(tokens[first : i + 2].put(f"TRY_CAST({floor} AS BIGINT)"))


def _narrowed(tokens: Tokens, i: int, node: Node) -> Iterator[str]:
    """A column beside +, - or * with 18 digits, so that the result has at most 38."""
    if not tokens[i].is_symbol(_OPERATORS[type(node)]):
        return
    for side, first in ((node.this, _operand(tokens, i)), (node.expression, i + 1)):
        names = [part.name for part in side.parts] if isinstance(side, exp.Column) else []
        written = tokens[first : first + 2 * len(names) - 1]
        if names and list(written.names) == names:
            yield written.put(f"TRY_CAST({written.text} AS DECIMAL(18, 4))")


def _matched(tokens: Tokens, i: int, node: Node) -> Iterator[str]:
    """`x ~ 'pattern'`, `x !~ 'pattern'` and `x ~* 'pattern'` as the function that sqlglot reads."""
    last = i + 1 + tokens.at(i + 1).is_symbol("*")
    pattern = tokens.at(last)
    if tokens[i].is_symbol("~") and pattern.kind == "string":
        is_whole = isinstance(node, exp.RegexpFullMatch)
        word = "regexp_full_match" if is_whole else "regexp_matches"
        option = ", 'i'" if isinstance(node, exp.RegexpILike) else ""
        negated = tokens.at(i - 1).is_symbol("!")
        first = _operand(tokens, i - negated)
        written = tokens[first : i - negated].text
        call = f"{'NOT ' * negated}{word}({written}, {pattern.text}{option})"
        yield Restated(tokens[first : last + 1].put(call))


def _as_literal(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """`make_date(2024, 1, 31)` and `strptime('2024-01-31', …)` as literals."""
    if not tokens.at(i + 1).is_symbol("("):
        return
    stop = tokens.matching(i + 1)
    words = [token.text for token in tokens[i + 2 : stop]]
    if tokens[i].upper == "MAKE_DATE":
        date = f"DATE '{'-'.join(word.zfill(2) for word in words[::2])}'"
        yield Restated(tokens[i : stop + 1].put(date))
    if tokens[i].upper == "STRPTIME" and words[2:] and words[2].startswith("'%Y-%m-%d"):
        yield Restated(tokens[i : stop + 1].put(f"TIMESTAMP {words[0]}"))


def _with_in(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """INTERSECT and EXCEPT of queries with one column as IN and NOT IN."""
    if tokens[i].upper not in _SIGNS:
        return
    opening, stop = tokens.queries_around(i)[0]
    left, right = tokens[opening:i], tokens[i + 1 : stop]
    listed = left[: next((n for n, token in enumerate(left) if token.upper == "FROM"), 0)]
    if len(listed) > 1 and not any(token.is_symbol(",", "(", "*") for token in listed):
        condition = f"{listed[-1].text} {_SIGNS[tokens[i].upper]} ({right.text})"
        query = f"SELECT DISTINCT * FROM ({left.text}) WHERE {condition}"
        yield Restated(tokens[opening:stop].put(query))


def _not_in(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """`x <> ALL ([1, 2])` as x NOT IN (1, 2)."""
    is_unlike = tokens[i].upper == "ALL" and tokens.at(i - 1).is_symbol("<>", "!=")
    if is_unlike and tokens.at(i + 2).is_symbol("["):
        close = tokens.matching(i + 2)
        if tokens.at(close + 1).is_symbol(")"):
            listed = tokens[i + 3 : close].text
            yield Restated(tokens[i - 1 : close + 2].put(f"NOT IN ({listed})"))


def _without_table(tokens: Tokens, i: int, node: Any) -> Iterator[str]:
    """`day` for events.day, if events has another alias."""
    is_table = len(node.parts) == 2 and tokens[i].name == node.table
    if is_table and tokens.at(i + 1).is_symbol("."):
        yield tokens[i : i + 2].put("")


def _without_recursive(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """A CTE of WITH RECURSIVE as another one."""
    if tokens[i].upper == "RECURSIVE":
        yield tokens[i].put("")


def _without_limit(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """All rows, without LIMIT and OFFSET."""
    if tokens[i].upper in {"LIMIT", "OFFSET"} and 0 < i < len(tokens) - 1:
        text = tokens[0].source
        yield text[: tokens[i - 1].end] + text[tokens[i + 1].end :]


def _other_joins(tokens: Tokens, i: int, _: Node) -> Iterator[str]:
    """An outer join as a LEFT JOIN, perhaps with its tables exchanged, or as an inner join."""
    side = tokens[i].upper
    join = i + 1 + (tokens.at(i + 1).upper == "OUTER")
    if side not in {"LEFT", "RIGHT", "FULL"} or tokens.at(join).upper != "JOIN":
        return
    begin = max((j + 1 for j in range(i) if tokens[j].upper == "FROM"), default=None)
    ends = (j for j in range(join, len(tokens)) if tokens[j].upper in {"ON", "USING"})
    is_natural, end = tokens[i - 1].upper == "NATURAL", next(ends, None)
    if end is None and not is_natural:
        return
    if side == "FULL":
        yield tokens[i : join + 1].put("LEFT JOIN")
    if side != "LEFT" and begin and end and not is_natural:
        left, right = tokens[begin:i].text, tokens[join + 1 : end].text
        exchanged = tokens[begin:end].put(f"{right} LEFT JOIN {left}")
        yield Restated(exchanged) if side == "RIGHT" else exchanged
    yield tokens[i : join + 1].put("JOIN")


# The kinds of nodes that are refused, and how one is spelled otherwise at a token, if it is there.
_SPELLINGS: tuple[tuple[Any, Callable[[Tokens, int, Node], Iterator[str]]], ...] = (
    (exp.Cast, _tried),
    (exp.Anonymous, _not_in),
    (exp.IntDiv, _floored),
    ((exp.Add, exp.Sub, exp.Mul), _narrowed),
    ((exp.RegexpLike, exp.RegexpILike, exp.RegexpFullMatch), _matched),
    ((exp.Intersect, exp.Except), _with_in),
    (exp.Column, _without_table),
    (exp.Literal, _other_literal),
    (exp.Literal, _as_truth),
    ((exp.DateFromParts, exp.StrToTime), _as_literal),
    (exp.Table, _without_recursive),
    ((exp.Limit, exp.Offset), _without_limit),
    (exp.Join, _other_joins),
)


def _operand(tokens: Tokens, end: int) -> int:
    """Where the operand before a token begins: at a name, a.b, a call or a bracket."""
    i, depth = end - 1, 0
    while i > 0:
        depth += tokens[i].closes - tokens[i].opens
        before = tokens[i - 1]
        is_called = tokens[i].is_symbol("(") and before.name and before.upper not in _NO_CALLS
        if depth == 0 and not (is_called or tokens[i].is_symbol(".") or before.is_symbol(".")):
            break
        i -= 1
    return i

"""Does a corrected statement still ask what the refused one asked?

A correction that works may answer another question: without a condition, of other groups, about
another column. So each step from a statement to its correction is compared here, by the words of
its source, its conditions, its keys and what it aggregates. Pure: it reads tokens and no catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from dp_sql.errors import ParseError, guessed
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.restated import Narrowed, OtherQuestion, Restated
from dp_sql.sql.tokens import Token, Tokens, folded, tokenize


class Kept(IntEnum):
    """What a correction keeps of a question: LOST is never proposed, OTHER is called so."""

    LOST = 0
    OTHER = 1
    SAME = 2


_CONDITIONS = {"WHERE", "HAVING", "QUALIFY", "ON", "WHEN"}
_REGIONS = {
    **dict.fromkeys(_CONDITIONS, "condition"), "GROUP": "group", "USING": "using",
    "SELECT": "list", "FROM": "source", "JOIN": "source", "ORDER": "order", "LIMIT": "order",
    "OFFSET": "order", "TABLESAMPLE": "order", "THEN": "list", "ELSE": "list",
}  # fmt: skip
# Each changes what is asked if it goes or comes.
_CHANGES = {
    "DISTINCT", "LIMIT", "OFFSET", "SAMPLE", "TABLESAMPLE", "LEFT", "RIGHT", "FULL", "ASOF",
    "CROSS", "SEMI", "ANTI", "POSITIONAL", "UNION", "INTERSECT", "EXCEPT", "ROLLUP", "CUBE", "SETS",
    "OVER", "ORDER",
}  # fmt: skip
_NO_NAMES = _CHANGES | _REGIONS.keys() | {
    "AS", "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "ILIKE", "CASE", "THEN",
    "ELSE", "END", "BY", "CAST", "TRY_CAST", "TRUE", "FALSE", "WITH", "RECURSIVE", "ALL", "DESC",
    "ASC", "INTERVAL", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "INNER", "OUTER", "NATURAL", "FILTER",
    "WITHIN", "EXISTS", "EXPLAIN", "ANALYZE", "FORMAT", "CREATE", "TABLE", "TEMP", "VIEW", "COPY",
    "PREPARE", "DESCRIBE", "SUMMARIZE", "VALUES", "NULLS", "FIRST", "LAST", "PERCENT", "ROWS",
    "IGNORE", "RESPECT", "GROUPING",
}  # fmt: skip
# What an aggregate or DP call asks; the mode of rows is not the mode of people.
_ASKS = {
    name.lower(): function.shape.registry
    for function in FUNCTIONS.values()
    for name in (function.name, *function.aggregates, *map("DP_{}".format, function.aggregates))
} | {
    "dp_percentile": "quantile",
    **dict.fromkeys(("mode", "approx_top_k", "approx_top_count"), "most_rows"),
}
_ALIKE = 0.75  # two names of which one is surely the other mistyped, as wrad is ward
_NEAR = {"max", "min", "dp_max", "dp_min"}  # a quantile is close to these
_AGGREGATES = _ASKS.keys() | _NEAR
_NAMED = frozenset(name for function in FUNCTIONS.values() for name in function.named)


class _Words(NamedTuple):
    """The words of a statement, folded, by the part of it that they are in.

    by_region: names and values. asks: what is aggregated. called: other functions of the list.
    given: all words, also those of named arguments. aliases: names that the statement defines.
    qualified: the names before a dot, with what follows. changes: keywords, as often as they occur.
    """

    by_region: Mapping[str, set[str]]
    asks: set[str]
    called: set[str]
    given: set[str]
    aliases: set[str]
    qualified: set[str]
    changes: Mapping[str, int]
    nothing_compared: int

    def of(self, *regions: str) -> set[str]:
        """The words of some parts together."""
        return set().union(*(self.by_region.get(region, ()) for region in regions))


# Where the words of a part may go: of count(*) FILTER (WHERE …), into a CASE in the call; of
# ON x.a = y.a, into USING (a).
_MOVED = {"call": ("condition", "list"), "condition": ("using",), "using": ("condition",)}


def kept(before: str, after: str) -> Kept:
    """What a correction keeps of a statement's question."""
    if isinstance(after, Restated | OtherQuestion):
        return Kept.SAME if isinstance(after, Restated) else Kept.OTHER
    try:
        old, new = _words(before), _words(after)
    except ParseError:  # of quotes that are not closed
        return Kept.OTHER
    if new.nothing_compared > old.nothing_compared:
        return Kept.LOST
    gone = {word for word in old.qualified if word in old.aliases} - new.qualified
    if gone:  # a column of another relation is meant
        return Kept.LOST
    is_other = isinstance(after, Narrowed) or old.changes != new.changes
    found = min(_of_aggregates(old, new), Kept.OTHER if is_other else Kept.SAME)
    for region, words in old.by_region.items():
        inside = new.of(region, *_MOVED.get(region, ()))
        if region in {"list", "order", "source"}:
            inside |= new.given
        # What is another word, nearly, is mistyped, unless it names something of the statement's.
        missing = {w for w in words - inside if w in old.aliases or not guessed(w, [*inside])}
        if missing and region not in {"list", "order"}:
            return Kept.LOST
        unlike = any(not guessed(w, [*inside], _ALIKE) for w in words - inside)
        found = min(found, Kept.OTHER if unlike else Kept.SAME)
    for region in ("condition", "group"):
        moved = region == "group" or old.given & {"count_if", "countif"}  # with their numbers
        known = (old.given if moved else old.of(region)) | old.of("call", "using")
        added = new.of(region) - known - new.aliases
        added = {w for w in added if not guessed(w, [*old.given - new.given])}
        found = min(found, Kept.OTHER if added else Kept.SAME)
    return found


def _of_aggregates(old: _Words, new: _Words) -> Kept:
    missing, added = old.asks - new.asks, new.asks - old.asks
    others = {w for w in old.called - new.called - new.given if not guessed(w, [*new.given])}
    is_near = others and others <= _NEAR and "quantile" in new.asks
    if is_near or missing == {"count_distinct"} or (missing, added) == ({"most_rows"}, {"topk"}):
        return Kept.OTHER
    if missing or others:
        return Kept.LOST
    if added and not any(w.startswith("dp_") for w in old.called):  # DP_TOP for DP_TOPK
        return Kept.OTHER
    return Kept.SAME


@lru_cache(64)
def _words(text: str) -> _Words:
    tokens = tokenize(text)
    regions: dict[str, set[str]] = {}
    asks, others, aliases, qualified = set(), set(), set(), set()
    named, calls = _in_arguments(tokens), _spans_of_calls(tokens)
    parts = [*_regions(tokens)]
    for i, region in enumerate(parts):
        token, after, word = tokens[i], tokens.at(i + 1), _word(tokens[i])
        if i in named or not word or _is_every_row(tokens, i):
            continue
        is_name = token.name is not None
        if _is_alias(tokens, i, region):
            aliases.add(word)
        elif is_name and after.is_symbol("(") and word in _ASKS:
            is_distinct = tokens.at(i + 2).upper == "DISTINCT"
            asked = "count" if _is_every_row(tokens, i + 2) else _ASKS[word]
            asks.add(asked + "_distinct" * (is_distinct and asked == "count"))
        elif (
            is_name
            and after.is_symbol("(")
            and (word in _NEAR or _is_last_call(tokens, i, region, calls))
        ):
            others.add(word)
        elif is_name and after.is_symbol("."):
            qualified.add(word)
        elif region != "call" or not word.replace(".", "", 1).isdecimal():
            # Of numbers in calls, k and q, the error says what they should be.
            regions.setdefault(region, set()).add(word)
    same = sum(_compares_nothing(tokens, i) for i in range(1, len(tokens) - 1))
    given = {word for token in tokens if (word := _word(token))}
    changes = _changes(tokens, parts, named)
    return _Words(regions, asks, others, given, aliases, qualified, changes, same)


def _is_every_row(tokens: Tokens, i: int) -> bool:
    """Whether a token is the 1 of count(1) or sum(1), both of which ask for the number of rows."""
    name, after = tokens.at(i - 2).upper.removeprefix("DP_"), tokens.at(i + 1)
    is_one = tokens.at(i).text == "1" and after.is_symbol(")", ",")
    return is_one and i > 1 and tokens[i - 1].is_symbol("(") and name in {"COUNT", "SUM"}


def _is_last_call(tokens: Tokens, i: int, region: str, calls: Sequence[tuple[int, int]]) -> bool:
    """Whether a function of the list is computed over rows, and not over a DP call."""
    inside = (i + 1 < start < stop <= tokens.matching(i + 1) for start, stop in calls)
    return region in {"list", "call"} and not any(inside)


def _changes(tokens: Tokens, parts: Sequence[str], named: set[int]) -> dict[str, int]:
    """How often the keywords occur that change a question."""
    found: dict[str, int] = {}
    for i, region in enumerate(parts):
        word, before = tokens[i].upper, tokens.at(i - 1)
        if word not in _CHANGES or i in named or before.is_symbol("."):
            continue
        is_order = word == "ORDER" and (region == "call" or before.is_symbol("("))
        is_item = word == "DISTINCT" and region == "call"
        is_comparison = word == "DISTINCT" and tokens.at(i + 1).upper == "FROM"
        if not (is_order or is_item or is_comparison):
            found[word] = found.get(word, 0) + 1
    return found


def _word(token: Token) -> str:
    """A name or a value as it is compared: 'a' as a is, and '3' as 3."""
    if token.kind == "string":
        return folded(token.text.strip("'$"))
    if token.kind == "number":
        return token.text
    return "" if token.name is None or token.upper in _NO_NAMES else folded(token.name)


def _regions(tokens: Tokens) -> Iterator[str]:
    """The part of the statement that each token is in."""
    around: list[str] = []
    region = "list"
    for i, token in enumerate(tokens):
        before = tokens.at(i - 1)
        if token.is_symbol("("):
            yield region
            around.append(region)
            name = before.folded
            if (name in _AGGREGATES or name.startswith("dp_")) and before.upper not in _NO_NAMES:
                region = "call" if region in {"list", "call", "order", "condition"} else region
            if before.upper == "FILTER":  # WHERE may be left out in it
                region = "condition"
            continue
        if token.is_symbol(")") and around:
            region = around.pop()
        elif (
            token.upper in _REGIONS
            and before.upper != "WITHIN"
            and not before.is_symbol(".")
            and not (token.upper == "FROM" and before.upper == "DISTINCT")
            and not (token.upper in {"THEN", "ELSE"} and region == "call")
        ):
            if token.upper == "USING" and tokens.at(i + 1).upper == "SAMPLE":
                region = "order"
            else:
                region = _REGIONS[token.upper]
        yield region


def _is_alias(tokens: Tokens, i: int, region: str) -> bool:
    """Whether a word names an item or a relation of the statement: behind AS, or without."""
    before = tokens.at(i - 1)
    if before.upper == "AS":
        return True
    is_behind = before.is_symbol(")") or (before.name is not None and before.upper not in _NO_NAMES)
    return region == "source" and tokens[i].name is not None and is_behind


def _in_arguments(tokens: Tokens) -> set[int]:
    """The tokens of the named arguments of DP calls, however their names are written."""
    found: set[int] = set()
    for opening, closing in _spans_of_calls(tokens):
        for n, (start, stop) in enumerate(tokens.split(opening + 1, closing)):
            first, sign = tokens.at(start), tokens.at(start + 1)
            name = first.folded
            is_named = sign.is_symbol(":=", "=>", ":") or (
                n > 0 and (name in _NAMED or bool(guessed(name, _NAMED)))
            )
            if start < stop and is_named:
                found |= {*range(start, stop)}
    return found


def _spans_of_calls(tokens: Tokens) -> list[tuple[int, int]]:
    """The brackets of the calls whose names begin with dp_."""
    found = []
    for i, name in tokens.calls():
        if name.folded.startswith("dp_"):
            try:
                found.append((i + 1, tokens.matching(i + 1)))
            except ParseError:
                found.append((i + 1, len(tokens)))
    return found


def aggregates_answers(text: str) -> bool:
    """Whether DuckDB's own aggregates are computed over the answers of a subquery.

    Window functions do not count: they show each answer beside them.
    """
    tokens = tokenize(text)
    names = [
        (name.folded, tokens.queries_around(i)[0])
        for i, name in tokens.calls()
        if not _is_window(tokens, i)
    ]
    calls = [query for name, query in names if name[:3] == "dp_"]
    own = [query for name, query in names if name in {*_ASKS, *_NEAR} and name[:3] != "dp_"]
    return any(a < start and stop <= b for a, b in own for start, stop in calls)


def _is_window(tokens: Tokens, i: int) -> bool:
    try:
        return tokens.at(tokens.matching(i + 1) + 1).upper == "OVER"
    except ParseError:
        return False


_SIGNS = ("=", "==", "<", ">", "<=", ">=", "<>", "!=")


def _compares_nothing(tokens: Tokens, i: int) -> bool:
    """Whether a comparison has one column on both sides, or two constants."""
    if not tokens[i].is_symbol(*_SIGNS):
        return False
    left, right = tokens[i - 1], tokens[i + 1]
    start = i - 1
    while start > 1 and tokens[start - 1].is_symbol("."):
        start -= 2
    stop = i + 2
    while tokens.at(stop).is_symbol("."):
        stop += 2
    if stop > i + 2:
        right = tokens.at(stop - 1)
    values = {"string", "number"}
    if left.kind in values and right.kind in values:
        return True
    if left.name is None or right.name is None or folded(left.name) != folded(right.name):
        return False
    both = start < i - 1 and stop > i + 2
    return not both or tokens[start:i].text == tokens[i + 1 : stop].text

"""The DuckDB aggregates in a query, and the DP call that answers each. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from dp_sql.errors import guessed
from dp_sql.sql.clauses import SelectText, enclosing_select
from dp_sql.sql.formatting import combination
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import Tokens, folded, tokenize
from dp_sql.udfs.mechanism import in_words

_OURS = {one: f.name for f in FUNCTIONS.values() for one in f.aggregates}
ENDS = {"MIN": "0.01", "MAX": "0.99"}
_KNOWN = {*_OURS, *ENDS}
_ALSO_CALLED = {"average": "avg", "cnt": "count"}
SPREADS = {"STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STD", "VARIANCE", "VAR", "VAR_POP", "VAR_SAMP"}
OF_SPREADS = (
    "A variance is DP_AVG(x * x, …) - DP_AVG(x, …) ** 2: two releases, and each costs epsilon. "
    "Where x * x may be too large for the type of x, write x::BIGINT * x."
)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: tokens [start, stop), with FILTER and WITHIN GROUP.

    text: as it is compared with others. call: the DP call for it; None: there is none.
    """

    start: int
    stop: int
    text: str
    call: str | None
    in_window: bool
    clause: str


@dataclass
class Aggregated:
    """One SELECT with aggregates of its own."""

    select: SelectText
    depth: int
    aggregates: list[Aggregate] = field(default_factory=list)


def has_aggregates(tokens: Tokens, aggregates: Collection[str]) -> bool:
    """Whether a statement calls an aggregate."""
    return any(t.upper in _KNOWN or t.folded in aggregates for _, t in tokens.calls())


def mistyped_aggregate(name: str) -> str:
    """The aggregate that a name, folded, which is no function's may mean; "" if none is close."""
    if name.upper() in _KNOWN | {"COLUMNS", "DISTINCT"}:  # of other systems, or no function
        return ""
    return _ALSO_CALLED.get(name) or guessed(name, [one.lower() for one in _KNOWN])


def without_dp_function(tokens: Tokens, aggregates: Collection[str]) -> list[str]:
    """The aggregates of a statement that no DP function answers, in lower case."""
    found = dict.fromkeys(
        folded(token.text)
        for _, token in tokens.calls()
        if token.folded in aggregates or token.upper == "COLUMNS"
    )
    return [name for name in found if name.upper() not in _KNOWN]


def queries_of(
    tokens: Tokens, private: Collection[str], aggregates: Collection[str]
) -> list[Aggregated]:
    """The SELECTs over private relations that have aggregates of their own."""
    found: dict[int, Aggregated] = {}
    windows = list(_windows(tokens))
    spans: list[tuple[int, int]] = []
    names = reading(tokens, private)
    for i, token in tokens.calls():
        name = token.folded
        known = name in aggregates or name.upper() in _KNOWN | {"HISTOGRAM"}
        if not known or tokens.at(i - 1).is_symbol("."):
            continue
        select = enclosing_select(tokens, i)
        clause, source = select.clause_of(i), select.clause("FROM")
        if clause is None or source is None or any(a <= i < b for a, b in spans):
            continue
        if not any(t.folded in names for t in tokens[source.start : source.stop]):
            continue
        one = _aggregate(tokens, i, clause.keyword, windows)
        if one is None:  # a window function: what is in its brackets may be an aggregate
            continue
        spans.append((one.start, one.stop))
        key = select.clauses[0].start
        query = found.setdefault(key, Aggregated(select, len(tokens.queries_around(i))))
        query.aggregates.append(one)
    return [*found.values()]


def reading(tokens: Tokens, private: Collection[str]) -> set[str]:
    """The names of private relations, and of the CTEs of the statement, which may read them."""
    ctes = {
        folded(a.name)
        for a, b in pairwise(tokens)
        if a.name is not None and (b.upper == "AS" or b.is_symbol("("))
    }
    return {*private, *(ctes if tokens[0].upper == "WITH" else ())}


def _windows(tokens: Tokens) -> Iterator[tuple[int, int]]:
    """The spans of window functions, with their OVER (…)."""
    for i, (token, after) in enumerate(pairwise(tokens)):
        if token.upper == "OVER":
            stop = tokens.matching(i + 1) + 1 if after.is_symbol("(") else i + 2
            yield _call_before(tokens, i), stop


def _call_before(tokens: Tokens, end: int) -> int:
    """Where the call that ends before a token begins, perhaps with FILTER (…) behind it."""
    i, depth = end - 1, 0
    while i > 0:
        depth += tokens[i].closes - tokens[i].opens
        if depth == 0 and tokens[i].is_symbol("("):
            if tokens[i - 1].upper != "FILTER":
                return i - 1
            i -= 1
        i -= 1
    return 0


def _aggregate(
    tokens: Tokens, i: int, clause: str, windows: Sequence[tuple[int, int]]
) -> Aggregate | None:
    close = tokens.matching(i + 1)
    stop, condition, order = close + 1, "", ""
    while tokens.at(stop).upper in {"FILTER", "WITHIN"}:
        opening = stop + 1 + (tokens[stop].upper == "WITHIN")
        end = tokens.matching(opening)
        if tokens[stop].upper == "FILTER":
            has_where = tokens.at(opening + 1).upper == "WHERE"
            condition = tokens[opening + 1 + has_where : end].text
        else:
            order = tokens[opening + 3 : end].text
        stop = end + 1
    if tokens.at(stop).upper == "OVER":
        return None
    inside = tokens.split(i + 2, close)
    is_distinct = tokens.at(i + 2).upper == "DISTINCT"
    parts = [tokens[a + (is_distinct and n == 0) : b].text for n, (a, b) in enumerate(inside)]
    call = _dp_call(tokens[i].upper, [p for p in parts if p], is_distinct, condition, order)
    in_window = any(a <= i < b for a, b in windows)
    text = " ".join(token.upper or token.text for token in tokens[i:stop])
    if call in {f"DP_COUNT({item}, epsilon := {{}})" for item in "1*"}:
        text = "COUNT(*)"  # so are count(1) and sum(1)
    return Aggregate(i, stop, text, call, in_window, clause)


def _dp_call(
    name: str, parts: Sequence[str], is_distinct: bool, condition: str, order: str
) -> str | None:
    """The DP call for an aggregate, with {} for its epsilon; None: there is none."""
    function, item, more = _OURS.get(name), parts[0] if parts else "*", [*parts[1:]]
    match name:
        case "COUNT" | "ANON_COUNT" if is_distinct:
            function, item, more = "DP_COUNT_DISTINCT", _as_one([item, *more]), []
        case _ if is_distinct:
            return None
        case "COUNT_IF" | "COUNTIF":
            condition, item = f"({condition}) AND ({item})" if condition else item, "*"
        case "SUM" if item == "1":  # of each row
            function = "DP_COUNT"
        case "MODE":
            more = ["1"]
        case "MIN" | "MAX" if not more:
            function, more = "DP_QUANTILE", [ENDS[name]]
        case "PERCENTILE_CONT" | "PERCENTILE_DISC":
            item, place = _within_group(order, item)
            order, more = "", [place]
    if function is None or not item or order:
        return None
    if len(more) != len(FUNCTIONS[function].positional) - 1:
        return None
    if item == "*" and function != "DP_COUNT":
        return None
    first = "[1]" * (name == "MODE")  # which is a value, and no list
    kept = f" FILTER (WHERE {condition})" if condition else ""
    return f"{function}({', '.join([item, *more])}, epsilon := {{}}){kept}{first}"


def _as_one(items: Sequence[str]) -> str:
    """One expression for several, or for the parts of a row."""
    match items:
        case [row] if row.startswith("(") and row.endswith(")"):
            tokens = tokenize(row)
            if tokens.matching(0) == len(tokens) - 1:
                parts = [tokens[a:b].text for a, b in tokens.split(1, len(tokens) - 1)]
                items = parts if len(parts) > 1 else items
    if len(items) == 1:
        return items[0]
    return combination([item for item in items if item])  # DuckDB 2.0 takes (a, b,)


def _within_group(order: str, q: str) -> tuple[str, str]:
    """The item of WITHIN GROUP (ORDER BY …), and the quantile that is asked of it."""
    match order.split():
        case [*words, last] if last.upper() in {"ASC", "DESC"}:
            return " ".join(words), _from_above(q) if last.upper() == "DESC" else q
    return order, q


def _from_above(q: str) -> str:
    try:
        return in_words(1 - Fraction(q))
    except ValueError:
        return ""

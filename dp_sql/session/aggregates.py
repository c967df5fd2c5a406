"""The same question with DP functions, for a query that asks it with DuckDB's aggregates. Pure.

FROM, WHERE and GROUP BY stay as they are written. Where an aggregate is used more than once, or
within a window function, it is asked once in a subquery and named outside: one release is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from dp_sql.errors import QueryError
from dp_sql.sql.clauses import SelectText, enclosing_select
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.group_keys import group_keys
from dp_sql.sql.restated import Restated
from dp_sql.sql.tokens import (
    CLOSE,
    OPEN,
    Token,
    dotted_names,
    folded,
    matching,
    queries_around,
    split,
    text_of,
    token_at,
)  # fmt: skip
from dp_sql.udfs.mechanism import in_words

_OURS = {
    **dict.fromkeys(("COUNT", "COUNT_STAR", "COUNT_IF", "COUNTIF"), "DP_COUNT"), "SUM": "DP_SUM",
    **dict.fromkeys(("AVG", "MEAN"), "DP_AVG"), "MEDIAN": "DP_MEDIAN",
    **dict.fromkeys(("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "APPROX_QUANTILE",
                     "PERCENTILE_CONT", "PERCENTILE_DISC"), "DP_QUANTILE"),
    **dict.fromkeys(("MODE", "APPROX_TOP_K"), "DP_TOPK"),
    "APPROX_COUNT_DISTINCT": "DP_COUNT_DISTINCT",
}  # fmt: skip
_ENDS = {"MIN": "0.01", "MAX": "0.99"}


@dataclass(frozen=True)
class _Aggregate:
    """One aggregate: tokens [start, stop), with FILTER and WITHIN GROUP; call: the DP call."""

    start: int
    stop: int
    call: str | None
    in_window: bool
    clause: str

    def text(self, tokens: Sequence[Token]) -> str:
        return " ".join(token.text.upper() for token in tokens[self.start : self.stop])


@dataclass
class _Query:
    """One SELECT with aggregates of its own."""

    select: SelectText
    depth: int
    aggregates: list[_Aggregate] = field(default_factory=list)


def with_dp_functions(
    tokens: Sequence[Token], epsilon: str, private: Collection[str], aggregates: Collection[str]
) -> Iterator[str]:
    """Statements that ask the same with DP functions; a session tries them.

    private: the folded names of the relations that hold people's rows. aggregates: those of the
    functions that are aggregates.
    """
    queries = _queries(tokens, private, aggregates)
    depths = sorted({query.depth for query in queries})
    chosen = [[q for q in queries if q.depth == depth] for depth in depths]
    chosen += [[query] for query in queries] if len(queries) > len(depths) else []
    for some in chosen:
        if all(one.call is not None for query in some for one in query.aggregates):
            text = tokens[0].source
            edits = [edit for query in some for edit in _edits(tokens, query, epsilon)]
            for start, stop, new in sorted(edits, reverse=True):
                text = text[: tokens[start].start] + new + text[tokens[stop - 1].end :]
            yield text
    if not queries:
        yield from _counted(tokens, epsilon, private)
    yield from _histogram(tokens, epsilon)


def has_aggregates(tokens: Sequence[Token], aggregates: Collection[str]) -> bool:
    """Whether a statement calls an aggregate."""
    known = {*_OURS, *_ENDS}
    calls = (a for a, b in pairwise(tokens) if b.is_symbol("("))
    return any(a.upper in known or folded(a.name or "") in aggregates for a in calls)


def without_dp_function(tokens: Sequence[Token], aggregates: Collection[str]) -> list[str]:
    """The aggregates of a statement that no DP function answers, in lower case."""
    found = [
        folded(a.text)
        for a, b in pairwise(tokens)
        if b.is_symbol("(") and (folded(a.name or "") in aggregates or a.upper == "COLUMNS")
    ]
    return [name for name in dict.fromkeys(found) if name.upper() not in {*_OURS, *_ENDS}]


def _queries(
    tokens: Sequence[Token], private: Collection[str], aggregates: Collection[str]
) -> list[_Query]:
    found: dict[int, _Query] = {}
    windows = list(_windows(tokens))
    spans: list[tuple[int, int]] = []
    names = _reading(tokens, private)
    for i, (token, after) in enumerate(pairwise(tokens)):
        name = folded(token.name or "")
        known = name in aggregates or name.upper() in {*_OURS, *_ENDS, "HISTOGRAM"}
        if not (known and after.is_symbol("(")) or token_at(tokens, i - 1).is_symbol("."):
            continue
        select = enclosing_select(tokens, i)
        clause, source = select.clause_of(i), select.clause("FROM")
        if clause is None or source is None or any(a <= i < b for a, b in spans):
            continue
        own = tokens[source.start : source.stop]
        if not any(folded(t.name or "") in names for t in own):
            continue
        one = _aggregate(tokens, i, clause.keyword, windows)
        if one is None:  # a window function: what is in its brackets may be an aggregate
            continue
        spans.append((one.start, one.stop))
        key = select.clauses[0].start
        query = found.setdefault(key, _Query(select, len(queries_around(tokens, i))))
        query.aggregates.append(one)
    return [*found.values()]


def _reading(tokens: Sequence[Token], private: Collection[str]) -> set[str]:
    """The names of private relations, and of the CTEs of the statement, which may read them."""
    ctes = {
        folded(a.name)
        for a, b in pairwise(tokens)
        if a.name is not None and (b.upper == "AS" or b.is_symbol("("))
    }
    return {*private, *(ctes if tokens[0].upper == "WITH" else ())}


def _windows(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The spans of window functions, with their OVER (…)."""
    for i, (token, after) in enumerate(pairwise(tokens)):
        if token.upper == "OVER":
            stop = matching(tokens, i + 1) + 1 if after.is_symbol("(") else i + 2
            yield _call_before(tokens, i), stop


def _call_before(tokens: Sequence[Token], end: int) -> int:
    """Where the call that ends before a token begins, perhaps with FILTER (…) behind it."""
    i, depth = end - 1, 0
    while i > 0:
        depth += tokens[i].is_symbol(*CLOSE) - tokens[i].is_symbol(*OPEN)
        if depth == 0 and tokens[i].is_symbol("("):
            if tokens[i - 1].upper != "FILTER":
                return i - 1
            i -= 1
        i -= 1
    return 0


def _aggregate(
    tokens: Sequence[Token], i: int, clause: str, windows: Sequence[tuple[int, int]]
) -> _Aggregate | None:
    close = matching(tokens, i + 1)
    stop, condition, order = close + 1, "", ""
    while token_at(tokens, stop).upper in {"FILTER", "WITHIN"}:
        opening = stop + 1 + (tokens[stop].upper == "WITHIN")
        end = matching(tokens, opening)
        if tokens[stop].upper == "FILTER":
            condition = text_of(tokens[opening + 2 : end])
        else:
            order = text_of(tokens[opening + 3 : end])
        stop = end + 1
    if token_at(tokens, stop).upper == "OVER":
        return None
    inside = split(tokens, i + 2, close)
    is_distinct = token_at(tokens, i + 2).upper == "DISTINCT"
    parts = [text_of(tokens[a + (is_distinct and n == 0) : b]) for n, (a, b) in enumerate(inside)]
    call = _dp_call(tokens[i].upper, [p for p in parts if p], is_distinct, condition, order)
    in_window = any(a <= i < b for a, b in windows)
    return _Aggregate(i, stop, call, in_window, clause)


def _dp_call(
    name: str, parts: Sequence[str], is_distinct: bool, condition: str, order: str
) -> str | None:
    """The DP call for an aggregate, with {} for its epsilon; None: there is none."""
    function, item, more = _OURS.get(name), parts[0] if parts else "*", [*parts[1:]]
    if name in {"COUNT_IF", "COUNTIF"} and not is_distinct:
        condition, item = " AND ".join(f"({p})" for p in filter(None, [condition, item])), "*"
        condition = condition if "AND" in condition else condition[1:-1]
    if is_distinct:
        if name != "COUNT":
            return None
        function, listed = "DP_COUNT_DISTINCT", [item, *more]
        if len(listed) == 1 and item.startswith("(") and "," in item and item.endswith(")"):
            listed = [one.strip() for one in item[1:-1].split(",")]
        item = listed[0] if len(listed) == 1 else f"concat_ws('|', {', '.join(listed)})"
        more = []
    if name in _ENDS:
        function, more = "DP_QUANTILE", [_ENDS[name]] if not more else ["-", "-"]
    if name == "MODE":
        more = ["1"]
    if name.startswith("PERCENTILE_"):
        words, by = order.split(), item
        is_falling = bool(words) and words[-1].upper() == "DESC"
        item = " ".join(words[:-1]) if words and words[-1].upper() in {"ASC", "DESC"} else order
        more = [_from_above(by) if is_falling else by]
    expected = len(FUNCTIONS[function].positional) if function else 0
    if not item or len(more) != expected - 1 or (order and not name.startswith("PERCENTILE_")):
        return None
    if condition:
        item = f"CASE WHEN {condition} THEN {1 if item == '*' else item} END"
    if item == "*" and function != "DP_COUNT":
        return None
    return f"{function}({', '.join([item, *more])}, epsilon := {{}})"


def _from_above(q: str) -> str:
    try:
        return in_words(1 - Fraction(q))
    except ValueError:
        return ""


_Edit = tuple[int, int, str]  # tokens [start, stop), and what is written there


def _edits(tokens: Sequence[Token], query: _Query, epsilon: str) -> list[_Edit]:
    """How a SELECT asks with DP functions."""
    calls = {one.text(tokens): str(one.call).replace("{}", epsilon) for one in query.aggregates}
    listed = [one for one in query.aggregates if one.clause == "SELECT"]
    texts = [one.text(tokens) for one in listed]
    outside = [one for one in query.aggregates if one.clause != "SELECT"]
    items = _items(tokens, query.select)
    whole = {
        one.text(tokens): item
        for one in listed
        for item in items
        if item[0] == one.start and one.stop >= item[1] - 2
        and (one.stop == item[1] or tokens[item[1] - 1].name is not None)
    }  # fmt: skip
    is_simple = (
        len(texts) == len({*texts})
        and not any(one.in_window for one in query.aggregates)
        and all(one.text(tokens) in whole for one in outside)
    )
    if not is_simple:
        return _wrapped(tokens, query, calls)
    names: dict[str, str] = {}
    edits: list[_Edit] = []
    used = {one.text(tokens) for one in outside}
    for one in listed:
        text = one.text(tokens)
        added = ""
        if text in whole and text in used:
            _, stop = whole[text]
            alias = tokens[stop - 1].name if stop > one.stop else None
            names[text] = alias or _free(tokens, len(names))
            added = "" if alias else f" AS {names[text]}"
        edits.append((one.start, one.stop, calls[text] + added))
    edits += [(one.start, one.stop, names[one.text(tokens)]) for one in outside]
    return edits


def _free(tokens: Sequence[Token], number: int) -> str:
    """A name that the statement does not use."""
    taken = {folded(token.name or "") for token in tokens}
    names = (f"n{i or ''}" for i in range(number, number + 1000))
    return next(name for name in names if name not in taken)


def _items(tokens: Sequence[Token], select: SelectText) -> list[tuple[int, int]]:
    listed = select.clause("SELECT")
    if listed is None:
        return []
    start = listed.start + 1 + (token_at(tokens, listed.start + 1).upper in {"DISTINCT", "ALL"})
    return split(tokens, start, listed.stop)


def _wrapped(tokens: Sequence[Token], query: _Query, calls: dict[str, str]) -> list[_Edit]:
    """A SELECT over a subquery in which each aggregate is asked once."""
    select, items = query.select, _items(tokens, query.select)
    source, where, group = (select.clause(word) for word in ("FROM", "WHERE", "GROUP"))
    listed = select.clause("SELECT")
    assert source is not None
    if listed is None:
        return []
    places = [one.start for one in query.aggregates]
    try:
        keys = group_keys(tokens, group, tuple(items), places) if group is not None else ()
    except QueryError:
        return []
    names: dict[str, str] = {}
    for text in calls:
        own = next((one for one in query.aggregates if one.text(tokens) == text), None)
        item = next(
            (i for i in items if own and i[0] == own.start and 0 < i[1] - own.stop <= 2), None
        )
        alias = tokens[item[1] - 1].name if item else None
        names[text] = alias or _free(tokens, len(names))
    inner_keys, outer = [], [(one.start, one.stop, names[one.text(tokens)])
                             for one in query.aggregates]  # fmt: skip
    for n, key in enumerate(keys):
        called = key.parts[-1]
        if key.is_expression and called == key.text:
            called = f"k{n or ''}"
        is_column = not key.is_expression
        inner_keys.append(key.text if is_column else f"{key.text} AS {called}")
        for start, stop in _same(tokens, key.text, listed.start, query.select.clauses[-1].stop):
            inside_source = source.start <= start < source.stop
            in_group = group is not None and group.start <= start < group.stop
            if not inside_source and not in_group and (not is_column or "." in key.text):
                outer.append((start, stop, called))
    inner_items = [*inner_keys, *(f"{calls[text]} AS {names[text]}" for text in calls)]
    parts = [f"SELECT {', '.join(inner_items)} {text_of(tokens[source.start : source.stop])}"]
    if where is not None:
        parts.append(text_of(tokens[where.start : where.stop]))
    if keys:
        parts.append("GROUP BY " + ", ".join(key.text for key in keys))
    inner = " ".join(parts)
    pieces = [_edited(tokens, listed.start, listed.stop, outer), f"FROM ({inner})"]
    for clause in select.clauses:
        if clause.keyword in {"HAVING", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "WINDOW"}:
            written = _edited(tokens, clause.start, clause.stop, outer)
            if clause.keyword == "HAVING":
                written = f"WHERE{written[6:]}"
            pieces.append(written)
    start, stop = select.clauses[0].start, select.clauses[-1].stop
    return [(start, stop, " ".join(pieces))]


def _same(tokens: Sequence[Token], text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where tokens of a span are written as a key is."""
    for i in range(start, stop):
        for j in range(i + 1, min(stop, i + 60) + 1):
            written = text_of(tokens[i:j])
            if len(written) > len(text):
                break
            is_part = token_at(tokens, i - 1).is_symbol(".") or token_at(tokens, j).is_symbol(".")
            if written == text and not is_part and token_at(tokens, i - 1).upper != "AS":
                yield i, j


def _edited(tokens: Sequence[Token], start: int, stop: int, edits: Sequence[_Edit]) -> str:
    """The text of a span with what is written in it; no edit is made inside another."""
    own = [edit for edit in edits if start <= edit[0] and edit[1] <= stop]
    outermost = [a for a in own if not any(b[0] <= a[0] and a[1] <= b[1] and a != b for b in own)]
    text, begin = tokens[0].source, tokens[start].start
    end = tokens[stop - 1].end
    pieces, at = [], begin
    for first, last, new in sorted(set(outermost)):
        pieces += [text[at : tokens[first].start], new]
        at = tokens[last - 1].end
    return "".join([*pieces, text[at:end]])


def _counted(tokens: Sequence[Token], epsilon: str, private: Collection[str]) -> Iterator[str]:
    """For rows, which are not released: their number, under the same conditions."""
    names = _reading(tokens, private)
    first = next((i for i, t in enumerate(tokens) if folded(t.name or "") in private), None)
    if first is None:
        return
    for place in dict.fromkeys((len(tokens) - 1, first)):
        select = enclosing_select(tokens, place)
        listed, source = select.clause("SELECT"), select.clause("FROM")
        if source is None or select.clause("GROUP") is not None:
            continue
        if not any(folded(t.name or "") in names for t in tokens[source.start : source.stop]):
            continue
        clauses = [c for c in select.clauses if c.keyword in {"FROM", "WHERE"}]
        body = " ".join(text_of(tokens[c.start : c.stop]) for c in clauses)
        start, stop = select.clauses[0].start, select.clauses[-1].stop
        before = tokens[0].source[tokens[0].start : tokens[start].start]
        after = tokens[0].source[tokens[stop - 1].end : tokens[-1].end]
        called = f"DP_COUNT(*, epsilon := {epsilon})"
        if listed is not None and token_at(tokens, listed.start + 1).upper == "DISTINCT":
            columns = [text_of(tokens[a:b]) for a, b in _items(tokens, select)]
            if len(columns) == 1 and dotted_names(tokens[listed.start + 2 : listed.stop]):
                called = f"DP_COUNT_DISTINCT({columns[0]}, epsilon := {epsilon})"
        yield f"{before}SELECT {called} AS n {body}{after}"
    if tokens[0].upper == "SUMMARIZE" or len(tokens) < 6:
        yield f"SELECT DP_COUNT(*, epsilon := {epsilon}) AS n FROM {tokens[first].text}"


def _histogram(tokens: Sequence[Token], epsilon: str) -> Iterator[str]:
    """SELECT histogram(x) FROM … as the numbers of rows by x."""
    if [t.upper for t in tokens[:2]] != ["SELECT", "HISTOGRAM"]:
        return
    select = enclosing_select(tokens, 1)
    close = matching(tokens, 2)
    words = {clause.keyword for clause in select.clauses}
    if words <= {"SELECT", "FROM", "WHERE"} and select.clauses[0].stop <= close + 3:
        item = text_of(tokens[3:close])
        body = text_of(tokens[select.clauses[1].start : select.clauses[-1].stop])
        counted = f"SELECT {item}, DP_COUNT(*, epsilon := {epsilon}) AS n {body} GROUP BY {item}"
        yield Restated(counted)

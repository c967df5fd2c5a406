"""The same question with DP functions, for a query that asks it with DuckDB's aggregates.

FROM, WHERE and GROUP BY stay as they are written. Where an aggregate is used more than once, or
within a window function, it is asked once in a subquery and named outside: one release is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count

from dp_sql.errors import NotPrivate, NotSupported, QueryError
from dp_sql.session.corrections.aggregate_calls import (
    OF_SPREADS,
    SPREADS,
    Aggregate,
    Aggregated,
    has_aggregates,
    mistyped_aggregate,
    queries_of,
    reading,
    without_dp_function,
)  # fmt: skip
from dp_sql.session.corrections.duckdb_errors import THE_FUNCTIONS
from dp_sql.sql.clauses import Clause, SelectText, enclosing_select
from dp_sql.sql.filters import end_of_call
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.given import Reference
from dp_sql.sql.group_keys import group_keys
from dp_sql.sql.list_items import list_item
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.select_list import Functions
from dp_sql.sql.tokens import Edit, Token, Tokens, edited, relation_token, tokenize

_OF_SOME_ROWS = {"ORDER", "ROWS", "RANGE", "GROUPS"}
_MOST = 100  # aggregates that are replaced: the time grows with their square


def read_directly(
    name: str, tokens: Tokens, private: Collection[str], functions: Functions, epsilon: str
) -> QueryError:
    """The refusal of a query that reads people's rows itself, with one that asks as much."""
    names = frozenset(tokens.called())
    kinds = functions.function_kinds(names) if names else {}
    aggregates = {one for one in names if "aggregate" in kinds.get(one, ())}
    missing, why = without_dp_function(tokens, aggregates), ""
    for token, near in _mistyped(tokens, names - kinds.keys()):
        message, hint = f"There is no function {token.text}.", f"Did you mean {near}?"
        return token.error(NotSupported, message, hint, [Restated(token.put(near))])
    candidates = [] if missing == ["columns"] else [
        *dict.fromkeys(with_dp_functions(tokens, epsilon, private, aggregates))
    ]  # fmt: skip
    if missing and not candidates:
        why = f"There is no DP function for {missing[0]}. "
        if {one.upper() for one in missing} & SPREADS:
            why += f"{OF_SPREADS} "
    if {one.upper() for one in tokens.called()} & {*FUNCTIONS["DP_TOPK"].aggregates}:
        why = "DP_TOPK lists the items that the most people have, and not those of the most rows. "
    if not missing and not has_aggregates(tokens, aggregates):
        why = "Rows are not released, only answers about them. "
    shown = shown_name(name)
    return relation_token(tokens, name).error(
        NotPrivate, f"{shown} is private: it can be read only through DP functions.",
        f"{why}{THE_FUNCTIONS} DESCRIBE {shown} shows the columns.", candidates,
    )  # fmt: skip


def _mistyped(tokens: Tokens, unknown: Collection[str]) -> Iterator[tuple[Token, str]]:
    """The calls, of names that are no functions, that may mean an aggregate, and which."""
    for i, token in tokens.calls():
        before, clause = tokens.at(i - 1), enclosing_select(tokens, i).clause_of(i)
        is_type = before.upper == "AS" or before.is_symbol("::", ".")
        of_rows = clause is None or clause.keyword not in {"SELECT", "HAVING", "ORDER"}
        if is_type or of_rows or token.folded not in unknown or token.folded.startswith("dp_"):
            continue
        if near := mistyped_aggregate(token.folded):
            yield token, near


def with_dp_functions(
    tokens: Tokens, epsilon: str, private: Collection[str], aggregates: Collection[str]
) -> Iterator[str]:
    """Statements that ask the same with DP functions; a session tries them.

    private: the folded names of the relations that hold people's rows. aggregates: those of the
    functions that are aggregates.
    """
    queries = queries_of(tokens, private, aggregates)
    depths = sorted({query.depth for query in queries})
    chosen = [[q for q in queries if q.depth == depth] for depth in depths]
    chosen += [[query] for query in queries] if len(queries) > len(depths) else []
    for some in chosen:
        if all(one.call is not None for query in some for one in query.aggregates):
            edits = [edit for query in some for edit in _edits(tokens, query, epsilon)]
            yield edited(tokens[0].source, edits)
    if not queries:
        yield from _by_group(tokens, aggregates)
        yield from _counted(tokens, epsilon, private)


def propose_beside(error: QueryError, text: str, functions: Functions) -> bool:
    """Propose DP calls for the aggregates beside other DP calls; returns whether there are any."""
    if not isinstance(error, NotSupported):
        return False
    found = [*_beside_calls(tokenize(text), functions)]
    error.instead = (*found, *error.instead)
    return bool(found)


def _beside_calls(tokens: Tokens, functions: Functions) -> Iterator[str]:
    """Statements in which DP calls take the place of aggregates beside other DP calls.

    They take the epsilon of the first call; all calls of a SELECT share privacy unit and groups.
    """
    calls = {tokens.queries_around(i)[0] for i, t in tokens.calls() if t.upper in FUNCTIONS}
    if not calls:
        return
    kinds = functions.function_kinds(frozenset(tokens.called()))
    aggregates = {name for name, found in kinds.items() if "aggregate" in found}
    if sum(token.folded in aggregates for _, token in tokens.calls()) > _MOST:
        return
    given = next((i + 2 for i, t in enumerate(tokens) if t.folded == "epsilon"), len(tokens))
    epsilon, names = tokens.at(given).text, {t.folded for t in tokens if t.name is not None}
    for query in queries_of(tokens, names, aggregates):
        some, around = query.aggregates, tokens.queries_around(query.aggregates[0].start)[0]
        is_listed = all(one.clause == "SELECT" and not one.in_window for one in some)
        if around in calls and is_listed and all(one.call is not None for one in some):
            edits = [_put(tokens, one, str(one.call).replace("{}", epsilon)) for one in some]
            yield edited(tokens[0].source, edits)


def _put(tokens: Tokens, place: Aggregate | tuple[int, int], new: str) -> Edit:
    """What to write in place of an aggregate, or of tokens [start, stop)."""
    start, stop = place if isinstance(place, tuple) else (place.start, place.stop)
    return *tokens[start:stop].span, new


def _edits(tokens: Tokens, query: Aggregated, epsilon: str) -> list[Edit]:
    """How a SELECT asks with DP functions."""
    calls = {one.text: str(one.call).replace("{}", epsilon) for one in query.aggregates}
    listed = [one for one in query.aggregates if one.clause == "SELECT"]
    texts = [one.text for one in listed]
    outside = [one for one in query.aggregates if one.clause != "SELECT"]
    items = _items(tokens, query.select)
    whole = {one.text: item for one in listed if (item := _item(tokens, items, one))}
    is_simple = (
        len(texts) == len({*texts})
        and not any(one.in_window for one in query.aggregates)
        and all(one.text in whole for one in outside)
    )
    if not is_simple:
        return _wrapped(tokens, query, calls)
    used = {one.text for one in outside}
    names = _names(tokens, [one for one in listed if one.text in used], items)
    edits = [_put(tokens, one, names[one.text]) for one in outside]
    for one in listed:
        call = calls[one.text]
        if one.text in names and whole[one.text][1] == one.stop:  # its item has no alias
            call += f" AS {names[one.text]}"
        edits.append(_put(tokens, one, call))
    return edits


def _free_names(tokens: Tokens) -> Iterator[str]:
    """Names that a statement does not use, of n, n1, n2, and so on."""
    taken = tokens.folded
    return (free for i in count() if (free := f"n{i or ''}") not in taken)


def _names(
    tokens: Tokens, some: Sequence[Aggregate], items: Sequence[tuple[int, int]]
) -> dict[str, str]:
    """What aggregates are called: by the aliases of their items, or else by names that are free."""
    free, names = _free_names(tokens), dict[str, str]()
    for one in some:
        item = _item(tokens, items, one)
        alias = tokens[item[1] - 1].name if item and item[1] > one.stop else None
        if one.text not in names:
            names[one.text] = shown_name(alias) if alias else next(free)
    return names


def _items(tokens: Tokens, select: SelectText) -> list[tuple[int, int]]:
    listed = select.clause("SELECT")
    if listed is None:
        return []
    start = listed.start + 1 + (tokens.at(listed.start + 1).upper in {"DISTINCT", "ALL"})
    return tokens.split(start, listed.stop)


def _item(
    tokens: Tokens, items: Sequence[tuple[int, int]], one: Aggregate
) -> tuple[int, int] | None:
    """The item that is this aggregate, perhaps with an alias."""
    item = next((item for item in items if item[0] == one.start), None)
    more = [] if item is None else tokens[one.stop : item[1]]
    is_alias = len(more) == 1 or [token.upper for token in more[:-1]] == ["AS"]
    return item if not more or (is_alias and more[-1].name is not None) else None


def _wrapped(tokens: Tokens, query: Aggregated, calls: dict[str, str]) -> list[Edit]:
    """A SELECT over a subquery in which each aggregate is asked once."""
    select, items = query.select, _items(tokens, query.select)
    listed, group = select.clause("SELECT"), select.clause("GROUP")
    if listed is None:
        return []
    starts, source = {tokens[one.start].start for one in query.aggregates}, select.clause("FROM")
    try:
        listed_as = [list_item(tokens[a:b], starts) for a, b in items]
        named = tokens[source.start + 1 : source.stop].folded if source is not None else set()
        keys = group_keys(tokens, group, listed_as, named) if group is not None else ()
    except QueryError:
        return []
    names = _names(tokens, query.aggregates, items)
    outer = [_put(tokens, one, names[one.text]) for one in query.aggregates]
    inner = []
    for n, key in enumerate(keys):
        has_no_name = key.is_expression and key.parts[-1] == key.text
        name = f"k{n or ''}" if has_no_name else shown_name(key.parts[-1])
        inner.append(f"{key.text} AS {name}" if key.is_expression else key.text)
        if key.is_expression or "." in key.text:
            outer += [_put(tokens, place, name) for place in _outside(tokens, select, key)]
    inner += [f"{calls[text]} AS {names[text]}" for text in calls]
    kept = [c for word in ("FROM", "WHERE") if (c := select.clause(word)) is not None]
    parts = [f"SELECT {', '.join(inner)}", *(tokens[c.start : c.stop].text for c in kept)]
    if group is not None and keys:
        parts.append(f"GROUP BY {', '.join(_keys(tokens, group, keys))}")
    pieces = [_edited(tokens, listed, outer), f"FROM ({' '.join(parts)})"]
    for clause in select.clauses:
        if clause.keyword == "HAVING":
            pieces.append(f"WHERE{_edited(tokens, clause, outer)[len('HAVING') :]}")
        elif clause.keyword in {"QUALIFY", "ORDER", "LIMIT", "OFFSET", "WINDOW"}:
            pieces.append(_edited(tokens, clause, outer))
    whole = select.clauses[0].start, select.clauses[-1].stop
    return [_put(tokens, whole, " ".join(pieces))]


def _outside(tokens: Tokens, select: SelectText, key: Reference) -> Iterator[tuple[int, int]]:
    """Where a key is written in the clauses that a subquery does not take."""
    for clause in select.clauses:
        if clause.keyword not in {"FROM", "WHERE", "GROUP"}:
            yield from _same(tokens, key.text, clause.start, clause.stop)


def _keys(tokens: Tokens, group: Clause, keys: Sequence[Reference]) -> Iterator[str]:
    """The keys of a list that begins with them: by number or alias where the statement does so."""
    given = [tokens[a:b].text for a, b in tokens.split(group.start + 2, group.stop)]
    for n, key in enumerate(keys):
        written = given[n] if len(given) == len(keys) else ""
        is_alias = key.is_expression and written == key.parts[-1]
        yield str(n + 1) if written.isdecimal() else written if is_alias else key.text


def _same(tokens: Tokens, text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where tokens of a span are written as a key is."""
    for i in range(start, stop):
        for j in range(i + 1, min(stop, i + 60) + 1):
            written = tokens[i:j].text
            if len(written) > len(text):
                break
            is_part = tokens.at(i - 1).is_symbol(".") or tokens.at(j).is_symbol(".")
            if written == text and not is_part and tokens.at(i - 1).upper != "AS":
                yield i, j


def _edited(tokens: Tokens, clause: Clause, edits: Sequence[Edit]) -> str:
    """The text of a clause with what is written in it; no edit is made inside another."""
    start, end = tokens[clause.start : clause.stop].span
    own = {edit for edit in edits if start <= edit[0] and edit[1] <= end}
    outermost = [a for a in own if not any(b[0] <= a[0] and a[1] <= b[1] and a != b for b in own)]
    return edited(tokens[0].source, outermost, start, end)


def _by_group(tokens: Tokens, aggregates: Collection[str]) -> Iterator[str]:
    """For aggregates OVER (PARTITION BY …), which all rows of a group repeat: one row by group."""
    edits, keys, place = list[Edit](), set[str](), 0
    for i, token in tokens.calls():
        over = end_of_call(tokens, i) + 1
        if token.folded in aggregates and tokens.at(over).upper == "OVER":
            close = tokens.matching(over + 1) if tokens.at(over + 1).is_symbol("(") else over
            inside = tokens[over + 2 : close]
            words = [one.upper for one in inside]
            if words and (words[:2] != ["PARTITION", "BY"] or {*words} & _OF_SOME_ROWS):
                return
            keys.add(inside[2:].text if words else "")
            edits.append((tokens[over - 1].end, tokens[close].end, ""))
            place = i
    select = enclosing_select(tokens, place)
    if len(keys) == 1 and select.clause("GROUP") is None:
        before = (c.stop for c in select.clauses if c.keyword in {"SELECT", "FROM", "WHERE"})
        end, key = tokens[max(before) - 1].end, keys.pop()
        edits.append((end, end, f" GROUP BY {key}" if key else ""))
        yield OtherQuestion(edited(tokens[0].source, edits))


def _counted(tokens: Tokens, epsilon: str, private: Collection[str]) -> Iterator[str]:
    """For rows, which are not released: their number, under the same conditions, or by group."""
    names = reading(tokens, private)
    first = next((i for i, t in enumerate(tokens) if t.folded in private), None)
    if first is None:
        return
    for place in dict.fromkeys((len(tokens) - 1, first)):
        within = [tokens[start - 2].upper for start, _ in tokens.queries_around(place) if start]
        if not {*within} <= {"FROM", "JOIN", "AS", "MATERIALIZED"}:
            continue  # in IN (…) or EXISTS (…), a number would be taken for the rows themselves
        select = enclosing_select(tokens, place)
        listed, source = select.clause("SELECT"), select.clause("FROM")
        if source is None or not any(t.folded in names for t in tokens[source.start : source.stop]):
            continue
        if select.clause("GROUP") is None:
            yield OtherQuestion(_with_count(tokens, select, epsilon))
        elif listed is not None:
            end, name = tokens[listed.stop - 1].end, next(_free_names(tokens))
            more = f", DP_COUNT(*, epsilon := {epsilon}) AS {name}"
            yield OtherQuestion(edited(tokens[0].source, [(end, end, more)]))
    if tokens[0].upper == "SUMMARIZE" or len(tokens) < 6:
        named = tokens[first].text
        yield OtherQuestion(f"SELECT DP_COUNT(*, epsilon := {epsilon}) AS n FROM {named}")


def _with_count(tokens: Tokens, select: SelectText, epsilon: str) -> str:
    """The statement that counts the rows of a SELECT, or with DISTINCT the values of its column."""
    listed = select.clause("SELECT")
    called = f"DP_COUNT(*, epsilon := {epsilon})"
    if listed is not None and tokens.at(listed.start + 1).upper == "DISTINCT":
        columns = [tokens[a:b].text for a, b in _items(tokens, select)]
        if len(columns) == 1 and tokens[listed.start + 2 : listed.stop].names:
            called = f"DP_COUNT_DISTINCT({columns[0]}, epsilon := {epsilon})"
    clauses = [c for c in select.clauses if c.keyword in {"FROM", "WHERE"}]
    body = " ".join(tokens[c.start : c.stop].text for c in clauses)
    start, stop = select.clauses[0].start, select.clauses[-1].stop
    before = tokens[0].source[tokens[0].start : tokens[start].start]
    after = tokens[0].source[tokens[stop - 1].end : tokens[-1].end]
    return f"{before}SELECT {called} AS n {body}{after}"

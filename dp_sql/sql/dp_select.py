"""The SELECTs that hold DP calls: where they may stand, and the parts of each. Pure: no catalog."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.errors import ArgumentError, NotSupported, QueryError
from dp_sql.sql.arguments import DpCall, read_call
from dp_sql.sql.clauses import Clause, Select, enclosing_select
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.literals import ListLiteral, Reference
from dp_sql.sql.tokens import Token, matching, split, text_of

Span = tuple[int, int]
"""Offsets in the text: [start, stop)."""


@dataclass(frozen=True)
class DpSelect:
    """One SELECT with DP calls in its list. All spans are offsets in `text`, None if absent.

    `text` is the whole text, `tokens` are those of the statement.
    `items` are the spans of the expressions of the list; `from_clause`, `where_clause` and
    `group_clause` include their keywords, as do `having` (of a grouped SELECT, over released
    columns) and `order`; `source` and `condition` do not. `keys` are the columns of GROUP BY.
    """

    text: str
    tokens: Sequence[Token]
    calls: tuple[DpCall, ...]
    items: tuple[Span, ...]
    from_clause: Span
    where_clause: Span | None
    group_clause: Span | None
    having: Span | None
    order: Span | None
    keys: tuple[Reference, ...]
    source: Span
    condition: Span | None
    ctes: frozenset[str]

    @property
    def groups(self) -> Reference | ListLiteral | None:
        """The public set of groups, as one of the calls states it."""
        return next((call.groups for call in self.calls if call.groups is not None), None)

    @property
    def source_text(self) -> str:
        """The FROM clause as written, without its keyword."""
        return self.text[slice(*self.source)]

    @property
    def condition_text(self) -> str | None:
        """The WHERE clause as written, without its keyword."""
        return None if self.condition is None else self.text[slice(*self.condition)]

    def between(self, span: Span) -> Sequence[Token]:
        """The tokens in a span of the text."""
        first, last = (bisect_left(self.tokens, at, key=lambda token: token.start) for at in span)
        return self.tokens[first:last]

    def refused(
        self, message: str, at: int, hint: str = "", kind: type[QueryError] = ArgumentError
    ) -> QueryError:
        """An error with a caret under one place of the text."""
        return kind(message, text=self.text, position=at, hint=hint or None)


# --- DP calls and their SELECTs -------------------------------------------------------------------


def read_selects(
    text: str, tokens: Sequence[Token], under_policy: bool = False
) -> tuple[DpSelect, ...]:
    """The SELECTs of a statement that hold DP calls, in the order of the text.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal or out of range.
        NotSupported: a call is outside the list of a SELECT, or carries DISTINCT, FILTER, OVER.
    """
    places = [i for i in range(len(tokens)) if _is_call(tokens, i)]
    _refuse_nested(text, tokens, places)
    grouped: dict[int, tuple[Select, list[int]]] = {}
    for index in places:
        select = enclosing_select(tokens, index, text)
        _refuse_misplaced(text, tokens, index, select)
        start = select.clauses[0].start
        grouped.setdefault(start, (select, []))[1].append(index)
    found = tuple(_read_select(text, tokens, *pair, under_policy) for pair in grouped.values())
    _refuse_in_sources(found)
    return found


def _refuse_in_sources(selects: Sequence[DpSelect]) -> None:
    """A release inside the source of another call would be made anew when that source is read."""
    calls = [call for select in selects for call in select.calls]
    for outer in selects:
        for call in calls:
            if outer.source[0] <= call.start < outer.source[1]:
                raise NotSupported(
                    "A DP call is not allowed in the source of another DP call.",
                    text=outer.text,
                    position=call.start,
                    hint="Answer the inner call first: CREATE TABLE … AS SELECT …, and select "
                    "from that table.",
                )


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    name = (tokens[index].name or "").upper()
    return name in FUNCTIONS and index + 1 < len(tokens) and tokens[index + 1].is_symbol("(")


def _refuse_nested(text: str, tokens: Sequence[Token], places: list[int]) -> None:
    end = -1
    for place in places:
        if place < end:
            raise NotSupported(
                "A DP call is not allowed inside the arguments of another DP call.",
                text=text,
                position=tokens[place].start,
                hint="Answer the inner call first, in a query of its own.",
            )
        end = matching(tokens, place + 1, text)


_AFTER_CALL = {
    "OVER": "OVER: a DP call is an aggregate of the whole source, not a window function",
    "FILTER": "FILTER; write the condition in the WHERE clause of the same SELECT",
    "WITHIN": "WITHIN GROUP; the order of the answer is its rank",
}
_PLACES = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "USING": "USING SAMPLE"}
_NOT_BESIDE = {
    "HAVING": "Filter the answer in an outer query.",
    "QUALIFY": "Filter the answer in an outer query.",
    "WINDOW": "Compute over the answer in an outer query.",
    "USING": "A sample of rows is not a function of each person's own rows.",
}


def _refuse_misplaced(text: str, tokens: Sequence[Token], index: int, select: Select) -> None:
    name = (tokens[index].name or "").upper()
    example = FUNCTIONS[name].example

    def refuse(message: str, hint: str | None = None, at: int = index) -> NotSupported:
        return NotSupported(message, text=text, position=tokens[at].start, hint=hint)

    if index and tokens[index - 1].is_symbol("."):
        raise refuse(f"{name} belongs to no schema; write it without one.")
    clause = select.clause_of(index)
    place = clause.keyword if clause else None
    if place != "SELECT":
        where = f"in {_PLACES.get(place, place)}" if place else "outside a SELECT"
        hint = f"Write it in the list of a SELECT of its own: SELECT {example} FROM …"
        if place in {"WHERE", "HAVING", "QUALIFY", "ORDER"}:
            hint = (
                "Give it a name in a subquery and use the name outside: "
                f"SELECT … FROM (SELECT {example} AS answer FROM …) WHERE …"
            )
        raise refuse(f"{name} is not allowed {where}; it is an answer, not a condition.", hint)
    after = matching(tokens, index + 1, text) + 1
    word = tokens[after].upper if after < len(tokens) else ""
    if word in _AFTER_CALL:
        raise refuse(f"{name} does not take {_AFTER_CALL[word]}.", at=after)
    for keyword, advice in _NOT_BESIDE.items():
        found = select.clause(keyword)
        if found is not None and not (keyword == "HAVING" and select.clause("GROUP")):
            shown = _PLACES.get(keyword, keyword)
            raise refuse(f"A SELECT with {name} cannot have {shown}.", advice, found.start)
    if select.clause("FROM") is None:
        table = FUNCTIONS[name].table
        raise refuse(f"{name} needs a table to read.", f"SELECT {example} FROM {table}")


def _read_select(
    text: str, tokens: Sequence[Token], select: Select, places: list[int], under_policy: bool
) -> DpSelect:
    def span(clause: Clause | None, skipped: int = 0) -> Span | None:
        if clause is None:
            return None
        if clause.start + skipped >= clause.stop:
            at = tokens[clause.start].start
            raise NotSupported("This clause is empty.", text=text, position=at)
        return tokens[clause.start + skipped].start, tokens[clause.stop - 1].end

    listed, source, where, group, having, order = (
        select.clause(word) for word in ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER")
    )
    from_clause, source_span = span(source), span(source, 1)
    assert listed is not None and from_clause is not None and source_span is not None
    items = _items(text, tokens, listed.start + 1, listed.stop)
    calls = tuple(read_call(text, tokens, index, under_policy=under_policy) for index in places)
    _check_groups(text, calls, group is not None)
    found = DpSelect(
        text=text,
        tokens=tokens,
        calls=calls,
        items=tuple((tokens[a].start, tokens[b - 1].end) for a, b in items),
        from_clause=from_clause,
        where_clause=span(where),
        group_clause=span(group),
        having=span(having),
        order=span(order),
        keys=_keys(text, tokens, group, items, places) if group else (),
        source=source_span,
        condition=span(where, 1),
        ctes=select.ctes,
    )
    if under_policy and group is None:
        _refuse_limit(text, tokens, select)
    return found


def _refuse_limit(text: str, tokens: Sequence[Token], select: Select) -> None:
    """LIMIT beside an answer of one row would look as if it limited people's rows."""
    for keyword in ("LIMIT", "OFFSET", "FETCH"):
        found = select.clause(keyword)
        if found is not None:
            raise NotSupported(
                f"{keyword} beside a DP call limits nothing of the source.",
                text=text,
                position=tokens[found.start].start,
                hint="Choose k, or limit the answer in an outer query.",
            )


def _check_groups(text: str, calls: Sequence[DpCall], grouped: bool) -> None:
    """Refuse arguments about groups without GROUP BY, and calls with different groups."""
    written = {call.groups.text for call in calls if call.groups is not None}
    for call in calls:
        wrong = None
        if not grouped and (call.groups is not None or call.max_groups_contributed is not None):
            wrong = "groups and max_groups_contributed go with GROUP BY."
        elif len(written) > 1:
            wrong = "The calls of one SELECT have the same groups."
        if wrong is not None:
            raise NotSupported(
                wrong,
                text=text,
                position=call.start,
                hint=f"SELECT region, {call.function.name}(…, groups := regions.region, "
                "max_groups_contributed := 2) FROM … GROUP BY region",
            )


# --- items and keys, as token indices -------------------------------------------------------------


def _items(text: str, tokens: Sequence[Token], start: int, stop: int) -> tuple[Span, ...]:
    """The first token of each item of the list, and the one after its last."""
    if tokens[start].upper == "DISTINCT":
        start += 1
        if tokens[start].upper == "ON":
            raise NotSupported(
                "A SELECT with a DP call cannot have DISTINCT ON.",
                text=text,
                position=tokens[start].start,
                hint="Thin out the answer in an outer query.",
            )
    elif tokens[start].upper == "ALL":
        start += 1
    return tuple((a, b) for a, b in split(tokens, start, stop) if a < b)


def _keys(
    text: str, tokens: Sequence[Token], group: Clause, items: tuple[Span, ...], places: list[int]
) -> tuple[Reference, ...]:
    """The columns of a GROUP BY clause, which may also be numbers of items, or ALL."""
    parts = list(split(tokens, group.start + 2, group.stop))
    if not parts or any(a >= b for a, b in parts):
        raise NotSupported(
            "GROUP BY names no column here.", text=text, position=tokens[group.start].start
        )
    if [tokens[a].upper for a, b in parts if b - a == 1] == ["ALL"]:
        beside = [(a, b) for a, b in items if not any(a <= place < b for place in places)]
        parts = [(a, b) for a, b in beside if _end_of_name(tokens, a, b) is not None]
    keys: dict[str, Reference] = {}
    for part in parts:
        found = _key(text, tokens, part, items)
        keys.setdefault(found.text.lower(), found)
    names: set[str] = set()
    for key in keys.values():
        name = key.parts[-1].lower()
        wrong = f"more than one column {key.parts[-1]}" if name in names else None
        if name.startswith("__dp_"):
            wrong = "a column whose name begins with __dp_, which dp_sql uses itself"
        if wrong is not None:
            raise NotSupported(f"GROUP BY has {wrong}.", text=text, position=key.position)
        names.add(name)
    return tuple(keys.values())


def _key(text: str, tokens: Sequence[Token], part: Span, items: tuple[Span, ...]) -> Reference:
    """One key: a column's name; or the number or alias of an item that is one."""
    start, stop = _item_of(tokens, part, items)
    end = _end_of_name(tokens, start, stop)
    if end is not None and (end == stop or (start, stop) in items):
        names = tuple(token.name or "" for token in tokens[start:end:2])
        return Reference(names, text_of(text, tokens, start, end), tokens[start].start)
    raise NotSupported(
        "GROUP BY of a SELECT with a DP call takes columns.",
        text=text,
        position=tokens[start].start,
        hint="Give the expression a name in a subquery, and group by that name.",
    )


def _item_of(tokens: Sequence[Token], part: Span, items: tuple[Span, ...]) -> Span:
    """The item whose number or alias a key is; the key itself if there is none."""
    start, stop = part
    if stop - start > 1:
        return part
    number = tokens[start].text if tokens[start].kind == "number" else ""
    if number.isdecimal() and len(number) < 7 and 1 <= int(number) <= len(items):
        return items[int(number) - 1]
    for a, b in items:
        end = _end_of_name(tokens, a, b)
        if end is not None and end < b and tokens[b - 1].name == tokens[start].name:
            return a, b
    return part


def _end_of_name(tokens: Sequence[Token], start: int, stop: int) -> int | None:
    """The end of a column's name, with or without an alias behind; None for anything else."""
    end = start
    while end < stop and tokens[end].name is not None:
        end += 1
        if end >= stop or not tokens[end].is_symbol("."):
            break
        end += 1
    rest = stop - end
    alias = rest == 1 or (rest == 2 and tokens[end].upper == "AS")
    named = start < end and tokens[end - 1].name is not None
    return end if named and (rest == 0 or (alias and tokens[stop - 1].name is not None)) else None

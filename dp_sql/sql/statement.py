"""Find the DP calls of a statement, and the SELECT each one stands in. Pure: no catalog, no data.

Whether the source is person-level is check.py's question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.errors import NotSupported
from dp_sql.sql.arguments import DpCall, read_call
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.literals import ListLiteral, Reference
from dp_sql.sql.tokens import Clause, Select, Token, enclosing_select, matching, split, text_of

_MENTION = re.compile("|".join(FUNCTIONS), re.IGNORECASE)


def mentions_dp(text: str) -> bool:
    """Whether a text may hold a DP call at all; where it does not, nobody reads the text.

    >>> mentions_dp("SELECT count(*) FROM t"), mentions_dp("SELECT dp_topk(a, 3) FROM t")
    (False, True)
    """
    return _MENTION.search(text) is not None


@dataclass(frozen=True)
class DpSelect:
    """One SELECT with DP calls in its list. All spans are offsets into `text`, None if absent.

    `items` are the spans of the expressions of the list; `from_clause`, `where_clause` and
    `group_clause` include their keywords, as do `having` (of a grouped SELECT, over released
    columns) and `order`; `source` and `condition` do not. `keys` are the columns
    of GROUP BY.
    """

    text: str
    calls: tuple[DpCall, ...]
    items: tuple[tuple[int, int], ...]
    from_clause: tuple[int, int]
    where_clause: tuple[int, int] | None
    group_clause: tuple[int, int] | None
    having: tuple[int, int] | None
    order: tuple[int, int] | None
    keys: tuple[Reference, ...]
    source: tuple[int, int]
    condition: tuple[int, int] | None
    ctes: frozenset[str]

    @property
    def groups(self) -> Reference | ListLiteral | None:
        """The public set of groups, as one of the calls says it."""
        return next((call.groups for call in self.calls if call.groups is not None), None)

    @property
    def source_text(self) -> str:
        """The FROM clause as written, without its keyword."""
        return self.text[slice(*self.source)]

    @property
    def condition_text(self) -> str | None:
        """The WHERE clause as written, without its keyword."""
        return None if self.condition is None else self.text[slice(*self.condition)]


def recognise(text: str, tokens: Sequence[Token], *, guarded: bool = False) -> tuple[DpSelect, ...]:
    """The SELECTs of one statement that hold DP calls, outermost text order.

    Args:
        text: the whole text, for places in messages.
        tokens: the tokens of one statement of it.
        guarded: under a policy, as in arguments.read_call.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal or out of range.
        NotSupported: a call stands outside the list of a SELECT, or carries DISTINCT, FILTER, OVER.
    """
    places = [i for i in range(len(tokens)) if _is_call(tokens, i)]
    _refuse_nested(text, tokens, places)
    grouped: dict[int, tuple[Select, list[int]]] = {}
    for index in places:
        select = enclosing_select(tokens, index, text)
        _refuse_misplaced(text, tokens, index, select)
        start = select.clauses[0].start
        grouped.setdefault(start, (select, []))[1].append(index)
    found = tuple(
        _read_select(text, tokens, select, calls, guarded) for select, calls in grouped.values()
    )
    _refuse_in_sources(found)
    if guarded:
        for _, (select, _) in grouped.items():
            _refuse_limit(text, tokens, select)
    return found


def _refuse_limit(text: str, tokens: Sequence[Token], select: Select) -> None:
    """LIMIT beside an answer that is one row would only look like a limit on people's rows."""
    for keyword in ("LIMIT", "OFFSET", "FETCH"):
        found = select.clause(keyword)
        if found is not None and select.clause("GROUP") is None:
            raise NotSupported(
                f"{keyword} beside a DP call limits nothing of the source.",
                text=text,
                position=tokens[found.start].start,
                hint="Choose k, or limit the answer in an outer query.",
            )


def _refuse_in_sources(selects: tuple[DpSelect, ...]) -> None:
    """A release inside the source of another call would be made anew when that source is read."""
    for outer in selects:
        for call in (call for inner in selects for call in inner.calls):
            if outer.source[0] <= call.start < outer.source[1]:
                raise NotSupported(
                    "A DP call cannot stand in the source of another DP call.",
                    text=outer.text,
                    position=call.start,
                    hint="Answer the inner call first: CREATE TABLE … AS SELECT …, and select "
                    "from that table.",
                )


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    name = tokens[index].name
    return (
        name is not None
        and name.upper() in FUNCTIONS
        and index + 1 < len(tokens)
        and tokens[index + 1].is_symbol("(")
    )


def _refuse_nested(text: str, tokens: Sequence[Token], places: list[int]) -> None:
    for outer in places:
        end = matching(tokens, outer + 1, text)
        for inner in places:
            if outer < inner < end:
                raise NotSupported(
                    "A DP call cannot stand inside the arguments of another DP call.",
                    text=text,
                    position=tokens[inner].start,
                    hint="Answer the inner call first, in a query of its own.",
                )


_AFTER_CALL = {
    "OVER": "OVER: a DP call is an aggregate of the whole source, not a window function",
    "FILTER": "FILTER; write the condition in the WHERE clause of the same SELECT",
    "WITHIN": "WITHIN GROUP; the order of the answer is its rank",
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
        words = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "USING": "USING SAMPLE"}
        where = f"in {words.get(place, place)}" if place else "outside a SELECT"
        hint = f"Write it in the list of a SELECT of its own: SELECT {example} FROM …"
        if place in {"WHERE", "HAVING", "QUALIFY", "ORDER"}:
            hint = (
                "Give it a name in a subquery and use the name outside: "
                f"SELECT … FROM (SELECT {example} AS answer FROM …) WHERE …"
            )
        raise refuse(f"{name} cannot stand {where}; it is an answer, not a condition.", hint)
    after = matching(tokens, index + 1, text) + 1
    word = tokens[after].upper if after < len(tokens) else ""
    if word in _AFTER_CALL:
        raise refuse(f"{name} does not take {_AFTER_CALL[word]}.", at=after)
    for keyword, advice in {
        "HAVING": "Filter the answer in an outer query.",
        "QUALIFY": "Filter the answer in an outer query.",
        "WINDOW": "Compute over the answer in an outer query.",
        "USING": "A sample of rows is not a function of each person's own rows.",
    }.items():
        found = select.clause(keyword)
        if found is not None and not (keyword == "HAVING" and select.clause("GROUP")):
            both = text_of(text, tokens, found.start, min(found.start + 2, found.stop)).upper()
            shown = both if keyword == "USING" else keyword
            raise refuse(f"A SELECT with {name} cannot have {shown}.", advice, found.start)
    if select.clause("FROM") is None:
        table = FUNCTIONS[name].table
        raise refuse(f"{name} needs a table to read.", f"SELECT {example} FROM {table}")


def _read_select(
    text: str, tokens: Sequence[Token], select: Select, places: list[int], guarded: bool
) -> DpSelect:
    def span(start: int, stop: int) -> tuple[int, int]:
        if start >= stop:
            raise NotSupported("This clause is empty.", text=text, position=tokens[start - 1].start)
        return tokens[start].start, tokens[stop - 1].end

    listed, source, where, group, having, order = (
        select.clause(word) for word in ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER")
    )
    assert listed is not None and source is not None  # _refuse_misplaced has seen to both
    items = _items(text, tokens, listed.start + 1, listed.stop)
    calls = tuple(read_call(text, tokens, index, under_policy=guarded) for index in places)
    _check_groups(text, calls, group is not None)
    return DpSelect(
        text=text,
        calls=calls,
        items=tuple((tokens[a].start, tokens[b - 1].end) for a, b in items),
        from_clause=span(source.start, source.stop),
        where_clause=span(where.start, where.stop) if where else None,
        group_clause=span(group.start, group.stop) if group else None,
        having=span(having.start, having.stop) if having else None,
        order=span(order.start, order.stop) if order else None,
        keys=_keys(text, tokens, group, items, places) if group else (),
        source=span(source.start + 1, source.stop),
        condition=span(where.start + 1, where.stop) if where else None,
        ctes=select.ctes,
    )


def _check_groups(text: str, calls: tuple[DpCall, ...], grouped: bool) -> None:
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


def _items(
    text: str, tokens: Sequence[Token], start: int, stop: int
) -> tuple[tuple[int, int], ...]:
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
    text: str,
    tokens: Sequence[Token],
    group: Clause,
    items: tuple[tuple[int, int], ...],
    places: list[int],
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
    keys = []
    for a, b in parts:
        number = tokens[a].text if b - a == 1 and tokens[a].kind == "number" else ""
        if number.isdecimal() and len(number) < 7 and 1 <= int(number) <= len(items):
            a, b = items[int(number) - 1]  # noqa: PLW2901 - the item that the number stands for
        elif b - a == 1:
            a, b = _aliased(tokens, items, a, b)  # noqa: PLW2901 - the item of that alias
        keys.append(_key(text, tokens, a, b, in_list=(a, b) in items))
    keys = list({key.text.lower(): key for key in reversed(keys)}.values())[::-1]
    names = [key.parts[-1].lower() for key in keys]
    for i, key in enumerate(keys):
        wrong = f"more than one column {key.parts[-1]}" if names[i] in names[:i] else None
        if names[i].startswith("__dp_"):
            wrong = "a column whose name begins with __dp_, as ours do"
        if wrong is not None:
            raise NotSupported(f"GROUP BY has {wrong}.", text=text, position=key.position)
    return tuple(keys)


def _aliased(
    tokens: Sequence[Token], items: tuple[tuple[int, int], ...], start: int, stop: int
) -> tuple[int, int]:
    """The item of the list whose alias a key is; the key itself where there is none."""
    for a, b in items:
        end = _end_of_name(tokens, a, b)
        if end is not None and end < b and tokens[b - 1].name == tokens[start].name:
            return a, b
    return start, stop


def _end_of_name(tokens: Sequence[Token], start: int, stop: int) -> int | None:
    """Where the name of a column ends; None for what is no column, with or without an alias."""
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


def _key(text: str, tokens: Sequence[Token], start: int, stop: int, in_list: bool) -> Reference:
    """One key: a column's name; in the list it may have an alias."""
    end = _end_of_name(tokens, start, stop)
    if end is not None and (end == stop or in_list):
        parts = tuple(token.name or "" for token in tokens[start:end:2])
        return Reference(parts, text_of(text, tokens, start, end), tokens[start].start)
    raise NotSupported(
        "GROUP BY of a SELECT with a DP call takes columns.",
        text=text,
        position=tokens[start].start if start < stop else None,
        hint="Give the expression a name in a subquery, and group by that name.",
    )

"""The SELECTs that hold DP calls: where they may be, and the parts of each. Pure: no catalog."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from dp_sql.errors import ArgumentError, NotSupported, ParseError, QueryError, guessed
from dp_sql.sql.arguments import DpCall, read_call, stated
from dp_sql.sql.clauses import Clause, SelectText, Span, enclosing_select
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.given import PublicSet, Reference, SetPerKey
from dp_sql.sql.group_keys import equal_places, group_keys
from dp_sql.sql.tokens import (
    Token,
    folded,
    matching,
    outside,
    outside_queries,
    put,
    split,
    text_of,
    token_at,
)


class DpSelect(NamedTuple):
    """One SELECT with DP calls in its list. All spans are offsets in `text`, None if absent.

    `text` is the whole text, `tokens` are those of the statement.
    `items` are the spans of the expressions of the list. `clauses`, by keyword, include it (HAVING,
    of a grouped SELECT, is over released columns); `source` and `condition` are FROM and WHERE
    without it. `keys` are the columns and expressions of GROUP BY. `ctes` are those that it may
    name, folded, with the spans of their bodies; None: of a body that it cannot read.
    """

    text: str
    tokens: Sequence[Token]
    calls: tuple[DpCall, ...]
    items: tuple[Span, ...]
    clauses: Mapping[str, Span]
    keys: tuple[Reference, ...]
    source: Span
    condition: Span | None
    ctes: Mapping[str, Span | None]

    @property
    def groups(self) -> PublicSet | SetPerKey | None:
        """The public set of groups, as one of the calls states it."""
        return next((call.groups for call in self.calls if call.groups is not None), None)

    @property
    def cap(self) -> int | None:
        """The number of groups per person that one of the calls states; None: several, or none."""
        caps = {call.max_groups_contributed for call in self.calls} - {None}
        return caps.pop() if len(caps) == 1 else None

    @property
    def delta(self) -> Fraction | None:
        """What finds the groups, as one of the calls states it; None: they are public."""
        return next((call.parameters.delta for call in self.calls if call.finds_groups), None)

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

    def beside_calls(self, span: Span) -> list[Token]:
        """The tokens in a span of the text, outside the DP calls."""
        return outside(self.between(span), [call.span for call in self.calls])

    def key_places(self, span: Span) -> list[tuple[Span, Reference]]:
        """Where a span of the text has expressions that are keys, outside the DP calls."""
        tokens = outside_queries(self.beside_calls(span))
        whole = self.between(span)
        return [
            ((tokens[a].start, tokens[b - 1].end), key)
            for key in self.keys
            if key.is_expression
            for a, b in equal_places(tokens, key, len(whole) == len(tokens))
        ]

    def refused(
        self,
        message: str,
        at: int,
        hint: str = "",
        kind: type[QueryError] = ArgumentError,
        instead: Sequence[str] = (),
    ) -> QueryError:
        """An error with a caret under one place of the text."""
        return kind(message, text=self.text, position=at, hint=hint or None, instead=instead)

    def renamed(self, name: str, at: int, others: Sequence[str]) -> list[str]:
        """The text with each of some other names in place of the first `name` from a place on."""
        same = (t for t in self.tokens if t.end > at and folded(t.name or "") == folded(name))
        found = next(same, None)
        return [] if found is None else [put([found], other) for other in others]

    def without_item(self, start: int, stop: int) -> str:
        """The text without one expression of the list, and the comma beside it."""
        number = self.items.index((start, stop))
        if number + 1 < len(self.items):
            stop = self.items[number + 1][0]
        elif number:
            start = self.items[number - 1][1]
        return self.text[:start] + self.text[stop:]


def read_selects(tokens: Sequence[Token], under_policy: bool) -> tuple[DpSelect, ...]:
    """The SELECTs of a statement that hold DP calls, in the order of the text.

    NotSupported where a call is outside the list of a SELECT; otherwise raises as `read_call`.
    """
    grouped: dict[int, tuple[SelectText, list[int]]] = {}
    end = -1
    places = [
        i
        for i, token in enumerate(tokens)
        if (token.name or "").upper() in FUNCTIONS and token_at(tokens, i + 1).is_symbol("(")
    ]
    for index in places:
        if index < end:
            message = "A DP call is not allowed inside the arguments of another DP call."
            hint = "Answer the inner call first, in a query of its own."
            raise tokens[index].error(NotSupported, message, hint)
        end = matching(tokens, index + 1)
    for index in places:
        select = enclosing_select(tokens, index)
        _refuse_misplaced(tokens, index, select)
        grouped.setdefault(select.clauses[0].start, (select, []))[1].append(index)
    found = tuple(_read_select(tokens, *pair, under_policy) for pair in grouped.values())
    # A release inside the source of another call would be drawn again at each reading.
    for index in places:
        if any(a <= tokens[index].start < b for a, b in (select.source for select in found)):
            message = "A DP call is not allowed in the source of another DP call."
            hint = "Answer the inner call first, in a query of its own."
            if not under_policy:
                hint = (
                    "Answer the inner call first: CREATE TABLE … AS SELECT …, and select from it."
                )
            raise tokens[index].error(NotSupported, message, hint)
    return found


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


def _refuse_misplaced(tokens: Sequence[Token], index: int, select: SelectText) -> None:
    function = FUNCTIONS[(tokens[index].name or "").upper()]
    name, example = function.name, function.example

    if token_at(tokens, index - 1).is_symbol("."):
        message = f"{name} belongs to no schema; write it without one."
        raise tokens[index].error(
            NotSupported, message, instead=[put(tokens[max(0, index - 2) : index], "")]
        )
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
        message = f"{name} is not allowed {where}; it is an answer, not a condition."
        instead = _by_name(tokens, index, select) if place == "HAVING" else []
        raise tokens[index].error(NotSupported, message, hint, instead)
    after = matching(tokens, index + 1) + 1
    word = token_at(tokens, after).upper
    if word in _AFTER_CALL:
        has_window = word == "OVER" and token_at(tokens, after + 1).is_symbol("(")
        stop = matching(tokens, after + 1) + 1 if has_window else after
        instead = [put(tokens[after:stop], "")] if has_window else []
        if word == "FILTER" and sum(t.upper in FUNCTIONS for t in tokens) == 1:
            instead = _with_where(tokens, after, select)
        elif word == "FILTER":
            instead = _with_case(tokens, index, after)
        message = f"{name} does not take {_AFTER_CALL[word]}."
        raise tokens[after].error(NotSupported, message, None, instead)
    for keyword, advice in _NOT_BESIDE.items():
        found = select.clause(keyword)
        if found is not None and not (keyword == "HAVING" and select.clause("GROUP")):
            shown = _PLACES.get(keyword, keyword)
            message = f"A SELECT with {name} cannot have {shown}."
            instead = _without(tokens, found)
            raise tokens[found.start].error(NotSupported, message, advice, instead)
    if select.clause("FROM") is None:
        hint = f"For example: SELECT {example} FROM {function.table}"
        alias = tokens[-1]
        before = token_at(tokens, len(tokens) - 2)
        is_typo = bool(guessed(before.upper, ["FROM"]))
        instead = [put([before], "FROM") if is_typo else put([alias], f"FROM {alias.text}")]
        raise tokens[index].error(ParseError, f"{name} needs a table to read.", hint, instead)


def _with_where(tokens: Sequence[Token], at: int, select: SelectText) -> list[str]:
    """The statement whose FILTER (WHERE …) at a place is in its WHERE clause instead."""
    close = matching(tokens, at + 1) if token_at(tokens, at + 1).is_symbol("(") else at
    source, where = select.clause("FROM"), select.clause("WHERE")
    last = where or source
    if last is None or close <= at + 3 or tokens[at + 2].upper != "WHERE" or last.start < at:
        return []
    text, end = tokens[0].source, tokens[last.stop - 1].end
    condition = f"({text_of(tokens[at + 3 : close])})"
    before = text[: tokens[at - 1].end] + text[tokens[close].end : tokens[last.stop - 1].end]
    if where is not None:
        begin = tokens[where.start + 1].start
        before = text[: tokens[at - 1].end] + text[tokens[close].end : begin]
        return [f"{before}({text[begin:end]}) AND {condition}{text[end:]}"]
    return [f"{before} WHERE {condition}{text[end:]}"]


def _by_name(tokens: Sequence[Token], index: int, select: SelectText) -> list[str]:
    """The statement with the name of an answer in place of the same call in HAVING."""
    call = tokens[index : matching(tokens, index + 1) + 1]
    listed = select.clause("SELECT")
    for i in range(0 if listed is None else listed.start, index - len(call)):
        stop = i + len(call)
        if [one.text for one in tokens[i:stop]] == [one.text for one in call]:
            is_named = tokens[stop].upper == "AS"
            text = put(call, tokens[stop + 1].text if is_named else "answer")
            end = tokens[stop - 1].end
            return [text if is_named else f"{text[:end]} AS answer{text[end:]}"]
    return []


def _with_case(tokens: Sequence[Token], index: int, at: int) -> list[str]:
    """The statement with a CASE in the item of a call in place of its FILTER (WHERE …)."""
    close = matching(tokens, at + 1) if token_at(tokens, at + 1).is_symbol("(") else at
    if close <= at + 3:
        return []
    first, stop = split(tokens, index + 2, at - 1)[0]
    item, condition = text_of(tokens[first:stop]), text_of(tokens[at + 3 : close])
    case = f"CASE WHEN {condition} THEN {1 if item == '*' else item} END"
    rest = text_of(tokens[stop:at])
    return [put(tokens[index : close + 1], f"{tokens[index].text}({case}{rest}")]


def _without(tokens: Sequence[Token], clause: Clause) -> list[str]:
    """The statement without a sample, or with its QUALIFY in an outer query."""
    if clause.keyword == "USING":
        return [put(tokens[clause.start : clause.stop], "")]
    if clause.keyword == "QUALIFY" and tokens[0].upper in {"SELECT", "FROM"}:
        text, start = tokens[0].source, tokens[clause.start].start
        return [f"SELECT * FROM ({text[:start].rstrip()}) {text[start:]}"]
    return []


def _read_select(
    tokens: Sequence[Token], select: SelectText, places: list[int], under_policy: bool
) -> DpSelect:
    def behind(clause: Clause | None) -> Span | None:
        if clause is None:
            return None
        if clause.start + 1 >= clause.stop:
            raise tokens[clause.start].error(NotSupported, "This clause is empty.")
        return tokens[clause.start + 1].start, tokens[clause.stop - 1].end

    listed, group = select.clause("SELECT"), select.clause("GROUP")
    source = behind(select.clause("FROM"))
    assert listed is not None and source is not None
    start = listed.start + 1 + (tokens[listed.start + 1].upper in {"DISTINCT", "ALL"})
    if tokens[start - 1].upper == "DISTINCT" and tokens[start].upper == "ON":
        message = "A SELECT with a DP call cannot have DISTINCT ON."
        raise tokens[start].error(NotSupported, message, "Thin out the answer in an outer query.")
    items = tuple((a, b) for a, b in split(tokens, start, listed.stop) if a < b)
    keys = group_keys(tokens, group, items, places) if group else ()
    of_groups = ["groups", "max_groups_contributed"] if group is not None else []
    named = {folded(t.name or "") for t, sign in pairwise(tokens) if sign.is_symbol(":=", "=>")}
    if "groups" not in named and any(_may_find_groups(tokens, i) for i in places):
        of_groups = []  # found for all
    of_groups = [name for name in of_groups if name not in named]  # in one of the calls, for all
    unit = stated(tokens, places, "privacy_unit")
    if unit is not None and any(key.text == unit.written for key in keys):
        of_groups = []  # refused when planned
    calls = tuple(read_call(tokens, index, under_policy, of_groups, unit) for index in places)
    _check_groups(tokens, places, calls, group is not None)
    for key in keys:
        if group and key.is_expression and not all(call.parameters.reads_people for call in calls):
            message = "GROUP BY beside DP_SELECT takes columns of the scores."
            hint = "Give the expression a name in a subquery, and group by that name."
            raise tokens[group.start].error(NotSupported, message, hint)
    found = DpSelect(
        text=tokens[0].source,
        tokens=tokens,
        calls=calls,
        items=tuple((tokens[a].start, tokens[b - 1].end) for a, b in items),
        clauses={
            clause.keyword: (tokens[clause.start].start, tokens[clause.stop - 1].end)
            for clause in reversed(select.clauses)  # of two with one keyword, the first
        },
        keys=keys,
        source=source,
        condition=behind(select.clause("WHERE")),
        ctes=select.ctes,
    )
    if under_policy and group is None and any(call.k is not None for call in calls):
        for clause in filter(None, (select.clause("LIMIT"), select.clause("OFFSET"))):
            # The answer has one row, so it would look as if it limited the list or people's rows.
            message = f"{clause.keyword} next to a DP call does not limit the source."
            hint = "Choose k, or limit the answer in an outer query."
            instead = [put(tokens[clause.start : clause.stop], "")]
            raise tokens[clause.start].error(NotSupported, message, hint, instead)
    return found


def _check_groups(
    tokens: Sequence[Token], places: list[int], calls: Sequence[DpCall], grouped: bool
) -> None:
    """Refuse arguments about groups without GROUP BY, and calls with different groups."""
    written = {call.groups.text for call in calls if call.groups is not None}
    finding = [call for call in calls if call.finds_groups]
    for call in finding:
        _check_finding(call, finding[0], calls, grouped)
    for place, call in zip(places, calls, strict=True):
        message = None
        if len(written) > 1:
            message = "All DP calls of one SELECT must have the same groups."
        if not grouped and (call.groups is not None or call.max_groups_contributed is not None):
            message = "groups and max_groups_contributed need a GROUP BY clause."
        if message is not None:
            hint = "Add GROUP BY, or leave these arguments out."
            if len(written) > 1:
                hint = "Write groups in one of the calls, or the same in all."
            raise tokens[place].error(NotSupported, message, hint)


def _may_find_groups(tokens: Sequence[Token], index: int) -> bool:
    """Whether the call at `index` has a delta that may find groups rather than items."""
    shape = FUNCTIONS[str(tokens[index].name).upper()].shape  # the name may be quoted
    given = tokens[index : matching(tokens, index + 1)]
    named = {folded(t.name or "") for t, sign in pairwise(given) if sign.is_symbol(":=", "=>")}
    return "delta" in named and shape.reads_people and not shape.finds_items


def _check_finding(call: DpCall, first: DpCall, calls: Sequence[DpCall], grouped: bool) -> None:
    """Refuse a delta that finds groups where there are none to find, or others."""
    delta = call.given["delta"]
    if not grouped:
        why = "delta finds the groups of a GROUP BY clause, and there is none."
        raise delta.refuse(why, "Leave delta out.", [delta.left_out()])
    listed = [other.given["groups"] for other in calls if other.groups is not None]
    if listed:
        why = "delta finds unknown groups, but groups already lists them."
        instead = [delta.left_out(), listed[0].left_out()] if len(listed) == 1 else []
        raise delta.refuse(why, "Leave out delta or groups.", instead)
    if call.parameters.delta != first.parameters.delta:
        why = "All calls of a SELECT share the groups that delta finds, so there is one delta."
        hint = "Write delta in one of the calls, or the same in all."
        raise delta.refuse(why, hint, [delta.left_out(), delta.put(first.given["delta"].written)])

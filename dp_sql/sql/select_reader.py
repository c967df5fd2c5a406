"""Reads the SELECTs of a statement that hold DP calls, and refuses what none may have. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.sql.arguments import DpCall, read_call, stated_unit
from dp_sql.sql.call_places import check_beside, check_place
from dp_sql.sql.clauses import OF_ANSWERS, Clause, SelectText, Span, enclosing_select
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.filters import end_of_call
from dp_sql.sql.functions import function_of, names_function
from dp_sql.sql.given import Argument, Reference, arguments_of
from dp_sql.sql.group_keys import group_keys, refuse_two_meanings
from dp_sql.sql.list_items import list_item
from dp_sql.sql.repeated_calls import repeated_calls
from dp_sql.sql.tokens import Token, Tokens

_OF_REPEATS = {"SELECT", *OF_ANSWERS}


class _Written(NamedTuple):
    """A SELECT with DP calls, and their places; those that repeat one, with its number."""

    select: SelectText
    places: list[int]
    repeats: list[tuple[int, int]]


def read_selects(tokens: Tokens, under_policy: bool) -> tuple[DpSelect, ...]:
    """The SELECTs of a statement that hold DP calls, in the order of the text.

    NotSupported where a call is outside the list of a SELECT; otherwise raises as `read_call`.
    """
    end = -1
    places = [i for i, token in tokens.calls() if names_function(token)]
    for index in places:
        if index < end:
            message = "A DP call is not allowed inside the arguments of another DP call."
            hint = "Answer the inner call first, in a query of its own."
            raise tokens[index].error(NotSupported, message, hint)
        end = end_of_call(tokens, index)
    of_selects: dict[int, tuple[SelectText, list[int]]] = {}
    for index in places:
        select = enclosing_select(tokens, index)
        begin = select.clauses[0].start if select.clauses else -1
        of_selects.setdefault(begin, (select, []))[1].append(index)
    written = []
    for select, within in of_selects.values():
        clauses = {index: select.clause_of(index) for index in within}
        listed = [i for i, one in clauses.items() if one and one.keyword in _OF_REPEATS]
        again = repeated_calls(tokens, listed, under_policy)
        first = [index for index in within if index not in again]
        for index in within:
            (check_beside if index in again else check_place)(tokens, index, select)
        repeats = [(index, first.index(of)) for index, of in again.items()]
        written.append(_Written(select, first, sorted(repeats)))
    found = tuple(_read_select(tokens, one, under_policy) for one in written)
    # A release inside the source of another call would be drawn again at each reading.
    sources = [span for one in found for span in (one.source, one.condition) if span is not None]
    for index in places:
        if any(a <= tokens[index].start < b for a, b in sources):
            message = "A DP call is not allowed in the source of another DP call."
            hint = "Answer the inner call first, in a query of its own."
            if not under_policy:
                hint = (
                    "Answer the inner call first: CREATE TABLE … AS SELECT …, and select from it."
                )
            raise tokens[index].error(NotSupported, message, hint)
    return found


def _read_select(tokens: Tokens, written: _Written, under_policy: bool) -> DpSelect:
    select, places = written.select, written.places

    def behind(clause: Clause | None) -> Span | None:
        if clause is None:
            return None
        if clause.start + 1 >= clause.stop:
            raise tokens[clause.start].error(NotSupported, "This clause is empty.")
        return tokens[clause.start + 1 : clause.stop].span

    listed, group = select.clause("SELECT"), select.clause("GROUP")
    source = behind(select.clause("FROM"))
    assert listed is not None and source is not None
    start = listed.start + 1 + (tokens[listed.start + 1].upper in {"DISTINCT", "ALL"})
    if tokens[start - 1].upper == "DISTINCT" and tokens[start].upper == "ON":
        message = "A SELECT with a DP call cannot have DISTINCT ON."
        raise tokens[start].error(NotSupported, message, "Write DISTINCT ON in an outer query.")
    written_at = [*places, *(place for place, _ in written.repeats)]
    starts = {tokens[place].start for place in written_at}
    parts = (tokens[a:b] for a, b in tokens.split(start, listed.stop) if a < b)
    items = tuple(list_item(part, starts) for part in parts)
    keys = group_keys(tokens, group, items, tokens.between(source).folded) if group else ()
    unit = stated_unit(tokens, written_at)
    of_groups = _needed_of_groups(tokens, places, keys, unit)
    calls = tuple(read_call(tokens, index, under_policy, of_groups, unit) for index in places)
    read = select.clause("WHERE") or select.clause("FROM")
    has_others = not all(item.has_call for item in items)
    last = tokens[read.stop - 1] if read and has_others and not group else None
    _check_groups(tokens, places, calls, bool(keys), last)
    if (stated_groups := next((c.groups for c in calls if c.groups), None)) is not None:
        refuse_two_meanings(tokens, items, keys, stated_groups)
    for key in keys:
        if group and key.is_expression and not all(call.parameters.reads_people for call in calls):
            message = "GROUP BY beside DP_SELECT takes columns of the scores."
            hint = "Give the expression a name in a subquery, and group by that name."
            raise tokens[group.start].error(NotSupported, message, hint)
    condition = behind(select.clause("WHERE"))
    if under_policy and not keys:
        _refuse_limits(tokens, select, calls)
    return DpSelect(
        text=tokens[0].source,
        tokens=tokens,
        calls=calls,
        items=items,
        clauses={
            clause.keyword: tokens[clause.start : clause.stop].span
            for clause in reversed(select.clauses)  # of two with one keyword, the first
        },
        keys=keys,
        source=source,
        condition=condition,
        ctes=select.ctes,
        repeats=tuple(
            (tokens[i : end_of_call(tokens, i) + 1].span, number) for i, number in written.repeats
        ),
    )


_OF_GROUPS = ("groups", "max_groups_contributed")


def _needed_of_groups(
    tokens: Tokens, places: list[int], keys: Sequence[Reference], unit: Argument | None
) -> list[str]:
    """The arguments about groups that calls still need; those of one call are for all of them."""
    named = _named(tokens)
    finds_groups = "groups" not in named and any(_may_find_groups(tokens, i) for i in places)
    is_by_person = unit is not None and any(key.text == unit.text for key in keys)
    if finds_groups or is_by_person or not keys:  # by person: refused when planned
        return []
    return [name for name in _OF_GROUPS if name not in named]


def _named(tokens: Tokens) -> set[str]:
    """The names before := and =>, folded."""
    return {t.folded for t, sign in pairwise(tokens) if sign.is_symbol(":=", "=>")}


def _refuse_limits(tokens: Tokens, select: SelectText, calls: Sequence[DpCall]) -> None:
    """Refuse LIMIT beside an answer of one row: it looks as if it limited a list or the source."""
    for clause in filter(None, (select.clause("LIMIT"), select.clause("OFFSET"))):
        if any(call.k is not None for call in calls):
            message = f"{clause.keyword} next to a DP call does not limit the source."
            hint = "Choose k, or limit the answer in an outer query."
            instead = [tokens[clause.start : clause.stop].put("")]
            raise tokens[clause.start].error(NotSupported, message, hint, instead)


def _check_groups(
    tokens: Tokens, places: list[int], calls: Sequence[DpCall], grouped: bool, last: Token | None
) -> None:
    """Refuse arguments about groups without GROUP BY, and calls with different groups.

    last: the token behind which GROUP BY could be written.
    """
    written = {call.groups.text for call in calls if call.groups is not None}
    finding = [call for call in calls if call.finds_groups]
    for call in finding:
        _check_finding(call, finding[0], calls, grouped)
    for place, call in zip(places, calls, strict=True):
        of_groups = [call.given[name] for name in _OF_GROUPS if name in call.given]
        if not grouped and of_groups:
            message = "groups and max_groups_contributed need a GROUP BY clause."
            hint = "Add GROUP BY, or leave these arguments out."
            instead = [last.put(f"{last.text} GROUP BY ALL")] if last else []
            instead.append(of_groups[0].omitted())
            raise tokens[place].error(NotSupported, message, hint, instead)
        if len(written) > 1:
            message = "All DP calls of one SELECT must have the same groups."
            hint = "Write groups in one of the calls, or the same in all."
            instead = [one.given["groups"].omitted() for one in calls if one.groups is not None]
            raise tokens[place].error(NotSupported, message, hint, instead)


def _may_find_groups(tokens: Tokens, index: int) -> bool:
    """Whether the call at `index` has a delta that may find groups rather than items."""
    return function_of(tokens[index]).finds_groups(dict(arguments_of(tokens, index)))


def _check_finding(call: DpCall, first: DpCall, calls: Sequence[DpCall], grouped: bool) -> None:
    """Refuse a delta that finds groups where there are none to find, or others."""
    delta = call.given["delta"]
    if not grouped:
        why = "delta finds the groups of a GROUP BY clause, and there is none."
        raise delta.refuse(why, "Leave delta out.", [delta.omitted()])
    listed = [other.given["groups"] for other in calls if other.groups is not None]
    if listed:
        why = "delta finds unknown groups, but groups already lists them."
        instead = [delta.omitted(), listed[0].omitted()] if len(listed) == 1 else []
        raise delta.refuse(why, "Leave out delta or groups.", instead)
    if call.parameters.delta != first.parameters.delta:
        why = "All calls of a SELECT share the groups that delta finds, so there is one delta."
        hint = "Write delta in one of the calls, or the same in all."
        raise delta.refuse(why, hint, [delta.omitted(), delta.put(first.given["delta"].text)])

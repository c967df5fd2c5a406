"""Reads the SELECTs of a statement that hold DP calls, and refuses what none may have. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.sql.arguments import DpCall, read_call, stated_unit
from dp_sql.sql.call_places import check_beside, check_place
from dp_sql.sql.clauses import OF_ANSWERS, Clause, SelectText, Span, enclosing_select
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.filters import end_of_call
from dp_sql.sql.functions import function_of, names_function
from dp_sql.sql.given import Argument, Arguments, Reference, arguments_of
from dp_sql.sql.group_keys import group_keys, refuse_two_meanings
from dp_sql.sql.list_items import ListItem, list_item
from dp_sql.sql.repeated_calls import repeated_calls
from dp_sql.sql.tokens import Tokens

_OF_REPEATS = {"SELECT", *OF_ANSWERS}


class _Placed(NamedTuple):
    """A SELECT with DP calls, and their places; those that repeat one, with its number.

    given: the arguments of all of them, by their places.
    """

    select: SelectText
    places: list[int]
    repeats: list[tuple[int, int]]
    given: Mapping[int, Arguments]


def read_selects(tokens: Tokens, under_policy: bool) -> tuple[DpSelect, ...]:
    """The SELECTs of a statement that hold DP calls, in the order of the text.

    NotSupported where a call is outside the list of a SELECT; otherwise raises as `read_call`.
    """
    places = [i for i, token in tokens.calls() if names_function(token)]
    _refuse_nested(tokens, places)
    of_selects: dict[int, tuple[SelectText, list[int]]] = {}
    for index in places:
        select = enclosing_select(tokens, index)
        begin = select.clauses[0].start if select.clauses else -1
        of_selects.setdefault(begin, (select, []))[1].append(index)
    placed = [_placed(tokens, *one, under_policy) for one in of_selects.values()]
    found = tuple(_read_select(tokens, one, under_policy) for one in placed)
    for one in found:
        _refuse_in_source(tokens, places, one, under_policy)
    return found


def _refuse_nested(tokens: Tokens, places: Sequence[int]) -> None:
    """Refuse a DP call in the arguments of another."""
    ends = [end_of_call(tokens, index) for index in places]
    for end, index in zip(ends, places[1:], strict=False):
        if index < end:
            message = "A DP call is not allowed inside the arguments of another DP call."
            hint = "Answer the inner call first, in a query of its own."
            raise tokens[index].error(NotSupported, message, hint)


def _refuse_in_source(
    tokens: Tokens, places: Sequence[int], select: DpSelect, under_policy: bool
) -> None:
    """Refuse a DP call in the source of another: it would be released again at each reading."""
    for index in places:
        spans = (select.source, select.condition or (0, 0))
        if any(a <= tokens[index].start < b for a, b in spans):
            message = "A DP call is not allowed in the source of another DP call."
            hint = "Answer the inner call first, in a query of its own."
            if not under_policy:
                hint = (
                    "Answer the inner call first: CREATE TABLE … AS SELECT …, and select from it."
                )
            raise tokens[index].error(NotSupported, message, hint)


def _placed(
    tokens: Tokens, select: SelectText, places: Sequence[int], under_policy: bool
) -> _Placed:
    """A SELECT and its calls, if they may be where they are."""
    clauses = {index: select.clause_of(index) for index in places}
    comparable = [i for i, one in clauses.items() if one and one.keyword in _OF_REPEATS]
    given = {index: arguments_of(tokens, index) for index in comparable}
    again = repeated_calls(tokens, given, under_policy)
    first = [index for index in places if index not in again]
    for index in places:
        (check_beside if index in again else check_place)(tokens, index, select)
    repeats = [(index, first.index(of)) for index, of in again.items()]
    return _Placed(select, first, sorted(repeats), given)


def _read_select(tokens: Tokens, placed: _Placed, under_policy: bool) -> DpSelect:
    """The parts of a SELECT, once its calls and their groups are read and fit together."""
    select, places, repeats, given = placed
    source = _behind(tokens, select.clause("FROM"))
    assert source is not None  # check_place has seen it
    items = _items(tokens, select, given)
    group = select.clause("GROUP")
    keys = group_keys(tokens, group, items, tokens.between(source).folded) if group else ()
    unit = stated_unit(given.values())
    of_groups = _needed_of_groups(tokens, given, keys, unit)
    calls = tuple(read_call(tokens, index, under_policy, of_groups, unit) for index in places)
    _check_groups(tokens, select, calls, items, keys)
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
        condition=_behind(tokens, select.clause("WHERE")),
        ctes=select.ctes,
        repeats=tuple(
            (tokens[i : end_of_call(tokens, i) + 1].span, number) for i, number in repeats
        ),
    )


def _behind(tokens: Tokens, clause: Clause | None) -> Span | None:
    """Where a clause is in the text, without its keyword."""
    if clause is None:
        return None
    if clause.start + 1 >= clause.stop:
        raise tokens[clause.start].error(NotSupported, "This clause is empty.")
    return tokens[clause.start + 1 : clause.stop].span


def _items(tokens: Tokens, select: SelectText, places: Iterable[int]) -> tuple[ListItem, ...]:
    """The items of the list; `places` are those of the DP calls."""
    listed = select.clause("SELECT")
    assert listed is not None  # check_place has seen it
    start = listed.start + 1 + (tokens[listed.start + 1].upper in {"DISTINCT", "ALL"})
    if tokens[start - 1].upper == "DISTINCT" and tokens[start].upper == "ON":
        message = "A SELECT with a DP call cannot have DISTINCT ON."
        raise tokens[start].error(NotSupported, message, "Write DISTINCT ON in an outer query.")
    starts = {tokens[place].start for place in places}
    parts = (tokens[a:b] for a, b in tokens.split(start, listed.stop) if a < b)
    return tuple(list_item(part, starts) for part in parts)


_OF_GROUPS = ("groups", "max_groups_contributed")


def _needed_of_groups(
    tokens: Tokens,
    given: Mapping[int, Arguments],
    keys: Sequence[Reference],
    unit: Argument | None,
) -> list[str]:
    """The arguments about groups that calls still need; those of one call are for all of them."""
    named = {name for arguments in given.values() for name, _ in arguments}
    finds_groups = any(
        function_of(tokens[place]).finds_groups({name for name, _ in arguments})
        for place, arguments in given.items()
    )
    is_by_person = unit is not None and any(key.text == unit.text for key in keys)
    if (finds_groups and "groups" not in named) or is_by_person or not keys:
        return []  # by person: refused when planned
    return [name for name in _OF_GROUPS if name not in named]


def _refuse_limits(tokens: Tokens, select: SelectText, calls: Sequence[DpCall]) -> None:
    """Refuse LIMIT beside an answer of one row: it looks as if it limited a list or the source."""
    for clause in filter(None, (select.clause("LIMIT"), select.clause("OFFSET"))):
        if any(call.k is not None for call in calls):
            message = f"{clause.keyword} next to a DP call does not limit the source."
            hint = "Choose k, or limit the answer in an outer query."
            instead = [tokens[clause.start : clause.stop].put("")]
            raise tokens[clause.start].error(NotSupported, message, hint, instead)


def _check_groups(
    tokens: Tokens,
    select: SelectText,
    calls: Sequence[DpCall],
    items: Sequence[ListItem],
    keys: Sequence[Reference],
) -> None:
    """Refuse arguments about groups without GROUP BY, and calls with different groups."""
    group = select.clause("GROUP")
    finding = [call for call in calls if call.finds_groups]
    for call in finding:
        _check_finding(call, finding[0], calls, bool(keys))
    for call in calls if not keys else ():
        if of_groups := [call.given[name] for name in _OF_GROUPS if name in call.given]:
            message = "groups and max_groups_contributed need a GROUP BY clause."
            hint = "Add GROUP BY, or leave these arguments out."
            instead = [of_groups[0].omitted()]
            read = select.clause("WHERE") or select.clause("FROM")
            if read and not group and not all(item.has_call for item in items):
                last = tokens[read.stop - 1]
                instead.insert(0, last.put(f"{last.text} GROUP BY ALL"))
            raise tokens[tokens.place_at(call.start)].error(NotSupported, message, hint, instead)
    stated = [call.groups for call in calls if call.groups is not None]
    if len({groups.text for groups in stated}) > 1:
        message = "All DP calls of one SELECT must have the same groups."
        hint = "Write groups in one of the calls, or the same in all."
        instead = [call.given["groups"].omitted() for call in calls if call.groups is not None]
        raise tokens[tokens.place_at(calls[0].start)].error(NotSupported, message, hint, instead)
    if stated:
        refuse_two_meanings(tokens, items, keys, stated[0])
    are_of_people = all(call.parameters.reads_people for call in calls)
    if group and not are_of_people and any(key.is_expression for key in keys):
        message = "GROUP BY beside DP_SELECT takes columns of the scores."
        hint = "Give the expression a name in a subquery, and group by that name."
        raise tokens[group.start].error(NotSupported, message, hint)


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

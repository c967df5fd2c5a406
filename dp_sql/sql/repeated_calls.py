"""Which calls of a SELECT repeat another one? They are one release. Pure: no catalog."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from dp_sql.sql.arguments import stated_unit
from dp_sql.sql.filters import kept_by_filter
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import function_of
from dp_sql.sql.given import Argument, Arguments
from dp_sql.sql.tokens import Tokens

_VALUE = re.compile(r"current_|local|session_|user$", re.IGNORECASE)
_CAP = "max_groups_contributed"
_VALUE = re.compile(r"current_|local|session_|user$", re.IGNORECASE)
_Words = tuple[tuple[str, str], ...]


class _Call(NamedTuple):
    """The words of a call: its own, and those of the arguments that one call gives for others."""

    own: tuple[tuple[str, _Words], ...]
    shared: frozenset[tuple[str, _Words]]


def repeated_calls(
    tokens: Tokens, given: Mapping[int, Arguments], under_policy: bool
) -> dict[int, int]:
    """Which calls of a SELECT repeat another one, and which: the two are one release.

    given: the arguments of each call, by the place of its name. A call repeats one in the same
    words that has all of its shared arguments, and perhaps more; where several have more, it
    repeats none of these.
    """
    if len(given) < 2:
        return {}
    # Under a policy no call has a privacy unit: each one that is written is read, and refused.
    unit = None if under_policy else stated_unit(given.values())
    everywhere = {"groups"} if under_policy else {"groups", "privacy_unit"}
    has_one_cap = _have_one_cap(tokens, given)
    calls = list[tuple[_Call, int]]()
    for place, arguments in given.items():
        function, shared = function_of(tokens[place]), set(everywhere)
        if function.finds_groups({"delta"}):
            shared.add("delta")
        if has_one_cap and function.needs_cap:
            shared.add(_CAP)
        calls.append((_call(tokens, place, arguments, shared, unit), place))
    known, found = dict[_Call, int](), dict[int, int]()
    for call, place in sorted(calls, key=lambda one: -len(one[0].shared)):
        fuller = [
            at for one, at in known.items() if one.own == call.own and one.shared > call.shared
        ]
        if call in known or len(fuller) == 1:
            found[place] = known[call] if call in known else fuller[0]
        else:
            known[call] = place
    return found


def _have_one_cap(tokens: Tokens, given: Mapping[int, Arguments]) -> bool:
    """Whether calls without a cap on groups have that of the others: there is one, of given groups.

    Where delta finds the groups, each call has its own.
    """
    every = [(place, *one) for place, arguments in given.items() for one in arguments]
    caps = {_words(value) for _, name, value in every if name == _CAP}
    deltas = [place for place, name, _ in every if name == "delta"]
    finds = any(function_of(tokens[place]).finds_groups({"delta"}) for place in deltas)
    return len(caps) == 1 and not finds


def _call(
    tokens: Tokens, index: int, given: Arguments, shared: set[str], unit: Argument | None
) -> _Call:
    """The words of the call whose name is at `index`; `unit`: the privacy unit of all calls."""
    kept = kept_by_filter(tokens, tokens.matching(index + 1))
    own = [("name", _words(tokens[index : index + 1])), ("filter", _words(kept))]
    found = {"privacy_unit": _words(unit)} if unit is not None else dict[str, _Words]()
    for name, value in given:
        if name in shared:
            found[name] = _words(value)
        else:
            own.append((name, _words(value)))
    return _Call(tuple(own), frozenset(found.items()))


def _words(tokens: Tokens) -> _Words:
    """What is written, without brackets around all of it and quotes around plain names."""
    while tokens and tokens[0].is_symbol("(") and tokens.matching(0) == len(tokens) - 1:
        tokens = tokens[1 : len(tokens) - 1]
    return tuple(
        ("word" if t.name and _is_plain(t.name) else t.kind, t.folded or t.text) for t in tokens
    )


def _is_plain(name: str) -> bool:
    """Whether a name means the same with quotes and without; current_date may be a column."""
    return shown_name(name) == name and not _VALUE.match(name)

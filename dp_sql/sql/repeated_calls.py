"""Which calls of a SELECT repeat another one? They are one release. Pure: no catalog."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dp_sql.sql.filters import kept_by_filter
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import Tokens, folded

_UNIT = "privacy_unit"
_SHARED = {_UNIT, "groups"}  # arguments of one call that are for all of its SELECT
_CAP = "max_groups_contributed"

_Words = tuple[tuple[str, str], ...]


class _CallWords(NamedTuple):
    """The words of a call: its name and own arguments, and the arguments that its SELECT shares."""

    own: list[_Words]
    shared: dict[str, _Words]


def repeated_calls(tokens: Tokens, places: Sequence[int], under_policy: bool) -> dict[int, int]:
    """Which calls of a SELECT repeat another one, and which: the two are one release.

    places: where the names of the calls are. A call may leave out arguments that the SELECT shares;
    of two, the one with more of them is repeated. One that may mean several repeats none.
    """
    if len(places) < 2:
        return {}
    shares_cap = _shares_cap(tokens, places)
    words = [(_call_words(tokens, place, shares_cap), place) for place in places]
    words.sort(key=lambda one: (-len(one[0].shared.keys() - {_UNIT}), _UNIT not in one[0].shared))
    known, found = list[tuple[_CallWords, int]](), dict[int, int]()
    for call, place in words:
        alike = [one for one in known if one[0].own == call.own]
        same = [one for one in alike if one[0].shared == call.shared]
        # An owner's privacy unit is read from any of the calls; under a policy, a call has none.
        given = {one for one in call.shared.items() if under_policy or one[0] != _UNIT}
        fuller = [
            one
            for one in alike
            if given <= one[0].shared.items()
            and call.shared.get(_UNIT) in {None, one[0].shared.get(_UNIT, call.shared.get(_UNIT))}
        ]
        if same or len(fuller) == 1:
            found[place] = (same or fuller)[0][1]
        else:
            known.append((call, place))
    return found


def _named_arguments(tokens: Tokens, index: int) -> Iterator[tuple[str, Tokens]]:
    """The names of a call's arguments, folded, with their values; "" where there is no name."""
    for a, b in tokens.split(index + 2, tokens.matching(index + 1)):
        is_named = tokens.at(a + 1).is_symbol(":=", "=>")
        yield (tokens[a].folded, tokens[a + 2 : b]) if is_named else ("", tokens[a:b])


def _shares_cap(tokens: Tokens, places: Sequence[int]) -> bool:
    """Whether calls without a cap on groups have that of the others: there is one, of given groups.

    Where delta finds the groups, each call has its own.
    """
    named = [(FUNCTIONS[(tokens[i].name or "").upper()], name, value)
             for i in places for name, value in _named_arguments(tokens, i)]  # fmt: skip
    finds = any(name == "delta" and function.finds_groups({name}) for function, name, _ in named)
    return not finds and len({_words(value) for _, name, value in named if name == _CAP}) == 1


def _call_words(tokens: Tokens, index: int, shares_cap: bool) -> _CallWords:
    """The words of the call whose name is at `index`, to compare with those of others."""
    function = FUNCTIONS[(tokens[index].name or "").upper()]
    shares = _SHARED | ({"delta"} if function.finds_groups({"delta"}) else set())
    if shares_cap and function.needs_cap:
        shares |= {_CAP}
    kept = _words(kept_by_filter(tokens, tokens.matching(index + 1)))
    own, shared = [_words(tokens[index : index + 1]), kept], dict[str, _Words]()
    for name, value in _named_arguments(tokens, index):
        if name in shares:
            shared[name] = _words(value)
        else:
            own.append((("", name), *_words(value)))
    return _CallWords(own, shared)


def _words(tokens: Tokens) -> _Words:
    return tuple((t.kind, folded(t.name) if t.name else t.text) for t in tokens)

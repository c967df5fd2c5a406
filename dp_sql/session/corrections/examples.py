"""Which values of a proposed statement are only examples, and what to write instead. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dp_sql.errors import ParseError
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import Tokens, tokenize

Given = dict[str, str]  # the named arguments of a call, and its positional numbers, as written

_MEANT = {
    "epsilon": "epsilon (the privacy loss that you choose)",
    "k": "k (how many items you want)",
    "q": "q (your quantile)",
    "delta": "delta (well below one over the number of people)",
    "step": "step (the distance between possible answers)",
}
_BOUNDS = {
    ("lower", "upper"): "lower and upper (the range that you know without looking at the data)",
    ("lower",): "lower (the least value that you know without looking at the data)",
    ("upper",): "upper (the largest value that you know without looking at the data)",
}
OF_GROUPS = "groups (your own public values)"
_UNKNOWN = " "  # begins the name of a value that was written without the name of an argument
_OF_ENDS = {"0.01", "0.99"}  # these quantiles are what was asked, nearly
_CLOSE = "An extreme value may belong to one person, so it is not released; a quantile is close."


def examples(before: str, after: str, known: Sequence[str]) -> str:
    """What to say of values that a statement has and the one before it has not; maybe nothing.

    known: what the policy or its tables give, which is no example.
    """
    try:
        old, new = _calls(before), _calls(after)
    except ParseError:
        return ""
    already = {(name, value) for call in old for name, value in call.items()}
    is_same_call = len(old) == len(new)
    theirs = {value for call in old for name, value in call.items() if name.startswith(_UNKNOWN)}
    names = {name for call in old for name in call}

    def is_example(name: str, value: str) -> bool:
        if (name, value) in already or f"{name} := {value}" in before:  # in a string, for dp(…)
            return False
        if value in known or (value.startswith("(") and value[1:-1] in ", ".join(known)):
            return False
        if is_same_call:
            return name not in names and value not in theirs
        return name not in {"k", "q"}  # which an aggregate that is replaced had, too

    came: Given = {}
    for call in new:
        for name, value in call.items():
            if is_example(name, value):
                came.setdefault(name, value)
    ends = [call["q"] for call in new if call.get("q") in _OF_ENDS]
    is_close = any(("q", q) not in already for q in ends) and not is_same_call
    return " ".join([_CLOSE] * is_close + _sentences(came))


def _sentences(came: Given) -> list[str]:
    replaced = [said for name, said in _MEANT.items() if name in came]
    bounds = tuple(name for name in ("lower", "upper") if name in came)
    if bounds:
        replaced.insert(bool("epsilon" in came), _BOUNDS[bounds])
    sets = [n for n in ("domain", "groups") if came.get(n, "").startswith(("[", "(", "range"))]
    sets = [name for name in sets if "observed" not in came[name]]
    replaced += [f"{name} (your own public values)" for name in sets]
    found = []
    if replaced:
        found.append(f"Example values to replace: {', '.join(replaced)}.")
    if "max_groups_contributed" in came:
        number = came["max_groups_contributed"]
        where = "one group only" if number == "1" else f"at most {number} groups"
        found.append(f"With max_groups_contributed := {number}, each person counts in {where}.")
    if "privacy_unit" in came:
        unit = came["privacy_unit"]
        found.append(f"{unit} is a guess: check that it identifies the person of each row.")
    return found


def _calls(text: str) -> list[Given]:
    """The arguments of each DP call, in order."""
    tokens, found = tokenize(text), []
    for i, token in enumerate(tokens):
        name = (token.name or "").upper()
        if name.startswith("DP_") and tokens.at(i + 1).is_symbol("("):
            function = FUNCTIONS.get(name)
            positions = [*(function.positional if function else ()), "", ""]
            close = tokens.matching(i + 1)
            given: Given = {}
            for n, (start, stop) in enumerate(tokens.split(i + 2, close)):
                part, position = tokens[start:stop], positions[min(n, len(positions) - 1)]
                _add(given, part, position, function.named if function else ())
            found.append(given)
    return found


def _add(given: Given, part: Tokens, position: str, known: Collection[str]) -> None:
    name, mark = part.at(0).folded, part.at(1)
    if mark.is_symbol(":=", "=>") and name in known:
        given[name] = part[2:].text
    elif position in {"k", "q"}:
        given[position] = part.text
    elif mark.is_symbol(":=", "=>", "=", "==") or not position:
        given[_UNKNOWN + part.text] = part[-1:].text


def values_given(text: str) -> list[str]:
    """The values of the arguments of a statement's DP calls."""
    return [value for call in _calls(text) for value in call.values()]


def left_out(before: str, after: str) -> list[str]:
    """The named arguments that a correction drops, in the order in which they are written."""
    try:
        old, new = _calls(before), _calls(after)
    except ParseError:
        return []
    kept = {name for call in new for name in call}
    dropped = (name for call in old for name in call if name not in kept)
    return [name for name in dict.fromkeys(dropped) if name in {"lower", "upper"}]

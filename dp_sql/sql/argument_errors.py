"""What is wrong with the arguments of one DP call, and what to write instead. Pure."""

import re
from collections.abc import Mapping, Sequence

from dp_sql.errors import ArgumentError, NotSupported, guessed
from dp_sql.sql.formatting import combination
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.given import Argument, Given
from dp_sql.sql.restated import Restated
from dp_sql.sql.shape import Function
from dp_sql.sql.tokens import Token, Tokens, edited

EPSILON = "epsilon := <number> (the privacy loss)"
CAP = "max_groups_contributed := <number> (in how many groups one person may count)"
_UNIT = "privacy_unit := <column> (the column that identifies the person each row belongs to)"
_DOMAIN = "a domain (the public set of items that the answer may contain)"
_OTHER_NAMES = {"min": "lower", "max": "upper", "unit": "privacy_unit"}  # of arguments
BOUND_EACH = "CASE bounds each value, and contribution_bound each person's sum."
FINDS_ITEMS = "delta finds items here, not groups"


def groups_needed(given: Mapping[str, Argument]) -> str:
    """What a call with these arguments lacks in a SELECT with groups."""
    also = f"; {FINDS_ITEMS}" if "delta" in given else ""
    return f"groups (the public set of groups{also})"


def positional_needed(
    function: Function, lacking: Sequence[str], max_k: int | None = None
) -> dict[str, str | None]:
    """What a call lacks of the arguments without a name, and an example; None: there is none."""
    examples = {"k": str(min(10, max_k or 10)), "q": "0.5"}
    if function.shape.takes_star:
        examples["item"] = "*"
    names = [name for name in function.positional if name in lacking]
    described = f"the positional argument{'s' * (len(names) > 1)} {_joined(names)}"
    is_known = examples.keys() >= {*names}
    written = ", ".join(examples[name] for name in names) if is_known else None
    return {described: written} if names else {}


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def missing(
    text: str,
    function: Function,
    span: tuple[int, int],
    needed: Mapping[str, str | None],
    ways: Sequence[Sequence[str]] = (),
    behind: int = 0,
    again: Sequence[tuple[int, int]] = (),
) -> ArgumentError:
    """The refusal of a call that needs more.

    needed: what it needs, and how this is written in a call. ways: what completes it, if not this.
    behind: where its last argument without a name ends. again: where the call is repeated.
    """
    added = [one for one in needed.values() if one is not None]
    message = f"{function.name} needs {_joined([*needed])}."
    ways = ways or [added] * (len(added) == len(needed))
    instead = [
        _completed(text, span[1] - 1, one, behind, again)
        for way in ways
        for one in _with_other_values(way, function.shape.needs)
    ]
    hint = None
    if not ways:
        hint = f"For example: {function.example}"
    elif any(re.search(r"\bobserved\b(?!\.)", one) for one in added):
        hint = (
            "groups := observed declares that the set of groups in the data is public. If it is "
            "not, write a public table's column or a list instead, such as ['north', 'south']."
        )
    elif any(said in needed for said, _ in function.shape.needs.values()):
        hint = "Bounds are public: choose them without looking at the data."
    return ArgumentError(message, text=text, position=span[0], hint=hint, instead=instead)


def _completed(
    text: str, end: int, added: Sequence[str], behind: int, again: Sequence[tuple[int, int]]
) -> str:
    """The statement with more arguments in the call whose bracket is closed at `end`.

    They are also written where the call is repeated, before or after it: it stays one release.
    """
    first = ", ".join(one for one in added if one and " := " not in one)
    named = ", ".join(one for one in added if " := " in one)
    if named and not first:
        more = f", {named}"
        text = edited(text, [(stop - 1, stop - 1, more) for _, stop in again])
        end += len(more) * sum(stop <= end for _, stop in again)
    parts = [text[:behind], first, text[behind:end], named] if first else [text[:end], named]
    whole = ""
    for part in parts:
        is_apart = part.strip() and whole and not whole.endswith("(") and part.lstrip()[0] != ","
        whole += f", {part}" if is_apart else part
    return whole + text[end:]


def refuse_missing(
    function: Function,
    given: Given,
    lacking: Sequence[str],
    of_groups: Sequence[str],
    span: tuple[int, int],
    behind: int,
) -> None:
    """Refuse an owner's call for all that it lacks; the example's groups are the data's own.

    lacking: what every call of its function has. behind: as in `missing`.
    """
    named, needs = given.arguments, function.shape.needs
    needed = positional_needed(function, lacking)
    # What may be missing, by the argument's name, and what to write for it.
    wanted = {
        "epsilon": (EPSILON, "epsilon := 1.0"), "privacy_unit": (_UNIT, "privacy_unit := user_id"),
    }  # fmt: skip
    if not {"domain", "delta", "mechanism"} & named.keys():
        wanted["domain"] = _DOMAIN, "delta := 1e-9"  # with which it needs no domain
    wanted |= {name: (said, f"{name} := {values[0]}") for name, (said, values) in needs.items()}
    if function.shape.reads_people and not function.finds_groups(named):
        if "groups" in of_groups:
            wanted["groups"] = groups_needed(named), "groups := observed"
        if "max_groups_contributed" in of_groups and not function.shape.may_be_vector(given):
            wanted["max_groups_contributed"] = CAP, ""  # once it is known how many groups there are
    lacks = {n for n in wanted if n in function.named and (n in lacking or n not in named)}
    if not needed and (lacks <= {"domain"} or lacks <= {"groups", "max_groups_contributed"}):
        return  # a mechanism may need no domain, and groups may be known; else refused later
    needed |= dict(wanted[name] for name in wanted if name in lacks)
    raise missing(given.token.source, function, span, needed, behind=behind)


def _with_other_values(
    added: Sequence[str], needs: Mapping[str, tuple[str, Sequence[str]]]
) -> list[list[str]]:
    """The added arguments with each of the values to try in turn, which fit different types."""
    names = [one.split(" := ")[0] for one in added]
    n_tried = max([len(needs[name][1]) for name in names if name in needs], default=1)
    return [
        [
            f"{name} := {needs[name][1][i]}" if name in needs else one
            for name, one in zip(names, added, strict=True)
        ]
        for i in range(n_tried)
    ]


def refuse_misplaced(given: Given) -> None:
    """Refuse under a policy what only an owner may state."""
    if given.under_policy and "privacy_unit" in given.arguments:
        raise given.arguments["privacy_unit"].refuse(
            "Under a policy privacy_unit is not an argument: the policy names the privacy unit.",
            "Leave privacy_unit out.",
            [given.arguments["privacy_unit"].omitted()],
        )


def star(function: Function, name: Token, item: Argument) -> ArgumentError:
    """The refusal of * where a column is needed, and the function that takes it."""
    others = [other.name for other in FUNCTIONS.values() if other.shape.takes_star]
    instead = [name.put(other) for other in others] if len(function.positional) == 1 else []
    hint = (
        f"{' and '.join(others)} takes *: every row counts. To count people, name the privacy unit."
    )
    return item.refuse(f"{function.name} takes a column, not *.", hint, instead)


def without_mark(part: Tokens, function: Function, is_full: bool) -> tuple[str, Tokens] | None:
    """The name and value of `epsilon = 1`, `epsilon: 1`, `epsilon 1` and a bare `report`."""
    name, after = (part[0].name or "").lower(), part.at(1)
    is_comparison = part[0].name is not None and after.is_symbol("=", "==")
    if not (is_comparison or is_full):
        return None
    known = name if name in function.named else guessed(name, function.named)
    if not known and not (is_comparison and is_full):
        return None  # a condition may be the item
    if is_comparison:
        return known or name, part[2:]
    if after.is_symbol(":"):
        return known, part[2:]
    if after.kind and after.kind != "symbol":
        return known, part[1:]
    return (name, Tokens()) if len(part) == 1 and name in {"report", "counts"} else None


def refuse_missing_comma(part: Tokens) -> None:
    """Refuse two arguments without a comma: `* epsilon := 1`, `epsilon := 1 beta := 0.1`."""
    for i in part.at_depth_zero(0, len(part)):
        before = part.at(i - 1)
        if i > 1 and part[i].is_symbol(":=", "=>") and before.name is not None:
            message = f"A comma is missing before {before.text}."
            instead = [Restated(part[i - 2].put(f"{part[i - 2].text},"))]
            raise before.error(ArgumentError, message, None, instead)


def misnamed(part: Tokens, name: str, value: Tokens) -> ArgumentError:
    """The refusal of a named argument that is not written with := or =>."""
    right = f"{name} := {value.text or 'true'}"
    at, message = part[0], "A named argument is written with := or =>."
    if part.at(1).is_symbol("=", "=="):
        message = f"Inside a call, {at.name} = … is a comparison, not an argument."
        at = part[1]
    return at.error(ArgumentError, message, f"Write {right}.", [part.put(right)])


def surplus(
    tokens: Tokens, at: tuple[int, int], function: Function, after_named: bool
) -> ArgumentError:
    """The refusal of an argument without a name that is one too many."""
    start, stop = at
    first, before = tokens[start], tokens.at(start - 2)
    positional = " and ".join(function.positional)
    message = f"{function.name} takes only its {positional} without a name; name the others, as in "
    message += "epsilon := 1."
    if after_named:
        message = "Positional arguments come before named ones."
    hint, instead = f"For example: {function.example}", [tokens.left_out(start, stop)]
    takes_strings = "VARCHAR" in (function.shape.item_types or ())
    takes_pairs = "item" in function.positional and takes_strings
    if takes_pairs and first.name is not None and before.name is not None:
        both = f"concat_ws('|', {tokens[start - 2 : stop].text})"  # of two columns, to be read
        if "k" not in function.positional:
            both = combination([before.text, tokens[start:stop].text])
        instead.insert(0, tokens[start - 2 : stop].put(both))
    range_of = tokens[start : stop + 2] if "lower" in function.named else Tokens()
    if [token.kind for token in range_of] == ["number", "symbol", "number"]:  # DP_AVG(x, 0, 100)
        return first.error(ArgumentError, message, None, [
            range_of.put(f"lower := {first.text}, upper := {range_of[-1].text}")
        ])  # fmt: skip
    if stop == start + 1 and first.kind == "number":
        has_epsilon = any(token.upper == "EPSILON" for token in tokens[stop:])
        instead.insert(has_epsilon, first.put(f"epsilon := {first.text}"))
        if before.kind == "number" and before.text.isdecimal():  # 0,5
            number = f"{before.text}.{first.text}"
            instead.insert(0, tokens[start - 2 : stop].put(number))
            hint = (
                f"One number takes a decimal point, as in {number}; an argument of its own takes "
            )
            hint += "its name, as in epsilon := 1."
    has_unit = any(token.upper == "PRIVACY_UNIT" for token in tokens)
    if tokens[start:stop].names and after_named and not has_unit:  # DP_COUNT(*, 1, user_id)
        unit = f"privacy_unit := {tokens[start:stop].text}"
        instead.insert(0, Restated(tokens[start:stop].put(unit)))
    return first.error(ArgumentError, message, hint, instead)


def unknown(tokens: Tokens, at: tuple[int, int], function: Function) -> ArgumentError:
    """The refusal of a name that is none of the function's arguments, and one that is near it."""
    first = tokens[at[0]]
    name = (first.name or "").lower()
    elsewhere = any(name in other.named for other in FUNCTIONS.values())
    if name == "upper" and "lower" in function.named:  # a sum: each value is bounded instead
        return first.error(
            ArgumentError, f"{function.name} has no argument upper.",
            BOUND_EACH, [Restated(_with_bounded_item(tokens, at))],
        )  # fmt: skip
    near = "" if elsewhere else guessed(_OTHER_NAMES.get(name, name), function.named)
    also = f" Did you mean {near}?" if near else ""
    instead = [first.put(near)] if near else []
    return first.error(
        ArgumentError,
        f"{function.name} has no argument {name}.{also}",
        f"Known arguments: {', '.join(function.named)}.",
        [*instead, tokens.left_out(*at)],
    )


def _with_bounded_item(tokens: Tokens, at: tuple[int, int]) -> str:
    """The text with CASE WHEN x < 0 THEN 0 WHEN x > 9 THEN 9 ELSE x END for x, lower, upper.

    NULL stays NULL, whereas least(x, 9) would be 9.
    """
    opening, depth = at[0] - 1, 0
    while depth or not tokens[opening].opens:
        depth += tokens[opening].closes - tokens[opening].opens
        opening -= 1
    close = tokens.matching(opening)
    item, *others = (tokens[a:b] for a, b in tokens.split(opening + 1, close))
    ends = {part[0].folded: part[2:].text for part in others if part.at(1).is_symbol(":=", "=>")}
    signs = {name: sign for name, sign in (("lower", "<"), ("upper", ">")) if name in ends}
    bounds = (f"WHEN {item.text} {sign} {ends[n]} THEN {ends[n]} " for n, sign in signs.items())
    bounded = f"CASE {''.join(bounds)}ELSE {item.text} END"
    kept = [part.text for part in others if part[:1].names not in {("lower",), ("upper",)}]
    return tokens[opening + 1 : close].put(", ".join([bounded, *kept]))


def refuse_modifiers(tokens: Tokens, function: Function, before: Tokens) -> None:
    """Refuse DISTINCT in front of an argument, and ORDER BY and the like in it.

    `before` are the tokens from the function's name to the one after DISTINCT.
    """

    def refused(
        token: Token, what: str, why: str, example: str, instead: Sequence[str]
    ) -> NotSupported:
        message = f"{function.name} does not take {what}{why}."
        return token.error(NotSupported, message, f"For example: {example}", instead)

    first, example = tokens[0], function.example
    if first.upper in {"DISTINCT", "ALL"} and len(tokens) > 1:
        people = function.shape.reads_people and not function.shape.counts_rows
        why = "; each person counts once for each item anyway" if people else ""
        instead: list[str] = [Restated(first.put(""))] if people or first.upper == "ALL" else []
        if first.upper == "DISTINCT" and function.distinct is not None:
            other = FUNCTIONS[function.distinct]
            why, example = f"; {other.name} counts different values", other.example
            instead = [before.put(f"{other.name}({tokens[1].text}")] if len(before) == 4 else []
        raise refused(first, first.upper, why, example, instead)
    for i in tokens.at_depth_zero(1, len(tokens) - 1):
        token = tokens[i]
        pair = f"{token.upper} {tokens[i + 1].upper}"
        if pair in {"ORDER BY", "IGNORE NULLS", "RESPECT NULLS"}:
            why = "; NULLs never count, and the order of the answer is its rank"
            raise refused(token, pair, why, example, [token.put("")])

"""What is wrong with the arguments of one DP call, and what to write instead. Pure."""

import re
from collections.abc import Mapping, Sequence

from dp_sql.errors import ArgumentError, NotSupported, guessed
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.given import Argument, Given
from dp_sql.sql.restated import Restated
from dp_sql.sql.shape import Function
from dp_sql.sql.tokens import Token, Tokens

EXAMPLES = {("k",): "10", ("q",): "0.5"}
EPSILON = "epsilon := <number> (the privacy loss)"
CAP = "max_groups_contributed := <number> (in how many groups one person may count)"
_UNIT = "privacy_unit := <column> (the column that identifies the person each row belongs to)"
_DOMAIN = "a domain (the public set of items that the answer may contain)"
FINDS_ITEMS = "delta finds items here, not groups"


def groups_needed(given: Mapping[str, Argument]) -> str:
    """What a call with these arguments lacks in a SELECT with groups."""
    also = f"; {FINDS_ITEMS}" if "delta" in given else ""
    return f"groups (the public set of groups{also})"


def missing(
    text: str,
    name: str,
    span: tuple[int, int],
    needed: Sequence[str],
    added: Sequence[str],
    others: Sequence[Sequence[str]] = (),
) -> ArgumentError:
    """The refusal of a call that needs more; `added` completes it, as one of `others` may."""
    start, end = span
    listed = needed[0] if len(needed) == 1 else f"{', '.join(needed[:-1])} and {needed[-1]}"
    instead = [f"{text[: end - 1]}, {', '.join(one)}{text[end - 1 :]}" for one in (added, *others)]
    hint = None
    if any(re.search(r"\bobserved\b(?!\.)", one) for one in added):
        hint = (
            "groups := observed declares that the set of groups in the data is public. If it is "
            "not, write a public table's column or a list instead, such as ['north', 'south']."
        )
    message = f"{name} needs {listed}."
    return ArgumentError(message, text=text, position=start, hint=hint, instead=instead)


def refuse_missing(
    function: Function, given: Given, span: tuple[int, int], of_groups: Sequence[str]
) -> None:
    """Refuse an owner's call for all that it lacks; the example's groups are the data's own.

    Under a policy, which may state the rest, only one that lacks what its function needs.
    """
    named, needs = given.arguments, function.shape.needs
    wanted = {"epsilon": (EPSILON, "1.0")}
    if not given.under_policy:
        wanted["privacy_unit"] = _UNIT, "user_id"
        if not {"domain", "delta", "mechanism"} & named.keys():
            wanted["domain"] = _DOMAIN, "observed"
    wanted |= {name: (said, values[0]) for name, (said, values) in needs.items()}
    if function.shape.reads_people and not given.under_policy:
        groups = {"groups": (groups_needed(named), "observed"), "max_groups_contributed": (CAP, "")}
        if "delta" in named and not function.shape.finds_items:
            groups = {}
        elif function.shape.may_be_vector(given):
            del groups["max_groups_contributed"]
        wanted |= {name: groups[name] for name in of_groups if name in groups}
    needed = {n: v for n, v in wanted.items() if n in function.named and n not in named}
    if needed.keys() <= {"domain"} or needed.keys() <= {"groups", "max_groups_contributed"}:
        return  # a mechanism may need no domain, and groups may be known; else refused later
    if given.under_policy and not needs.keys() & needed.keys():
        return
    # A cap comes with the groups, once it is known how many there are.
    added = [f"{name} := {value}" for name, (_, value) in needed.items() if value]
    added = ["delta := 1e-9" if one == "domain := observed" else one for one in added]
    descriptions = [described for described, _ in needed.values()]
    others = _other_values(added, {n: v for n, (_, v) in needs.items()})
    refusal = missing(given.token.source, function.name, span, descriptions, added, others)
    if needs.keys() & needed.keys() and refusal.hint is None:
        refusal.hint = "Bounds are public: choose them without looking at the data."
    raise refusal


def _other_values(added: Sequence[str], values: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The same arguments with the other values to try, which fit other types."""
    names = [one.split(" := ")[0] for one in added]
    n_others = max([len(values[name]) for name in names if name in values], default=1) - 1
    return [
        [
            f"{name} := {values[name][i + 1]}" if name in values else one
            for name, one in zip(names, added, strict=True)
        ]
        for i in range(n_others)
    ]


def refuse_misplaced(given: Given) -> None:
    """Refuse under a policy what only an owner may state."""
    if given.under_policy and "privacy_unit" in given.arguments:
        raise given.arguments["privacy_unit"].refuse(
            "Under a policy privacy_unit is not an argument: the policy names the privacy unit.",
            "Leave privacy_unit out.",
            [given.arguments["privacy_unit"].left_out()],
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
            instead = [Restated(before.put(f", {before.text}"))]
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
    instead = [tokens.left_out(start, stop)]
    takes_strings = "VARCHAR" in (function.shape.item_types or ())
    takes_pairs = "item" in function.positional and takes_strings
    if takes_pairs and first.name is not None and before.name is not None:
        both = f"concat_ws('|', {tokens[start - 2 : stop].text})"  # of two columns
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
            instead.insert(0, tokens[start - 2 : stop].put(f"{before.text}.{first.text}"))
    has_unit = any(token.upper == "PRIVACY_UNIT" for token in tokens)
    if tokens[start:stop].names and after_named and not has_unit:  # DP_COUNT(*, 1, user_id)
        unit = f"privacy_unit := {tokens[start:stop].text}"
        instead.insert(0, Restated(tokens[start:stop].put(unit)))
    return first.error(ArgumentError, message, f"For example: {function.example}", instead)


def unknown(tokens: Tokens, at: tuple[int, int], function: Function) -> ArgumentError:
    """The refusal of a name that is none of the function's arguments, and one that is near it."""
    first = tokens[at[0]]
    name = (first.name or "").lower()
    elsewhere = any(name in other.named for other in FUNCTIONS.values())
    near = "" if elsewhere else guessed(name, function.named)
    also = f" Did you mean {near}?" if near else ""
    instead = [first.put(near)] if near else []
    return first.error(
        ArgumentError,
        f"{function.name} has no argument {name}.{also}",
        f"Known arguments: {', '.join(function.named)}.",
        [*instead, tokens.left_out(*at)],
    )


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

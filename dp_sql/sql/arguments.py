"""Read the arguments of one DP call, and check all ranges. Pure: no catalog, no data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dp_sql.errors import ArgumentError, NotSupported, guessed
from dp_sql.sql import literals, ranges
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.given import Argument, Given, PublicSet, Reference, SetPerKey
from dp_sql.sql.restated import Restated
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.tokens import Token, folded, left_out, matching, put, split, text_of, token_at
from dp_sql.udfs.mechanism import Mechanism


@dataclass(frozen=True)
class DpCall:
    """One DP call: what it asks for, with every number already a checked exact value.

    `start` and `end` are the offsets of the call in the text; `display` is the name that DuckDB
    would give its column: the call without its named arguments. `columns` are the arguments that
    name columns. A public domain has at least `k` items; None: the call takes any. `groups` is the
    public set of groups; each person counts in at most `max_groups_contributed` of them. `missing`:
    whether epsilon is missing; such a call never becomes a plan, and only its error is still open.
    """

    function: Function
    start: int
    end: int
    display: str
    columns: Mapping[str, Reference]
    domain: PublicSet | None
    mechanism: Mechanism
    parameters: Shape
    k: int | None
    groups: PublicSet | SetPerKey | None
    max_groups_contributed: int | None
    missing: bool = False
    given: Mapping[str, Argument] = field(default_factory=dict, repr=False, compare=False)

    @property
    def finds_groups(self) -> bool:
        """Whether the groups are unknown, and a part of epsilon and delta finds them."""
        return "delta" in self.given and not self.function.shape.finds_items

    @property
    def takes_domain(self) -> bool:
        """Whether the items are those of a public domain."""
        return "domain" in self.function.named and not self.mechanism.finds_items

    @property
    def span(self) -> tuple[int, int]:
        """Where the call is in the text."""
        return self.start, self.end

    @property
    def item(self) -> Reference:
        """The column whose values are counted."""
        return self.columns["item"]

    @property
    def privacy_unit(self) -> Reference:
        """The column that identifies the person of each row."""
        return self.columns["privacy_unit"]


def stated(tokens: Sequence[Token], calls: Sequence[int], name: str) -> Argument | None:
    """The value of a named argument that some of the calls give, if it is the same in all."""
    found = [
        Argument(tokens[start + 2 : stop])
        for index in calls
        for start, stop in split(tokens, index + 2, matching(tokens, index + 1))
        if folded(tokens[start].name or "") == name
        and tokens[start + 1].is_symbol(":=", "=>")
        and stop > start + 2
    ]
    return found[0] if len({one.written for one in found}) == 1 else None


def read_call(
    tokens: Sequence[Token],
    index: int,
    under_policy: bool,
    of_groups: Sequence[str] = (),
    unit: Argument | None = None,
) -> DpCall:
    """Read the call whose name is `tokens[index]`, in a SELECT that needs `of_groups`, too.

    `unit` is the privacy unit that another call of the SELECT gives.

    Under a policy a call without epsilon is read as one that can never be planned: which other
    arguments it needs depends on the policy.

    Raises:
        ArgumentError: an argument is missing, unknown, out of range or not taken by the mechanism.
        NotSupported: DISTINCT, ORDER BY or IGNORE NULLS inside the call.
    """
    function = FUNCTIONS[(tokens[index].name or "").upper()]
    close = matching(tokens, index + 1)
    positional, named = _arguments(tokens, index, close, function)
    found = dict(zip(function.positional, positional, strict=True)) | named
    no_epsilon = under_policy and "epsilon" not in found
    if no_epsilon:
        found["epsilon"] = Argument([replace(tokens[index], kind="number", text="1")])
    given = Given(function.name, tokens[index], found, under_policy)
    _refuse_misplaced(given)
    if unit is not None and "privacy_unit" in function.named and not under_policy:
        found = {"privacy_unit": unit, **found}
    if not under_policy:
        span = tokens[index].start, tokens[close].end
        _refuse_missing(function, given._replace(arguments=found), span, of_groups)
    item = positional[0]
    if item.written == "*" and not function.shape.takes_star:
        raise _star(function, tokens[index], item)
    columns = {
        name: reader(found[name], f"the {name}" if name == function.positional[0] else name)
        for name, reader in function.shape.columns.items()
        if name in found
    }
    default = function.shape.default_mechanism(given, function.default_mechanism)
    known = literals.choice(tuple(function.mechanisms), function.default_mechanism)
    mechanism = function.mechanisms[given.optional("mechanism", known, default)]
    parameters = function.shape.read(given, mechanism)
    if "delta" in found and not function.shape.finds_items:
        parameters = replace(parameters, delta=given.read("delta", literals.read_delta))
    max_groups = literals.whole(ranges.MAX_GROUPS_CONTRIBUTED)
    return DpCall(
        function=function,
        start=tokens[index].start,
        end=tokens[close].end,
        display=f"{function.name.lower()}({', '.join(one.written for one in positional)})",
        columns=columns,
        domain=given.optional("domain", literals.read_domain, None),
        mechanism=mechanism,
        parameters=parameters,
        k=parameters.n_listed,
        groups=given.optional("groups", literals.read_groups, None),
        max_groups_contributed=given.optional("max_groups_contributed", max_groups, None),
        missing=no_epsilon,
        given=given.arguments,
    )


def _star(function: Function, name: Token, item: Argument) -> ArgumentError:
    """The refusal of * where a column is needed, and the function that takes it."""
    others = [other.name for other in FUNCTIONS.values() if other.shape.takes_star]
    instead = [put([name], other) for other in others] if len(function.positional) == 1 else []
    hint = (
        f"{' and '.join(others)} takes *: every row counts. To count people, name the privacy unit."
    )
    return item.refuse(f"{function.name} takes a column, not *.", hint, instead)


_EXAMPLES = {("k",): "10", ("q",): "0.5"}
EPSILON = "epsilon := <number> (the privacy loss)"
CAP = "max_groups_contributed := <number> (in how many groups one person may count)"
_UNIT = "privacy_unit := <column> (the column that identifies the person each row belongs to)"
_DOMAIN = "a domain (the public set of items that the answer may contain)"
_GROUPS = "groups (the public set of groups)"
FINDS_ITEMS = "delta finds items here, not groups"


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
    if any(one.endswith(":= observed") for one in added):
        hint = (
            "observed declares that the set of values in the data is public. If it is not, write "
            "a public table's column or a list instead, such as ['north', 'south']."
        )
    message = f"{name} needs {listed}."
    return ArgumentError(message, text=text, position=start, hint=hint, instead=instead)


def _refuse_misplaced(given: Given) -> None:
    """Refuse under a policy what only an owner may state."""
    if given.under_policy and "privacy_unit" in given.arguments:
        raise given.arguments["privacy_unit"].refuse(
            "Under a policy privacy_unit is not an argument: the policy names the privacy unit.",
            "Leave privacy_unit out.",
            [given.arguments["privacy_unit"].left_out()],
        )


def _refuse_missing(
    function: Function, given: Given, span: tuple[int, int], of_groups: Sequence[str]
) -> None:
    """Refuse an owner's call for all that it lacks; the example's groups are the data's own."""
    named = given.arguments
    wanted = {"epsilon": (EPSILON, "1.0"), "privacy_unit": (_UNIT, "user_id")}
    if not {"domain", "delta", "mechanism"} & named.keys():
        wanted["domain"] = _DOMAIN, "observed"
    wanted |= {name: (said, values[0]) for name, (said, values) in function.shape.needs.items()}
    if function.shape.reads_people:
        groups = {"groups": (_GROUPS, "observed"), "max_groups_contributed": (CAP, "1")}
        if "delta" in named and not function.shape.finds_items:
            groups = {}
        elif function.shape.may_be_vector(given):
            del groups["max_groups_contributed"]
        if "delta" in named and "groups" in groups:
            groups["groups"] = _GROUPS.replace(")", f"; {FINDS_ITEMS})"), "observed"
        wanted |= {name: groups[name] for name in of_groups if name in groups}
    needed = {n: v for n, v in wanted.items() if n in function.named and n not in named}
    if needed.keys() <= {"domain"}:
        return  # a mechanism may need none; else that is refused with what can be written
    added = [f"{name} := {value}" for name, (_, value) in needed.items()]
    added = ["delta := 1e-9" if one == "domain := observed" else one for one in added]
    descriptions = [described for described, _ in needed.values()]
    others = _other_values(added, {n: v for n, (_, v) in function.shape.needs.items()})
    raise missing(given.token.source, function.name, span, descriptions, added, others)


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


def _arguments(
    tokens: Sequence[Token], index: int, close: int, function: Function
) -> tuple[list[Argument], dict[str, Argument]]:
    positional: list[Argument] = []
    named: dict[str, Argument] = {}
    for start, stop in split(tokens, index + 2, close):
        if start >= stop:
            at = tokens[min(start, close)]
            without = [put(tokens[start - 1 : start], "")] if at.is_symbol(")") else []
            raise at.error(ArgumentError, "An argument is missing here.", instead=without)
        part = tokens[start:stop]
        _refuse_modifiers(part, function, tokens[index : start + 2])
        is_full = bool(named) or len(positional) == len(function.positional)
        if part[0].name is not None and token_at(part, 1).is_symbol(":=", "=>"):
            _add_named(named, tokens, (start, stop), function)
        elif meant := _meant(part, function, is_full):
            raise _misnamed(part, *meant)
        elif is_full:
            raise _surplus(tokens, (start, stop), function, bool(named))
        else:
            positional.append(Argument(part))
    if len(positional) < len(function.positional):
        missing = function.positional[len(positional) :]
        last = positional[-1].tokens[-1] if positional else tokens[index]
        instead = (
            [put([last], f"{last.text}, {_EXAMPLES[missing]}")] if missing in _EXAMPLES else []
        )
        if function.shape.takes_star and named:
            instead = [put(tokens[index : index + 2], f"{function.name}(*, ")]
        raise tokens[index].error(
            ArgumentError,
            f"{function.name} needs the positional argument{'s' * (len(missing) > 1)} "
            f"{' and '.join(missing)}.",
            f"For example: {function.example}", instead,
        )  # fmt: skip
    return positional, named


def _add_named(
    named: dict[str, Argument], tokens: Sequence[Token], at: tuple[int, int], function: Function
) -> None:
    """Read one argument written with its name."""
    part = tokens[slice(*at)]
    first, name = part[0], (part[0].name or "").lower()
    if name in function.positional:
        hint, instead = f"For example: {function.example}", [put(part[:2], "")]
        raise first.error(ArgumentError, f"{name} is written without its name.", hint, instead)
    if name not in function.named:
        raise _unknown(tokens, at, function)
    if name in named:
        raise first.error(ArgumentError, f"{name} is given twice.", None, [left_out(tokens, *at)])
    if not part[2:]:
        raise first.error(ArgumentError, f"{name} has no value.")
    for before, mark in pairwise(part[2:]):
        if mark.is_symbol(":=", "=>") and before.name is not None:
            instead = [put([before], f", {before.text}")]
            message = f"A comma is missing before {before.text}."
            raise before.error(ArgumentError, message, None, instead)
    named[name] = Argument(part[2:])


def _meant(
    part: Sequence[Token], function: Function, is_full: bool
) -> tuple[str, Sequence[Token]] | None:
    """The name and value of `epsilon = 1`, `epsilon: 1`, `epsilon 1` and a bare `report`."""
    name, after = (part[0].name or "").lower(), token_at(part, 1)
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
    return (name, ()) if len(part) == 1 and name in {"report", "counts"} else None


def _misnamed(part: Sequence[Token], name: str, value: Sequence[Token]) -> ArgumentError:
    """The refusal of a named argument that is not written with := or =>."""
    right = f"{name} := {text_of(value) or 'true'}"
    at, message = part[0], "A named argument is written with := or =>."
    if token_at(part, 1).is_symbol("=", "=="):
        message = f"Inside a call, {at.name} = … is a comparison, not an argument."
        at = part[1]
    return at.error(ArgumentError, message, f"Write {right}", [put(part, right)])


def _surplus(
    tokens: Sequence[Token], at: tuple[int, int], function: Function, after_named: bool
) -> ArgumentError:
    """The refusal of an argument without a name that is one too many."""
    start, stop = at
    first, before = tokens[start], token_at(tokens, start - 2)
    positional = " and ".join(function.positional)
    message = f"{function.name} takes only {positional} as positional arguments."
    if after_named:
        message = "Positional arguments come before named ones."
    instead = [left_out(tokens, start, stop)]
    if "item" in function.positional and first.name is not None and before.name is not None:
        both = f"concat_ws('|', {text_of(tokens[start - 2 : stop])})"  # of two columns
        instead.insert(0, put(tokens[start - 2 : stop], both))
    if stop == start + 1 and first.kind == "number":
        has_epsilon = any(token.upper == "EPSILON" for token in tokens[stop:])
        instead.insert(has_epsilon, put([first], f"epsilon := {first.text}"))
        if before.kind == "number" and before.text.isdecimal():  # 0,5
            instead.insert(0, put([before, first], f"{before.text}.{first.text}"))
    return first.error(ArgumentError, message, f"For example: {function.example}", instead)


def _unknown(tokens: Sequence[Token], at: tuple[int, int], function: Function) -> ArgumentError:
    first = tokens[at[0]]
    name = (first.name or "").lower()
    elsewhere = any(name in other.named for other in FUNCTIONS.values())
    near = "" if elsewhere else guessed(name, function.named)
    also = f" Did you mean {near}?" if near else ""
    instead = [put([first], near)] if near else []
    return first.error(
        ArgumentError,
        f"{function.name} has no argument {name}.{also}",
        f"Known arguments: {', '.join(function.named)}.",
        [*instead, left_out(tokens, *at)],
    )


def _refuse_modifiers(tokens: Sequence[Token], function: Function, before: Sequence[Token]) -> None:
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
        instead: list[str] = [Restated(put([first], ""))] if people or first.upper == "ALL" else []
        if first.upper == "DISTINCT" and function.distinct is not None:
            other = FUNCTIONS[function.distinct]
            why, example = f"; {other.name} counts different values", other.example
            instead = [put(before, f"{other.name}({tokens[1].text}")] if len(before) == 4 else []
        raise refused(first, first.upper, why, example, instead)
    for token, after in pairwise(tokens[1:]):
        pair = f"{token.upper} {after.upper}"
        if pair in {"ORDER BY", "IGNORE NULLS", "RESPECT NULLS"}:
            why = "; NULLs never count, and the order of the answer is its rank"
            raise refused(token, pair, why, example, [put([token], "")])

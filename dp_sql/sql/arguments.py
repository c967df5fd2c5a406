"""Read the arguments of one DP call, and check all ranges. Pure: no catalog, no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dp_sql.errors import ArgumentError, NotSupported, guess
from dp_sql.sql import literals, ranges
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.literals import Argument, Given, PublicSet, Reference, SetPerKey
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.tokens import Token, matching, split, text_of
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

    @property
    def item(self) -> Reference:
        """The column whose values are counted."""
        return self.columns["item"]

    @property
    def privacy_unit(self) -> Reference:
        """The column that identifies the person of each row."""
        return self.columns["privacy_unit"]


def read_call(
    tokens: Sequence[Token], index: int, under_policy: bool, grouped: bool = False
) -> DpCall:
    """Read the call whose name is `tokens[index]`, in a SELECT that may be grouped.

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
    _refuse_misplaced(function, given)
    if not under_policy:
        _refuse_missing(function, given, (tokens[index].start, tokens[close].end), grouped)
    columns = {
        name: reader(found[name], f"the {name}" if name == function.positional[0] else name)
        for name, reader in function.shape.columns.items()
        if name in found
    }
    default = function.shape.default_mechanism(given, function.default_mechanism)
    known = literals.choice(tuple(function.mechanisms), function.default_mechanism)
    mechanism = function.mechanisms[given.optional("mechanism", known, default)]
    parameters = function.shape.read(given, mechanism)
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
    )


EPSILON = "epsilon := <number> (the privacy loss)"
CAP = "max_groups_contributed := <number> (in how many groups one person may count)"
_UNIT = "privacy_unit := <column> (the column that identifies the person each row belongs to)"
_DOMAIN = "a domain (the public set of items that the answer may contain)"
_GROUPS = "groups (the public set of groups)"


def missing(
    text: str, name: str, span: tuple[int, int], needed: Sequence[str], added: Sequence[str]
) -> ArgumentError:
    """The refusal of a call in a text without all that it needs; `added` is what to add to it."""
    start, end = span
    listed = needed[0] if len(needed) == 1 else f"{', '.join(needed[:-1])} and {needed[-1]}"
    written = f"{text[: end - 1]}, {', '.join(added)}{text[end - 1 :]}"
    hint = f"For example: {written}"
    if any(one.endswith(":= observed") for one in added):
        sets = "groups := ['north', 'south']"
        hint += (
            "\nThe word observed declares that the set of values in the data is public. "
            f"Otherwise name a public table's column, or write a list, as in {sets}."
        )
    return ArgumentError(f"{name} needs {listed}.", text=text, position=start, hint=hint)


def _refuse_misplaced(function: Function, given: Given) -> None:
    """Refuse under a policy what only an owner may state."""
    if given.under_policy and "privacy_unit" in given.arguments:
        raise given.arguments["privacy_unit"].refuse(
            "Under a policy privacy_unit is not an argument: the policy names the privacy unit.",
            "Leave privacy_unit out.",
        )


def _refuse_missing(function: Function, given: Given, span: tuple[int, int], grouped: bool) -> None:
    """Refuse an owner's call for all that it lacks; the example declares the data's own sets."""
    named = given.arguments
    wanted = {"epsilon": (EPSILON, "1.0"), "privacy_unit": (_UNIT, "user_id")}
    if not {"domain", "delta", "mechanism"} & named.keys():
        wanted["domain"] = _DOMAIN, "observed"
    if grouped and function.shape.reads_people:
        wanted |= {"groups": (_GROUPS, "observed"), "max_groups_contributed": (CAP, "1")}
    needed = {n: v for n, v in wanted.items() if n in function.named and n not in named}
    if needed.keys() <= {"domain"}:
        return  # a mechanism may need none; else that is refused with what can be written
    added = [f"{name} := {value}" for name, (_, value) in needed.items()]
    descriptions = [described for described, _ in needed.values()]
    raise missing(given.token.source, function.name, span, descriptions, added)


def _arguments(
    tokens: Sequence[Token], index: int, close: int, function: Function
) -> tuple[list[Argument], dict[str, Argument]]:
    positional: list[Argument] = []
    named: dict[str, Argument] = {}
    example = f"For example: {function.example}"
    for start, stop in split(tokens, index + 2, close):
        if start >= stop:
            raise tokens[min(start, close)].error(ArgumentError, "An argument is missing here.")
        first = tokens[start]
        _refuse_modifiers(tokens[start:stop], function)
        symbol = tokens[start + 1] if stop - start > 1 and first.name is not None else None
        value = tokens[start + 2 : stop]
        if symbol is not None and symbol.is_symbol(":=", "=>"):
            name = (first.name or "").lower()
            if name in named:
                raise first.error(ArgumentError, f"{name} is given twice.")
            if name not in function.named:
                raise _unknown(first, function)
            if not value:
                raise first.error(ArgumentError, f"{name} has no value.")
            named[name] = Argument(value)
        elif symbol is not None and symbol.is_symbol("=", "=="):
            message = f"Inside a call, {first.name} = … is a comparison, not an argument."
            raise symbol.error(ArgumentError, message, f"Write {first.name} := {text_of(value)}")
        elif named:
            message = "Arguments without a name come before those with one."
            raise first.error(ArgumentError, message, example)
        else:
            positional.append(Argument(tokens[start:stop]))
    if len(positional) != len(function.positional):
        message = (
            f"{function.name} takes {len(function.positional)} argument(s) without a name "
            f"({', '.join(function.positional)}), not {len(positional)}."
        )
        raise tokens[index].error(ArgumentError, message, example)
    return positional, named


def _unknown(token: Token, function: Function) -> ArgumentError:
    name = (token.name or "").lower()
    near = guess(name, function.named)
    known = f"Known arguments: {', '.join(function.named)}."
    return token.error(ArgumentError, f"{function.name} has no argument {name}.{near}", known)


def _refuse_modifiers(tokens: Sequence[Token], function: Function) -> None:
    """Refuse DISTINCT in front of an argument, and ORDER BY and the like in it."""

    def refused(token: Token, what: str, why: str) -> NotSupported:
        message = f"{function.name} does not take {what}{why}."
        return token.error(NotSupported, message, f"For example: {function.example}")

    if tokens[0].upper in {"DISTINCT", "ALL"} and len(tokens) > 1:
        people = function.shape.reads_people
        why = "; each person counts once for each item anyway" if people else ""
        raise refused(tokens[0], tokens[0].upper, why)
    for token, after in pairwise(tokens[1:]):
        pair = f"{token.upper} {after.upper}"
        if pair in {"ORDER BY", "IGNORE NULLS", "RESPECT NULLS"}:
            why = "; NULLs never count, and the order of the answer is its rank"
            raise refused(token, pair, why)

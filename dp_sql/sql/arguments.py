"""Read the arguments of one DP call. Pure: no catalog, no data.

Every argument except the columns is a literal. So all ranges are checked here, before anything is
planned, and so is whether the mechanism takes what it is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.sql import literals
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.literals import Argument, Given, ListLiteral, Reference
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.tokens import Token, matching, split, text_of
from dp_sql.udfs.mechanism import Mechanism


@dataclass(frozen=True)
class DpCall:
    """One DP call: what it asks for, with every number already a checked exact value.

    `start` and `end` are the offsets of the call in the text; `display` is the name that DuckDB
    would give its column: the call without its named arguments. `columns` are the arguments that
    name columns. A public domain has at least `k` items; None: the call takes any. `groups` is the
    public set of groups; each person counts in at most `max_groups_contributed` of them.
    """

    function: Function
    start: int
    end: int
    display: str
    columns: Mapping[str, Reference]
    domain: Reference | ListLiteral | None
    mechanism: Mechanism
    parameters: Shape
    k: int | None
    groups: Reference | ListLiteral | None
    max_groups_contributed: int | None

    @property
    def item(self) -> Reference:
        """The column whose values are counted."""
        return self.columns["item"]

    @property
    def privacy_unit(self) -> Reference:
        """The column that identifies the person of each row."""
        return self.columns["privacy_unit"]


def read_call(
    text: str, tokens: Sequence[Token], index: int, *, under_policy: bool = False
) -> DpCall:
    """Read the call whose name is `tokens[index]`.

    Args:
        text: the statement.
        tokens: its tokens.
        index: of the call's name.
        under_policy: the policy states the privacy unit, and may state the domain.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal, out of range, or not taken
            by the mechanism.
        NotSupported: DISTINCT, ORDER BY or IGNORE NULLS inside the call.
    """
    function = FUNCTIONS[(tokens[index].name or "").upper()]
    close = matching(tokens, index + 1, text)
    positional, named = _arguments(text, tokens, index, close, function)
    start = tokens[index].start
    found = dict(zip(function.positional, positional, strict=True)) | named
    given = Given(function.name, text, start, found, under_policy)
    if under_policy:
        _refuse_under_policy(function, given)
    _refuse_missing(function, given)
    columns = {
        name: reader(found[name], f"the {name}" if name == function.positional[0] else name)
        for name, reader in function.shape.columns.items()
        if name in found
    }
    default = function.shape.default_mechanism(given, function.default_mechanism)
    known = literals.choice(tuple(function.mechanisms), function.default_mechanism)
    mechanism = function.mechanisms[given.optional("mechanism", known, default)]
    parameters = function.shape.read(given, mechanism)
    shown = ", ".join(argument.written for argument in positional)
    return DpCall(
        function=function,
        start=start,
        end=tokens[close].end,
        display=f"{function.name.lower()}({shown})",
        columns=columns,
        domain=given.optional("domain", literals.read_domain, None),
        mechanism=mechanism,
        parameters=parameters,
        k=parameters.n_listed,
        groups=given.optional("groups", literals.read_domain, None),
        max_groups_contributed=given.optional(
            "max_groups_contributed", literals.read_groups_contributed, None
        ),
    )


_REQUIRED = {
    "epsilon": "epsilon := <number> (the privacy loss)",
    "privacy_unit": "privacy_unit := <column> (the column that identifies the person each row "
    "belongs to)",
}


def _refuse_missing(function: Function, given: Given) -> None:
    missing = [
        what
        for name, what in _REQUIRED.items()
        if name in function.named and name not in given.arguments
        if not (given.under_policy and name == "privacy_unit")
    ]
    if missing:
        raise given.refuse(
            f"{function.name} needs {' and '.join(missing)}.", f"For example: {function.example}"
        )


def _refuse_under_policy(function: Function, given: Given) -> None:
    """Refuse what only an owner may state."""
    if not function.shape.reads_people:
        raise NotSupported(
            f"{function.name} is not available under a policy: the owner must declare its "
            "sensitivities, and a policy cannot.",
            text=given.text,
            position=given.position,
        )
    if "privacy_unit" in given.arguments:
        raise given.arguments["privacy_unit"].refuse(
            "Under a policy privacy_unit is not an argument: the policy names the privacy unit.",
            "Leave privacy_unit out.",
        )


# --- the tokens of the call -----------------------------------------------------------------------


def _arguments(
    text: str, tokens: Sequence[Token], index: int, close: int, function: Function
) -> tuple[list[Argument], dict[str, Argument]]:
    positional: list[Argument] = []
    named: dict[str, Argument] = {}
    example = f"For example: {function.example}"

    def refuse(message: str, token: Token, hint: str | None = example) -> ArgumentError:
        return ArgumentError(message, text=text, position=token.start, hint=hint)

    for start, stop in split(tokens, index + 2, close):
        if start >= stop:
            raise refuse("An argument is missing here.", tokens[min(start, close)], None)
        first = tokens[start]
        _refuse_modifiers(text, tokens[start:stop], function)
        symbol = tokens[start + 1] if stop - start > 1 else None
        if symbol is not None and symbol.is_symbol(":=", "=>") and first.name is not None:
            name = first.name.lower()
            if name in named:
                raise refuse(f"{name} is given twice.", first, None)
            if name not in function.named:
                near = difflib.get_close_matches(name, function.named, n=1)
                guess = f" Did you mean {near[0]}?" if near else ""
                known = f"Known arguments: {', '.join(function.named)}."
                raise refuse(f"{function.name} has no argument {name}.{guess}", first, known)
            if start + 2 >= stop:
                raise refuse(f"{name} has no value.", first, None)
            named[name] = Argument(text, tokens[start + 2 : stop], tokens[start + 2].start)
            continue
        if symbol is not None and symbol.is_symbol("=", "==") and first.name is not None:
            raise refuse(
                f"Inside a call, {first.name} = … is a comparison, not an argument.",
                symbol,
                f"Write {first.name} := {text_of(text, tokens, start + 2, stop)}",
            )
        if named:
            raise refuse("Arguments without a name come before those with one.", first)
        positional.append(Argument(text, tokens[start:stop], first.start))
    if len(positional) != len(function.positional):
        wanted = ", ".join(function.positional)
        raise refuse(
            f"{function.name} takes {len(function.positional)} argument(s) without a name "
            f"({wanted}), not {len(positional)}.",
            tokens[index],
        )
    return positional, named


def _refuse_modifiers(text: str, tokens: Sequence[Token], function: Function) -> None:
    """Refuse DISTINCT in front of an argument, and ORDER BY and the like in it."""
    found = None
    if tokens[0].upper in {"DISTINCT", "ALL"} and len(tokens) > 1:
        found, what, why = tokens[0], tokens[0].upper, ""
        if function.shape.reads_people:
            why = "; each person counts once for each item anyway"
    for token, after in pairwise(tokens[1:]):
        pair = (token.upper, after.upper)
        if pair in {("ORDER", "BY"), ("IGNORE", "NULLS"), ("RESPECT", "NULLS")} and not found:
            found, what = token, " ".join(pair)
            why = "; NULLs never count, and the order of the answer is its rank"
    if found is not None:
        raise NotSupported(
            f"{function.name} does not take {what}{why}.",
            text=text,
            position=found.start,
            hint=f"For example: {function.example}",
        )

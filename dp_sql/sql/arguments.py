"""Read the arguments of one DP call. Pure: no catalog, no data.

Every argument but the columns is a literal that stands in the text, so every range is checked here,
before anything is planned, and whether a mechanism takes what it is given is decided here too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_sql.errors import ArgumentError, InternalError, NotSupported
from dp_sql.sql import functions, literals
from dp_sql.sql.functions import FUNCTIONS, Function
from dp_sql.sql.literals import Argument, ListLiteral, Reference
from dp_sql.sql.tokens import Token, matching, split, text_of
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.count_distinct.bounded import BOUND_SELECTIONS
from dp_sql.udfs.mechanism import Mechanism


@dataclass(frozen=True)
class DpCall:
    """One DP call: what it asks for, with every number already a checked exact value.

    `start` and `end` are offsets of the whole call in the statement's text, `display` is the name
    that DuckDB would give the column: the call without its named arguments. `columns` are the
    arguments that name columns, by the names in functions.py; `parameters` are the public numbers
    that the mechanism takes. `groups` is the public set of groups, and each person counts in at
    most `max_groups_contributed` of them, beside GROUP BY.
    """

    function: Function
    start: int
    end: int
    display: str
    columns: Mapping[str, Reference]
    domain: Reference | ListLiteral | None
    mechanism: Mechanism
    parameters: Mapping[str, Any]
    beta: Fraction
    report: bool
    groups: Reference | ListLiteral | None
    max_groups_contributed: int | None

    @property
    def item(self) -> Reference:
        """The column whose values are counted."""
        return self.columns["item"]

    @property
    def privacy_unit(self) -> Reference:
        """The column that says whose row each row is."""
        return self.columns["privacy_unit"]

    @property
    def k(self) -> int | None:
        """The length of the list, for DP_TOPK."""
        return self.parameters.get("k")


def read_call(text: str, tokens: Sequence[Token], index: int, *, guarded: bool = False) -> DpCall:
    """Read the call whose name is `tokens[index]`.

    Args:
        text: the statement.
        tokens: its tokens.
        index: where the call's name stands.
        guarded: under a policy, which says whose row each row is and may know the domain.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal, out of range, or none of
            the mechanism's.
        NotSupported: DISTINCT, ORDER BY or IGNORE NULLS inside the call.
    """
    function = FUNCTIONS[(tokens[index].name or "").upper()]
    close = matching(tokens, index + 1, text)
    positional, named = _arguments(text, tokens, index, close, function)
    given = dict(zip(function.positional, positional, strict=True)) | named
    if guarded:
        _refuse_the_owners(function, named, tokens[index].start, text)
    for name, why in _REQUIRED.items():
        if name in function.named and name not in named and not (guarded and name in _OWNERS):
            raise ArgumentError(
                f"{function.name} needs {name}: {why} is never guessed.",
                text=text,
                position=tokens[index].start,
                hint=f"For example: {function.example}",
            )
    values = {name: _read(argument, name, function) for name, argument in given.items()}
    mechanism = _mechanism(function, values, tokens[index].start, text, guarded)
    shown = ", ".join(argument.written for argument in positional)
    return DpCall(
        function=function,
        start=tokens[index].start,
        end=tokens[close].end,
        display=f"{function.name.lower()}({shown})",
        columns={name: values[name] for name in _COLUMNS if name in values},
        domain=values.get("domain"),
        mechanism=mechanism,
        parameters=_parameters(mechanism, values, given),
        beta=values.get("beta", functions.DEFAULT_BETA),
        report=values.get("report", False),
        groups=values.get("groups"),
        max_groups_contributed=values.get("max_groups_contributed"),
    )


_REQUIRED = {"epsilon": "the privacy loss", "privacy_unit": "whose row each row is"}
_OWNERS = frozenset({"privacy_unit"})
_COLUMNS = ("item", "privacy_unit", "candidate", "score", "sensitivity")


_READERS: Mapping[str, Callable[[Argument, str], Any]] = {
    "candidate": literals.read_reference,
    "score": literals.read_reference,
    "sensitivity": literals.read_column_or_number,
    "privacy_unit": literals.read_reference,
    "k": literals.read_k,
    "epsilon": literals.read_epsilon,
    "delta": literals.read_delta,
    "beta": literals.read_beta,
    "domain": literals.read_domain,
    "max_contributions": literals.read_contributions,
    "contribution_bound": literals.read_contributions,
    "report": literals.read_boolean,
    "groups": literals.read_domain,
    "max_groups_contributed": literals.read_groups_contributed,
}


def _refuse_the_owners(
    function: Function, named: Mapping[str, Argument], at: int, text: str
) -> None:
    """Under a policy: what only an owner may say."""
    if function.kind == "select":
        raise NotSupported(
            f"{function.name} takes scores at their owner's word, which a policy does not give.",
            text=text,
            position=at,
        )
    for name in _OWNERS & named.keys():
        raise named[name].refuse(
            f"The policy says whose row each row is; a statement has no {name}.",
            f"Leave {name} out.",
        )


def _read(argument: Argument, name: str, function: Function) -> Any:
    """The value of one argument."""
    if name == "item":
        return literals.read_expression(argument, name)
    if name == "mechanism":
        known = tuple(REGISTRY[function.kind])
        return literals.read_choice(argument, name, known, function.default_mechanism)
    if name == "bound_selection":
        return literals.read_choice(argument, name, BOUND_SELECTIONS, BOUND_SELECTIONS[0])
    if name not in _READERS:
        raise InternalError(f"Nothing reads the argument {name}.")
    return _READERS[name](argument, f"the {name}" if name in function.positional[:1] else name)


# --- what belongs to which mechanism --------------------------------------------------------------


def _mechanism(
    function: Function, values: Mapping[str, Any], at: int, text: str, guarded: bool
) -> Mechanism:
    """The mechanism of a call; for DP_TOPK also whether it has the domain or delta it needs."""
    without_domain = "domain" in function.named and "domain" not in values
    default = function.default_mechanism
    if without_domain and "delta" in values:
        default = _WITHOUT_DOMAIN
    found = REGISTRY[function.kind][values.get("mechanism", default)]
    if without_domain and found.n_largest is None and not guarded:
        raise ArgumentError(
            f"{function.name} needs a domain: the public set of items that may be answered. "
            "Without one, an item that only one person has could be told.",
            text=text,
            position=at,
            hint="Write domain := catalog.title (a public table's column), "
            "domain := ['a', 'b'] (a list), domain := genre (an ENUM column or type), or, if the "
            "set of values in this column is itself public, domain := observed. Where no domain is "
            "known, delta := 1e-9 finds the items, with that probability of failing.",
        )
    if "delta" in found.parameters and "delta" not in values:
        raise ArgumentError(
            f"The mechanism {found.name} needs delta: the probability with which the promise may "
            "fail.",
            text=text,
            position=at,
            hint="Add delta := 1e-9 (well below one over the number of people), or choose "
            f"mechanism := '{function.default_mechanism}', which needs none.",
        )
    return found


_WITHOUT_DOMAIN = "limited_domain"
_TAKEN_AS = {
    "delta": "delta",
    "max_contributions": "max_contributions",
    "bound_selection": "bound",
    "contribution_bound": "bound",
}
"""Arguments that some mechanisms take and others do not, and the parameters they become."""


def _parameters(
    mechanism: Mechanism, values: Mapping[str, Any], given: Mapping[str, Argument]
) -> dict[str, Any]:
    """The public numbers of a mechanism; what it does not take is refused."""
    for name, parameter in _TAKEN_AS.items():
        if name in values and parameter not in mechanism.parameters:
            raise given[name].refuse(
                f"The mechanism {mechanism.name} takes no {name}.",
                _takers(mechanism, name, parameter),
            )
    if "domain" in values and mechanism.n_largest is not None:
        raise given["domain"].refuse(
            f"The mechanism {mechanism.name} finds the items by itself and takes no domain.",
            "Leave domain out, or leave mechanism and delta out to choose from this domain.",
        )
    for other in ("bound_selection", "max_contributions"):
        if "contribution_bound" in values and other in values:
            raise given["contribution_bound"].refuse(
                f"With a fixed contribution_bound nothing is searched, so {other} says nothing.",
                f"Leave out one of contribution_bound and {other}.",
            )
    bound = values.get("contribution_bound", values.get("bound_selection", BOUND_SELECTIONS[0]))
    known = {
        "beta": functions.DEFAULT_BETA,
        "max_contributions": functions.DEFAULT_MAX_CONTRIBUTIONS,
        **values,
        "bound": bound,
    }
    return {name: known[name] for name in mechanism.parameters}


def _takers(mechanism: Mechanism, name: str, parameter: str) -> str:
    others = REGISTRY[mechanism.function].items()
    takers = [other for other, udf in others if parameter in udf.parameters]
    if not takers:
        return f"Leave {name} out."
    return f"Leave {name} out, or choose a mechanism that takes it: {', '.join(takers)}."


# --- the tokens of the call -----------------------------------------------------------------------


def _arguments(
    text: str, tokens: Sequence[Token], index: int, close: int, function: Function
) -> tuple[list[Argument], dict[str, Argument]]:
    positional: list[Argument] = []
    named: dict[str, Argument] = {}
    for start, stop in split(tokens, index + 2, close):
        if start >= stop:
            at = tokens[min(start, close)].start
            raise ArgumentError("An argument is missing here.", text=text, position=at)
        first = tokens[start]
        if first.upper in {"DISTINCT", "ALL"} and stop - start > 1:
            raise NotSupported(
                f"{function.name} does not take {first.upper}"
                + (
                    "."
                    if function.kind == "select"
                    else "; each person counts once for each item anyway."
                ),
                text=text,
                position=first.start,
                hint=f"For example: {function.example}",
            )
        _refuse_modifiers(text, tokens, start, stop, function)
        sign = tokens[start + 1] if stop - start > 1 else None
        if sign is not None and sign.is_symbol(":=", "=>") and first.name is not None:
            name = first.name.lower()
            _check_name(text, first, name, function, named)
            if start + 2 >= stop:
                raise ArgumentError(f"{name} has no value.", text=text, position=first.start)
            named[name] = Argument(text, tokens[start + 2 : stop], tokens[start + 2].start)
            continue
        if sign is not None and sign.is_symbol("=", "==") and first.name is not None:
            raise ArgumentError(
                f"Inside a call, {first.name} = … is a comparison, not an argument.",
                text=text,
                position=sign.start,
                hint=f"Write {first.name} := {text_of(text, tokens, start + 2, stop)}",
            )
        if named:
            raise ArgumentError(
                "Arguments without a name come before those with one.",
                text=text,
                position=first.start,
                hint=f"For example: {function.example}",
            )
        positional.append(Argument(text, tokens[start:stop], first.start))
    if len(positional) != len(function.positional):
        wanted = ", ".join(function.positional)
        raise ArgumentError(
            f"{function.name} takes {len(function.positional)} argument(s) without a name "
            f"({wanted}), not {len(positional)}.",
            text=text,
            position=tokens[index].start,
            hint=f"For example: {function.example}",
        )
    return positional, named


def _refuse_modifiers(
    text: str, tokens: Sequence[Token], start: int, stop: int, function: Function
) -> None:
    for i in range(start + 1, stop - 1):
        pair = (tokens[i].upper, tokens[i + 1].upper)
        if pair in {("ORDER", "BY"), ("IGNORE", "NULLS"), ("RESPECT", "NULLS")}:
            raise NotSupported(
                f"{function.name} does not take {' '.join(pair)}; NULLs never count, "
                "and the order of the answer is its rank.",
                text=text,
                position=tokens[i].start,
            )


def _check_name(
    text: str, token: Token, name: str, function: Function, named: dict[str, Argument]
) -> None:
    if name in named:
        raise ArgumentError(f"{name} is given twice.", text=text, position=token.start)
    if name not in function.named:
        known = ", ".join(function.named)
        near = difflib.get_close_matches(name, function.named, n=1)
        guess = f" Did you mean {near[0]}?" if near else ""
        raise ArgumentError(
            f"{function.name} has no argument {name}.{guess}",
            text=text,
            position=token.start,
            hint=f"Known arguments: {known}.",
        )

"""Read the arguments of one DP call. Pure: no catalog, no data.

Every argument but the columns is a literal that stands in the text, so every range is checked here,
before anything is planned, and every number becomes exact: a `Fraction` or an `int` from its text.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dp_sql import functions
from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.functions import FUNCTIONS, Function
from dp_sql.parse import Token, matching, split, text_of
from udfs import REGISTRY


@dataclass(frozen=True)
class Reference:
    """A column, table or type as written: its unquoted parts, and where it stands."""

    parts: tuple[str, ...]
    text: str
    position: int


@dataclass(frozen=True)
class ListLiteral:
    """A list of literals as written, `['a', 'b']`, and where it stands."""

    text: str
    position: int


@dataclass(frozen=True)
class DpCall:
    """One DP call: what it asks for, with every number already a checked exact value.

    `start` and `end` are offsets of the whole call in the statement's text, `display` is the name
    that DuckDB would give the column: the call without its named arguments.
    """

    function: Function
    start: int
    end: int
    display: str
    item: Reference
    k: int | None
    epsilon: Fraction
    privacy_unit: Reference
    domain: Reference | ListLiteral | None
    mechanism: str
    beta: Fraction
    max_contributions: int
    report: bool


@dataclass(frozen=True)
class _Argument:
    """The tokens of one argument's value, and where it stands."""

    text: str
    tokens: Sequence[Token]
    position: int

    def refuse(self, message: str, hint: str | None = None) -> ArgumentError:
        return ArgumentError(message, text=self.text, position=self.position, hint=hint)


def read_call(text: str, tokens: Sequence[Token], index: int) -> DpCall:
    """Read the call whose name is `tokens[index]`.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal or out of range.
        NotSupported: DISTINCT, ORDER BY or IGNORE NULLS inside the call.
    """
    function = FUNCTIONS[(tokens[index].name or "").upper()]
    close = matching(tokens, index + 1, text)
    positional, named = _arguments(text, tokens, index, close, function)

    def get(name: str, read: Callable[[_Argument, str], object], default: object) -> object:
        return read(named[name], name) if name in named else default

    for name, why in (("epsilon", "the privacy loss"), ("privacy_unit", "whose row each row is")):
        if name not in named:
            raise ArgumentError(
                f"{function.name} needs {name}: {why} is never guessed.",
                text=text,
                position=tokens[index].start,
                hint=f"For example: {function.example}",
            )
    item = _read_reference(positional[0], "the item")
    k = _read_k(positional[1]) if "k" in function.positional else None
    shown = ", ".join(text_of(text, p.tokens, 0, len(p.tokens)) for p in positional)
    call = DpCall(
        function=function,
        start=tokens[index].start,
        end=tokens[close].end,
        display=f"{function.name.lower()}({shown})",
        item=item,
        k=k,
        epsilon=_read_epsilon(named["epsilon"], "epsilon"),
        privacy_unit=_read_reference(named["privacy_unit"], "privacy_unit"),
        domain=get("domain", _read_domain, None),  # type: ignore[arg-type]
        mechanism=get("mechanism", _mechanism_of(function), function.default_mechanism),  # type: ignore[arg-type]
        beta=get("beta", _read_beta, functions.DEFAULT_BETA),  # type: ignore[arg-type]
        max_contributions=get(  # type: ignore[arg-type]
            "max_contributions", _read_max_contributions, functions.DEFAULT_MAX_CONTRIBUTIONS
        ),
        report=get("report", _read_boolean, False),  # type: ignore[arg-type]
    )
    if "domain" in function.named and call.domain is None:
        raise ArgumentError(
            f"{function.name} needs a domain: the public set of items that may be answered. "
            "Without one, an item that only one person has could be told.",
            text=text,
            position=call.start,
            hint="Write domain := catalog.title (a public table's column), "
            "domain := ['a', 'b'] (a list), domain := genre (an ENUM column or type), or, if the "
            "set of values in this column is itself public, domain := observed.",
        )
    return call


def _arguments(
    text: str, tokens: Sequence[Token], index: int, close: int, function: Function
) -> tuple[list[_Argument], dict[str, _Argument]]:
    positional: list[_Argument] = []
    named: dict[str, _Argument] = {}
    for start, stop in split(tokens, index + 2, close):
        if start >= stop:
            at = tokens[min(start, close)].start
            raise ArgumentError("An argument is missing here.", text=text, position=at)
        first = tokens[start]
        if first.upper in {"DISTINCT", "ALL"} and stop - start > 1:
            raise NotSupported(
                f"{function.name} does not take {first.upper}; "
                "each person counts once for each item anyway.",
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
            named[name] = _Argument(text, tokens[start + 2 : stop], tokens[start + 2].start)
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
        positional.append(_Argument(text, tokens[start:stop], first.start))
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
    text: str, token: Token, name: str, function: Function, named: dict[str, _Argument]
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


def _read_reference(argument: _Argument, what: str) -> Reference:
    parts = [t.name for t in argument.tokens[::2]]
    dots = argument.tokens[1::2]
    written = text_of(argument.text, argument.tokens, 0, len(argument.tokens))
    if None in parts or len(parts) != len(dots) + 1 or not all(t.is_symbol(".") for t in dots):
        raise argument.refuse(
            f"{what} must be a column, not the expression {written}.",
            "Put the expression into a view or a column of its own, and name that.",
        )
    return Reference(tuple(p for p in parts if p is not None), written, argument.position)


def _read_domain(argument: _Argument, _: str) -> Reference | ListLiteral:
    first, last = argument.tokens[0], argument.tokens[-1]
    if first.is_symbol("[") and last.is_symbol("]"):
        written = text_of(argument.text, argument.tokens, 0, len(argument.tokens))
        return ListLiteral(written, argument.position)
    try:
        return _read_reference(argument, "domain")
    except ArgumentError:
        raise argument.refuse(
            "domain must be written in the statement: a public column, a list, or observed.",
            "Write domain := catalog.title, domain := ['a', 'b'], domain := genre "
            "(an ENUM column or type), or domain := observed.",
        ) from None


def _number(argument: _Argument, what: str) -> Fraction:
    """The exact value of a numeric literal, from its text."""
    tokens = list(argument.tokens)
    sign = -1 if tokens[0].is_symbol("-") else 1
    if tokens[0].is_symbol("-", "+"):
        tokens = tokens[1:]
    if len(tokens) != 1 or tokens[0].kind != "number":
        raise argument.refuse(
            f"{what} must be a number written in the statement, "
            "not a column, a parameter, an expression or a string.",
        )
    try:
        value = Decimal(tokens[0].text.replace("_", ""))
    except InvalidOperation:  # pragma: no cover - the lexer only passes numbers
        raise argument.refuse(f"{what} cannot be read as a number.") from None
    # A literal such as 1e-400000000 is a small text and a huge Fraction: look before converting.
    if value and abs(value.adjusted()) > 400:
        value = Decimal(0) if value.adjusted() < 0 else Decimal(10) ** 400
    return sign * Fraction(value)


def _whole(argument: _Argument, what: str, low: int, high: int) -> int:
    value = _number(argument, what)
    if value.denominator != 1 or not low <= value <= high:
        raise argument.refuse(f"{what} must be a whole number from {low} to {high}.")
    return int(value)


def _read_k(argument: _Argument) -> int:
    return _whole(argument, "k", 1, functions.MAX_K)


def _read_max_contributions(argument: _Argument, name: str) -> int:
    return _whole(argument, name, 1, functions.MAX_CONTRIBUTIONS)


def _read_epsilon(argument: _Argument, name: str) -> Fraction:
    value = _number(argument, name)
    if not functions.MIN_EPSILON <= value <= functions.MAX_EPSILON:
        raise argument.refuse(
            f"{name} must be a number from {float(functions.MIN_EPSILON):g} to "
            f"{functions.MAX_EPSILON}; common choices lie between 0.1 and 10.",
        )
    return value


def _read_beta(argument: _Argument, name: str) -> Fraction:
    value = _number(argument, name)
    if not 0 < value < Fraction(1, 2):
        raise argument.refuse(f"{name} (one minus the confidence) must lie between 0 and 0.5.")
    if value < Fraction(1, 10**12):
        raise argument.refuse(f"{name} must be at least 1e-12.")
    return value


def _read_boolean(argument: _Argument, name: str) -> bool:
    words = [t.upper for t in argument.tokens]
    if words not in (["TRUE"], ["FALSE"]):
        raise argument.refuse(f"{name} must be true or false.")
    return words == ["TRUE"]


def _mechanism_of(function: Function) -> Callable[[_Argument, str], str]:
    def read(argument: _Argument, name: str) -> str:
        known = REGISTRY[function.kind]
        token = argument.tokens[0]
        if len(argument.tokens) == 1 and (token.kind == "string" or token.name is not None):
            written = token.name if token.name is not None else token.text.strip("'")
            if written.lower() in known:
                return written.lower()
        raise argument.refuse(
            f"{name} must be one of: {', '.join(known)}.",
            f"For example: {name} := '{function.default_mechanism}'",
        )

    return read

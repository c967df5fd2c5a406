"""Read the value of one argument: a column's name, or an exact number from its text. Pure.

Every number becomes a `Fraction` or an `int`, checked against its range in functions.py; what is
no literal (a column, a parameter, an expression) is refused where a number is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dp_sql.errors import ArgumentError
from dp_sql.sql import functions
from dp_sql.sql.tokens import Token, text_of

_WIDEST = 10**100
_LONGEST_NUMBER = 100


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
class Argument:
    """The tokens of one argument's value, and where it stands."""

    text: str
    tokens: Sequence[Token]
    position: int

    @property
    def written(self) -> str:
        """The value as it stands in the text."""
        return text_of(self.text, self.tokens, 0, len(self.tokens))

    def refuse(self, message: str, hint: str | None = None) -> ArgumentError:
        """An error under this value."""
        return ArgumentError(message, text=self.text, position=self.position, hint=hint)


def no_column(text: str, position: int, what: str, written: str) -> ArgumentError:
    """The refusal of an expression where a column is wanted."""
    return ArgumentError(
        f"{what} must be a column, not the expression {written}.",
        text=text,
        position=position,
        hint="Put the expression into a view or a column of its own, and name that.",
    )


def read_reference(argument: Argument, what: str) -> Reference:
    """A column's name, with or without its table's."""
    parts = [t.name for t in argument.tokens[::2]]
    dots = argument.tokens[1::2]
    if None in parts or len(parts) != len(dots) + 1 or not all(t.is_symbol(".") for t in dots):
        raise no_column(argument.text, argument.position, what, argument.written)
    return Reference(tuple(p for p in parts if p is not None), argument.written, argument.position)


def read_expression(argument: Argument, what: str) -> Reference:
    """An expression; where it is a column's name, with its parts."""
    try:
        return read_reference(argument, what)
    except ArgumentError:
        return Reference((), argument.written, argument.position)


def read_column_or_number(argument: Argument, what: str) -> Reference:
    """A column's name; or a number, which is a column with no parts."""
    if argument.tokens[-1].kind == "number" and len(argument.tokens) <= 2:
        value = _number(argument, what)
        if value < 0:
            raise argument.refuse(f"{what} must not be negative.")
        if value and not Fraction(1, _WIDEST) <= value <= _WIDEST:
            raise argument.refuse(f"{what} must be 0, or lie between 1e-100 and 1e100.")
        return Reference((), argument.written, argument.position)
    return read_reference(argument, what)


def read_domain(argument: Argument, what: str) -> Reference | ListLiteral:
    """A public column, a list of literals, an ENUM type, or the word observed."""
    first, last = argument.tokens[0], argument.tokens[-1]
    if first.is_symbol("[") and last.is_symbol("]"):
        return ListLiteral(argument.written, argument.position)
    try:
        return read_reference(argument, what)
    except ArgumentError:
        raise argument.refuse(
            f"{what} must be written in the statement: a public column, a list, or observed.",
            f"Write {what} := catalog.title, {what} := ['a', 'b'], {what} := genre "
            f"(an ENUM column or type), or {what} := observed.",
        ) from None


def _number(argument: Argument, what: str) -> Fraction:
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
    if len(tokens[0].text) > _LONGEST_NUMBER:
        raise argument.refuse(f"{what} has more digits than a number needs.")
    if "_" in tokens[0].text:
        plain = tokens[0].text.replace("_", "")
        raise argument.refuse(f"{what} is written without underscores.", f"Write {plain}.")
    try:
        value = Decimal(tokens[0].text)
    except InvalidOperation:  # pragma: no cover - the lexer only passes numbers
        raise argument.refuse(f"{what} cannot be read as a number.") from None
    # A literal such as 1e-400000000 is a small text and a huge Fraction: look before converting.
    if value and abs(value.adjusted()) > 400:
        value = Decimal(0) if value.adjusted() < 0 else Decimal(10) ** 400
    return sign * Fraction(value)


def _whole(argument: Argument, what: str, low: int, high: int) -> int:
    value = _number(argument, what)
    if value.denominator != 1 or not low <= value <= high:
        raise argument.refuse(f"{what} must be a whole number from {low} to {high}.")
    return int(value)


def read_k(argument: Argument, name: str) -> int:
    """The length of a list."""
    return _whole(argument, name, 1, functions.MAX_K)


def read_contributions(argument: Argument, name: str) -> int:
    """A bound on the items of one person."""
    return _whole(argument, name, 1, functions.MAX_CONTRIBUTIONS)


def read_groups_contributed(argument: Argument, name: str) -> int:
    """A bound on the groups of one person."""
    return _whole(argument, name, 1, functions.MAX_GROUPS_CONTRIBUTED)


def read_epsilon(argument: Argument, name: str) -> Fraction:
    """A privacy loss."""
    value = _number(argument, name)
    if not functions.MIN_EPSILON <= value <= functions.MAX_EPSILON:
        raise argument.refuse(
            f"{name} must be a number from {float(functions.MIN_EPSILON):g} to "
            f"{functions.MAX_EPSILON}; common choices lie between 0.1 and 10.",
        )
    return value


def read_delta(argument: Argument, name: str) -> Fraction:
    """A probability with which the promise may fail."""
    value = _number(argument, name)
    if not functions.MIN_DELTA <= value < functions.MAX_DELTA:
        raise argument.refuse(
            f"{name} (the probability with which the promise may fail) must be at least "
            f"{float(functions.MIN_DELTA):g} and less than {float(functions.MAX_DELTA):g}.",
            "Choose it well below one over the number of people, for example 1e-9.",
        )
    return value


def read_beta(argument: Argument, name: str) -> Fraction:
    """One minus a confidence."""
    value = _number(argument, name)
    if not 0 < value < Fraction(1, 2):
        raise argument.refuse(f"{name} (one minus the confidence) must lie between 0 and 0.5.")
    if value < Fraction(1, 10**12):
        raise argument.refuse(f"{name} must be at least 1e-12.")
    return value


def read_boolean(argument: Argument, name: str) -> bool:
    """The word true or false."""
    words = [t.upper for t in argument.tokens]
    if words not in (["TRUE"], ["FALSE"]):
        raise argument.refuse(f"{name} must be true or false.")
    return words == ["TRUE"]


def read_choice(argument: Argument, name: str, known: Sequence[str], example: str) -> str:
    """One of the known words, as a string or a bare word."""
    token = argument.tokens[0]
    if len(argument.tokens) == 1 and (token.kind == "string" or token.name is not None):
        written = token.name if token.name is not None else token.text.strip("'")
        if written.lower() in known:
            return written.lower()
    raise argument.refuse(
        f"{name} must be one of: {', '.join(known)}.", f"For example: {name} := '{example}'"
    )

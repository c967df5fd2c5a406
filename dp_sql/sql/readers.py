"""Readers of arguments: what is written, as a column, a set or a number in its range. Pure."""

import contextlib
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dp_sql.errors import guessed
from dp_sql.sql import ranges
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.given import (
    Argument,
    ListLiteral,
    PublicQuery,
    PublicSet,
    Reader,
    Reference,
    SetPerKey,
)
from dp_sql.sql.restated import Restated
from dp_sql.sql.tokens import QUERY, Tokens
from dp_sql.udfs.mechanism import in_words

_WITHOUT = "Names of columns are written without quotes, or in double quotes."


def read_reference(argument: Argument, what: str) -> Reference:
    """A column's name, with or without its table's."""
    found = argument.column()
    if found is None:
        if named := _unquoted(argument):
            raise argument.refuse(f"{what} must be a column, not a string.", _WITHOUT, named)
        raise argument.refuse(
            f"{what} must be a column, not the expression {argument.text}.",
            "Put the expression into a view or a column of its own, and name that.",
        )
    return found


def _unquoted(argument: Argument) -> list[str]:
    """The statement with a name in place of a string, which is often meant as one."""
    text = argument.text
    is_string = len(argument) == 1 and len(text) > 2 and text[0] == text[-1] == "'"
    return [argument.put(shown_name(text[1:-1]))] if is_string else []


def read_expression(argument: Argument, what: str) -> Reference:
    """An expression; a column's name has its parts, any other expression none."""
    if len(argument) == 1 and argument[0].kind in {"string", "number"}:
        raise argument.refuse(
            f"{what} must be a column, not the constant {argument.text}.",
            _WITHOUT,
            [*_unquoted(argument), *_count(argument)],
        )
    return argument.column() or argument.reference()


def _count(argument: Argument) -> list[str]:
    """The statement with DP_COUNT(*, …) for DP_SUM(1, …), which is the number of rows."""
    token = argument[0]
    before, opening, _ = token.source[: token.start].rpartition("(")
    name = before.rstrip()[-6:]
    if argument.text != "1" or not opening or name.upper() != "DP_SUM":
        return []
    return [f"{before.rstrip()[:-6]}DP_COUNT(*{token.source[token.end :]}"]


EVERY_ROW = "1"  # the item of every row, for DP_COUNT(*); no other constant is an item


def read_item_or_star(argument: Argument, what: str) -> Reference:
    """An expression; * and 1, as in count(*) and count(1), are an item that every row has."""
    if argument.text in {"*", EVERY_ROW}:
        return Reference((), EVERY_ROW, argument[0].start)
    return read_expression(argument, what)


def read_column_or_number(argument: Argument, what: str) -> Reference:
    """A column's name; or a number, which is a column with no parts."""
    if argument[-1].kind == "number" and len(argument) <= 2:
        value = read_number(argument, what)
        if value < 0:
            raise argument.refuse(f"{what} must not be negative.")
        if value and not Fraction(1, 10**100) <= value <= 10**100:
            raise argument.refuse(f"{what} must be 0, or lie between 1e-100 and 1e100.")
        return argument.reference()
    return read_reference(argument, what)


def read_groups(argument: Argument, what: str) -> PublicSet | SetPerKey:
    """A public set; or one for each key, in brackets, which DuckDB 1 writes as "row"(…)."""
    tokens = argument[argument[0].folded == "row" and len(argument) > 1 :]
    if _in_brackets(tokens) and tokens[1].upper not in QUERY:
        parts = [Argument(tokens[a:b]) for a, b in tokens.split(1, len(tokens) - 1) if a < b]
        if all(part[-1].kind in {"string", "number"} for part in parts):
            message = f"A list is written in square brackets: {what} := [{tokens[1:-1].text}]."
            raise argument.refuse(message, None, _as_domain(argument))
        sets = tuple(_read_set(part, what) for part in parts)
        return SetPerKey(sets, argument.text, tokens[0].start)
    return _read_set(argument, what)


def _read_set(argument: Argument, what: str) -> PublicSet:
    """A public set, or a parameter: before a statement is planned, a list takes its place."""
    first = argument[0]
    if first.is_symbol("?", "$") and len(argument) <= 2:
        return ListLiteral(argument.text, first.start)
    return read_domain(argument, what)


_SERIES = {"RANGE", "GENERATE_SERIES"}


def _in_brackets(tokens: Tokens) -> bool:
    return len(tokens) > 2 and tokens[0].is_symbol("(") and tokens.matching(0) == len(tokens) - 1


def read_domain(argument: Argument, what: str) -> PublicSet:
    """A public column, a list of literals, an ENUM type, a query, or the word observed."""
    _check_series(argument)
    if _in_brackets(argument) and argument[1].upper in QUERY:
        return PublicQuery(argument.text, argument[0].start)
    words = [token.upper for token in argument]
    if words[0] in _SERIES and _in_brackets(argument[1:]):
        return PublicQuery(f"(FROM {argument.text})", argument[0].start)
    if argument[0].is_symbol("[") and argument[-1].is_symbol("]"):
        return ListLiteral(argument.text, argument[0].start)
    found = argument.column()
    if found is None:
        raise argument.refuse(
            f"{what} must be written in the statement: a public column, a list, a query over "
            "public tables in brackets, or observed.",
            f"Write {what} := catalog.title, {what} := ['a', 'b'], {what} := genre "
            f"(an ENUM column or type), or {what} := observed.",
            _as_domain(argument),
        )
    return found


def _check_series(argument: Argument) -> None:
    """Refuse a fourth argument of range(…), which sqlglot drops."""
    for i, name in argument.calls():
        given = argument.split(i + 2, argument.matching(i + 1)) if name.upper in _SERIES else []
        if len(given) > 3:
            surplus = argument[given[2][1] : given[-1][1]]
            message = f"{name.text} takes a start, an end and a step."
            raise argument.refuse(message, instead=[surplus.put("")])


def _as_domain(argument: Argument) -> list[str]:
    """The statement with a list in place of one value or a tuple, a column in place of a query."""
    words = [token.upper for token in argument]
    if words[1:2] == ["SELECT"] and words[3:4] == ["FROM"] and argument[-1].is_symbol(")"):
        return [argument.put(f"{argument[4:-1].text}.{argument[2].text}")]
    if argument[0].is_symbol("(") and argument[-1].is_symbol(")"):
        return [Restated(argument.put(f"[{argument[1:-1].text}]"))]
    if words[0] in {"ARRAY", "LIST_VALUE"} and len(argument) > 3:
        return [Restated(argument.put(f"[{argument[2:-1].text}]"))]
    return [argument.put(f"[{argument.text}]")]


def read_number(argument: Argument, what: str) -> Fraction:
    """The exact value of a numeric literal, from its digits."""
    *signs, literal = argument
    if literal.kind != "number" or len(signs) > 1 or not all(t.is_symbol("-", "+") for t in signs):
        raise argument.refuse(
            f"{what} must be a number written in the statement, "
            "not a column, a parameter, an expression or a string.",
            instead=_as_number(argument),
        )
    if len(literal.text) > 100:
        raise argument.refuse(f"{what} has more digits than a number needs.")
    if "_" in literal.text:
        plain = literal.text.replace("_", "")
        hint, instead = f"Write {plain}.", [argument.put(plain)]
        raise argument.refuse(f"{what} is written without underscores.", hint, instead)
    try:
        value = Decimal(literal.text)
    except InvalidOperation:  # an exponent beyond those of Decimal
        raise argument.refuse(f"{what} cannot be read as a number.") from None
    # A literal such as 1e-400000000 is short, and a huge Fraction: look before converting.
    if value and abs(value.adjusted()) > 400:
        value = Decimal(0) if value.adjusted() < 0 else Decimal(10) ** 400
    return -Fraction(value) if signs and signs[0].text == "-" else Fraction(value)


def _as_number(argument: Argument) -> list[str]:
    """The statement with a number in place of a string that holds one, or of a division."""
    with contextlib.suppress(ValueError, ZeroDivisionError):
        if len(argument.text) < 20:
            number = re.sub(r"\s*/\s*", "/", argument.text.strip("'( )").replace(",", "."))
            return [argument.put(in_words(Fraction(number)))]
    return []


def _within(
    says: str,
    fits: Callable[[Fraction], bool],
    nearest: Callable[[Fraction], Fraction | str] | None = None,
    hint: str | None = None,
) -> Reader[Fraction]:
    """Read a number in a range. `says`: what it must be; `nearest`: a number to propose instead."""

    def read(argument: Argument, what: str) -> Fraction:
        value = read_number(argument, what)
        if not fits(value):
            near = "" if nearest is None else nearest(value)
            right = near if isinstance(near, str) else in_words(near)
            instead = [argument.put(right)] if right else []
            raise argument.refuse(f"{what} {says}", hint, instead)
        return value

    return read


def whole(high: int) -> Reader[int]:
    """Read a whole number from 1 to a bound."""
    read = _within(
        f"must be a whole number from 1 to {high}.",
        lambda x: x.denominator == 1 and 1 <= x <= high,
        lambda x: Fraction(max(1, min(round(x), high))),
    )
    return lambda argument, what: int(read(argument, what))


def _short(bound: Fraction) -> str:
    return f"{float(bound):g}".replace("e-0", "e-")


read_epsilon = _within(
    f"must be a number from {_short(ranges.MIN_EPSILON)} to {ranges.MAX_EPSILON}; common choices "
    "lie between 0.01 and 1.",
    lambda x: ranges.MIN_EPSILON <= x <= ranges.MAX_EPSILON,
    lambda x: max(Fraction(1, 10), min(x, Fraction(1))),
)
read_delta = _within(
    "(the probability with which the guarantee may fail) must be at least "
    f"{_short(ranges.MIN_DELTA)} and less than {_short(ranges.MAX_DELTA)}.",
    lambda x: ranges.MIN_DELTA <= x < ranges.MAX_DELTA,
    lambda _: "1e-9",
    "Choose it well below one over the number of people, for example 1e-9.",
)
read_beta = _within(
    f"(one minus the confidence) must lie between {_short(ranges.MIN_BETA)} and 0.5.",
    lambda x: ranges.MIN_BETA <= x < Fraction(1, 2),
    lambda _: "0.05",
)
read_positive = _within("must be a positive number below 1e40.", lambda x: 0 < x < 10**40)
_read_part = _within(
    f"(the part of the items that is counted) must be at least {_short(ranges.MIN_SAMPLE)}, and "
    "at most 1.",
    lambda x: ranges.MIN_SAMPLE <= x <= 1,
    lambda x: 1 / x if x in {10**n for n in range(1, 10)} else Fraction(1, 100),
)


def read_sample(argument: Argument, name: str) -> Fraction | None:
    """The part of the items that is counted; None: all of them."""
    value = _read_part(argument, name)
    return None if value == 1 else value


def elements(argument: Argument) -> list[Argument] | None:
    """The elements of a list in brackets; None if it is not a list."""
    last = len(argument) - 1
    if last < 1 or not argument[0].is_symbol("[") or argument.matching(0) != last:
        return None
    return [Argument(argument[a:b]) for a, b in argument.split(1, last) if a < b]


def read_zero(argument: Argument, name: str) -> int:
    """The number 0."""
    if read_number(argument, name) != 0:
        message = f"{name} can only be 0: it counts a negative net sum as 0."
        raise argument.refuse(message, instead=[argument.put("0"), argument.omitted()])
    return 0


def read_boolean(argument: Argument, name: str) -> bool:
    """The word true or false."""
    word = argument[0].upper
    if len(argument) > 1 or word not in {"TRUE", "FALSE"}:
        right = "false" if word in {"FALSE", "OFF", "NO"} or argument.text == "0" else "true"
        raise argument.refuse(f"{name} must be true or false.", instead=[argument.put(right)])
    return word == "TRUE"


def word(argument: Argument) -> str:
    """A string or a bare word, in lower case."""
    token = argument[0]
    return (token.text.strip("'") if token.kind == "string" else token.name or "").lower()


def choice(known: Sequence[str], example: str) -> Reader[str]:
    """Read one of the known words, as a string or a bare word."""

    def read(argument: Argument, name: str) -> str:
        found = word(argument)
        if len(argument) > 1 or found not in known:
            message = f"{name} must be one of: {', '.join(known)}."
            right = f"'{guessed(found, known) or example}'"
            hint, instead = f"For example: {name} := {right}", [argument.put(right)]
            raise argument.refuse(message, hint, instead)
        return found

    return read

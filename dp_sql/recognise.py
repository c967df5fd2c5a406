"""Find the DP calls of a statement and read their arguments. Pure: no catalog, no data.

Every argument but the columns is a literal that stands in the text, so all ranges are checked here,
before anything is planned. Whether the source is person-level is check.py's question.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dp_sql import functions
from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.functions import FUNCTIONS, Function
from dp_sql.parse import Select, Token, enclosing_select, matching, split, text_of
from udfs import REGISTRY

_MENTION = re.compile("|".join(FUNCTIONS), re.IGNORECASE)


def mentions_dp(text: str) -> bool:
    """Whether a text may hold a DP call at all; where it does not, nobody reads the text.

    >>> mentions_dp("SELECT count(*) FROM t"), mentions_dp("SELECT dp_topk(a, 3) FROM t")
    (False, True)
    """
    return _MENTION.search(text) is not None


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
class DpSelect:
    """One SELECT with DP calls in its list. All spans are offsets into `text`, None if absent.

    `items` are the spans of the expressions of the list; `from_clause` and `where_clause` include
    their keywords, `source` and `condition` do not.
    """

    text: str
    calls: tuple[DpCall, ...]
    items: tuple[tuple[int, int], ...]
    from_clause: tuple[int, int]
    where_clause: tuple[int, int] | None
    source: tuple[int, int]
    condition: tuple[int, int] | None
    ctes: frozenset[str]

    @property
    def source_text(self) -> str:
        """The FROM clause as written, without its keyword."""
        return self.text[slice(*self.source)]

    @property
    def condition_text(self) -> str | None:
        """The WHERE clause as written, without its keyword."""
        return None if self.condition is None else self.text[slice(*self.condition)]


def recognise(text: str, tokens: Sequence[Token]) -> tuple[DpSelect, ...]:
    """The SELECTs of one statement that hold DP calls, outermost text order.

    Args:
        text: the whole text, for places in messages.
        tokens: the tokens of one statement of it.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal or out of range.
        NotSupported: a call stands outside the list of a SELECT, or carries DISTINCT, FILTER, OVER.
    """
    places = [i for i in range(len(tokens)) if _is_call(tokens, i)]
    _refuse_nested(text, tokens, places)
    grouped: dict[int, tuple[Select, list[int]]] = {}
    for index in places:
        select = enclosing_select(tokens, index, text)
        _refuse_misplaced(text, tokens, index, select)
        start = select.clauses[0].start
        grouped.setdefault(start, (select, []))[1].append(index)
    return tuple(_read_select(text, tokens, select, calls) for select, calls in grouped.values())


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    name = tokens[index].name
    return (
        name is not None
        and name.upper() in FUNCTIONS
        and index + 1 < len(tokens)
        and tokens[index + 1].is_symbol("(")
    )


def _refuse_nested(text: str, tokens: Sequence[Token], places: list[int]) -> None:
    for outer in places:
        end = matching(tokens, outer + 1, text)
        for inner in places:
            if outer < inner < end:
                raise NotSupported(
                    "A DP call cannot stand inside the arguments of another DP call.",
                    text=text,
                    position=tokens[inner].start,
                    hint="Answer the inner call first, in a query of its own.",
                )


_AFTER_CALL = {
    "OVER": "OVER: a DP call is an aggregate of the whole source, not a window function",
    "FILTER": "FILTER; write the condition in the WHERE clause of the same SELECT",
    "WITHIN": "WITHIN GROUP; the order of the answer is its rank",
}


def _refuse_misplaced(text: str, tokens: Sequence[Token], index: int, select: Select) -> None:
    name = (tokens[index].name or "").upper()
    example = FUNCTIONS[name].example

    def refuse(message: str, hint: str | None = None, at: int = index) -> NotSupported:
        return NotSupported(message, text=text, position=tokens[at].start, hint=hint)

    if index and tokens[index - 1].is_symbol("."):
        raise refuse(f"{name} belongs to no schema; write it without one.")
    clause = select.clause_of(index)
    place = clause.keyword if clause else None
    if place != "SELECT":
        words = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "USING": "USING SAMPLE"}
        where = f"in {words.get(place, place)}" if place else "outside a SELECT"
        hint = f"Write it in the list of a SELECT of its own: SELECT {example} FROM …"
        if place in {"WHERE", "HAVING", "QUALIFY", "ORDER"}:
            hint = (
                "Give it a name in a subquery and use the name outside: "
                f"SELECT … FROM (SELECT {example} AS answer FROM …) WHERE …"
            )
        raise refuse(f"{name} cannot stand {where}; it is an answer, not a condition.", hint)
    after = matching(tokens, index + 1, text) + 1
    word = tokens[after].upper if after < len(tokens) else ""
    if word in _AFTER_CALL:
        raise refuse(f"{name} does not take {_AFTER_CALL[word]}.", at=after)
    for keyword, advice in {
        "GROUP": "DP_TOPK and DP_COUNT_DISTINCT answer for the whole source so far. "
        "Ask one SELECT per group, with the group in its WHERE clause.",
        "HAVING": "Filter the answer in an outer query.",
        "QUALIFY": "Filter the answer in an outer query.",
        "WINDOW": "Compute over the answer in an outer query.",
        "USING": "A sample of rows is not a function of each person's own rows.",
    }.items():
        found = select.clause(keyword)
        if found is not None:
            both = text_of(text, tokens, found.start, min(found.start + 2, found.stop)).upper()
            shown = both if keyword in {"GROUP", "USING"} else keyword
            raise refuse(f"A SELECT with {name} cannot have {shown}.", advice, found.start)
    if select.clause("FROM") is None:
        raise refuse(f"{name} needs a table to read.", f"SELECT {example} FROM ratings")


def _read_select(text: str, tokens: Sequence[Token], select: Select, places: list[int]) -> DpSelect:
    def span(start: int, stop: int) -> tuple[int, int]:
        if start >= stop:
            raise NotSupported("This clause is empty.", text=text, position=tokens[start - 1].start)
        return tokens[start].start, tokens[stop - 1].end

    listed, source, where = (select.clause(word) for word in ("SELECT", "FROM", "WHERE"))
    assert listed is not None and source is not None  # _refuse_misplaced has seen to both
    return DpSelect(
        text=text,
        calls=tuple(_read_call(text, tokens, index) for index in places),
        items=_items(text, tokens, listed.start + 1, listed.stop),
        from_clause=span(source.start, source.stop),
        where_clause=span(where.start, where.stop) if where else None,
        source=span(source.start + 1, source.stop),
        condition=span(where.start + 1, where.stop) if where else None,
        ctes=select.ctes,
    )


def _items(
    text: str, tokens: Sequence[Token], start: int, stop: int
) -> tuple[tuple[int, int], ...]:
    if tokens[start].upper == "DISTINCT":
        start += 1
        if tokens[start].upper == "ON":
            raise NotSupported(
                "A SELECT with a DP call cannot have DISTINCT ON.",
                text=text,
                position=tokens[start].start,
                hint="Thin out the answer in an outer query.",
            )
    elif tokens[start].upper == "ALL":
        start += 1
    return tuple(
        (tokens[a].start, tokens[b - 1].end) for a, b in split(tokens, start, stop) if a < b
    )


# --- arguments ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Argument:
    """The tokens of one argument's value, and where it stands."""

    text: str
    tokens: Sequence[Token]
    position: int

    def refuse(self, message: str, hint: str | None = None) -> ArgumentError:
        return ArgumentError(message, text=self.text, position=self.position, hint=hint)


def _read_call(text: str, tokens: Sequence[Token], index: int) -> DpCall:
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

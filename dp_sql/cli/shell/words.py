"""What may stand where the cursor is: the words that Tab offers. Pure; knows names and no session.

It looks at tokens, not at a grammar: after FROM there are tables, after a table's dot its columns,
inside a DP call the arguments that are still missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dp_sql.cli.shell.catalogue import Catalogue, Table, written
from dp_sql.cli.shell.keywords import GUARDED_KEYWORDS, KEYWORDS
from dp_sql.errors import ParseError
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.shape import Function
from dp_sql.sql.tokens import Token, folded, statements, tokenize
from dp_sql.udfs.count_distinct.bounded import BOUND_SELECTIONS

BOOKS = ("dp_budget()", "dp_ledger()", "dp_release('", "dp_releases()")
_BEFORE_TABLES = {"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "DESC", "SUMMARIZE"}
_AFTER_TABLES = {"WHERE", "SELECT", "ON", "USING", "GROUP", "ORDER", "HAVING", "LIMIT", "SET"}
_SHORTEST = 2  # letters, before functions and keywords are offered


@dataclass(frozen=True)
class Word:
    """One offer: what replaces the last `length` letters before the cursor, and what it is."""

    text: str
    length: int
    about: str


def offers(text: str, cursor: int, catalogue: Catalogue, guarded: bool) -> list[Word]:
    """What may stand at the cursor, likeliest first.

    Args:
        text: all that is typed.
        cursor: offset into it.
        catalogue: what may be named.
        guarded: under a policy some words have no use.
    """
    try:
        found = statements(text[:cursor] + "x")  # the letter stands for what may come
    except ParseError:
        return []  # inside a string
    if not found:
        return []  # inside a comment, and nothing before
    *before, word = found[-1]
    everything = _spoken(text, before)
    after_number = before and before[-1].kind == "number" and before[-1].end == word.start
    if word.end != cursor + 1 or word.kind != "word" or after_number:
        return []  # inside a comment, or in a number
    typed = word.text[:-1]
    words: dict[str, Word] = {}
    for offer, about in _here(before, everything, catalogue, typed, guarded):
        if folded(offer.lstrip('"')).startswith(folded(typed)):
            words.setdefault(offer, Word(offer, len(typed), about))
    return list(words.values())


def _spoken(text: str, before: Sequence[Token]) -> Sequence[Token]:
    """All tokens of the text where it can be read to its end, else those before the cursor."""
    try:
        return tokenize(text)
    except ParseError:
        return before


Offer = tuple[str, str]


def _here(
    before: Sequence[Token],
    everything: Sequence[Token],
    catalogue: Catalogue,
    typed: str,
    guarded: bool,
) -> Iterator[Offer]:
    last = before[-1] if before else None
    if last is not None and last.is_symbol("."):
        yield from _after_dot(before, everything, catalogue)
        return
    opened = _innermost_call(before)
    function = None if opened is None else FUNCTIONS.get(before[opened - 1].upper)
    if function is not None and opened is not None:
        yield from _in_call(function, before, opened, everything, catalogue, guarded)
        return
    if _is_table_place(before):
        yield from _tables(catalogue.tables)
        yield from ((book, "book") for book in BOOKS)
        return
    spoken = _tables_spoken(everything, catalogue.tables)
    yield from _columns(spoken)
    yield from ((f"{_cased(name, typed)}(", "DP function") for name in FUNCTIONS)
    if len(typed) < _SHORTEST:
        return
    keywords = GUARDED_KEYWORDS if guarded else KEYWORDS
    yield from ((_cased(word, typed), "keyword") for word in keywords)
    yield from ((f"{name}(", "function") for name in catalogue.functions)
    yield from _tables(catalogue.tables)
    if not spoken:
        yield from _columns(catalogue.tables)


def _cased(word: str, typed: str) -> str:
    return word.lower() if typed.islower() else word


def _innermost_call(tokens: Sequence[Token]) -> int | None:
    """Index of the innermost bracket that is still open, where a name stands before it."""
    depth = 0
    for index in range(len(tokens) - 1, 0, -1):
        if tokens[index].is_symbol(")", "]", "}"):
            depth += 1
        elif tokens[index].is_symbol("(", "[", "{"):
            if depth == 0:
                return index if tokens[index].is_symbol("(") else None
            depth -= 1
    return None


def _is_table_place(before: Sequence[Token]) -> bool:
    """Whether a table comes next: after FROM and its like, or after a comma of theirs."""
    if not before:
        return False
    if not before[-1].is_symbol(","):
        return before[-1].upper in _BEFORE_TABLES
    depth = 0
    for token in reversed(before):
        depth += token.is_symbol(")", "]") - token.is_symbol("(", "[")
        if depth < 0 or (depth == 0 and token.upper in _AFTER_TABLES):
            return False
        if depth == 0 and token.upper in {"FROM", "JOIN"}:
            return True
    return False


def _after_dot(
    before: Sequence[Token], everything: Sequence[Token], catalogue: Catalogue
) -> Iterator[Offer]:
    """Columns of the table (or alias) before the dot; tables of a schema or database."""
    path: list[str] = []
    rest = list(before)
    while len(rest) > 1 and rest[-1].is_symbol(".") and rest[-2].name is not None:
        path.insert(0, folded(rest[-2].name or ""))
        rest = rest[:-2]
    meant = [table for table in catalogue.tables if _path(table)[-len(path) :] == path]
    if len(path) == 1:
        meant += _aliased(path[0], everything, catalogue.tables)
    yield from _columns(meant)
    for table in catalogue.tables:
        parts = _path(table)
        if len(parts) > len(path) and parts[: len(path)] == path:
            tokens = [token for token in tokenize(table.name) if not token.is_symbol(".")]
            yield ".".join(token.text for token in tokens[len(path) :]), table.kind


def _path(table: Table) -> list[str]:
    return [folded(token.name) for token in tokenize(table.name) if token.name is not None]


def _aliased(alias: str, tokens: Sequence[Token], tables: Sequence[Table]) -> list[Table]:
    """The table that an alias stands for: `ratings AS r` or `ratings r`."""
    found = []
    for index, token in enumerate(tokens[1:], 1):
        if token.name is not None and folded(token.name) == alias:
            name = tokens[index - 2 if tokens[index - 1].upper == "AS" else index - 1].name
            found += [t for t in tables if name is not None and t.last_name == folded(name)]
    return found


def _tables_spoken(tokens: Sequence[Token], tables: Sequence[Table]) -> list[Table]:
    """The tables that the text names."""
    spoken = {folded(token.name) for token in tokens if token.name is not None}
    return [table for table in tables if table.last_name in spoken]


def _tables(tables: Iterable[Table]) -> Iterator[Offer]:
    return ((table.name, table.kind) for table in tables)


def _columns(tables: Iterable[Table]) -> Iterator[Offer]:
    return ((written(name), kind) for table in tables for name, kind in table.columns)


def _in_call(
    function: Function,
    before: Sequence[Token],
    opened: int,
    everything: Sequence[Token],
    catalogue: Catalogue,
    guarded: bool,
) -> Iterator[Offer]:
    """Inside a DP call: the value of an argument, or a column and the arguments not yet there."""
    spoken = _tables_spoken(everything, catalogue.tables) or list(catalogue.tables)
    if before[-1].is_symbol(":=", "=>"):
        yield from _values(before[-2].upper.lower(), function, spoken, catalogue, guarded)
        return
    if not before[-1].is_symbol("(", ","):
        return
    commas = sum(token.is_symbol(",") for token in before[opened:])
    if commas < len(function.positional):
        yield from _columns(spoken)
    used = {token.upper.lower() for token in before[opened:]}
    for name in function.named:
        if name not in used and not (guarded and name == "privacy_unit"):
            yield f"{name} := ", "argument"


def _values(
    argument: str,
    function: Function,
    spoken: Sequence[Table],
    catalogue: Catalogue,
    guarded: bool,
) -> Iterator[Offer]:
    """What an argument of a DP call may be."""
    if argument == "mechanism":
        default = function.default_mechanism
        for name in function.mechanisms:
            yield name, "mechanism, the default" if name == default else "mechanism"
    elif argument == "bound_selection":
        yield from ((name, "selection") for name in BOUND_SELECTIONS)
    elif argument == "report":
        yield from (("true", "a struct"), ("false", "a number"))
    elif argument == "privacy_unit":
        yield from _columns(spoken)
    elif argument in {"domain", "groups"}:
        if not guarded:
            yield "observed", "your word that the values that are there are public"
        for table in catalogue.tables:
            if table.kind not in {"private", "private view"}:
                for name, kind in table.columns:
                    yield f"{table.name}.{written(name)}", kind

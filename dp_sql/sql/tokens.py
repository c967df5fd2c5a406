"""The words, literals, symbols and brackets of a string of SQL.

DuckDB's own tokenizer would not make this shorter: it reports where a token begins and not where it
ends, in bytes, without comments on 1.5, and drops what it cannot read instead of refusing it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import SupportsIndex, TypeVar, overload

from dp_sql.errors import InternalError, ParseError, QueryError
from dp_sql.sql.restated import Restated

E = TypeVar("E", bound=QueryError)
Edit = tuple[int, int, str]  # what to write in place of text[start:stop]

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
QUERY = frozenset({"SELECT", "FROM", "WITH", "VALUES"})  # the keywords that begin a query
# Reserved words that may be before a bracket: names of functions only in quotes.
SYNTAX = {"AND", "AS", "CASE", "CAST", "COALESCE", "ELSE", "FROM", "HAVING", "IN", "NOT", "ON",
          "OR", "SELECT", "THEN", "WHEN", "WHERE"}  # fmt: skip
# DuckDB takes these as spaces, and all other characters beyond ASCII as letters; in the tag of a
# dollar quote they are letters, too.
_SPACES = "\u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"
_LETTER = (
    "A-Za-z_\x80-\x9f\xa1-\u1fff\u200c-\u202e\u2030-\u205e\u2061-\u2fff\u3001-\ufefe"
    "\uff00-\U0010ffff"
)
_TAG = r"\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$"
_UNCLOSED = re.compile(rf"""'|"|{_TAG}""")
SHORT = 4000  # characters; what was read of such texts is remembered
_MAX_COMMENTS = 100  # DuckDB 1.5 reads all levels again for each level: 5,000 take a second
_TOKEN = re.compile(
    rf"""
    (?P<space>[\ \t\n\v\f\r{_SPACES}]+)
  | (?P<comment>--[^\n\r]*)
  | (?P<block>/\*)
  | (?P<string>[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|[xXbB]?'[^']*(?:''[^']*)*')
  | (?P<dollar>(?P<tag>{_TAG}).*?(?P=tag))
  | (?P<quoted>"[^"]*(?:""[^"]*)*")
  | (?P<number>(?:[0-9]+(?:_[0-9]+)*(?:\.(?!\.)(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)
        (?:[eE][+-]?[0-9]+)?)
  | (?P<word>[{_LETTER}][0-9${_LETTER}]*)
  | (?P<symbol>:=|=>|::|->>|->|<=|>=|<>|!=|==|\*\*|//|\|\||[!-~])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """One word, quoted name, string, number or symbol, as written in source[start:end]."""

    kind: str
    text: str
    start: int
    end: int
    source: str = field(repr=False, compare=False)

    @property
    def upper(self) -> str:
        """The keyword that this token may be, in upper case; nothing unless it is a bare word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str | None:
        """The identifier that this token may be, unquoted."""
        if self.kind == "word":
            return self.text
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return None

    @property
    def folded(self) -> str:
        """The identifier as DuckDB compares it; nothing if this token is none."""
        return folded(self.name or "")

    def is_symbol(self, *symbols: str) -> bool:
        """Whether this token is one of the given symbols."""
        return self.kind == "symbol" and self.text in symbols

    @property
    def opens(self) -> bool:
        """Whether it is an opening bracket."""
        return self.kind == "symbol" and self.text in _OPEN

    @property
    def closes(self) -> bool:
        """Whether it is a closing bracket."""
        return self.kind == "symbol" and self.text in _CLOSE

    def put(self, new: str) -> str:
        """The whole text with something else in its place."""
        return Tokens([self]).put(new)

    def error(
        self, kind: type[E], message: str, hint: str | None = None, instead: Sequence[str] = ()
    ) -> E:
        """An error with its caret under this token."""
        place = {"text": self.source, "position": self.start}
        return kind(message, hint=hint, instead=instead, **place)  # type: ignore[arg-type]


class Tokens(tuple[Token, ...]):
    """Tokens of one text, in its order: a statement, or a part of it.

    A place is an index; a span has offsets in the text.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Token: ...
    @overload
    def __getitem__(self, index: slice, /) -> Tokens: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> Token | Tokens:
        if isinstance(index, slice):
            return Tokens(tuple.__getitem__(self, index))
        return tuple.__getitem__(self, index)

    @property
    def text(self) -> str:
        """What is written from the first to the last."""
        return self[0].source[self[0].start : self[-1].end] if self else ""

    @property
    def span(self) -> tuple[int, int]:
        """Where they begin and end in the text."""
        return self[0].start, self[-1].end

    @property
    def names(self) -> tuple[str, ...]:
        """The names of `a.b.c`, unquoted; none for anything else."""
        names = tuple(token.name for token in self[::2] if token.name is not None)
        dots = all(token.is_symbol(".") for token in self[1::2])
        return names if dots and len(self) == 2 * len(names) - 1 else ()

    @property
    def folded(self) -> frozenset[str]:
        """All names among them, as DuckDB compares names."""
        return frozenset(token.folded for token in self)

    def dotted(self, start: int) -> Tokens:
        """The name `a.b.c` that begins at a place, with its dots; nothing if no name does."""
        stop = start + 1
        while self.at(stop).is_symbol(".") and self.at(stop + 1).name is not None:
            stop += 2
        return self[start:stop] if self.at(start).name is not None else Tokens()

    def at(self, index: int) -> Token:
        """The token at an index; before the first and after the last, an empty one."""
        return self[index] if 0 <= index < len(self) else Token("", "", 0, 0, "")

    def place_at(self, offset: int) -> int:
        """The place of the first token that begins at an offset of the text, or behind it."""
        return bisect_left(self, offset, key=lambda token: token.start)

    def between(self, span: tuple[int, int]) -> Tokens:
        """The tokens that begin in a span of the text."""
        return self[slice(*map(self.place_at, span))]

    def matching(self, opening: int) -> int:
        """Where the bracket is closed that `opening` is the place of."""
        depth = 0
        for index, token in enumerate(self[opening:], opening):
            depth += token.opens - token.closes
            if depth == 0:
                return index
        text = self[0].source  # the bracket is closed before FROM, or at the end
        place = next((one.start for one in self[opening:] if one.upper == "FROM"), len(text))
        before = text[:place].rstrip()
        instead = [Restated(f"{before}){text[len(before) :]}")]
        raise self[opening].error(ParseError, "This bracket is never closed.", None, instead)

    def at_depth_zero(self, start: int, stop: int) -> Iterator[int]:
        """Places in [start, stop) that are outside every bracket opened in between."""
        depth = 0
        for index, token in enumerate(self[start:stop], start):
            depth -= token.closes
            if depth == 0:
                yield index
            depth += token.opens

    def split(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts between the commas of [start, stop)."""
        commas = [i for i in self.at_depth_zero(start, stop) if self[i].is_symbol(",")]
        return [(a + 1, b) for a, b in pairwise([start - 1, *commas, stop]) if start < stop]

    def calls(self) -> Iterator[tuple[int, Token]]:
        """What is before opening brackets, with its places: a name that is called, or a keyword."""
        return ((i, a) for i, (a, b) in enumerate(pairwise(self)) if b.is_symbol("("))

    def called(self) -> dict[str, Token]:
        """Names written like a call, in lower case, with the first token of each.

        >>> list(tokenize("x IN (1) AND Upper(y) IN (SELECT z FROM (t))").called())
        ['upper']
        """
        found: dict[str, Token] = {}
        for _, token in self.calls():
            if token.name is not None and token.upper not in SYNTAX:
                found.setdefault(token.folded, token)
        return found

    def outside(self, spans: Collection[tuple[int, int]]) -> Tokens:
        """The tokens that begin in none of some spans."""
        return Tokens(t for t in self if not any(a <= t.start < b for a, b in spans))

    def queries_around(self, index: int) -> list[tuple[int, int]]:
        """The queries in brackets around a token, innermost first; then the whole statement."""
        opened: list[int] = []
        for i, token in enumerate(self[:index]):
            if token.opens:
                opened.append(i)
            elif token.closes and opened:
                opened.pop()
        around = [i for i in reversed(opened) if self._opens_query(i)]
        return [*((i + 1, self.matching(i)) for i in around), (0, len(self))]

    def outside_queries(self) -> Tokens:
        """The tokens outside all brackets that open a query."""
        outside: list[Token] = []
        end = -1
        for index, token in enumerate(self):
            if index > end and token.is_symbol("(") and self._opens_query(index):
                end = self.matching(index)
            elif index > end:
                outside.append(token)
        return Tokens(outside)

    def _opens_query(self, index: int) -> bool:
        return self.at(index + 1).upper in {"SELECT", "FROM", "WITH"}

    def put(self, new: str) -> str:
        """The whole text with something else in their place.

        >>> tokenize("SELECT a FROM t")[1:2].put("b")
        'SELECT b FROM t'
        """
        source = self[0].source
        before, after = source[: self[0].start], source[self[-1].end :]
        if not new and before[-1:] in {"(", " "}:
            after = after.lstrip(" ")
        return before + new + after

    def left_out(self, start: int, stop: int) -> str:
        """The whole text without the part [start, stop) of a list, and one comma beside it."""
        if self.at(start - 1).is_symbol(","):
            start -= 1
        elif self.at(stop).is_symbol(","):
            stop += 1
        return self[start:stop].put("")


def tokenize(text: str) -> Tokens:
    """The tokens of a string of SQL, without comments and spaces.

    >>> [t.text for t in tokenize("SELECT 5!, $$a'b$$ /* x /* y */ */ FROM t -- end")]
    ['SELECT', '5', '!', ',', "$$a'b$$", 'FROM', 't']
    """
    return (_tokens if len(text) <= SHORT else _tokens.__wrapped__)(text)


@lru_cache(32)  # several checks read the same part of a statement
def _tokens(text: str) -> Tokens:
    found: list[Token] = []
    if half := re.search("[\ud800-\udfff]", text):
        raise ParseError("This character is half of a pair.", text=None, position=half.start())
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ParseError("This character cannot be read.", text=text, position=position)
        kind, end = match.lastgroup, match.end()
        if kind == "block":
            end = _end_of_comment(text, position)
        elif kind == "symbol" and _UNCLOSED.match(text, position):
            raise ParseError("This quote is never closed.", text=text, position=position)
        elif kind not in {"space", "comment"}:
            kind = "string" if kind == "dollar" else kind
            found.append(Token(kind, match.group(), position, end, text))
        position = end
    return Tokens(found)


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth > _MAX_COMMENTS:
            message = f"A statement has at most {_MAX_COMMENTS} levels of nested comments."
            raise ParseError(message, text=text, position=start)
        if depth == 0:
            return mark.end()
    raise ParseError("This comment is never closed.", text=text, position=start)


def with_plain_spaces(text: str) -> str:
    r"""SQL with ASCII's space in place of all others between tokens.

    DuckDB replaces them, too, but loses its way in strings with escapes: behind one, it reads such
    a space as a letter.

    >>> with_plain_spaces("SELECT\u00a0'a\u00a0b'")
    "SELECT 'a\xa0b'"
    """
    if text.isascii():
        return text
    spaces, pieces, position = re.compile(f"[{_SPACES}]"), [], 0
    for token in tokenize(text):
        pieces += [spaces.sub(" ", text[position : token.start]), token.text]
        position = token.end
    return "".join([*pieces, spaces.sub(" ", text[position:])])


def statements(text: str) -> list[Tokens]:
    """The statements of SQL, cut at the semicolons outside brackets; empty ones left out."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokenize(text):
        depth += token.opens - token.closes
        if depth <= 0 and token.is_symbol(";"):
            found.append([])
        else:
            found[-1].append(token)
    return [Tokens(statement) for statement in found if statement]


_NAME_PART = r'"((?:[^"]|"")+)"|([^."]+)'
_ASCII = str.maketrans(ascii_uppercase, ascii_lowercase)


def folded(name: str) -> str:
    """A name as DuckDB compares it: only ASCII letters lose their case.

    >>> folded("Äpfel ABC")
    'Äpfel abc'
    """
    return name.translate(_ASCII)


def name_parts(text: str) -> tuple[str, ...] | None:
    """The folded parts of a dotted name, each plain or in SQL quotes; None if it is not a name.

    >>> name_parts('Main."my.table"'), name_parts("order items"), name_parts("a..b")
    (('main', 'my.table'), ('order items',), None)
    """
    if not re.fullmatch(rf"(?:{_NAME_PART})(?:\.(?:{_NAME_PART}))*", text):
        return None
    found = re.findall(_NAME_PART, text)
    parts = tuple(folded(quoted.replace('""', '"') or plain.strip()) for quoted, plain in found)
    return parts if all(parts) else None


def edited(text: str, edits: Iterable[Edit], start: int = 0, stop: int | None = None) -> str:
    """`text[start:stop]` with the edits made; all else stays as written.

    >>> edited("SELECT a, b", [(10, 11, "y"), (7, 8, "x")])
    'SELECT x, y'
    """
    stop = len(text) if stop is None else stop
    pieces, position = [], start
    for first, last, replacement in sorted(edits):
        if first < position or last > stop:
            raise InternalError("Two parts of the statement overlap.")
        pieces += [text[position:first], replacement]
        position = last
    return "".join([*pieces, text[position:stop]])


def relation_token(tokens: Tokens, name: str) -> Token:
    """Where a query names a relation: in FROM, rather than before a column or behind AS."""
    places = [i for i, token in enumerate(tokens) if token.folded == folded(name)]
    for i in places:
        start = i
        while start > 1 and tokens[start - 1].is_symbol("."):
            start -= 2
        before, after = tokens.at(start - 1).upper, tokens.at(i + 1)
        if before in {"FROM", "JOIN"} and not after.is_symbol("."):
            return tokens[i]
    return tokens[places[0] if places else 0]

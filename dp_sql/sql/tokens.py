"""The words, literals, symbols and brackets of a string of SQL.

DuckDB's own tokenizer would not make this shorter: it reports where a token begins and not where it
ends, in bytes, without comments on 1.5, and drops what it cannot read instead of refusing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dp_sql.errors import ParseError

OPEN, CLOSE = frozenset("([{"), frozenset(")]}")
QUERY_STARTS = frozenset({"SELECT", "FROM", "WITH"})
"""A bracket that begins with one of these holds a query."""

_HALF = re.compile("[\ud800-\udfff]")
_UNCLOSED = re.compile(r"""'|"|\$(?:[^\W\d]\w*)?\$""")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_MAX_COMMENTS = 100  # DuckDB 1.5 reads all levels again for each level: 5,000 take a second
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*)
  | (?P<block>/\*)
  | (?P<string>[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|[xXbB]?'[^']*(?:''[^']*)*')
  | (?P<dollar>(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?P=tag))
  | (?P<quoted>"[^"]*(?:""[^"]*)*")
  | (?P<number>(?:[0-9]+(?:_[0-9]+)*(?:\.(?!\.)(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)
        (?:[eE][+-]?[0-9]+)?)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<symbol>:=|=>|::|->>|->|<=|>=|<>|!=|==|\*\*|//|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """One word, quoted name, string, number or symbol, as written in text[start:end]."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The keyword that this token may be: upper case for bare words, else nothing."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str | None:
        """The identifier that this token may be, unquoted."""
        if self.kind == "word":
            return self.text
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return None

    def is_symbol(self, *symbols: str) -> bool:
        """Whether this token is one of the given symbols."""
        return self.kind == "symbol" and self.text in symbols


def tokenize(text: str) -> list[Token]:
    """The tokens of a string of SQL, without comments and spaces.

    >>> [t.text for t in tokenize("SELECT 5!, $$a'b$$ /* x /* y */ */ FROM t -- end")]
    ['SELECT', '5', '!', ',', "$$a'b$$", 'FROM', 't']
    """
    found: list[Token] = []
    half = _HALF.search(text)
    if half is not None:
        raise ParseError("This character is half of a pair.", text=None, position=half.start())
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ParseError("This character cannot be read.", text=text, position=position)
        kind, end = match.lastgroup, match.end()
        if kind == "block":
            end = _end_of_comment(text, position)
        elif kind == "dollar":
            found.append(Token("string", match.group(), position, end))
        elif kind == "symbol" and _UNCLOSED.match(text, position):
            raise ParseError("This quote is never closed.", text=text, position=position)
        elif kind not in {"space", "comment"}:
            found.append(Token(kind, match.group(), position, end))
        position = end
    return found


def _end_of_comment(text: str, start: int) -> int:
    depth, position = 0, start
    while True:
        mark = _COMMENT_MARK.search(text, position)
        if mark is None:
            raise ParseError("This comment is never closed.", text=text, position=start)
        depth += 1 if mark.group() == "/*" else -1
        position = mark.end()
        if depth > _MAX_COMMENTS:
            raise ParseError(
                f"A statement has at most {_MAX_COMMENTS} levels of nested comments.",
                text=text,
                position=start,
            )
        if depth == 0:
            return position


def statements(text: str) -> list[Sequence[Token]]:
    """The statements of SQL, cut at the semicolons outside brackets; empty ones left out."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokenize(text):
        depth += token.is_symbol(*OPEN) - token.is_symbol(*CLOSE)
        if depth <= 0 and token.is_symbol(";"):
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]


def matching(tokens: Sequence[Token], opening: int, text: str) -> int:
    """Index of the bracket that closes `tokens[opening]`."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].is_symbol(*OPEN):
            depth += 1
        elif tokens[index].is_symbol(*CLOSE):
            depth -= 1
            if depth == 0:
                return index
    raise ParseError("This bracket is never closed.", text=text, position=tokens[opening].start)


def at_depth_zero(tokens: Sequence[Token], start: int, stop: int) -> Iterator[int]:
    """Indices in [start, stop) that are outside every bracket opened in between."""
    depth = 0
    for index in range(start, stop):
        token = tokens[index]
        if token.is_symbol(*CLOSE):
            depth -= 1
        if depth == 0:
            yield index
        if token.is_symbol(*OPEN):
            depth += 1


def split(tokens: Sequence[Token], start: int, stop: int) -> list[tuple[int, int]]:
    """The parts between the commas of [start, stop), as index ranges."""
    commas = [i for i in at_depth_zero(tokens, start, stop) if tokens[i].is_symbol(",")]
    edges = [start - 1, *commas, stop]
    return [(a + 1, b) for a, b in pairwise(edges) if start < stop]


_ASCII = str.maketrans({chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)})


def folded(name: str) -> str:
    """A name as DuckDB compares it: only ASCII letters lose their case.

    >>> folded("Äpfel ABC")
    'Äpfel abc'
    """
    return name.translate(_ASCII)


def called(tokens: Sequence[Token]) -> dict[str, int]:
    """Names written like a call, in lower case, with the place of the first one."""
    found: dict[str, int] = {}
    for token, after in pairwise(tokens):
        if after.is_symbol("(") and token.name is not None:
            found.setdefault(folded(token.name), token.start)
    return found


def text_of(text: str, tokens: Sequence[Token], start: int, stop: int) -> str:
    """The text of tokens [start, stop) as written."""
    return text[tokens[start].start : tokens[stop - 1].end] if start < stop else ""


def outside_queries(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens outside all brackets that open a query."""
    outside: list[Token] = []
    index = 0
    while index < len(tokens):
        opens = tokens[index].is_symbol("(")
        if opens and index + 1 < len(tokens) and tokens[index + 1].upper in QUERY_STARTS:
            index = matching(tokens, index, text)
        else:
            outside.append(tokens[index])
        index += 1
    return outside

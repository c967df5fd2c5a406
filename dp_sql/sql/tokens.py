"""Where things stand in a text: words, brackets, statements and the clauses of one SELECT.

Owns the lexer. It must never change a text and never decide what is allowed. It reads tokens, not
a grammar, because the text around a DP call belongs to DuckDB: whatever DuckDB's parser accepts
there must reach it as written, also where sqlglot would misread it. Only the parts that we must
understand (the source of a DP call and its arguments) are given to sqlglot, by check.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dp_sql.errors import ParseError

_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}

_HALF = re.compile("[\ud800-\udfff]")
_MAX_COMMENTS = 100  # DuckDB 1.5 reads all levels again for each level: 5,000 take a second
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*)
  | (?P<block>/\*)
  | (?P<string>[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|[xXbB]?'[^']*(?:''[^']*)*')
  | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
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
    """One word, quoted name, string, number or sign; `text[start:end]` is how it was written."""

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

    def is_symbol(self, *signs: str) -> bool:
        """Whether this token is one of the given signs."""
        return self.kind == "symbol" and self.text in signs


def tokenize(text: str) -> list[Token]:
    """Cut a text into tokens; comments and spaces are left out.

    >>> [t.text for t in tokenize("SELECT 5!, $$a'b$$ /* x /* y */ */ FROM t -- end")]
    ['SELECT', '5', '!', ',', "$$a'b$$", 'FROM', 't']
    """
    found: list[Token] = []
    half = _HALF.search(text)
    if half is not None:
        raise ParseError("This sign is half a character.", text=None, position=half.start())
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ParseError("This sign cannot be read.", text=text, position=position)
        kind, end = match.lastgroup, match.end()
        if kind == "block":
            end = _end_of_comment(text, position)
        elif kind == "dollar":
            end = _end_of_dollars(text, match)
            found.append(Token("string", text[position:end], position, end))
        elif kind == "symbol" and match.group() in {"'", '"'}:
            raise ParseError("This quote is never closed.", text=text, position=position)
        elif kind not in {"space", "comment"}:
            found.append(Token(kind, match.group(), position, end))
        position = end
    return found


def _end_of_dollars(text: str, mark: re.Match[str]) -> int:
    end = text.find(mark.group(), mark.end())
    if end < 0:
        raise ParseError("This quote is never closed.", text=text, position=mark.start())
    return end + len(mark.group())


def _end_of_comment(text: str, start: int) -> int:
    depth, position = 0, start
    while True:
        mark = re.compile(r"/\*|\*/").search(text, position)
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
    """The statements of a text, cut at the semicolons outside brackets; empty ones left out."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokenize(text):
        if token.is_symbol(*_OPEN):
            depth += 1
        elif token.is_symbol(*_CLOSE):
            depth -= 1
        if depth <= 0 and token.is_symbol(";"):
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]


def matching(tokens: Sequence[Token], opening: int, text: str) -> int:
    """Index of the bracket that closes `tokens[opening]`."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].is_symbol(*_OPEN):
            depth += 1
        elif tokens[index].is_symbol(*_CLOSE):
            depth -= 1
            if depth == 0:
                return index
    raise ParseError("This bracket is never closed.", text=text, position=tokens[opening].start)


def at_depth_zero(tokens: Sequence[Token], start: int, stop: int) -> Iterator[int]:
    """Indices in [start, stop) that stand outside every bracket opened in between."""
    depth = 0
    for index in range(start, stop):
        token = tokens[index]
        if token.is_symbol(*_CLOSE):
            depth -= 1
        if depth == 0:
            yield index
        if token.is_symbol(*_OPEN):
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


CLAUSES = (
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT",
    "OFFSET", "USING", "RETURNING", "ON", "WITH",
)  # fmt: skip
# These open a clause only with the right word behind; what follows belongs to the statement around.
_ONLY_BEFORE = {"USING": {"SAMPLE"}, "ON": {"CONFLICT"}, "WITH": {"NO", "DATA"}}
_SET_OPERATIONS = {"UNION", "INTERSECT", "EXCEPT"}
_STARTS = {"SELECT", "FROM", "WITH"}


@dataclass(frozen=True)
class Clause:
    """One clause of a SELECT: token indices [start, stop), the keyword being tokens[start]."""

    keyword: str
    start: int
    stop: int


@dataclass(frozen=True)
class Select:
    """One SELECT between set operations: its clauses, and the CTE names that it may see."""

    clauses: tuple[Clause, ...]
    ctes: frozenset[str]

    def clause(self, keyword: str) -> Clause | None:
        """The clause of that keyword, if the SELECT has it."""
        return next((c for c in self.clauses if c.keyword == keyword), None)

    def clause_of(self, index: int) -> Clause | None:
        """The clause in which a token stands."""
        return next((c for c in self.clauses if c.start <= index < c.stop), None)


def enclosing_select(tokens: Sequence[Token], index: int, text: str) -> Select:
    """The innermost SELECT around `tokens[index]`.

    A bracket opens a query when its first word is SELECT, FROM or WITH; every other bracket
    belongs to an expression.
    """
    ctes: set[str] = set()
    found: tuple[Clause, ...] | None = None
    start = index
    while True:
        start = _opening_bracket(tokens, start)
        inside = start + 1
        if start >= 0 and not _starts_query(tokens, inside):
            continue
        stop = len(tokens) if start < 0 else matching(tokens, start, text)
        if found is None:
            found = _clauses(tokens, inside, stop, index)
        ctes |= _cte_names(tokens, inside, stop)
        if start < 0:
            return Select(found, frozenset(ctes))


def _opening_bracket(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    for i in range(index - 1, -1, -1):
        if tokens[i].is_symbol(*_CLOSE):
            depth += 1
        elif tokens[i].is_symbol(*_OPEN):
            if depth == 0:
                return i
            depth -= 1
    return -1


def _starts_query(tokens: Sequence[Token], index: int) -> bool:
    return index < len(tokens) and tokens[index].upper in _STARTS


def _clauses(tokens: Sequence[Token], start: int, stop: int, index: int) -> tuple[Clause, ...]:
    found: list[tuple[str, int]] = []
    for i in at_depth_zero(tokens, start, stop):
        word = tokens[i].upper
        if word in _SET_OPERATIONS and not _is_name(tokens, i, found):
            if i > index:
                stop = i
                break
            found = []
        elif word in CLAUSES and not _is_name(tokens, i, found) and _opens_clause(tokens, i, found):
            found.append((word, i))
    edges = [*(i for _, i in found), stop]
    return tuple(Clause(word, i, edges[n + 1]) for n, (word, i) in enumerate(found))


def _is_name(tokens: Sequence[Token], index: int, found: list[tuple[str, int]]) -> bool:
    before = tokens[index - 1] if index else None
    return before is not None and (before.is_symbol(".") or (before.upper == "AS" and bool(found)))


def _opens_clause(tokens: Sequence[Token], index: int, found: list[tuple[str, int]]) -> bool:
    word = tokens[index].upper
    before = tokens[index - 1].upper if index else ""
    after = tokens[index + 1].upper if index + 1 < len(tokens) else ""
    if word == "FROM" and before == "DISTINCT":  # a IS [NOT] DISTINCT FROM b
        return not (index > 1 and tokens[index - 2].upper in {"IS", "NOT"})
    if word in {"GROUP", "ORDER"}:
        return bool(found) and after == "BY"
    if word in _ONLY_BEFORE:
        return bool(found) and after in _ONLY_BEFORE[word]
    return word in {"SELECT", "FROM"} or bool(found)


def _cte_names(tokens: Sequence[Token], start: int, stop: int) -> set[str]:
    """Names that a WITH list at the head of [start, stop) defines."""
    depth_zero = list(at_depth_zero(tokens, start, stop))
    first = next((i for i in depth_zero if tokens[i].upper == "WITH"), None)
    if first is None:
        return set()
    names: set[str] = set()
    expecting = True
    for i in (i for i in depth_zero if i > first):
        token = tokens[i]
        if expecting and token.name is not None and token.upper != "RECURSIVE":
            names.add(folded(token.name))
            expecting = False
        elif token.is_symbol(","):
            expecting = True
        elif token.upper in {"SELECT", "FROM", "VALUES", "INSERT", "UPDATE", "DELETE"}:
            break
    return names


def text_of(text: str, tokens: Sequence[Token], start: int, stop: int) -> str:
    """The text of tokens [start, stop) as written."""
    return text[tokens[start].start : tokens[stop - 1].end] if start < stop else ""


def outside_queries(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens outside all brackets that open a query."""
    outside: list[Token] = []
    index = 0
    while index < len(tokens):
        opens = tokens[index].is_symbol("(")
        if opens and index + 1 < len(tokens) and tokens[index + 1].upper in _STARTS:
            index = matching(tokens, index, text)
        else:
            outside.append(tokens[index])
        index += 1
    return outside


def cte_bodies(tokens: Sequence[Token], text: str) -> dict[str, tuple[int, int]]:
    """The bodies of the CTEs at the head of a statement, as spans of the text, by folded name.

    A CTE that renames its columns, `name(column, …) AS`, is left out.

    >>> sql = "WITH a AS (SELECT 1), b AS MATERIALIZED (FROM a) FROM b"
    >>> {name: sql[slice(*span)] for name, span in cte_bodies(tokenize(sql), sql).items()}
    {'a': 'SELECT 1', 'b': 'FROM a'}
    """
    found: dict[str, tuple[int, int]] = {}
    index = 1
    if not tokens or tokens[0].upper != "WITH":
        return found
    while index + 2 < len(tokens) and tokens[index].name is not None:
        name = folded(tokens[index].name or "")
        index += 1
        renamed = tokens[index].is_symbol("(")
        if renamed:
            index = matching(tokens, index, text) + 1
        while index < len(tokens) and tokens[index].upper in {"AS", "NOT", "MATERIALIZED"}:
            index += 1
        if index >= len(tokens) or not tokens[index].is_symbol("("):
            break
        close = matching(tokens, index, text)
        if not renamed:
            found[name] = (tokens[index].end, tokens[close].start)
        if close + 1 >= len(tokens) or not tokens[close + 1].is_symbol(","):
            break
        index = close + 2
    return found

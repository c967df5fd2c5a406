"""How large does a statement become once each name is replaced by its definition? Pure.

`WITH b AS (FROM a, a), c AS (FROM b, b)` holds four copies of `a`; so does
`SELECT x AS y, y + y AS z, z + z AS w` of `x`, and `SELECT *, *` of `SELECT *, *` of its columns.
Each step doubles, so a short statement can become a large one. Reads tokens only. It takes a name
that is defined anywhere for the same name everywhere, so it counts too many copies
rather than too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dp_sql.sql.tokens import CLOSE, OPEN, Token, folded

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_AFTER_FROM = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "USING", "WINDOW",
                         "QUALIFY", *_SET_OPERATIONS})  # fmt: skip
_KEYWORDS = frozenset({"AS", "AND", "OR", "NOT", "BY", "CASE", "WHEN", "THEN", "ELSE", "WITH",
                       "OVER", "PARTITION", "IN", "IS", "DISTINCT", "LEFT", "INNER",
                       "LATERAL"})  # fmt: skip
_NOT_ALIASES = frozenset({"END", "NULL", "TRUE", "FALSE", *_KEYWORDS, *_AFTER_FROM})


@dataclass
class _Item:
    """Part of a list: what it defines, and how often it mentions each name."""

    defines: str | None = None
    mentions: Counter[str] = field(default_factory=Counter)


@dataclass
class _Frame:
    """A bracket that is open, or the whole statement.

    place: the clause of a query, "" outside. stars: parts of the SELECT list that are all columns
        of a relation.
    """

    item: _Item
    cte: str | None = None
    reads: Counter[str] = field(default_factory=Counter)
    place: str = ""
    stars: int = 0


def copies(tokens: Sequence[Token], enough: int) -> int:
    """The largest number of copies of one part, or some number above `enough`.

    Args:
        tokens: one statement.
        enough: where to stop counting.

    >>> from dp_sql.sql.tokens import tokenize
    >>> [copies(tokenize(sql), 99) for sql in (
    ...     "WITH b AS (FROM a), c AS (FROM b, b), d AS (FROM c, c) FROM d",
    ...     "SELECT x + x AS y, y + y AS z, z FROM t", "SELECT *, * FROM (SELECT *, * FROM t)")]
    [4, 2, 4]
    """
    return _Copies(tokens, enough).count()


class _Copies:
    """One pass that collects the definitions, then one forwards and one backwards over them."""

    def __init__(self, tokens: Sequence[Token], enough: int) -> None:
        self._tokens = tokens
        self._enough = enough
        self._frames = [_Frame(_Item())]
        self._items: list[_Item] = []
        self._ctes: dict[str, int] = {}
        self._relations: set[str] = set()
        self._stars = 1

    def count(self) -> int:
        self._relations = _relations(self._tokens)
        for index, token in enumerate(self._tokens):
            if token.kind == "symbol":
                self._symbol(index, token.text)
            elif token.name is not None:
                self._word(index, token)
        self._end_list(self._frames[-1])
        self._end_item(self._frames[-1], len(self._tokens))
        read = max(self._ctes.values(), default=1)
        written = max(self._written(self._items), self._written(reversed(self._items)))
        return max(self._stars * read, written * self._stars if written > 1 else 1)

    def _written(self, items: Iterable[_Item]) -> int:
        """The copies in the largest of the aliases, if each knows those before it."""
        known = {item.defines: 1 for item in self._items if item.defines is not None}
        most = 1
        for item in items:
            if item.defines is not None:
                size = sum(known[name] * n for name, n in item.mentions.items() if name in known)
                known[item.defines] = max(known[item.defines], min(size, self._enough + 1))
                most = max(most, known[item.defines])
        return most

    def _symbol(self, index: int, symbol: str) -> None:
        frame = self._frames[-1]
        if symbol in OPEN:
            opened = _Frame(_Item(), cte=self._cte(index))
            self._frames.append(opened)
        elif symbol in CLOSE and len(self._frames) > 1:
            self._close(index)
        elif symbol == ",":
            self._end_item(frame, index)
        elif symbol == "*" and frame.place == "SELECT" and self._is_star(index):
            frame.stars += 1

    def _close(self, index: int) -> None:
        frame = self._frames[-1]
        is_query = bool(frame.place)
        self._end_list(frame)
        self._end_item(frame, index)
        self._frames.pop()
        outer = self._frames[-1]
        if frame.cte is not None:
            size = sum(self._ctes.get(name, 0) * n for name, n in frame.reads.items())
            size = min(max(size, 1), self._enough + 1)
            self._ctes[frame.cte] = max(self._ctes.get(frame.cte, 1), size)
        else:
            outer.reads.update(frame.reads)
        if not is_query:
            outer.item.mentions.update(frame.item.mentions)
            if outer.place == "SELECT":
                outer.stars += frame.stars

    def _word(self, index: int, token: Token) -> None:
        frame, word, name = self._frames[-1], token.upper, folded(token.name or "")
        if word == "SELECT":
            self._end_list(frame)
            self._end_item(frame, index)
            frame.place = "SELECT"
        elif word == "FROM" or (frame.place == "FROM" and word in _AFTER_FROM):
            self._end_item(frame, index)
            frame.place = word
        elif word == "COLUMNS" and frame.place == "SELECT":
            frame.stars += 1
        elif word not in _KEYWORDS:
            self._mention(index, frame, name)

    def _mention(self, index: int, frame: _Frame, name: str) -> None:
        """Count a name, unless it is a call, an alias or the head of a longer name."""
        follows = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
        before = self._tokens[index - 1] if index else None
        if follows is not None and follows.is_symbol("(", "."):
            return
        qualified = before is not None and before.is_symbol(".")
        if name in self._ctes and not qualified:
            frame.reads[name] += 1
        if before is not None and before.upper == "AS":
            frame.item.defines = name
            return
        if follows is not None and follows.is_symbol(":"):
            frame.item.defines = name
            return
        frame.item.mentions[name] += 1
        if name in self._relations and not qualified and self._in_list():
            frame.stars += 1

    def _in_list(self) -> bool:
        """Whether the innermost query is at its SELECT list."""
        place = next((frame.place for frame in reversed(self._frames) if frame.place), "")
        return place == "SELECT"

    def _end_item(self, frame: _Frame, index: int) -> None:
        """Record what a SELECT list defines; in a bracket without a query, mentions continue."""
        if not frame.place:
            return
        item, last = frame.item, self._tokens[index - 1]
        frame.item = _Item()
        if frame.place != "SELECT":
            return
        if item.defines is None and last.name is not None and last.upper not in _NOT_ALIASES:
            item.defines = folded(last.name)  # `x + x y`, or the column's own name
            item.mentions[item.defines] -= not _is_alone(self._tokens, index - 1)
        self._items.append(item)

    def _end_list(self, frame: _Frame) -> None:
        if frame.stars > 1:
            self._stars = min(self._stars * frame.stars, self._enough + 1)
        if frame.place:
            frame.stars = 0

    def _is_star(self, index: int) -> bool:
        before = self._tokens[index - 1]
        return before.is_symbol(",", ".") or before.upper in {"SELECT", "DISTINCT", "ALL"}

    def _cte(self, index: int) -> str | None:
        """The name of the CTE whose body a bracket opens."""
        at = index - 1
        while at > 0 and self._tokens[at].upper in {"NOT", "MATERIALIZED"}:
            at -= 1
        if at < 1 or self._tokens[at].upper != "AS":
            return None
        at -= 1
        if self._tokens[at].is_symbol(")"):  # name(column, …) AS (
            while at > 0 and not self._tokens[at].is_symbol("("):
                at -= 1
            at -= 1
        name = self._tokens[at].name if at >= 0 else None
        return None if name is None else folded(name)


def _is_alone(tokens: Sequence[Token], index: int) -> bool:
    """Whether a name is all of its item: a column without an alias."""
    before = tokens[index - 1] if index else None
    return (
        before is None or before.is_symbol(",", "(", ".") or before.upper in {"SELECT", "DISTINCT"}
    )


def _relations(tokens: Sequence[Token]) -> set[str]:
    """Names of tables and their aliases: all names after FROM and JOIN, up to the next clause."""
    found: set[str] = set()
    in_from = [False]
    for token in tokens:
        if token.kind == "symbol" and token.text in OPEN:
            in_from.append(False)
        elif token.kind == "symbol" and token.text in CLOSE:
            in_from[-1:] = [] if len(in_from) > 1 else [False]
        elif token.upper in {"FROM", "JOIN"}:
            in_from[-1] = True
        elif token.upper == "SELECT" or token.upper in _AFTER_FROM:
            in_from[-1] = False
        elif in_from[-1] and token.name is not None and token.upper not in _KEYWORDS:
            found.add(folded(token.name))
    return found

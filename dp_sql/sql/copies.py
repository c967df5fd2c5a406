"""How large does a statement become once each name is replaced by its definition? Pure.

`WITH b AS (FROM a, a), c AS (FROM b, b)` holds four copies of `a`; so does
`SELECT x AS y, y + y AS z, z + z AS w` of `x`, and `SELECT *, *` of `SELECT *, *` of its columns.
Each step doubles, so a short statement can become a large one. Reads tokens only. A name that is
defined anywhere is the same name everywhere, so the count is too high rather than too low.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dp_sql.sql.tokens import Tokens, folded

_AFTER_FROM = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "USING", "WINDOW",
                         "QUALIFY", "UNION", "INTERSECT", "EXCEPT"})  # fmt: skip
_KEYWORDS = frozenset({"AS", "AND", "OR", "NOT", "BY", "CASE", "WHEN", "THEN", "ELSE", "WITH",
                       "OVER", "PARTITION", "IN", "IS", "DISTINCT", "LEFT", "INNER",
                       "LATERAL"})  # fmt: skip
_NOT_ALIASES = _KEYWORDS | _AFTER_FROM | {"END", "NULL", "TRUE", "FALSE"}


@dataclass
class _Frame:
    """A bracket that is open, or the whole statement, at one part of a list."""

    cte: str | None = None
    reads: Counter[str] = field(default_factory=Counter)  # CTEs
    place: str = ""  # the clause of a query, "" outside
    stars: int = 0  # parts of the SELECT list that are all columns of a relation
    defines: str | None = None  # what this part of the list defines
    mentions: Counter[str] = field(default_factory=Counter)  # and the names in it


def copies(tokens: Tokens, enough: int) -> int:
    """The largest number of copies of one part of a statement, or some number above `enough`.

    >>> from dp_sql.sql.tokens import tokenize
    >>> [copies(tokenize(sql), 99) for sql in (
    ...     "WITH b AS (FROM a), c AS (FROM b, b), d AS (FROM c, c) FROM d",
    ...     "SELECT x + x AS y, y + y AS z, z FROM t", "SELECT *, * FROM (SELECT *, * FROM t)")]
    [4, 2, 4]
    """
    return _Copies(tokens, enough).count()


class _Copies:
    """One pass that collects the definitions, then one forwards and one backwards over them."""

    def __init__(self, tokens: Tokens, enough: int) -> None:
        self._tokens = tokens
        self._enough = enough
        self._frames = [_Frame()]
        self._aliases: list[tuple[str, Counter[str]]] = []
        self._ctes: dict[str, int] = {}
        self._relations = _relations(tokens)
        self._stars = 1

    def count(self) -> int:
        for index, token in enumerate(self._tokens):
            if token.opens:
                self._frames.append(_Frame(self._cte(index)))
            elif token.closes and len(self._frames) > 1:
                self._close(index)
            elif token.is_symbol(","):
                self._end_item(self._frames[-1], index)
            elif token.is_symbol("*"):
                self._frames[-1].stars += self._is_star(index)
            elif token.name is not None:
                self._word(index, token.upper, folded(token.name))
        self._end_list(self._frames[-1], len(self._tokens))
        read = max(self._ctes.values(), default=1)
        written = max(self._written(self._aliases), self._written(reversed(self._aliases)))
        return max(self._stars * read, written * self._stars if written > 1 else 1)

    def _written(self, aliases: Iterable[tuple[str, Counter[str]]]) -> int:
        """The copies in the largest of the aliases, if each knows those before it."""
        known = {name: 1 for name, _ in self._aliases}
        for name, mentions in aliases:
            size = sum(known[other] * n for other, n in mentions.items() if other in known)
            known[name] = max(known[name], min(size, self._enough + 1))
        return max(known.values(), default=1)

    def _close(self, index: int) -> None:
        frame, outer = self._frames.pop(), self._frames[-1]
        self._end_list(frame, index)
        if frame.cte is not None:
            size = sum(self._ctes.get(name, 0) * n for name, n in frame.reads.items())
            self._ctes[frame.cte] = max(self._ctes.get(frame.cte, 1), min(size, self._enough + 1))
        else:
            outer.reads.update(frame.reads)
        if not frame.place:
            outer.mentions.update(frame.mentions)
            outer.stars += frame.stars if outer.place == "SELECT" else 0

    def _word(self, index: int, word: str, name: str) -> None:
        frame = self._frames[-1]
        if word == "SELECT":
            self._end_list(frame, index)
            frame.place = word
        elif word == "FROM" or (frame.place == "FROM" and word in _AFTER_FROM):
            self._end_item(frame, index)
            frame.place = word
        elif word == "COLUMNS" and frame.place == "SELECT":
            frame.stars += 1
        elif word not in _KEYWORDS:
            self._mention(index, frame, name)

    def _mention(self, index: int, frame: _Frame, name: str) -> None:
        """Count a name, unless it is a call, an alias or the head of a longer name."""
        before, after = self._tokens.at(index - 1), self._tokens.at(index + 1)
        if after.is_symbol("(", "."):
            return
        qualified = before.is_symbol(".")
        if name in self._ctes and not qualified:
            frame.reads[name] += 1
        if before.upper == "AS" or after.is_symbol(":"):
            frame.defines = name
            return
        frame.mentions[name] += 1
        if name in self._relations and not qualified:
            innermost = next((frame.place for frame in reversed(self._frames) if frame.place), "")
            frame.stars += innermost == "SELECT"

    def _end_item(self, frame: _Frame, index: int) -> None:
        """Record what a SELECT list defines; in a bracket without a query, mentions continue."""
        if not frame.place:
            return
        name, mentions, last = frame.defines, frame.mentions, self._tokens[index - 1]
        frame.defines, frame.mentions = None, Counter()
        if frame.place != "SELECT":
            return
        if name is None and last.name is not None and last.upper not in _NOT_ALIASES:
            name = folded(last.name)  # `x + x y`, or the column's own name
            before = self._tokens.at(index - 2)
            alone = before.is_symbol(",", "(", ".") or before.upper in {"SELECT", "DISTINCT"}
            mentions[name] -= not alone
        if name is not None:
            self._aliases.append((name, mentions))

    def _end_list(self, frame: _Frame, index: int) -> None:
        if frame.stars > 1:
            self._stars = min(self._stars * frame.stars, self._enough + 1)
        if frame.place:
            frame.stars = 0
        self._end_item(frame, index)

    def _is_star(self, index: int) -> bool:
        before = self._tokens.at(index - 1)
        begins = before.is_symbol(",", ".") or before.upper in {"SELECT", "DISTINCT", "ALL"}
        return begins and self._frames[-1].place == "SELECT"

    def _cte(self, index: int) -> str | None:
        """The name of the CTE whose body a bracket opens."""
        at = index - 1
        while self._tokens.at(at).upper in {"NOT", "MATERIALIZED"}:
            at -= 1
        if self._tokens.at(at).upper != "AS":
            return None
        at -= 1
        if self._tokens.at(at).is_symbol(")"):  # name(column, …) AS (
            while at > 0 and not self._tokens[at].is_symbol("("):
                at -= 1
            at -= 1
        name = self._tokens.at(at).name
        return None if name is None else folded(name)


def _relations(tokens: Tokens) -> set[str]:
    """Names of tables and their aliases: all names after FROM and JOIN, up to the next clause."""
    found: set[str] = set()
    in_from = [False]
    for token in tokens:
        if token.opens:
            in_from.append(False)
        elif token.closes:
            in_from[-1:] = [] if len(in_from) > 1 else [False]
        elif token.upper in {"FROM", "JOIN"}:
            in_from[-1] = True
        elif token.upper == "SELECT" or token.upper in _AFTER_FROM:
            in_from[-1] = False
        elif in_from[-1] and token.name is not None and token.upper not in _KEYWORDS:
            found.add(folded(token.name))
    return found

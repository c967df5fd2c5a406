"""The clauses of one SELECT and its CTEs, found by tokens.

It reads tokens and no grammar, because the SQL around a DP call belongs to DuckDB: whatever DuckDB
accepts there must reach it as written, also where sqlglot would misread it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dp_sql.sql.tokens import Tokens, folded

Span = tuple[int, int]  # offsets in the text: [start, stop)
_CLAUSES = frozenset(
    {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET",
     "USING", "RETURNING", "ON", "WITH"}
)  # fmt: skip
# These open a clause only with the right word behind; what follows belongs to the statement around.
_ONLY_BEFORE = {"USING": {"SAMPLE"}, "ON": {"CONFLICT"}, "WITH": {"NO", "DATA"},
                "GROUP": {"BY"}, "ORDER": {"BY"}}  # fmt: skip
OF_ANSWERS = frozenset({"HAVING", "WINDOW", "QUALIFY", "ORDER"})  # computed over the answers
_AFTER_CTES = {"SELECT", "FROM", "VALUES", "INSERT", "UPDATE", "DELETE"}
AFTER_RELATION = frozenset(  # words that may be behind a relation of FROM, and are not its alias
    {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF",
     "POSITIONAL", "ON", "USING", "TABLESAMPLE", "SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY",
     "WINDOW", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT"}
)  # fmt: skip


class Clause(NamedTuple):
    """One clause of a SELECT: token indices [start, stop), the keyword being tokens[start]."""

    keyword: str
    start: int
    stop: int


class SelectText(NamedTuple):
    """One SELECT between set operations: its clauses, and the CTEs that it may use, as in `ctes`.

    Where several CTEs have one name, its body is None. `of_union`: ORDER BY, LIMIT and OFFSET
    behind a set operation, which belong to it.
    """

    clauses: tuple[Clause, ...]
    ctes: Mapping[str, Span | None]
    of_union: tuple[Clause, ...] = ()

    def clause(self, keyword: str) -> Clause | None:
        """The clause of that keyword, if the SELECT has it."""
        return next((c for c in self.clauses if c.keyword == keyword), None)

    def clause_of(self, index: int) -> Clause | None:
        """The clause that contains a token."""
        both = (*self.clauses, *self.of_union)
        return next((c for c in both if c.start <= index < c.stop), None)


def alias_at(tokens: Tokens, end: int) -> int | None:
    """Where the alias is of a relation whose name ends before a token; None: it has none."""
    place = end + (tokens.at(end).upper == "AS")
    alias = tokens.at(place)
    return place if alias.name is not None and alias.upper not in AFTER_RELATION else None


def enclosing_select(tokens: Tokens, index: int) -> SelectText:
    """The innermost SELECT around `tokens[index]`."""
    queries = tokens.queries_around(index)
    found: dict[str, Span | None] = {}
    for name, body in (cte for query in queries for cte in ctes(tokens, *query)):
        found[name] = None if name in found else body
    clauses, is_behind = _clauses(tokens, *queries[0], index)
    shared = tuple(c for c in clauses if is_behind and c.keyword in {"ORDER", "LIMIT", "OFFSET"})
    return SelectText(tuple(c for c in clauses if c not in shared), found, shared)


def _clauses(tokens: Tokens, start: int, stop: int, index: int) -> tuple[tuple[Clause, ...], bool]:
    """The clauses of a SELECT, and whether it is behind a set operation."""
    found: list[tuple[str, int]] = []
    is_behind = False
    for i in tokens.at_depth_zero(start, stop):
        word = tokens[i].upper
        before, after = tokens.at(i - 1).upper, tokens.at(i + 1).upper
        if tokens.at(i - 1).is_symbol(".") or (before == "AS" and found):
            continue  # a name
        if word in {"UNION", "INTERSECT", "EXCEPT"}:
            if i > index:
                stop = i
                break
            found, is_behind = [], True
        elif word not in _CLAUSES or after not in _ONLY_BEFORE.get(word, {after}):
            continue
        elif word == "FROM" and before == "DISTINCT":
            if tokens.at(i - 2).upper not in {"IS", "NOT"}:  # a IS [NOT] DISTINCT FROM b
                found.append((word, i))
        elif found or word in {"SELECT", "FROM"}:
            found.append((word, i))
    edges = [*(i for _, i in found), stop]
    return tuple(Clause(word, i, edges[n + 1]) for n, (word, i) in enumerate(found)), is_behind


def ctes(tokens: Tokens, start: int, stop: int) -> Iterator[tuple[str, Span | None]]:
    """The CTEs of a WITH list of [start, stop), and perhaps more names: folded, with their bodies.

    A body is a span of the text, with the list of its columns before it if there is one; None
    where the CTE may be recursive.

    >>> from dp_sql.sql.tokens import tokenize
    >>> sql = "WITH a AS (SELECT 1), b(x) AS MATERIALIZED (FROM a) FROM b"
    >>> found = dict(ctes(tokenize(sql), 0, len(tokenize(sql))))
    >>> sql[slice(*found["a"])], sql[slice(*found["b"])]
    ('SELECT 1', '(x) AS MATERIALIZED (FROM a')
    """
    is_with, expecting, is_recursive = False, True, False
    for i in tokens.at_depth_zero(start, stop):
        token = tokens[i]
        if not is_with:
            is_with = token.upper == "WITH"
        elif expecting and token.upper == "RECURSIVE":
            is_recursive = True
        elif expecting and token.name is not None:
            yield folded(token.name), None if is_recursive else _body(tokens, i + 1)
            expecting = False
        elif token.is_symbol(","):
            expecting = True
        elif token.upper in _AFTER_CTES:
            break


def _body(tokens: Tokens, index: int) -> Span | None:
    first = index
    if tokens.at(index).is_symbol("("):
        index = tokens.matching(index) + 1
    if tokens.at(index).upper != "AS":
        return None
    while tokens.at(index).upper in {"AS", "NOT", "MATERIALIZED"}:
        index += 1
    if not tokens.at(index).is_symbol("("):
        return None
    start = tokens[first].start if tokens[first].is_symbol("(") else tokens[index].end
    return start, tokens[tokens.matching(index)].start

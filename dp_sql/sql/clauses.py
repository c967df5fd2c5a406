"""The clauses of one SELECT and its CTEs, found by tokens.

It reads tokens and no grammar, because the SQL around a DP call belongs to DuckDB: whatever DuckDB
accepts there must reach it as written, also where sqlglot would misread it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dp_sql.sql.tokens import Token, at_depth_zero, folded, matching, queries_around, token_at

_CLAUSES = frozenset(
    {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET",
     "USING", "RETURNING", "ON", "WITH"}
)  # fmt: skip
# These open a clause only with the right word behind; what follows belongs to the statement around.
_ONLY_BEFORE = {"USING": {"SAMPLE"}, "ON": {"CONFLICT"}, "WITH": {"NO", "DATA"},
                "GROUP": {"BY"}, "ORDER": {"BY"}}  # fmt: skip
_AFTER_CTES = {"SELECT", "FROM", "VALUES", "INSERT", "UPDATE", "DELETE"}


@dataclass(frozen=True)
class Clause:
    """One clause of a SELECT: token indices [start, stop), the keyword being tokens[start]."""

    keyword: str
    start: int
    stop: int


@dataclass(frozen=True)
class SelectText:
    """One SELECT between set operations: its clauses, and the CTE names that it may use."""

    clauses: tuple[Clause, ...]
    ctes: frozenset[str]

    def clause(self, keyword: str) -> Clause | None:
        """The clause of that keyword, if the SELECT has it."""
        return next((c for c in self.clauses if c.keyword == keyword), None)

    def clause_of(self, index: int) -> Clause | None:
        """The clause that contains a token."""
        return next((c for c in self.clauses if c.start <= index < c.stop), None)


def enclosing_select(tokens: Sequence[Token], index: int) -> SelectText:
    """The innermost SELECT around `tokens[index]`."""
    queries = queries_around(tokens, index)
    names = [name for query in queries for name in _cte_names(tokens, *query)]
    return SelectText(_clauses(tokens, *queries[0], index), frozenset(names))


def _clauses(tokens: Sequence[Token], start: int, stop: int, index: int) -> tuple[Clause, ...]:
    found: list[tuple[str, int]] = []
    for i in at_depth_zero(tokens, start, stop):
        word = tokens[i].upper
        before, after = token_at(tokens, i - 1).upper, token_at(tokens, i + 1).upper
        if token_at(tokens, i - 1).is_symbol(".") or (before == "AS" and found):
            continue  # a name
        if word in {"UNION", "INTERSECT", "EXCEPT"}:
            if i > index:
                stop = i
                break
            found = []
        elif word not in _CLAUSES or after not in _ONLY_BEFORE.get(word, {after}):
            continue
        elif word == "FROM" and before == "DISTINCT":
            if token_at(tokens, i - 2).upper not in {"IS", "NOT"}:  # a IS [NOT] DISTINCT FROM b
                found.append((word, i))
        elif found or word in {"SELECT", "FROM"}:
            found.append((word, i))
    edges = [*(i for _, i in found), stop]
    return tuple(Clause(word, i, edges[n + 1]) for n, (word, i) in enumerate(found))


def _cte_names(tokens: Sequence[Token], start: int, stop: int) -> Iterator[str]:
    """Names that a WITH list at the head of [start, stop) defines, and perhaps some more."""
    is_with, expecting = False, True
    for i in at_depth_zero(tokens, start, stop):
        token = tokens[i]
        if not is_with:
            is_with = token.upper == "WITH"
        elif expecting and token.name is not None and token.upper != "RECURSIVE":
            yield folded(token.name)
            expecting = False
        elif token.is_symbol(","):
            expecting = True
        elif token.upper in _AFTER_CTES:
            break


def cte_bodies(tokens: Sequence[Token]) -> dict[str, tuple[int, int]]:
    """The bodies of the CTEs at the head of a statement, as spans of the text, by folded name.

    A CTE that renames its columns, `name(column, …) AS`, is left out.

    >>> from dp_sql.sql.tokens import tokenize
    >>> sql = "WITH a AS (SELECT 1), b AS MATERIALIZED (FROM a) FROM b"
    >>> {name: sql[slice(*span)] for name, span in cte_bodies(tokenize(sql)).items()}
    {'a': 'SELECT 1', 'b': 'FROM a'}
    """
    found: dict[str, tuple[int, int]] = {}
    index = 1
    if not tokens or tokens[0].upper != "WITH":
        return found
    while (name := token_at(tokens, index).name) is not None:
        index += 1
        renamed = token_at(tokens, index).is_symbol("(")
        if renamed:
            index = matching(tokens, index) + 1
        while token_at(tokens, index).upper in {"AS", "NOT", "MATERIALIZED"}:
            index += 1
        if not token_at(tokens, index).is_symbol("("):
            break
        close = matching(tokens, index)
        if not renamed:
            found[folded(name)] = (tokens[index].end, tokens[close].start)
        if not token_at(tokens, close + 1).is_symbol(","):
            break
        index = close + 2
    return found

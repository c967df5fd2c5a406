"""One statement, parsed once: its kind, clauses, DP calls and system tables. Pure: no catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from dp_sql.errors import ArgumentError, ParseError
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.clauses import Span, ctes, enclosing_select
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.select_reader import read_selects
from dp_sql.sql.tokens import QUERY, SHORT, Tokens, folded, statements

_PLAIN = {"SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "LIMIT", "OFFSET", "AS", "ASC", "DESC",
          "NULLS", "FIRST", "LAST", "ALL"}  # fmt: skip
_NEVER = [["FALSE"], ["1", "=", "0"], ["0", "=", "1"], ["1", "=", "2"], ["1", "<>", "1"]]
SYSTEM_TABLES = ("dp_budget", "dp_functions", "dp_ledger", "dp_releases", "dp_release")


def mentions_ours(text: str) -> bool:
    """Whether SQL may have a DP call or a system table; all other SQL goes to DuckDB unread.

    >>> mentions_ours("SELECT count(*) FROM t"), mentions_ours("SELECT dp_topk(a, 3) FROM t")
    (False, True)
    """
    upper = text.upper()
    return any(name.upper() in upper for name in (*FUNCTIONS, *SYSTEM_TABLES))


class SystemTableCall(NamedTuple):
    """One system table in a statement: its name, its argument, and its place."""

    name: str
    argument: str | None
    start: int
    stop: int


@dataclass(frozen=True)
class Statement:
    """One statement: its whole text and its own tokens, without EXPLAIN in front if `is_explain`.

    `shows_sql`: it was `EXPLAIN (sql)`. `is_described`: DESCRIBE was in front.

    Under a policy, the policy states the privacy unit and may state domains. `selects` and
    `system_tables` raise a QueryError for a DP call or a system table that cannot be read.
    """

    text: str
    tokens: Tokens
    under_policy: bool = False
    is_explain: bool = False
    shows_sql: bool = False
    is_described: bool = False

    @property
    def keyword(self) -> str:
        """Its first word, in upper case; nothing if it begins with a bracket."""
        return self.tokens.at(0).upper

    @property
    def may_be_query(self) -> bool:
        """Whether it begins as a query, or with a bracket."""
        return self.keyword in QUERY or self.tokens.at(0).is_symbol("(")

    @property
    def is_query(self) -> bool:
        """Whether it begins as a query, also in brackets."""
        return next((t.upper for t in self.tokens if not t.is_symbol("(")), "") in QUERY

    def without_explain(self) -> Statement:
        """The statement behind EXPLAIN."""
        shows_sql = [token.text.upper() for token in self.tokens[1:4]] == ["(", "SQL", ")"]
        behind = self.tokens[4 if shows_sql else 1 :]
        return replace(self, tokens=behind, is_explain=True, shows_sql=shows_sql)

    def without_describe(self) -> Statement | None:
        """The query behind DESCRIBE (DESC); None if no query is there."""
        behind = Statement(self.text, self.tokens[1:], self.under_policy, is_described=True)
        return behind if self.keyword in {"DESCRIBE", "DESC"} and behind.is_query else None

    @cached_property
    def has_no_rows(self) -> bool:
        """Whether it is a query whose end lets no row pass: LIMIT 0, or WHERE FALSE.

        An aggregate makes one row of none, so a list before WHERE must not call anything.
        """
        if not self.is_query:
            return False
        words = [token.upper or token.text for token in self.tokens]
        if words[-2:-1] == ["OFFSET"] and words[-1].isdecimal():
            words = words[:-2]
        if words[-2:] == ["LIMIT", "0"]:
            return True
        try:
            clauses = enclosing_select(self.tokens, len(words) - 1).clauses
        except ParseError:  # of brackets that are not closed
            return False
        last, is_union = clauses[-1:], {"UNION", "INTERSECT", "EXCEPT"} & {*words}
        if is_union or not last or last[0].keyword != "WHERE":
            return False
        listed = [words[one.start : one.stop] for one in clauses if one.keyword == "SELECT"]
        return words[last[0].start + 1 :] in _NEVER and not any("(" in one for one in listed)

    @cached_property
    def around_calls(self) -> Tokens:
        """Its tokens outside its DP calls and their sources."""
        spans = [select.source for select in self.selects]
        return self.tokens.outside(spans + [span for s in self.selects for span in s.call_spans])

    @cached_property
    def around_sources(self) -> Tokens:
        """Its tokens outside its DP calls, their sources and conditions."""
        conditions = [one.condition for one in self.selects if one.condition is not None]
        return self.around_calls.outside(conditions)

    @cached_property
    def is_plain(self) -> bool:
        """Whether it has only columns and integers outside its DP calls, sources and conditions.

        These mean the same later; a function, an operator, a type or another relation may not, and
        a setting says whether DuckDB sorts by 1.5.
        """
        names = {folded(key.parts[-1]) for one in self.selects for key in one.keys}
        names |= {b.folded for a, b in pairwise(self.around_sources) if a.upper == "AS"}
        return all(
            word.upper in _PLAIN
            or (word.name is not None and word.folded in names)
            or (word.kind == "number" and word.text.isdecimal())
            or word.is_symbol(",", ".", ";")
            for word in self.around_sources
        )

    @property
    def span(self) -> Span:
        """Where it begins and ends in the text."""
        return self.tokens.span

    @property
    def query_start(self) -> int:
        """Where the query begins: behind the first AS in CREATE TABLE … AS."""
        start = self.span[0]
        if self.keyword != "CREATE":
            return start
        return next((b.start for a, b in pairwise(self.tokens) if a.upper == "AS"), start)

    @cached_property
    def selects(self) -> tuple[DpSelect, ...]:
        """Its SELECTs with DP calls, in the order of the text."""
        return read_selects(self.tokens, self.under_policy)

    @property
    def calls(self) -> list[DpCall]:
        """Its DP calls, in the order of the text."""
        return [call for select in self.selects for call in select.calls]

    @cached_property
    def system_tables(self) -> tuple[SystemTableCall, ...]:
        """The system tables that it reads."""
        tokens = self.tokens
        return tuple(
            _system_table(tokens, i)
            for i, token in tokens[:-1].calls()
            if (token.name or "").lower() in SYSTEM_TABLES and not tokens.at(i - 1).is_symbol(".")
        )

    @cached_property
    def ctes(self) -> frozenset[str]:
        """The folded names of its CTEs, outside of queries in brackets."""
        return frozenset(name for name, _ in ctes(self.tokens, 0, len(self.tokens)))


def parse(text: str, *, under_policy: bool = False) -> list[Statement]:
    """The statements of a string of SQL, cut at semicolons; ParseError for an open quote."""
    read = _parsed if len(text) <= SHORT else _parsed.__wrapped__
    return [*read(text, under_policy)]


@lru_cache(256)
def _parsed(text: str, under_policy: bool) -> tuple[Statement, ...]:
    return tuple(Statement(text, tokens, under_policy) for tokens in statements(text))


def _system_table(tokens: Tokens, index: int) -> SystemTableCall:
    """The system table whose name is `tokens[index]`; its argument follows in brackets."""
    name, start = (tokens[index].name or "").lower(), tokens[index].start
    first, last = tokens[index + 2], tokens.at(index + 3)
    if name != "dp_release":
        if first.is_symbol(")"):
            return SystemTableCall(name, None, start, first.end)
        raise first.error(ArgumentError, f"{name} takes no arguments.", f"FROM {name}()")
    if last.is_symbol(")") and len(first.text) > 1 and first.text[0] == first.text[-1] == "'":
        return SystemTableCall(name, first.text[1:-1].replace("''", "'"), start, last.end)
    message = "dp_release takes the id of a release, as a string."
    raise first.error(ArgumentError, message, "FROM dp_releases() lists them.")

"""One statement, parsed once: its kind, clauses, DP calls and system tables. Pure: no catalog.

Whether the source of a DP call is person-level is decided in privacy/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dp_sql.errors import ArgumentError
from dp_sql.sql.clauses import cte_bodies
from dp_sql.sql.dp_select import DpSelect, Span, read_selects
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import Token, statements

QUERY = frozenset({"SELECT", "FROM", "WITH", "VALUES"})
"""The keywords that begin a query."""
SYSTEM_TABLES = ("dp_budget", "dp_ledger", "dp_releases", "dp_release")
"""Table functions of dp_sql; a statement reads them as tables."""


def mentions_dp(text: str) -> bool:
    """Whether SQL may contain a DP call; all other SQL goes to DuckDB unread.

    >>> mentions_dp("SELECT count(*) FROM t"), mentions_dp("SELECT dp_topk(a, 3) FROM t")
    (False, True)
    """
    upper = text.upper()
    return any(name in upper for name in FUNCTIONS)


def mentions_system_tables(text: str) -> bool:
    """Whether SQL may read a system table."""
    lower = text.lower()
    return any(name in lower for name in SYSTEM_TABLES)


@dataclass(frozen=True)
class SystemTableCall:
    """One system table in a statement: its name, its argument, and its place."""

    name: str
    argument: str | None
    start: int
    stop: int


@dataclass(frozen=True)
class Statement:
    """One statement of a string of SQL.

    Args:
        text: the whole text, for places in messages.
        tokens: of this statement, without EXPLAIN in front if `is_explain`.
        under_policy: the policy states the privacy unit and may state domains.
        is_explain: whether it asks what its DP calls would cost.

    Raises:
        QueryError: on first use of `selects` or `system_tables`, for a DP call or a system table
            that cannot be read.
    """

    text: str
    tokens: Sequence[Token]
    under_policy: bool = False
    is_explain: bool = False

    @property
    def keyword(self) -> str:
        """Its first word, in upper case; nothing if it begins with a bracket."""
        return self.tokens[0].upper if self.tokens else ""

    @property
    def may_be_query(self) -> bool:
        """Whether it begins as a query, or with a bracket."""
        return self.keyword in QUERY or (bool(self.tokens) and self.tokens[0].is_symbol("("))

    @property
    def is_query(self) -> bool:
        """Whether it begins as a query, also in brackets."""
        inside = next((t for t in self.tokens if not t.is_symbol("(")), None)
        return inside is not None and inside.upper in QUERY

    def without_explain(self) -> Statement:
        """The statement behind EXPLAIN."""
        return Statement(self.text, self.tokens[1:], self.under_policy, is_explain=True)

    @property
    def span(self) -> Span:
        """Where it begins and ends in the text."""
        return self.tokens[0].start, self.tokens[-1].end

    @cached_property
    def selects(self) -> tuple[DpSelect, ...]:
        """Its SELECTs with DP calls, in the order of the text."""
        return read_selects(self.text, self.tokens, self.under_policy)

    @cached_property
    def system_tables(self) -> tuple[SystemTableCall, ...]:
        """The system tables that it reads."""
        return tuple(_system_tables(self.text, self.tokens))

    @cached_property
    def ctes(self) -> dict[str, str]:
        """The bodies of the CTEs at its head, by folded name."""
        spans = cte_bodies(self.tokens, self.text)
        return {name: self.text[slice(*span)] for name, span in spans.items()}


def parse(text: str, *, under_policy: bool = False) -> list[Statement]:
    """The statements of SQL, cut at the semicolons outside brackets; empty ones left out.

    Raises:
        ParseError: a quote or comment is never closed, or a character cannot be read.
    """
    return [Statement(text, tokens, under_policy) for tokens in statements(text)]


# --- system tables --------------------------------------------------------------------------------


def _system_tables(text: str, tokens: Sequence[Token]) -> list[SystemTableCall]:
    found = []
    for i, token in enumerate(tokens[:-2]):
        name = (token.name or "").lower()
        if name in SYSTEM_TABLES and tokens[i + 1].is_symbol("("):
            if i and tokens[i - 1].is_symbol("."):
                continue
            argument, stop = _argument(text, tokens[i + 2 : i + 4], name)
            found.append(SystemTableCall(name, argument, token.start, stop))
    return found


def _argument(text: str, inside: Sequence[Token], name: str) -> tuple[str | None, int]:
    """The argument in the brackets, and where the brackets end."""
    first, last = inside[0], inside[-1]
    if name != "dp_release":
        if first.is_symbol(")"):
            return None, first.end
        message, hint = f"{name} takes no arguments.", f"FROM {name}()"
    else:
        written = first.text
        if last.is_symbol(")") and len(written) > 1 and written[0] == written[-1] == "'":
            return written[1:-1].replace("''", "'"), last.end
        message = "dp_release takes the id of a release, as a string."
        hint = "FROM dp_releases() lists them."
    raise ArgumentError(message, text=text, position=first.start, hint=hint)

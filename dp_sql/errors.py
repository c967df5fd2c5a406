"""All errors that dp_sql raises. None carries a value from the data.

DpSqlError
├── QueryError            your statement is refused; says why, where, and what would work
│   ├── ParseError        a part that dp_sql must read cannot be read
│   ├── ArgumentError     an argument is missing, unknown, misplaced or out of range
│   ├── NotPrivate        the source is not provably a union of people's own rows
│   ├── NotSupported      a place or form of statement that is not supported
│   ├── SourceError       DuckDB cannot bind or run the source of a DP call
│   └── BudgetExceeded    the answer would cost more than is left
├── PolicyError           the policy cannot be read, or does not fit the database
├── LedgerError           the ledger is missing, damaged, outdated or not writable
└── InternalError         a bug of dp_sql
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

_AROUND = 100  # characters of a line that are shown on each side of the caret


class DpSqlError(Exception):
    """The root of every error that dp_sql raises."""


class InternalError(DpSqlError):
    """A bug of dp_sql. Nothing was released; please report the statement."""


class PolicyError(DpSqlError):
    """The policy cannot be read, is contradictory, or does not fit the database."""


class LedgerError(DpSqlError):
    """The ledger of a budget cannot be trusted or written; nothing is answered until it can."""


class QueryError(DpSqlError):
    """Your statement is refused: what is wrong, where (in characters), and what would work."""

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        position: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.text, self.position, self.hint = message, text, position, hint
        self.line: int | None = None  # of the position, from 1; so is the column
        self.column: int | None = None
        if text is not None and position is not None:
            self.line = text.count("\n", 0, position) + 1
            self.column = position - text.rfind("\n", 0, position)
        super().__init__("\n".join(self._lines()))

    def at(self, text: str, position: int) -> QueryError:
        """The same error with a position, unless it has one."""
        if self.position is not None:
            return self
        return type(self)(self.message, text=text, position=position, hint=self.hint)

    def _lines(self) -> list[str]:
        lines = [self.message]
        if self.text is not None and self.position is not None and self.column is not None:
            start, end = self.position - self.column + 1, self.text.find("\n", self.position)
            end = len(self.text) if end < 0 else end
            first, last = max(start, self.position - _AROUND), min(end, self.position + _AROUND)
            before, after = "… " * (first > start), " …" * (last < end)
            prefix = f"LINE {self.line}: "
            # A tab must stay a tab, for the caret to be under its character.
            up_to_caret = before + self.text[first : self.position]
            pad = "".join("\t" if c == "\t" else " " for c in prefix + up_to_caret)
            lines += ["", prefix + before + self.text[first:last] + after, pad + "^"]
            if self.hint:
                lines.append("")
        return [*lines, self.hint] if self.hint else lines


class ParseError(QueryError):
    """A part of the statement that dp_sql must read cannot be read."""


class ArgumentError(QueryError):
    """An argument of a DP call is missing, unknown, misplaced or out of range."""


class NotPrivate(QueryError):
    """The source of a DP call is not provably a union of people's own rows."""


class NotSupported(QueryError):
    """The statement, or the place or form of a DP call in it, is not supported."""


class SourceError(QueryError):
    """DuckDB cannot bind or run the source of a DP call."""


class BudgetExceeded(QueryError):
    """The answer would cost more than is left of the budget; nothing was spent or read."""


def with_type(error: BaseException) -> str:
    """An error as people read it.

    >>> print(with_type(PolicyError("The policy p.toml cannot be read.")))
    PolicyError: The policy p.toml cannot be read.
    """
    return f"{type(error).__name__}: {error}"


def guess(name: str, known: Collection[str]) -> str:
    """' Did you mean …?' for a mistyped name; empty where no known name is close."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""

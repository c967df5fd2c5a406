"""What can go wrong, in words that help and never carry data.

The tree::

    DpSqlError
    ├── QueryError            your statement; says where, why, and what would work
    │   ├── ParseError        we cannot read this part of the text
    │   ├── ArgumentError     an argument of a DP call is missing, misplaced or out of range
    │   ├── NotPrivate        we cannot prove that the source is a union of people's own rows
    │   ├── NotSupported      a place or form of a DP call that has no meaning (or none yet)
    │   ├── SourceError       DuckDB cannot run the source of a DP call
    │   └── BudgetExceeded    the answer would cost more than is left
    ├── PolicyError           the policy file says something that no policy says
    ├── LedgerError           the budget's book is missing, damaged, outdated or not writable
    └── InternalError         our bug, never yours
"""

from __future__ import annotations

_AROUND = 100  # characters of a line that are shown on each side of the caret


class DpSqlError(Exception):
    """The root of every error that dp_sql raises."""


class InternalError(DpSqlError):
    """A bug of dp_sql. Nothing was released; please report the statement."""


class PolicyError(DpSqlError):
    """The policy file cannot be read, or says something that no policy says; with the line."""


class LedgerError(DpSqlError):
    """The book of a budget cannot be trusted or written; nothing is answered until it can."""


class QueryError(DpSqlError):
    """Your statement asks for something that dp_sql refuses.

    Args:
        message: one sentence: what is wrong.
        text: the statement, to draw the caret under; None where there is none.
        position: offset into `text`, in characters, of the offending part.
        hint: what would work, where we know it.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        position: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.text = text
        self.position = position
        self.hint = hint
        super().__init__(self._render())

    def at(self, text: str, position: int) -> QueryError:
        """The same error with a place, for a caller that knows it."""
        if self.position is not None:
            return self
        return type(self)(self.message, text=text, position=position, hint=self.hint)

    @property
    def line(self) -> int | None:
        """Line of the offending part, from 1."""
        return None if self._place() is None else self._place()[0]  # type: ignore[index]

    @property
    def column(self) -> int | None:
        """Column of the offending part, from 1, in characters."""
        return None if self._place() is None else self._place()[1]  # type: ignore[index]

    def _place(self) -> tuple[int, int] | None:
        if self.text is None or self.position is None:
            return None
        before = self.text[: self.position]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1

    def _shown_line(self, column: int) -> tuple[str, int]:
        """The line of the offending part and its column there; a long line is cut around it."""
        assert self.text is not None and self.position is not None
        start, end = self.position - column + 1, self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        first = max(start, self.position - _AROUND)
        last = min(end, self.position + _AROUND)
        before, after = "… " * (first > start), " …" * (last < end)
        return before + self.text[first:last] + after, len(before) + self.position - first + 1

    def _render(self) -> str:
        lines = [self.message]
        place = self._place()
        if place is not None and self.text is not None:
            source, column = self._shown_line(place[1])
            # A tab must stay a tab for the caret to stand under its character.
            pad = "".join("\t" if c == "\t" else " " for c in source[: column - 1])
            prefix = f"LINE {place[0]}: "
            lines += ["", prefix + source, " " * len(prefix) + pad + "^"]
        if self.hint:
            lines += ["", self.hint] if place is not None else [self.hint]
        return "\n".join(lines)


class ParseError(QueryError):
    """A part of the text that we must understand, and do not."""


class ArgumentError(QueryError):
    """An argument of a DP call is missing, unknown, misplaced or out of range."""


class NotPrivate(QueryError):
    """The source of a DP call is not provably a union of people's own rows."""


class NotSupported(QueryError):
    """A DP call stands where it has no meaning, or none yet."""


class SourceError(QueryError):
    """DuckDB cannot bind or run what a DP call reads."""


class BudgetExceeded(QueryError):
    """The answer would cost more than is left of the budget; nothing was spent or read."""

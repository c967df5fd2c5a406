"""All errors that dp_sql raises. None carries a value from the data.

DpSqlError
├── QueryError            your statement is refused; says why, where, and what would work
│   ├── ParseError        a part that dp_sql must read cannot be read
│   ├── ArgumentError     an argument is missing, unknown, misplaced or out of range
│   ├── NotPrivate        private rows are read directly, or a row may depend on two people
│   ├── NotSupported      a place or form of statement that is not supported
│   ├── SourceError       DuckDB cannot bind or run the source of a DP call, or the rest
│   └── BudgetExceeded    the answer would cost more than is left
├── PolicyError           the policy cannot be read, or does not fit the database
├── LedgerError           the ledger is missing, damaged, outdated or not writable
└── InternalError         a bug of dp_sql
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

WRITE_INSTEAD, OTHER_QUESTION = "Write instead:", "A different question that works:"
_WIDTH = 80  # columns of the line above the caret
_BEFORE = 45  # of these, how many may lie before the caret


class DpSqlError(Exception):
    """The root of every error that dp_sql raises."""


class InternalError(DpSqlError):
    """A bug in dp_sql. No answer came, but its cost may be spent; please report the statement."""


class PolicyError(DpSqlError):
    """The policy cannot be read, is contradictory, or does not fit the database."""


class LedgerError(DpSqlError):
    """The ledger of a budget cannot be trusted or written; nothing is answered until it can."""


class QueryError(DpSqlError):
    """The statement was refused, or its release failed: what is wrong, where, and what would work.

    `instead` are statements that may work; a session tries them, and `suggestion` is the first that
    does. `asks_other`: it does not answer the same question.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        position: int | None = None,
        hint: str | None = None,
        instead: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message, self.text, self.position, self.hint = message, text, position, hint
        self.instead, self.suggestion, self.asks_other = tuple(instead), "", False
        self.names: Sequence[str] = ()  # what a mistyped name may mean
        self.public: Sequence[str] = ()  # sets in `instead` that are known to be public
        self.unknown = ""  # the column that the source does not have
        self.line: int | None = None  # of the position, from 1; so is the column
        self.column: int | None = None
        if text is not None and position is not None:
            self.line = text.count("\n", 0, position) + 1
            self.column = position - text.rfind("\n", 0, position)

    def at(self, text: str, position: int, instead: Sequence[str] = ()) -> QueryError:
        """This error with a position, unless it has one."""
        if self.position is not None:
            return self
        known = {"hint": self.hint, "instead": self.instead or instead}
        return type(self)(self.message, text=text, position=position, **known)  # type: ignore[arg-type]

    def __str__(self) -> str:
        shown = self.message
        if self.text is not None and self.position is not None and self.column is not None:
            start, end = self.position - self.column + 1, self.text.find("\n", self.position)
            line = self.text[start : end if end >= 0 else None]
            shown += "\n\n" + _with_caret(f"LINE {self.line}: ", line, self.column - 1)
        if self.hint:
            is_apart = self.suggestion or shown != self.message
            shown += ("\n\n" if is_apart else "\n") + self.hint
        introduced = OTHER_QUESTION if self.asks_other else WRITE_INSTEAD
        return f"{shown}\n\n{introduced}\n{self.suggestion}" if self.suggestion else shown


class ParseError(QueryError):
    """A part of the statement that dp_sql must read cannot be read."""


class ArgumentError(QueryError):
    """An argument of a DP call is missing, unknown, misplaced or out of range."""


class NotPrivate(QueryError):
    """Private rows are read without a DP call, or a row of a source may depend on two people."""


class NotSupported(QueryError):
    """The statement, or the place or form of a DP call in it, is not supported."""


class SourceError(QueryError):
    """DuckDB cannot bind or run the source of a DP call, or the statement around it."""


class BudgetExceeded(QueryError):
    """The answer would cost more than is left of the budget; nothing was spent or read."""


def with_type(error: BaseException) -> str:
    """An error as people read it.

    >>> print(with_type(PolicyError("The policy p.toml cannot be read.")))
    PolicyError: The policy p.toml cannot be read.
    """
    return f"{type(error).__name__}: {error}"


def guessed(name: str, known: Collection[str], close: float = 0.6) -> str:
    """The known name that a mistyped one ends, or is closest to; empty where none is close."""
    import difflib  # for errors alone

    ended = [one for one in known if one.endswith(f".{name}")]
    return next(iter(ended or difflib.get_close_matches(name, known, n=1, cutoff=close)), "")


def guess(name: str, known: Collection[str], close: float = 0.6) -> str:
    """' Did you mean …?' for a mistyped name; empty where no known name is close."""
    near = guessed(name, known, close)
    return f" Did you mean {near}?" if near else ""


def _with_caret(prefix: str, line: str, place: int) -> str:
    """A line, shortened between words to what a terminal shows, and a caret under one place."""
    start = max(0, place - 2 * _WIDTH)  # a line may be long
    end = min(len(line), place + 2 * _WIDTH)
    if _columns(line[start:place]) > _BEFORE:
        while _columns(line[start:place]) > _BEFORE - 2:
            start += 1
        start = line.find(" ", start, place) + 1 or start
        prefix += "… "
    room = _WIDTH - _columns(prefix + line[start:place])
    after = ""
    if _columns(line[place:]) > room:
        while end > place + 1 and _columns(line[place:end]) > room - 2:
            end -= 1
        space, after = line.rfind(" ", place, end), " …"
        end = space if space > place else end
    pad = "".join(
        " " * _columns(c) if c != "\t" else c for c in _clusters(prefix + line[start:place])
    )
    return f"{prefix}{line[start:end].rstrip()}{after}\n{pad}^"


def _columns(text: str) -> int:
    """How many columns of a terminal a string takes.

    >>> _columns("Dune"), _columns("砂丘"), _columns("e\u0301"), _columns("👩\u200d🚀")
    (4, 4, 1, 2)
    """
    return sum(
        1 + (unicodedata.east_asian_width(cluster[0]) in "WF") for cluster in _clusters(text)
    )


def _clusters(text: str) -> list[str]:
    """The characters as people see them: with their accents, and joined emoji as one."""
    found: list[str] = []
    for char in text:
        joins = unicodedata.category(char) in {"Mn", "Me", "Cf"}
        if found and (joins or "\U0001f3fb" <= char <= "\U0001f3ff" or found[-1][-1] == "\u200d"):
            found[-1] += char
        else:
            found.append(char)
    return found

"""What the owner's tools ask of a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dp_sql.sql.formatting import full_name
from dp_sql.sql.tokens import folded


@dataclass(frozen=True)
class ForeignKey:
    """Columns of a table that equal the `keys` of another one, by its full name."""

    columns: tuple[str, ...]
    table: tuple[str, str, str]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """A table or view: its full name, its columns with their types, and its keys.

    files: the paths or patterns of the files whose rows are the table's; then it is not a view.
    definition: the SQL that created a view.
    """

    parts: tuple[str, str, str]
    is_view: bool
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...] = ()
    references: tuple[ForeignKey, ...] = ()
    files: tuple[str, ...] = ()
    definition: str = ""

    @property
    def sql(self) -> str:
        """The full name in SQL."""
        return full_name(self.parts)

    def is_called(self, name: Sequence[str]) -> bool:
        """Whether a folded name (table, schema.table or database.schema.table) may mean this."""
        return tuple(folded(part) for part in self.parts)[-len(name) :] == tuple(name)

    def type_of(self, column: str) -> str | None:
        """The type of a column; None where there is no such column."""
        return next((kind for name, kind in self.columns if folded(name) == folded(column)), None)


class Catalogue(Protocol):
    """A database as its owner sees it; what reads rows raises SourceError on failure."""

    def listed(self) -> Sequence[Listed]:
        """The tables and views, except temporary ones."""

    def replaced_functions(self) -> Sequence[str]:
        """Names of users' macros and functions that replace built-in functions."""

    def finds(self, select: str) -> bool:
        """Whether a SELECT returns a row."""

    def public_number(self, select: str) -> int:
        """The number that a SELECT over public tables returns."""

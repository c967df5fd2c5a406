"""What a person-level source is made of: tables, UNION ALL and SELECTs, as a tree.

person_level.py builds these trees and proves them person-level; person_sql.py writes them as SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Parts = tuple[str, ...]
"""A relation's full name as DuckDB spells it: database, schema, name."""
_COLUMN = re.compile(r"r\d+c\d+", re.ASCII)
_TEXT = r"'(?:[^']|'')*'"
_COMPARED = re.compile(
    rf'\(?\(?r\d+c\d+\)?(?: COLLATE "binary")? (?:[=<>]|<=|>=|<>) '
    rf"(?:{_TEXT}|CAST\({_TEXT} AS [\w(), ]+\))\)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Table:
    """A table of the database; `columns` are quoted names.

    person: the column that identifies the person of each row; None: a public table.
    """

    name: Parts
    columns: tuple[str, ...]
    types: tuple[str, ...]
    person: int | None = None

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.person is not None


@dataclass(frozen=True)
class LinkedTable:
    """A private table whose rows belong to the people of another: its `column` is that `key`."""

    table: Table
    column: int
    owner: Relation
    key: int
    is_private = True

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its columns."""
        return self.table.types


@dataclass(frozen=True)
class UnionAll:
    """The rows of both sides."""

    left: Relation
    right: Relation

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people; both sides agree in that."""
        return self.left.is_private

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its columns."""
        return self.left.types


@dataclass(frozen=True)
class LeftJoin:
    """What ON says of one relation of a LEFT JOIN: equal columns, and other conditions."""

    number: int
    equal: tuple[tuple[str, str], ...]
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """GROUP BY within each person's rows.

    keys: expressions; the person is a key besides.
    is_whole: whether there is one group for each person.
    counts_rows: whether an aggregate uses how often a row occurs, as count(*) and sum do.
    """

    keys: tuple[str, ...]
    is_whole: bool
    having: str | None
    counts_rows: bool


@dataclass(frozen=True)
class Select:
    """A SELECT. In its expressions r0c1 is column 1 of relation 0 of FROM.

    equal: the columns that inner joins compare.
    left_joins: the relations that are joined by LEFT JOIN; all others are joined by JOIN.
    where: the conditions of WHERE and of inner joins; all must hold.
    values: its columns, as expressions. types: their types.
    looked_in: the public relations that its IN (…) read, as SQL, and their tables.
    """

    relations: tuple[Relation, ...]
    equal: tuple[tuple[str, str], ...]
    left_joins: tuple[LeftJoin, ...]
    where: tuple[str, ...]
    values: tuple[str, ...]
    types: tuple[str, ...]
    distinct: bool = False
    group: Group | None = None
    looked_in: tuple[tuple[str, frozenset[Parts]], ...] = ()

    @cached_property
    def is_private(self) -> bool:
        """Whether its rows belong to people: whether one of its relations is private."""
        return any(relation.is_private for relation in self.relations)


Relation = Table | LinkedTable | UnionAll | Select


def is_plain(relation: Relation) -> bool:
    """Whether reading a relation is reading a table: columns of it, as they are stored."""
    if isinstance(relation, Select):
        is_bare = not relation.where and not relation.distinct and relation.group is None
        return (
            len(relation.relations) == 1
            and is_bare
            and all(_COLUMN.fullmatch(value) for value in relation.values)
            and is_plain(relation.relations[0])
        )
    return isinstance(relation, Table)


Reading = Literal["scan", "join", "whole"]
"""How a source is read: the rows of tables one by one; the same beside public rows; or so that an
operator waits for all rows, or a condition is not one that each block of a table can answer."""


def reading_of(relation: Relation, known: dict[int, Reading] | None = None) -> Reading:
    """How a relation is read where no join multiplies rows.

    known: of relations that occur several times, by id.
    """
    known = {} if known is None else known
    if id(relation) not in known:
        inner: tuple[Relation, ...] = ()
        found: Reading = "whole"
        match relation:
            case Table():
                found = "scan"
            case UnionAll():
                inner, found = (relation.left, relation.right), "scan"
            case Select() if _is_bare(relation):
                inner = tuple(one for one in relation.relations if one.is_private)
                found = "scan" if len(relation.relations) == 1 else "join"
                found = found if len(inner) <= 1 else "whole"
        order: tuple[Reading, ...] = ("whole", "join", "scan")
        known[id(relation)] = min(
            [found, *(reading_of(one, known) for one in inner)], key=order.index
        )
    return known[id(relation)]


def _is_bare(select: Select) -> bool:
    """Whether a SELECT only compares columns with literals, and joins by equal columns."""
    is_grouped = select.distinct or select.group is not None or select.left_joins
    return not is_grouped and all(_COMPARED.fullmatch(term) for term in select.where)


def name_of(relation: Relation) -> str:
    """What a message calls a relation."""
    match relation:
        case Table():
            return relation.name[-1]
        case LinkedTable():
            return relation.table.name[-1]
        case _:
            return "a subquery"

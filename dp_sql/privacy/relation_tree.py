"""What a person-level source is made of: tables, UNION ALL and SELECTs, as a tree.

relations.py builds these trees and proves them person-level; relation_sql.py writes them as SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from dp_sql.sql.formatting import full_name

Parts = tuple[str, ...]
"""A relation's full name as DuckDB spells it: database, schema, name."""
_COLUMN = re.compile(r"r\d+c\d+", re.ASCII)


@dataclass(frozen=True)
class Table:
    """A table of the database, a file or a dataframe; `columns` are SQL.

    person: the column that identifies the person of each row; None: a public table.
    function: the call of a table function that it is, as SQL; "" for all that has a name.
    """

    name: Parts
    columns: tuple[str, ...]
    types: tuple[str, ...]
    person: int | None = None
    function: str = ""

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.person is not None

    @property
    def is_stored(self) -> bool:
        """Whether it is a base table of the database."""
        return len(self.name) > 1 and not self.function

    @property
    def source(self) -> str:
        """What FROM reads, as SQL."""
        return self.function or full_name(self.name)


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


def reads_one_table(relation: Relation) -> bool:
    """Whether a relation is the rows of one base table that its conditions keep."""
    if isinstance(relation, Select):
        is_bare = not relation.distinct and relation.group is None and not relation.looked_in
        return len(relation.relations) == 1 and is_bare and reads_one_table(relation.relations[0])
    return isinstance(relation, Table) and relation.is_stored


def name_of(relation: Relation) -> str:
    """What a message calls a relation."""
    match relation:
        case Table():
            return relation.name[-1]
        case LinkedTable():
            return relation.table.name[-1]
        case _:
            return "a subquery"

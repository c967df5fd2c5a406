"""What a person-level source is made of: tables, UNION ALL and SELECTs, as a tree.

source_compiler.py builds these trees and proves them person-level; tree_sql.py writes them as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import Parts
from dp_sql.sql.formatting import full_name, unquoted
from dp_sql.sql.types import as_key

_COLUMN = re.compile(r"\br(\d+)c(\d+)\b")


class Table(NamedTuple):
    """A table of the database, a file, a dataframe or VALUES; `columns` are SQL.

    person: the column that identifies the person of each row; None: a public table.
    function: the call of a table function that it is, or its rows as VALUES, as SQL.
    primary_key: the columns that no two rows share; empty where no such columns are known.
    """

    name: Parts
    columns: tuple[str, ...]
    types: tuple[str, ...]
    person: int | None = None
    function: str = ""
    primary_key: frozenset[int] = frozenset()

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.person is not None

    def column_name(self, index: int) -> str:
        """The name of a column, which may be read as another type."""
        column = self.columns[index]
        if column.startswith("CAST("):
            column = column.removeprefix("CAST(").rpartition(" AS ")[0]
        return unquoted(column)

    @property
    def is_stored(self) -> bool:
        """Whether it is a base table of the database."""
        return len(self.name) > 1 and not self.function

    @property
    def is_written(self) -> bool:
        """Whether the statement itself writes its rows out."""
        return self.name == ("VALUES",) and bool(self.function)  # a dataframe may be called so

    @property
    def source(self) -> str:
        """What FROM reads, as SQL."""
        return self.function or full_name(self.name)


class LinkedTable(NamedTuple):
    """A private table whose rows belong to the people of another: its `column` is that `key`."""

    table: Table
    column: int
    owner: Relation
    key: int

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return True

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its columns."""
        return self.table.types


class UnionAll(NamedTuple):
    """The rows of both sides, which have the same types and are both private or both public."""

    left: Relation
    right: Relation

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.left.is_private

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its columns."""
        return self.left.types


class Unnest(NamedTuple):
    """The rows of a relation, once for each element of the list in one `column`."""

    relation: Relation
    column: int

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.relation.is_private

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its columns: of the list, that of its elements."""
        types = [*self.relation.types]
        types[self.column] = types[self.column].removesuffix("[]")
        return tuple(types)


class WindowFunction(NamedTuple):
    """A window function over one person's rows, whose columns are places of its relation.

    arguments: as SQL; the first and the third may be columns c0, c1, …. partition: columns, besides
    the person. order: columns and their ways, such as DESC NULLS LAST. has_ties: whether rows with
    equal keys have the same value, as with rank(); else the values of the other columns order
    these. frame: which rows are read, as SQL; "" for the default.
    """

    name: str
    arguments: str
    partition: tuple[int, ...]
    order: tuple[tuple[int, str], ...]
    has_ties: bool = False
    frame: str = ""

    @property
    def reads(self) -> set[int]:
        """The columns that it reads."""
        named = re.match(r"(?:DISTINCT )?c(\d+)(?:, \d+, c(\d+)\Z)?", self.arguments)
        read = {int(place) for place in named.groups() if place} if named else set[int]()
        return {*self.partition, *(place for place, _ in self.order)} | read


class Windows(NamedTuple):
    """The rows of a private relation, with window functions as further columns."""

    relation: Relation
    functions: tuple[WindowFunction, ...]
    types: tuple[str, ...]

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return True


class LeftJoin(NamedTuple):
    """What ON says of one relation of a LEFT JOIN: equal columns, and other conditions.

    is_semi: a semi join, which only shows whether a row has a match. The first column of its
    relation is 1, and all others are compared. A row has one match at most, so it multiplies none.
    """

    number: int
    equal: tuple[tuple[str, str], ...]
    terms: tuple[str, ...] = ()
    is_semi: bool = False


class Group(NamedTuple):
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
    looked_in: what its IN (…) read: public relations as SQL, their tables, and as they are here.
    """

    relations: tuple[Relation, ...]
    equal: tuple[tuple[str, str], ...]
    left_joins: tuple[LeftJoin, ...]
    where: tuple[str, ...]
    values: tuple[str, ...]
    types: tuple[str, ...]
    distinct: bool = False
    group: Group | None = None
    looked_in: tuple[tuple[str, frozenset[Parts], Relation], ...] = ()

    @cached_property
    def first_private(self) -> int | None:
        """The first private relation of FROM; None where all are public."""
        return next((n for n, one in enumerate(self.relations) if one.is_private), None)

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.first_private is not None

    @property
    def is_bare(self) -> bool:
        """Whether it has one relation, whose rows it neither groups nor makes distinct."""
        return len(self.relations) == 1 and not self.distinct and self.group is None

    @cached_property
    def left(self) -> dict[int, LeftJoin]:
        """The LEFT JOINs by the numbers of their relations."""
        return {join.number: join for join in self.left_joins}

    def is_semi(self, number: int) -> bool:
        """Whether a relation is there for a semi join."""
        return number in self.left and self.left[number].is_semi

    def is_compared(self, number: int) -> bool:
        """Whether a relation is there for a semi join on more than equal columns."""
        return self.is_semi(number) and bool(self.on_beside(number))

    def type_of(self, column: str) -> str:
        """The type of a column such as r0c1."""
        number, index = place_of(column)
        return self.relations[number].types[index]

    def columns_of(self, number: int, columns: Collection[str]) -> list[int]:
        """The numbers, in order, of the columns that are of one relation."""
        every = range(len(self.relations[number].types))
        return [i for i in every if f"r{number}c{i}" in columns]

    def split_conditions(self) -> tuple[dict[int, list[str]], list[str]]:
        """The conditions that concern one relation alone, by its number; and all others."""
        own, rest = dict[int, list[str]](), list[str]()
        known = {*range(len(self.relations))}
        for condition in self.where:
            numbers = relations_in(condition) & known
            if len(numbers) == 1 and not numbers & self.left.keys():
                own.setdefault(min(numbers), []).append(condition)
            else:
                rest.append(condition)
        for join in self.left_joins:
            own[join.number] = [term for term in join.terms if relations_in(term) == {join.number}]
        return own, rest

    def join_order(self) -> list[int]:
        """The relations in the order in which they are joined: the first private one first.

        An inner join waits for one of its equal columns, a LEFT JOIN for everything that ON names.
        """
        found = [self.first_private or 0]
        waiting = [n for n in range(len(self.relations)) if n not in found]
        while waiting:
            ready = next((n for n in waiting if self._is_ready(n, found)), None)
            if ready is None:
                raise NotSupported(
                    "These joins cannot begin with the private table.",
                    hint="Write the private table first in FROM, and join the others to it.",
                )
            found.append(ready)
            waiting.remove(ready)
        return found

    def _is_ready(self, number: int, found: Collection[int]) -> bool:
        named = {n: relations_in(*j.terms, *chain(*j.equal)) for n, j in self.left.items()}
        if number in named:
            return named[number] - {number} <= set(found)
        pairs = [pair for pair in (relations_in(*equal) for equal in self.equal) if number in pair]
        others = set().union(*pairs) - {number}
        if others & self.left.keys() - set(found):
            return False
        # A join with a public relation may compare no columns.
        is_free = not pairs and not any(number in numbers for numbers in named.values())
        return bool(others & set(found)) or self.relations[number].is_private or is_free

    def equal_pairs(self, number: int, before: Collection[int]) -> list[tuple[str, str]]:
        """The equal columns that join a relation to those before it: theirs, and its own."""
        pairs = self.left[number].equal if number in self.left else self.equal
        own, known = {number}, {*before}
        turned = [(a, b) if relations_in(b) == own else (b, a) for a, b in pairs]
        return [(a, b) for a, b in turned if relations_in(b) == own and relations_in(a) <= known]

    def on_equal(self, number: int, before: Sequence[int]) -> list[str]:
        """The comparisons that join a relation to those before it."""
        equal = [
            f"{as_key(a, self.type_of(a))[0]} = {as_key(b, self.type_of(b))[0]}"
            for a, b in self.equal_pairs(number, before)
        ]
        people = [f"r{before[0]}p = r{number}p"] if self.relations[number].is_private else []
        return people + equal

    def on_beside(self, number: int) -> list[str]:
        """What the ON of a LEFT JOIN says, beside equal columns, of more than the new relation."""
        terms = self.left[number].terms if number in self.left else ()
        return [term for term in terms if relations_in(term) != {number}]

    def on_terms(self, number: int, before: Sequence[int]) -> list[str]:
        """What ON says of a relation, once those before it are there."""
        return [*self.on_equal(number, before), *self.on_beside(number)] if before else []


Relation = Table | LinkedTable | UnionAll | Unnest | Windows | Select


def is_plain(relation: Relation) -> bool:
    """Whether reading a relation is reading a table: columns of it, as they are stored."""
    if isinstance(relation, Select):
        return (
            relation.is_bare
            and not relation.where
            and all(_COLUMN.fullmatch(value) for value in relation.values)
            and is_plain(relation.relations[0])
        )
    return isinstance(relation, Table)


def reads_one_table(relation: Relation) -> bool:
    """Whether a relation is the rows of one base table that its conditions keep."""
    if isinstance(relation, Select):
        is_bare = relation.is_bare and not relation.looked_in
        return is_bare and reads_one_table(relation.relations[0])
    return isinstance(relation, Table) and relation.is_stored


def place_of(column: str) -> tuple[int, int]:
    """The number of the relation of a column such as r0c1, and its own."""
    number, index = map(int, column[1:].split("c"))
    return number, index


def columns_in(expressions: Iterable[str]) -> set[str]:
    """The columns that some SQL names; a string that looks like one is named as well.

    >>> sorted(columns_in(["r0c1 = r1c0", "lower(r0c12)"]))
    ['r0c1', 'r0c12', 'r1c0']
    """
    return {found.group() for sql in expressions for found in _COLUMN.finditer(sql)}


def relations_in(*expressions: str) -> set[int]:
    """The relations whose columns some SQL names."""
    return {int(found[1]) for sql in expressions for found in _COLUMN.finditer(sql)}


def relations_below(relation: Relation) -> Iterator[Relation]:
    """A relation and all that it reads, each once, in the order of FROM."""
    seen: set[int] = set()
    waiting: list[Relation] = [relation]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        match one:
            case LinkedTable():
                waiting += [one.table, one.owner]
            case Unnest() | Windows():
                waiting.append(one.relation)
            case UnionAll():
                waiting += [one.right, one.left]
            case Select():
                waiting += reversed(one.relations)
